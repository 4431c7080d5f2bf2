"""Adjusted effects on the time to an event: what pseudo-outcomes promise, what an interval adds, what is refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.estimators.survival import SURVIVAL
from causalveil.flows.run.declare import load
from causalveil.flows.run.estimators import rehearse
from causalveil.schemas.errors import ContractError, StudyError
from causalveil.schemas.estimators.survival import Measure, SurvivalStudy
from causalveil.schemas.plan import StandIn
from causalveil.schemas.remarks import PlanCode
from causalveil.tasks.data.enclave import MemoryEnclave, ranks
from causalveil.tasks.data.normalise import columns, encode
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.adjust.questions import JointScales
from causalveil.tasks.estimate.adjust.released import EDGES, ReleasedScales
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.times import curves
from causalveil.tasks.estimate.times.curves import ARMS, Grid, NoisyCells, measured
from causalveil.tasks.estimate.times.effects import TwoArms
from causalveil.tasks.estimate.times.pseudo import known_scales, lost_error
from causalveil.tasks.estimate.times.releases import JointCells, grid_of, mechanism, strata_of_rows
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.gaussian import composed, mu_of
from tests.limits import codes
from tests.survival_help import (
    HORIZON,
    ONE_KIND,
    People,
    by_cell,
    exact_cells,
    found_of,
    make_survival,
    make_times,
    outcomes_of,
    read_cells,
    write_adjusted,
)

COVARIATES: dict[str, Any] = {f"x{place}": {"lower": -3, "upper": 3} for place in (1, 2, 3, 4)}
GROUP: dict[str, Any] = {"levels": ["no", "yes"]}


def adjusting(**changes: Any) -> SurvivalStudy:
    asked = {"competing": False, "trial": False, "covariates": COVARIATES, "measure": ["risk"], **changes}
    return make_survival(**asked)


def confounded(random: np.random.Generator, n: int, ratio: float = 0.7, risk: float = 0.5, lost: float = 0.3) -> People:
    """People of whom x1 and x2 drive treatment and hazard; half have the event, and a share is lost."""
    x = np.clip(random.standard_normal((n, 4)), -3, 3)
    index = x[:, 0] + x[:, 1]
    arm = (random.random(n) < 1 / (1 + np.exp(-0.7 * index))).astype(np.uint8)
    rate = -np.log1p(-risk) / HORIZON * np.exp(0.5 * index) * np.where(arm, ratio, 1.0)
    event, gone = random.exponential(1 / rate), random.exponential(HORIZON / -np.log1p(-lost), n)
    covariates = pl.DataFrame({name: x[:, place] for place, name in enumerate(COVARIATES)})
    return People(arm, np.minimum(event, gone), (event <= gone).astype(np.uint8), covariates)


def shares(grid: Grid, rate: float, lost: FloatArray) -> FloatArray:
    """Chances of an arm's cells, of one kind: a constant rate of events, and within each interval one of being lost."""
    left, found = 1.0, np.zeros((2, grid.intervals))
    for place, own in enumerate(lost):
        gone = left * (1 - np.exp(-(rate + own) / grid.intervals))
        found[:, place] = gone * np.array([rate, own]) / (rate + own)
        left -= gone
    return np.append(found.reshape(-1), left)


def of_cells(grid: Grid, cells: FloatArray, measure: Measure = Measure.risk) -> FloatArray:
    """Outcomes of one of two such arms, before they are scaled."""
    return by_cell(TwoArms(exact_cells(np.stack([cells, cells]) * 1e6, grid)), measure)[0]


@pytest.mark.parametrize("measure", list(Measure))
@pytest.mark.parametrize("rate", [0.2, 0.7, 2.0])
def test_their_mean_is_anybodys_own_whoever_made_the_table(measure: Measure, rate: float) -> None:
    """As long as those are lost alike: within 3 in a thousand, which is the grid's (50 intervals)."""
    grid, lost = Grid(50, 1, 1.0), np.full(50, -np.log1p(-0.4))
    table = of_cells(grid, shares(grid, 0.7, lost), measure)
    own = shares(grid, rate, lost)
    truth = 1 - np.exp(-rate) if measure is Measure.risk else (1 - np.exp(-rate)) / rate
    assert own @ table == pytest.approx(truth, abs=0.003)


