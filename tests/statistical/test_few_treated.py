"""Few treated whose outcomes lie near one end of the declared range, as costs do: no narrow interval around its middle.

Runs are seeded (``replication/``); 40 of them fall below 32 hits once in 2,000 times if each has .95.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from causalveil.tasks.machine.arrays import FloatArray
from causalveil_replication.accuracy.cells import run_cell
from causalveil_replication.accuracy.populations import KnownPopulation

RUNS, LEAST_HITS = 40, 32
EFFECT, RANGE = 0.5, (0, 20)


def costs(random: np.random.Generator, n: int, share: float, trial: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log-normal costs around 2 of a range from 0 to 20, which treatment raises by a half."""
    z = random.normal(size=(n, 3))
    odds = np.log(share / (1 - share)) + (0 if trial else 0.4) * z[:, 0]
    t = (random.random(n) < 1 / (1 + np.exp(-odds))).astype(np.float64)
    return z, t, np.exp(0.5 * z[:, 0] + 0.7 * random.normal(size=n)) + EFFECT * t


def population(share: float, trial: bool) -> KnownPopulation:
    """A share that is treated, by odds of a number or by lot."""
    numbers: dict[str, dict[str, Any]] = {f"z{place}": {"lower": -4, "upper": 4} for place in range(3)}
    return KnownPopulation("costs", "costs", EFFECT, RANGE, numbers, partial(costs, share=share, trial=trial), trial)


@pytest.mark.parametrize(
    ("name", "share", "units", "epsilon", "trial", "most"),
    [
        ("regression", 0.01, 3_000, "1", False, 1.5),
        ("regression", 0.01, 3_000, "1", True, 1.5),
        ("regression", 0.02, 3_000, "1", False, 1.5),
        ("regression", 0.01, 20_000, "0.3", False, 1.5),
        ("aipw", 0.01, 3_000, "0.5", False, 6.5),
        ("aipw", 0.01, 20_000, "0.3", False, 3.0),
    ],
)
def test_costs_of_few_treated(name: str, share: float, units: int, epsilon: str, trial: bool, most: float) -> None:
    """With the middle of the range in place of everybody's mean .15 to .85 held; errors were 3.3 to 7.4.

    `aipw` of 3,000 people errs 4.7 over 300 runs, as before what is released of ranges, and 6.2 over these 40.
    """
    estimator = {"name": name, **({"trial": True} if trial else {})}
    cell = run_cell(population(share, trial), estimator, units, epsilon, runs=RUNS)
    print(f"{name} {share} {units} {epsilon}: {cell.coverage:.3f}, {cell.error:.2f}, {cell.half_width:.2f}")
    assert round(cell.coverage * RUNS) >= LEAST_HITS
    assert cell.error <= most


def tails(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Two exponential columns, in whose tails the 4 % lie that are treated, and a product of theirs in both models."""
    z = np.sqrt(0.7) * random.normal(size=(n, 2)) + np.sqrt(0.3) * random.normal(size=(n, 1))
    x, flags = -norm.logcdf(-z) - 1, (random.random((n, 2)) < [0.3, 0.5]).astype(np.float64)
    both, index = x[:, 0] * x[:, 1], x @ [0.5, 0.4] + 0.3 * flags[:, 0]
    t = (random.random(n) < 1 / (1 + np.exp(3.6 - 0.6 * index - 0.25 * both))).astype(np.float64)
    return np.column_stack([x, flags]), t, index + 0.5 * both + 0.2 * t + random.normal(size=n)


@pytest.mark.parametrize(("units", "epsilon"), [(20_000, "2"), (100_000, "1"), (100_000, "3")])
def test_what_scores_add_to_few_treated_in_tails_is_no_better_known_than_their_spread(units: int, epsilon: str) -> None:
    """Where noise bears neither products nor slopes of each arm, weights that serve both move the treated up to three
    times too far: by lines alone, 20,000 people, not one of 20 intervals held. Now 18 or more, which would be missed
    once in 13 times if .95 held, and are not by these seeds; the release says what it did not follow.
    """
    numbers: dict[str, dict[str, Any]] = {f"x{place}": {"lower": -1, "upper": 8} for place in range(2)}
    flags: dict[str, dict[str, Any]] = {f"flag{place}": {"levels": [0, 1]} for place in range(2)}
    one = KnownPopulation("tails", "tails", 0.2, (-8, 12), numbers | flags, tails)
    cell = run_cell(one, {"name": "regression"}, units, epsilon, runs=20)
    print(f"{units} {epsilon}: {cell.coverage:.3f}, {cell.error:.3f}, {cell.half_width:.3f}, {dict(cell.said)}")
    assert round(cell.coverage * 20) >= 18
    assert all("linearly" in said or "products" in said for said in cell.said)
