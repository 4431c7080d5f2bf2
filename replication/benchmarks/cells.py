"""Coarse covariates that confound three at a time: balancing with cells, without, and the competitors, label level.

Run: python -m replication.benchmarks.cells [RUNS] [POPULATION ...]
Needs the replications: `uv run --package causalveil-replication` comes before it.

Every run draws new people and new, seeded noise. Prints root mean square error and bias in outcome units, coverage and
mean half-width of the 95% interval, and what `plan` expects of it over the mean one. Competitors have no interval and
spend everything on the estimate. None of these populations had a part in choosing a setting.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import polars as pl

from causalveil.tasks.estimate.weights import features
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil_replication.accuracy.cells import run_cell
from causalveil_replication.accuracy.populations import KnownPopulation
from causalveil_replication.competitors.competitor import Fitted, Instance
from causalveil_replication.competitors.split import label_weighting, public_weights
from causalveil_replication.competitors.strata import exact_weights
from causalveil_replication.yuan2026.data import PublishedData, rows_of
from causalveil_replication.yuan2026.errors import penalty

Drawn = tuple[FloatArray, FloatArray, FloatArray]
CASES = (
    *((name, units, "1") for name in ("threes5", "pairs5", "mixed6") for units in (500, 3_000)),
    *((name, 3_000, "4") for name in ("threes5", "pairs5", "mixed6")),
)
EFFECT = 0.05


def coarse(threes: float) -> Callable[[np.random.Generator, int], Drawn]:
    """Three flags, a category of three and a number from 0 to 3; ``threes``: how much three of them confound."""

    def draw(random: np.random.Generator, n: int) -> Drawn:
        ward, grade = random.integers(0, 3, n), random.integers(0, 4, n)
        flags = random.integers(0, 2, (n, 3))
        together = threes * (2 * flags[:, 1] - 1) * (2 * flags[:, 2] - 1) * np.where(ward == 2, 1, -1)
        odds = -0.3 + 0.4 * (ward - 1) + 0.5 * flags[:, 0] - 0.2 * (grade - 1.5) + 0.9 * together
        t = _treated(random, odds)
        y = 0.3 + 0.04 * ward + 0.05 * flags[:, 0] * flags[:, 1] + 0.03 * grade + 0.1 * together
        return np.column_stack([ward, grade, flags]), t, y + EFFECT * t + 0.1 * random.normal(size=n)

    return draw


def mixed(random: np.random.Generator, n: int) -> Drawn:
    """Three flags beside three correlated numbers; three flags together confound, and a flag with a number."""
    flags, z = random.integers(0, 2, (n, 3)), random.normal(size=(n, 3))
    z[:, 1] = 0.6 * z[:, 0] + 0.8 * z[:, 1]
    together = (2 * flags - 1).prod(axis=1)
    t = _treated(random, 0.5 * z[:, 0] + 0.6 * (flags[:, 0] - 0.5) * z[:, 1] + 0.6 * together)
    y = 0.5 + 0.04 * z[:, 0] + 0.03 * flags[:, 0] * z[:, 1] + 0.02 * np.abs(z[:, 2]) + 0.05 * together
    return np.column_stack([flags, z]), t, y + EFFECT * t + 0.1 * random.normal(size=n)


def _treated(random: np.random.Generator, odds: FloatArray) -> FloatArray:
    return np.asarray(random.random(len(odds)) < 1 / (1 + np.exp(-odds)), dtype=np.float64)


def _flags(names: str) -> dict[str, dict[str, Any]]:
    return {f"flag_{name}": {"levels": [0, 1]} for name in names}


NUMBERS = {f"x{place}": {"lower": -4, "upper": 4} for place in range(3)}
WARDS = {"ward": {"levels": [0, 1, 2]}, "grade": {"lower": 0, "upper": 3}}
POPULATIONS = {
    one.name: one
    for one in (
        KnownPopulation("threes5", "5 coarse, threes confound", EFFECT, (-0.5, 1.5), WARDS | _flags("abc"), coarse(1)),
        KnownPopulation("pairs5", "5 coarse, none do", EFFECT, (-0.5, 1.5), WARDS | _flags("abc"), coarse(0)),
        KnownPopulation("mixed6", "3 flags, 3 numbers", EFFECT, (-0.5, 1.5), _flags("abc") | NUMBERS, mixed),
    )
}


def balanced(population: KnownPopulation, units: int, epsilon: str, runs: int, most: int) -> str:
    """Balancing with at most so many cells."""
    with mock.patch.object(features, "MOST_CELLS", most):
        found = run_cell(population, {"name": "balancing"}, units, epsilon, "0", runs, level="label")
    numbers = f"{found.error:.4f} ({found.bias:+.4f}) / {found.coverage:.2f} / {found.half_width:.4f}"
    return f"{numbers} / {found.planned / found.half_width:.2f}"


def competing(
    population: KnownPopulation, units: int, epsilon: str, runs: int, fit: Callable[[Instance], Fitted]
) -> str:
    """A competitor on the same people."""
    errors = []
    for run in range(runs):
        frame = population.draw(units, run).rename({"t": "treated", "y": "outcome"})
        numbers = frame.with_columns(pl.col("treated").cast(pl.UInt8))
        data = PublishedData(population.name, numbers, population.outcome, population.covariates)
        blank = Instance(data, None, penalty(units, len(population.covariates)))  # type: ignore[arg-type]  # for study
        instance = Instance(data, rows_of(blank.study, numbers, b"\0" * 16), blank.penalty)
        found = fit(instance).release(epsilon, RehearsalBudget(run))
        errors.append((np.nan if found is None else found) - population.truth)
    return f"{float(np.sqrt(np.mean(np.square(errors)))):.4f} ({float(np.mean(errors)):+.4f})"


def main(runs: int, wanted: list[str]) -> None:
    """Measure and print a Markdown table; of all populations if none is named."""
    names = ("balancing", "without cells", "exact matching", "Lebeda et al.")
    sys.stdout.write(f"| population, units, epsilon | {' | '.join(names)} |\n{'|---' * (len(names) + 1)}|\n")
    for name, units, epsilon in CASES:
        if wanted and name not in wanted:
            continue
        population = POPULATIONS[name]
        line = [
            balanced(population, units, epsilon, runs, features.MOST_CELLS),
            balanced(population, units, epsilon, runs, 0),
            competing(population, units, epsilon, runs, lambda one: public_weights(one, exact_weights(one))),
            competing(population, units, epsilon, runs, label_weighting),
        ]
        sys.stdout.write(f"| {population.title}, {units:,}, {epsilon} | {' | '.join(line)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2:])
