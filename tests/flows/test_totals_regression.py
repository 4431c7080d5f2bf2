"""Regression end to end: plan = ledger = release, hostile tables, and refusals that cost nothing."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.cli.main import main
from causalveil.flows.sequence.declare import plan_study
from causalveil.schemas.errors import StudyError
from causalveil.schemas.limits import Code
from tests.ledger_help import assert_agreed
from tests.limits import codes, words
from tests.studies import people, refused, write_study

CONTRACT: dict[str, Any] = {
    "estimators": ["regression"],
    "caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}, "label": {"epsilon": 1000, "delta": "1e-2"}},
}
EVEN = dict.fromkeys(("scales", "lines", "screen", "refit", "scores"), "0.2")
# Estimator, privacy, estimand and how many draws.
OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any], str, int]] = {
    "small": ({}, {"epsilon": "1"}, "ATE", 3),
    "curves": ({}, {"epsilon": "20"}, "ATE", 5),
    "treated": ({}, {"epsilon": "20"}, "ATT", 5),
    "controls": ({"curves": "none"}, {"epsilon": "20"}, "ATC", 3),
    "parts": ({"parts": EVEN}, {"epsilon": "0.3"}, "ATE", 5),
    "trial": ({"trial": True}, {"epsilon": "0.7"}, "ATE", 3),
    "pure": ({}, {"epsilon": "80", "delta": 0}, "ATE", 5),
    "pure and small": ({}, {"epsilon": "3", "delta": 0}, "ATT", 3),
}


def changes(option: str) -> dict[str, Any]:
    estimator, privacy, estimand, _ = OPTIONS[option]
    return {
        "estimator": {"penalty": ..., "name": "regression", **estimator},
        "privacy": privacy,
        "estimand": estimand,
    }


@pytest.mark.parametrize("option", OPTIONS)
def test_plan_ledger_release_agree(option: str, tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", study=changes(option), contract=CONTRACT)
    _, plan = plan_study(path)
    release = assert_agreed(plan, run_study(path, out=tmp_path / "out", engine="direct").path)
    assert len(plan.charges) == OPTIONS[option][3]
    assert {str(charge.scope) for charge in plan.charges} == {"all"}
    assert plan.total.epsilon == Decimal(OPTIONS[option][1]["epsilon"])
    assert -10 <= release.interval.lower <= release.estimate <= release.interval.upper <= 10
    assert (release.variance.sampling > 0) is not release.interval.whole_range
    assert release.guarantee == "finite_sample"


def test_plan_says_what_is_adjusted_for(tmp_path: Path, capsys: Any) -> None:
    path = write_study(tmp_path / "study", study=changes("small"), contract=CONTRACT)
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(path), "--effect", "2", "--json"])
    assert ended.value.code == 0
    shown = json.loads(capsys.readouterr().out)["expected"]
    assert shown["half_width"] > 0
    assert any("non-linear terms cannot be detected" in warning for warning in shown["warnings"])


def test_plan_without_data_has_formulas(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", study=changes("curves"), contract=CONTRACT)
    for part in path.parent.glob("*.parquet"):
        part.unlink()
    _, plan = plan_study(path)
    assert all(charge.sensitivity is None and charge.noise_scale is None for charge in plan.charges)
    assert plan.total.epsilon == 20


def test_label_level_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    study = changes("small") | {"privacy": {"level": "label"}}
    path = write_study(tmp_path / "study", study=study, contract=CONTRACT)
    code, line, _ = refused(capfd, "run", str(path), "--engine", "direct", "--out", str(tmp_path / "out"))
    assert code == 2
    assert "label" in line


def spoilt(name: str) -> pl.DataFrame:
    """A table on which a division could end badly."""
    frame = people(600)
    never = pl.lit(value=False)
    return {
        "constant covariate": lambda: frame.with_columns(age=pl.lit(33.0)),
        "at the bounds": lambda: frame.with_columns(age=pl.lit(1e9)),
        "one level": lambda: frame.with_columns(group=pl.lit("b")),
        "all treated": lambda: frame.with_columns(treated=~never),
        "nobody treated": lambda: frame.with_columns(treated=never),
        "one treated": lambda: frame.with_columns(treated=pl.col("person") == 1007),
        "outcome never varies": lambda: frame.with_columns(score=pl.lit(10.0)),
        "outcome is treatment": lambda: frame.with_columns(score=pl.col("treated").cast(pl.Float64) * 10),
        "covariate is treatment": lambda: frame.with_columns(age=pl.col("treated").cast(pl.Float64) * 40 + 20),
        "ten people": lambda: frame.head(10),
        "two people": lambda: frame.head(2),
    }[name]()


@pytest.mark.parametrize("epsilon", ["0.5", "50"])
@pytest.mark.parametrize(
    "name",
    [
        "constant covariate", "at the bounds", "one level", "all treated", "nobody treated", "one treated",
        "outcome never varies", "outcome is treatment", "covariate is treatment", "ten people", "two people",
    ],
)  # fmt: skip
def test_a_spoilt_table_has_an_answer_of_finite_numbers(name: str, epsilon: str, tmp_path: Path) -> None:
    study = changes("curves") | {"privacy": {"epsilon": epsilon}}
    path = write_study(tmp_path / "study", frame=spoilt(name), study=study, contract=CONTRACT)
    release = run_study(path, out=tmp_path / "out", engine="direct", simulate=3).release
    numbers = [value for value in release.details.values() if isinstance(value, float)]
    assert all(math.isfinite(value) for value in [release.estimate, *numbers])
    assert release.interval.lower <= release.estimate <= release.interval.upper
    assert release.interval.lower < release.interval.upper


@pytest.mark.parametrize(("name", "linear"), [("small", True), ("controls", True), ("curves", False)])
def test_confounding_by_curves_counts_as_covered_only_where_they_were_looked_for(
    name: str, linear: bool, tmp_path: Path
) -> None:
    path = write_study(tmp_path / "study", frame=people(600), study=changes(name), contract=CONTRACT)
    release = run_study(path, out=tmp_path / "out", engine="direct", simulate=1).release
    done, left = release.answers[0].adjustment, words(release.not_covered)
    assert ("possible linear confounding" in done) is linear
    assert ("no squares, steps or products of covariates were looked for" in left) is linear
    assert ("other than by squares" in left) is not linear
    assert (Code.curves_not_kept in codes(release.covers)) is not linear


def test_a_duplicated_covariate_harms_nothing(tmp_path: Path) -> None:
    frame = people(4000).with_columns(again=pl.col("age"))
    covariates = {"again": {"lower": 20, "upper": 60}}
    study = changes("controls") | {"covariates": covariates}
    path = write_study(tmp_path / "study", frame=frame, study=study, contract={**CONTRACT, "columns": covariates})
    release = run_study(path, out=tmp_path / "out", engine="direct", simulate=1).release
    assert release.interval.lower < 2 < release.interval.upper
    assert release.interval.upper - release.interval.lower < 1


def test_parts_of_curves_that_are_not_wanted_are_refused(tmp_path: Path) -> None:
    study = {"estimator": {"penalty": ..., "name": "regression", "curves": "none", "parts": EVEN}}
    with pytest.raises(StudyError, match=r"parts.screen and parts.refit must be 0"):
        plan_study(write_study(tmp_path / "study", study=study, contract=CONTRACT))


def test_the_shipped_studies_run(tmp_path: Path) -> None:
    data = Path(__file__).parents[2] / "data"
    for name, said in (("lalonde", "adjusted for precision"), ("fertility", "adjusted")):
        found = run_study(
            data / name / "study-regression.yaml", out=tmp_path / name, engine="direct", simulate=1
        ).release
        assert found.answers[0].adjustment.startswith(said)
        assert found.interval.lower < found.interval.upper