@pytest.mark.parametrize("rate", [0.3, 1.5])
@pytest.mark.parametrize("tilt", [0.6, 1.5])
def test_what_a_wrong_curve_of_censoring_moves_is_bounded(rate: float, tilt: float) -> None:
    """By its largest error, as a part of itself, times how far the own risk is from the table's."""
    grid, lost = Grid(50, 1, 1.0), np.full(50, -np.log1p(-0.3))
    table = of_cells(grid, shares(grid, 0.7, lost * tilt))
    followed, believed = (np.exp(-np.cumsum(one) / 50) for one in (lost, lost * tilt))
    off, apart = np.abs(followed / believed - 1).max(), abs(np.exp(-0.7) - np.exp(-rate))
    error = abs(shares(grid, rate, lost) @ table - (1 - np.exp(-rate)))
    assert error < off * apart + 0.003
    assert error > 0.2 * off * apart, "a bound that is never near says nothing"


def test_the_error_of_the_curve_of_censoring_is_that_of_its_noise() -> None:
    """Variance of its logarithm at the horizon over 2,000 tables and draws, seed 4: within 15%."""
    study, n, random = adjusting(intervals=16), 4_000, np.random.default_rng(4)
    grid, draw = Grid(16, 1, HORIZON), mechanism(study)
    cells = np.stack([shares(grid, 0.7, np.full(16, 0.36))] * ARMS).reshape(-1) / ARMS
    tables = random.multinomial(n, cells, 2_000)
    logs = []
    for counts in tables:
        exact = measured(counts, grid, plain=False)
        noisy = read_cells(exact + random.normal(0, draw.known_scale, len(exact)), study, n)
        logs.append(np.log(curves.still_followed(noisy.counts[1], grid)[-1]))
    expected = NoisyCells(grid, n * cells.reshape(ARMS, -1), noisy.noise)
    found = lost_error(TwoArms(expected), 1)
    assert found == pytest.approx(np.var(logs), rel=0.15)


def test_outcomes_are_bounded_and_numbers_whatever_noise_says() -> None:
    random = np.random.default_rng(5)
    for size in (1e-3, 1.0, 1e3, 1e9):
        grid = Grid(10, 2, HORIZON)
        counts = random.normal(0, size, (ARMS, grid.cells))
        for measure in Measure:
            found = outcomes_of(grid, counts, measure, size)
            assert np.isfinite(found.table).all()
            assert np.abs(found.table).max() <= 1
            assert (found.half > 0).all()
            assert np.isfinite(found.lost_error).all()


def test_an_adjustment_knows_rare_outcomes_from_the_cells() -> None:
    """Three in a hundred have the event, spread over many cells: the histogram is the cells' own."""
    grid = Grid(50, 1, 1.0)
    cells = shares(grid, 0.03, np.full(50, 0.1)) * 1e6
    found = outcomes_of(grid, np.stack([cells, cells]), Measure.risk)
    middles = (EDGES[1:] + EDGES[:-1]) / 2
    zero = np.zeros(len(middles))
    nothing = ReleasedScales(np.zeros(4), np.ones(4), zero, (), np.array([1.0]))
    known = known_scales(found, JointScales(np.full((1, 2), 1e6), np.ones(1), (2_000_000,), (((nothing,),),)))
    told = known.questions[0][0][0]
    spread = np.sqrt(told.outcome @ middles**2 - (told.outcome @ middles) ** 2)
    assert told.outcome.sum() == pytest.approx(1)
    assert spread * float(found.half[0, 0]) == pytest.approx(np.sqrt(0.03 * 0.97), rel=0.1)


