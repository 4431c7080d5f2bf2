"""Rows that were charged in one ledger are not charged in another by accident: a file beside them names the first."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from causalveil.flows.api import run_study
from causalveil.flows.cli.main import main
from causalveil.schemas.errors import LedgerError
from causalveil.tasks.admission.manifests import ANCHOR_FILE
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.faults import WHY_NO_DISK, small_disk
from tests.studies import people, write_study


def command(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(str(ended.value.code))


def ask(path: Path, out: Path, run_id: str = "one", **more: int) -> bytes:
    return run_study(path, out=out, run_id=run_id, engine="direct", **more).path.read_bytes()


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = write_study(tmp_path / "study", frame=people(600))
    assert command("admit", path.parent) == 0
    return path


def test_another_state_folder_refuses_rows_that_were_charged_elsewhere(
    study: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ask(study, tmp_path / "first")
    monkeypatch.setenv("CAUSALVEIL_HOME", str(tmp_path / "elsewhere"))
    for refused in (lambda: ask(study, tmp_path / "second"), lambda: ask(study, tmp_path / "second", "two")):
        with pytest.raises(LedgerError, match="what was charged to 'small' is in ledger") as told:
            refused()
    assert open_ledger().account("small").runs == ()
    assert command("admit", study.parent) == LedgerError.exit_code
    # A simulation charges nothing, wherever it runs.
    ask(study, tmp_path / "simulated", "simulated", simulate=3)
    # The advice, followed: the state folder of before.
    assert "CAUSALVEIL_HOME" in str(told.value)
    monkeypatch.setenv("CAUSALVEIL_HOME", str(home))
    assert ask(study, tmp_path / "first") == first
    # Or the owner's word that they begin anew.
    monkeypatch.setenv("CAUSALVEIL_HOME", str(tmp_path / "elsewhere"))
    assert command("ledger", "grant", study.parent / "dataset.yaml", "--reason", "moved to this machine") == 0
    ask(study, tmp_path / "third", "three")
    assert [run.run_id for run in open_ledger().account("small").runs] == ["three"]
    monkeypatch.setenv("CAUSALVEIL_HOME", str(home))
    with pytest.raises(LedgerError):
        ask(study, tmp_path / "fourth", "four")


def test_an_older_copy_is_seen_by_a_machine_that_never_saw_the_ledger(study: Path, tmp_path: Path, home: Path) -> None:
    before = tmp_path / "before.db"
    shutil.copy(home / "ledger.db", before)
    (study.parent / "part-0.parquet").unlink()
    people(300).write_parquet(study.parent / "part-0.parquet")
    assert command("admit", study.parent) == 0
    shutil.copy(before, home / "ledger.db")
    shutil.rmtree(home / "ledgers")
    with pytest.raises(LedgerError, match="is in a newer copy of ledger"):
        ask(study, tmp_path / "out")


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"dataset": "small"}'])
def test_a_damaged_file_is_refused_and_mended_by_the_owner(content: str, study: Path, tmp_path: Path) -> None:
    (study.parent / ANCHOR_FILE).write_text(content)
    with pytest.raises(LedgerError, match="does not name a ledger"):
        ask(study, tmp_path / "out")
    assert command("ledger", "grant", study.parent / "dataset.yaml", "--reason", "mended") == 0
    ask(study, tmp_path / "out")


def test_rows_that_nobody_may_write_beside_are_read_as_before(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        if disk is None:
            pytest.skip(WHY_NO_DISK)
        path = write_study(disk / "study", frame=people(600))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert command("admit", path.parent) == 0
        ask(path, tmp_path / "out")
        assert not (path.parent / ANCHOR_FILE).exists()
