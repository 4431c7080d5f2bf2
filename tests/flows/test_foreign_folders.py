"""What a folder that is not the owner's may do to a dataset, and a file that is not the admitted one: nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.ranges import find_ranges
from causalveil.schemas.admission import ADMISSION_FILE
from causalveil.schemas.contract import DataClass
from causalveil.schemas.errors import BudgetRefused, CausalveilError, DataError, StudyError
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.manifests import FOLDER
from causalveil.tasks.machine import folders
from causalveil.tasks.privacy.keys import owner_key
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.studies import command, people, write_study


def kinds(dataset: str = "small") -> list[str]:
    return [entry.kind for entry in open_ledger().entries_of(dataset)]


@pytest.fixture
def owned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write a sensitive dataset that its owner granted and admitted; return its study."""
    monkeypatch.setenv("CAUSALVEIL_OWNER_KEY", str(tmp_path / "owner.key"))
    key = owner_key(create=True).public

    def write(frame: pl.DataFrame | None = None, **changes: Any) -> Path:
        words = {"data_class": "sensitive", "owner_key": key, **changes}
        path = write_study(tmp_path / "owned", frame=frame, contract=words)
        assert command("ledger", "grant", path.with_name("dataset.yaml"), "--reason", "opening") == 0
        assert command("admit", path.parent) == 0
        return path

    return write


@pytest.mark.parametrize("how", ["run", "simulate", "admit", "ranges"])
@pytest.mark.parametrize("reduced", [False, True])
def test_another_contract_that_bears_the_name_locks_nobody_out(
    how: str, reduced: bool, owned: Callable[..., Path], tmp_path: Path, home: Path
) -> None:
    rows = {"rows": {"keep": "first", "order": "age"}} if reduced else {}
    mine = owned(**rows)
    # The owner's folder may be one that nobody writes to: then its manifest lies in the causalveil home.
    (home / FOLDER).mkdir()
    (mine.parent / ADMISSION_FILE).rename(home / FOLDER / "small.json")
    before, kept = kinds(), (home / FOLDER / "small.json").read_bytes()
    theirs = write_study(tmp_path / "theirs", frame=people(100, seed=5), contract=rows)
    asked = [theirs.parent] if how in ("admit", "ranges") else [theirs, "--engine", "direct"]
    options = {"simulate": ["--simulate", "1"], "ranges": ["--columns", "age"]}.get(how, [])
    ended = command("run" if how == "simulate" else how, *asked, *options)
    assert ended == {"simulate": 0, "ranges": 2 if reduced else 4}.get(how, 4)
    assert [kind for kind in kinds() if kind != "refuse"] == before, "nothing is written but a refusal"
    assert (home / FOLDER / "small.json").read_bytes() == kept
    assert not (theirs.parent / ADMISSION_FILE).exists()
    assert run_study(mine, out=tmp_path / "out", run_id="mine", engine="direct").release.units == 400


def test_sensitive_data_are_admitted_once_they_are_granted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAUSALVEIL_OWNER_KEY", str(tmp_path / "owner.key"))
    owner = {"data_class": "sensitive", "owner_key": owner_key(create=True).public}
    path = write_study(tmp_path / "study", contract=owner)
    assert command("admit", path.parent) == 4
    assert kinds() == []
    assert not (path.parent / ADMISSION_FILE).exists()
    # The advice.
    assert command("ledger", "grant", path.with_name("dataset.yaml"), "--reason", "opening") == 0
    assert command("admit", path.parent) == 0


def test_the_ledger_itself_refuses_an_admission_under_another_contract(owned: Callable[..., Path]) -> None:
    """Whoever calls it: between the first look at the grant and the entry somebody may have granted anew."""
    data, before = DataFolder(owned().parent), kinds()
    admission = data.admission()
    assert admission is not None
    other = data.contract.model_copy(update={"data_class": DataClass.synthetic, "owner_key": None})
    with pytest.raises(BudgetRefused):
        open_ledger().admit(other, admission.model_copy(update={"declares": "another"}))
    assert kinds() == before


OPEN = {"open_ranges": {"wage": {}, "name": {}}}


def with_wages() -> pl.DataFrame:
    return people(400).with_columns(wage=pl.int_range(400).cast(pl.Float64) * 100, name=pl.lit("word"))


@pytest.mark.parametrize("small", [True, False])
def test_ranges_are_of_the_admitted_bytes(
    small: bool, owned: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file changed in place, of the same size and time: its footer says nothing of it."""
    monkeypatch.setattr(folders, "SMALL_BYTES", 1 << 23 if small else 0)
    folder = owned(with_wages(), **OPEN).parent
    path = folder / "part-0.parquet"
    times, content = path.stat(), bytearray(path.read_bytes())
    place = content.index(bytes(8), 200)
    content[place] ^= 1
    path.write_bytes(bytes(content))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(DataError, match=r"part-0\.parquet: changed since it was admitted"):
        find_ranges(folder, ("wage",), "0.1", "one", DirectEngine())
    assert [run.state for run in open_ledger().account("small").runs] == ["voided"], "nothing stays reserved"
    content[place] ^= 1
    path.write_bytes(bytes(content))
    assert find_ranges(folder, ("wage",), "0.1", "two", DirectEngine()).units == 400


SPANNED = {"blocks": {"key": "month", "units_span": True}}


@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        (("name",), DataError, "column 'name' must be an integer"),
        (("nowhere",), DataError, "column 'nowhere' is missing"),
        (("group",), StudyError, "declared with levels or codes"),
        (("wage", "treated"), StudyError, "declared with levels or codes"),
    ],
)
def test_kinds_are_known_before_anything_is_reserved(
    columns: tuple[str, ...], error: type[CausalveilError], says: str, owned: Callable[..., Path]
) -> None:
    folder = owned(with_wages(), **OPEN).parent
    before = kinds()
    with pytest.raises(error, match=says):
        find_ranges(folder, columns, "0.1", None, DirectEngine())
    assert kinds() == before


def test_units_of_several_blocks_have_no_range(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", partitions=0, contract=SPANNED)
    for month in ("1", "2"):
        (path.parent / f"month={month}").mkdir()
        people(50).write_parquet(path.parent / f"month={month}" / "part.parquet")
    with pytest.raises(StudyError, match="several blocks"):
        find_ranges(path.parent, ("age",), "0.1", None, DirectEngine())
    assert kinds() == []


def test_a_contract_is_read_as_text_that_people_wrote(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study")
    words = yaml.safe_load(path.with_name("dataset.yaml").read_text())
    path.with_name("dataset.yaml").write_bytes(yaml.safe_dump(words, encoding="utf-16"))
    with pytest.raises(StudyError, match="UTF-8"):
        run_study(path, out=tmp_path / "out", engine="direct")
