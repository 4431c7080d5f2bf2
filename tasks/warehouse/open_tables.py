"""Read Delta and Iceberg tables as sources.

Of a Delta table deltalake's own reader gives the rows that the log of one version counts. The reader applies deletion
vectors, partition columns, names of column mapping and changes of the schema. A feature that it does not know it
refuses, and so does this module: no file of a table is ever read past its log.

Of an Iceberg table pyiceberg's own reader gives the rows of one snapshot, found through the catalog. The reader applies
deletes by position, deletion vectors, and changes of the schema; deletes by equality it does not know and refuses, and
so does this. A catalog is configured by the operator, where pyiceberg looks for it: in the environment
(``PYICEBERG_CATALOG__NAME__URI``) or ``.pyiceberg.yaml``. No credential stands in source.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from causalveil.schemas.documents import is_stored
from causalveil.schemas.errors import CausalveilError, DataError, in_own_words
from causalveil.schemas.warehouse import NO_SNAPSHOT, DeltaSource, IcebergSource, Key, TableSnapshot
from causalveil.tasks.warehouse.adbc import quoted
from causalveil.tasks.warehouse.extract import EVERYTHING, KEYLESS, KeyInterval
from causalveil.tasks.warehouse.values import BATCH_ROWS, check_key, led

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

# A store that does not answer is reported within half a minute; the library alone tries for three.
_PATIENCE = {"max_retries": "3", "retry_timeout": "30s"}
_ENCODED = re.compile("%[0-9A-Fa-f]{2}")
_NAMED = "'version' in source.yaml, or init delta:PATH@VERSION"
_MAPPING = "delta.columnMapping.mode"
# One partition: rows come in one order, and one row group is in memory at a time.
_SESSION = {"datafusion.execution.target_partitions": "1", "datafusion.execution.batch_size": str(BATCH_ROWS)}


def delta_snapshot(source: DeltaSource, place: Path) -> TableSnapshot:
    """Return the version to read: the one that the source names, or the newest.

    Raises:
        DataError: no table lies there, it has no such version, or it asks for what its reader does not know.
        CausalveilError: deltalake is not installed.
    """
    with _in_words_of_delta(source):
        table = _delta_table(source, place, source.version)
        return TableSnapshot(format="delta", table=str(table.metadata().id), version=table.version())


def delta_schema(source: DeltaSource, place: Path, snapshot: TableSnapshot) -> pa.Schema:
    """Return the columns of one version, and the types that they are read in.

    Raises:
        DataError: as :func:`delta_snapshot`.
    """
    with _in_words_of_delta(source):
        return pa.schema(_delta_table(source, place, snapshot.version).schema().to_arrow())


@contextmanager
def delta_batches(
    source: DeltaSource,
    place: Path,
    snapshot: TableSnapshot,
    columns: Collection[str],
    condition: str,
    key: Key | None = None,
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield batches of one version's rows, the first of them empty.

    Args:
        source: the declaration.
        place: the folder that its path begins at.
        snapshot: the version.
        columns: those to read, as far as the table has them.
        condition: SQL that chooses rows.
        key: whose column the condition speaks of.

    Raises:
        DataError: as :func:`delta_snapshot`; or the key's column cannot be cut into blocks, or files that the log names
            are not there.
    """
    from deltalake import QueryBuilder

    with _in_words_of_delta(source):
        table = _delta_table(source, place, snapshot.version)
        schema = pa.schema(table.schema().to_arrow())
        check_key(source.path, key, schema)
        # Of a table without any of the columns the first is read; the missing ones are then named.
        chosen = [name for name in schema.names if name in columns] or schema.names[:1]
        query = f"SELECT {', '.join(map(quoted, chosen))} FROM source WHERE {condition}"
        stream = pa.RecordBatchReader.from_stream(QueryBuilder(_SESSION).register("source", table).execute(query))
    # Outside of that block: an error of the caller, who reads the rows, is none of the table.
    yield _read(source, stream)


