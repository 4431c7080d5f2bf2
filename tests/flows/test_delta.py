"""Delta tables as a source: their log says who counts, whoever was deleted is gone, and releases say which state."""

from __future__ import annotations

import datetime
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from causalveil.flows.api import run_study
from causalveil.flows.cli.main import main
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import extract_source, fill
from causalveil.flows.run.start import begin
from causalveil.flows.run.survey import survey
from causalveil.schemas.contract import DataClass
from causalveil.schemas.errors import CausalveilError, DataError
from causalveil.schemas.warehouse import Manifest
from causalveil.tasks.report.page import report_html
from causalveil.tasks.start.roles import Wishes
from tests.delta_tables import delta_by_hand, with_feature
from tests.studies import CONTRACT, STUDY, merge
from tests.warehouse import COLUMNS, read, visits, write_source

VECTORS, MAPPING = with_feature("deletionVectors"), with_feature("columnMapping")
WISHES = Wishes("visits", DataClass.synthetic, "person", "treated", "score")


def table(folder: Path, frame: pl.DataFrame, **more: Any) -> Path:
    write_deltalake(folder, frame.to_arrow(), **more)
    return folder


def source(tmp_path: Path, folder: Path, version: int | None = None, **changes: Any) -> Path:
    named = {} if version is None else {"version": version}
    return write_source(tmp_path / "source.yaml", {"kind": "delta", "path": str(folder), **named}, **changes)


def take(path: Path) -> Manifest:
    return fill(path, DirectEngine()).manifest


def with_study(tmp_path: Path) -> Path:
    """A contract and a study beside the rows that an extract brings."""
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "dataset.yaml").write_text(
        yaml.safe_dump(merge(CONTRACT, {"blocks": {"key": "month", "units_span": False}}))
    )
    (tmp_path / "data" / "study.yaml").write_text(yaml.safe_dump(STUDY))
    return tmp_path / "data" / "study.yaml"


def test_whoever_was_deleted_is_gone_from_the_next_extract_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = table(tmp_path / "table", visits())
    path, study = source(tmp_path, folder), with_study(tmp_path)
    before = extract_source(path, DirectEngine()).manifest
    run_study(study, out=tmp_path / "one", engine="direct", run_id="before")
    february = (tmp_path / "data" / "month=2026-02" / "part-00000.parquet").read_bytes()
    DeltaTable(folder).delete("person in (1003, 1004) and day < DATE '2026-02-01'")
    after = extract_source(path, DirectEngine()).manifest
    assert before.rows - after.rows == 2
    assert not {1003, 1004} & set(read(tmp_path / "data")["person"])
    assert (tmp_path / "data" / "month=2026-02" / "part-00000.parquet").read_bytes() == february, (
        "other blocks are as before"
    )
    release = run_study(study, out=tmp_path / "two", engine="direct", run_id="after").release
    assert [one.version for one in release.snapshots] == [1]
    assert release.units == after.rows
    capsys.readouterr()
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["ledger", "show", "small", "--snapshots"])
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.index("after") < shown.index("version 1") < shown.index("before") < shown.index("version 0")
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["ledger", "show", "small", "--json"])
    runs = {run["run_id"]: run["snapshots"] for run in json.loads(capsys.readouterr().out)["runs"]}
    assert runs["after"][0] == {"format": "delta", "table": str(DeltaTable(folder).metadata().id), "version": 1}


def test_a_block_whose_people_were_all_deleted_is_emptied(tmp_path: Path) -> None:
    folder = table(tmp_path / "table", visits())
    path = source(tmp_path, folder)
    take(path)
    DeltaTable(folder).delete("day >= DATE '2026-02-01'")
    assert [block.rows for block in take(path).blocks] == [0, 527, 0, 0]
    assert read(tmp_path / "data").height == 527


def test_a_version_by_name_is_read_until_it_is_gone(tmp_path: Path) -> None:
    folder = table(tmp_path / "table", visits())
    DeltaTable(folder).delete("person < 1100")
    assert take(source(tmp_path, folder, version=0)).rows == 1000
    shutil.rmtree(tmp_path / "data")
    table_ = DeltaTable(folder)
    table_.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(DataError, match=r"names files that are not there.*name a version that is whole"):
        take(source(tmp_path, folder, version=0))
    with pytest.raises(DataError, match=r"version 7 is not whole, or has no such version"):
        take(source(tmp_path, folder, version=7))
    shutil.rmtree(tmp_path / "data")
    assert take(source(tmp_path, folder)).rows == 900


def test_another_version_by_name_is_another_declaration(tmp_path: Path) -> None:
    folder = table(tmp_path / "table", visits())
    DeltaTable(folder).delete("person < 1100")
    take(source(tmp_path, folder, version=0))
    with pytest.raises(DataError, match=r"another declaration.*delete this folder"):
        take(source(tmp_path, folder, version=1))


