"""A small warehouse of visits, in every form that an extract can read, and the source file that takes it."""

from __future__ import annotations

import datetime
import zipfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

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


_SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def workbook(path: Path, **sheets: list[list[Any]]) -> Path:
    """An Excel workbook of sheets, each a list of lines; dates are written as Excel has them."""

    def cell(value: Any) -> str:
        if isinstance(value, datetime.date):
            return f'<c s="1"><v>{(value - datetime.date(1899, 12, 30)).days}</v></c>'
        if value is None or isinstance(value, int | float):
            return "<c/>" if value is None else f"<c><v>{float(value):.15g}</v></c>"
        return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'

    def lines(rows: list[list[Any]]) -> str:
        return "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)

    def related(parts: dict[str, tuple[str, str]]) -> str:
        body = (f'<Relationship Id="{n}" Type="{_RELATIONS}/{t}" Target="{to}"/>' for n, (t, to) in parts.items())
        return f'<Relationships xmlns="{_PACKAGE}/relationships">{"".join(body)}</Relationships>'

    listed = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>' for n, name in enumerate(sheets, 1))
    places = {f"r{n}": ("worksheet", f"worksheets/sheet{n}.xml") for n, _ in enumerate(sheets, 1)}
    texts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" '
        'ContentType="application/xml"/></Types>',
        "_rels/.rels": related({"r1": ("officeDocument", "xl/workbook.xml")}),
        "xl/workbook.xml": f'<workbook xmlns="{_SHEETS}" xmlns:r="{_RELATIONS}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": related(places | {"styles": ("styles", "styles.xml")}),
        "xl/styles.xml": f'<styleSheet xmlns="{_SHEETS}"><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
        "</styleSheet>",
    }
    with zipfile.ZipFile(path, "w") as book:
        for name, text in texts.items():
            book.writestr(name, text)
        for number, rows in enumerate(sheets.values(), 1):
            sheet = f'<worksheet xmlns="{_SHEETS}"><sheetData>{lines(rows)}</sheetData></worksheet>'
            book.writestr(f"xl/worksheets/sheet{number}.xml", sheet)
    return path


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
