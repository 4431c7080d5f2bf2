"""Read one block of a source as Arrow batches of the declared columns.

Batches are streamed; the whole block is never in memory.

A warehouse's own error texts may quote a password, a query or a value. None is passed on: an error says which of a few
public things went wrong. Times without a zone are compared as they stand, instants in UTC.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from causalveil.schemas.errors import CausalveilError, DataError, in_own_words
from causalveil.schemas.warehouse import (
    AdbcDriver,
    CsvFiles,
    DeltaSource,
    DuckDb,
    IcebergSource,
    Key,
    Kind,
    ParquetFiles,
    Source,
    TableFile,
    TableSnapshot,
    Warehouse,
)
from causalveil.tasks.machine.arrays import plain
from causalveil.tasks.warehouse.adbc import adbc_batches, literal, quoted
from causalveil.tasks.warehouse.extract import KEYLESS, KeyInterval
from causalveil.tasks.warehouse.open_tables import delta_batches, delta_snapshot, iceberg_batches, iceberg_snapshot
from causalveil.tasks.warehouse.read_files import file_batches
from causalveil.tasks.warehouse.values import BATCH_ROWS, as_declared, complete, converted, holds, led


def target_schema(source: Source) -> pa.Schema:
    """Return the Arrow schema that every partition has: the declared columns in their order."""
    types = {
        Kind.integer: pa.int64(),
        Kind.number: pa.float64(),
        Kind.boolean: pa.bool_(),
        Kind.text: pa.string(),
        Kind.date: pa.date32(),
        Kind.timestamp: pa.timestamp("us"),
    }
    return pa.schema([(name, types[kind]) for name, kind in source.kinds.items()])


def snapshot_of(source: Source, place: Path) -> TableSnapshot | None:
    """Return the state of an open table that an extract takes; None for another source.

    Raises:
        DataError: the table cannot be read, or has no such state.
        CausalveilError: the library that reads it is not installed.
    """
    match source.source:
        case DeltaSource() as table:
            return delta_snapshot(table, place)
        case IcebergSource() as listed:
            return iceberg_snapshot(listed)
    return None


def batches(
    source: Source,
    place: Path,
    url: str | None,
    interval: KeyInterval | None,
    lost: Counter[str] | None = None,
    snapshot: TableSnapshot | None = None,
    among: Collection[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Stream the rows of one block; with None no rows, but the same checks of the schema.

    Args:
        source: the declaration.
        place: the folder that relative paths begin at.
        url: of the warehouse, for the kinds that have one; it stands in no message.
        interval: the block.
        lost: counts the rows that are left out, by the column in which they have no value.
        snapshot: of an open table.
        among: names of the files to read, of a source of files; None: all.

    Yields:
        Batches of some ten thousand rows with :func:`target_schema`, the first of them empty.

    Raises:
        DataError: the source lacks a declared column or holds it as another type.
        CausalveilError: the source cannot be reached or does not answer the query.
    """
    schema = target_schema(source)
    lost = Counter() if lost is None else lost
    with (
        in_own_words(lambda problem: CausalveilError(f"source '{source.name}': {cause(problem)}")),
        _open(source, place, url, interval, snapshot, among) as stored,
    ):
        for batch in stored:
            rows = conform(as_declared(_taken(batch, source), source), source, schema)
            yield complete(rows, source, lost)


def refuse_keyless(source: Source, place: Path, url: str | None, snapshot: TableSnapshot | None) -> None:
    """Refuse rows without a value in the key's column, which no block would hold or count.

    Of sensitive data their loss would also make the number of units depend on values.

    Raises:
        DataError: there are such rows.
        CausalveilError: as :func:`batches` does.
    """
    lost = Counter[str]()
    if source.key is None:
        return
    for batch in batches(source, place, url, KEYLESS, lost, snapshot):
        if batch.num_rows or lost:
            break
    else:
        return
    how = (
        "give them one in its query (COALESCE), or leave them out there by a WHERE of your own"
        if hasattr(source.source, "query")
        else "give them one, or take them out of the source"
    )
    raise DataError(
        f"source '{source.name}': rows have no value in '{source.key.column}', the column of the key, so no block "
        f"would hold them; {how}"
    )


