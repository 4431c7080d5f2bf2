"""Strata of censoring that noise hides are pooled with their neighbours, and a release says which."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.estimators.survival import SURVIVAL
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.plan import StandIn
from causalveil.schemas.remarks import PlanCode
from causalveil.tasks.data.normalise import columns, encode
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.times.curves import ARMS, divided
from causalveil.tasks.estimate.times.people import strata_of_people
from causalveil.tasks.estimate.times.releases import grid_of, strata_of_rows
from replication.benchmarks.survival_strata import CELLS, Stratified
from tests.limits import codes
from tests.survival_help import People, found_of, make_survival

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
