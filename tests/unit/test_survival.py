"""Times to an event: curves against lifelines where there is no noise, what rows become, what is refused and how."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from causalveil.flows.estimators.survival import SURVIVAL, without_time
from causalveil.flows.run.check import check
from causalveil.flows.run.declare import load
from causalveil.schemas.answers import State
from causalveil.schemas.contract import load_contract
from causalveil.schemas.errors import ContractError, DataError, StudyError
from causalveil.schemas.estimators.survival import Measure, SurvivalStudy
from causalveil.schemas.limits import Code
from causalveil.schemas.plan import StandIn
from causalveil.schemas.remarks import PlanCode
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.times import curves
from causalveil.tasks.estimate.times.answers import table_stage
from causalveil.tasks.estimate.times.curves import Grid, measured
from causalveil.tasks.estimate.times.effects import TwoArms
from causalveil.tasks.estimate.times.releases import count_cells, entered, followed, grid_of, mechanism
from causalveil.tasks.estimate.times.strata import Strata
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.report.facts import over_whom
from tests.limits import codes
from tests.sensitivity_search import encoded
from tests.survival_help import People, exact_cells, exact_findings, make_survival, write_survival

# lifelines 0.30.3 on ``staggered()``: KaplanMeierFitter, its event table's Greenwood variance,
# restricted_mean_survival_time and AalenJohansenFitter at 105; logrank_test on the same with all times at the middles
# of intervals.
LIFELINES: dict[str, tuple[float, float]] = {
    "survival": (0.3498395756872319, 0.43699751013357035),
    "greenwood": (0.0018054026218637497, 0.0024499921107389066),
    "rmst": (71.1113916178711, 76.07240613840088),
    "first kind": (0.32176772936199405, 0.2793739121036589),
    "second kind": (0.3283926949507738, 0.2836285777627704),
}
# The same of ``staggered(late=True)``, of which some enter late: KaplanMeierFitter(entry=..), by arm.
LATE: dict[str, tuple[float, float]] = {
    "survival": (0.596567871933537, 0.6674026235345311),
    "greenwood": (0.0021231207128543637, 0.002434581260617264),
    "rmst": (80.3646924743002, 85.87941788854388),
}
CHI_SQUARE, P_VALUE = 0.9006565117413023, 0.3426057372151185
GRID = Grid(21, 2, 105.0)


def staggered() -> People:
    """Intervals of 5 days: events of one kind alone, of the other, people lost, in turn; evenly spread within each.

    So the actuarial estimate is Kaplan-Meier's, and the area by trapezoids is that below the steps.
    """
    rows: list[tuple[int, float, int]] = []
    for arm in (0, 1):
        for place in range(21):
            many = 3 + (7 * (place + 1) + 5 * arm) % 4 + (2 if arm == 0 else 0)
            kind = (1, 2, 0)[place % 3]
            rows += [(arm, place * 5 + 5 * (i + 0.5) / many, kind) for i in range(many)]
        rows += [(arm, 300.0, 0)] * (30 + 5 * arm)
    arms, times, kinds = zip(*rows, strict=True)
    return People(np.array(arms, np.uint8), np.array(times), np.array(kinds, np.uint8))


def test_without_noise_curves_are_those_of_lifelines() -> None:
    both = TwoArms(exact_cells(staggered().counts(GRID), GRID))
    for arm in (0, 1):
        cells = both.cells.counts[arm]
        assert both.tidy[arm] == pytest.approx(cells, abs=1e-9), "people can make up what people made up"
        assert curves.survival(cells, GRID)[-1] == pytest.approx(LIFELINES["survival"][arm], abs=1e-12)
        assert curves.restricted_mean(cells, GRID) == pytest.approx(LIFELINES["rmst"][arm], abs=1e-9)
        first, second = curves.incidence(cells, GRID)[:, -1]
        assert first == pytest.approx(LIFELINES["first kind"][arm], abs=1e-12)
        assert second == pytest.approx(LIFELINES["second kind"][arm], abs=1e-12)
        slope = curves.gradient(lambda one: curves.survival(one, GRID)[..., -1], cells)
        assert cells @ slope**2 == pytest.approx(LIFELINES["greenwood"][arm], rel=1e-6)
    found = Strata.of(both).log_rank(0.95)
    assert found is not None
    assert found.statistic**2 == pytest.approx(CHI_SQUARE, rel=1e-6)
    assert found.statistic < 0, "the treated have fewer"
    assert found.ratio is not None
    assert found.lower is not None
    assert found.lower < found.ratio < 1


def entering() -> People:
    """As ``staggered``, of one kind: in a third of the intervals people enter, some of whom have events."""
    rows: list[tuple[int, float, float, int]] = []
    for arm in (0, 1):
        for place in range(21):
            many = 3 + (7 * (place + 1) + 5 * arm) % 4 + (2 if arm == 0 else 0)
            for i in range(many):
                at = place * 5 + 5 * (i + 0.5) / many
                before = 0.0 if i % 2 else max(5 * place - 7.5, 0.0)
                rows.append(((arm, before, at, 1), (arm, 0.0, at, 0), (arm, at, 300.0, 0))[place % 3])
        rows += [(arm, 0.0, 300.0, 0)] * (30 + 5 * arm)
    arms, entries, times, kinds = zip(*rows, strict=True)
    return People(np.array(arms, np.uint8), np.array(times), np.array(kinds, np.uint8), entry=np.array(entries))


def test_with_late_entry_curves_and_greenwoods_variance_are_those_of_lifelines() -> None:
    grid, people = Grid(21, 1, 105.0, entries=True), entering()
    both = TwoArms(exact_cells(people.counts(grid), grid))
    assert people.entry is not None
    for arm in (0, 1):
        cells, own = both.cells.counts[arm], people.arm == arm
        inside = [np.count_nonzero(own & (people.entry <= at) & (people.time > at)) for at in (0, *grid.ends[:-1])]
        assert curves.at_risk(cells, grid).tolist() == inside
        assert both.tidy[arm] == pytest.approx(cells, abs=1e-9), "people can make up what people made up"
        assert curves.survival(cells, grid)[-1] == pytest.approx(LATE["survival"][arm], abs=1e-12)
        assert curves.restricted_mean(cells, grid) == pytest.approx(LATE["rmst"][arm], abs=1e-9)
        slope = curves.gradient(lambda one: curves.survival(one, grid)[..., -1:], both.tidy[arm]).T
        assert curves.sampled(slope, both.tidy[arm], grid)[0, 0] == pytest.approx(LATE["greenwood"][arm], abs=1e-12)
    # Who enters at an interval's end is at risk from the next on; who entered at the origin is in no cell of entries.
    places = grid.entered(np.zeros(4, np.uint8), np.array([0.0, 4.9, 5.0, 104.9]))
    assert places.tolist() == [grid.numbers, grid.exits, grid.exits + 1, grid.exits + 20]


def test_without_entries_greenwoods_variance_is_that_of_a_multinomial() -> None:
    """Two kinds of events, nobody lost or late: two formulas of the covariance of a risk and a mean."""
    counts = np.random.default_rng(3).integers(5, 30, 3 * 8 + 1).astype(np.float64)
    counts[16:24] = 0
    late = np.append(counts, np.zeros(8))
    found = []
    for cells, grid in ((counts, Grid(8, 2, 8.0)), (late, Grid(8, 2, 8.0, entries=True))):
        both = [
            curves.gradient(partial(function, grid=grid), cells) for function in (curves.risk, curves.restricted_mean)
        ]
        found.append(curves.sampled(np.array(both), cells, grid))
    assert found[1] == pytest.approx(found[0], rel=1e-9)


def test_the_findings_say_the_same() -> None:
    study = make_survival(outcome={"horizon": 105}, intervals=21)
    found = exact_findings(study, staggered().counts(GRID))
    risk, mean = found.answers
    assert risk.values == pytest.approx(LIFELINES["first kind"], abs=1e-12)
    assert mean.estimate == pytest.approx(LIFELINES["rmst"][1] - LIFELINES["rmst"][0], abs=1e-9)
    assert mean.interval.lower < mean.estimate < mean.interval.upper
    test = found.answers[0].log_rank
    assert test is not None
    assert test.p_value == pytest.approx(P_VALUE, rel=1e-5)
    assert test.hazard_ratio is not None
    assert test.hazard_ratio.lower < test.hazard_ratio.estimate < test.hazard_ratio.upper
    assert found.curves[0].curves.seen_until == 105
    for arm in found.curves[0].curves.arms:
        assert list(arm.survival) == sorted(arm.survival, reverse=True)
        assert all(a <= b <= c for a, b, c in zip(arm.lower, arm.survival, arm.upper, strict=True))
        assert arm.at_risk_error == (0.0,) * 21
    assert found.curves[0].curves.grid_bracket is None, "events compete"


def test_the_grid_bracket_holds_every_order_within_intervals() -> None:
    """Risks of 20 random orders of each interval's events and losses lie in it; both ends are attained."""
    random, grid = np.random.default_rng(5), Grid(4, 1, 4.0)
    counts = np.array([[5.0, 3, 4, 2, 3, 6, 2, 4, 20], [6, 6, 3, 1, 2, 2, 5, 3, 30]])
    bracket = TwoArms(exact_cells(counts, grid)).grid_bracket()
    assert bracket is not None

    def risk(arm: int, order: str) -> float:
        left, survive = counts[arm].sum(), 1.0
        for place in range(4):
            steps = [1] * int(counts[arm, place]) + [0] * int(counts[arm, 4 + place])
            steps = sorted(steps) if order == "lost first" else sorted(steps, reverse=True)
            if order == "random":
                random.shuffle(steps)
            for step in steps:
                survive *= 1 - step / left
                left -= 1
        return 1 - survive

    lower, upper = bracket
    for _ in range(20):
        assert lower - 1e-12 <= risk(1, "random") - risk(0, "random") <= upper + 1e-12
    assert risk(1, "events first") - risk(0, "lost first") == pytest.approx(lower, abs=1e-9)
    assert risk(1, "lost first") - risk(0, "events first") == pytest.approx(upper, abs=1e-9)


