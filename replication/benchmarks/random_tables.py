"""How often intervals hold the truth on tables that nobody chose, as a Markdown table; the worst are named below it.

Run: python -m replication.benchmarks.random_tables [ESTIMATOR] [LEVEL] [FIRST] [LAST] [RUNS]
Needs the replications: `uv run --package causalveil-replication` comes before it. Default: regression sample 0 400 10.

Columns, confounding, outcome, size and budget are drawn at random from what studies have, and every run draws new
people and new, seeded noise. Of 10 intervals that each hold the truth with .95 fewer than 9 do in .086 of tables, fewer
than 7 in .001.

A steward's ranges are round numbers beyond all but one in a thousand people, or up to ten times as wide. Odds of
treatment and outcomes follow indices of the columns, and in three of ten tables with two numbers a square or a product
of them too.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing import Pool
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm

from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil_replication.accuracy.cells import ESTIMATORS, PLANS, AccuracyCell, run_cell
from causalveil_replication.accuracy.populations import KnownPopulation

SEED = 20261124
# Of so many people indices are standardised, ranges declared and the effect known.
PEOPLE = 400_000
NUMBERS = {"normal": 0.4, "uniform": 0.2, "t5": 0.15, "exponential": 0.1, "log": 0.1, "log, undeclared": 0.05}
OUTCOMES = {"normal": 0.35, "t4": 0.1, "binary": 0.2, "count": 0.1, "cost": 0.15, "zeros": 0.1}
FOLLOWS = {"lines": 0.7, "a square": 0.15, "a product": 0.15}
SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7)
SIZES, EPSILONS = (1_000, 3_000, 10_000, 30_000, 100_000), ("0.3", "1", "3", "8")
WIDER = {1.0: 0.5, 1.5: 0.25, 3.0: 0.15, 10.0: 0.1}
TRIALS, PURE = 0.12, 0.15
# Log odds and outcomes follow so much of an index or a curve.
STRENGTHS, CURVE = (0.3, 0.6, 1.0), 0.5
# A steward knows outcomes and numbers but for so many people at each end.
BEYOND = 5e-4
# Where outcomes alone are private more people than this take no part: balancing, matching and ipw cost most there.
MOST_PUBLIC = 10_000
# What `plan` expects is near what is measured.
NEAR = 0.15

Outcomes = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class Table:
    """A population with the size and the budget of a study of it; ``follows``: what confounds beside lines."""

    population: KnownPopulation
    units: int
    epsilon: str
    delta: str
    follows: str
    outcome: str


@dataclass(frozen=True)
class _Columns:
    """Numbers that are normal with one correlation before their own shape, flags, and categories of 3 to 7 levels."""

    numbers: tuple[str, ...]
    correlation: float
    flags: FloatArray
    categories: tuple[FloatArray, ...]

    @classmethod
    def drawn(cls, random: np.random.Generator) -> _Columns:
        numbers, flags, categories = (int(random.integers(0, most)) for most in (8, 7, 3))
        if numbers + flags + categories == 0:
            numbers = 2
        kinds = tuple(_one_of(random, NUMBERS) for _ in range(numbers))
        chances = tuple(random.dirichlet(np.full(int(random.integers(3, 8)), 2.0)) for _ in range(categories))
        return cls(kinds, float(random.choice([0.0, 0.3, 0.7])), random.uniform(0.03, 0.6, flags), chances)

    @property
    def count(self) -> int:
        """How many terms an index has."""
        return len(self.numbers) + len(self.flags) + sum(map(len, self.categories))

    def people(self, random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
        """Columns, shape (n, columns), and terms of indices: numbers on their scale, flags, each level's flag."""
        alone, alike = random.normal(size=(n, len(self.numbers))), random.normal(size=(n, 1))
        z = math.sqrt(1 - self.correlation) * alone + math.sqrt(self.correlation) * alike
        shaped = [_shaped(random, column, kind) for column, kind in zip(z.T, self.numbers, strict=True)]
        flags = _flag(random.random((n, len(self.flags))) < self.flags)
        levels = [random.choice(len(chances), n, p=chances) for chances in self.categories]
        rows, terms = ([pair[place] for pair in shaped] for place in (0, 1))
        rows += [*flags.T, *(level.astype(np.float64) for level in levels)]
        terms += list(flags.T)
        for level, chances in zip(levels, self.categories, strict=True):
            terms += list(_flag(level[:, None] == np.arange(len(chances))).T)
        return np.column_stack(rows), np.column_stack(terms)

    def declared(self, random: np.random.Generator, x: FloatArray) -> dict[str, dict[str, Any]]:
        """What a steward declares of these columns."""
        found: dict[str, dict[str, Any]] = {}
        for place, kind in enumerate(self.numbers):
            low, high = np.quantile(x[:, place], [BEYOND, 1 - BEYOND])
            wider = float(random.choice(list(WIDER), p=list(WIDER.values())))
            middle, half = (low + high) / 2, (high - low) / 2 * wider
            name = f"number{place}"
            found[name] = {"lower": float(np.floor(middle - half)), "upper": float(np.ceil(middle + half))}
            if kind == "log":
                found[name] = {"lower": 0.01, "upper": float(np.ceil(high * wider)), "scale": "log"}
        found |= {f"flag{place}": {"levels": [0, 1]} for place in range(len(self.flags))}
        levels = enumerate(map(len, self.categories))
        return found | {f"category{place}": {"levels": list(range(count))} for place, count in levels}


