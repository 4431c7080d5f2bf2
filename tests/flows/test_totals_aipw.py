"""AIPW and the difference in means end to end: plan = ledger = release, and refusals that cost nothing."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.api import run_study
from causalveil.flows.cli.main import main
from causalveil.flows.sequence.study import plan_study
from tests.ledger_help import assert_agreed
from tests.studies import write_study

CONTRACT: dict[str, Any] = {
    "estimators": ["aipw", "difference_in_means"],
    "caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}},
}
SHARES = {"propensity": "0.2", "outcome_model": "0.3", "effect": "0.5"}
SLOPES = {"propensity": "0", "outcome_model": "0.6", "effect": "0.4"}
# Estimator, privacy, and how many draws: models of each fold, and one effect.
OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "small": ({"name": "aipw"}, {"epsilon": "0.3"}, 3),
    "slopes": ({"name": "aipw", "outcome_model": {"radius": 0.8}}, {"epsilon": "6"}, 5),
    "all models": ({"name": "aipw", "budget_shares": SHARES, "propensity": {"penalty": 0.1}}, {"epsilon": "9"}, 7),
    "a share that is paid for": ({"name": "aipw", "budget_shares": SHARES}, {"epsilon": "0.3"}, 5),
    "three folds": ({"name": "aipw", "folds": 3}, {"epsilon": "0.7"}, 4),
    "known": ({"name": "aipw", "propensity": {"known": 0.5}}, {"epsilon": "0.7"}, 3),
    "pure": ({"name": "aipw", "propensity": {"penalty": 0.1}}, {"epsilon": "19", "delta": 0}, 5),
    "pure, slopes of a trial": (
        {"name": "aipw", "propensity": {"known": 0.5}, "budget_shares": SLOPES},
        {"epsilon": "19", "delta": 0},
        5,
    ),
    "difference": ({"name": "difference_in_means"}, {"epsilon": "0.7"}, 1),
    "difference, label, pure": ({"name": "difference_in_means"}, {"epsilon": "0.7", "level": "label", "delta": 0}, 1),
}


def changes(option: str) -> dict[str, Any]:
    estimator, privacy, _ = OPTIONS[option]
    return {"estimator": {"penalty": ..., **estimator}, "privacy": privacy}


@pytest.mark.parametrize("option", OPTIONS)
def test_plan_ledger_release_agree(option: str, tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", study=changes(option), contract=CONTRACT)
    _, plan = plan_study(path)
    release = assert_agreed(plan, run_study(path, out=tmp_path / "out", engine="direct").path)
    assert len(plan.charges) == OPTIONS[option][2]
    assert plan.total.epsilon == Decimal(OPTIONS[option][1]["epsilon"])
    assert -10 <= release.interval.lower <= release.estimate <= release.interval.upper <= 10
    assert release.variance.sampling >= 0
    assert release.guarantee == "finite_sample"


def test_plan_says_what_cross_fitting_costs_and_what_is_not_learnt(tmp_path: Path, capsys: Any) -> None:
    path = write_study(tmp_path / "study", study=changes("three folds"), contract=CONTRACT)
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(path), "--effect", "2", "--json"])
    assert ended.value.code == 0
    shown = json.loads(capsys.readouterr().out)
    said = " ".join(shown["expected"]["sentences"])
    assert "models of 2 of 3 folds" in said
    assert shown["expected"]["half_width"] > 0
    assert any("arm means" in warning for warning in shown["expected"]["warnings"])
    scopes = {charge["scope"] for charge in shown["charges"]}
    assert scopes == {"all", *(f"all but fold {fold} of 3" for fold in (1, 2, 3))}


def test_plan_without_data_has_formulas(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", study=changes("slopes"), contract=CONTRACT)
    for part in path.parent.glob("*.parquet"):
        part.unlink()
    _, plan = plan_study(path)
    assert all(charge.sensitivity is None and charge.noise_scale is None for charge in plan.charges)
    assert plan.total.epsilon == 6


@pytest.mark.parametrize(
    "case",
    [
        ("no ATT", {"estimand": "ATT"}, "ATE"),
        ("label", {"privacy": {"level": "label"}}, "label"),
        ("one fold", {"estimator": {"folds": 1}}, "folds"),
        ("shares", {"estimator": {"budget_shares": {"propensity": 1, "outcome_model": 1, "effect": 1}}}, "add up"),
        ("a path", {"estimator": {"outcome_model": {"model": "os.system"}}}, "outcome_model"),
        ("typo", {"estimator": {"fold": 3}}, "did you mean 'folds'"),
    ],
    ids=lambda case: case[0],
)
def test_bad_input_is_one_line_and_costs_nothing(
    case: tuple[str, dict[str, Any], str], tmp_path: Path, capfd: Any
) -> None:
    study = changes("small")
    for key, value in case[1].items():
        study[key] = {**study.get(key, {}), **value} if isinstance(value, dict) else value
    path = write_study(tmp_path / "study", study=study, contract=CONTRACT)
    with pytest.raises(SystemExit) as ended:
        main(["run", str(path), "--engine", "direct", "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    shown = capfd.readouterr().err.strip().splitlines()
    assert len(shown) == 1
    assert case[2] in shown[0]


def test_the_shipped_studies_of_the_trial_run(tmp_path: Path) -> None:
    data = Path(__file__).parents[2] / "data" / "lalonde"
    for name in ("study-aipw.yaml", "study-difference.yaml"):
        found = run_study(data / name, out=tmp_path / name, engine="direct", simulate=1).release
        assert found.units == 445
        assert found.interval.lower < found.interval.upper
