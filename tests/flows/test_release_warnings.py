"""What `plan` warned of stands in the release, its report and what `run` prints; older releases read too."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.api import report, run_study
from causalveil.flows.cli import show
from causalveil.flows.plan.study_plan import expected
from causalveil.flows.run.declare import plan_study
from causalveil.schemas.confounding import AS_THEY_ARE, RANDOMISED, ConfoundingStatement
from causalveil.schemas.plan import StandIn
from causalveil.schemas.release import load_release_text
from causalveil.schemas.remarks import PlanCode
from causalveil.tasks.report import panel
from tests.limits import codes
from tests.studies import write_study

CAPS = {level: {"epsilon": 1000, "delta": "1e-2"} for level in ("sample", "label", "training_units")}
CONTRACT: dict[str, Any] = {
    "estimators": ["ipw", "aipw", "regression", "balancing", "difference_in_means", "matching"],
    "caps": CAPS,
}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], PlanCode]] = {
    "regression": ({"name": "regression"}, {}, PlanCode.no_curves),
    "aipw": (
        {"name": "aipw", "propensity": {"known": 0.5}},
        {"epsilon": "0.005"},
        PlanCode.whole_range,
    ),
    "difference": ({"name": "difference_in_means"}, {}, PlanCode.unadjusted),
    "difference label": (
        {"name": "difference_in_means"},
        {"level": "label", "delta": 0},
        PlanCode.unadjusted,
    ),
    "balancing": ({"name": "balancing"}, {"level": "label", "delta": "1e-6"}, PlanCode.delta_unused),
    "ipw": ({"name": "ipw", "penalty": 0.1}, {}, PlanCode.penalty_allowed),
    "matching": ({"name": "matching", "penalty": 0.1}, {"delta": 0}, PlanCode.noisy_scores),
}


@pytest.mark.parametrize("case", CASES)
def test_the_release_repeats_what_plan_warned_of(
    case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    estimator, privacy, code = CASES[case]
    changes = {"estimator": {"penalty": ..., **estimator}, "privacy": privacy}
    path = write_study(tmp_path / "study", study=changes, contract=CONTRACT)
    study, plan = plan_study(path)
    foreseen = expected(study, plan, StandIn())["warnings"]
    assert code in codes(foreseen)
    result = run_study(path, out=tmp_path / "out", engine="direct")
    assert list(result.release.warnings) == foreseen
    page = unescape(report(result).read_text())
    show.outcome(result)
    printed = capfd.readouterr().out
    assert "`causalveil plan` warns of " in printed
    for sentence in map(str, foreseen):
        said = re.sub("`([^`]*)`", r"<code>\1</code>", f"{sentence[:1].upper()}{sentence[1:]}")
        assert f"<li>{said}</li>" in page
        assert all(len(one.split()) <= 25 for one in re.split(r"(?<=[.:]) ", sentence)), sentence
    lines = panel.lines_of(result)
    assert len(lines) <= 12
    assert all(len(line.split()) <= 25 for line in lines), lines
    assert all(line in printed for line in lines if "[" not in line and not line.startswith("- ")), printed


@pytest.mark.parametrize("level", ["sample", "label"])
@pytest.mark.parametrize("trial", [True, False])
def test_arms_as_they_are_are_called_so_unless_treatment_was_randomised(
    level: str, trial: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In what `run` prints, in the release and in the report; a declared trial has neither the word nor the warning."""
    estimator = {"penalty": ..., "name": "difference_in_means", "trial": trial}
    changes = {"estimator": estimator, "privacy": {"level": level, "delta": 0}}
    path = write_study(tmp_path / "study", study=changes, contract=CONTRACT)
    result = run_study(path, out=tmp_path / "out", engine="direct")
    said = json.loads(result.path.read_text())
    assert ConfoundingStatement(**said["answers"][0]["confounding"]) == (RANDOMISED if trial else AS_THEY_ARE)
    assert (said["answers"][0]["bias"] > 0) is not trial
    assert ("confounding_of_prior" in [one["code"] for one in said["covers"]]) is not trial
    show.outcome(result)
    words = "Not adjusted: treatment was randomised." if trial else "Unadjusted: the arms are compared as they are."
    assert f"<strong>{words}</strong>" in report(result).read_text()
    assert words in capfd.readouterr().out
    assert bool(said["warnings"]) is not trial


def test_a_release_of_before_has_no_warnings(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", contract=CONTRACT)
    document = json.loads(run_study(path, out=tmp_path / "out", engine="direct").path.read_text())
    del document["warnings"]
    assert load_release_text(json.dumps(document)).warnings == ()
