"""Studies of guarantee `asymptotic`: refused unless the contract agrees, labelled, charged as declared."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from causalveil.flows.api import run_study
from causalveil.flows.run.declare import plan_study
from causalveil.schemas.errors import ContractError, StudyError
from causalveil.schemas.estimators.aipw import CAVEATS, NO_GUARANTEE
from causalveil.schemas.privacy import Guarantee
from causalveil.schemas.release import load_release, release_schema, release_text
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.limits import codes
from tests.studies import command, merge, write_study

ESTIMATOR = {"name": "aipw", "penalty": ..., "guarantee": "asymptotic"}
ALLOWED = {"estimators": ["aipw"], "guarantees": ["finite_sample", "asymptotic"]}


def write(folder: Path, contract: dict[str, Any] | None = None, **estimator: Any) -> Path:
    study = {"estimator": merge(ESTIMATOR, estimator), "privacy": {"epsilon": "0.5", "delta": "1e-5"}}
    return write_study(folder, study=study, contract=ALLOWED if contract is None else contract)


def test_a_contract_that_says_nothing_of_it_refuses_and_nothing_is_read(tmp_path: Path) -> None:
    """The default of a contract is finite_sample alone; the partitions are not even there."""
    path = write(tmp_path / "study", {"estimators": ["aipw"]})
    for part in path.parent.glob("*.parquet"):
        part.unlink()
    with pytest.raises(ContractError, match="does not allow guarantee 'asymptotic'"):
        run_study(path, out=tmp_path / "out", engine="direct")


@pytest.mark.parametrize(
    "estimator",
    [{}, {"outcome_model": {"model": "neural_network"}, "folds": 3}, {"propensity": {"known": 0.5}}],
    ids=["kernel ridge", "network, three folds", "known score"],
)
def test_plan_ledger_and_release_agree_and_say_what_it_rests_on(estimator: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path / "study", **estimator)
    _, plan = plan_study(path)
    release = load_release(run_study(path, out=tmp_path / "out", engine="direct").path)
    assert release.guarantee is Guarantee.asymptotic
    # What is not protected has a field of its own, which no warning repeats.
    assert release.privacy.unprotected
    assert not release.warnings
    model = release.specification["estimator"]["outcome_model"]["model"]
    assert model == estimator.get("outcome_model", {}).get("model", "kernel_ridge")
    assert set(CAVEATS) <= set(release.privacy.unprotected)
    assert release.headline == NO_GUARANTEE
    assert release.privacy.charges == plan.charges
    assert {charge.name: charge.epsilon for charge in plan.charges} == {
        "effect": Decimal("0.45"),
        "variance": Decimal("0.05"),
    }
    assert plan.epsilon_pld == pytest.approx(0.5, rel=1e-3)
    block = open_ledger().account("small").blocks[0]
    assert (block.spent.epsilon, block.spent.delta) == (Decimal("0.5"), Decimal("1e-5"))
    open_ledger().verify_release(release_text(release))
    interval = release.interval
    assert codes(interval.covers) == ["sampling", "noise_of_estimate"]
    assert (interval.lower + interval.upper) / 2 == pytest.approx(release.estimate)
    Draft202012Validator(release_schema()).validate(release.model_dump(mode="json"))


def test_units_are_scored_by_models_of_as_many_folds_as_are_asked_for(tmp_path: Path) -> None:
    """Of one seed noise is the same, and the largest score is of other models."""
    found = [
        run_study(write(tmp_path / str(folds), folds=folds), out=tmp_path / f"out{folds}", engine="direct", simulate=1)
        for folds in (2, 3)
    ]
    two, three = (one.release.details["gross_error_sensitivity"] for one in found)
    assert two != three


def test_the_interval_is_equation_15_of_what_was_released(tmp_path: Path) -> None:
    """V = sigma2_DP + n gamma^2 r^2, from the release's own numbers."""
    path = write(tmp_path / "study")
    release = load_release(run_study(path, out=tmp_path / "out", engine="direct").path)
    (effect,) = [charge for charge in release.privacy.charges if charge.name == "effect"]
    gamma = release.details["gross_error_sensitivity"]
    assert release.variance.noise == pytest.approx((gamma * effect.noise_scale) ** 2)
    v = 400 * (release.variance.sampling + release.variance.noise)
    half = 1.959964 * (v / 400) ** 0.5
    assert release.interval.upper - release.interval.lower == pytest.approx(2 * half)


def test_the_caveats_are_printed_by_plan_and_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "study")
    for words in (["plan", str(path)], ["run", str(path), "--engine", "direct", "--out", str(tmp_path / "out")]):
        assert command(*words) == 0
        shown = " ".join(capfd.readouterr().out.replace("│", " ").split())
        assert "asymptotic" in shown
        assert "without a certificate" in shown
        assert "made of numbers of the data without noise" in shown
    # A person may read one of these alone: each says first that it has no guarantee.
    assert NO_GUARANTEE in shown
    assert shown.index(NO_GUARANTEE) < shown.index("interval")
    (release,) = (tmp_path / "out").rglob("release.json")
    assert json.loads(release.read_text())["headline"] == NO_GUARANTEE
    command("report", release)
    page = next(release.parent.glob("*.html")).read_text()
    assert page.index(NO_GUARANTEE) < page.index("Answer</h2>")
    assert "headline" in json.dumps(release_schema())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"estimator": {"outcome_model": {"model": "ridge"}}}, "no outcome model 'ridge'"),
        ({"estimator": {"outcome_model": {"model": "random_forest"}}}, "kernel_ridge, neural_network"),
        ({"estimator": {"outcome_model": {"model": "os.system"}}}, "pattern"),
        ({"estimator": {"outcome_model": {"model": "kernel_ridge", "path": "model.py"}}}, "unknown key"),
        ({"privacy": {"delta": 0}}, "delta above 0"),
        ({"privacy": {"level": "label"}}, "label"),
    ],
    ids=["of the other guarantee", "not installed", "an import path", "a file", "no delta", "label level"],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_read(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    study = merge({"estimator": ESTIMATOR, "privacy": {"epsilon": "0.5", "delta": "1e-5"}}, changes)
    path = write_study(tmp_path / "study", study=study, contract=ALLOWED)
    with pytest.raises(StudyError, match=words):
        plan_study(path)


def test_kernel_ridge_refuses_a_table_whose_kernel_would_not_fit(tmp_path: Path) -> None:
    path = write(tmp_path / "study")
    with pytest.raises(StudyError, match="at most 20,000 units"):
        plan_study(path, units=20_001)
    plan_study(path, units=20_000)
