"""Studies of times of the eligible, until an earlier horizon, and by classes of a number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.estimators.survival import SURVIVAL
from causalveil.flows.plan.study_plan import untold
from causalveil.flows.run.declare import load
from causalveil.schemas.asked.compare import asks_for
from causalveil.schemas.asked.study_file import load_study_file
from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.limits import Code
from causalveil.schemas.plan import StandIn
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.times.curves import ARMS, Grid
from causalveil.tasks.estimate.times.releases import count_cells, grid_of, strata_of_rows
from tests.limits import codes
from tests.survival_help import HORIZON, People, found_of, make_survival, write_adjusted

AGE: dict[str, Any] = {"lower": 20, "upper": 60}
OLDER: dict[str, Any] = {"column": "age", "holds": AGE, "op": ">=", "values": [40.0]}


def of_two_ages(n: int, seed: int, followed: float = 2 * HORIZON) -> People:
    """Treatment halves the hazard of those aged 40 or more and doubles that of the others; it was randomised.

    Half of the older controls have the event. Who is younger is never lost. ``followed``: until when anybody is.
    """
    random = np.random.default_rng([seed, 5])
    age, arm = random.uniform(20, 60, n), (random.random(n) < 0.5).astype(np.uint8)
    rate = np.log(2) / HORIZON * np.where(arm == 0, 1.0, np.where(age >= 40, 0.5, 2.0))
    event = random.exponential(1 / rate)
    lost = np.minimum(np.where(age >= 40, random.exponential(2 * HORIZON, n), np.inf), followed)
    time, kind = np.minimum(event, lost), (event <= lost).astype(np.uint8)
    return People(arm, time, kind, pl.DataFrame({"age": age}))


def risk_difference(until: float) -> float:
    """Of the older, at a time."""
    return float(2.0 ** (-until / HORIZON) - 2.0 ** (-until / HORIZON / 2))


def asking(adjusted: bool, **changes: Any) -> SurvivalStudy:
    beside = {"covariates": {"age": AGE}, "measure": ["risk"]} if adjusted else {}
    return make_survival(competing=False, epsilon="3", **{**beside, **changes})


@pytest.mark.parametrize("adjusted", [False, True])
def test_the_answer_is_of_the_eligible(adjusted: bool) -> None:
    """Of 6,000 people half are; their effect is -.21, that of everybody near +.02."""
    found = found_of(asking(adjusted, where=[OLDER]), of_two_ages(6_000, 1), 1)
    assert found.interval.lower < risk_difference(HORIZON) < found.interval.upper
    assert found.interval.upper < -0.1
    everybody = found_of(asking(adjusted), of_two_ages(6_000, 1), 1)
    assert everybody.interval.lower > risk_difference(HORIZON)


def test_intervals_of_the_eligible_hold_their_effect() -> None:
    """Of 2,000 people at epsilon 1, half eligible: 17 of 20 or more, of which fewer come up three times in a thousand
    where the true coverage is .95; half as wide they hold it seldom enough to tell."""
    study = make_survival(competing=False, where=[OLDER], measure=["risk"], covariates={"age": AGE})
    found = [found_of(study, of_two_ages(2_000, seed), seed) for seed in range(20)]
    away = np.array([one.answers[0].estimate - risk_difference(HORIZON) for one in found])
    half = np.array([(one.interval.upper - one.interval.lower) / 2 for one in found])
    assert (np.abs(away) <= half).sum() >= 17
    assert half.max() < 0.6


@pytest.mark.parametrize("adjusted", [False, True])
def test_nobody_eligible_is_an_answer_of_nothing(adjusted: bool) -> None:
    nobody = [{**OLDER, "op": ">", "values": [59.99999]}]
    found = found_of(asking(adjusted, where=nobody), of_two_ages(2_000, 2), 1)
    assert found.interval.whole_range
    assert (found.interval.lower, found.interval.upper) == (-1, 1)
    assert np.isfinite([one.estimate for one in found.answers]).all()


def test_the_ineligible_have_no_cell() -> None:
    study, people = asking(True, where=[OLDER]), of_two_ages(500, 3)
    grid = grid_of(study, 500)
    assert people.covariates is not None
    older = people.covariates["age"].to_numpy() >= 40
    alone = People(people.arm[older], people.time[older], people.kind[older])
    counts = count_cells(people.enclave(study), grid, 1)
    assert counts.reshape(ARMS, -1).tolist() == alone.counts(Grid(grid.intervals, 1, HORIZON)).tolist()


@pytest.mark.parametrize("adjusted", [False, True])
def test_a_study_may_restrict_its_horizon(adjusted: bool) -> None:
    """Nobody is followed beyond day 200: by default nothing is told of day 365, restricted the effect until then."""
    people, where = of_two_ages(20_000, 6, followed=200.0), [OLDER]
    refused = found_of(asking(adjusted, where=where), people, 1)
    assert refused.interval.whole_range
    assert refused.headline.restricted_to is None
    told = found_of(asking(adjusted, where=where, censoring={"beyond": "restrict"}), people, 1)
    assert told.headline.restricted_to is not None
    assert 150 < told.headline.restricted_to < 200 + HORIZON / 50, (
        "the interval in which the last are lost begins with them"
    )
    assert float(refused.details["followed_until"]) == told.headline.restricted_to
    assert told.interval.lower < risk_difference(told.headline.restricted_to) < told.interval.upper < 0
    assert Code.earlier_horizon in codes(told.not_covered)
    assert told.curves[0].curves.horizon == HORIZON


def test_a_floor_that_holds_to_the_end_restricts_nothing() -> None:
    people = of_two_ages(6_000, 7)
    plain, restricted = (
        found_of(asking(True, censoring={"beyond": beyond}), people, 1) for beyond in ("refuse", "restrict")
    )
    assert restricted.headline.restricted_to is None
    assert restricted.answers[0].estimate == plain.answers[0].estimate


def test_restricted_mean_times_end_with_the_measure() -> None:
    people = of_two_ages(20_000, 8, followed=200.0)
    study = asking(False, censoring={"beyond": "restrict"}, measure=["rmst"])
    found = found_of(study, people, 1)
    assert found.headline.restricted_to is not None
    assert 0 < found.answers[0].values[0] < found.headline.restricted_to


CLASSES: list[tuple[Any, tuple[float, ...]]] = [
    (["treated", "age in four"], (30.0, 40.0, 50.0)),
    (["age in 2"], (40.0,)),
    ([{"age": [25, 40]}], (25.0, 40.0)),
    ({"age": [25, 40]}, (25.0, 40.0)),
]


@pytest.mark.parametrize(("by", "classes"), CLASSES)
def test_a_number_has_public_classes(by: Any, classes: tuple[float, ...], tmp_path: Path) -> None:
    path = write_adjusted(tmp_path, study={"censoring": {"by": by}})
    study, asked = load(path).study, load_study_file(path)
    assert isinstance(study, SurvivalStudy)
    assert study.censoring.classes == {"age": classes}
    assert study.censoring.groups == len(classes) + 1
    assert asks_for(asked, study)
    other = write_adjusted(tmp_path / "other", study={"censoring": {"by": ["age in three"]}})
    assert not asks_for(load_study_file(other), study)
    ages = pl.DataFrame({"age": [19.0, 25.0, 39.99, 40.0, 99.0]})
    expected = np.searchsorted(classes, ages["age"].to_numpy(), side="right")
    assert strata_of_rows(study, ages).tolist() == expected.tolist()


def test_a_missing_number_is_a_class_of_its_own() -> None:
    by = {"by": {"age": {**AGE, "nulls": "indicator"}}, "classes": {"age": [40.0]}}
    study = asking(True, covariates={"age": {**AGE, "nulls": "indicator"}}, missing="indicator", censoring=by)
    assert study.censoring.groups == 3
    assert strata_of_rows(study, pl.DataFrame({"age": [None, 20.0, float("nan"), 50.0]})).tolist() == [2, 0, 2, 1]


def test_a_column_may_be_called_so(tmp_path: Path) -> None:
    named = {"ward in two": {"levels": ["a", "b"]}}
    path = write_adjusted(tmp_path, study={"censoring": {"by": ["ward in two"]}}, contract={"columns": named})
    study = load(path).study
    assert isinstance(study, SurvivalStudy)
    assert (study.censoring.groups, study.censoring.classes) == (2, {})


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"censoring": {"by": [{"age": [40, 30]}]}}, "these must ascend between 20 and 60"),
    ({"censoring": {"by": [{"age": [20]}]}}, "these must ascend between 20 and 60"),
    ({"censoring": {"by": ["group in two"]}}, "which is no number"),
    ({"censoring": {"by": ["age in twelve", "group"]}}, "makes 36 groups of an arm; at most 12"),
    ({"censoring": {"by": ["age in many"]}}, "declares no column 'age in many'"),
    ({"censoring": {"beyond": "guess"}}, "'refuse' or 'restrict'"),
    ({"where": [{"column": "days", "op": ">", "value": 3}]}, "'where.1': column 'days' is a time to an event"),
    ({"where": [{"column": "treated", "op": "==", "value": True}]}, "'where' names 'treated', which is the treatment"),
    ({"where": [{"column": "nothing", "op": "==", "value": 1}]}, "declares no column 'nothing'"),
    (
        {"where": [{"column": "age", "op": ">", "value": 50}, {"column": "age", "op": "<", "value": 30}]},
        "no unit would be eligible",
    ),
]


@pytest.mark.parametrize(("changes", "told"), REFUSED)
def test_what_is_refused(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    path = write_adjusted(tmp_path, study=changes)
    with pytest.raises(StudyError) as refusal:
        load(path)
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_plan_is_of_the_eligible_share() -> None:
    study = make_survival(competing=False, where=[OLDER])
    sizes = sizes_of(study, 5_000)
    all_of_them = SURVIVAL.expected(make_survival(competing=False), sizes, StandIn(), None)["half_width"]
    told = SURVIVAL.expected(study, sizes, StandIn(eligible=0.25), None)
    assert 1.8 * all_of_them < told["half_width"] < 4 * all_of_them
    assert "eligible" in {fact.name for fact in untold(study, SURVIVAL.facts_of(study), StandIn(), ())}
    adjusted = make_survival(competing=False, where=[OLDER], covariates={"age": AGE}, measure=["risk"])
    assert SURVIVAL.expected(adjusted, sizes, StandIn(eligible=0.25), None)["half_width"] > told["half_width"]
