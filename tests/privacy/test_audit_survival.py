"""The release of cells audited from outside on neighbouring tables, with mutants that must be caught.

It is drawn thousands of times on two tables that differ in one person; the likelihood ratio bounds epsilon from below
(``audit.epsilon_lower_bound``, wrong with probability at most 1e-6 a case). Noise is seeded. Delta is large, since no
audit by counting sees a loss that 1e-6 hides.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.estimators.survival_protocol import SurvivalStudy
from causalveil.tasks.adjustment.drawn import JointDraws
from causalveil.tasks.adjustment.recipe import SCALES
from causalveil.tasks.enclave.enclave import MemoryEnclave, ranks
from causalveil.tasks.enclave.normalise import columns, encode
from causalveil.tasks.enclave.split import sizes_of
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.gaussian import epsilon_of
from causalveil.tasks.privacy.mechanisms import Mechanism
from causalveil.tasks.privacy.noise import SeededNoise
from causalveil.tasks.protocols.times import people_of, times_outcomes_stage, times_recipe
from causalveil.tasks.survival import strategy
from causalveil.tasks.survival.curves import ARMS, Grid
from causalveil.tasks.survival.joint import grid_of, mechanism
from causalveil.tasks.survival.stages import count_cells
from tests.audit import OpenBudget, caught, epsilon_lower_bound
from tests.survival_help import People, make_survival, make_times

RUNS, EPSILON, DELTA = 20_000, 3.0, 0.01
GRID = Grid(50, 2, 365.0)


def table(arm: int, time: float, kind: int) -> People:
    """Twenty ordinary people, and one."""
    arms, kinds = np.array([0, 1] * 10 + [arm], np.uint8), np.array([0, 1, 2, 0] * 5 + [kind], np.uint8)
    return People(arms, np.append(np.linspace(1, 400, 20), time), kinds)


def statistics(study: SurvivalStudy, values: list[FloatArray], seed: int, runs: int) -> tuple[FloatArray, FloatArray]:
    """The likelihood ratio of draws on both tables."""
    draw, budget = mechanism(study), OpenBudget(SeededNoise(seed))
    away = values[0] - values[1]
    scale = draw.known_scale

    def ratios(drawn: FloatArray) -> FloatArray:
        if study.privacy.delta > 0:
            return np.asarray(drawn @ away)
        return np.asarray((np.abs(drawn - values[1]) - np.abs(drawn - values[0])).sum(axis=1) / scale)

    # Numbers in which the tables agree say nothing, and noise of each number is drawn by itself: many runs at once.
    tell = np.flatnonzero(away)
    values, away = [one[tell] for one in values], away[tell]
    first, second = (draw.release(np.tile(one, runs), strategy.SLOT, budget).reshape(runs, -1) for one in values)
    return ratios(first), ratios(second)


def values_of(study: SurvivalStudy) -> list[FloatArray]:
    """A death among the treated, or a control who is lost in the same interval: cells without a common entry."""
    plain = study.privacy.delta == 0
    pair = (table(1, 12.0, 1), table(0, 12.0, 0))
    return [strategy.measured(count_cells(one.enclave(), GRID, 1), GRID, plain) for one in pair]


@pytest.mark.parametrize("delta", ["0.01", "0"])
def test_the_release_keeps_its_promise(delta: str) -> None:
    study = make_survival(epsilon="3", delta=delta)
    found = epsilon_lower_bound(*statistics(study, values_of(study), 1, RUNS), float(delta), 1 - 1e-6)
    assert 0.4 * EPSILON < found <= EPSILON


@pytest.mark.parametrize("mutant", ["columns as they are", "noise for one column", "counted twice"])
def test_mutants_are_caught(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study = make_survival(epsilon="3", delta="0.01")
    values = values_of(study)
    if mutant == "columns as they are":
        # As long as the last column is where none is scaled.
        entries = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, 51))])
        values = [one * float(np.linalg.norm(entries)) for one in values]
    elif mutant == "counted twice":
        values = [one * 2 for one in values]
    else:
        monkeypatch.setattr(strategy.math, "sqrt", lambda _: 0.8)
    seeds = itertools.count(7)
    found = caught(lambda runs: statistics(study, values, next(seeds), runs), 200_000, EPSILON, DELTA, 1 - 1e-6)
    assert found is not None


# Three subgroups of three arms, as a protocol has them.
MANY = Grid(20, 2, 365.0, 3, 3)


def joint_values(*, overall: bool = False) -> list[FloatArray]:
    """A death in one subgroup and arm, or a loss in another; `overall`: everybody's cells are released beside them."""
    found = []
    for group, arm, kind in ((0, 0, 1), (2, 2, 0)):
        people = table(arm, 12.0, kind)
        grouped = People(people.arm, people.time, people.kind, group=np.array([0, 1, 2, 1] * 5 + [group], np.uint8))
        counts = count_cells(grouped.enclave(), MANY, 1)
        parts = [strategy.measured(counts, MANY, plain=False)]
        if overall:
            parts.append(strategy.measured(counts.reshape(3, -1).sum(axis=0), MANY, plain=False))
        found.append(np.concatenate(parts))
    return found


