"""Databases over ADBC.

Arrow batches from a driver by its name, and how each kind of database writes a condition.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from causalveil.schemas.errors import CausalveilError, StudyError, in_own_words
from causalveil.schemas.warehouse import AdbcDriver
from causalveil.tasks.warehouse.values import led

# SQLite has no types of columns; its driver infers them from this number of rows.
_SQLITE_ROWS = {"adbc.sqlite.query.batch_rows": "65536"}


@contextmanager
def adbc_batches(
    url: str, query: str, driver: AdbcDriver = AdbcDriver.postgresql
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield Arrow batches as a driver delivers them, some megabytes each, the first one empty.

    Args:
        url: of the database, or a JSON object of the driver's own options.
        query: in the database's SQL.
        driver: its module.

    Raises:
        CausalveilError: the driver is not installed.
        StudyError: the options are not as the driver takes them.
    """
    with closing(_connection(url, driver)) as connection, closing(connection.cursor()) as cursor:
        if driver is AdbcDriver.postgresql:
            cursor.execute("SET TIME ZONE 'UTC'")
        if driver is AdbcDriver.sqlite:
            cursor.adbc_statement.set_options(**_SQLITE_ROWS)
        cursor.execute(query)
        reader = cursor.fetch_record_batch()
        yield _typed_late(reader) if driver is AdbcDriver.sqlite else led(reader.schema, reader)


def quoted(name: str, driver: AdbcDriver | None = None) -> str:
    """Return a name as the database of a driver writes it; None: as plain SQL does."""
    mark, inner = ("`", "\\`") if driver is AdbcDriver.bigquery else ('"', '""')
    return f"{mark}{name.replace(mark, inner)}{mark}"


def literal(edge: date | int, driver: AdbcDriver | None = None) -> str:
    """Return an edge of a block as the database of a driver writes it."""
    if isinstance(edge, int):
        return str(edge)
    # SQLite has no dates: text in the order of the calendar serves as one.
    return f"{'' if driver is AdbcDriver.sqlite else 'DATE '}'{edge.isoformat()}'"


def _connection(url: str, driver: AdbcDriver) -> Any:
    missing = f"driver {driver} is not installed; install {driver.replace('_', '-')} where this process runs"
    with in_own_words(lambda _: CausalveilError(missing), ModuleNotFoundError):
        module = importlib.import_module(f"{driver.value}.dbapi")
    options = _options(url)
    if driver is AdbcDriver.postgresql:
        address = options.pop("uri", "").replace("postgresql+psycopg://", "postgresql://", 1)
        return module.connect(address, db_kwargs=options or None)
    if driver in (AdbcDriver.sqlite, AdbcDriver.duckdb):
        return module.connect(_file(options.pop("uri", ""), driver))
    if driver is AdbcDriver.bigquery:
        return module.connect(db_kwargs=options)
    return module.connect(options.pop("uri", None), db_kwargs=options or None)


def _options(url: str) -> dict[str, str]:
    """Return the driver's options, which no error quotes, since they hold passwords."""
    if not url.lstrip().startswith("{"):
        return {"uri": url}
    try:
        options = json.loads(url)
    except ValueError:
        options = None
    if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
        raise StudyError("the source's URL begins with '{' and is no JSON object of texts, as a driver's options are")
    return options


def _file(url: str, driver: AdbcDriver) -> str:
    """Return the file of a database, for reading alone: a missing file is not made."""
    path = url.removeprefix(f"{driver.name}://")
    if driver is AdbcDriver.sqlite and not path.startswith("file:"):
        return f"file:{quote(path)}?mode=ro"
    return path


def _typed_late(reader: Any) -> Iterator[pa.RecordBatch]:
    """Yield batches of SQLite, where a column without a value may be of any type."""
    empty = pa.schema([(name, pa.null()) for name in reader.schema.names])
    for batch in led(empty, reader):
        arrays = [pa.nulls(len(column)) if column.null_count == len(column) else column for column in batch.columns]
        yield pa.record_batch(arrays, names=batch.schema.names)
