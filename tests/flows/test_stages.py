"""A stage that does other than it declares: a typed error, nothing published, the budget kept; mended, it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.estimators import regression
from causalveil.flows.estimators.regression import FIVE, REGRESSION, plan
from causalveil.flows.estimators.stage import Stage, StageRun, carry_out
from causalveil.schemas.errors import ChargesDiffer, StudyError
from causalveil.schemas.privacy import Scope
from causalveil.tasks.estimate.adjust import recipe
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.privacy.mechanisms import Slot
from tests import crash, stage_map
from tests.studies import write_study

WIDE = {"caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}}, "estimators": ["regression"]}
STUDY = {"estimator": {"name": "regression", "penalty": ...}, "privacy": {"epsilon": "9"}}
SCALES, LINES, SCORES = FIVE.scales, FIVE.lines, FIVE.scores
ALL = {"scales", "lines", "screen", "refit", "scores"}
Run = Callable[[StageRun[Any]], Any]

handed_on: list[Any] = []


def of(step: StageRun[Any], slot: Slot) -> Any:
    """The mechanism of a release."""
    return plan(step.study, step.sizes).mechanism(slot)


def exact(step: StageRun[Any]) -> Any:
    del step
    return np.zeros(2)


def undeclared(step: StageRun[Any]) -> Any:
    of(step, recipe.SCORES).release(np.zeros(2), Slot("extra", Scope.all), step.budget)
    return SCORES.run(step)


def wider_scope(step: StageRun[Any]) -> Any:
    return of(step, recipe.SCORES).release(np.zeros(2), Slot("scores", Scope.train), step.budget)


def twice(step: StageRun[Any]) -> Any:
    SCORES.run(step)
    return SCORES.run(step)


def of_another_stage(step: StageRun[Any]) -> Any:
    return of(step, recipe.SCALES).release(np.zeros(9), recipe.SCALES, step.budget)


def unnamed_reading(step: StageRun[Any]) -> Any:
    return step[LINES]


def keeps_its_budget(step: StageRun[Any]) -> Any:
    handed_on[:] = [step.budget]
    return SCORES.run(step)


def draws_without_charges(step: StageRun[Any]) -> Any:
    return step.budget


def draws_with_anothers_budget(step: StageRun[Any]) -> Any:
    return of(step, recipe.SCORES).release(np.zeros(2), recipe.SCORES, handed_on[0])


# By name: what the stage of scores does, what that of the interval does, and what the error says.
MISBEHAVING: dict[str, tuple[Run, Run | None, str]] = {
    "leaves its draw out": (exact, None, "declared 'scores' and did not draw it"),
    "draws what it did not declare": (undeclared, None, "'extra', which it did not declare"),
    "draws for other units": (wider_scope, None, "'scores', which it did not declare so"),
    "draws twice": (twice, None, "'scores', which it did not declare so or has drawn before"),
    "draws what another declared": (of_another_stage, None, "'scales', which it did not declare"),
    "reads what it does not name": (unnamed_reading, None, "reads 'lines', which it does not name"),
    "has no charge and asks for a budget": (SCORES.run, draws_without_charges, "'answers' declares no charge"),
    "draws when its stage has ended": (keeps_its_budget, draws_with_anothers_budget, "'scores' draws 'scores'"),
}


def misbehave(patch: pytest.MonkeyPatch, scores: Run, interval: Run | None) -> None:
    """Have the default estimator's last two stages do other things."""
    bad = replace(SCORES, run=scores)
    reads = tuple(bad if one is SCORES else one for one in regression.ANSWERS.reads)
    last = replace(regression.ANSWERS, run=interval or regression.ANSWERS.run, reads=reads)
    stages = tuple(
        {SCORES: bad, regression.ANSWERS: last}.get(one, one)
        for one in REGRESSION.stages_of(SimpleNamespace(clusters=None))
    )
    patch.setattr(regression, "REGRESSION", replace(REGRESSION, stages=stages))


@pytest.fixture(params=[None, "before:scores", "after:scores"], ids=["fresh", "killed before", "killed after"])
def begun(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, set[str]]:
    """A study, and what a run of it that was killed had drawn."""
    path = write_study(tmp_path / "study", study=STUDY, contract=WIDE)
    if request.param is None:
        return path, set()
    crash.crash(request.param, str(path), str(tmp_path / "out"), "one", {})
    return path, {"scales", "lines"} | ({"scores"} if request.param == "after:scores" else set())


def test_a_stage_that_misbehaves_publishes_nothing(
    begun: tuple[Path, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, drawn = begun
    for scores, interval, says in MISBEHAVING.values():
        with monkeypatch.context() as patch:
            misbehave(patch, scores, interval)
            with pytest.raises(ChargesDiffer, match=says) as ended:
                run_study(path, out=tmp_path / "out", run_id="one")
        assert ended.value.exit_code == 1
        assert "reservation of run one stands" in str(ended.value)
        assert not (tmp_path / "out").exists()
        run = open_ledger().record("one")
        assert run is not None
        assert (run.state, run.reservation.cost.epsilon) == ("reserved", 9)
        assert drawn <= {charge.name for charge, _ in run.charges} <= ALL
    # Mended, the run goes on by the values that it has.
    assert run_study(path, out=tmp_path / "out", run_id="one").returned == len(ALL)
    assert open_ledger().verify().undrawn == ()


def test_a_charge_too_many_is_refused_before_anything_is_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Declared beside the study's own, and never drawn: the sum is not what the study asks for."""
    path = write_study(tmp_path / "study", study=STUDY, contract=WIDE)

    def more(study: Any, sizes: Any) -> Any:
        return [*SCORES.charges(study, sizes), (Slot("extra", Scope.all), plan(study, sizes).mechanism(recipe.SCORES))]

    stages = tuple(
        replace(one, charges=more) if one is SCORES else one
        for one in REGRESSION.stages_of(SimpleNamespace(clusters=None))
    )
    monkeypatch.setattr(regression, "REGRESSION", replace(REGRESSION, stages=stages))
    with pytest.raises(StudyError, match="adds up to"):
        run_study(path, out=tmp_path / "out", run_id="one")
    assert open_ledger().record("one") is None


def test_stages_that_are_known_are_not_run_again() -> None:
    ran: list[str] = []
    first = Stage[Any, int]("first", lambda _: ran.append("first") or 1)  # type: ignore[func-returns-value]
    second = Stage[Any, int]("second", lambda step: step[first] + 1, reads=(first,))

    class Nothing:
        source = None
        study = sizes = enclave = budget = None

    def engine(task: Any) -> Any:
        return task.call()

    results = carry_out((first, second), Nothing(), engine, {first: 5})  # type: ignore[arg-type]
    assert (results[second], ran) == (6, [])


def test_the_page_on_runs_shows_the_stages_as_they_are() -> None:
    assert stage_map.written() == stage_map.generated(), "stages changed: python -m tests.stage_map"


def test_several_questions_go_through_the_stages_of_one() -> None:
    for one, several in stage_map.tables():
        assert stage_map.table(one) == stage_map.table(several), several.estimator.name