def test_charges_together_keep_the_budget() -> None:
    for study in (adjusting(), adjusting(measure=["risk", "rmst"], share="0.4"), adjusting(delta="0")):
        charges = SURVIVAL.declare(study, sizes_of(study, 5_000))
        assert len({one.name for one in charges}) == len(charges)
        if study.privacy.delta == 0:
            assert sum(one.epsilon for one in charges) == study.privacy.epsilon
            continue
        mus = [one.mu or Decimal(0) for one in charges]
        assert composed(mus) <= mu_of(study.privacy.cost)
        assert composed(mus) > mu_of(study.privacy.cost) * Decimal("0.9999"), "nothing is left unused"


def test_the_first_release_gets_its_share() -> None:
    plain, half = (adjusting(share=one, covariates=two) for one, two in (("0.25", {}), ("0.25", COVARIATES)))
    assert mechanism(half).known_scale == pytest.approx(2 * mechanism(plain).known_scale, rel=1e-6)
    assert grid_of(half, 2_000).intervals == pytest.approx(grid_of(plain, 2_000).intervals / 2, abs=1)


@pytest.mark.parametrize("measure", list(Measure))
def test_confounding_is_taken_off(measure: Measure) -> None:
    """Of 20,000 people at epsilon 3: crude, the treated look worse off by .06; adjusted they are better off by .10."""
    study = adjusting(epsilon="3", measure=[measure])
    found = found_of(study, confounded(np.random.default_rng(1), 20_000), 1)
    truth, crude = (-0.102, 0.06) if measure is Measure.risk else (25.5, -16.0)
    assert found.interval.lower < truth < found.interval.upper
    assert not found.interval.lower < crude < found.interval.upper
    assert float(found.details["unadjusted"]) == pytest.approx(crude, rel=0.4)
    assert str(found.headline.adjustment).startswith("adjusted until")
    one = found.answers[0]
    control, treated = one.values
    assert treated - control == pytest.approx(one.estimate, abs=1e-9)


def test_below_the_floor_nothing_is_said() -> None:
    people = confounded(np.random.default_rng(2), 5_000, lost=0.85)
    found = found_of(adjusting(epsilon="3", censoring={"floor": 0.3}), people, 1)
    assert found.interval.whole_range
    assert (found.interval.lower, found.interval.upper) == (-1, 1)
    assert not found_of(adjusting(epsilon="3", censoring={"floor": 0.05}), people, 1).interval.whole_range


def by_flag(random: np.random.Generator, n: int) -> People:
    """The treated who have x1 above 0 are lost soon; that is in the column ``flag``."""
    people = confounded(random, n, lost=0.01)
    assert people.covariates is not None
    flag = people.covariates["x1"].to_numpy() > 0
    gone = random.exponential(HORIZON / np.where(flag & (people.arm == 1), 1.8, 0.1))
    time, kind = np.minimum(people.time, gone), np.where(gone < people.time, 0, people.kind).astype(np.uint8)
    covariates = people.covariates.with_columns(flag=pl.Series(np.where(flag, "yes", "no")))
    return People(people.arm, time, kind, covariates)


def test_censoring_may_depend_on_declared_levels() -> None:
    """Means over 6 draws of 10,000 people at epsilon 3: by arm alone the effect is off, by its levels it is not."""
    covariates = {**COVARIATES, "flag": GROUP}
    estimates = {"by arm": [], "by levels": []}
    for seed in range(6):
        people = by_flag(np.random.default_rng([seed, 3]), 10_000)
        for name, by in (("by arm", {}), ("by levels", {"flag": GROUP})):
            study = adjusting(epsilon="3", covariates=covariates, censoring={"by": by})
            estimates[name].append(found_of(study, people, seed).estimate)
    off = {name: abs(np.mean(found) + 0.102) for name, found in estimates.items()}
    assert off["by arm"] > 0.03
    assert off["by levels"] < 0.02