@pytest.mark.parametrize(
    "counts",
    [
        np.zeros((2, 42)),
        np.eye(1, 84, 41).reshape(2, 42) * 500,
        np.eye(1, 84, 83).reshape(2, 42) * 500,
        np.repeat([0.0, 50.0, 0.0], 28).reshape(2, 42),
        np.full((2, 42), -7.0),
    ],
    ids=["nobody", "no controls lost", "nobody among the controls", "all lost", "noise alone"],
)
def test_whatever_was_released_there_is_an_honest_answer(counts: np.ndarray) -> None:
    """Nobody, an empty arm, all lost, negative counts: finite numbers, and the whole range where nobody is seen."""
    study = make_survival(competing=False, intervals=20)
    cells = np.concatenate([counts[:, :20], counts[:, 20:40], counts[:, 41:]], axis=1)
    found = exact_findings(study, cells)
    for one in found.answers:
        span = 1.0 if one.measure is Measure.risk else 365.0
        assert np.isfinite([one.estimate, one.sampling_error, one.noise_error]).all()
        assert one.state is State.unresolved
        assert (one.interval.lower, one.interval.upper) == (-span, span)
    for arm in found.curves[0].curves.arms:
        assert np.isfinite([arm.survival, arm.lower, arm.upper, arm.at_risk]).all()
    assert found.curves[0].curves.seen_until < 365


