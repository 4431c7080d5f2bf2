"""AIPW and the difference in means end to end: plan = ledger = release, and refusals that cost nothing."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.api import run_study
from causalveil.flows.cli.main import main
from causalveil.flows.sequence.declare import plan_study
from causalveil.schemas.errors import StudyError
from tests.ledger_help import assert_agreed
from tests.studies import write_study

CONTRACT: dict[str, Any] = {
    "estimators": ["aipw", "difference_in_means"],
    "caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}},
}
KNOWN = {"name": "aipw", "propensity": {"known": 0.5}}
SHARES = {"outcome_model": "0.4", "effect": "0.6"}
# Estimator, privacy, and how many draws: one or two of each fold's model, and one of scores.
OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "small": (KNOWN, {"epsilon": "0.3"}, 3),
    "slopes": ({**KNOWN, "budget_shares": SHARES}, {"epsilon": "6"}, 5),
    "three folds": ({**KNOWN, "folds": 3}, {"epsilon": "0.3"}, 4),
    "pure": (KNOWN, {"epsilon": "0.3", "delta": 0}, 3),
    "pure, slopes": ({**KNOWN, "budget_shares": SHARES, "folds": 4}, {"epsilon": "19", "delta": 0}, 9),
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
    assert "the outcome model has arm means alone" in said
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
        ("shares", {"estimator": {"budget_shares": {"outcome_model": 1, "effect": 1}}}, "add up"),
        ("a path", {"estimator": {"outcome_model": {"model": "os.system"}}}, "outcome_model"),
        ("unknown chance", {"estimator": {"propensity": {}}}, "needs a known chance of treatment"),
        ("a model", {"estimator": {"outcome_model": {"model": "kernel_ridge"}}}, "proved for outcome model 'slopes'"),
        ("coverage", {"estimator": {"propensity": {}, "coverage": "finite_sample"}}, "needs a known chance"),
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


UNKNOWN: dict[str, Any] = {"name": "aipw", "penalty": ...}
ADVICE: dict[str, dict[str, Any]] = {
    "known": {**UNKNOWN, "propensity": {"known": 0.5}},
    "regression": {"name": "regression", "penalty": ...},
    "asymptotic": {**UNKNOWN, "guarantee": "asymptotic", "outcome_model": {"model": "kernel_ridge"}},
}


def test_an_unknown_chance_is_refused_and_each_advice_is_true(tmp_path: Path) -> None:
    """Without one an interval would be the paper's, which holds in the limit alone: nobody gets it who did not ask."""
    with pytest.raises(StudyError, match="needs a known chance of treatment") as refused:
        plan_study(write_study(tmp_path / "study", study={"estimator": UNKNOWN}, contract=CONTRACT))
    for name, estimator in ADVICE.items():
        assert name in str(refused.value)
        contract = {**CONTRACT, "estimators": ["aipw", "regression"], "guarantees": ["finite_sample", "asymptotic"]}
        path = write_study(tmp_path / name, study={"estimator": estimator}, contract=contract)
        assert run_study(path, out=tmp_path / f"{name} out", engine="direct").release.interval.lower < 10


def test_the_shipped_studies_of_the_trial_run(tmp_path: Path) -> None:
    data = Path(__file__).parents[2] / "data" / "lalonde"
    for name in ("study-aipw.yaml", "study-difference.yaml"):
        found = run_study(data / name, out=tmp_path / name, engine="direct", simulate=1).release
        assert found.units == 445
        assert found.interval.lower < found.interval.upper