def test_the_release_of_many_questions_keeps_its_promise() -> None:
    study = make_survival(epsilon="3", delta="0.01")
    found = epsilon_lower_bound(*statistics(study, joint_values(), 2, RUNS), DELTA, 1 - 1e-6)
    assert 0.4 * EPSILON < found <= EPSILON


def test_everybody_beside_subgroups_would_be_caught() -> None:
    """A person would be in two cells: her subgroup's and everybody's."""
    study, values, seeds = make_survival(epsilon="3", delta="0.01"), joint_values(overall=True), itertools.count(11)
    found = caught(lambda runs: statistics(study, values, next(seeds), runs), 200_000, EPSILON, DELTA, 1 - 1e-6)
    assert found is not None


def test_a_replaced_person_changes_one_cell_of_each_table() -> None:
    counts = [count_cells(one.enclave(), GRID, 1) for one in (table(1, 12.0, 1), table(0, 9999.0, 2))]
    assert np.abs(counts[0] - counts[1]).sum() == ARMS
    assert counts[0].sum() == counts[1].sum() == 21


# One control and one treated person who is lost or has the event late, of so few that exact curves lean on each.
BESIDE = {"covariates": {"x": {"lower": 0, "upper": 1}}, "measure": ["risk"], "intervals": 5}
ADJUSTED = make_survival(False, epsilon="3", delta="0.01", trial=False, **BESIDE)


def adjusted_table(kind: int) -> People:
    """Forty people, and one who is the last of the treated: she has the event, or is lost."""
    arms = np.array([0, 1] * 20 + [1], np.uint8)
    kinds = np.array([1, 0, 0, 1] * 10 + [kind], np.uint8)
    times = np.append(np.linspace(1, 250, 40), 360.0)
    return People(arms, times, kinds, pl.DataFrame({"x": np.linspace(0, 1, 41)}))


def sums_of_outcomes(mutant: str, released: FloatArray) -> tuple[list[FloatArray], Mechanism]:
    """The exact sums that release 1 of the adjustment adds noise to, on both tables, given the released cells."""
    sizes, found = sizes_of(ADJUSTED, 41), []
    plan = times_recipe(ADJUSTED.table, sizes)
    for kind in (1, 0):
        people = adjusted_table(kind)
        enclave = people.enclave(ADJUSTED)
        grid = grid_of(ADJUSTED, 41)
        said = strategy.measured(count_cells(enclave, grid, 1), grid, False) if mutant == "exact curves" else released
        outcomes = times_outcomes_stage(ADJUSTED.table, sizes, said)
        if mutant == "exact range":
            # The range of the outcomes that there are, not of all that there may be.
            own = outcomes.by_cell[grid.cell(people.arm, people.time, people.kind)]
            middle, half = (own.max() + own.min()) / 2, max((own.max() - own.min()) / 2, 1e-9)
            outcomes = replace(outcomes, table=np.clip((outcomes.table - middle) / half, -1, 1))
        seen: list[FloatArray] = []
        budget = OpenBudget(Hears(seen))
        JointDraws(plan, people_of(enclave, outcomes), budget).scales()
        found += seen
    draw = plan.mechanism(SCALES)
    assert draw is not None
    return found, draw