@cache
def table(number: int) -> Table:
    """One of them; no two share random bits. It takes a second, most of it for the effect that is known."""
    random = np.random.default_rng([SEED, number])
    columns = _Columns.drawn(random)
    follows = _one_of(random, FOLLOWS) if len(columns.numbers) > 1 else "lines"
    outcome, trial = _one_of(random, OUTCOMES), bool(random.random() < TRIALS)
    _, standard = columns.people(np.random.default_rng(SEED), PEOPLE)
    odds, level, varies = (_index(random, standard) for _ in range(3))
    one, other = random.choice(max(len(columns.numbers), 2), 2, replace=False)
    strength, share = float(random.choice(STRENGTHS)), float(random.choice(SHARES))
    effect, varying = float(random.choice([0.0, 0.2, 0.5, 1.0])), float(random.choice([0.0, 0.0, 0.3, 0.6]))

    def curve(terms: FloatArray) -> FloatArray:
        if follows == "a square":
            return CURVE * (terms[:, one] ** 2 - 1)
        return np.sqrt(CURVE) * terms[:, one] * terms[:, other] if follows == "a product" else np.zeros(len(terms))

    def log_odds(terms: FloatArray) -> FloatArray:
        return strength * (odds(terms) + CURVE * curve(terms))

    _, terms = columns.people(np.random.default_rng([SEED, number, 1]), PEOPLE)
    # So many are treated as the table has, by a constant.
    constant = 0.0 if trial else _constant(log_odds(terms), share)

    def people(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, Outcomes]:
        x, terms = columns.people(random, n)
        chance = np.full(n, 0.5) if trial else expit(constant + log_odds(terms))
        t = _flag(random.random(n) < chance)
        gain = effect * (1 + varying * varies(terms))
        return x, t, _outcomes(random, outcome, level(terms) + curve(terms), gain)

    x, t, (without, with_it) = people(np.random.default_rng([SEED, number, 2]), PEOPLE)
    span = _span(outcome, np.where(t > 0, with_it, without))
    declared = columns.declared(random, x)

    def draws(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        x, t, (without, with_it) = people(random, n)
        return x, t, np.where(t > 0, with_it, without)

    # What lies beyond the declared range counts as its end.
    truth = float(np.mean(np.clip(with_it, *span) - np.clip(without, *span)))
    population = KnownPopulation(f"table{number}", f"table {number}", truth, span, declared, draws, trial)
    units, epsilon = int(random.choice(SIZES)), str(random.choice(EPSILONS))
    return Table(population, units, epsilon, "0" if random.random() < PURE else "1e-6", follows, outcome)


def _one_of(random: np.random.Generator, chances: Mapping[str, float]) -> str:
    return str(random.choice(list(chances), p=list(chances.values())))


def _shaped(random: np.random.Generator, z: FloatArray, kind: str) -> tuple[FloatArray, FloatArray]:
    """A number as it is recorded, and as indices follow it."""
    if kind in ("log", "log, undeclared"):
        return np.exp(z), z
    if kind == "uniform":
        z = (norm.cdf(z) - 0.5) * math.sqrt(12)
    if kind == "t5":
        z = z / np.sqrt(random.chisquare(5, len(z)) / 3)
    if kind == "exponential":
        z = -norm.logcdf(-z) - 1
    return z, z


def _index(random: np.random.Generator, standard: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Of some of the terms, with mean 0 and variance 1 over those of the standard people."""
    count = standard.shape[1]
    weights = random.normal(size=count) * (random.random(count) < 0.7)
    found = standard @ weights
    mean, deviation = float(found.mean()), max(float(found.std()), 1e-9)
    return lambda terms: (terms @ weights - mean) / deviation


def _constant(log_odds: FloatArray, share: float) -> float:
    low, high = -15.0, 15.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if float(expit(middle + log_odds).mean()) < share else (low, middle)
    return low


def _outcomes(random: np.random.Generator, kind: str, level: FloatArray, gain: FloatArray) -> Outcomes:
    """Without treatment and with it."""
    n = len(level)
    if kind in ("normal", "t4"):
        noise = random.normal(size=n) if kind == "normal" else random.standard_t(4, n) / math.sqrt(2)
        return level + noise, level + gain + noise
    if kind == "binary":
        drawn = random.random(n)
        return _flag(drawn < expit(0.7 * level - 0.8)), _flag(drawn < expit(0.7 * (level + gain) - 0.8))
    if kind == "count":
        without, with_it = (random.poisson(np.exp(np.minimum(0.7 + 0.4 * one, 4.0))) for one in (level, level + gain))
        return without.astype(np.float64), with_it.astype(np.float64)
    if kind == "cost":
        logarithm = 7 + 0.4 * level + 0.6 * random.normal(size=n)
        return np.exp(np.minimum(logarithm, 12.0)), np.exp(np.minimum(logarithm + 0.3 * gain, 12.0))
    some = (random.random(n) < expit(0.3 + 0.5 * level)) * np.exp(0.5 * random.normal(size=n))
    return some * np.exp(np.minimum(0.3 * level, 4.0)), some * np.exp(np.minimum(0.3 * level + 0.4 * gain, 4.0))


def _flag(true: NDArray[np.bool_]) -> FloatArray:
    return true.astype(np.float64)


def _span(kind: str, outcomes: FloatArray) -> tuple[float, float]:
    """The declared range."""
    if kind == "binary":
        return 0.0, 1.0
    low, high = np.quantile(outcomes, [BEYOND, 1 - BEYOND])
    if kind in ("count", "cost", "zeros"):
        return 0.0, float(np.ceil(1.3 * high))
    return float(np.floor(low - 1)), float(np.ceil(high + 1))


@dataclass(frozen=True)
class Measured:
    """What many runs on a table say; ``follows`` and ``words``: what confounds there, and of whom it is."""

    follows: str
    words: str
    cell: AccuracyCell

    def fewer(self, hits: int) -> bool:
        """Whether fewer intervals than this of each ten hold the truth."""
        return round(self.cell.coverage * self.cell.runs) < hits * self.cell.runs / 10


def measured(
    number: int, estimator: str = "regression", level: str = "sample", runs: int = 10, plans: int = PLANS
) -> Measured:
    """One table by one estimator."""
    one = table(number)
    setting = ESTIMATORS[estimator](one.population) if estimator in ESTIMATORS else {"name": estimator}
    units, delta = (one.units, one.delta) if level == "sample" else (min(one.units, MOST_PUBLIC), "0")
    with one_thread():
        cell = run_cell(one.population, setting, units, one.epsilon, delta, runs=runs, level=level, plans=plans)
    words = f"table {number}: {units:,} people, epsilon {one.epsilon}, delta {delta}, {one.follows}, {one.outcome}"
    return Measured(one.follows, words, cell)


def summary(found: Sequence[Measured]) -> list[str]:
    """Rows of a Markdown table by what confounds, and a line for each table of which hardly any interval holds."""
    names = [
        "what confounds",
        "tables",
        "mean coverage",
        "fewer than 9 of 10",
        "fewer than 7",
        "which say",
        "`plan` within 15%",
    ]
    rows = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for follows in FOLLOWS:
        some = [one for one in found if one.follows == follows]
        few = [one for one in some if one.fewer(7)]
        said = Counter(max(one.cell.said, key=one.cell.said.__getitem__) for one in few)
        mean = sum(one.cell.coverage for one in some) / max(len(some), 1)
        words = "; ".join(f"*{word}* ({count})" for word, count in said.most_common())
        near = sum(abs(one.cell.planned / one.cell.half_width - 1) <= NEAR for one in some) / max(len(some), 1)
        cells = [follows, len(some), f"{mean:.3f}", sum(one.fewer(9) for one in some), len(few), words, f"{near:.2f}"]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    worst = sorted((one for one in found if one.fewer(7)), key=lambda one: one.cell.coverage)
    return [*rows, "", *map(_line, worst)]


def _line(one: Measured) -> str:
    cell = one.cell
    errs = f"error {cell.error:.3g}, bias {cell.bias:.3g}, half-width {cell.half_width:.3g}"
    return f"{one.words}: {cell.coverage:.2f}, {errs}, {dict(cell.said)}"


def main(
    estimator: str = "regression", level: str = "sample", first: str = "0", last: str = "400", runs: str = "10"
) -> None:
    """Measure and print; the last table is not among them."""
    with Pool() as pool:
        work = ((number, estimator, level, int(runs)) for number in range(int(first), int(last)))
        found = pool.starmap(measured, work, chunksize=1)
    sys.stdout.write("\n".join(summary(found)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
