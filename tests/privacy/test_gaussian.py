"""The Gaussian's searches: the same bits as the libraries that are too slow to import, and on the safe side."""

from __future__ import annotations

import math
from itertools import product

import mpmath
import pytest
from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian

from causalveil.tasks.privacy.gaussian import _sigma_near, composed_epsilon, gaussian_delta, unit_sigma

EPSILONS = (
    1e-9,
    1e-6,
    0.001,
    0.0099,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.75,
    0.9,
    1.0,
    1.7,
    2.0,
    3.3,
    5.0,
    8.0,
    20.0,
    90.0,
    700.0,
)
DELTAS = (1e-300, 1e-30, 1e-12, 1e-9, 2.5e-7, 1e-6, 1e-5, 3e-4, 0.01, 0.1, 0.3, 0.49)


def test_root_is_that_of_dp_accounting_to_the_bit() -> None:
    for epsilon, delta in product(EPSILONS, DELTAS):
        assert _sigma_near(epsilon, delta) == float(get_sigma_gaussian(epsilon, delta)), (epsilon, delta)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
def test_noise_is_enough_and_hardly_more(epsilon: float, delta: float) -> None:
    sigma = unit_sigma(epsilon, delta)
    assert gaussian_delta(sigma, epsilon) <= delta < gaussian_delta(sigma * (1 - 1e-8), epsilon)


def test_epsilon_of_draws_is_enough_and_hardly_more() -> None:
    """Against the formula at 60 digits, and against dp-accounting, whose search is a float's."""
    for ratios, delta in product([(3.0,), (3.0, 5.0, 7.5), (0.7,) * 9, (40.0, 1e4)], [1e-9, 1e-5]):
        with mpmath.workdps(60):
            mu = mpmath.sqrt(sum(1 / mpmath.mpf(ratio) ** 2 for ratio in ratios))

            def delta_at(epsilon: float, mu: mpmath.mpf = mu) -> mpmath.mpf:
                e = mpmath.mpf(epsilon)
                return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)

            epsilon = composed_epsilon(ratios, delta)
            assert delta_at(epsilon) <= delta < delta_at(epsilon * (1 - 1e-11))
        assert epsilon == pytest.approx(get_epsilon_gaussian(float(1 / mu), delta), rel=1e-9)


def test_epsilon_at_the_ends() -> None:
    assert composed_epsilon((3.0,), 0.0) == math.inf
    assert composed_epsilon((3.0,), 0.5) == 0.0