def test_no_noise_makes_a_release_fail() -> None:
    """Thirty releases of few people, small budgets and fine grids, seed by seed: each is a finite answer."""
    for seed in range(30):
        random, epsilon = np.random.default_rng(seed), ("0.1", "1", "20")[seed % 3]
        grid_size, trial = int(random.choice([10, 50])), seed % 5 > 0
        study = make_survival(competing=bool(seed % 2), epsilon=epsilon, intervals=grid_size, trial=trial)
        n = int(random.choice([2, 20, 200, 2_000]))
        grid, draw = grid_of(study, n), mechanism(study)
        counts = random.multinomial(n, random.dirichlet(np.full(2 * grid.cells, 0.05)))
        noisy = measured(counts, grid, plain=False) + random.normal(0, draw.known_scale, 2 * grid.cells)
        found = table_stage(study, sizes_of(study, n), noisy)
        assert all(one.interval.lower <= one.estimate <= one.interval.upper for one in found.answers)


def test_gradients_are_exact_where_few_of_many_are_at_risk() -> None:
    """Seven people at risk of ten million: differences of a step in proportion to all of them would be nonsense."""
    grid = Grid(2, 1, 2.0)
    cells = np.array([4e6, 3.0, 6e6, 0.0, 4.0])
    slope = curves.gradient(lambda one: curves.survival(one, grid)[..., -1], cells)
    # S = (1 - d1/(n - c1/2)) (1 - d2/(d2 + left)): by the last cell, those at risk at the horizon.
    n, d1, c1, d2, left = cells.sum(), *cells[[0, 2, 1, 4]]
    first, second = 1 - d1 / (n - c1 / 2), left / (d2 + left)
    expected = d1 / (n - c1 / 2) ** 2 * second + first * d2 / (d2 + left) ** 2
    assert slope[-1] == pytest.approx(expected, rel=1e-9)
    assert cells @ slope == pytest.approx(0, abs=1e-9), "no derivative along the cells themselves"