def _read(source: DeltaSource, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    with _in_words_of_delta(source):
        yield from led(reader.schema, reader)


def _delta_table(source: DeltaSource, place: Path, version: int | None) -> DeltaTable:
    """Open one version of the table.

    Raises:
        DataError: columns are mapped by ids of their fields, which the reader takes for columns that are not there.
    """
    from deltalake import DeltaTable

    stored = is_stored(source.path)
    where = source.path if stored else str(place / source.path)
    if _ENCODED.search(where):
        raise DataError(
            f"{source.path}: deltalake reads the percent sign in this path as another folder's name; rename the folder"
        )
    table = DeltaTable(where, version=version, storage_options=_PATIENCE if stored else None)
    if table.metadata().configuration.get(_MAPPING) == "id":
        raise DataError(
            f"{source.path}: is a Delta table whose columns are mapped by id, which its reader would find empty; let "
            "the tool that wrote it write it again with delta.columnMapping.mode = name, or as plain Parquet"
        )
    return table


def _in_words_of_delta(source: DeltaSource) -> AbstractContextManager[None]:
    """Replace the reader's own errors, which may quote paths, keys and values."""
    return in_own_words(lambda error: _error_of_delta(error, source))


def _error_of_delta(error: Exception, source: DeltaSource) -> CausalveilError:
    if isinstance(error, ModuleNotFoundError):
        return CausalveilError(f"{source.path}: deltalake is not installed; install causalveil[delta]")
    return DataError(f"{source.path}: is a Delta table that cannot be read: {_why(error, source)}")


def _why(error: Any, source: DeltaSource) -> str:
    # Without its path, in which any of these words may stand.
    text, name = str(error).replace(source.path.strip("/"), ""), type(error).__name__
    if "nsupported" in text or "not supported" in text or name == "DeltaProtocolError":
        return "it has features that deltalake does not read; let the tool that wrote it write it as plain Parquet"
    if name == "TableNotFoundError" and source.version is None:
        return "no log of one lies there; check 'path'"
    if name == "TableNotFoundError" or "LogSegment" in text or "commit files" in text:
        log = "the log" if source.version is None else f"the log of version {source.version}"
        return f"{log} is not whole, or has no such version any more; name one that it has: {_NAMED}"
    if "not found" in text.lower() or "No such file" in text:
        return (
            "its log names files that are not there (cleaned up, or not copied yet); name a version that is whole: "
            + _NAMED
        )
    return f"its log or its files are damaged, or may not be read by this user ({name})"


def iceberg_snapshot(source: IcebergSource) -> TableSnapshot:
    """Return the snapshot to read: the one that the source names, or the catalog's newest.

    Raises:
        DataError: the catalog has no such table, or the table no such snapshot.
        CausalveilError: pyiceberg is not installed, or the catalog is not configured here or does not answer.
    """
    with _in_words_of_iceberg(source):
        table = _iceberg_table(source)
        newest = table.metadata.current_snapshot_id
        version = newest if source.version is None else source.version
        snapshot = TableSnapshot(
            format="iceberg",
            table=str(table.metadata.table_uuid),
            version=NO_SNAPSHOT if version is None else version,
        )
        _schema(source, table, snapshot)
        return snapshot


def iceberg_schema(source: IcebergSource, snapshot: TableSnapshot) -> pa.Schema:
    """Return the columns of a snapshot, and the types that they are read in.

    Raises:
        DataError: as :func:`iceberg_snapshot`.
    """
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    with _in_words_of_iceberg(source):
        return schema_to_pyarrow(_schema(source, _iceberg_table(source), snapshot), include_field_ids=False)


@contextmanager
def iceberg_batches(
    source: IcebergSource,
    snapshot: TableSnapshot,
    columns: Collection[str],
    key: Key | None,
    interval: KeyInterval | None,
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield batches of the rows of one block, the first of them empty.

    One data file is in memory at a time.

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

    with _in_words_of_iceberg(source):
        table = _iceberg_table(source)
        schema = _schema(source, table, snapshot)
        types = schema_to_pyarrow(schema, include_field_ids=False)
        check_key(source.table, key, types)
        # Of a table without any of the columns the first is read; the missing ones are then named.
        chosen = [name for name in types.names if name in columns] or types.names[:1]
        read = pa.schema([types.field(name) for name in chosen])
    yield led(read, iter(()) if interval is None else _rows(source, table, schema, snapshot, read, key, interval))


def _rows(
    source: IcebergSource,
    table: Table,
    schema: Schema,
    snapshot: TableSnapshot,
    read: pa.Schema,
    key: Key | None,
    interval: KeyInterval | None,
) -> Iterator[pa.RecordBatch]:
    from pyiceberg.io.pyarrow import ArrowScan

    if snapshot.version == NO_SNAPSHOT:
        return
    with _in_words_of_iceberg(source):
        chosen = _chosen(table, schema, key, interval)
        projected = schema.select(*read.names)
        scan = ArrowScan(table.metadata, table.io, projected, chosen)
        for task in table.scan(chosen, snapshot_id=snapshot.version).plan_files():
            for batch in scan.to_record_batches([task]):
                # Text has offsets of 32 or of 64 bits, as a file was written.
                yield batch.select(read.names).cast(read)


def _chosen(table: Table, schema: Schema, key: Key | None, interval: KeyInterval | None) -> BooleanExpression:
    """Return the expression that selects the rows of the block.

    A filter names a column by its present name, whatever it was in the snapshot.
    """
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


def _iceberg_table(source: IcebergSource) -> Table:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils.config import Config

    # The present environment: pyiceberg by itself reads it once, when it is imported.
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
    stored = table.snapshot_by_id(snapshot.version)
    if stored is None:
        raise DataError(
            f"{source.table}: its catalog has no snapshot {snapshot.version} any more; name one that it has "
            "by 'version' in source.yaml (init: TABLE@SNAPSHOT), or leave that out to read the newest"
        )
    schema = stored.schema_id
    return table.schema() if source.version is None or schema is None else table.schemas()[schema]


def _in_words_of_iceberg(source: IcebergSource) -> AbstractContextManager[None]:
    """Replace the reader's own errors, which may quote paths, passwords and values."""
    return in_own_words(lambda error: _error_of_iceberg(error, source))


def _error_of_iceberg(error: Any, source: IcebergSource) -> CausalveilError:
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
