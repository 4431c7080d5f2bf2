"""Iceberg tables as a source: the rows of one snapshot, found through the table's catalog, by pyiceberg's own reader.

The reader applies deletes by position, deletion vectors, and changes of the schema; deletes by equality it does not
know and refuses, and so does this. A catalog is configured by the operator, where pyiceberg looks for it: in the
environment (``PYICEBERG_CATALOG__NAME__URI``) or ``.pyiceberg.yaml``. No credential stands in source.yaml.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from causalveil.schemas.errors import CausalveilError, DataError
from causalveil.schemas.sources import NO_SNAPSHOT, TableSnapshot
from causalveil.schemas.warehouse import IcebergSource, Key
from causalveil.tasks.warehouse.intervals import EVERYTHING, KEYLESS, KeyInterval
from causalveil.tasks.warehouse.kinds import check_key
from causalveil.tasks.warehouse.own_words import in_own_words

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table


def iceberg_snapshot(source: IcebergSource) -> TableSnapshot:
    """Return the snapshot to read: the one that the source names, or the catalog's newest.

    Raises:
        DataError: the catalog has no such table, or the table no such snapshot.
        CausalveilError: pyiceberg is not installed, or the catalog is not configured here or does not answer.
    """
    with _in_our_words(source):
        table = _table(source)
        newest = table.metadata.current_snapshot_id
        version = newest if source.version is None else source.version
        found = TableSnapshot(
            format="iceberg",
            table=str(table.metadata.table_uuid),
            version=NO_SNAPSHOT if version is None else version,
        )
        _schema(source, table, found)
        return found


def iceberg_schema(source: IcebergSource, snapshot: TableSnapshot) -> pa.Schema:
    """Return the columns of a snapshot, and the types that they are read in.

    Raises:
        DataError: as :func:`iceberg_snapshot`.
    """
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    with _in_our_words(source):
        return schema_to_pyarrow(_schema(source, _table(source), snapshot), include_field_ids=False)


@contextmanager
def iceberg_batches(
    source: IcebergSource,
    snapshot: TableSnapshot,
    columns: Collection[str],
    key: Key | None,
    interval: KeyInterval | None,
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Batches of the rows of one block, the first of them empty; one data file is in memory at a time.

    Args:
        source: the declaration.
        snapshot: the state of the table.
        columns: those to read, as far as the table has them.
        key: whose column cuts rows into blocks.
        interval: the block; None: no rows.

    Raises:
        DataError: as :func:`iceberg_snapshot`; or the key's column cannot be cut into blocks, deletes are by equality,
            or files that the snapshot names are not there.
    """
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    with _in_our_words(source):
        table = _table(source)
        schema = _schema(source, table, snapshot)
        types = schema_to_pyarrow(schema, include_field_ids=False)
        check_key(source.table, key, types)
        # Whoever asks for columns that are not there is told so by name, from the first that is.
        chosen = [name for name in types.names if name in columns] or types.names[:1]
        rows = _rows(source, table, schema, snapshot, chosen, key, interval)
        empty = types.field
        yield _after([empty(name) for name in chosen], rows if interval is not None else iter(()))


