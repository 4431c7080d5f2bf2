"""What `plan` warned of stands in the release, its report and what `run` prints; older releases read too."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.api import report, run_study
from causalveil.flows.cli import show
from causalveil.flows.plan.study_plan import expected
from causalveil.flows.run.declare import plan_study
from causalveil.schemas.plan import StandIn
from causalveil.schemas.remarks import PlanCode
from causalveil.tasks.report import panel
from tests.limits import codes
from tests.studies import write_study

CAPS = {level: {"epsilon": 1000, "delta": "1e-2"} for level in ("sample", "label", "training_units")}
CONTRACT: dict[str, Any] = {
    "estimators": ["ipw", "regression", "balancing", "difference_in_means", "matching"],
    "caps": CAPS,
}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], PlanCode]] = {
    "regression": ({"name": "regression"}, {}, PlanCode.no_curves),
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