def test_another_table_in_its_place_is_refused(tmp_path: Path) -> None:
    folder = table(tmp_path / "table", visits())
    path = source(tmp_path, folder)
    take(path)
    shutil.rmtree(folder)
    table(folder, visits())
    with pytest.raises(DataError, match=r"was taken from another table.*delete the folders of all blocks"):
        take(path)


def test_partitions_null_among_them_decimals_and_new_columns_are_read(tmp_path: Path) -> None:
    frame = visits().with_columns(
        pl.when(pl.col("group") == "a").then(None).otherwise("group").alias("group"),
        pl.col("score").round(2).cast(pl.Decimal(10, 2)),
        pl.struct(a="age").alias("nested"),
    )
    folder = table(tmp_path / "table", frame, partition_by=["group"])
    later = frame.head(10).with_columns(pl.col("person") + 2000, bmi=pl.lit(21.5))
    write_deltalake(folder, later.to_arrow(), mode="append", schema_mode="merge")
    DeltaTable(folder).optimize.compact()
    DeltaTable(folder).optimize.z_order(["age"])
    take(source(tmp_path, folder, columns={**COLUMNS, "bmi": "number"}))
    rows = read(tmp_path / "data")
    assert rows.height == 1010
    assert rows["group"].null_count() == frame["group"].null_count() + later["group"].null_count()
    assert rows["bmi"].null_count() == 1000
    assert rows["score"].head(1000).to_list() == [float(Decimal(one)) for one in frame["score"]]
    with pytest.raises(DataError, match=r"column 'nested' is of type struct.*; declare what it is now"):
        take(source(tmp_path, folder, columns={"nested": "text"}, to="elsewhere"))
    with pytest.raises(DataError, match="column 'wight' is missing"):
        take(source(tmp_path, folder, columns={"wight": "number"}, to="elsewhere"))


@pytest.mark.parametrize("vectors", ["i", "u"])
def test_deletion_vectors_are_applied(vectors: str, tmp_path: Path) -> None:
    people = pa.table({"person": list(range(100)), "score": [1.0] * 100})
    folder = delta_by_hand(
        tmp_path / "table",
        {"a.parquet": people, "b.parquet": people},
        protocol=VECTORS,
        settings={"delta.enableDeletionVectors": "true"},
        deleted={"a.parquet": [*range(10), 57]},
        vectors=vectors,
    )
    path = source(tmp_path, folder, key=None, columns=None)
    document = yaml.safe_load(path.read_text()) | {"columns": {"person": "integer", "score": "number"}}
    path.write_text(yaml.safe_dump(document))
    assert take(path).rows == 189
    if vectors == "u":
        next(folder.glob("deletion_vector_*.bin")).unlink()
        shutil.rmtree(tmp_path / "data")
        with pytest.raises(DataError, match="names files that are not there"):
            take(path)


def mapped(folder: Path, mode: str, **more: Any) -> Path:
    files = {"a.parquet": pa.table({"col-1": [1, 2, 3], "col-2": [0.5, 1.5, 2.5]})}
    names = {"person": ("col-1", "long"), "the score": ("col-2", "double")}
    return delta_by_hand(folder, files, columns=names, settings={"delta.columnMapping.mode": mode}, **more)


@pytest.mark.parametrize("protocol", [{"minReaderVersion": 2, "minWriterVersion": 5}, MAPPING])
def test_columns_have_the_names_that_the_table_gives_them(protocol: dict[str, Any], tmp_path: Path) -> None:
    mapped(tmp_path / "table", "name", protocol=protocol)
    path = tmp_path / "source.yaml"
    document = {"name": "n", "dataset": "small", "source": {"kind": "delta", "path": "table"}, "to": "data"}
    path.write_text(yaml.safe_dump({**document, "columns": {"person": "integer", "the score": "number"}}))
    take(path)
    assert read(tmp_path / "data").to_dict(as_series=False) == {"person": [1, 2, 3], "the score": [0.5, 1.5, 2.5]}


def broken(folder: Path, how: str) -> Path:
    people = {"a.parquet": pa.table({"person": [1, 2, 3], "score": [0.5, 1.5, 2.5]})}
    match how:
        case "mapped by id":
            return mapped(folder, "id", protocol=MAPPING)
        case "of a feature to come":
            return delta_by_hand(folder, people, protocol=with_feature("quantumRows"))
        case "of a version to come":
            return delta_by_hand(folder, people, protocol={"minReaderVersion": 9, "minWriterVersion": 9})
        case "of widened types":
            return delta_by_hand(folder, people, protocol=with_feature("typeWidening"))
        case "no table":
            folder.mkdir()
            return folder
    delta_by_hand(folder, people)
    log = folder / "_delta_log"
    match how:
        case "with a gap in its log":
            (log / f"{2:020}.json").write_text('{"commitInfo": {}}')
        case "with half a line in its log":
            (log / f"{1:020}.json").write_text('{"add": ')
        case "ahead of its files":
            (folder / "a.parquet").unlink()
        case "with half a file":
            (folder / "a.parquet").write_bytes((folder / "a.parquet").read_bytes()[:200])
    return folder


