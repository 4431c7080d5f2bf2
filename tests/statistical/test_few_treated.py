"""Few treated whose outcomes lie near one end of the declared range, as costs do: no narrow interval around its middle.

Runs are seeded (``replication/``); 40 of them fall below 32 hits once in 2,000 times if each has .95.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

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
    ],
)
def test_costs_of_few_treated(name: str, share: float, units: int, epsilon: str, trial: bool, most: float) -> None:
    """With the middle of the range in place of everybody's mean .15 to .85 held; errors were 3.3 to 7.4."""
    estimator = {"name": name, **({"trial": True} if trial else {})}
    cell = run_cell(population(share, trial), estimator, units, epsilon, runs=RUNS)
    print(f"{name} {share} {units} {epsilon}: {cell.coverage:.3f}, {cell.error:.2f}, {cell.half_width:.2f}")
    assert round(cell.coverage * RUNS) >= LEAST_HITS
    assert cell.error <= most
