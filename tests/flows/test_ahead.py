"""What public files decide is decided before Prefect is imported and before rows are read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.api import run_study
from causalveil.schemas.errors import BudgetRefused
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.studies import write_study

# Runs each command of the first argument in one process, on Prefect's engine; says what it imported and how it ended.
COMMANDS = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from causalveil.flows.cli.main import main
ended = {}
for name, words in json.loads(sys.argv[1]).items():
    said = io.StringIO()
    with redirect_stderr(said), redirect_stdout(said):
        try:
            main(words)
        except SystemExit as end:
            loaded = sorted({"prefect", "dp_accounting", "sklearn", "pandera"} & set(sys.modules))
            ended[name] = (end.code, said.getvalue(), loaded)
print(json.dumps(ended))
"""


def commands(words: dict[str, list[str]]) -> dict[str, Any]:
    environment = {**os.environ, "CAUSALVEIL_ENGINE": "prefect"}
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(words)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    ended: dict[str, Any] = json.loads(done.stdout)
    return ended


def sensitive(folder: Path, **contract: Any) -> Path:
    owner = {"data_class": "sensitive", "owner_key": "ed25519:" + "ab" * 32}
    return write_study(folder, contract={**owner, **contract})


def test_neither_a_refusal_nor_an_answer_waits_for_prefect(tmp_path: Path) -> None:
    over = write_study(tmp_path / "over", contract={"caps": {"sample": {"epsilon": "0.5"}}})
    taken = write_study(tmp_path / "taken", contract={"dataset": "other"})
    run_study(taken, out=tmp_path / "first", run_id="first", engine="direct")
    column = write_study(tmp_path / "column", study={"covariates": {"height": {"lower": 0, "upper": 1}}})
    missing = write_study(tmp_path / "missing")
    missing.with_name("dataset.yaml").unlink()
    another = write_study(tmp_path / "another", study={"name": "another"})
    empty = write_study(tmp_path / "empty", partitions=0)
    cases = {
        "no grant": ([str(sensitive(tmp_path / "ungranted"))], 4, "has no grant"),
        "cap exceeded": ([str(over)], 4, "remaining 0.5"),
        "no cap for the level": ([str(sensitive(tmp_path / "uncapped", caps={"sample": ...}))], 4, "no cap"),
        "unknown column": ([str(column)], 2, "'height'"),
        "estimator forbidden": ([str(write_study(tmp_path / "no", contract={"estimators": ["aipw"]}))], 2, "estimator"),
        "no contract": ([str(missing)], 2, "dataset.yaml"),
        "no partitions": ([str(empty)], 3, "no "),
        "another study's run id": ([str(another), "--run-id", "first"], 2, "run id first is taken"),
        "folder taken": ([str(taken), "--again", "--out", str(tmp_path / "first")], 2, "another release lies there"),
        "answered, by its question": ([str(taken), "--out", str(tmp_path / "a")], 0, "Report:"),
        "answered, by its id": ([str(taken), "--run-id", "first", "--out", str(tmp_path / "b")], 0, "Report:"),
    }
    words = {name: ["run", *arguments] for name, (arguments, _, _) in cases.items()}
    ended = commands({**words, "check": ["check", str(sensitive(tmp_path / "checked"))]})
    for name, (_, expected, text) in cases.items():
        code, said, loaded = ended[name]
        assert (code, loaded) == (expected, []), (name, said, loaded)
        assert text in said, (name, said)
    assert ended["check"][0] == 2


def test_rows_are_not_looked_at_for_a_run_that_does_not_fit(tmp_path: Path) -> None:
    """Public data admit themselves at their first run, which reads all of them: not for a refusal."""
    path = write_study(tmp_path / "study", contract={"caps": {"sample": {"epsilon": "0.5"}}})
    stages: list[str] = []
    with pytest.raises(BudgetRefused, match=r"remaining 0\.5"):
        run_study(path, engine="direct", watch=stages.append)
    assert stages == []
    assert "small" not in open_ledger().datasets(), "neither admitted nor granted"
