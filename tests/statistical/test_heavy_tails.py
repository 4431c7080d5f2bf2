"""Intervals of `regression` where covariates and outcome have heavy tails.

Many rows lie beyond the ball that bounds the moments. With a true coverage of .95 fewer than 34 of 40 come up once in
three hundred. Where scores had other numbers than moments 31 of 40 held (20,000 people), and 7 of 40 (5,000).
"""

from __future__ import annotations

import numpy as np
import pytest

from causalveil.tasks.estimate.adjust.scales import SKEWED, margin
from causalveil.tasks.machine.distribute import one_thread
from replication.benchmarks.adjust_in_memory import EDGES, adjust

RUNS = 40


def held(runs: range, n: int, slopes: list[float], end: float) -> int:
    """Return how many intervals hold the effect of the run's people, in the declared range of the outcome; epsilon 1.

    Five covariates of Student's t, declared from -``end`` to ``end``, move the outcome by ``slopes`` as they are
    recorded there; two of them, as they are, move the chance of treatment.
    """
    found = 0
    for run in runs:
        random = np.random.default_rng([run, n])
        x = np.clip(random.standard_t(1.5, (n, 5)) / 10, -1, 1)
        t = (random.random(n) < 1 / (1 + np.exp(-6.0 * (x[:, 0] + x[:, 1])))).astype(float)
        x = np.clip(x, -end, end)
        level = x @ np.array(slopes) + 0.05 * random.standard_t(2, n)
        without, with_it = np.clip(level, -1, 1), np.clip(level + 0.1, -1, 1)
        declared = {f"x{place}": {"lower": -end, "upper": end} for place in range(5)}
        with one_thread():
            answer = adjust(x, declared, t, np.where(t > 0, with_it, without), (-1.0, 1.0), 1.0, 1e-6, random)
        low, high = answer.intervals[-1]
        found += low <= float((with_it - without).mean()) <= high
    return found


@pytest.mark.parametrize(("n", "least"), [(20_000, 34), (5_000, 32)])
def test_intervals_hold_the_effect(n: int, least: int) -> None:
    """Of 40 runs on seeds 1,000 and on."""
    assert held(range(1_000, 1_000 + RUNS), n, [0.5, 0.4, 0.2, 0, 0], end=1.0) >= least


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
    assert held(range(5_000, 5_024), 20_000, [2, 1.5, 0.8, 0, 0], end=0.1) >= 20
