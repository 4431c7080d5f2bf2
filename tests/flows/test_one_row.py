"""A study of one outcome and a table of one row: the same answer, or answers where the other has them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from causalveil.flows.api import run_study
from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.answers import State
from causalveil.schemas.release import EffectRelease
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.aipw_help import confounded, make_difference
from tests.protocol_help import analysed, in_cells, make_protocol

LALONDE = Path(__file__).parents[2] / "data" / "lalonde"


@pytest.mark.parametrize("delta", ["1e-6", "0"])
@pytest.mark.parametrize("trial", [True, False])
def test_a_difference_of_means_is_a_table_of_one_row(delta: str, trial: bool) -> None:
    rows, _ = confounded(2_000, seed=3)
    study = make_difference(estimator={"name": "difference_in_means", "trial": trial}, delta=delta)
    table = make_protocol(0, 1, name="difference_in_means", trial=trial, delta=delta)
    cells = in_cells(np.zeros((2_000, 0)), rows.t, rows.u[:, None], np.zeros(2_000))
    one, answer = rehearse_effect(study, rows, RehearsalBudget(5)), analysed(table, cells, 5).answers[0]
    assert answer.interval is not None
    assert (one.estimate, one.interval.lower) == (answer.estimate, answer.interval.lower)
    assert one.interval.upper == answer.interval.upper
    assert one.interval.bias == answer.bias


def test_an_empty_arm_hides_the_answer_in_both() -> None:
    rows, _ = confounded(300, seed=4)
    empty = Rows(rows.x, np.zeros(300, np.uint8), rows.u)
    table = make_protocol(0, 1, name="difference_in_means", trial=True)
    cells = in_cells(np.zeros((300, 0)), empty.t, rows.u[:, None], np.zeros(300))
    assert rehearse_effect(make_difference(), empty, RehearsalBudget(0)).interval.whole_range
    assert analysed(table, cells, 0).answers[0].state is State.unresolved


def test_a_table_of_a_small_trial_answers_as_its_study_does(tmp_path: Path) -> None:
    """445 men, epsilon 1: 3 of 3 seeds; with a floor of 8 deviations of noise none of the tables with ``where``."""
    folder = Path(shutil.copytree(LALONDE, tmp_path / "lalonde"))
    study = yaml.safe_load((LALONDE / "study-regression.yaml").read_text())
    study |= {"where": [{"column": "age", "op": ">=", "value": 17}]}
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    for seed in (1, 2, 3):
        release = run_study(folder / "study.yaml", simulate=seed, engine="direct", out=tmp_path / str(seed)).release
        assert isinstance(release, EffectRelease)
        assert release.answers[0].state is State.answered