def followed_as(study: SurvivalStudy, times: pl.Series, events: pl.Series) -> tuple[FloatArray, ByteArray]:
    """Rows as a study has them."""
    return followed(study.outcome, study.kinds, times, events)


def test_rows_become_times_and_kinds() -> None:
    nulls = {"time_nulls": "indicator", "event_nulls": "indicator"}
    study = make_survival(outcome=nulls)
    times = pl.Series([10.0, None, -3.0, 9999.0, 40.0, float("nan"), 0.0])
    events = pl.Series([2, 2, 1, 2, None, 1, 1])
    time, kind = followed_as(study, times, events)
    # No time, a negative one, no event: censored at once. Death counts, relapse competes with it.
    assert time.tolist() == [10, 0, 0, np.nextafter(3650, 9999), 0, 0, 0]
    assert kind.tolist() == [1, 0, 0, 1, 0, 0, 2]
    with pytest.raises(DataError, match="holds nulls"):
        followed_as(make_survival(), times, events)
    with pytest.raises(DataError, match="not declared"):
        followed_as(study, pl.Series([1.0]), pl.Series([7]))


def test_with_a_landmark_answers_are_of_those_without_an_event_until_then() -> None:
    """Treatment may have chosen them, also in a trial; without a landmark answers are about all units."""
    nulls = {"time_nulls": "indicator", "entry_nulls": "indicator"}
    said = {}
    for landmark in (0, 20):
        study = make_survival(outcome={"entry": "since", "landmark": landmark, **nulls}, intervals=5)
        codes = [one.code for one in exact_findings(study, np.full((2, 21), 50.0)).not_covered]
        assert Code.late_entry in codes
        assert (Code.survivors in codes) == (landmark > 0)
        said[landmark] = over_whom(study.specification(), "ATE")
        (warned,) = without_time(study.outcome)
        assert warned.sentence == "units without 'days' or 'since' are never at risk, and count nowhere."
    assert said == {0: "every unit of the dataset", 20: "every unit of the dataset, without an event until 20 days"}
    (warned,) = without_time(make_survival(outcome=nulls | {"entry_nulls": "refuse"}).outcome)
    assert warned.sentence == "units without 'days' count as censored at once."


def test_who_is_at_risk_at_no_time_has_no_cell() -> None:
    """Entry not before the exit or the horizon, none, exit before the landmark; a negative entry is the origin."""
    study = make_survival(outcome={"entry": "since", "entry_nulls": "indicator", "landmark": 20}, intervals=5)
    rows = [
        (10.0, 40.0, True),
        (40.0, 40.0, False),
        (50.0, 40.0, False),
        (None, 40.0, False),
        (float("nan"), 40.0, False),
        (5.0, 20.0, False),
        (-3.0, 30.0, True),
        (25.0, 400.0, True),
        (365.0, 400.0, False),
        (9e99, 9999.0, False),
    ]
    entries, times, inside = zip(*rows, strict=True)
    frame = pl.DataFrame({"person": range(10), "treated": [True] * 10, "days": times, "status": [2] * 10})
    found = encoded_times(study, frame.with_columns(since=pl.Series(entries, strict=False)))
    assert (found["g"] == 0).tolist() == list(inside)
    assert found["e"][found["g"] == 0].tolist() == [10, 0, 25]
    with pytest.raises(DataError, match="'since' holds nulls"):
        entered(make_survival(outcome={"entry": "since"}).outcome, pl.Series([1.0, None]))
    people = People(found["t"], found["u"], found["k"], group=found["g"], entry=found["e"])
    cells = count_cells(people.enclave(), grid_of(study, 10), 1)
    assert cells.sum() == 4, "three exits, and one entry after the landmark"


def encoded_times(study: SurvivalStudy, frame: pl.DataFrame) -> dict[str, np.ndarray]:
    """The rows as a run would have them, in the order in which they stand."""
    return encoded(study, {name: frame[name].to_list() for name in frame.columns})


