"""Protocols: what a study file may ask, what the table says, gates, and calibration by negative controls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from causalveil.flows.run.estimators import estimator_of
from causalveil.schemas.answers import GateVerdict, State
from causalveil.schemas.asked.compare import asks_for
from causalveil.schemas.asked.resolve import resolve
from causalveil.schemas.asked.study_file import parse_study_file
from causalveil.schemas.confounding import AS_THEY_ARE, RANDOMISED, AdjustmentMethod, of_share
from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.limits import Code, limit
from causalveil.schemas.plan import StandIn
from causalveil.schemas.questions import ALL_UNITS, Gates, OutcomeRole, TableOutcome
from causalveil.schemas.remarks import PlanCode
from causalveil.schemas.studies import parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.cells import CellRows
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.adjust.recipe import joint_recipe
from causalveil.tasks.estimate.answers import Part, mixture_quantile, over_groups, systematic_error
from causalveil.tasks.estimate.findings import placebo_gates
from causalveil.tasks.estimate.people import check_cells
from tests import studies
from tests.limits import codes
from tests.protocol_help import analysed, confounded, in_cells, make_protocol
from tests.studies import merge, owned

ASKED: dict[str, Any] = merge(
    studies.ASKED,
    {"outcome": ..., "outcomes": [{"name": "score", "role": "primary"}, "points"], "subgroups": "group"},
)
OWNED = owned({"columns": {"points": {"lower": 0, "upper": 5}, "drug": {"levels": ["none", "low", "high"]}}})


LABEL: dict[str, Any] = {
    "estimator": {"name": "balancing"},
    "privacy": {"epsilon": "1", "delta": "0", "level": "label"},
}


def resolved(**changes: Any) -> EffectStudy:
    contract = OWNED.model_copy(update={"public": tuple(changes.pop("public", OWNED.public))})
    study = resolve(parse_study_file(ASKED | changes), contract)
    assert isinstance(study, EffectStudy)
    return study


def test_a_protocol_is_completed_by_the_contract() -> None:
    study = resolved()
    assert [(outcome.name, outcome.upper) for outcome in study.outcomes] == [("score", 10), ("points", 5)]
    assert study.groups == ("a", "b", "c")
    assert study.arm_names == ("0", "1")
    assert resolved(subgroups={"name": "group", "levels": ["a", "b"]}).groups == ("a", "b", "other")
    arms = resolved(treatment="drug", arms={"reference": "none"}, subgroups=None)
    assert arms.arm_names == ("none", "low", "high")
    for changes in ({}, {"subgroups": {"name": "group", "levels": ["a", "b"]}}):
        assert asks_for(parse_study_file(ASKED | changes), resolved(**changes))
    assert not asks_for(parse_study_file(ASKED), resolved(confidence=0.9))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"outcomes": ["score", "points"]}, "role: primary"),
        ({"outcomes": [{"name": "score", "role": "negative_control"}]}, "role: primary"),
        ({"outcome": "score"}, "one of the two keys"),
        ({"kind": "protocol"}, "write 'kind: effect'"),
        ({"intervals": 4}, "'intervals' is for outcomes that are times"),
        ({"measure": "rmst"}, "'measure' must be one of 'difference'"),
        ({"outcomes": [{"time": "score", "event": "points", "horizon": 1}]}, "estimator: {name: survival}"),
        ({"estimator": {"name": "survival"}}, "asks for a time to an event"),
        ({"outcomes": [{"name": "score", "role": "primary"}, "score"]}, "has two roles"),
        ({"outcomes": [{"name": "age", "role": "primary"}]}, "has two roles"),
        ({"outcomes": []}, "outcomes"),
        ({"outcomes": [{"name": "score", "role": "main"}]}, "role"),
        ({"outcomes": [{"name": "unheard", "role": "primary"}]}, "declares no column 'unheard'"),
        ({"subgroups": "unheard"}, "declares no column 'unheard'"),
        ({"subgroups": "points"}, "has two roles|levels or codes"),
        ({"subgroups": {"name": "group", "levels": ["a", "z"]}}, "'z' is no level"),
        ({"covariates": ["age", "group"]}, "is a covariate too"),
        ({"gates": {}}, "gates need a bound"),
        ({"gates": {"balance": -1}}, "balance"),
        ({"gates": {"overlap": 0.2}, "estimator": {"name": "difference_in_means"}}, "gates"),
        ({"privacy": {"epsilon": "1", "delta": "1e-6", "level": "label"}}, "level 'sample' alone; .* 'balancing'"),
        ({"privacy": {"epsilon": "1", "delta": "1e-6", "level": "training_units"}}, "no level 'training_units'"),
        ({"estimator": {"name": "balancing"}}, "level 'label' alone; .* 'regression'"),
        (LABEL | {"estimator": {"name": "matching", "variant": "paper"}}, "variant 'ours'"),
        (LABEL | {"estimator": {"name": "matching"}, "privacy": LABEL["privacy"] | {"delta": "1e-6"}}, "delta: 0"),
        ({"treatment": "drug"}, "arms: {reference: LEVEL}"),
        ({"treatment": "drug", "arms": {"reference": "some"}}, "no level of 'drug'"),
        ({"estimator": {"name": "aipw", "guarantee": "asymptotic"}}, "answers one question .*regression"),
        ({"estimator": {"name": "ipw"}}, "level 'label' alone"),
        ({"arms": {"reference": 0}, "estimand": "ATT", "treatment": "drug"}, "reference"),
    ],
)
def test_what_cannot_be_asked_is_told(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        resolved(**changes)


@pytest.mark.parametrize("outcomes", [["score"], [{"name": "score", "role": "primary", "importance": 4}]])
def test_one_outcome_is_short_for_a_list_of_one(outcomes: list[Any]) -> None:
    one = {key: value for key, value in ASKED.items() if key not in ("outcomes", "subgroups")}
    contract = OWNED
    study = resolve(parse_study_file(one | {"outcome": "score"}), contract)
    assert resolve(parse_study_file(one | {"outcomes": outcomes}), contract).digest == study.digest
    table = one | {"subgroups": "group"}
    assert resolve(parse_study_file(table | {"outcome": "score"}), contract).groups == ("a", "b", "c")


@pytest.mark.parametrize("missing", ["treated", "group", "age"])
def test_at_label_level_every_column_but_outcomes_must_be_public(missing: str) -> None:
    assert resolved(**LABEL).TABLES == ("label",)
    public = [name for name in OWNED.public if name != missing]
    with pytest.raises(StudyError, match=f"column '{missing}' is not among the contract's 'public' columns"):
        resolved(**LABEL, public=public)


def test_more_cells_than_the_budget_serves_are_refused_with_the_number_that_it_can() -> None:
    study = make_protocol(2, 2, 50)
    assert isinstance(study, RegressionStudy)
    with pytest.raises(StudyError, match=r"it can serve \d+ subgroups") as told:
        joint_recipe(study, sizes_of(study, 3_000))
    most = int(str(told.value).split("it can serve ")[1].split()[0])
    fewer = make_protocol(2, 2, max(most, 2))
    assert isinstance(fewer, RegressionStudy)
    joint_recipe(fewer, sizes_of(fewer, 3_000))


def test_where_no_subgroup_can_be_served_they_are_to_be_left_out() -> None:
    """Fewer levels were advised where none could be served, and no study has less than two."""
    for units, way in ((100, "leave 'subgroups' out, or ask"), (3_000, "ask for fewer levels, or ask")):
        with pytest.raises(StudyError) as told:
            check_cells(units, 40, 2, 100.0)
        assert way in str(told.value)


def test_importance_divides_the_noise() -> None:
    outcomes = [
        {"name": "a", "lower": 0, "upper": 1, "role": "primary", "importance": 4},
        {"name": "b", "lower": 0, "upper": 1},
    ]
    study = make_protocol(2, outcomes=2, **{})
    weighted = study.model_copy(update={"outcomes": tuple(
        one.model_copy(update={"importance": given.get("importance", 1.0)})
        for one, given in zip(study.outcomes, outcomes, strict=True)
    )})  # fmt: skip
    assert weighted.outcome_weights[0] / weighted.outcome_weights[1] == pytest.approx(2)
    assert math.hypot(*weighted.outcome_weights) == pytest.approx(1)


@pytest.mark.parametrize(("groups", "arms"), [(3, 2), (1, 3), (2, 3)])
def test_every_cell_of_the_table_finds_its_own_effect(groups: int, arms: int) -> None:
    """Effects differ by subgroup, arm and outcome. Five standard errors in 24 answers at most: false alarms 1e-5."""
    rows, effects = confounded(60_000, 2, groups, arms, seed=5)
    study = make_protocol(2, 2, groups, arms, epsilon="20")
    found = analysed(study, rows)
    assert len(found.answers) == 2 * (groups + (groups > 1)) * (arms - 1)
    for answer in found.answers:
        arm, outcome = study.arm_names.index(answer.arm), int(answer.outcome[1:])
        if answer.group == ALL_UNITS:
            truth = float(np.bincount(rows.g, minlength=groups) / len(rows) @ effects[:, arm, outcome])
        else:
            truth = float(effects[study.groups.index(answer.group), arm, outcome])
        assert answer.estimate is not None
        assert answer.noise_error is not None
        assert answer.sampling_error is not None
        error = math.hypot(answer.noise_error, answer.sampling_error)
        assert abs(answer.estimate - 5 * truth) < 5 * error + (answer.bias or 0)
        assert error < 0.1


@pytest.mark.parametrize("name", ["regression", "difference_in_means"])
def test_an_empty_subgroup_reads_as_a_tiny_one_does(name: str) -> None:
    rows, _ = confounded(20_000, 1, 3, seed=7)
    few = np.flatnonzero(rows.g < 2)
    some = in_cells(rows.x[few][:, :2] * np.sqrt(3), rows.t[few], rows.u[few], rows.g[few])
    tiny_groups = some.g.copy()
    tiny_groups[:3] = 2
    tiny = in_cells(some.x[:, :2] * np.sqrt(3), some.t, some.u, tiny_groups)
    for table in (some, tiny):
        answers = analysed(make_protocol(2, 1, 3, name=name), table).answers
        hidden = next(answer for answer in answers if answer.group == "g2")
        assert hidden.state is State.unresolved
        assert hidden.interval is not None
        assert (hidden.interval.lower, hidden.interval.upper) == (-10, 10)
        everybody = answers[0]
        assert everybody.state is State.answered
        assert everybody.interval is not None
        assert everybody.interval.upper - everybody.interval.lower < 3


def test_arms_as_they_are_are_unadjusted_and_allow_for_it_unless_they_were_randomised() -> None:
    rows, _ = confounded(20_000, 1, seed=7)
    for trial in (True, False):
        answer = analysed(make_protocol(2, 1, name="difference_in_means", trial=trial), rows).answers[0]
        assert answer.confounding == (RANDOMISED if trial else AS_THEY_ARE)
        # sqrt(.5) deviations within arms, which are between a half and all of those of everybody.
        least = 0.5 * np.sqrt(0.5) * 5 * float(np.std(rows.u))
        assert (answer.bias or 0) == 0 if trial else least < (answer.bias or 0) < 2.5 * least


def test_label_level_matching_allows_for_what_it_leaves_in_every_answer() -> None:
    rows, _ = confounded(4_000, 1, seed=7)
    biases = [
        analysed(make_protocol(2, 1, name="matching", confounding_prior={"outcome_r2": share}), rows).answers[0].bias
        or 0
        for share in (0, 0.5)
    ]
    assert biases[0] == 0
    assert 0 < biases[1] < 0.5


def test_what_an_answer_over_subgroups_may_miss_is_allowed_for() -> None:
    def part(value: float, answered: bool = True) -> Part:
        return Part(0, "g", "1", answered, value, 0.01, 0.02, 0.0, 1.0, AS_THEY_ARE)

    both = over_groups([part(1.0), part(3.0)], [300.0, 100.0], 0.0, 400.0, 10.0)
    assert both.value == pytest.approx(1.5)
    assert both.bias == 0
    assert both.noise == pytest.approx((0.75**2 + 0.25**2) * 0.02)
    noisy = over_groups([part(1.0), part(3.0)], [300.0, 100.0], 4.0, 400.0, 10.0)
    assert noisy.noise - both.noise == pytest.approx((4 / 400) ** 2 * (0.5**2 + 1.5**2))
    hidden = over_groups([part(1.0), part(0.0, False)], [300.0, 1.0], 2.0, 400.0, 10.0)
    assert hidden.value == 1.0
    assert hidden.bias == pytest.approx(7 / 400 * 11)
    assert not over_groups([part(0.0, False)], [1.0], 2.0, 400.0, 10.0).answered


def test_errors_over_subgroups_add_up_as_far_as_they_are_shrinkage() -> None:
    """Of two equal subgroups: noise of models averages out, what the prior leaves does not. 4,000 draws, seed 0."""
    random = np.random.default_rng(0)

    def part(adjusted: float) -> Part:
        draws = random.normal(size=4_000)
        return Part(
            0,
            "g",
            "1",
            True,
            1.0,
            0.0,
            float(draws.var()),
            0.0,
            1.0,
            of_share(adjusted),
            error=draws,
            adjusted=adjusted,
        )

    for adjusted, variance in ((1.0, 0.5), (0.0, 1.0), (0.6, 0.7)):
        both = over_groups([part(adjusted), part(adjusted)], [50.0, 50.0], 0.0, 100.0, 10.0)
        assert both.noise == pytest.approx(variance, rel=0.06)
        assert both.noise == pytest.approx(both.models, rel=1e-6)


def test_quantiles_of_draws_beside_a_normal_error() -> None:
    """Two draws of -3 and 3 have the tail of the upper one; beyond what draws show a tail is a normal one at least."""
    assert mixture_quantile(np.array([-3.0, 3.0]), 0.1, 0.25) == pytest.approx(3.0, abs=1e-6)
    draws = np.random.default_rng(0).normal(size=100)
    assert mixture_quantile(draws, 1e-3, 1e-4) > mixture_quantile(draws, 1e-3, 0.015) * 1.5


def test_gates_have_three_states_and_withhold_or_mark() -> None:
    rows, _ = confounded(40_000, 1, seed=1)
    passed = analysed(make_protocol(2, 1, gates={"balance": 1.0, "overlap": 0.05}), rows)
    assert {gate.verdict for gate in passed.gates} == {GateVerdict.passed}
    # Nobody's arms overlap more than all.
    for failed, state in (("withhold", State.withheld), ("mark", State.marked)):
        found = analysed(make_protocol(2, 1, gates={"overlap": 0.999, "failed": failed}), rows)
        assert found.gates[0].verdict is GateVerdict.failed
        assert found.answers[0].state is state
        assert (found.answers[0].estimate is None) == (failed == "withhold")
        assert (found.answers[0].interval is None) == (failed == "withhold")
    # At this size noise hides which side of the bound a difference lies on.
    few, _ = confounded(1_000, 1, seed=1)
    unsure = analysed(make_protocol(2, 1, gates={"balance": 0.15}), few)
    assert unsure.gates[0].verdict is GateVerdict.cannot_tell
    assert unsure.answers[0].state is State.answered


def test_systematic_error_is_found() -> None:
    """200 controls of mean .3 and deviation .2 beside errors of .1: five standard errors, seed 2."""
    random = np.random.default_rng(2)
    values = 0.3 + 0.2 * random.standard_normal(200) + 0.1 * random.standard_normal(200)
    mean, deviation = systematic_error(values, np.full(200, 0.1))
    assert abs(mean - 0.3) < 5 * 0.22 / math.sqrt(200)
    assert abs(deviation - 0.2) < 5 * 0.22 / math.sqrt(400)
    mean, deviation = systematic_error(0.1 * random.standard_normal(200), np.full(200, 0.1))
    assert abs(mean) < 5 * 0.1 / math.sqrt(200)
    assert deviation < 0.06


def test_controls_calibrate_where_there_are_enough_of_them() -> None:
    rows, _ = confounded(20_000, 7, seed=4)
    u = rows.u.copy()
    # Six controls that something unrecorded moves in the treated.
    u[:, 1:] = np.random.default_rng(0).uniform(-0.2, 0.2, (len(rows), 6)) + 0.05 * rows.t[:, None]
    table = in_cells(rows.x[:, :2] * np.sqrt(3), rows.t, u, rows.g)
    found = analysed(make_protocol(2, 7, controls=6), table)
    first = found.answers[0]
    assert first.calibrated is not None
    assert first.interval is not None
    assert found.calibration.mean is not None
    assert found.calibration.mean > 0.2
    middle = (first.calibrated.lower + first.calibrated.upper) / 2
    assert middle < (first.interval.lower + first.interval.upper) / 2
    assert found.answers[-1].calibrated is None
    few = analysed(make_protocol(2, 3, controls=2), in_cells(rows.x[:, :2] * np.sqrt(3), rows.t, u[:, :3], rows.g))
    assert few.calibration.mean is None
    assert "at least 5" in few.calibration.statement
    assert few.answers[0].calibrated is None


@pytest.mark.parametrize("name", ["balancing", "matching"])
def test_cells_are_counted_at_label_level_too(name: str) -> None:
    crowded = make_protocol(2, 2, 100, name=name)
    with pytest.raises(StudyError, match=r"it can serve \d+ subgroups") as told:
        estimator_of(crowded).declare(crowded, sizes_of(crowded, 300))
    most = int(str(told.value).split("it can serve ")[1].split()[0])
    fewer = make_protocol(2, 2, most, name=name)
    assert estimator_of(fewer).declare(fewer, sizes_of(fewer, 300))
    assert estimator_of(fewer).expected(fewer, sizes_of(fewer, 300), StandIn(), None)["answers"]


@pytest.mark.parametrize("name", ["balancing", "matching"])
def test_a_subgroup_that_lacks_an_arm_is_wide_at_label_level_and_the_others_answer(name: str) -> None:
    study = make_protocol(2, 2, 3, name=name, epsilon="20")
    rows, _ = confounded(1_500, 2, 3)
    t = np.where(rows.g == 1, 0, rows.t).astype(np.uint8)
    # Of the third subgroup two treated units are left: enough for balancing, not for five neighbours.
    last = np.flatnonzero((rows.g == 2) & (t == 1))
    t[last[2:]] = 0
    found = analysed(study, type(rows)(rows.x, t, rows.u, rows.g))
    states = {(answer.group, answer.outcome): answer for answer in found.answers}
    empty = states["g1", "y0"]
    assert (empty.state, empty.reason) == (State.unresolved, limit(Code.arm_too_small))
    assert empty.interval is not None
    assert (empty.interval.lower, empty.interval.upper) == (-10, 10)
    assert states["g0", "y0"].state is State.answered
    assert (states["g2", "y0"].state is State.answered) == (name == "balancing")
    everybody = states[ALL_UNITS, "y0"]
    assert everybody.bias is not None
    # A third of everybody has no answer, and may lie anywhere in the range.
    assert everybody.bias > 10 / 3
    # What was done is a fact of each answer, and of none that has no answer.
    assert empty.confounding is None
    for stated in (states["g0", "y0"].confounding, everybody.confounding):
        assert stated is not None
        assert stated.method is AdjustmentMethod[name]


def test_an_outcome_with_rows_of_its_own_is_asked_of_those_who_have_it() -> None:
    """To the last bit as if the others were not eligible; beside another outcome, and where noise hides all of it."""
    (rows, effects), random = confounded(4_000, 2), np.random.default_rng(4)
    lacks = random.random(4_000) < 0.3
    gone = CellRows(rows.x, rows.t, np.where(lacks[:, None], np.nan, rows.u[:, :1]), rows.g)
    others = CellRows(rows.x, rows.t, rows.u[:, :1], lacks.astype(np.uint8))
    where = [{"column": "x00", "holds": {"lower": -1, "upper": 1}, "op": ">", "values": [0.0]}]
    own = analysed(make_protocol(2, 1, left_out=1), gone).answers
    assert own[0].interval == analysed(make_protocol(2, 1, where=where), others).answers[0].interval
    study = make_protocol(2, 2, left_out=1)
    both = CellRows(rows.x, rows.t, np.column_stack([rows.u[:, 0], np.where(lacks, np.nan, rows.u[:, 1])]), rows.g)
    found = analysed(study, both)
    assert abs(found.details["units[y1]"] - (~lacks).sum()) < 200
    for place, row in enumerate(found.answers):
        assert row.interval is not None
        assert row.interval.lower <= 5 * effects[0, 1, place] <= row.interval.upper
    assert {one.code for one in study.taken_for_granted} == {Code.attrition}
    none = CellRows(rows.x, rows.t, np.column_stack([rows.u[:, 0], np.full(4_000, np.nan)]), rows.g)
    first, second = analysed(study, none).answers
    assert (first.state, second.state) == (State.answered, State.unresolved)
    assert second.interval is not None
    assert (second.interval.lower, second.interval.upper) == (-10, 10)
    for changes, said in (
        ({"delta": "0"}, "needs a delta"),
        ({"groups": 2}, "over all units alone"),
        ({"name": "difference_in_means"}, "is not served by estimator 'difference_in_means'"),
    ):
        with pytest.raises(StudyError, match=said):
            make_protocol(2, 2, left_out=1, **changes)


def test_changes_of_cohorts_are_refused_as_arms() -> None:
    """The average over all units is no effect that parallel trends tell; a trial needs none."""
    parts = ({"name": f"x{at}", "times": times, "lower": 0, "upper": 9} for at, times in ((1, 1.0), (0, -1.0)))
    change = TableOutcome.model_validate({"name": "d", "lower": -9, "upper": 9, "of": list(parts)})
    assert change.is_change
    for trial in (False, True):
        document = make_protocol(2, 1, arms=3, trial=trial).model_dump()
        document["outcomes"] = [{**change.model_dump(), "role": "primary"}]
        if trial:
            assert parse_study(document).outcomes[0].is_change
            continue
        with pytest.raises(StudyError, match="write 'cohorts' and 'periods' in 'design'"):
            parse_study(document)


def test_the_gate_on_placebos_has_three_states_by_the_worst_of_them() -> None:
    def part(place: int, value: float, error: float = 0.01, **more: Any) -> Part:
        told = {"answered": True, "bias": 0.0, "spread": 2.0, "confounding": None} | more
        return Part(place, ALL_UNITS, "1", value=value, sampling=(2 * error) ** 2, noise=0.0, **told)

    def verdict(*parts: Part, bound: float = 0.1) -> tuple[str, float]:
        study = make_protocol(2, 3)
        first, *others = study.outcomes
        outcomes = (first, *(one.model_copy(update={"role": OutcomeRole.placebo}) for one in others))
        study = study.model_copy(update={"outcomes": outcomes, "gates": Gates(placebo=bound)})
        (found,) = placebo_gates(study, [part(0, 9.0), *parts])
        return found.verdict, found.value

    assert verdict(part(1, 0.1), part(2, -0.05)) == ("passed", 0.05)
    assert verdict(part(1, 0.1), part(2, -0.5)) == ("failed", 0.25)
    assert verdict(part(1, 0.1), part(2, -0.23)) == ("cannot_tell", 0.115)
    assert verdict(part(1, 0.1), part(2, -0.05, error=0.1))[0] == "cannot_tell", "a null finding is no proof"
    assert verdict(part(1, 0.1), part(2, -0.5, bias=0.4))[0] == "cannot_tell", "what is allowed for counts"
    assert verdict(part(1, 0.1), part(2, -0.05, answered=False))[0] == "cannot_tell"
    with pytest.raises(StudyError, match="needs an outcome with 'role: placebo'"):
        make_protocol(2, 2, gates={"placebo": 0.1})


def test_gates_and_balance_are_exact_at_label_level() -> None:
    rows, _ = confounded(2_000, 2, 2)
    study = make_protocol(2, 2, 2, name="balancing", epsilon="5", gates={"balance": 0.3, "overlap": 0.9})
    found = analysed(study, rows)
    assert {row.noise_error for row in found.balance} == {0.0}
    assert all(abs(row.after) < abs(row.before) for row in found.balance)
    verdicts = {(gate.gate, gate.verdict) for gate in found.gates}
    assert verdicts <= {("balance", GateVerdict.passed), ("overlap", GateVerdict.failed)}
    failed = [gate.group for gate in found.gates if gate.verdict is GateVerdict.failed]
    assert {answer.group for answer in found.answers if answer.state is State.withheld} >= set(failed)


def test_a_plan_warns_where_a_delta_makes_a_protocol_at_label_level_wider() -> None:
    few, many = (make_protocol(2, q, name="balancing", delta="1e-6") for q in (2, 20))
    warned = [
        estimator_of(study).expected(study, sizes_of(study, 5_000), StandIn(), None)["warnings"]
        for study in (few, many)
    ]
    assert PlanCode.delta_widens in codes(warned[0])
    assert not any("delta" in line for line in warned[1])
