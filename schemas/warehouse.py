"""source.yaml: what to extract from a warehouse, by which key, over which declared range.
The owner declares in source.yaml how each column's text is read. Files may hold `$1,200`, `31.12.2025`, `Yes` beside
`y`, and `n/a`; the meaning of each is declared here. A value that does not fit the declaration ends the extract.

A snapshot names the state of an open table from which rows were extracted. The manifest lists the extracted partitions.

The range of the key is declared, never taken from rows: a month without rows has a partition like any other, so the set
of blocks is independent of the data. A block without rows is charged nothing, and the next extract asks for it again.
Credentials have no place in the file: it names an environment variable or a Prefect Secret block, and a URL written
into it is refused as an unknown key.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from causalveil.schemas.columns import Name
from causalveil.schemas.documents import AnyPath, LocalPath, RuleBroken, digest_of, read_yaml
from causalveil.schemas.mistakes import parse_written, validate
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.study import Slug


class Kind(StrEnum):
    """The kinds of declared columns; each is stored as one Parquet type."""

    integer = "integer"
    number = "number"
    boolean = "boolean"
    text = "text"
    date = "date"
    timestamp = "timestamp"


def _as_text(value: Any) -> Any:
    """YAML reads ``1: yes`` with a number for a key's value; in a file of text both are text."""
    if isinstance(value, dict):
        return {str(key): str(one) for key, one in value.items()}
    return value


# A header may hold line breaks and tabs, as spreadsheets make them; a contract's names may not.
SourceName = Annotated[str, Field(min_length=1, max_length=400)]
Piece = Annotated[str, Field(min_length=1, max_length=40)]
Format = Annotated[str, Field(pattern=r"%", max_length=40)]


class TextReading(Frozen):
    """Reading of one column from text, in this order.

    Spaces around a value never count, and an empty one is null. Then ``nulls`` are null, ``spellings`` are replaced,
    and the rest is read as ``kind``: a number without the characters of ``remove``, its decimal point as ``decimal``
    says; a date by the first of ``formats`` that fits, and as a number of days if ``since`` is given.
    """

    model_config = ConfigDict(populate_by_name=True)

    kind: Kind
    column: Annotated[SourceName | None, Field(alias="from", description="its name in the source, if another")] = None
    nulls: tuple[Annotated[str, Field(max_length=100)], ...] = ()
    spellings: Annotated[dict[str, str], BeforeValidator(_as_text)] = Field(default_factory=dict)
    remove: tuple[Piece, ...] = ()
    decimal: Annotated[str, Field(pattern=r"^[.,]$")] = "."
    formats: tuple[Format, ...] = ()
    since: Annotated[date | None, Field(strict=False)] = None

    @model_validator(mode="after")
    def _fits_its_kind(self) -> TextReading:
        numeric = self.kind in (Kind.integer, Kind.number)
        if (self.remove or self.decimal != ".") and not numeric:
            raise RuleBroken("'remove' and 'decimal' are for kind integer or number", "remove")
        if self.since is not None and not (self.kind is Kind.number and self.formats):
            raise RuleBroken(
                "'since' makes a date a number of days: write kind number, and 'formats' of the date", "since"
            )
        if self.formats and not (self.since or self.kind in (Kind.date, Kind.timestamp)):
            raise RuleBroken("'formats' are for kind date or timestamp, or a number of days with 'since'", "formats")
        if self.kind in (Kind.date, Kind.timestamp) and not self.formats:
            raise ValueError("a date that is read off text needs 'formats', such as ['%Y-%m-%d']")
        return self


# Iceberg's snapshot id of a table without any write.
NO_SNAPSHOT = -1


class TableSnapshot(Frozen):
    """One state of an open table.

    Its number depends on how often the table was written to, not on its rows.
    """

    format: Literal["delta", "iceberg"]
    table: Annotated[str, Field(min_length=1, max_length=200, description="the table's uuid")]
    version: Annotated[int, Field(ge=NO_SNAPSHOT, description="Delta's version, or Iceberg's snapshot id")]

    @property
    def words(self) -> str:
        """Return the state in words, without the table."""
        return f"{'version' if self.format == 'delta' else 'snapshot'} {self.version}"


SOURCE_FILE = "source.yaml"
MANIFEST_FILE = "_manifest.json"
NO_MANIFEST = "is not a manifest; extract again"
# The word for a range that ends with the newest month (day, year) that is over.
PREVIOUS = "previous"


class Step(StrEnum):
    """The span of one value of the key."""

    day = "day"
    month = "month"
    year = "year"
    integer = "integer"


# How a value of the key is written, in the file and in a block's name.
_WRITTEN = {
    Step.day: re.compile(r"\d{4}-\d{2}-\d{2}"),
    Step.month: re.compile(r"\d{4}-\d{2}"),
    Step.year: re.compile(r"\d{4}"),
    Step.integer: re.compile(r"-?\d{1,15}"),
}


