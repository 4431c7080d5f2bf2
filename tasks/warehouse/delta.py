"""Delta tables as a source: rows that the log of one version counts, by deltalake's own reader.

The reader applies deletion vectors, partition columns, names of column mapping and changes of the schema. What it does
not know it refuses, and so does this: no file of a table is ever read past its log.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalveil.schemas.documents import is_stored
from causalveil.schemas.errors import CausalveilError, DataError
from causalveil.schemas.sources import TableSnapshot
from causalveil.schemas.warehouse import DeltaSource, Key
from causalveil.tasks.warehouse.adbc import written
from causalveil.tasks.warehouse.kinds import check_key
from causalveil.tasks.warehouse.own_words import in_own_words

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

BATCH_ROWS = 65_536
# A store that does not answer is told within half a minute, where the library alone goes on for three.
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
    with _in_our_words(source):
        table = _table(source, place, source.version)
        return TableSnapshot(format="delta", table=str(table.metadata().id), version=table.version())


def delta_schema(source: DeltaSource, place: Path, snapshot: TableSnapshot) -> pa.Schema:
    """Return the columns of one version, and the types that they are read in.

    Raises:
        DataError: as :func:`delta_snapshot`.
    """
    import pyarrow as pa

    with _in_our_words(source):
        return pa.schema(_table(source, place, snapshot.version).schema().to_arrow())


@contextmanager
def delta_batches(
    source: DeltaSource,
    place: Path,
    snapshot: TableSnapshot,
    columns: Collection[str],
    condition: str,
    key: Key | None = None,
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Batches of one version's rows, the first of them empty.

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
    import pyarrow as pa
    from deltalake import QueryBuilder

    with _in_our_words(source):
        table = _table(source, place, snapshot.version)
        schema = pa.schema(table.schema().to_arrow())
        check_key(source.path, key, schema)
        # Whoever asks for columns that are not there is told so by name, from the first that is.
        chosen = [name for name in schema.names if name in columns] or schema.names[:1]
        names = ", ".join(written(name, 0)[0] for name in chosen)
        query = f"SELECT {names} FROM source WHERE {condition}"
        stream = QueryBuilder(_SESSION).register("source", table).execute(query)
        yield _read(source, pa.RecordBatchReader.from_stream(stream))


def _read(source: DeltaSource, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    yield pa.record_batch([pa.array([], field.type) for field in reader.schema], schema=reader.schema)
    with _in_our_words(source):
        yield from reader


def _table(source: DeltaSource, place: Path, version: int | None) -> DeltaTable:
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


def _in_our_words(source: DeltaSource) -> AbstractContextManager[None]:
    """Say what is wrong with a table without the reader's own texts, which may quote paths, keys and values."""
    return in_own_words(lambda error: _told(error, source))


def _told(error: Exception, source: DeltaSource) -> CausalveilError:
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
        what = "the log" if source.version is None else f"the log of version {source.version}"
        return f"{what} is not whole, or has no such version any more; name one that it has: {_NAMED}"
    if "not found" in text.lower() or "No such file" in text:
        return (
            "its log names files that are not there (cleaned up, or not copied yet); name a version that is whole: "
            + _NAMED
        )
    return f"its log or its files are damaged, or may not be read by this user ({name})"