BROKEN = {
    "mapped by id": "columns are mapped by id.*columnMapping.mode = name",
    "of a feature to come": "features that deltalake does not read",
    "of a version to come": "features that deltalake does not read",
    "of widened types": "features that deltalake does not read",
    "no table": "no log of one lies there",
    "with a gap in its log": "the log is not whole",
    "with half a line in its log": "is a Delta table that cannot be read",
    "ahead of its files": "its log names files that are not there",
    "with half a file": "is a Delta table that cannot be read",
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_table_that_cannot_be_read_is_refused_in_one_line(how: str, tmp_path: Path, home: Path) -> None:
    folder = broken(tmp_path / "table", how)
    path = tmp_path / "source.yaml"
    document = {"name": "n", "dataset": "small", "source": {"kind": "delta", "path": "table"}, "to": "data"}
    path.write_text(yaml.safe_dump({**document, "columns": {"person": "integer"}}))
    with pytest.raises(CausalveilError, match=BROKEN[how]) as caught:
        take(path)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert not list((tmp_path / "data").glob("rows=*")), "no rows were taken"
    with pytest.raises(CausalveilError, match=BROKEN[how]):
        survey(f"delta:{folder}")


def test_a_key_is_a_column_of_times_or_whole_numbers(tmp_path: Path) -> None:
    folder = table(tmp_path / "table", visits())
    with pytest.raises(DataError, match=r"column 'group' is of type string.*, and a key of step month is of dates"):
        take(source(tmp_path, folder, key={"column": "group"}))
    with pytest.raises(DataError, match="has no column 'dya', which 'key' names"):
        take(source(tmp_path, folder, key={"column": "dya"}))


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_blocks_end_at_midnight(zone: str | None, tmp_path: Path) -> None:
    edge = datetime.datetime(2026, 1, 31, 23, 59, 59)
    frame = visits(2).with_columns(
        pl.Series("day", [edge, edge + datetime.timedelta(seconds=1)]).dt.replace_time_zone(zone)
    )
    assert [one.rows for one in take(source(tmp_path, table(tmp_path / "table", frame))).blocks] == [0, 1, 1, 0]


def test_init_reads_the_version_that_is_asked_for(tmp_path: Path) -> None:
    folder = table(tmp_path / "table@7", visits().drop("day"))
    DeltaTable(folder).delete("person < 1400")
    assert survey(f"delta:{folder}").sample.frame.height == 600
    begun = begin(survey(f"delta:{folder}@0"), WISHES, tmp_path / "out", DirectEngine())
    assert begun.units == 1000
    assert yaml.safe_load((tmp_path / "out/source.yaml").read_text())["source"]["version"] == 0


def test_a_checkpoint_stands_for_the_log_before_it(tmp_path: Path) -> None:
    folder = table(tmp_path / "a table#1", visits(), configuration={"delta.logRetentionDuration": "interval 0 days"})
    DeltaTable(folder).delete("person < 1100")
    DeltaTable(folder).create_checkpoint()
    DeltaTable(folder).cleanup_metadata()
    assert take(source(tmp_path, folder)).rows == 900
    with pytest.raises(DataError, match="the log of version 0 is not whole, or has no such version any more"):
        take(source(tmp_path, folder, version=0, to="old"))


def test_a_folder_whose_name_would_be_read_as_another_is_refused(tmp_path: Path) -> None:
    table(tmp_path / "a table", visits())
    shutil.copytree(tmp_path / "a table", tmp_path / "a%20table")
    with pytest.raises(DataError, match="percent sign in this path as another folder's name; rename the folder"):
        take(source(tmp_path, tmp_path / "a%20table"))


@pytest.mark.parametrize("spelled", ["{}", "delta:{}"])
def test_init_reads_a_table_by_its_log(spelled: str, tmp_path: Path) -> None:
    frame = visits().drop("day").with_columns(pl.struct(a="age").alias("nested"), pl.col("person").alias('a"b.c'))
    folder = table(tmp_path / "table", frame)
    DeltaTable(folder).delete("person < 1400")
    begun = begin(survey(spelled.format(folder)), WISHES, tmp_path / "out", DirectEngine())
    assert begun.units == 600
    assert any("nested" in line for line in begun.draft.left_out)
    assert yaml.safe_load((tmp_path / "out/source.yaml").read_text())["source"] == {"kind": "delta", "path": "../table"}
    release = run_study(tmp_path / "out/study.yaml", out=tmp_path / "answer", engine="direct").release
    assert (release.units, [one.version for one in release.snapshots]) == (600, [1])
    page = report_html(release)
    assert f"delta table <code>{DeltaTable(folder).metadata().id}</code>, version 1" in page