class Credential(Frozen):
    """The source of the warehouse's URL: an environment variable or a Prefect Secret block.

    It names one of the two.
    """

    environment: Annotated[str | None, Field(pattern=r"^[A-Z][A-Z0-9_]*$")] = None
    block: Annotated[str | None, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")] = None

    @model_validator(mode="after")
    def _one_place(self) -> Credential:
        if (self.environment is None) == (self.block is None):
            raise ValueError("name one place: 'environment' (a variable) or 'block' (a Prefect Secret)")
        return self


class AdbcDriver(StrEnum):
    """A driver of Arrow Database Connectivity, by its module."""

    postgresql = "adbc_driver_postgresql"
    sqlite = "adbc_driver_sqlite"
    duckdb = "adbc_driver_duckdb"
    snowflake = "adbc_driver_snowflake"
    bigquery = "adbc_driver_bigquery"
    flightsql = "adbc_driver_flightsql"


class Warehouse(Frozen):
    """A database that answers SQL.

    It is asked over ADBC (Arrow batches, a driver by name) or SQLAlchemy (rows, any dialect).
    """

    kind: Literal["adbc", "sqlalchemy"]
    url: Credential
    query: Annotated[str, Field(min_length=1)]
    driver: AdbcDriver | None = None

    @model_validator(mode="after")
    def _driver_of_adbc(self) -> Warehouse:
        if self.driver is not None and self.kind != "adbc":
            raise RuleBroken("'driver' is for kind: adbc; a SQLAlchemy URL names its own", "driver")
        return self


class DuckDb(Frozen):
    """A DuckDB file, opened read-only; ``path`` is relative to the source file."""

    kind: Literal["duckdb"]
    path: LocalPath
    query: Annotated[str, Field(min_length=1)]


class ParquetFiles(Frozen):
    """A Parquet file, or a folder of them.

    ``path`` is relative to the source file, or a URL such as ``s3://...``.

    ``row_number`` as for CSV files.
    """

    kind: Literal["parquet"]
    path: AnyPath
    row_number: Name | None = None


class CsvFiles(Frozen):
    """A CSV file, or a folder of them with one header; ``path`` is relative to the source file.

    ``skip_lines``: lines above the header. ``skip_end``: lines below the last row of each file, such as a total or a
    note; blank ones do not count. ``quote``: the character around fields, or nothing; inside a field it is
    doubled, or led by ``escape``. ``row_number``: a column that the files do not have, with the number of the row, from
    1 on, over the files in the order of their names: for tables in which each row is a unit and none has a name.
    """

    kind: Literal["csv"]
    path: LocalPath
    encoding: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")] = "utf-8"
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    quote: Annotated[str, Field(max_length=1)] = '"'
    escape: Annotated[str, Field(max_length=1)] = ""
    skip_lines: Annotated[int, Field(ge=0, le=1000)] = 0
    skip_end: Annotated[int, Field(ge=0, le=100)] = 0
    row_number: Name | None = None


class TableFile(Frozen):
    """A file of Stata, SPSS or SAS, or a sheet of a workbook; ``path`` as for CSV files.

    A code with a value label is read as its label, but in the columns ``codes``; declared missing values are none.
    ``encoding``: of text, where the file's own word for it is wrong. ``sheet``: of a workbook, whose cells are text;
    ``skip_lines``, ``skip_end`` and ``row_number`` as for CSV files.
    """

    kind: Literal["stata", "spss", "sas", "excel"]
    path: LocalPath
    sheet: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    encoding: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")] = None
    codes: tuple[Name, ...] = ()
    skip_lines: Annotated[int, Field(ge=0, le=1000)] = 0
    skip_end: Annotated[int, Field(ge=0, le=100)] = 0
    row_number: Name | None = None


class DeltaSource(Frozen):
    """A Delta table, read by deltalake.

    ``path`` is relative to the source file, or a URL such as ``s3://...``. Without ``version`` an extract takes the
    rows that the table holds when it begins.
    """

    kind: Literal["delta"]
    path: AnyPath
    version: Annotated[int | None, Field(ge=0)] = None


class IcebergSource(Frozen):
    """An Iceberg table, read by pyiceberg through a catalog.

    The operator configured the catalog under a name.

    Without ``version``, a snapshot's id, an extract takes the rows that the table holds when it begins.
    """

    kind: Literal["iceberg"]
    table: Annotated[str, Field(pattern=r"^[^\s.]+(\.[^\s.]+)+$", max_length=200, description="NAMESPACE.TABLE")]
    catalog: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,60}$")] = "default"
    version: Annotated[int | None, Field(ge=0)] = None


Files = ParquetFiles | CsvFiles | TableFile


