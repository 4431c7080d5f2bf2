"""Admitted data: what an owner does and is told, and what a run refuses; nothing is charged for a refusal."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from causalveil.flows.api import run_study
from causalveil.schemas.admission import ADMISSION_FILE
from causalveil.schemas.errors import CausalveilError, DataError, LedgerError, RunConflict, StudyError
from causalveil.tasks.estimate.papers.ipw import weights
from causalveil.tasks.privacy.keys import OwnerKey, owner_key
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.studies import command, people, write_study

MONTHS = {"blocks": {"key": "month", "units_span": False}}


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnerKey:
    monkeypatch.setenv("CAUSALVEIL_OWNER_KEY", str(tmp_path / "owner.key"))
    return owner_key(create=True)


@pytest.fixture
def study(tmp_path: Path, owner: OwnerKey) -> Path:
    """A sensitive dataset of two months, granted and admitted."""
    path = write_study(
        tmp_path / "study",
        partitions=0,
        study={"data": {"select": {"newest": 2}}},
        contract=MONTHS | {"data_class": "sensitive", "owner_key": owner.public},
    )
    for number in (1, 2):
        month(path.parent, number)
    assert command("ledger", "grant", path.with_name("dataset.yaml"), "--reason", "opening") == 0
    assert command("admit", path.parent) == 0
    return path


def month(folder: Path, number: int, seed: int = 0) -> Path:
    """200 people of their own, as one month's file."""
    place = folder / f"month={number}"
    place.mkdir(exist_ok=True)
    frame = people(200, seed=seed).with_columns(person=pl.col("person") + 1_000_000 * number)
    frame.write_parquet(place / "part.parquet", compression="uncompressed", statistics=False)
    return place / "part.parquet"


def spent() -> dict[str, float]:
    account = open_ledger().account("small")
    open_ledger().verify()
    assert all(block.reserved.epsilon == 0 for block in account.blocks if block.level == "sample")
    return {block.block: float(block.spent.epsilon) for block in account.blocks if block.level == "sample"}


def swapped(folder: Path) -> None:
    """A manifest that vouches for other bytes, with every digest right, as an analyst could write it."""
    other = json.loads((folder / ADMISSION_FILE).read_text())
    other["files"][0]["digest"] = "0" * 64
    (folder / ADMISSION_FILE).write_text(json.dumps(other))


def redeclared(folder: Path) -> None:
    """Wider bounds that the owner granted, but did not hold the rows to."""
    path = folder / "dataset.yaml"
    path.write_text(path.read_text().replace("upper: 60", "upper: 61"))
    assert command("ledger", "grant", path, "--reason", "wider") == 0


def another_month(folder: Path) -> None:
    shutil.rmtree(folder / "month=1")
    month(folder, 3)


def other_rows(folder: Path) -> None:
    """As many bytes, other people."""
    before = (folder / "month=2" / "part.parquet").stat().st_size
    assert month(folder, 2, seed=9).stat().st_size >= before - 64
    content = bytearray((folder / "month=2" / "part.parquet").read_bytes())
    (folder / "month=2" / "part.parquet").write_bytes(bytes((content + bytes(64))[:before]))


def one_bit(folder: Path) -> None:
    path = folder / "month=2" / "part.parquet"
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(bytes(content))


