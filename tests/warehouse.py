"""A small warehouse of visits, in every form that an extract can read, and the source file that takes it."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
import yaml

from tests.studies import merge, people

COLUMNS = {"person": "integer", "treated": "boolean", "score": "number", "age": "number", "group": "text"}
KEY = {"name": "month", "column": "day", "step": "month", "first": "2025-12", "last": "2026-03"}
TABLE = 'CREATE TABLE visits (person bigint, treated boolean, score float8, age float8, "group" text, day date)'


def visits(rows: int = 1000, seed: int = 0) -> pl.DataFrame:
    """People with a day of visit in January or February 2026: December and March are empty months."""
    days = [datetime.date(2026, 1, 1) + datetime.timedelta(days=index % 59) for index in range(rows)]
    return people(rows, seed).with_columns(pl.Series("day", days))


def load(url: str, frame: pl.DataFrame) -> None:
    """Create the table in PostgreSQL and copy the rows into it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE)
        with connection.cursor().copy("COPY visits FROM STDIN (FORMAT csv)") as copy:
            copy.write(frame.select(*COLUMNS, "day").write_csv(include_header=False))


def write_source(path: Path, source: dict[str, Any], **changes: Any) -> Path:
    """Write a source file that takes the visits into ``data`` beside it."""
    document = {
        "name": "visits",
        "dataset": "small",
        "source": source,
        "key": KEY,
        "columns": COLUMNS,
        "to": "data",
        "rows_per_file": 300,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(merge(document, changes), sort_keys=False))
    return path


def files(folder: Path, frame: pl.DataFrame, kind: str) -> dict[str, Any]:
    """The visits as two files in ``folder``; returns the source."""
    folder.mkdir(parents=True)
    half = frame.height // 2
    for index, part in enumerate((frame[:half], frame[half:])):
        path = folder / f"{index}.{kind}"
        part.write_csv(path) if kind == "csv" else part.write_parquet(path)
    return {"kind": kind, "path": str(folder)}


def duckdb_file(path: Path, frame: pl.DataFrame) -> dict[str, Any]:
    """The visits as a table of a DuckDB file; returns the source."""
    import duckdb

    with duckdb.connect(str(path)) as connection:
        connection.register("frame", frame.to_arrow())
        connection.execute("CREATE TABLE visits AS SELECT * FROM frame")
    return {"kind": "duckdb", "path": str(path), "query": "SELECT * FROM visits -- all of them"}


def delta_table(folder: Path, frame: pl.DataFrame) -> dict[str, Any]:
    """The visits as a Delta table of two files; returns the source."""
    from deltalake import write_deltalake

    half = frame.height // 2
    for part in (frame[:half], frame[half:]):
        write_deltalake(folder, part.to_arrow(), mode="append")
    return {"kind": "delta", "path": str(folder)}


def read(folder: Path) -> pl.DataFrame:
    """All rows of an extracted folder, in order of persons."""
    parts = [pl.read_parquet(path, hive_partitioning=False) for path in sorted(folder.rglob("*.parquet"))]
    return pl.concat(parts).sort("person")
