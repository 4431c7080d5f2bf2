"""What Lee et al. (2019) prove, against quadrature and worst cases: what holds, and what was printed and does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from causalveil.schemas.study import Estimand
from causalveil_replication.lee2019 import formulas
from causalveil_replication.lee2019.data import Subjects
from causalveil_replication.lee2019.estimates import matched, read_off_sensitivity, stratified, weighted

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@pytest.fixture
def sample() -> Subjects:
    random = np.random.default_rng(3)
    x = random.normal(size=(60, 4))
    x /= np.linalg.norm(x, axis=1).max()
    return Subjects(x, (random.random(60) < 0.4).astype(np.uint8), random.normal(1, 2, 60))


W = np.array([0.4, -0.2, 0.1, 0.3])


def test_lemma_3_is_the_expectation_and_the_first_papers_sign_is_not(sample: Subjects) -> None:
    """z'x_i is normal of deviation s |x_i|: one integral a unit, exact to rounding by Gauss and Hermite."""
    deviation = 0.9
    sign = np.where(sample.t != 0, 1.0, -1.0)
    spread = deviation * np.linalg.norm(sample.x, axis=1)
    noise = np.exp(-sign[:, None] * spread[:, None] * NODES) @ WEIGHTS
    expected = np.mean(sign * sample.y * (1 + np.exp(-sign * (sample.x @ W)) * noise))
    tau = weighted(sample, W)
    assert tau + formulas.bias(sample, W, deviation) == pytest.approx(expected, rel=1e-12)
    assert abs(tau + formulas.bias(sample, W, deviation, printed=True) - expected) > 0.04
    size = formulas.log10_bias(sample, W, deviation)
    assert size == pytest.approx(math.log10(abs(formulas.bias(sample, W, deviation))), rel=1e-9)
    assert formulas.log10_bias(sample, W, 60.0) > 308, "beyond the largest float"


@pytest.mark.parametrize("estimand", Estimand)
def test_lemma_3_of_every_estimand_is_the_bias_of_simulated_noise(sample: Subjects, estimand: Estimand) -> None:
    """400,000 seeded draws at s = 1; beyond 4 errors once in 16,000 times."""
    draws, random = 400_000, np.random.default_rng(5)
    noisy = W + random.normal(0, 1, (draws, 4))
    treated = sample.t != 0
    odds = np.exp(np.where(treated, -1.0, 1.0) * (noisy @ sample.x.T))
    plain = np.exp(np.where(treated, -1.0, 1.0) * (sample.x @ W))
    varies = {"ATE": np.ones(60), "ATT": ~treated, "ATC": treated}[estimand.value]
    moved = np.mean(np.where(treated, 1, -1) * sample.y * varies * (odds - plain), axis=1)
    error = float(np.std(moved)) / math.sqrt(draws)
    assert formulas.bias(sample, W, 1.0, estimand=estimand) == pytest.approx(np.mean(moved), abs=4 * error)


def test_lemma_6_holds_for_every_noise_of_that_length(sample: Subjects) -> None:
    """Opposite noise along every unit's row is the worst there is; outcomes of either sign."""
    deviation, failure = 0.3, 0.05
    eta = formulas.difference_bound(sample, W, deviation, failure)
    zeta = deviation * stats.chi.isf(failure / 2, 4)
    longest = np.linalg.norm(sample.x, axis=1).max()
    assert zeta * longest < formulas.OVERFLOW
    worst = max(
        abs(
            weighted(sample, W + zeta * row / np.linalg.norm(row))
            - weighted(sample, W - zeta * row / np.linalg.norm(row))
        )
        for row in sample.x
    )
    assert worst <= eta
    one = Subjects(np.array([[1.0]]), np.array([1], dtype=np.uint8), np.array([-2.0]))
    w = np.zeros(1)
    zeta = deviation * stats.chi.isf(failure / 2, 1)
    reached = abs(weighted(one, w + zeta) - weighted(one, w - zeta))
    assert reached == pytest.approx(formulas.difference_bound(one, w, deviation, failure), rel=1e-12)
    assert formulas.difference_bound(one, w, deviation, failure, printed=True) < 0, "a bound below zero"


def test_lemma_6s_step_fails_and_its_zeta_is_large_enough() -> None:
    z, x = np.array([1.0, -1.0]), np.array([1.0, 0.0])
    assert abs(z @ x) > abs(z.sum())
    for dimension in range(1, 201):
        for failure in (0.999, 0.5, 0.1, 0.05, 0.01, 1e-4):
            assert stats.chi.sf(math.sqrt(2 * dimension * math.log(2 / failure)), dimension) < failure / 2


