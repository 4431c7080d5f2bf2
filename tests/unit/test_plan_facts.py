"""A plan names the facts that it was not told; the widths that it says for them are those of a plan that is told."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from causalveil.flows.api import plan as plan_of
from causalveil.flows.estimators.regression import REGRESSION
from causalveil.flows.estimators.rehearsal import Made, people_of_effect
from causalveil.flows.plan.study_plan import NOT_WORTH, expected
from causalveil.flows.run.estimators import warnings_of
from causalveil.schemas.errors import StudyError
from causalveil.schemas.plan import Plan, StandIn
from causalveil.schemas.remarks import PlanCode, Remark, remark
from causalveil.schemas.studies import parse_study
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.people import assumed, stand_in_outcomes
from causalveil.tasks.estimate.people import people as stand_in_people
from tests.protocol_help import make_protocol
from tests.studies import command, people, write_study
from tests.survival_help import make_survival, make_times

OLDER = {"column": "age", "op": ">=", "values": [40], "holds": {"lower": 20, "upper": 60}}
STUDIES = {
    "regression": {"estimator": {"name": "regression", "penalty": ...}},
    "difference": {"estimator": {"name": "difference_in_means", "penalty": ...}},
}
# The change is that between three draws, the width the median of twelve: they agree up to this factor.
AGREES = {"regression": 1.3, "difference": 1.02}


@pytest.mark.parametrize("name", STUDIES)
def test_each_fact_that_was_not_told_is_named_with_what_it_changes(name: str, tmp_path: Path) -> None:
    allowed = {"estimators": ["regression", "difference_in_means"]}
    study = write_study(tmp_path, frame=people(200), study=STUDIES[name], contract=allowed)
    silent = plan_of(study, units=50_000)
    said = untold_of(silent.sentences)
    if name != "difference":
        # An unadjusted difference allows for the declared confounding, which is most of it whoever is treated.
        assert "the treated share" in [one.facts["fact"] for one in said]
    # The advice is true: told, the plan says about that width, and names the fact no longer.
    for fact, value in {"treated": 0.1, "deviation": silent_deviation(said)}.items():
        told = plan_of(study, units=50_000, **{fact: value})
        assert f"with `{fact}`" not in [one.facts["where"] for one in untold_of(told.sentences)]
        ratio = told.expected["half_width"] / silent.expected["half_width_if"][fact]
        assert 1 / AGREES[name] <= ratio <= AGREES[name], fact


def test_plan_and_release_say_what_fewer_covariates_give_by_what_the_study_expects() -> None:
    """Seeds of a rehearsal are fixed: half of 24 are .6 as wide, and where a tenth is treated as wide."""
    document = make_protocol().model_dump(mode="json")

    def told(many: int, **expect: float) -> list[Remark]:
        covariates = {f"x{place}": {"lower": -4, "upper": 4} for place in range(many)}
        asked = {"outcomes": document["outcomes"][:1], "subgroups": None, "covariates": covariates, "expect": expect}
        study = parse_study(document | asked)
        return [one for one in warnings_of(study, sizes_of(study, 2_000)) if one.code is PlanCode.fewer_covariates]

    (said,) = told(24)
    assert (said.facts["many"], said.facts["half"]) == (24, 12)
    assert told(24, treated=0.1) == told(9) == []


def untold_of(said: Iterable[Remark]) -> list[Remark]:
    """What a plan says of facts that it was not told."""
    return [one for one in said if one.code is PlanCode.untold]


def silent_deviation(said: list[Remark]) -> float:
    """The other deviation that the plan speaks of."""
    (one,) = (one for one in said if one.facts["where"] == "with `deviation`")
    return float(str(one.facts["others"]).split(" at ")[1].replace(",", ""))


def test_a_value_is_told_if_it_is_given_even_if_it_is_the_default() -> None:
    assert StandIn.told(treated=0.5, deviation=None).model_fields_set == {"treated"}
    assert StandIn.told(treated=0.5) == StandIn()


def test_a_protocol_and_a_study_of_times_name_the_treated_share_too() -> None:
    """Assumed in silence before, half treated made intervals of one treated in ten a third as wide as they come."""
    for study in (make_protocol(), make_survival()):
        plan = Plan(
            study="s", study_digest="0" * 64, sizes=sizes_of(study, 20_000), charges=(),
            total=study.privacy.cost, epsilon_pld=None,
        )  # fmt: skip
        silent, told = expected(study, plan, StandIn()), expected(study, plan, StandIn.told(treated=0.1))
        assert ("the treated share", "0.5") in [
            (one.facts["fact"], one.facts["assumed"]) for one in untold_of(silent["sentences"])
        ]
        assert "the treated share" not in [one.facts["fact"] for one in untold_of(told["sentences"])]
        assert told["half_width"] > 1.3 * silent["half_width"]
        low, high = silent["half_width_range"]
        assert low <= silent["half_width"] < silent["half_width_if"]["treated"] <= high


def test_several_arms_are_of_one_size_and_a_treated_share_is_refused() -> None:
    """The sizes were assumed in silence, and the share of one arm was dropped without a word."""
    study = make_protocol(arms=4)
    plan = Plan(
        study="s", study_digest="0" * 64, sizes=sizes_of(study, 20_000), charges=(),
        total=study.privacy.cost, epsilon_pld=None,
    )  # fmt: skip
    sentences = expected(study, plan, StandIn())["sentences"]
    assert remark(PlanCode.equal_arms, units=5_000.0) in sentences
    with pytest.raises(StudyError, match="this study has 4, which a plan takes to be of one size"):
        expected(study, plan, StandIn.told(treated=0.1))


@pytest.mark.parametrize("make", [make_survival, make_times])
def test_times_ask_for_what_their_study_does_not_expect(make: Any) -> None:
    """The risk, the share lost and the eligible share, each with what it changes; told, the plan says about that."""
    silent, told = make(where=[OLDER]), make(where=[OLDER], expect={"risk": 0.1, "lost": 0.3})
    plan = Plan(
        study="s", study_digest="0" * 64, sizes=sizes_of(silent, 20_000), charges=(),
        total=silent.privacy.cost, epsilon_pld=None,
    )  # fmt: skip
    said, after = expected(silent, plan, StandIn()), expected(told, plan, StandIn.told(eligible=0.5))
    asked = [one.facts["where"] for one in untold_of(said["sentences"])]
    for where in (
        "in the study, as `expect: {risk: 0.5}`",
        "in the study, as `expect: {lost: 0.3}`",
        "with `eligible`",
    ):
        assert where in asked
        assert where not in [one.facts["where"] for one in untold_of(after["sentences"])]
    assert after["half_width"] == pytest.approx(said["half_width_if"]["risk"], rel=0.05)


def test_options_that_are_not_given_are_not_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    allowed = {"estimators": ["regression"]}
    study = write_study(tmp_path, frame=people(200), study=STUDIES["regression"], contract=allowed)
    for options, named in (([], {"explained", "distance"}), (["--explained", "0.3"], {"distance"})):
        command("plan", study, "--units", "5000", "--json", *options)
        found = json.loads(capfd.readouterr().out)["expected"]["half_width_if"]
        assert named <= set(found)
        assert ("explained" in found) is not bool(options)


def test_an_outcome_of_0_and_1_has_the_mean_that_its_deviation_says() -> None:
    """One in fifty dies: such outcomes are not normal ones around a half."""
    study = parse_study({**STUDY, "outcome": {"name": "y", "lower": 0, "upper": 1}})
    deviation = math.sqrt(0.02 * 0.98)
    rows = stand_in_people(study, StandIn.told(deviation=deviation), 20_000, False)
    assert set(np.unique(rows.u)) == {-1.0, 1.0}
    assert np.mean(rows.u > 0) == pytest.approx(0.02, abs=0.002)
    # Told the mean it has the deviation.
    assert assumed(study, StandIn.told(mean=0.02)).deviation == pytest.approx(deviation)


@pytest.mark.parametrize("treated", [0, 1])
@pytest.mark.filterwarnings("error")
def test_outcomes_of_people_are_numbers_where_none_of_them_is_in_an_arm(treated: int) -> None:
    """One in a thousand is treated: of a few hundred people it may be none."""
    index = np.linspace(-1, 1, 200)
    u = stand_in_outcomes(parse_study(STUDY), StandIn(), index, np.full(200, treated, np.uint8), 0, True, 0.0)
    assert np.isfinite(u).all()
    assert u.std() > 0


def test_few_people_differ_by_chance_from_draw_to_draw_and_many_stand_for_all() -> None:
    study, made = parse_study(STUDY), list[Made]()

    def make(study: Any, people: Made) -> Any:
        made.append(people)
        return people_of_effect(study, people)

    assert REGRESSION.rehearsal is not None
    rehearsal = replace(REGRESSION.rehearsal(study), make=make)
    for units in (1_000, 10**7):
        rehearsal.draws(REGRESSION.stages_of(study), study, sizes_of(study, units), StandIn(), None, 2)
    assert [one.sample for one in made] == [0, 1, None]
    assert [one.count for one in made] == [1_000, 1_000, 4_096]


STUDY = {
    "kind": "effect", "name": "s", "data": {"path": ".", "unit": "unit"}, "treatment": "t",
    "outcome": {"name": "y", "lower": -4, "upper": 4},
    "covariates": {f"x{place}": {"lower": -4, "upper": 4} for place in range(3)},
    "estimator": {"name": "regression"}, "privacy": {"epsilon": "1", "delta": "1e-6"},
}  # fmt: skip


def test_plan_says_what_a_delta_would_give(tmp_path: Path) -> None:
    caps = {"sample": {"epsilon": 4, "delta": "1e-4"}}
    owner = {"accounting": "concentrated", "estimators": ["regression"], "caps": caps}
    pure = {"estimator": {"name": "regression", "penalty": ...}, "privacy": {"epsilon": "0.5", "delta": 0}}
    path = write_study(tmp_path / "pure", frame=people(600), study=pure, contract=owner)
    with_delta = write_study(
        tmp_path / "delta",
        frame=people(600),
        study=pure | {"privacy": {"epsilon": "0.5", "delta": "1e-6"}},
        contract=owner,
    )
    told = []
    for units in (2_000, 20_000):
        found, other = plan_of(path, units=units), plan_of(with_delta, units=units)
        width = found.expected["half_width_with_delta"]
        # By the ratio of few draws of the same noise.
        assert width == pytest.approx(other.expected["half_width"], rel=0.3)
        said = remark(PlanCode.gaussian, delta="1e-6", half_width=width) in found.sentences
        # Where a delta clearly widens the interval nothing is said.
        assert said is (width <= NOT_WORTH * found.expected["half_width"])
        told.append(said)
        assert "half_width_with_delta" not in other.expected
    assert any(told)
