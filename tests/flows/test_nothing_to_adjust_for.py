"""`covariates: []`: a randomised trial is compared as it is; any other study says what it takes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.api import plan as plan_of
from causalveil.flows.api import report, run_study
from causalveil.flows.run.check import check
from causalveil.flows.run.declare import plan_study
from causalveil.schemas.errors import StudyError
from causalveil.schemas.release import EffectRelease
from tests.studies import resolved, write_study

CONTRACT: dict[str, Any] = {"estimators": ["regression", "difference_in_means", "ipw", "balancing"]}
TRIAL = {"name": "difference_in_means", "trial": True}


def study_in(folder: Path, estimator: dict[str, Any], **changes: Any) -> Path:
    asked = {"covariates": {"age": ..., "group": ...}, "estimator": {"penalty": ...} | estimator} | changes
    path = write_study(folder, study=asked, contract=CONTRACT)
    text = path.read_text()
    assert "covariates: {}" in text
    path.write_text(text.replace("covariates: {}", "covariates: []"))
    return path


@pytest.mark.parametrize(
    ("estimator", "changes"),
    [
        (TRIAL, {}),
        ({"name": "auto", "trial": True}, {}),
        (TRIAL, {"subgroups": "group", "privacy": {"epsilon": "10"}}),
        (TRIAL, {"privacy": {"level": "label", "delta": 0}}),
    ],
    ids=["by name", "auto", "in subgroups", "label"],
)
def test_a_trial_needs_no_covariate(estimator: dict[str, Any], changes: dict[str, Any], tmp_path: Path) -> None:
    path = study_in(tmp_path / "study", estimator, **changes)
    assert check(path) == []
    study, plan = plan_study(path)
    assert study.estimator.name == "difference_in_means"
    found = run_study(path, out=tmp_path / "out", engine="direct")
    assert found.release.privacy.charges == plan.charges
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        expected = plan_of(path).expected
    if isinstance(found.release, EffectRelease):
        half = (found.release.interval.upper - found.release.interval.lower) / 2
        # At level label the variance that is released has noise as large as itself here: of 60 runs .26 to .52 for .56.
        assert half / 9 < expected["half_width"] < 9 * half, "people without covariates made no outcomes; all was noise"
    assert report(found.path, out=tmp_path / "report.html").exists()


@pytest.mark.parametrize("name", ["regression", "ipw", "auto"])
def test_what_adjusts_asks_for_covariates_and_says_what_needs_none(name: str, tmp_path: Path) -> None:
    path = study_in(tmp_path / "study", {"name": name})
    (problem,) = check(path)
    assert "{name: difference_in_means, trial: true}" in problem.text
    with pytest.raises(StudyError, match="'covariates': none are named"):
        resolved(path)
