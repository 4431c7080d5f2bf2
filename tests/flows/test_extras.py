"""Libraries that one estimator alone needs are extras: without them it is refused by name, and nothing else changes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.run.estimators import estimator_of
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.estimators.matching import MatchingStudy
from tests.matching_help import matching_changes
from tests.studies import people, write_study

# Runs each command in one process to which numba is as if it were not installed; says how it ended.
COMMANDS = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
sys.modules["numba"] = None
from causalveil.flows.cli.main import main
ended = []
for words in json.loads(sys.argv[1]):
    said = io.StringIO()
    with redirect_stderr(said), redirect_stdout(io.StringIO()):
        try:
            main(words)
        except SystemExit as end:
            ended.append((end.code, said.getvalue()))
print(json.dumps(ended))
"""


def without_numba(*commands: list[str]) -> list[tuple[int, str]]:
    command = [sys.executable, "-c", COMMANDS, json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [tuple(one) for one in json.loads(done.stdout)]


def test_matching_without_its_extra_names_it_and_reserves_nothing(tmp_path: Path, home: Path) -> None:
    contract: dict[str, Any] = {"estimators": ["matching", "ipw"]}
    matching = write_study(tmp_path / "a", frame=people(400), study=matching_changes(), contract=contract)
    other = write_study(tmp_path / "b", frame=people(400), contract={"dataset": "other"})
    for code, said in without_numba(["run", str(matching)], ["plan", str(matching)]):
        assert code == 2, said
        assert said.splitlines()[-1].endswith("needs numba, which is not installed; install causalveil[matching]")
    assert not (home / "ledger.db").exists()
    ((code, said),) = without_numba(["run", str(other), "--out", str(tmp_path / "out")])
    assert code == 0, said


LABEL: dict[str, Any] = {"level": "label", "delta": 0}
AT_LABEL: dict[str, tuple[dict[str, Any], bool]] = {
    "balancing": ({"estimator": {"name": "balancing", "penalty": ...}}, True),
    "auto": ({"estimator": {"name": "auto", "penalty": ...}}, True),
    "ipw": ({}, True),
    "balancing in subgroups": (
        {"estimator": {"name": "balancing", "penalty": ...}, "subgroups": "group", "covariates": {"group": ...}},
        True,
    ),
    "difference": ({"estimator": {"name": "difference_in_means", "penalty": ..., "trial": True}}, False),
}


def test_at_label_level_what_pairs_units_names_it_and_all_else_runs(tmp_path: Path, home: Path) -> None:
    """Balancing measured its variance by numba without a word, and ended behind its reservation."""
    contract: dict[str, Any] = {"estimators": ["matching", "balancing", "ipw", "difference_in_means"]}
    commands = []
    for place, (asked, _) in enumerate(AT_LABEL.values()):
        own = contract | {"dataset": f"set{place}", "public": ["treated", "age", "group"]}
        path = write_study(tmp_path / str(place), frame=people(400), study=asked | {"privacy": LABEL}, contract=own)
        commands.append(["run", str(path), "--out", str(tmp_path / f"out{place}")])
    ended = without_numba(*commands)
    for name, (code, said) in zip(AT_LABEL, ended, strict=True):
        assert code == (2 if AT_LABEL[name][1] else 0), (name, said)
        assert ("needs numba, which is not installed; install causalveil[matching]" in said) == AT_LABEL[name][1]


@pytest.mark.parametrize("study", [MatchingStudy, BalancingStudy])
def test_a_protocol_names_it_too(study: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from causalveil.schemas.errors import StudyError

    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(StudyError, match=r"causalveil\[matching\]"):
        estimator_of(study.model_construct())