class Hears(SeededNoise):
    """Adds no noise, and remembers what it should be added to."""

    def __init__(self, seen: list[FloatArray]) -> None:
        super().__init__(1)
        self._seen = seen

    def gaussian(self, value: FloatArray, scale: float) -> FloatArray:
        self._seen.append(np.array(value))
        return value


@pytest.mark.parametrize("mutant", ["none", "exact curves", "exact range"])
def test_outcomes_are_of_released_cells_alone(mutant: str) -> None:
    """Given the same released cells one person moves the sums of outcomes by no more than is declared; a table made of
    the exact cells, or scaled to the outcomes that there are, moves everybody's."""
    grid, random = grid_of(ADJUSTED, 41), np.random.default_rng(5)
    exact = strategy.measured(count_cells(adjusted_table(1).enclave(), grid, 1), grid, False)
    farthest, loud = 0.0, mechanism(ADJUSTED).known_scale
    for _ in range(20):
        (one, other), draw = sums_of_outcomes(mutant, exact + random.normal(0, loud, len(exact)))
        size = draw.sensitivity.value or np.nan
        farthest = max(farthest, float(np.linalg.norm(one - other)) / size)
        if farthest > 1:
            break
    if mutant == "none":
        assert 0.1 < farthest <= 1
        return
    assert farthest > 1
    scale, seeds = draw.known_scale, itertools.count(11)

    def ratios(runs: int) -> tuple[FloatArray, FloatArray]:
        noise = np.random.default_rng(next(seeds)).normal(0, scale, (2, runs, len(one)))
        return (one + noise[0]) @ (one - other), (other + noise[1]) @ (one - other)

    # What release 1 may lose by itself, at its own part of the budget.
    epsilon = float(epsilon_of(Decimal(size / scale), Decimal(str(DELTA))))
    assert caught(ratios, 200_000, epsilon, DELTA, 1 - 1e-6) is not None


# The same of several questions that are adjusted together, in two subgroups.
TOGETHER = make_times(
    epsilon="100",
    delta="0.01",
    trial=False,
    outcomes=[{"horizon": 365, "role": "primary"}, {"horizon": 180}],
    covariates={"x": {"lower": 0, "upper": 1}},
    measure=["risk"],
    intervals=6,
    subgroups={"name": "site", "column": {"levels": ["north", "south"]}},
)


def together(kind: int) -> MemoryEnclave:
    """The people of ``adjusted_table``, of whom the last is of the first subgroup."""
    people = adjusted_table(kind)
    assert people.covariates is not None
    rows, everybody = TOGETHER.bounded.questions[0], slice(0, len(people))
    x, g = encode(rows, columns(rows, people.covariates), everybody), np.arange(len(people), dtype=np.uint8) // 2 % 2
    part = {"t": people.arm, "u": people.time, "k": people.kind, "g": g, "h": ranks(len(people)), "x": x}
    return MemoryEnclave([part])


@pytest.mark.parametrize("mutant", ["none", "exact curves"])
def test_outcomes_of_a_protocol_are_of_released_cells_alone(mutant: str) -> None:
    """Given the same released cells one person moves the joint sums by no more than is declared; tables made of the
    exact cells move everybody's outcomes. (What several outcomes share is audited in ``test_audit_joint.py``.)"""
    sizes = sizes_of(TOGETHER, 41)
    grid, plan = grid_of(TOGETHER, 41), times_recipe(TOGETHER, sizes)
    draw = plan.mechanism(SCALES)
    assert draw is not None
    exact = [strategy.measured(count_cells(together(kind), grid, 1), grid, False) for kind in (1, 0)]
    random, farthest = np.random.default_rng(5), 0.0
    for _ in range(20):
        said = exact[0] + random.normal(0, mechanism(TOGETHER).known_scale, len(exact[0]))
        found: list[FloatArray] = []
        for place, kind in enumerate((1, 0)):
            outcomes = times_outcomes_stage(TOGETHER, sizes, exact[place] if mutant == "exact curves" else said)
            JointDraws(plan, people_of(together(kind), outcomes), OpenBudget(Hears(found))).scales()
        farthest = max(farthest, float(np.linalg.norm(found[0] - found[1])) / (draw.sensitivity.value or np.nan))
    assert farthest > 0.1
    assert (farthest <= 1) == (mutant == "none")
