"""Nothing that was paid for is lost: finished runs are found first, and `--out` is looked at before a reservation."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.cli.main import main
from causalveil.flows.run import study as sequence_study
from causalveil.schemas.errors import CausalveilError, DataError, RunConflict, StudyError
from causalveil.tasks.data import split
from causalveil.tasks.machine.site import home
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.studies import people, write_study


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def call(capfd: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    shown = capfd.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, " ".join((shown.out + shown.err).split())


def _new_policy(study: Path) -> None:
    contract = study.with_name("dataset.yaml")
    contract.write_text(contract.read_text().replace("epsilon: 10", "epsilon: 9"))


def _no_policy(study: Path) -> None:
    study.with_name("dataset.yaml").unlink()


def _another_partition(study: Path) -> None:
    people(50, seed=1).with_columns(pl.col("person") + 5000).write_parquet(study.with_name("part-9.parquet"))


def _no_data(study: Path) -> None:
    for part in study.parent.glob("*.parquet"):
        part.unlink()


def _key_renamed(_study: Path) -> None:
    (home() / "site.key").rename(home() / "site.key.old")


@pytest.mark.parametrize("change", [_new_policy, _no_policy, _another_partition, _no_data, _key_renamed])
def test_a_lost_release_comes_back_whatever_changed(
    change: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_study(tmp_path / "study")
    first = run_study(path, out=tmp_path / "out", run_id="one", engine="direct")
    kept = first.path.read_bytes()
    shutil.rmtree(tmp_path / "out")
    change(path)
    code, shown = call(capfd, "run", path, "--out", tmp_path / "out", "--run-id", "one")
    assert code == 0, shown
    assert "nothing ran or was charged" in shown
    assert (tmp_path / "out" / "release.json").read_bytes() == kept
    assert call(capfd, "ledger", "release", "one", "--out", tmp_path / "b")[0] == 0
    assert (tmp_path / "b" / "release.json").read_bytes() == kept
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1


def test_another_study_does_not_get_it(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study")
    run_study(path, out=tmp_path / "out", run_id="one", engine="direct")
    other = write_study(tmp_path / "other", study={"privacy": {"epsilon": "0.5"}})
    with pytest.raises(RunConflict, match="another study"):
        run_study(other, out=tmp_path / "b", run_id="one", engine="direct")


def test_what_is_not_finished_is_not_released(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, shown = call(capfd, "ledger", "release", "nobody", "--out", tmp_path / "out")
    assert (code, "not finished" in shown) == (2, True)


@pytest.mark.parametrize("trouble", ["taken", "a file", "below a file", "a link to nowhere"])
def test_out_is_looked_at_before_anything_is_reserved(trouble: str, tmp_path: Path) -> None:
    path, out = write_study(tmp_path / "study"), tmp_path / "out"
    match trouble:
        case "taken":
            out.mkdir()
            (out / "release.json").write_text("{}")
        case "a file":
            out.write_text("")
        case "below a file":
            out.write_text("")
            out = out / "deeper"
        case "a link to nowhere":
            out.symlink_to(tmp_path / "nowhere")
    with pytest.raises(StudyError, match="choose another out"):
        run_study(path, out=out, run_id="one", engine="direct")
    ledger = open_ledger()
    assert ledger.record("one") is None
    assert run_study(path, out=tmp_path / "good", run_id="one", engine="direct").path.exists()


def fail_first(monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    """Let a stage fail once, as a machine does, and work the next time."""
    honest, troubles = split.split_stage, [problem]

    def troubled(study: Any, enclave: Any) -> None:
        if troubles:
            raise troubles.pop()
        honest(study, enclave)

    monkeypatch.setattr(split, "split_stage", troubled)


def test_a_full_disk_leaves_the_reservation_and_the_retry_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_study(tmp_path / "study")
    fail_first(monkeypatch, OSError(errno.ENOSPC, "No space left on device", "/a/b"))
    with pytest.raises(CausalveilError, match=r"reservation of run one stands: go on with run_id='one'"):
        run_study(path, out=tmp_path / "out", run_id="one", engine="direct")
    run = open_ledger().record("one")
    assert run is not None
    assert run.state == "reserved"
    assert run_study(path, out=tmp_path / "out", run_id="one", engine="direct").resumed
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1


def test_bad_data_void_the_run_and_free_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_study(tmp_path / "study")
    fail_first(monkeypatch, DataError("column 'age' has a null"))
    with pytest.raises(DataError) as told:
        run_study(path, out=tmp_path / "out", run_id="one", engine="direct")
    assert "stands" not in str(told.value)
    run = open_ledger().record("one")
    assert run is not None
    assert run.state == "voided"


def test_a_run_that_goes_on_says_what_was_returned(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "study")
    fail = pytest.MonkeyPatch()

    def dies(*_: Any) -> Any:
        raise CausalveilError("power cut")

    with fail.context() as patch:
        patch.setattr(sequence_study, "assemble_release", dies)
        with pytest.raises(CausalveilError, match="stands"):
            run_study(path, out=tmp_path / "out", run_id="one", engine="direct")
    code, shown = call(capfd, "run", path, "--out", tmp_path / "out", "--run-id", "one")
    assert code == 0
    assert "2 of its 2 charges were in the ledger" in shown


def test_show_tells_caps_that_nobody_used_and_knows_what_it_does_not_know(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_study(tmp_path / "study")
    assert call(capfd, "ledger", "grant", path.with_name("dataset.yaml"), "--reason", "opening")[0] == 0
    code, shown = call(capfd, "ledger", "show", "small")
    assert code == 0
    assert all(level in shown for level in ("sample", "label", "training_units"))
    assert shown.count("every block") == 3, shown
    code, shown = call(capfd, "ledger", "show", "smal")
    assert (code, "unknown" in shown) == (2, True)
