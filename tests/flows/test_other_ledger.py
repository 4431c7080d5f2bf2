"""Rows that were charged in one ledger are not charged in another by accident: a file beside them names the first."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.ranges import find_ranges
from causalveil.schemas.errors import LedgerError
from causalveil.tasks.data.manifests import ANCHOR_FILE
from causalveil.tasks.privacy.keys import owner_key
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.children import process
from tests.crash import crash
from tests.faults import WHY_NO_DISK, small_disk
from tests.studies import command, people, write_study


def shown(capfd: pytest.CaptureFixture[str], *words: object) -> str:
    capfd.readouterr()
    assert command(*words) == 0
    return capfd.readouterr().out


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


def named(study: Path) -> tuple[int, str]:
    """Number and hash of the entry that the file beside the rows names."""
    found = json.loads((study.parent / ANCHOR_FILE).read_text())
    return found["seq"], found["hash"]


def put_back(copy: Path, home: Path, drill: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go on with an older copy of the state folder on a machine that remembers no more of it."""
    if drill == "copied home":
        monkeypatch.setenv("CAUSALVEIL_HOME", str(copy))
    elif drill == "old file":
        shutil.copy(copy / "ledger.db", home / "ledger.db")
        shutil.rmtree(home / "ledgers")
    else:
        shutil.rmtree(home)
        home.mkdir(mode=0o700)
        shutil.copy(copy / "ledger.db", home / "ledger.db")


DRILLS = ["copied home", "old file", "deleted folder"]