def _taken(batch: pa.RecordBatch, source: Source) -> pa.RecordBatch:
    """Return the declared columns of a batch in plain types; both of a name that is there twice.

    Raises:
        DataError: bytes are no text.
    """
    wanted = set(source.found_as.values())
    return plain(batch.select([place for place, name in enumerate(batch.schema.names) if name in wanted]))


def conform(batch: pa.RecordBatch, source: Source, schema: pa.Schema) -> pa.RecordBatch:
    """Return the declared columns of a batch as the declared types.

    Raises:
        DataError: a column is missing or of another kind; names it and the types, never a value.
    """
    arrays = []
    for name, kind in source.kinds.items():
        place = batch.schema.get_field_index(name)
        if place < 0:
            raise DataError(f"source '{source.name}': column '{name}' is missing (or there twice); its schema drifted")
        stored = batch.column(place)
        if not holds(stored.type, kind):
            cast = "cast it in the query, or " if hasattr(source.source, "query") else ""
            raise DataError(
                f"source '{source.name}': column '{name}' is of type {stored.type} and was declared {kind}; "
                f"{cast}declare what it is now"
            )
        try:
            values = converted(stored, schema.field(name).type)
        except pa.ArrowException:
            values = None
        if values is None:
            raise DataError(f"source '{source.name}': column '{name}' holds values that do not fit into {kind}")
        arrays.append(values)
    return pa.record_batch(arrays, schema=schema)


def _open(
    source: Source,
    place: Path,
    url: str | None,
    interval: KeyInterval | None,
    snapshot: TableSnapshot | None,
    among: Collection[str] | None,
) -> AbstractContextManager[Iterator[pa.RecordBatch]]:
    match source.source:
        case DeltaSource() as table if snapshot is not None:
            wanted = set(source.found_as.values())
            return delta_batches(table, place, snapshot, wanted, _condition(source.key, interval), source.key)
        case IcebergSource() as listed if snapshot is not None:
            return iceberg_batches(listed, snapshot, set(source.found_as.values()), source.key, interval)
        case ParquetFiles() | CsvFiles() | TableFile() as files:
            return file_batches(source, files, place, target_schema(source), interval, among)
    return _answers(source, place, url, interval, "*")


def _answers(
    source: Source, place: Path, url: str | None, interval: KeyInterval | None, what: str
) -> AbstractContextManager[Iterator[pa.RecordBatch]]:
    match source.source:
        case DuckDb() as database:
            return duckdb_batches(place / database.path, statement(source.key, database.query, interval, what=what))
        case Warehouse() as warehouse if url is not None:
            driver = warehouse.driver or AdbcDriver.postgresql
            if warehouse.kind == "sqlalchemy":
                return _sqlalchemy(url, statement(source.key, warehouse.query, interval, what=what))
            return adbc_batches(url, statement(source.key, warehouse.query, interval, driver, what), driver)
    raise CausalveilError(f"source '{source.name}': no URL was found for its warehouse")


def rows_there(source: Source, place: Path, url: str | None, interval: KeyInterval) -> int:
    """Count the rows that a database has of one block.

    Raises:
        CausalveilError: as :func:`batches` does.
    """
    with (
        in_own_words(lambda problem: CausalveilError(f"source '{source.name}': {cause(problem)}")),
        _answers(source, place, url, interval, "COUNT(*) AS n") as counts,
    ):
        return sum(int(batch.column(0)[0].as_py()) for batch in counts if batch.num_rows)


def statement(
    key: Key | None, query: str, interval: KeyInterval | None, driver: AdbcDriver | None = None, what: str = "*"
) -> str:
    """Return the owner's query, cut to one block; ``what`` of it is selected.

    The literals are dates and integers of the declared range.
    """
    # The bracket closes on a line of its own, since a query may end in a comment.
    return f"SELECT {what} FROM (\n{_without_end(query)}\n) AS source WHERE {_condition(key, interval, driver)}"


def _condition(key: Key | None, interval: KeyInterval | None, driver: AdbcDriver | None = None) -> str:
    """Return the condition of SQL for the rows of a block; None: no rows."""
    if interval is None or key is None:
        return "1 = 0" if interval is None else "1 = 1"
    if interval == KEYLESS:
        return f"{quoted(key.column, driver)} IS NULL"
    column, lower, upper = quoted(key.column, driver), literal(interval.lower, driver), literal(interval.upper, driver)
    return f"{column} >= {lower} AND {column} < {upper}"


