"""Intervals that allow for a bias: critical values, and what is added to an interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri

from causalveil.tasks.estimate.interval import Estimate, Noise, assemble


@pytest.mark.parametrize("noise", [Noise(0.0), Noise(1.3), Noise(0.8, 1.0), Noise(0.6, 1.5), Noise(0.4, 5.5)])
@pytest.mark.parametrize("bias", [0.0, 0.3, 2.0, 50.0])
def test_critical_values_are_exceeded_as_often_as_they_say(noise: Noise, bias: float) -> None:
    """Against 2e6 seeded draws of a biased error: a Monte-Carlo error of 1.5e-4, six of them allowed."""
    random = np.random.default_rng(3)
    scale = noise.scale if noise.mixing is None else noise.scale * np.sqrt(random.gamma(noise.mixing, 2, 2_000_000))
    error = random.normal(0, 1.2, 2_000_000) + 0.7 * scale * random.normal(0, 1, 2_000_000)
    found = noise.critical(0.05, bias, 1.44, 0.7)
    assert np.mean(np.abs(bias + error) > found) == pytest.approx(0.05, abs=9e-4)
    assert noise.quantile(0.025, 1.44, 0.7) <= found <= noise.quantile(0.025, 1.44, 0.7) + bias
    if bias == 50.0:
        assert found == pytest.approx(bias + noise.quantile(0.05, 1.44, 0.7)), "one side is left"


def test_an_interval_allows_for_a_bias_in_standard_errors_of_its_own_upper_variance() -> None:
    plain, wide = (Estimate(1.0, 0.04, 0.0, 0.0, bias=bias) for bias in (0.0, 2.0))
    _, narrow, _, _ = assemble(plain, Noise(1.0), 0.95, None)
    _, interval, _, upper = assemble(wide, Noise(1.0), 0.95, None)
    assert (narrow.bias, interval.bias) == (0.0, pytest.approx(2 * math.sqrt(upper)))
    assert interval.upper - 1 == pytest.approx(0.4 - 0.2 * ndtri(0.05), rel=1e-3)
    assert (interval.lower + interval.upper) / 2 == pytest.approx(1.0)
