"""What `plan` says of a matching: near what a run then finds, with warnings where they belong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from causalveil.flows.cli.main import main
from causalveil.flows.estimators.matching import MATCHING
from causalveil.flows.estimators.words import OF_A_PAPER
from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.plan import StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.remarks import PlanCode
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.limits import codes
from tests.matching_help import CONTRACT, matching_changes, population, two_covariates
from tests.studies import write_study


def expected_at(study: Any, n: int, effect: float | None = None, **stand_in: Any) -> dict[str, Any]:
    return MATCHING.expected(study, sizes_of(study, n), StandIn(**stand_in), effect)


@pytest.mark.parametrize(
    "changes",
    [
        {"level": "label", "epsilon": "1"},
        {"level": "label", "epsilon": "8", "estimand": "ATT"},
        {"level": "label", "epsilon": "2", "variant": "paper"},
        {"level": "sample", "epsilon": "8", "correct_attenuation": False},
        {"level": "sample", "epsilon": "8", "correct_attenuation": True},
    ],
    ids=str,
)
def test_the_expected_width_is_near_the_width_of_runs(changes: dict[str, Any]) -> None:
    """Mean of 12 runs of 2,000 units whose scores have nothing to do with treatment: within 40%."""
    study = two_covariates(**changes)
    widths = []
    for seed in range(12):
        rows = population(2_000, np.random.default_rng(seed), slope=0.1, effect=0.0, outcome=0.0)
        found = rehearse_effect(study, rows, RehearsalBudget(seed))
        widths.append((found.interval.upper - found.interval.lower) / 2)
    assert expected_at(study, 2_000, deviation=0.15)["half_width"] == pytest.approx(np.mean(widths), rel=0.4)


def test_warnings_where_they_belong() -> None:
    label = expected_at(two_covariates(level="label", epsilon="10"), 100_000, effect=0.1)
    assert label["warnings"] == [OF_A_PAPER[Level.label]]
    assert not label["hidden_by_noise"]
    sample = expected_at(two_covariates(epsilon="1", correct_attenuation=False), 445, effect=0.1)
    assert {PlanCode.attenuated, PlanCode.noisy_scores, PlanCode.effect_hidden} <= set(codes(sample["warnings"]))
    assert sample["hidden_by_noise"]
    assert sample["units_needed"] > 445
    assert sample["attenuation_factor"] == pytest.approx(0.336, abs=1e-3)
    assert sample["budget_shares"] == {"weights": 0.05, "scores": 0.05, "treatment": 0.7, "outcome": 0.2}
    corrected = expected_at(two_covariates(epsilon="1"), 445)
    assert PlanCode.attenuated not in codes(corrected["warnings"])


def test_units_needed_are_enough() -> None:
    study = two_covariates(level="label", epsilon="0.5")
    needed = expected_at(study, 300, effect=0.05)["units_needed"]
    assert expected_at(study, needed)["half_width"] == pytest.approx(0.05, rel=0.1)


def test_an_arm_that_would_be_too_small_is_said_and_no_error() -> None:
    found = expected_at(two_covariates(level="label", ratio=20), 60, treated=0.1)
    assert "half_width" not in found
    (told,) = found["warnings"]
    assert told.code is PlanCode.cannot_plan
    assert "fewer than 20 units" in told.facts["problem"]


def test_charges_need_no_number_of_units_but_for_the_model() -> None:
    study = two_covariates(epsilon="1")
    charges = MATCHING.declare(study, None)
    assert [charge.name for charge in charges if charge.noise_scale is None] == ["propensity"]
    assert "at most (1/n + 1/5) B" in charges[-1].formula
    assert "max_i b_i B/m" in charges[-1].formula


@pytest.mark.parametrize("level", ["label", "sample"])
def test_plan_prints(level: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "study", study=matching_changes(level=level), contract=CONTRACT)
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(path), "--effect", "2", "--json"])
    assert ended.value.code == 0
    assert "half_width" in json.dumps(json.loads(capfd.readouterr().out))
