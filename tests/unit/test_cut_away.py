"""Numbers many of whose people lie at the ends of ranges that are too narrow, by every estimator that adjusts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.studies import parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.covariates import Columns, NarrowRanges
from causalveil.tasks.estimate.interval import Findings, covers_imbalance
from causalveil.tasks.estimate.weights.features import in_ranges
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil_replication.accuracy.cells import rows_of
from causalveil_replication.accuracy.populations import KnownPopulation
from tests.limits import words
from tests.regression_help import make_regression

UNITS, TRUTH = 2_000, 1.0


def people(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Three normals, the first of which confounds."""
    x = random.normal(size=(n, 3))
    t = (random.random(n) < 1 / (1 + np.exp(-x[:, 0]))).astype(np.float64)
    return x, t, 5 + x[:, 0] + TRUTH * t + random.normal(size=n)


def of_range(width: float, name: str, units: int = UNITS, **settings: Any) -> Findings:
    """One seeded run where each number is declared to lie within this of 0, epsilon 1."""
    declared = {f"x{place}": {"lower": -width, "upper": width} for place in range(3)}
    return of_ranges(declared, name, 0, units, **settings)


def of_ranges(declared: dict[str, dict[str, float]], name: str, seed: int, units: int, **settings: Any) -> Findings:
    """One seeded run at the level at which the estimator is used, epsilon 1."""
    sample = name == "regression"
    population = KnownPopulation("ranges", "ranges", TRUTH, (0, 10), declared, people)
    level, delta = ("sample", "1e-6") if sample else ("label", "0")
    study = parse_study(population.study({"name": name, **settings}, "1", delta, 0.95, level))
    assert isinstance(study, EffectStudy)
    return rehearse_effect(study, rows_of(study, population, units, seed), RehearsalBudget(seed + 1), 1)


@pytest.mark.parametrize("name", ["balancing", "matching", "ipw"])
def test_what_ranges_cut_away_is_named_and_allowed_for(name: str) -> None:
    """Cut to their signs they leave .3 of confounding: intervals of balancing and ipw were +- .15, none of two held."""
    found = of_range(0.004, name)
    assert found.interval.lower <= TRUTH <= found.interval.upper
    assert found.interval.upper - found.interval.lower < 4
    assert str(found.headline.adjustment).startswith("partly adjusted")
    assert covers_imbalance() in found.interval.covers
    assert "confounding by x0, x1, x2 beyond the declared range" in words(found.not_covered)


@pytest.mark.parametrize("name", ["balancing", "matching", "ipw", "regression"])
def test_ranges_that_fit_are_not_named(name: str) -> None:
    found = of_range(4.0, name)
    assert found.interval.upper - found.interval.lower < 0.8
    assert "partly" not in str(found.headline.adjustment)
    assert "beyond the declared range" not in words(found.not_covered)


def test_whoever_declares_no_allowance_has_none() -> None:
    assert of_range(0.004, "balancing", trial=True).interval.bias == 0


def test_numbers_that_are_mostly_zero_are_not_cut_away() -> None:
    """Earnings of which three quarters are 0, the lower end of their range, as in job training; and an even spread."""
    random = np.random.default_rng(3)
    columns = Columns.of(make_regression(4))
    earnings = np.where(random.random(5_000) < 0.75, -1.0, random.uniform(-1, 1, 5_000))
    signs = np.where(random.random(5_000) < 0.3, 1.0, -1.0)
    x = np.column_stack([earnings, random.uniform(-1, 1, 5_000), random.normal(size=5_000) / 4, signs]) * columns.span
    assert NarrowRanges.of(in_ranges(columns, x)).clipped == ("x03",)


CUT = [(-1.0, 1.0), (-0.45, 0.45), (-3.0, 0.5), (-1.0, 3.0)]
# Balancing takes ten times as long as the others, and is cut at both ends and at one as they are.
SLOW = {("balancing", *CUT[1]), ("balancing", *CUT[2])}


@pytest.mark.parametrize(
    ("name", "lower", "upper"),
    [
        pytest.param(name, *cut, marks=[pytest.mark.long] * ((name, *cut) in SLOW))
        for name in ("regression", "balancing", "matching")
        for cut in CUT
    ],
)
def test_ranges_that_cut_many_people_do_not_leave_narrow_intervals(name: str, lower: float, upper: float) -> None:
    """20,000 people, 6 seeded runs a cell: at .8 of coverage 4 or more hold the truth but for 1 in 10 cells, and of the
    12 cells' 72 runs .85; before, all but one in twenty missed. Named in each, and no wider than +- .4."""
    declared = {f"x{place}": {"lower": lower, "upper": upper} for place in range(3)}
    found = [of_ranges(declared, name, seed, 20_000) for seed in range(6)]
    assert sum(one.interval.lower <= TRUTH <= one.interval.upper for one in found) >= 4
    for one in found:
        assert one.interval.upper - one.interval.lower < 0.8
        assert "near whose limits many values lie" in words(one.not_covered)
