"""`estimator: auto` becomes a study of one estimator by public facts, says why, and its width falls without a cliff."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.api import run_study
from causalveil.flows.run.declare import plan_study
from causalveil.flows.run.estimators import candidates, chosen, expected_width, likely
from causalveil.schemas.asked.study_file import parse_study_file
from causalveil.schemas.errors import ContractError, StudyError
from causalveil.schemas.study import Study
from tests.ledger_help import assert_agreed
from tests.studies import command, refused, write_study

CAPS = {level: {"epsilon": 1000, "delta": "1e-2"} for level in ("sample", "label", "training_units")}
CONTRACT: dict[str, Any] = {
    "estimators": ["ipw", "regression", "balancing", "difference_in_means"],
    "caps": CAPS,
    "unbounded_halves": ["test"],
}
# Auto's settings, privacy, and which estimators may be taken.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], set[str]]] = {
    "observational": ({}, {}, {"regression"}),
    "pure": ({}, {"delta": 0}, {"regression"}),
    "public columns": ({}, {"level": "label"}, {"balancing"}),
    "public columns of a trial": ({"trial": True}, {"level": "label", "delta": 0}, {"balancing"}),
    "trial": ({"trial": True}, {}, {"regression", "difference_in_means"}),
    "training units": ({}, {"level": "training_units"}, {"ipw"}),
}
SIZES = (100, 1_000, 5_000, 30_000, 1_000_000, 10_000_000)
BUDGETS = ("0.05", "0.3", "1", "2", "5", "16")
# Widths are medians of three seeded draws, which differ by as much where sampling alone is left;
# tests/flows/test_curves.py allows points of a curve the same.
SEEDED = 1.03


def changes(case: str) -> dict[str, Any]:
    auto, privacy, _ = CASES[case]
    return {"estimator": {"penalty": ..., "name": "auto", **auto}, "privacy": privacy}


@pytest.mark.parametrize("case", CASES)
def test_plan_ledger_release_know_one_estimator_and_why(case: str, tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", study=changes(case), contract=CONTRACT)
    study, plan = plan_study(path)
    release = assert_agreed(plan, run_study(path, out=tmp_path / "out", engine="direct").path)
    assert study.estimator.name == release.estimator in CASES[case][2]
    assert release.specification["estimator"]["name"] == release.estimator
    assert "choice" not in release.specification
    said = str(release.details["choice"])
    assert said.startswith(f"auto chose {release.estimator.replace('_', ' ')} (level ")
    assert "delta 0.0" not in said
    assert said == study.choice or len(CASES[case][2]) == 1


def test_a_chosen_study_is_the_study_that_names_its_estimator(tmp_path: Path) -> None:
    auto, _ = plan_study(write_study(tmp_path / "auto", study=changes("observational"), contract=CONTRACT))
    named = {"estimator": {"penalty": ..., "name": "regression"}}
    assert auto.digest == plan_study(write_study(tmp_path / "named", study=named, contract=CONTRACT))[0].digest


def test_plan_says_which_and_why(tmp_path: Path, capsys: Any) -> None:
    path = write_study(tmp_path / "study", study=changes("trial"), contract=CONTRACT)
    assert command("plan", path) == 0
    shown = capsys.readouterr().out
    assert "auto chose " in shown
    assert "Expected half-widths" in shown


def test_what_the_contract_forbids_is_not_taken(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    only = {**CONTRACT, "estimators": ["difference_in_means"]}
    study, _ = plan_study(write_study(tmp_path / "trial", study=changes("trial"), contract=only))
    assert study.estimator.name == "difference_in_means"
    path = write_study(tmp_path / "study", study=changes("observational"), contract=only)
    code, line, _ = refused(capfd, "run", str(path), "--engine", "direct", "--out", str(tmp_path / "out"))
    assert code == ContractError("").exit_code
    assert "'regression'" in line


def test_without_a_size_there_is_nothing_to_choose_by(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", study=changes("trial"), contract=CONTRACT)
    for part in path.parent.rglob("*.parquet"):
        part.unlink()
    with pytest.raises(StudyError, match="give units=N"):
        plan_study(path)
    assert plan_study(path, 5000)[0].choice is not None


def asked(case: str, epsilon: str, p: int = 6) -> Any:
    """A study file that travels, with p numbers and an outcome from 0 to 10."""
    auto, privacy, _ = CASES[case]
    return parse_study_file(
        {
            "kind": "effect",
            "name": "grid",
            "treatment": "t",
            "outcome": {"name": "y", "lower": 0, "upper": 10},
            "covariates": {f"x{place}": {"lower": -4, "upper": 4} for place in range(p)},
            "estimator": {"name": "auto", **auto},
            "privacy": {"delta": "1e-6", **privacy, "epsilon": epsilon},
        }
    )


@cache
def width(case: str, units: int, epsilon: str) -> float:
    """Expected half-width of what is chosen."""
    file = asked(case, epsilon)
    study: Study = chosen(candidates(file, None), file, units)
    found = expected_width(study, units, likely(study))
    assert found is not None
    return found


# Of a trial both tests below read the same widths.
@pytest.mark.xdist_group("widths of auto")
@pytest.mark.parametrize("case", [case for case in CASES if case != "training units"])
def test_more_people_or_budget_never_widen(case: str) -> None:
    """Over the grid the expected width falls, or stays at the declared range."""
    # A trial, whose estimator changes within the grid, for every size; the others for every second.
    budgets, sizes = BUDGETS[::2], SIZES if case == "trial" else SIZES[::2]
    table = [[width(case, units, epsilon) for epsilon in budgets] for units in sizes]
    lines = [*table, *([row[place] for row in table] for place in range(len(budgets)))]
    for line in lines:
        for before, after in pairwise(line):
            assert after <= before * SEEDED
    assert table[-1][-1] < table[0][0] / 100


@pytest.mark.xdist_group("widths of auto")
def test_auto_is_no_worse_than_arm_means_in_a_trial() -> None:
    """By what both are expected to give, at every place of the grid whose width is read above."""
    for units in SIZES:
        for epsilon in BUDGETS[::2]:
            file = asked("trial", epsilon)
            means = candidates(file, None)[1]
            plain = expected_width(means, units, likely(means))
            assert plain is None or width("trial", units, epsilon) <= plain


def test_auto_has_no_place_in_a_contract(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    contract = {**CONTRACT, "estimators": ["auto"]}
    path = write_study(tmp_path / "study", study=changes("observational"), contract=contract)
    code, line, _ = refused(capfd, "run", str(path), "--engine", "direct", "--out", str(tmp_path / "out"))
    assert code == 2
    assert "auto" in line