# Tokens in which a semicolon does not end a query: comments, strings, names, PostgreSQL's dollar quotes.
_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)
    | [eE]'(?:\\.|[^'\\]|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | (?P<tag>\$\w*\$).*?(?P=tag) | .""",
    re.DOTALL | re.VERBOSE,
)


def _without_end(query: str) -> str:
    """Return a query without the semicolons at its end and the comments after them."""
    tokens = [token for token in _TOKEN.finditer(query) if token["blank"] is None]
    end = len(query)
    while tokens and tokens[-1][0] == ";":
        end = tokens.pop().start()
    return query[:end].strip()


@contextmanager
def _sqlalchemy(url: str, query: str) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield rows of any dialect by a server-side cursor; slower than ADBC."""
    import sqlalchemy as sa

    address = sa.make_url(url)
    if address.drivername in ("postgresql", "postgres"):
        address = address.set(drivername="postgresql+psycopg")
    engine = sa.create_engine(address, poolclass=sa.NullPool, hide_parameters=True)
    with engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("SET TIME ZONE 'UTC'"))
        streaming = connection.execution_options(stream_results=True, max_row_buffer=BATCH_ROWS)
        # As a literal, so that a colon in the owner's query is no parameter.
        result = streamed = streaming.execute(sa.text(query.replace(":", "\\:")))
        names = list(result.keys())

        def read() -> Iterator[pa.RecordBatch]:
            while rows := streamed.fetchmany(BATCH_ROWS):
                yield pa.record_batch([pa.array(column) for column in zip(*rows, strict=True)], names=names)

        yield led(pa.schema([(name, pa.null()) for name in names]), read())


@contextmanager
def duckdb_batches(path: Path, query: str) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield Arrow batches of a query on a DuckDB file."""
    import duckdb

    if not path.is_file():
        raise CausalveilError(f"{path}: no such DuckDB file")
    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        reader = connection.sql(query).to_arrow_reader(BATCH_ROWS)
        yield led(reader.schema, reader)


# Classes of SQLSTATE (PostgreSQL's documentation, appendix A), each in our words.
_STATES = {
    "08": "its server cannot be reached",
    "28": "its server refuses the user or password",
    "3D": "its database does not exist",
    "42501": "its user may not read what the query names",
    "42": "its query does not parse, or names a table or column (the key's?) that does not exist",
    "22": "its query fails on a value; the text of the failure is withheld",
    "57": "its server stopped or cancelled the query",
    "53": "its server has no room left",
}
# Errors of ADBC's drivers and of DuckDB, which have no SQLSTATE, by its classes.
_ADBC = {"INVALID_ARGUMENT": "42", "NOT_FOUND": "42", "UNAUTHENTICATED": "28", "UNAUTHORIZED": "42501"}
_DUCKDB = {"CatalogException": "42", "BinderException": "42", "ParserException": "42", "ConversionException": "22"}


def cause(problem: BaseException) -> str:
    """Describe an error in words of our own, with the SQLSTATE if there is one."""
    error: Any = getattr(problem, "orig", None) or problem
    kind, sqlstate = type(error).__name__, getattr(error, "sqlstate", None) or ""
    status = getattr(getattr(error, "status_code", None), "name", "")
    state = sqlstate or _DUCKDB.get(kind) or _ADBC.get(status) or ""
    reason = next((reason for key, reason in sorted(_STATES.items(), reverse=True) if state.startswith(key)), None)
    if reason is None and kind == "OperationalError":
        reason = "its server cannot be reached, or refuses the user or password"
    elif reason is None and isinstance(error, OSError):
        # Arrow's stream from a driver, which drops the SQLSTATE.
        reason = (
            "its query fails on a value, or its files or connection on the way; the text of the failure is withheld"
        )
    elif reason is None and isinstance(error, ModuleNotFoundError):
        reason = "a driver is not installed; install causalveil[extract]"
    code = f", SQLSTATE {sqlstate}" if len(sqlstate) == 5 else ""
    return f"{reason or 'it cannot be read'} ({kind}{code})"
