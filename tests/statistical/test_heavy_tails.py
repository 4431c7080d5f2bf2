"""Intervals of `regression` where covariates and outcome have heavy tails.

Many rows lie beyond the ball that bounds the moments. With a true coverage of .95 fewer than 34 of 40 come up once in
three hundred. Where scores had other numbers than moments 31 of 40 held (20,000 people), and 7 of 40 (5,000).
"""

from __future__ import annotations

import numpy as np
import pytest

from causalveil.tasks.adjustment.scales import SKEWED, margin
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from tests.benchmarks.adjust_in_memory import EDGES, adjust

RUNS = 40


def people(random: np.random.Generator, n: int, freedom: float, slope: float) -> tuple[FloatArray, FloatArray]:
    """Return five covariates of Student's t, and chances of treatment by two of them."""
    x = np.clip(random.standard_t(freedom, (n, 5)) / (10 if freedom > 1 else 20), -1, 1)
    return x, 1 / (1 + np.exp(-slope * (x[:, 0] + x[:, 1])))


@pytest.mark.parametrize(("n", "freedom", "slope", "least"), [(20_000, 1.5, 6.0, 34), (5_000, 1.5, 6.0, 32)])
def test_intervals_hold_the_effect(n: int, freedom: float, slope: float, least: int) -> None:
    """Of 40 runs on seeds 1,000 and on, epsilon 1; the effect is that of the run's people, in the declared range."""
    held = 0
    for run in range(RUNS):
        random = np.random.default_rng([1_000 + run, n])
        x, chance = people(random, n, freedom, slope)
        t = (random.random(n) < chance).astype(float)
        level = x @ np.array([0.5, 0.4, 0.2, 0, 0]) + 0.05 * random.standard_t(2, n)
        without, with_it = np.clip(level, -1, 1), np.clip(level + 0.1, -1, 1)
        declared = {f"x{place}": {"lower": -1, "upper": 1} for place in range(5)}
        with one_thread():
            found = adjust(x, declared, t, np.where(t > 0, with_it, without), (-1.0, 1.0), 1.0, 1e-6, random)
        low, high = found.intervals[-1]
        held += low <= float((with_it - without).mean()) <= high
    assert held >= least


def test_two_equal_tails_are_not_taken_for_skewness() -> None:
    """Of 200 noisy histograms of a Student's t with 1.5 degrees of freedom, cut at ten; a third were; seed 1."""
    random = np.random.default_rng(1)
    seen = np.histogram(np.clip(random.standard_t(1.5, 200_000) / 10, -1, 1), EDGES)[0] / 200_000
    found = [margin(seen + 0.003 * random.standard_normal(len(seen)), 0.003).skewness() for _ in range(200)]
    assert max(map(abs, found)) < SKEWED


def test_a_skewed_number_still_is() -> None:
    """Log-normal costs within a declared range that ends at their 99.9th centile; seed 1."""
    random = np.random.default_rng(1)
    costs = random.lognormal(0, 0.8, 200_000)
    seen = np.histogram(np.clip(costs / np.quantile(costs, 0.999) * 2 - 1, -1, 1), EDGES)[0] / 200_000
    found = [margin(seen + 0.003 * random.standard_normal(len(seen)), 0.003).skewness() for _ in range(50)]
    assert min(found) > SKEWED


def test_a_range_that_ends_where_a_covariate_stops_mattering_is_covered() -> None:
    """The outcome follows covariates to .1 and no further; 20,000 people, 24 runs on seeds 5,000 and on, epsilon 1.

    Where the range goes on to 1 only 8 of 24 hold (docs/is-this-for-me.md). With a true coverage of .95 fewer than 20
    come up once in a hundred and fifty.
    """
    held = 0
    for run in range(24):
        random = np.random.default_rng([5_000 + run, 20_000])
        x, chance = people(random, 20_000, 1.5, 6.0)
        t, x = (random.random(20_000) < chance).astype(float), np.clip(x, -0.1, 0.1)
        level = x @ np.array([2, 1.5, 0.8, 0, 0]) + 0.05 * random.standard_t(2, 20_000)
        without, with_it = np.clip(level, -1, 1), np.clip(level + 0.1, -1, 1)
        declared = {f"x{place}": {"lower": -0.1, "upper": 0.1} for place in range(5)}
        with one_thread():
            found = adjust(x, declared, t, np.where(t > 0, with_it, without), (-1.0, 1.0), 1.0, 1e-6, random)
        low, high = found.intervals[-1]
        held += low <= float((with_it - without).mean()) <= high
    assert held >= 20