def test_groups_add_up_to_everybody() -> None:
    study = adjusting(censoring={"by": {"flag": GROUP}}, covariates={**COVARIATES, "flag": GROUP})
    n, random = 2_000, np.random.default_rng(6)
    grid = grid_of(study, n)
    assert grid.groups == 2
    counts = random.multinomial(n, random.dirichlet(np.ones(grid.numbers)))
    exact = measured(counts, grid, plain=False)
    read = JointCells.read(exact, study, sizes_of(study, n))
    assert read.counts.reshape(-1) == pytest.approx(counts, abs=1e-6)
    both = [read.two_arms((place,), 1).cells for place in range(2)]
    whole = read_cells(exact, study, n)
    assert whole.counts == pytest.approx(both[0].counts + both[1].counts, abs=1e-6)
    noisy = read_cells(exact + random.normal(0, 9, len(exact)), study, n)
    assert noisy.counts.sum() == pytest.approx(n)
    assert np.diag(noisy.noise).mean() > 1.5 * np.diag(both[0].noise).mean(), "noise of both groups adds up"


def test_the_plan_is_what_releases_come_to() -> None:
    """The half-width that `plan` expects, against the median of 15 releases of such people; seed 6, within a fifth."""
    study = adjusting(expect={"risk": 0.5, "lost": 0.3})
    planned = SURVIVAL.expected(study, sizes_of(study, 5_000), StandIn(), None)
    assert PlanCode.median_of_draws in codes(planned["sentences"])
    found = [found_of(study, confounded(np.random.default_rng([seed, 6]), 5_000), seed) for seed in range(15)]
    halves = [(one.interval.upper - one.interval.lower) / 2 for one in found]
    assert np.median(halves) == pytest.approx(planned["half_width"], rel=0.2)
    few = adjusting(expect={"risk": 0.5, "lost": 0.95})
    assert PlanCode.below_floor in codes(SURVIVAL.warnings(few, sizes_of(few, 5_000), StandIn()))


STUDIES: list[tuple[dict[str, Any], str]] = [
    ({"censoring": {"by": ["age"]}}, "'censoring.by' names 'age', a number"),
    ({"censoring": {"by": ["days"]}}, "column 'days' is a time to an event"),
    ({"censoring": {"by": ["ward"]}}, "makes 20 groups of an arm; at most 12"),
    ({"covariates": [], "censoring": {"by": ["group"]}}, "name covariates, or remove it"),
    ({"estimand": "ATT", "covariates": []}, "use estimand 'ATE'"),
]


@pytest.mark.parametrize(("changes", "told"), STUDIES)
def test_studies_that_are_refused(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    ward = {"ward": {"levels": [*map(str, range(20))]}}
    path = write_adjusted(tmp_path, study=changes, contract={"columns": ward})
    with pytest.raises((StudyError, ContractError)) as refusal:
        load(path)
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_losses_may_follow_levels_within_subgroups() -> None:
    """Of 20,000 people at epsilon 6: by arm alone the answer over all is off, by the levels of ``flag`` none is."""
    covariates, random = {**COVARIATES, "flag": GROUP}, np.random.default_rng(5)
    site = {"name": "site", "column": {"levels": ["north", "south"]}}
    shared = {"outcomes": [{"horizon": 365, "of": ["death"], "role": "primary", **ONE_KIND}], "covariates": covariates}
    people = by_flag(np.random.default_rng([1, 3]), 20_000)
    assert people.covariates is not None
    lived = people.covariates.with_columns(site=pl.Series(random.choice(["north", "south"], 20_000)))
    off: dict[str, list[float]] = {}
    for name, by in (("by arm", {}), ("by levels", {"flag": GROUP})):
        study = make_times(epsilon="6", trial=False, measure=["risk"], subgroups=site, censoring={"by": by}, **shared)
        rows = study.bounded.questions[0]
        x = encode(rows, columns(rows, lived), slice(0, 20_000))
        arrays = {"t": people.arm, "u": people.time, "k": people.kind, "g": strata_of_rows(study, lived)}
        enclave = MemoryEnclave([{**arrays, "x": x, "h": ranks(20_000)}])
        found = rehearse(study, enclave, RehearsalBudget(1), 1)
        assert isinstance(found, Findings)
        assert ("strata[north]" in found.details) == bool(by)
        off[name] = [abs(float(one.estimate or 0.0) + 0.102) for one in found.answers]
    assert off["by arm"][0] > 0.02
    assert max(off["by levels"]) < 0.015
