"""Pseudo-outcomes: a table of public numbers whose means are the curves', with a range that follow-up decides."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.estimators.survival import SURVIVAL
from causalveil.schemas.estimators.survival import MOST_INTERVALS, Measure, SurvivalStudy
from causalveil.schemas.plan import StandIn
from causalveil.schemas.remarks import PlanCode
from causalveil.tasks.data.normalise import columns, encode
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.times import curves
from causalveil.tasks.estimate.times.curves import ARMS, BITS, Grid, divided, measured, strategy
from causalveil.tasks.estimate.times.effects import TwoArms
from causalveil.tasks.estimate.times.people import strata_of_people
from causalveil.tasks.estimate.times.releases import budget_of, grid_of, mechanism, strata_of_rows
from replication.benchmarks.survival_strata import CELLS, Stratified
from tests.limits import codes
from tests.survival_help import People, by_cell, exact_cells, found_of, make_survival, outcomes_of, read_cells


def people(n: int, lost: float, seed: int = 1) -> People:
    """A trial of exponential times; half have the event by the horizon of 1, a share is lost."""
    random = np.random.default_rng(seed)
    arm = (np.arange(n) % 2).astype(np.uint8)
    event = random.exponential(1 / np.log(2), n) * np.where(arm, 1.5, 1.0)
    gone = random.exponential(-1 / np.log1p(-lost), n) if lost else np.full(n, 9.0)
    return People(arm, np.minimum(event, gone), (event <= gone).astype(np.uint8))


@pytest.mark.parametrize("measure", list(Measure))
@pytest.mark.parametrize("lost", [0.0, 0.3, 0.6])
def test_means_over_an_arm_are_its_curve(measure: Measure, lost: float) -> None:
    grid = Grid(20, 1, 1.0)
    both = TwoArms(exact_cells(people(4_000, lost).counts(grid), grid))
    table = by_cell(both, measure)
    for arm in (0, 1):
        cells = both.tidy[arm]
        value = float(both.function(measure)(cells))
        assert cells @ table[arm] / cells.sum() == pytest.approx(value, abs=1e-9)


def test_without_censoring_they_are_the_outcomes_themselves() -> None:
    """Whether the event came, and the time without it, up to half an interval."""
    grid = Grid(20, 1, 1.0)
    both = TwoArms(exact_cells(people(4_000, 0.0).counts(grid), grid))
    risk, mean = (by_cell(both, one) for one in (Measure.risk, Measure.rmst))
    came = np.append(np.ones(20), 0.0)
    middles = np.append((np.arange(20) + 0.5) / 20, 1.0)
    own = [*range(20), 40]
    for arm in (0, 1):
        assert risk[arm][own] == pytest.approx(came, abs=1e-9)
        assert mean[arm][own] == pytest.approx(middles, abs=1e-9)


@pytest.mark.parametrize(("lost", "wide"), [(0.3, 1.7), (0.6, 4.5)])
def test_their_range_is_what_follow_up_leaves(lost: float, wide: float) -> None:
    """About 1/G(tau) of a risk, about tau of a restricted mean."""
    grid = Grid(20, 1, 1.0)
    counts = people(40_000, lost).counts(grid)
    risk, mean = (outcomes_of(grid, counts, one) for one in (Measure.risk, Measure.rmst))
    assert float(risk.followed[0, 0]) == pytest.approx(1 - lost, abs=0.02)
    assert 1 / (1 - lost) - 0.1 < 2 * float(risk.half[0, 0]) < 1.2 * wide
    assert 2 * float(mean.half[0, 0]) < 1.3


def test_they_move_with_a_person_as_the_curve_does() -> None:
    """One more person in a cell moves the curve by (z - f)/n, to first order (n = 40,000)."""
    grid = Grid(10, 2, 1.0)
    random = np.random.default_rng(2)
    counts = random.multinomial(40_000, random.dirichlet(np.full(2 * grid.cells, 5.0))).reshape(2, -1).astype(float)
    both = TwoArms(exact_cells(counts, grid))
    table, cells = by_cell(both, Measure.risk), both.tidy[1]
    for place in (0, 7, 15, 24, 30):
        more = cells.copy()
        more[place] += 1
        moved = (curves.risk(more, grid) - curves.risk(cells, grid)) * cells.sum()
        assert table[1][place] - curves.risk(cells, grid) == pytest.approx(moved, rel=2e-3, abs=1e-4)


# What is released of cells: exact sums, a sensitivity of sqrt(2) for every grid, noise that hardly grows with it.
@pytest.mark.parametrize("kinds", [1, 2])
def test_no_two_cells_are_farther_apart_than_the_root_of_two(kinds: int) -> None:
    """All pairs of cells of both arms, of every grid, in whole numbers; attained up to what rounding takes off."""
    for intervals in range(1, MOST_INTERVALS + 1):
        entries = strategy(Grid(intervals, kinds, 1.0), False)
        inner = entries.T @ entries
        lengths = np.diag(inner)
        apart = lengths[:, None] + lengths[None, :] - 2 * inner
        # Cells of different arms share no entry.
        farthest = max(int(apart.max()), 2 * int(lengths.max()))
        assert farthest <= 2 * 4**BITS
        assert farthest > 2 * 4**BITS * (1 - 1e-5)
        assert (entries >= 0).all()


def test_sums_are_exact_for_as_many_people_as_there_are() -> None:
    grid, random = Grid(50, 2, 365.0), np.random.default_rng(1)
    counts = random.integers(0, 10**8, 2 * grid.cells)
    found = measured(counts, grid, plain=False)
    exact = [
        sum(int(a) * int(b) for a, b in zip(row, counts[: grid.cells], strict=True)) for row in strategy(grid, False)
    ]
    assert [Fraction(one) for one in found[: grid.cells].tolist()] == [Fraction(one, 2**BITS) for one in exact]


def test_a_person_is_in_one_cell() -> None:
    grid = Grid(10, 2, 365.0)
    time = np.array([0.0, 36.5, 36.6, 73.0, 365.0, 365.1, 9999.0, 365.0])
    kind = np.array([1, 1, 2, 0, 1, 1, 2, 0], dtype=np.uint8)
    arm = np.array([0, 0, 0, 1, 1, 1, 0, 0], dtype=np.uint8)
    # Events at an interval's end are in it, and who outlives the horizon is at risk there whatever came later.
    # So is who is lost at the horizon: she was followed to it.
    expected = [0, 0, 11, 31 + 22, 31 + 9, 31 + 30, 30, 30]
    assert grid.cell(arm, time, kind).tolist() == expected
    uneven = replace(grid, between=tuple(36.5 * np.arange(1, 11)))
    assert uneven.cell(arm, time, kind).tolist() == expected


def test_times_at_ends_of_intervals_are_not_pushed_on_by_rounding() -> None:
    for horizon, intervals in ((365.0, 20), (365.0, 30), (0.7, 7), (1095.0, 49)):
        grid = Grid(intervals, 1, horizon)
        whole = np.arange(1, intervals + 1) * horizon
        time = np.array([one / intervals for one in whole.tolist() if one % intervals == 0])
        arm = np.zeros(len(time), np.uint8)
        expected = [round(one * intervals / horizon) - 1 for one in time.tolist()]
        assert grid.cell(arm, time, np.ones(len(time), np.uint8)).tolist() == expected


@pytest.mark.parametrize("delta", ["1e-6", "0"])
def test_cells_are_read_back_and_add_up_to_everybody(delta: str) -> None:
    study = make_survival(delta=delta)
    grid, random = grid_of(study, 2_000), np.random.default_rng(2)
    counts = random.multinomial(2_000, random.dirichlet(np.ones(2 * grid.cells)))
    found = read_cells(measured(counts, grid, delta == "0"), study, 2_000)
    assert found.counts.reshape(-1) == pytest.approx(counts, abs=1e-6)
    noisy = read_cells(random.normal(0, 9, 2 * grid.cells), study, 2_000)
    assert noisy.counts.sum() == pytest.approx(2_000)
    assert noisy.noise.sum() == pytest.approx(0, abs=1e-6)
    assert np.linalg.eigvalsh(noisy.noise).min() > -1e-6


def test_the_covariance_is_that_of_the_noise() -> None:
    """3,000 draws, seed 3: diagonal and sums within 15%, which a right covariance fails once in a million."""
    study, random = make_survival(competing=False, intervals=10), np.random.default_rng(3)
    grid, draw = Grid(10, 1, 365.0), mechanism(study)
    noise = random.normal(0, draw.known_scale, (3_000, 2 * grid.cells))
    found = [read_cells(row, study, 500) for row in noise]
    counts = np.array([one.counts.reshape(-1) for one in found])
    assert counts.var(axis=0) == pytest.approx(np.diag(found[0].noise), rel=0.15)
    sums = np.cumsum(counts[:, :10], axis=1)
    take = np.tril(np.ones((10, 10)))
    assert sums.var(axis=0) == pytest.approx(np.diag(take @ found[0].noise[:10, :10] @ take.T), rel=0.15)


def noise_of_curve(intervals: int, plain: bool) -> float:
    """kappa: n mu times the deviation of the noise of S at the horizon; S = .5, two thirds still followed."""
    grid, people = Grid(intervals, 1, 1.0), 1e6
    ends = np.linspace(0, 1, intervals + 1)
    event, lost = np.log(2), -np.log(2 / 3)
    left = np.exp(-(event + lost) * ends)
    gone = -np.diff(left) / (event + lost)
    cells = people * np.concatenate([event * gone, lost * gone, left[-1:]])
    slope = curves.gradient(lambda one: curves.survival(one, grid)[..., -1], cells)
    back = np.linalg.inv(strategy(grid, plain) / 2**BITS)
    return float(np.sqrt(2) * np.linalg.norm(slope @ back) * people)


def test_a_fine_grid_costs_nearly_nothing() -> None:
    ours = [noise_of_curve(intervals, plain=False) for intervals in (25, 50, 100)]
    histogram = [noise_of_curve(intervals, plain=True) for intervals in (25, 50, 100)]
    assert ours == pytest.approx([1.9, 2.0, 2.2], abs=0.1)
    assert histogram == pytest.approx([5.2, 7.3, 10.3], abs=0.3)


def test_the_grid_follows_public_numbers() -> None:
    assert [grid_of(make_survival(epsilon=one), 1_000).intervals for one in ("0.5", "1", "3")] == [10, 20, 50]
    assert grid_of(make_survival(delta="0"), 10**6).intervals == 10
    assert budget_of(make_survival(delta="0")) == 0
    assert grid_of(make_survival(intervals=33), 100).intervals == 33
    assert grid_of(make_survival(outcome={"horizon": 14}), 10**6).intervals == 14
    assert grid_of(make_survival(outcome={"horizon": 14, "step": 0.5}), 10**6).intervals == 28


# Strata of censoring that noise hides are pooled with their neighbours, and a release says which.
TWO_COLUMNS = CELLS[1]


def sizes_at_least(least: float, sizes: list[int]) -> list[list[int]]:
    many = np.array(sizes)
    return [one.tolist() for one in divided((len(sizes),), lambda members: many[members].sum() >= least)]


def test_levels_join_their_neighbours_until_they_are_seen() -> None:
    assert sizes_at_least(5, [9, 9, 9]) == [[0], [1], [2]]
    assert sizes_at_least(5, [1, 9, 9, 1]) == [[0, 1], [2, 3]]
    assert sizes_at_least(5, [9, 2, 3, 9, 0]) == [[0], [1, 2], [3, 4]]
    assert sizes_at_least(5, [1, 1, 1]) == [[0, 1, 2]]
    assert sizes_at_least(5, []) == [[]], "no column divides"


def test_the_last_column_is_pooled_before_the_others() -> None:
    sizes = np.array([[9, 9], [9, 1], [1, 2]]).reshape(-1)
    found = divided((3, 2), lambda members: sizes[members].sum() >= 5)
    assert [one.tolist() for one in found] == [[0], [1], [2, 3, 4, 5]]


def test_every_combination_is_in_one_stratum_that_is_seen() -> None:
    """Of 300 tables of one to three columns, seed 1; strata are products of levels side by side."""
    random = np.random.default_rng(1)
    for _ in range(300):
        levels = tuple(random.integers(1, 5, random.integers(1, 4)).tolist())
        sizes = random.integers(0, 30, int(np.prod(levels)))
        found = divided(levels, lambda members, of=sizes: of[members].sum() >= 40)
        assert sorted(np.concatenate(found).tolist()) == list(range(len(sizes)))
        assert len(found) == 1 or all(sizes[one].sum() >= 40 for one in found)
        for one in found:
            held = [np.unique(places) for places in np.unravel_index(one, levels)]
            assert len(one) == np.prod([len(own) for own in held])
            assert all(b - a == 1 for own in held for a, b in pairwise(own.tolist()))


def half_of(found: Findings) -> float:
    return (found.interval.upper - found.interval.lower) / 2


def test_two_columns_cost_no_answer_and_the_plan_tells_the_width() -> None:
    """Four runs of 5,000 people at epsilon 1, whose strata are of unequal size: without pooling none answers."""
    study = TWO_COLUMNS.study(declared=True)
    found = [TWO_COLUMNS.found(5_000, seed, declared=True) for seed in range(4)]
    assert not any(one.interval.whole_range for one in found)
    assert sum(one.interval.lower <= TWO_COLUMNS.truth <= one.interval.upper for one in found) >= 3
    planned = SURVIVAL.expected(study, sizes_of(study, 5_000), StandIn(), None)
    assert median(map(half_of, found)) == pytest.approx(planned["half_width"], rel=0.2)
    warned = SURVIVAL.warnings(study, sizes_of(study, 5_000), StandIn())
    (said,) = (one for one in warned if one.code is PlanCode.pooled_strata)
    assert said.facts["strata"] == 10
    assert int(str(said.facts["left"])) < 10
    for one in found:
        assert 1 < int(one.details["strata"]) < 10
        assert "c1: " in str(one.details["pooled_strata"])
        assert {str(limit.code) for limit in one.not_covered} >= {"censoring_within", "censoring_pooled"}


def test_what_noise_does_not_hide_is_not_pooled() -> None:
    """Of 40,000 people at epsilon 3; a plan of as many in one column warns of nothing."""
    one = Stratified("one column", (("c1", 0, (0.5, 0.5)),), 0.5)
    found = one.found(40_000, 1, declared=True, epsilon="3")
    assert found.details["strata"] == 2
    assert "pooled_strata" not in found.details
    assert "censoring_pooled" not in [str(limit.code) for limit in found.not_covered]
    study = one.study(declared=True, epsilon="3")
    assert PlanCode.pooled_strata not in codes(SURVIVAL.warnings(study, sizes_of(study, 40_000), StandIn()))
    assert "strata" not in one.found(5_000, 1, declared=False).details, "nothing is said of strata that nobody declared"


def test_a_level_that_nobody_has_costs_nothing() -> None:
    one = Stratified("nobody", (("c1", 0, (0.6, 0.4, 0.0)),), 0.0)
    found = one.found(10_000, 1, declared=True, epsilon="3")
    assert not found.interval.whole_range
    assert found.details["pooled_strata"] == "c1: l1 or l2"


def test_a_stratum_that_is_seen_is_held_to_the_floor() -> None:
    """Most of a level are lost, which noise does not hide: the answer is the whole range, as a study declared it."""
    one = Stratified("lost", (("c1", 0, (0.5, 0.5)),), 1.5)
    study = one.study(declared=True, epsilon="3", censoring={"floor": 0.3})
    found = found_of(study, one.people(np.random.default_rng(1), 40_000), 1)
    assert found.details["strata"] == 2
    assert found.interval.whole_range


def test_where_an_earlier_end_answers_strata_are_pooled_until_then() -> None:
    """A horizon that nobody reaches by day 300 of 365 ends earlier, and both levels keep curves of their own."""
    one = Stratified("early", (("c1", 0, (0.5, 0.5)),), 0.5)
    people = one.people(np.random.default_rng(1), 20_000)
    late = people.time > 300
    ended = People(
        people.arm, np.minimum(people.time, 300), np.where(late, 0, people.kind).astype(np.uint8), people.covariates
    )
    study = one.study(declared=True, epsilon="3", censoring={"beyond": "restrict"})
    found = found_of(study, ended, 1)
    assert found.headline.restricted_to is not None
    assert found.details["strata"] == 2


def of_levels(delta: str = "1e-6") -> SurvivalStudy:
    return TWO_COLUMNS.study(declared=True, delta=delta)


@pytest.mark.parametrize("delta", ["1e-6", "0"])
def test_strata_that_no_people_could_show_are_pooled_before_they_are_released(delta: str) -> None:
    study = of_levels(delta)
    groups = [grid_of(study, n).groups for n in (12, 1_000, 5_000, 30_000, 1_000_000)]
    assert groups == sorted(groups)
    assert (groups[0], groups[-1]) == (1, 10)
    assert groups[1] < 4


def test_a_person_is_in_one_cell_of_her_stratum() -> None:
    """Whatever strata are pooled before their release; who is not eligible is in none."""
    study = of_levels()
    grid = grid_of(study, 1_500)
    assert 1 < grid.groups < 10
    combinations = np.arange(11).astype(np.uint8)
    zeros = np.zeros(11, np.uint8)
    cells = grid.cell(zeros, np.full(11, 9_999.0), zeros, combinations)
    assert (cells // (ARMS * grid.cells)).tolist() == [*grid.places, grid.groups]


BESIDE: dict[str, Any] = {
    "age": {"lower": 20, "upper": 80, "scale": "log", "nulls": "indicator"},
    "flag": {"lower": 0, "upper": 1, "codes": {"no": 0, "yes": 1}},
    "ward": {"levels": ["a", "b"]},
}


def test_made_people_are_in_the_strata_of_their_covariates() -> None:
    """As rows are; a column that is no covariate is divided by chance, evenly."""
    by = {"by": BESIDE, "classes": {"age": [40.0]}}
    study = make_survival(False, trial=False, missing="indicator", covariates=BESIDE, censoring=by)
    frame = pl.DataFrame(
        [
            {"age": age, "flag": flag, "ward": ward}
            for age in (25.0, 40.0, 70.0)
            for flag in (0, 1)
            for ward in ("a", "b")
        ]
    )
    rows = study.bounded.questions[0]
    x = encode(rows, columns(rows, frame), slice(0, 12))
    assert strata_of_people(study, x, np.full(12, 0.3)).tolist() == strata_of_rows(study, frame).tolist()
    alone = make_survival(False, trial=False, missing="indicator", covariates={"ward": BESIDE["ward"]}, censoring=by)
    found = strata_of_people(alone, np.zeros((8, 3)), (np.arange(8) + 0.5) / 8)
    assert np.bincount(found, minlength=12).tolist() == [2, 0, 2, 0, 2, 0, 2, 0, 0, 0, 0, 0]