def test_no_run_and_no_admission_without_pandera(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No row counts that pandera did not hold to its rules: of data that admit themselves, nor of admitted ones."""
    fresh = write_study(tmp_path / "fresh", contract={"dataset": "fresh"})
    monkeypatch.setitem(sys.modules, "pandera", None)
    for name in [name for name in sys.modules if name.endswith("schemas.contract_schema")]:
        monkeypatch.delitem(sys.modules, name)
    for words in (["run", fresh], ["run", study], ["admit", study.parent], ["check", study, "--schema"]):
        engine = ["--engine", "direct"] if words[0] == "run" else []
        assert command(*words, *engine) == 1
        said = capsys.readouterr().err
        assert "pandera cannot be imported (pandera is missing)" in said
        assert len(said.strip().splitlines()) <= 2, "a run's name, and one line"
    assert spent() == {}
    assert "fresh" not in open_ledger().datasets()


TAMPERED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a swapped manifest": (swapped, "not the one that the ledger recorded"),
    "no manifest": (lambda folder: (folder / ADMISSION_FILE).unlink(), "not the one that the ledger recorded"),
    "an edited contract": (redeclared, "declares the rows otherwise"),
    "a month deleted and another added": (another_month, "a block was added or removed"),
    "a month deleted": (lambda folder: shutil.rmtree(folder / "month=1"), "a block was added or removed"),
    "a file added": (
        lambda folder: shutil.copy(folder / "month=1" / "part.parquet", folder / "month=1" / "b.parquet"),
        r"month=1/b\.parquet was added",
    ),
    "a bit": (one_bit, r"month=2/part\.parquet: changed since it was admitted"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_data_that_are_not_what_was_admitted_are_refused(name: str, study: Path, tmp_path: Path) -> None:
    run_study(study, out=tmp_path / "before", run_id="before", engine="direct")
    books = spent()
    assert books == {"month=1": 1, "month=2": 1}
    change, said = TAMPERED[name]
    change(study.parent)
    with pytest.raises(DataError, match=said) as caught:
        run_study(study, out=tmp_path / "out", run_id="after", engine="direct")
    assert "\n" not in str(caught.value)
    assert "causalveil admit" in str(caught.value)
    assert spent() == books, "nothing was charged, and nothing is set aside"
    assert not (tmp_path / "out").exists()
    # Once its owner has admitted what lies there, it runs again, and old months keep what they spent.
    if name != "a file added":
        shutil.rmtree(study.parent / "month=2")
        month(study.parent, 2)
        assert command("admit", study.parent) == 0
        run_study(study, out=tmp_path / "again", run_id="again", engine="direct")
        assert spent()["month=2"] == 2


def test_a_unit_that_stands_twice_is_admitted_by_nobody(study: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.copy(study.parent / "month=1" / "part.parquet", study.parent / "month=1" / "b.parquet")
    capfd.readouterr()
    assert command("admit", study.parent) == 3
    shown = capfd.readouterr()
    assert "200" in shown.out, "the owner sees how many"
    assert "200" not in shown.err.replace(str(study.parent), ""), "the one line is for everybody"
    assert command("admit", study.parent, "--json") == 3
    document = json.loads(capfd.readouterr().out)
    assert document["error"]["exit_code"] == 3
    assert [(one["column"], one["rows"]) for one in document["findings"]] == [("person", 200)]


@pytest.mark.parametrize("again", [True, False], ids=["admitted again", "not admitted again"])
def test_a_run_that_comes_back_to_refreshed_rows_is_refused(
    again: bool, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(weights, "release", _dies)
        with pytest.raises(CausalveilError):
            run_study(study, out=tmp_path / "out", run_id="back", engine="direct")
    month(study.parent, 2, seed=9)
    if again:
        assert command("admit", study.parent) == 0
    with pytest.raises(RunConflict if again else DataError, match="content of its data files" if again else "changed"):
        run_study(study, out=tmp_path / "out", run_id="back", engine="direct")
    charged = open_ledger().record("back")
    assert charged is not None
    assert [charge.name for charge, _ in charged.charges] == ["propensity"]
    # With the rows that it left it goes on.
    month(study.parent, 2)
    if again:
        assert command("admit", study.parent) == 0
    run_study(study, out=tmp_path / "out", run_id="back", engine="direct")
    assert spent() == {"month=1": 1, "month=2": 1}


def _dies(*_: Any, **__: Any) -> None:
    raise RuntimeError("the machine stopped")


def test_units_that_may_be_in_several_blocks_are_asked_of_one(tmp_path: Path) -> None:
    spanning = {"blocks": {"key": "month", "units_span": True}}
    path = write_study(tmp_path / "study", partitions=0, contract=spanning)
    for number in (1, 2):
        month(path.parent, number)
    with pytest.raises(StudyError, match="newest: 1"):
        run_study(path, out=tmp_path / "out", engine="direct")


def test_public_data_admit_themselves_once_and_say_so(
    tmp_path: Path, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_study(tmp_path / "study")
    said = "held to its contract"
    for number, expected in ((1, True), (2, False)):
        assert command("run", path, "--out", tmp_path / str(number), "--engine", "direct") == 0
        assert (said in capfd.readouterr().out) is expected
    assert not (path.parent / ADMISSION_FILE).exists(), "public data are left as they lie"
    assert (home / "admissions" / "small.json").stat().st_mode & 0o777 == 0o600
    write_study(tmp_path / "study", frame=people(400, seed=3))
    assert command("run", path, "--out", tmp_path / "3", "--engine", "direct") == 0
    assert said in capfd.readouterr().out
    write_study(tmp_path / "study", frame=people(400).with_columns(group=pl.lit("d")))
    assert command("run", path, "--out", tmp_path / "4", "--engine", "direct") == 3
    shown = capfd.readouterr()
    assert "column 'group'" in shown.err
    # The name of a run ends with a digest, which may hold it, and so may the number of pytest's folder.
    told = (shown.out + shown.err).replace(str(tmp_path), "")
    assert "400" not in re.sub(r"small-small-[0-9a-f]{8}", "", told)
    assert spent() == {"all": 2}, "the second run asked what the first had answered"


def test_a_reservation_on_other_data_is_found(study: Path, tmp_path: Path) -> None:
    """Somebody with INSERT on the ledger's table reserves for rows that nobody admitted."""
    run_study(study, out=tmp_path / "out", run_id="one", engine="direct")
    ledger = open_ledger()
    run = ledger.record("one")
    assert run is not None
    body = json.loads(run.reserved.body)
    body["reservation"] |= {"run_id": "two", "admission": "0" * 64}
    with ledger.store.write() as connection:
        ledger.store.append(connection, "reserve", dataset="small", run_id="two", body=body)
    with pytest.raises(LedgerError, match="not those that were admitted"):
        ledger.verify()


def test_prefect_hears_of_no_count(study: Path, prefect_server: str, caplog: pytest.LogCaptureFixture) -> None:
    from causalveil.flows.deployed import admit_with_prefect

    assert admit_with_prefect(study.parent, lambda _: None).units == 400
    shutil.copy(study.parent / "month=1" / "part.parquet", study.parent / "month=1" / "b.parquet")
    caplog.clear()
    with pytest.raises(DataError, match="twice") as caught:
        admit_with_prefect(study.parent, lambda _: None)
    assert "200" not in str(caught.value)
    assert not [record for record in caplog.records if " 200 " in record.getMessage()]


def test_an_owner_learns_what_is_wrong_with_the_contract_too(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study").with_name("dataset.yaml")
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"unit": ["person"]}))
    assert command("admit", path.parent) == 2
    path.unlink()
    assert command("admit", path.parent) == 2
