"""Iceberg tables as a source: catalog and snapshot say who counts; what the reader does not know is refused."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from pyiceberg.types import LongType

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import fill
from causalveil.flows.run.start import begin
from causalveil.flows.run.survey import survey
from causalveil.schemas.contract import DataClass
from causalveil.schemas.errors import CausalveilError, DataError
from causalveil.schemas.warehouse import IcebergSource, Manifest
from causalveil.tasks.start.roles import Wishes
from causalveil.tasks.warehouse.extract import EVERYTHING
from causalveil.tasks.warehouse.open_tables import iceberg_batches, iceberg_snapshot
from tests.iceberg_tables import catalog_here, data_files, delete_by_equality, delete_positions, iceberg_table
from tests.warehouse import COLUMNS, read, visits, write_source

WISHES = Wishes("visits", DataClass.synthetic, "person", "treated", "score")


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return catalog_here(tmp_path / "catalog", monkeypatch)


def source(tmp_path: Path, version: int | None = None, **changes: Any) -> Path:
    named = {} if version is None else {"version": version}
    document = {"kind": "iceberg", "catalog": "local", "table": "clinic.visits", **named}
    return write_source(tmp_path / "source.yaml", document, **changes)


def take(path: Path) -> Manifest:
    return fill(path, DirectEngine()).manifest


def test_whoever_was_deleted_is_gone_from_the_next_extract_on(tmp_path: Path, catalog: Any) -> None:
    table = iceberg_table(catalog, visits(), files=2)
    path = source(tmp_path)
    before = take(path)
    table.delete("person in (1003, 1004)")
    after = take(path)
    assert (before.rows, after.rows) == (1000, 998)
    assert not {1003, 1004} & set(read(tmp_path / "data")["person"])
    snapshots = [manifest.snapshots()[0] for manifest in (before, after)]
    assert snapshots[1].version == table.metadata.current_snapshot_id != snapshots[0].version
    assert {one.table for one in snapshots} == {str(table.metadata.table_uuid)}


def test_deletes_by_position_are_applied_whatever_block_is_read(tmp_path: Path, catalog: Any) -> None:
    frame = visits()
    table = iceberg_table(catalog, frame, files=2)
    first, second = data_files(table)
    delete_positions(table, {first: [0, 1, 70, 499], second: [3]})
    take(source(tmp_path))
    gone = {1000, 1001, 1070, 1499, 1503}
    assert set(read(tmp_path / "data")["person"]) == set(frame["person"]) - gone
    delete_positions(table, {first: [2], second: [4]})
    take(source(tmp_path))
    assert set(read(tmp_path / "data")["person"]) == set(frame["person"]) - gone - {1002, 1504}


def test_deletes_by_equality_are_refused_and_never_read_past(tmp_path: Path, catalog: Any) -> None:
    table = iceberg_table(catalog, visits())
    delete_by_equality(table, "person", [1003])
    with pytest.raises(DataError, match=r"deleted by equality, which pyiceberg does not read") as caught:
        take(source(tmp_path))
    assert "\n" not in str(caught.value)
    assert not [path for path in (tmp_path / "data").rglob("*.parquet") if pl.read_parquet(path).height]


def test_names_types_and_columns_may_change(tmp_path: Path, catalog: Any) -> None:
    frame = visits().with_columns(pl.col("age").cast(pl.Int32), pl.col("score").round(2).cast(pl.Decimal(10, 2)))
    table = iceberg_table(catalog, frame)
    old = table.metadata.current_snapshot_id
    with table.update_schema() as update:
        update.rename_column("score", "the outcome")
        update.update_column("age", LongType())
        update.add_column("bmi", LongType())
        update.delete_column("group")
    path = source(tmp_path)
    names = {"person": "integer", "treated": "boolean", "age": "number", "the outcome": "number", "bmi": "integer"}
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"columns": names}, sort_keys=False))
    take(path)
    rows = read(tmp_path / "data")
    assert rows.columns == ["person", "treated", "age", "the outcome", "bmi"]
    assert rows["the outcome"].to_list() == frame["score"].cast(float).to_list()
    assert rows["bmi"].null_count() == 1000
    take(source(tmp_path, version=old, to="old"))
    assert read(tmp_path / "old").columns == list(COLUMNS)
    with pytest.raises(DataError, match="column 'score' is missing"):
        take(source(tmp_path, to="elsewhere"))


def test_a_key_that_was_renamed_cuts_an_old_snapshot_by_its_old_name(tmp_path: Path, catalog: Any) -> None:
    table = iceberg_table(catalog, visits())
    old = table.metadata.current_snapshot_id
    with table.update_schema() as update:
        update.rename_column("day", "visited")
    assert [one.rows for one in take(source(tmp_path, version=old)).blocks] == [0, 527, 473, 0]
    now = source(tmp_path, key={"column": "visited"}, to="now")
    assert [one.rows for one in take(now).blocks] == [0, 527, 473, 0]


def test_a_snapshot_by_name_is_read_until_it_is_gone(tmp_path: Path, catalog: Any) -> None:
    table = iceberg_table(catalog, visits())
    old = table.metadata.current_snapshot_id
    table.delete("person < 1100")
    assert take(source(tmp_path, version=old)).rows == 1000
    table.maintenance.expire_snapshots().by_id(old).commit()
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(DataError, match=rf"its catalog has no snapshot {old} any more; name one that it has"):
        take(source(tmp_path, version=old))
    assert take(source(tmp_path)).rows == 900


def test_a_snapshot_that_vanishes_while_blocks_are_taken_ends_the_extract(tmp_path: Path, catalog: Any) -> None:
    table = iceberg_table(catalog, visits())
    path = source(tmp_path)

    class Expiring(DirectEngine):
        def __call__(self, task: Any) -> Any:
            found = super().__call__(task)
            if task.name == "probe":
                old = table.metadata.current_snapshot_id
                table.delete("person < 1100")
                table.maintenance.expire_snapshots().by_id(old).commit()
            return found

    with pytest.raises(DataError, match=r"has no snapshot .* any more"):
        fill(path, Expiring())
    assert take(path).rows == 900


def test_a_file_that_is_not_there_is_refused(tmp_path: Path, catalog: Any) -> None:
    table = iceberg_table(catalog, visits())
    Path(data_files(table)[0].removeprefix("file://")).unlink()
    with pytest.raises(DataError, match="names files that are not there") as caught:
        take(source(tmp_path))
    assert caught.value.__cause__ is None


def test_an_error_of_who_reads_the_rows_is_not_told_as_the_tables(catalog: Any) -> None:
    iceberg_table(catalog, visits())
    named = IcebergSource(kind="iceberg", catalog="local", table="clinic.visits")
    opened = iceberg_batches(named, iceberg_snapshot(named), ["person"], None, EVERYTHING)
    with pytest.raises(ZeroDivisionError), opened as batches:
        sum(batch.num_rows for batch in batches) // 0


def test_a_table_that_nothing_was_written_to_gives_blocks_without_rows(tmp_path: Path, catalog: Any) -> None:
    iceberg_table(catalog, visits().head(0))
    manifest = take(source(tmp_path))
    assert (manifest.rows, manifest.snapshots()[0].version) == (0, -1)


def test_another_table_of_the_name_is_refused(tmp_path: Path, catalog: Any) -> None:
    iceberg_table(catalog, visits())
    take(source(tmp_path))
    catalog.drop_table("clinic.visits")
    iceberg_table(catalog, visits())
    with pytest.raises(DataError, match="was taken from another table"):
        take(source(tmp_path))


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_blocks_end_at_midnight(zone: str | None, tmp_path: Path, catalog: Any) -> None:
    edge = datetime.datetime(2026, 1, 31, 23, 59, 59)
    days = pl.Series("day", [edge, edge + datetime.timedelta(seconds=1)]).dt.replace_time_zone(zone)
    iceberg_table(catalog, visits(2).with_columns(days))
    assert [one.rows for one in take(source(tmp_path)).blocks] == [0, 1, 1, 0]


def test_a_catalog_that_nobody_configured_and_a_table_that_is_not_there_are_told(tmp_path: Path, catalog: Any) -> None:
    with pytest.raises(DataError, match="catalog 'local' has no such table"):
        take(source(tmp_path))
    with pytest.raises(CausalveilError, match=r"PYICEBERG_CATALOG__NONE__URI") as caught:
        survey("iceberg:none/clinic.visits")
    assert "\n" not in str(caught.value)


def test_init_reads_a_table_through_its_catalog(tmp_path: Path, catalog: Any) -> None:
    table = iceberg_table(catalog, visits().drop("day").with_columns(pl.struct(a="age").alias("nested")))
    delete_positions(table, {data_files(table)[0]: list(range(400))})
    begun = begin(survey("iceberg:local/clinic.visits"), WISHES, tmp_path / "out", DirectEngine())
    assert begun.units == 600
    assert any("nested" in line for line in begun.draft.left_out)
    assert yaml.safe_load((tmp_path / "out/source.yaml").read_text())["source"]["table"] == "clinic.visits"
    release = run_study(tmp_path / "out/study.yaml", out=tmp_path / "answer", engine="direct").release
    assert release.units == 600
    assert [one.version for one in release.snapshots] == [table.metadata.current_snapshot_id]
