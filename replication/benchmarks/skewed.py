"""Trials of counts, costs and claims: bias, coverage and width of `regression` and `difference_in_means`.

Run: python -m replication.benchmarks.skewed [RUNS [UNITS ...]]
Needs the replications: `uv run --package causalveil-replication` comes before it.

Half are treated, and the effect is a factor. Settings were chosen on the first three populations; nothing was on the
others. Every run draws new people and new, seeded noise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil_replication.accuracy.cells import run_cell
from causalveil_replication.accuracy.populations import KnownPopulation

Outcomes = Callable[[np.random.Generator, FloatArray], tuple[FloatArray, FloatArray]]
# People by whose outcomes the effect and the deviation are known.
PEOPLE = 2_000_000


def counts(mean: float, shape: float, factor: float) -> Outcomes:
    """Return negative binomial counts."""

    def drawn(random: np.random.Generator, index: FloatArray) -> tuple[FloatArray, FloatArray]:
        rate = mean * np.exp(index) * random.gamma(shape, 1 / shape, len(index))
        return random.poisson(rate) * 1.0, random.poisson(factor * rate) * 1.0

    return drawn


def costs(middle: float, deviation: float, factor: float, none: float = 0.0) -> Outcomes:
    """Return log-normal costs, of which a share is 0."""

    def drawn(random: np.random.Generator, index: FloatArray) -> tuple[FloatArray, FloatArray]:
        some = random.random(len(index)) >= none
        found = some * middle * np.exp(index + deviation * random.normal(size=len(index)))
        return found, factor * found

    return drawn


def claims(factor: float) -> Outcomes:
    """Return claims, of which the treatment makes more and not larger ones."""

    def drawn(random: np.random.Generator, index: FloatArray) -> tuple[FloatArray, FloatArray]:
        chance, place = 1 / (1 + np.exp(2.5 - index)), random.random(len(index))
        size = np.exp(7 + 0.8 * random.normal(size=len(index)))
        return (place < chance) * size, (place < factor * chance) * size

    return drawn


POPULATIONS: Mapping[str, tuple[Outcomes, float]] = {
    "counts, mean 4": (counts(3, 0.35, 1.3), 100),
    "costs, log-normal of 1.3": (costs(1_000, 1.2, 1.2), 50_000),
    "costs, seven tenths without": (costs(1_000, 1.2, 1.3, 0.7), 50_000),
    "counts, mean 2, more dispersed": (counts(1.2, 0.2, 1.4), 100),
    "counts, mean 8, fewer when treated": (counts(6, 0.6, 0.75), 150),
    "costs, log-normal of 1.7": (costs(500, 1.6, 1.25), 100_000),
    "claims, more when treated": (claims(1.4), 30_000),
}
ESTIMATORS = ("regression", "difference_in_means")


def population(name: str) -> tuple[KnownPopulation, float]:
    """Return a trial, and its outcome's deviation without treatment."""
    outcomes, upper = POPULATIONS[name]

    def people(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        x = np.column_stack([random.normal(size=(n, 4)), random.random(n) < 0.4])
        both = outcomes(random, 0.5 * x[:, 0] + 0.25 * x[:, 1] + 0.3 * x[:, 4])
        return x, np.minimum(both[0], upper), np.minimum(both[1], upper)

    def draws(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        x, without, with_it = people(random, n)
        t = (random.random(n) < 0.5).astype(np.float64)
        return x, t, np.where(t == 1, with_it, without)

    covariates = {**{f"x{place}": {"lower": -4, "upper": 4} for place in range(4)}, "flag": {"levels": [0, 1]}}
    _, without, with_it = people(np.random.default_rng(5), PEOPLE)
    truth = float(np.mean(with_it - without))
    return KnownPopulation("skewed", name, truth, (0, upper), covariates, draws, trial=True), float(without.std())


def main(runs: str = "100", *units: str) -> None:
    """Print a row of Markdown for each population and number of people."""
    for name in POPULATIONS:
        one, deviation = population(name)
        for n in units or ("1000", "5000", "30000"):
            cells = [
                run_cell(one, {"name": each, "trial": True}, int(n), "1", runs=int(runs), plans=0)
                for each in ESTIMATORS
            ]
            said = [
                f"{cell.coverage:.2f} | {cell.bias / one.truth:+.0%} | {cell.half_width / deviation:.3f}"
                for cell in cells
            ]
            sys.stdout.write(f"| {name} | {int(n):,} | {' | '.join(said)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    with one_thread():
        main(*sys.argv[1:])
