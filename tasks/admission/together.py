"""Rows of small files, gathered until there are enough of them to be worth a look."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl

from causalveil.schemas.admission.casts import Types
from causalveil.schemas.plan import Partition
from causalveil.tasks.admission.whole_files import WholeFile, joined

if TYPE_CHECKING:
    import pyarrow as pa

# Each file that waits has buffers of its own, which may be larger than its rows.
MOST_FILES = 1_024


class Together:
    """Gathers the rows of files that follow each other and store the same columns alike."""

    def __init__(self, rows: int, look: Callable[[list[Partition], pl.DataFrame, Types], None]) -> None:
        """``rows``: at once, at most, but for one file; ``look``: is shown files, their rows as stored, and types."""
        self.rows = rows
        self._look = look
        self._columns: Types = {}
        self._tables: list[pa.Table] = []
        self._partitions: list[Partition] = []
        self._height = 0
        self._known: tuple[pa.Schema, Types] | None = None

    def types_of(self, file: WholeFile) -> Types:
        """The types of a file's columns; those of the one before if their schemas are equal.

        Raises:
            DataError: the footer does not parse.
        """
        if self._known is None or not self._known[0].equals(file.schema, check_metadata=True):
            self._known = file.schema, file.types()
        return self._known[1]

    def add(self, partition: Partition, file: WholeFile, columns: Types) -> None:
        """Take in the rows of the file that comes next.

        Args:
            partition: the file.
            file: its content.
            columns: which to read, and the types in which it stores them.

        Raises:
            DataError: they cannot be read.
        """
        table = file.rows(list(columns))
        if self._tables and (
            not self._tables[0].schema.equals(table.schema, check_metadata=True)
            or self._height + partition.rows > self.rows
            or len(self._tables) == MOST_FILES
        ):
            self.close()
        self._columns = columns
        self._tables.append(table)
        self._height += partition.rows
        self._partitions.append(partition)

    def close(self) -> None:
        """Have what was gathered looked at."""
        tables, partitions = self._tables, self._partitions
        self._tables, self._partitions, self._height = [], [], 0
        if tables:
            self._look(partitions, joined(tables, list(self._columns)), self._columns)