def test_who_outlives_the_contract_has_no_event_in_its_last_interval() -> None:
    """The horizon is the end of what the contract admits: events at it count, later ones do not."""
    study = make_survival(outcome={"upper": 365, "horizon": 365}, intervals=10)
    time, kind = followed_as(study, pl.Series([365.0, 365.5, 4000.0, 1e308]), pl.Series([2, 2, 2, 0]))
    grid = Grid(10, 2, 365.0)
    assert grid.cell(np.zeros(4, np.uint8), time, kind).tolist() == [9, 30, 30, 30]


def test_codes_may_be_text_or_booleans() -> None:
    text = make_survival(outcome={"codes": {"alive": "A", "relapse": "R", "death": "D"}})
    time, kind = followed_as(text, pl.Series([1, 2, 3]), pl.Series(["D", "A", "R"]))
    assert (time.tolist(), kind.tolist()) == ([1, 2, 3], [1, 0, 2])
    logical = make_survival(outcome={"codes": {"alive": False, "death": True, "relapse": ...}})
    assert followed_as(logical, pl.Series([1, 2]), pl.Series([True, False]))[1].tolist() == [1, 0]


# What a contract and a study may not say of times; the last is what the one line has to say.
CONTRACTS: list[tuple[dict[str, Any], str]] = [
    ({"days": {"time": {"upper": 0, "origin": "x"}}}, "greater than 0"),
    ({"days": {"time": {"upper": 100}}}, "missing key 'columns.days.time.origin'"),
    ({"days": {"time": {"upper": 1, "origin": "x", "step": 2}}}, "'step'"),
    ({"status": {"event": {"alive": 1, "death": 2}}}, "censored: NAME"),
    ({"status": {"event": {"alive": 0, "death": 0}}}, "code '0' has two names, 'alive' and 'death'"),
    ({"status": {"event": {"alive": 0, "death": "D"}}}, "all text or all integers"),
    ({"status": {"event": {"alive": 0}}}, "at least 2"),
    ({"status": {"event": {"alive": 0, "death": 2**63}}}, "64 bits"),
    ({"days": {"time": {"upper": 9, "origin": "x", "step": 1e-12}}}, "greater than or equal to"),
    ({"status": {"event": {"alive": 0, "death": 1}, "censored": "lost"}}, "none of the names"),
]


@pytest.mark.parametrize(("columns", "told"), CONTRACTS)
def test_contracts_that_are_refused(columns: dict[str, Any], told: str, tmp_path: Path) -> None:
    write_survival(tmp_path)
    file = tmp_path / "dataset.yaml"
    document = yaml.safe_load(file.read_text())
    document["columns"] |= columns
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(ContractError) as refusal:
        load_contract(file)
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)


STUDIES: list[tuple[dict[str, Any], str]] = [
    ({"outcome": {"horizon": 4000}}, "times end at 3650"),
    ({"outcome": {"horizon": 0.5}}, "less than one step"),
    ({"outcome": {"horizon": 0}}, "greater than 0"),
    ({"outcome": {"of": ["cured"]}}, "no event of 'status'; events are 'relapse', 'death'"),
    ({"outcome": {"of": ["alive"]}}, "which is censoring"),
    ({"outcome": {"of": ["death", "death"]}}, "twice"),
    ({"outcome": {"entry": "start"}}, "'outcome.entry': the contract of 'small' declares no column 'start'"),
    (
        {"outcome": {"entry": "treated"}},
        "no time on the scale of 'days'; the contract's owner declares it as treated: {time",
    ),
    ({"outcome": {"entry": "days"}}, "two roles"),
    ({"outcome": {"landmark": 5}}, "'landmark' is for people who enter later"),
    ({"outcome": {"entry": "days", "events": ["relapse", "death"]}}, "no place in a study of several sites"),
    ({"outcome": {"entry": "days", "landmark": 365}}, "it must be one step of the times (1) before it at least"),
    ({"outcome": {"start_time": "days"}}, "is the 'entry' of a time"),
    ({"entry": "days"}, "is the 'entry' of a time"),
    ({"outcome": {"time": "status"}}, "'outcome.time': column 'status' is no time"),
    ({"outcome": {"event": "days"}}, "'outcome.event': column 'days' has no events"),
    ({"outcome": {"time": "nothing"}}, "declares no column 'nothing'"),
    ({"treatment": "days"}, "no pair of codes"),
    ({"intervals": 100, "outcome": {"horizon": 50}}, "at most 50 fit"),
    ({"intervals": 101}, "less than or equal to 100"),
    ({"intervals": 13, "privacy": {"delta": 0}}, "declare 'privacy.delta'"),
    ({"privacy": {"level": "label"}}, "level 'sample'"),
    ({"estimand": "ATT"}, "estimand 'ATE'"),
    ({"covariates": ["age"]}, "declares no column 'age'"),
    ({"covariates": ["days"]}, "'covariates.days': column 'days' is a time to an event"),
    ({"covariates": ["treated"]}, "has two roles"),
    ({"censoring": {"by": ["age"]}}, "'censoring.by': the contract of 'small' declares no column 'age'"),
    ({"censoring": {"by": ["treated"], "floor": 0}}, "greater than or equal to 0.02"),
    ({"estimator": {"share": 0.95}}, "less than or equal to"),
    ({"estimator": {"share": 0.30001}}, "more than four digits"),
    ({"measure": ["risk", "risk"]}, "twice"),
    ({"measure": ["hazard"]}, "'risk' or 'rmst'"),
    ({"outcome": "days"}, "{time: COLUMN, event: COLUMN, horizon: N}"),
    ({"estimator": {"name": "auto", "trial": ...}, "covariates": ["x"]}, "'estimator: {name: survival}'"),
    ({"estimator": {"name": "regression", "trial": ...}, "covariates": ["x"]}, "'estimator: {name: survival}'"),
]


