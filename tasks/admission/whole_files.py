"""Small Parquet files, whose bytes are in memory already: what was digested is what is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Partition
from causalveil.tasks.enclave.partitions import other_count, parquet_errors, unreadable
from causalveil.tasks.machine.frames import frame_of, plain, polars_types

if TYPE_CHECKING:
    import polars as pl


class WholeFile:
    """One of them."""

    def __init__(self, partition: Partition, content: bytes) -> None:
        """Read the footer.

        Raises:
            DataError: it does not parse.
        """
        self._partition, file = partition, None
        try:
            file = pq.ParquetFile(pa.BufferReader(content))
            self.schema = file.schema_arrow
        except parquet_errors():
            file = None
        if file is None:
            raise DataError(unreadable(partition.path))
        self._file = file

    def types(self) -> dict[str, pl.DataType]:
        """As of :func:`column_types`; two files of one ``schema`` have the same."""
        return polars_types(self.schema)

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """All rows of some columns as the file stores them, for :func:`joined`.

        Raises:
            DataError: as of :func:`read_rows`.
        """
        table, problem = None, unreadable(self._partition.path)
        try:
            table = plain(self._file.read(columns=list(columns), use_threads=False).select(columns))
        except DataError as error:
            problem = f"{self._partition.path}: {error}"
        except parquet_errors():
            table = None
        if table is None:
            raise DataError(problem)
        if table.num_rows != self._partition.rows:
            raise DataError(other_count(self._partition.path))
        return table


def joined(tables: Sequence[pa.Table], columns: Sequence[str]) -> pl.DataFrame:
    """The rows of some tables of one schema."""
    return frame_of(pa.concat_tables(tables), columns)
