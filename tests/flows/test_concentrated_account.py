"""Plan, ledger and release agree under a concentrated account, for every estimator with more than one draw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.api import run_study
from causalveil.flows.plan.study_plan import NOT_WORTH, plan
from causalveil.flows.run.declare import plan_study
from causalveil.schemas.errors import BudgetRefused
from causalveil.schemas.remarks import PlanCode, remark
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.ledger_help import assert_agreed
from tests.studies import people, write_study

OWNER: dict[str, Any] = {
    "accounting": "concentrated",
    "estimators": ["ipw", "aipw", "matching", "difference_in_means", "regression"],
    "caps": {"sample": {"epsilon": 4, "delta": "1e-4"}, "label": {"epsilon": 4, "delta": "1e-4"}},
}
PRIVACY = {"epsilon": "0.5", "delta": "1e-6"}
STUDIES: dict[str, dict[str, Any]] = {
    "ipw": {"estimator": {"name": "ipw", "penalty": 0.1}, "privacy": PRIVACY},
    "aipw, three folds": {
        "estimator": {"name": "aipw", "penalty": ..., "folds": 3, "propensity": {"known": 0.5}},
        "privacy": PRIVACY,
    },
    "matching": {"estimator": {"name": "matching", "penalty": 0.1}, "privacy": PRIVACY},
    "matching without delta": {"estimator": {"name": "matching", "penalty": 0.1}, "privacy": {**PRIVACY, "delta": 0}},
}


@pytest.mark.parametrize("name", STUDIES)
def test_plan_ledger_release_agree(tmp_path: Path, name: str) -> None:
    path = write_study(tmp_path / "study", frame=people(600), study=STUDIES[name], contract=OWNER)
    _, declared = plan_study(path)
    result = run_study(path, out=tmp_path / "out", engine="direct")
    assert_agreed(declared, result.path)
    (row, *_) = open_ledger().account("small").blocks
    assert row.rho is not None
    assert 0 < row.share_left < 1


def test_runs_end_where_the_plan_says_that_they_fit(tmp_path: Path) -> None:
    caps = {"sample": {"epsilon": 1, "delta": "1e-5"}, "label": ..., "training_units": ...}
    path = write_study(tmp_path / "study", study=STUDIES["ipw"], contract=OWNER | {"caps": caps})
    # Sums would admit two.
    for number in range(3):
        run_study(path, out=tmp_path / str(number), run_id=f"run-{number}", engine="direct")
    with pytest.raises(BudgetRefused, match="rho spent or reserved"):
        run_study(path, out=tmp_path / "late", run_id="late", engine="direct")


def test_plan_says_what_a_delta_would_give(tmp_path: Path) -> None:
    pure = {"estimator": {"name": "regression", "penalty": ...}, "privacy": {"epsilon": "0.5", "delta": 0}}
    path = write_study(tmp_path / "pure", frame=people(600), study=pure, contract=OWNER)
    with_delta = write_study(tmp_path / "delta", frame=people(600), study=pure | {"privacy": PRIVACY}, contract=OWNER)
    told = []
    for units in (2_000, 20_000):
        found, other = plan(path, units=units), plan(with_delta, units=units)
        width = found.expected["half_width_with_delta"]
        # By the ratio of few draws of the same noise.
        assert width == pytest.approx(other.expected["half_width"], rel=0.3)
        said = remark(PlanCode.gaussian, delta="1e-6", half_width=width) in found.sentences
        # Where a delta clearly widens the interval nothing is said.
        assert said is (width <= NOT_WORTH * found.expected["half_width"])
        told.append(said)
        assert "half_width_with_delta" not in other.expected
    assert any(told)