@pytest.mark.parametrize(("changes", "told"), STUDIES)
def test_studies_that_are_refused(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    path = write_survival(tmp_path, study=changes, contract={"estimators": ["survival", "difference_in_means"]})
    with pytest.raises((StudyError, ContractError)) as refusal:
        load(path)
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)
    # `check` lists what `load` refuses.
    assert any(told in str(problem) for problem in check(path))


def test_a_time_is_no_plain_number(tmp_path: Path) -> None:
    study = {
        "estimator": {"name": "regression", "trial": ...},
        "outcome": {"name": "days", "time": ..., "event": ..., "of": ..., "horizon": ...},
        "covariates": ["status"],
    }
    path = write_survival(tmp_path, study=study, contract={"estimators": ["regression"]})
    with pytest.raises(StudyError) as refusal:
        load(path)
    assert "'outcome': column 'days' is a time to an event in the contract, and no plain number" in str(refusal.value)
    assert "'covariates.status': column 'status' is what ended follow-up" in str(refusal.value)


def test_rows_may_be_reduced_by_order_alone(tmp_path: Path) -> None:
    rows = {"order": "days", "keep": "first", "at_most": 1}
    path = write_survival(tmp_path, contract={"rows": {**rows, "aggregates": {"days": "mean"}}})
    with pytest.raises(ContractError, match="first, last"):
        load_contract(path.with_name("dataset.yaml"))
    write_survival(tmp_path, contract={"rows": rows})
    assert load(path).study.outcome.time == "days"


def test_a_plan_warns_where_nobody_would_be_seen() -> None:
    study = make_survival(epsilon="0.05", expect={"lost": 0.9})
    said = SURVIVAL.expected(study, sizes_of(study, 500), StandIn(), None)
    assert said["whole_range"]
    assert PlanCode.few_at_risk in codes(said["warnings"])
    unadjusted = make_survival(trial=False)
    told = SURVIVAL.expected(unadjusted, sizes_of(unadjusted, 5_000), StandIn(), None)
    trial = SURVIVAL.expected(make_survival(), sizes_of(unadjusted, 5_000), StandIn(), None)
    assert told["half_width"] > trial["half_width"] + 0.2, "the declared confounding is allowed for"


def test_a_plan_knows_that_people_enter_late() -> None:
    """Half of them, so that intervals are wider than of people who are all there at first; by a factor of 1.2 to 2."""
    late = make_survival(outcome={"entry": "since", "landmark": 30})
    plain, told = (SURVIVAL.expected(one, sizes_of(one, 5_000), StandIn(), None) for one in (make_survival(), late))
    assert PlanCode.assumed_entries in codes(told["sentences"])
    assert PlanCode.assumed_entries not in codes(plain["sentences"])
    assert 1.2 < told["half_width"] / plain["half_width"] < 2
