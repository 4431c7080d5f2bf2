"""Databases over ADBC by a driver's name: SQLite and DuckDB, each a real file; PostgreSQL is in `test_extract.py`."""

from __future__ import annotations

import sqlite3
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import extract_source, fill
from causalveil.schemas.errors import CausalveilError, DataError, StudyError
from causalveil.schemas.warehouse import AdbcDriver, Key, Manifest, Step
from causalveil.tasks.warehouse.extract import intervals
from causalveil.tasks.warehouse.read_sql import statement
from tests.postgres import WHY_NOT, database
from tests.warehouse import COLUMNS, delta_table, duckdb_file, files, load, read, visits, write_source

# SQLite has no truth values: they are 0 and 1.
SQLITE = {**COLUMNS, "treated": "integer"}


def take(path: Path) -> Manifest:
    return fill(path, DirectEngine()).manifest


def source(folder: Path, driver: str, query: str = "SELECT * FROM visits;", **changes: Any) -> Path:
    named = {"kind": "adbc", "driver": f"adbc_driver_{driver}", "url": {"environment": "WAREHOUSE_URL"}, "query": query}
    return write_source(folder / "source.yaml", named, **changes)


def sqlite(path: Path, frame: pl.DataFrame) -> Path:
    with sqlite3.connect(path) as connection:
        columns = 'person integer, treated integer, score real, age real, "group" text, day text'
        connection.execute(f"CREATE TABLE visits ({columns})")
        rows = frame.with_columns(pl.col("treated").cast(int), pl.col("day").cast(str)).select(*COLUMNS, "day").rows()
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.close()
    return path


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    place = str(tmp_path / "a visit#1.db")
    monkeypatch.setenv("WAREHOUSE_URL", place)
    return place


@pytest.mark.parametrize("spelled", ["{}", "sqlite://{}", '{{"uri": "{}"}}'])
def test_sqlite_gives_the_rows_of_each_block(
    spelled: str, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # January has no group at all: a column without a value has no type there.
    frame = visits().with_columns(
        pl.when(pl.col("day").dt.month() == 2).then("group").alias("group"), pl.col("age").round(0)
    )
    sqlite(Path(url), frame)
    monkeypatch.setenv("WAREHOUSE_URL", spelled.format(url))
    manifest = take(source(tmp_path, "sqlite", columns=SQLITE))
    assert [block.rows for block in manifest.blocks] == [0, 527, 473, 0]
    expected = frame.sort("person").with_columns(pl.col("treated").cast(pl.Int64)).select(*COLUMNS)
    assert read(tmp_path / "data").equals(expected)


def test_duckdb_gives_the_rows_of_each_block(tmp_path: Path, url: str) -> None:
    frame = visits()
    duckdb_file(Path(url), frame)
    manifest = take(source(tmp_path, "duckdb"))
    assert [block.rows for block in manifest.blocks] == [0, 527, 473, 0]
    assert read(tmp_path / "data").equals(frame.sort("person").select(*COLUMNS))


def test_a_table_that_is_not_there_and_a_file_that_is_not_there_are_told(tmp_path: Path, url: str) -> None:
    path = source(tmp_path, "sqlite", columns=SQLITE)
    with pytest.raises(CausalveilError, match="its server cannot be reached, or refuses") as caught:
        take(path)
    assert url not in str(caught.value)
    assert not Path(url).exists(), "no empty database is made"
    sqlite(Path(url), visits(10))
    with pytest.raises(CausalveilError, match="names a table or column") as caught:
        take(source(tmp_path, "sqlite", "SELECT secret FROM nowhere"))
    assert "nowhere" not in str(caught.value)


def test_what_sqlite_stores_against_its_type_is_refused_without_quoting_it(tmp_path: Path, url: str) -> None:
    sqlite(Path(url), visits(10))
    with sqlite3.connect(url) as connection:
        connection.execute("UPDATE visits SET score = 'unknown to us' WHERE person = 1003")
    connection.close()
    with pytest.raises(CausalveilError) as caught:
        take(source(tmp_path, "sqlite", columns=SQLITE))
    assert isinstance(caught.value, DataError) or "withheld" in str(caught.value)
    assert "unknown" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_driver_that_is_not_installed_and_one_that_nobody_knows(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        CausalveilError, match="driver adbc_driver_snowflake is not installed; install adbc-driver-snow"
    ):
        take(source(tmp_path, "snowflake"))
    with pytest.raises(StudyError, match="driver"):
        take(source(tmp_path, "os"))
    monkeypatch.setenv("WAREHOUSE_URL", '{"password": 1')
    with pytest.raises(StudyError, match="no JSON object of texts") as caught:
        take(source(tmp_path, "duckdb"))
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    ("driver", "condition"),
    [
        (AdbcDriver.sqlite, """"d""y" >= '2026-01-01' AND "d""y" < '2026-02-01'"""),
        (AdbcDriver.snowflake, """"d""y" >= DATE '2026-01-01' AND "d""y" < DATE '2026-02-01'"""),
        (AdbcDriver.bigquery, """`d"y` >= DATE '2026-01-01' AND `d"y` < DATE '2026-02-01'"""),
    ],
)
def test_conditions_are_written_as_each_database_reads_them(driver: AdbcDriver, condition: str) -> None:
    key = Key(name="month", column='d"y', step=Step.month, first="2026-01", last="2026-01")
    block = intervals(key, date(2026, 6, 1))[0]
    assert statement(key, "SELECT 1", block, driver).endswith(f"WHERE {condition}")