def test_theorem_4s_bound_is_reached_and_the_printed_one_is_above_it() -> None:
    """A variable that is 0 or eta is at most 0 with probability 1 - mean/eta."""
    for share in np.linspace(0.001, 1, 1000):
        assert formulas.flip_bound(share * 3.0, 3.0) == pytest.approx(1 - share)
        assert formulas.flip_bound(share * 3.0, 3.0, printed=True) > formulas.flip_bound(share * 3.0, 3.0)
    assert formulas.flip_bound(-1.0, 3.0) == 1


def test_noise_keeps_a_wrong_sign_as_theorem_5_says() -> None:
    tau_n, deviation = -0.7, 1.3
    below = np.linspace(-12, -tau_n, 200_001)
    density = np.exp(-((below / deviation) ** 2) / 2) / deviation / math.sqrt(2 * math.pi)
    assert formulas.kept_wrong(tau_n, deviation) == pytest.approx(np.trapezoid(density, below), abs=1e-9)
    joint = formulas.joint_flip_bound(0.5, 2.0, deviation)
    assert joint == pytest.approx(0.75 * stats.norm.cdf(2.0 / deviation))


def test_the_sign_of_a_release_is_bounded_whatever_the_weighted_estimate_is_distributed_like() -> None:
    """Two points are the worst there is: every pair of a grid with that mean stays below, one comes near.

    The first case is the one that a bound with the mean in place of the random estimate breaks: -3 or 100, mean .1.
    """
    share = 99.9 / 103
    true = share * stats.norm.cdf(3) + (1 - share) * stats.norm.cdf(-100)
    assert true == pytest.approx(0.969, abs=1e-3)
    assert true <= formulas.wrong_sign_bound(0.1, 100.0, 1.0) <= true * 1.001
    for mean, eta, deviation in (
        (0.1, 100.0, 1.0),
        (0.5, 2.0, 1.3),
        (-0.5, 2.0, 0.4),
        (0.2, 1.0, 50.0),
        (1.9, 2.0, 0.1),
    ):
        low, high = (np.linspace(-eta, mean, 800)[:, None], np.linspace(mean, eta, 801)[None, 1:])
        weight = (high - mean) / (high - low)
        worst = weight * stats.norm.cdf(-low / deviation) + (1 - weight) * stats.norm.cdf(-high / deviation)
        bound = formulas.wrong_sign_bound(mean, eta, deviation)
        assert worst.max() <= bound + 1e-12
        assert worst.max() >= bound - 1e-3


def test_corollary_7_as_printed_is_no_bound() -> None:
    """One unit in each arm, the same weight: tau_n - tau = -sinh z, whose mean is 0 and which is never 0."""
    pair = Subjects(np.ones((2, 1)), np.array([1, 0], dtype=np.uint8), np.ones(2))
    w, deviation, distance = np.zeros(1), 0.8, 0.3
    happens = 2 * stats.norm.sf(math.asinh(distance) / deviation)
    assert happens > 0.7
    assert formulas.error_bound(pair, w, deviation, distance, printed=True) == 0
    assert formulas.error_bound(pair, w, deviation, distance) >= happens
    # The mean distance of a log-normal variable from 1, by a fine grid.
    z = np.linspace(-12, 12, 400_001)
    mean = np.trapezoid(np.abs(np.expm1(deviation * z)) * stats.norm.pdf(z), z)
    assert formulas.error_bound(pair, w, deviation, 50.0) == pytest.approx(mean / 50, rel=1e-6)


def test_estimates_by_hand() -> None:
    """Four units with scores 1/2, 1/2, 3/4, 3/4."""
    odds = math.log(3)
    four = Subjects(
        np.array([[0.0], [0.0], [odds], [odds]]), np.array([1, 0, 1, 0], dtype=np.uint8), np.array([4.0, 1, 3, 2])
    )
    w = np.ones(1)
    assert weighted(four, w) == pytest.approx((4 / 0.5 - 1 / 0.5 + 3 / 0.75 - 2 / 0.25) / 4)
    assert stratified(four, w, 2) == pytest.approx((3 + 1) / 2)
    assert matched(four, w) == pytest.approx((3 + 3 + 1 + 1) / 4)
    assert read_off_sensitivity(four, w) == pytest.approx(2 / 4 * 4 / 0.25)
    assert math.isnan(stratified(four.at(np.array([0, 2])), w, 2))