class Key(Frozen):
    """The partition key: its name in block names, its column, and the declared range."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,39}$")]
    column: Name
    step: Step
    first: str
    last: str

    @field_validator("first", "last", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _range(self) -> Key:
        relative = self.last == PREVIOUS and self.step is not Step.integer
        for end in (self.first,) if relative else (self.first, self.last):
            if not _WRITTEN[self.step].fullmatch(end) or not _exists(self.step, end):
                raise ValueError(f"first and last are values of a {self.step}, such as {_EXAMPLES[self.step]}")
        if not relative and _order(self.step, self.first) > _order(self.step, self.last):
            raise ValueError("first comes after last")
        return self


_EXAMPLES = {Step.day: "2026-01-31", Step.month: "2026-01", Step.year: "2026", Step.integer: "7"}


def _exists(step: Step, value: str) -> bool:
    if step is Step.integer:
        return True
    try:
        date.fromisoformat((value + "-01-01")[:10])
    except ValueError:
        return False
    return True


def _order(step: Step, value: str) -> Any:
    return int(value) if step is Step.integer else value


class Source(Frozen):
    """One extract: a source, its partition key, the columns to take, the folder to fill.

    Without ``key`` all rows are one block. ``required``: rows without a value in one of these columns are left out.
    """

    name: Slug
    dataset: Slug
    source: Annotated[
        Warehouse | DuckDb | ParquetFiles | CsvFiles | TableFile | DeltaSource | IcebergSource,
        Field(discriminator="kind"),
    ]
    key: Key | None = None
    columns: Annotated[dict[Name, Kind | TextReading], Field(min_length=1)]
    required: tuple[Name, ...] = ()
    to: AnyPath = "."
    rows_per_file: Annotated[int, Field(ge=1, le=10_000_000)] = 1_000_000

    @model_validator(mode="after")
    def _required_are_taken(self) -> Source:
        unknown = [name for name in self.required if name not in self.columns]
        if unknown:
            raise RuleBroken(
                f"'required' names '{unknown[0]}', which is no key of 'columns'; take it, or leave it out", "required"
            )
        return self

    @property
    def kinds(self) -> dict[str, Kind]:
        """Kind of value that each column that is taken holds."""
        return {name: one.kind if isinstance(one, TextReading) else one for name, one in self.columns.items()}

    @property
    def found_as(self) -> dict[str, str]:
        """The name in the source of each column that is taken."""
        return {
            name: one.column if isinstance(one, TextReading) and one.column is not None else name
            for name, one in self.columns.items()
        }

    @property
    def digest(self) -> str:
        """SHA-256 over the declarations on which a block's rows depend; without range and paths."""
        document = self.model_dump(
            mode="json",
            include={
                "key": {"name", "column", "step"},
                "source": {"kind", "query", "version", "sheet", "codes"},
                "columns": True,
            },
        )
        if self.required:
            document["required"] = self.required
        return digest_of(document)


class SourceFile(Frozen):
    """Size of a source's file in bytes, and the time of its last change in ns."""

    size: Annotated[int, Field(ge=0)]
    modified: int | None


class ExtractedFile(Frozen):
    """One Parquet file below the data folder."""

    path: str
    rows: Annotated[int, Field(ge=0)]


class ExtractedBlock(Frozen):
    """One value of the key: its files and n, which is public."""

    block: str
    rows: Annotated[int, Field(ge=0)]
    source_digest: str
    files: Annotated[tuple[ExtractedFile, ...], Field(min_length=1)]
    left_out: Annotated[
        dict[str, int], Field(description="rows without a value in a required column, by the first such column")
    ] = Field(default_factory=dict)
    snapshot: Annotated[TableSnapshot | None, Field(description="state of the open table that the rows are of")] = None


class Manifest(Frozen):
    """The schema and the partitions of an extract: all of the declared range, also empty ones."""

    version: Literal[1] = 1
    name: str
    dataset: str
    source_digest: str
    key: str | None
    first: str
    last: str
    columns: dict[str, Kind]
    blocks: tuple[ExtractedBlock, ...]
    required: tuple[str, ...] = ()
    source_files: Annotated[
        dict[str, SourceFile], Field(description="of a folder of files, by their paths in it; not public as n is")
    ] = Field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows of all partitions."""
        return sum(block.rows for block in self.blocks)

    @property
    def left_out(self) -> dict[str, int]:
        """Rows of all partitions that were left out, by the column in which they have no value."""
        counts = Counter[str]()
        for block in self.blocks:
            counts.update(block.left_out)
        return dict(counts)

    def snapshots(self, blocks: Collection[str] | None = None) -> tuple[TableSnapshot, ...]:
        """Return the distinct snapshots of open tables that blocks (None: all) were extracted from."""
        distinct = {block.snapshot for block in self.blocks if blocks is None or block.block in blocks}
        return tuple(sorted(filter(None, distinct), key=lambda table: (table.format, table.table, table.version)))

    @property
    def late(self) -> tuple[str, ...]:
        """The blocks whose rows may be late: empty ones after the first with rows, or all."""
        began = next((index for index, block in enumerate(self.blocks) if block.rows), 0)
        return tuple(block.block for block in self.blocks[began:] if not block.rows)


def load_source(path: Path) -> Source:
    """Read and validate a source file.

    Raises:
        StudyError: with one line that names every problem.
    """
    return validate(Source, read_yaml(path), str(path))


def parse_manifest(content: bytes, where: str) -> Manifest:
    """Return the manifest in a file's bytes; ``where`` names it.

    Raises:
        DataError: it is none.
    """
    return parse_written(Manifest, content, where, NO_MANIFEST)
