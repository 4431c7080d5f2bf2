"""What `plan` expects of estimators whose stages it rehearses: mean widths that runs on known populations come to."""

from __future__ import annotations

import pytest

from causalveil.flows.estimators.rehearsal import SLOW, louder
from causalveil.flows.run.estimators import estimator_of
from causalveil.schemas.plan import StandIn
from causalveil.schemas.remarks import PlanCode
from causalveil.schemas.studies import parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.split import sizes_of
from causalveil_replication.accuracy.cells import run_cell
from causalveil_replication.accuracy.later import LATER
from causalveil_replication.accuracy.measure import study_of
from causalveil_replication.accuracy.methods import METHODS
from causalveil_replication.accuracy.populations import POPULATIONS
from replication.benchmarks.plan import study_of as study_of_plan
from tests.limits import codes
from tests.planned import MANY, measured, told


@pytest.mark.parametrize(
    ("method", "units", "epsilon"),
    [
        ("balancing", 500, "2"),
        ("balancing", 3_000, "0.5"),
        ("matching-label", 500, "0.5"),
        ("matching-label", 500, "8"),
        ("ipw-label", 3_000, "0.5"),
    ],
)
def test_the_expected_width_is_the_mean_measured_one(method: str, units: int, epsilon: str) -> None:
    """Within 15% of the mean of 10 seeded runs, if the reader's assumptions are right."""
    population, one = POPULATIONS["normals2"], METHODS[method]
    cell = run_cell(population, one.estimator(population), units, epsilon, one.delta, runs=10, level=one.level)
    assert cell.planned == pytest.approx(cell.half_width, rel=0.15)


@pytest.mark.parametrize(
    ("name", "units", "treated", "within"),
    [
        ("protocol, 3 outcomes", 20_000, 0.5, 0.1),
        ("protocol, 2 subgroups", 20_000, 0.5, 0.1),
        ("protocol, 3 arms", 20_000, 0.5, 0.15),
        ("protocol of means, 3 outcomes", 2_000, 0.5, 0.05),
        ("protocol, matching", 2_000, 0.5, 0.3),
        ("times, trial", 2_000, 0.2, 0.05),
        ("times, trial, 3% events", 20_000, 0.5, 0.1),
        ("times, 3 questions in 3 subgroups", 20_000, 0.2, 0.1),
    ],
)
def test_many_questions_and_times_are_foreseen_too(name: str, units: int, treated: float, within: float) -> None:
    """Every half-width that is told, against the mean of 4 seeded runs on fresh samples of the plan's population."""
    study, stand_in = MANY[name], StandIn(treated=treated)
    said = told(study, units, stand_in)
    seen = measured(study, units, stand_in, bool(getattr(study.estimator, "trial", False)), runs=4)
    assert said == pytest.approx(seen, rel=within)


def test_widths_of_two_peaks_are_told_by_their_mean() -> None:
    """Noise hides half of the runs of `ipw`, a fifth treated; the median of 12 draws lies in either peak."""
    study, stand_in = study_of_plan("ipw", "1"), StandIn(treated=0.2)
    said = estimator_of(study).expected(study, sizes_of(study, 2_000), stand_in)
    (seen,) = measured(study, 2_000, stand_in, False, runs=60).values()
    assert said["half_width"] == pytest.approx(seen, rel=0.15)
    assert PlanCode.hidden_draws in codes(said["sentences"])


def test_a_study_that_is_louder_asks_its_questions_so() -> None:
    """Questions of a protocol carry its budget: a copy had kept those of the study that it was made of."""
    study = MANY["protocol, balancing"]
    assert isinstance(study, EffectStudy)
    assert study.questions[0].privacy == study.privacy
    made = louder(study, 3.0)
    assert made.questions[0].privacy == made.privacy
    assert made.privacy.epsilon == 3 * study.privacy.epsilon


def test_more_units_than_are_rehearsed_have_narrower_intervals() -> None:
    population, one = POPULATIONS["normals2"], METHODS["balancing"]
    study = parse_study(population.study(one.estimator(population), "1", "0", 0.95, "label"))
    widths = [
        estimator_of(study).expected(study, sizes_of(study, n), StandIn(), None)["half_width"]
        for n in (SLOW, 4 * SLOW, 100 * SLOW)
    ]
    # Noise falls faster than the root of n, so each is at most that much narrower.
    assert widths[0] / 4 < widths[1] < widths[0] / 1.9
    assert widths[0] / 100 < widths[2] < widths[0] / 9


def test_an_outcome_beside_an_end_of_its_range_and_a_rare_arm_are_foreseen() -> None:
    """Within 40% of the mean of 5 seeded runs: costs near 0 of 40, whose widths are skewed, and 1% treated."""
    for name, units, epsilon in (("zeros5", 500, "8"), ("rare1", 30_000, "8")):
        cell = run_cell(
            POPULATIONS[name] if name in POPULATIONS else LATER[name], {"name": "regression"}, units, epsilon, runs=5
        )
        assert cell.planned == pytest.approx(cell.half_width, rel=0.4), name


@pytest.mark.parametrize("method", METHODS)
def test_a_run_warns_of_what_plan_warns_of_without_a_rehearsal(method: str) -> None:
    """Noise that exceeds the range of a study of 100 people, and one of few covariates whose noise does not."""
    for name, epsilon in (("flags15", "0.1"), ("normals2", "8")):
        study = study_of(POPULATIONS[name], METHODS[method], epsilon)
        estimator, sizes = estimator_of(study), sizes_of(study, 100)
        plan = estimator.expected(study, sizes, StandIn(), None)
        assert estimator.warnings(study, sizes, StandIn()) == tuple(plan["warnings"])