# Rows without a value in the key's column: no block would hold them, so an extract refuses them.
def source_of(kind: str, folder: Path, frame: pl.DataFrame) -> dict[str, Any]:
    if kind == "duckdb":
        return duckdb_file(folder / "w.duckdb", frame)
    return delta_table(folder / "table", frame) if kind == "delta" else files(folder / "files", frame, kind)


@pytest.mark.parametrize("kind", ["duckdb", "parquet", "csv", "delta"])
@pytest.mark.parametrize("lost", ["day", "day and person"])
def test_no_row_falls_out_uncounted(kind: str, lost: str, tmp_path: Path) -> None:
    """Also one that would be left out for another value that it lacks."""
    last = pl.int_range(pl.len()) == 999
    frame = visits().with_columns(day=pl.when(~last).then("day"))
    if lost != "day":
        frame = frame.with_columns(person=pl.when(~last).then("person"))
    path = write_source(tmp_path / "source.yaml", source_of(kind, tmp_path, frame))
    with pytest.raises(DataError, match="rows have no value in 'day', the column of the key") as refusal:
        extract_source(path, DirectEngine())
    assert "999" not in str(refusal.value)
    assert not list((tmp_path / "data").glob("month=*"))


def test_an_iceberg_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.iceberg_tables import catalog_here, iceberg_table

    frame = visits().with_columns(day=pl.when(pl.int_range(pl.len()) != 999).then("day"))
    iceberg_table(catalog_here(tmp_path / "catalog", monkeypatch), frame)
    source = {"kind": "iceberg", "catalog": "local", "table": "clinic.visits"}
    with pytest.raises(DataError, match="rows have no value in 'day'"):
        extract_source(write_source(tmp_path / "source.yaml", source), DirectEngine())


@pytest.mark.parametrize("kind", ["adbc", "sqlalchemy", "duckdb"])
def test_the_advice_on_a_query_is_true(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = visits().with_columns(day=pl.when(pl.int_range(pl.len()) != 999).then("day"))
    with database() as url:
        if kind == "duckdb":
            source = duckdb_file(tmp_path / "w.duckdb", frame)
        else:
            if url is None:
                pytest.skip(WHY_NOT)
            monkeypatch.setenv("WAREHOUSE_URL", url)
            load(url, frame)
            source = {"kind": kind, "url": {"environment": "WAREHOUSE_URL"}, "query": "SELECT * FROM visits"}
        with pytest.raises(DataError, match="COALESCE"):
            extract_source(write_source(tmp_path / "source.yaml", source), DirectEngine())
        for query, rows in (
            ("SELECT * FROM visits WHERE day IS NOT NULL", 999),
            ("SELECT * EXCLUDE day, COALESCE(day, DATE '2026-01-05') AS day FROM visits", 1000),
        ):
            if "EXCLUDE" in query and kind != "duckdb":
                continue
            path = write_source(tmp_path / f"{rows}" / "source.yaml", source | {"query": query})
            assert extract_source(path, DirectEngine()).manifest.rows == rows