def _after(fields: list[pa.Field], rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    schema = pa.schema(fields)
    yield pa.record_batch([pa.array([], one.type) for one in fields], schema=schema)
    for batch in rest:
        # Text has offsets of 32 or of 64 bits, as a file was written.
        yield batch.select(schema.names).cast(schema)


def _rows(
    source: IcebergSource,
    table: Table,
    schema: Schema,
    snapshot: TableSnapshot,
    columns: list[str],
    key: Key | None,
    interval: KeyInterval | None,
) -> Iterator[pa.RecordBatch]:
    from pyiceberg.io.pyarrow import ArrowScan

    if snapshot.version == NO_SNAPSHOT:
        return
    with _in_our_words(source):
        chosen = _chosen(table, schema, key, interval)
        projected = schema.select(*columns)
        scan = ArrowScan(table.metadata, table.io, projected, chosen)
        for task in table.scan(chosen, snapshot_id=snapshot.version).plan_files():
            yield from scan.to_record_batches([task])


def _chosen(table: Table, schema: Schema, key: Key | None, interval: KeyInterval | None) -> BooleanExpression:
    """Which rows are in the block. A filter speaks of a column by the name that it has now, whatever it had then."""
    from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, IsNull, LessThan
    from pyiceberg.types import DateType, TimestamptzType

    if key is None or interval is None or interval == EVERYTHING:
        return AlwaysTrue()
    field = schema.find_field(key.column)
    name = table.schema().find_column_name(field.field_id)
    if name is None:
        raise DataError(
            f"{table.name()[-1]}: column '{key.column}', the key's, was dropped since; read a newer snapshot"
        )

    if interval == KEYLESS:
        return IsNull(term=name)

    def literal(edge: date | int) -> Any:
        if isinstance(edge, int):
            return edge
        day = edge.isoformat()
        if isinstance(field.field_type, DateType):
            return day
        zone = "+00:00" if isinstance(field.field_type, TimestamptzType) else ""
        return datetime(edge.year, edge.month, edge.day).isoformat() + zone

    lower, upper = literal(interval.lower), literal(interval.upper)
    return And(GreaterThanOrEqual(term=name, value=lower), LessThan(term=name, value=upper))


def _table(source: IcebergSource) -> Table:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils.config import Config

    # What the environment says now: pyiceberg alone looks once, when it is imported.
    configured: Any = Config().get_catalog_config(source.catalog) or {}
    return load_catalog(source.catalog, **configured).load_table(source.table)


def _schema(source: IcebergSource, table: Table, snapshot: TableSnapshot) -> Schema:
    """Return the table's columns: those of today, or of a snapshot that the source names.

    Raises:
        DataError: it is another table by now, or has no such snapshot any more.
    """
    if str(table.metadata.table_uuid) != snapshot.table:
        raise DataError(f"{source.table}: another table has this name by now; run the extract again")
    if snapshot.version == NO_SNAPSHOT:
        return table.schema()
    found = table.snapshot_by_id(snapshot.version)
    if found is None:
        raise DataError(
            f"{source.table}: its catalog has no snapshot {snapshot.version} any more; name one that it has "
            "by 'version' in source.yaml (init: TABLE@SNAPSHOT), or leave that out to read the newest"
        )
    then = found.schema_id
    return table.schema() if source.version is None or then is None else table.schemas()[then]


def _in_our_words(source: IcebergSource) -> AbstractContextManager[None]:
    """Say what is wrong without the reader's own texts, which may quote paths, passwords and values."""
    return in_own_words(lambda error: _told(error, source))


def _told(error: Any, source: IcebergSource) -> CausalveilError:
    if isinstance(error, ModuleNotFoundError):
        return CausalveilError(f"{source.table}: pyiceberg is not installed; install causalveil[iceberg]")
    text, name = str(error), type(error).__name__
    if name in ("NoSuchTableError", "NoSuchNamespaceError", "NoSuchIcebergTableError"):
        return DataError(f"{source.table}: catalog '{source.catalog}' has no such table; check 'table' and 'catalog'")
    if "equality delete" in text:
        return DataError(
            f"{source.table}: is an Iceberg table whose rows were deleted by equality, which pyiceberg does not read; "
            "let the tool that wrote it rewrite its data files, and extract again"
        )
    if name == "ValidationError" and "snapshot" in text.lower():
        return DataError(f"{source.table}: its snapshot is gone; run the extract again")
    if isinstance(error, FileNotFoundError):
        return DataError(
            f"{source.table}: is an Iceberg table whose snapshot names files that are not there (cleaned up, or not "
            "copied yet); name a snapshot that is whole by 'version'"
        )
    if isinstance(error, NotImplementedError) or "nsupported" in text or "not support" in text:
        return DataError(
            f"{source.table}: is an Iceberg table with features that pyiceberg does not read; let the tool that wrote "
            "it write it as plain Parquet"
        )
    where = f"PYICEBERG_CATALOG__{source.catalog.upper()}__URI"
    return CausalveilError(
        f"{source.table}: catalog '{source.catalog}' or the table's files cannot be read ({name}); the operator sets "
        f"{where} or .pyiceberg.yaml, and credentials there"
    )
