"""Databases over ADBC: Arrow batches from a driver by its name, and how each kind of database writes a condition."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.warehouse import AdbcDriver

if TYPE_CHECKING:
    import pyarrow as pa

# SQLite tells no types; its driver infers them from so many rows.
_SQLITE_ROWS = {"adbc.sqlite.query.batch_rows": "65536"}


@contextmanager
def adbc_batches(
    url: str, query: str, driver: AdbcDriver = AdbcDriver.postgresql
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Arrow batches as a driver delivers them, some megabytes each, the first of them empty.

    Args:
        url: what the driver connects to, or a JSON object of the driver's own options.
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


def led(schema: pa.Schema, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches with one without rows ahead of them, so that drift is found in an empty block too."""
    import pyarrow as pa

    yield pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)
    yield from rest


def written(name: str, edge: date | int, driver: AdbcDriver | None = None) -> tuple[str, str]:
    """Return a column's name and an edge of a block as the database of a driver writes them.

    Return None for plain SQL.
    """
    mark = "`" if driver is AdbcDriver.bigquery else '"'
    column = mark + name.replace(mark, "\\`" if mark == "`" else mark * 2) + mark
    if isinstance(edge, int):
        return column, str(edge)
    # SQLite has no dates: text in the order of the calendar serves as one.
    return column, f"{'' if driver is AdbcDriver.sqlite else 'DATE '}'{edge.isoformat()}'"


def _connection(url: str, driver: AdbcDriver) -> Any:
    failure: CausalveilError
    try:
        module = importlib.import_module(f"{driver.value}.dbapi")
    except ModuleNotFoundError:
        package = driver.value.replace("_", "-")
        failure = CausalveilError(f"driver {driver.value} is not installed; install {package} where this process runs")
    else:
        options = _options(url)
        if driver is AdbcDriver.postgresql:
            address = options.pop("uri", "").replace("postgresql+psycopg://", "postgresql://", 1)
            return module.connect(address, db_kwargs=options or None)
        if driver in (AdbcDriver.sqlite, AdbcDriver.duckdb):
            return module.connect(_file(options.pop("uri", ""), driver))
        if driver is AdbcDriver.bigquery:
            return module.connect(db_kwargs=options)
        return module.connect(options.pop("uri", None), db_kwargs=options or None)
    raise failure


def _options(url: str) -> dict[str, str]:
    """The driver's options; nothing of them is quoted, since they hold passwords."""
    if not url.lstrip().startswith("{"):
        return {"uri": url}
    try:
        found = json.loads(url)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise StudyError("the source's URL begins with '{' and is no JSON object of texts, as a driver's options are")
    return found


def _file(url: str, driver: AdbcDriver) -> str:
    """The file of a database; one that is not there is not made."""
    path = url.removeprefix(f"{driver.name}://")
    if driver is AdbcDriver.sqlite and not path.startswith("file:"):
        return f"file:{quote(path)}?mode=ro"
    return path


def _typed_late(reader: Any) -> Iterator[pa.RecordBatch]:
    """Batches of SQLite, which tells no types: a column without a value may be of any."""
    import pyarrow as pa

    empty = pa.schema([(name, pa.null()) for name in reader.schema.names])
    for batch in led(empty, reader):
        arrays = [pa.nulls(len(one)) if one.null_count == len(one) else one for one in batch.columns]
        yield pa.record_batch(arrays, names=batch.schema.names)
