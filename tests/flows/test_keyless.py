"""Rows without a value in the key's column: no block would hold them, so an extract refuses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import extract_source
from causalveil.schemas.errors import DataError
from tests.postgres import WHY_NOT, database
from tests.warehouse import delta_table, duckdb_file, files, load, visits, write_source


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
