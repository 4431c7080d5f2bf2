"""Rows of all partitions -> buckets on disk that hold all rows of their units: two passes, and memory for one bucket.

A unit's rows may lie anywhere. Each partition is written once more, in scratch, its rows gathered by the bucket that
a keyed hash of the unit names; then one bucket after the other is read from all of these files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from causalveil.schemas.errors import CausalveilError
from causalveil.tasks.enclave.unit_hash import keyed_hash
from causalveil.tasks.machine.files import whole_file
from causalveil.tasks.machine.frames import values_of


def bucket_of(units: pl.Series, key: bytes, buckets: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bucket of each unit, in [0, buckets); the same in every partition."""
    high = keyed_hash(units, key)[:, 0] >> np.uint64(32)
    return np.asarray((high * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


def spread(frame: pl.DataFrame, unit: str, key: bytes, buckets: int, path: Path) -> None:
    """Write rows to an Arrow file with one record batch per bucket, mode 0600.

    Args:
        frame: some rows, in the types of ``read_rows``.
        unit: the column that names the unit.
        key: of the hash, 16 bytes; the same for all partitions.
        buckets: how many, below 2^32.
        path: the file, in scratch.

    Raises:
        CausalveilError: the disk is full or fails.
    """
    numbers = bucket_of(values_of(frame, unit), key, buckets)
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], np.arange(buckets + 1))
    table = frame[order].rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    failure = None
    try:
        with whole_file(path) as stream, pa.ipc.new_file(stream, table.schema) as writer:
            for number in range(buckets):
                writer.write_batch(_batch(table.slice(ends[number], ends[number + 1] - ends[number])))
    except (OSError, pa.ArrowException) as error:
        failure = type(error).__name__
    if failure:
        raise CausalveilError(f"scratch cannot be written ({failure}); make room on its disk")


def gather(paths: Sequence[Path], bucket: int) -> Iterator[pl.DataFrame]:
    """The rows of one bucket, a frame from each of the files that :func:`spread` wrote."""
    for path in paths:
        with pa.memory_map(str(path)) as file:
            found = pl.from_arrow(pa.Table.from_batches([pa.ipc.open_file(file).get_batch(bucket)]))
        if not isinstance(found, pl.DataFrame):
            raise TypeError("a table of rows is a frame")
        yield found


def _batch(table: object) -> object:
    """A table of one chunk per column, or of none, as one record batch."""
    if not isinstance(table, pa.Table):
        raise TypeError("not a table")
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)