@pytest.mark.parametrize("drill", DRILLS)
def test_an_older_copy_is_refused_after_a_run(
    drill: str, study: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(home, tmp_path / "copy")
    assert run_study(study, out=tmp_path / "first", run_id="one", engine="direct").release.ledger.anchored
    assert named(study) == open_ledger().head()
    before = (study.parent / ANCHOR_FILE).read_bytes()
    put_back(copy, home, drill, monkeypatch)
    with pytest.raises(LedgerError, match="is in a newer copy of ledger") as told:
        ask(study, tmp_path / "second", "two")
    assert open_ledger().account("small").runs == ()
    assert (study.parent / ANCHOR_FILE).read_bytes() == before
    # The advice, followed: the owner's word is on record, and the budget begins anew by it alone.
    assert "causalveil ledger grant" in str(told.value)
    assert command("ledger", "grant", study.parent / "dataset.yaml", "--reason", "the newer copy is lost") == 0
    ask(study, tmp_path / "second", "two")
    assert named(study) == open_ledger().head()


def test_an_older_copy_is_refused_after_ranges_were_found(
    study: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(home, tmp_path / "copy")
    find_ranges(study.parent, ("age",), "0.1", "found", DirectEngine())
    assert named(study) == open_ledger().head()
    put_back(copy, home, "old file", monkeypatch)
    with pytest.raises(LedgerError, match="is in a newer copy of ledger"):
        find_ranges(study.parent, ("age",), "0.1", "again", DirectEngine())


@pytest.mark.parametrize("place", ["after:reserve", "stage:perturb", "after:release"])
def test_a_killed_run_leaves_the_file_behind_the_ledger_and_never_ahead(
    place: str, study: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, admitted = shutil.copytree(home, tmp_path / "copy"), named(study)
    crash(place, str(study), str(tmp_path / "out"), "one", {"CAUSALVEIL_HOME": str(home)}, "direct")
    seq, digest = named(study)
    assert (seq == admitted[0]) == (place == "after:reserve")
    assert open_ledger().accounts_for(seq, digest)
    assert seq < open_ledger().head()[0] or place == "stage:perturb"
    ask(study, tmp_path / "out")
    ask(study, tmp_path / "next", "two")
    assert named(study) == open_ledger().head()
    # What a killed run had reserved is held as well.
    put_back(copy, home, "old file", monkeypatch)
    with pytest.raises(LedgerError, match="is in a newer copy of ledger"):
        ask(study, tmp_path / "third", "three")


def test_of_two_runs_at_once_the_file_names_the_later_entry(study: Path, tmp_path: Path) -> None:
    runs = [
        process(lambda number: ask(study, tmp_path / f"out-{number}", f"run-{number}"), number) for number in range(2)
    ]
    for one in runs:
        one.start()
    for one in runs:
        one.join()
    assert [one.exitcode for one in runs] == [0] * 2
    assert named(study) == open_ledger().head()


def test_an_accepted_loss_is_accepted_beside_the_rows(study: Path, tmp_path: Path, home: Path) -> None:
    before = shutil.copy(home / "ledger.db", tmp_path / "before.db")
    ask(study, tmp_path / "first")
    ask(study, tmp_path / "lost", "lost")
    lost = named(study)
    shutil.copy(before, home / "ledger.db")
    with pytest.raises(LedgerError, match="ledger restored"):
        ask(study, tmp_path / "second", "two")
    assert command("ledger", "restored", "--reason", "disk lost on 3 May") == 0
    ask(study, tmp_path / "second", "two")
    # Though the copy is shorter than what was lost, from the first run on it is its head that counts.
    assert named(study) == open_ledger().head()
    assert named(study)[0] < lost[0]
    between = shutil.copy(home / "ledger.db", tmp_path / "between.db")
    ask(study, tmp_path / "third", "three")
    shutil.copy(between, home / "ledger.db")
    shutil.rmtree(home / "ledgers")
    with pytest.raises(LedgerError, match="is in a newer copy of ledger"):
        ask(study, tmp_path / "fourth", "four")


def test_who_could_read_the_file_can_read_it_after_a_run(study: Path, tmp_path: Path) -> None:
    place = study.parent / ANCHOR_FILE
    place.chmod(0o664)
    ask(study, tmp_path / "first")
    assert place.stat().st_mode & 0o777 == 0o664


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"dataset": "small"}'])
def test_a_damaged_file_is_refused_and_mended_by_the_owner(content: str, study: Path, tmp_path: Path) -> None:
    (study.parent / ANCHOR_FILE).write_text(content)
    with pytest.raises(LedgerError, match="does not name a ledger"):
        ask(study, tmp_path / "out")
    assert command("ledger", "grant", study.parent / "dataset.yaml", "--reason", "mended") == 0
    ask(study, tmp_path / "out")


def test_another_file_than_this_ledgers_is_left_as_it_is(study: Path, tmp_path: Path) -> None:
    place = study.parent / ANCHOR_FILE
    place.write_text(place.read_text().replace('"small"', '"other"'))
    before = place.read_bytes()
    assert run_study(study, out=tmp_path / "out", run_id="one", engine="direct").release.ledger.anchored is False
    assert place.read_bytes() == before


@pytest.mark.parametrize("admitted", ["before", "after"])
def test_where_nothing_can_be_written_beside_the_rows_page_and_ledger_say_so(
    admitted: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSALVEIL_OWNER_KEY", str(tmp_path / "owner.key"))
    with small_disk(tmp_path / "disk", 8) as disk:
        if disk is None:
            pytest.skip(WHY_NO_DISK)
        owner = {"data_class": "sensitive", "owner_key": owner_key(create=True).public}
        path = write_study(disk / "study", frame=people(600), contract=owner)
        assert command("ledger", "grant", path.parent / "dataset.yaml", "--reason", "opening") == 0
        orders = ["admit", "ro"] if admitted == "before" else ["ro", "admit"]
        for order in orders:
            if order == "admit":
                assert command("admit", path.parent) == 0
            else:
                subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert (path.parent / ANCHOR_FILE).exists() == (admitted == "before")
        release = run_study(path, out=tmp_path / "out", run_id="one", engine="direct").release
        assert release.ledger.anchored is False
        assert command("report", tmp_path / "out") == 0
        for text in ((tmp_path / "out" / "report.html").read_text(), shown(capfd, "ledger", "show", "small")):
            assert "an older copy of this ledger is not refused there" in " ".join(text.split())
        assert json.loads(shown(capfd, "ledger", "show", "small", "--json"))["anchored"] is False
        # What is kept instead is held against the ledger.
        assert command("ledger", "verify", "--release", tmp_path / "out") == 0


def test_a_page_whose_rows_hold_the_file_says_nothing_of_older_copies(
    study: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ask(study, tmp_path / "out")
    assert command("report", tmp_path / "out") == 0
    assert "older copies" not in (tmp_path / "out" / "report.html").read_text()
    assert "older copy" not in shown(capfd, "ledger", "show", "small")
    assert json.loads(shown(capfd, "ledger", "show", "small", "--json"))["anchored"] is True


def test_rows_that_nobody_may_write_beside_are_read_as_before(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        if disk is None:
            pytest.skip(WHY_NO_DISK)
        path = write_study(disk / "study", frame=people(600))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert command("admit", path.parent) == 0
        ask(path, tmp_path / "out")
        assert not (path.parent / ANCHOR_FILE).exists()
