"""List the partitions of a data folder, and read their rows in segments.

Paths and footers tell which Parquet files a run reads. A file's column must agree with its folder's name, because
blocks are folders, and folders are accounts.

A segment has about 16 MB of the study's columns, whatever partitions they came from: a large partition has several
segments, and very many small partitions share some. So memory does not grow with the largest partition, and no pass
over the rows opens more files than there are segments. Segments follow from the layout alone, which is public: units
are ordered by their hashes and released sums are exact, so that results depend on segments in their last digits at
most, and at label level by the rows of a public sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from causalveil.schemas.admission import Roles, Types, empty_frame, read_as, read_frame
from causalveil.schemas.columns import Column, Holds, Nulls
from causalveil.schemas.errors import DataError, in_own_words
from causalveil.schemas.plan import Layout, Partition, natural_order
from causalveil.schemas.study import Select, Study
from causalveil.tasks.data.data_folder import DataFolder, held_file
from causalveil.tasks.machine.arrays import frame_of, polars_types
from causalveil.tasks.machine.folders import OpenFile
from causalveil.tasks.warehouse.extract import refuse_unfinished

# The value in the name of a folder of rows without a value, as Hive and Spark write it.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_ANY = Column(holds=Holds.order, nulls=Nulls.welcome)


def folder_values(partition: Partition, types: Types) -> dict[str, str]:
    """Return the values in folders' names, ``name=value``, of columns that the file has too.

    Columns whose values cannot be compared are left out.
    """
    by_name = values_in(PurePosixPath(partition.path).parent)
    return {name: value for name, value in by_name.items() if name in types and read_as(_ANY, types[name]) is not None}


def values_in(folder: PurePosixPath) -> dict[str, str]:
    """Return the values of the folders ``name=value`` of a path, by name."""
    pairs = (part.partition("=") for part in folder.parts if "=" in part)
    return {unquote(name): unquote(value) for name, _, value in pairs}


def as_compared(columns: Iterable[str]) -> Roles:
    """Return the roles in which columns are read to be compared with their folders."""
    return dict.fromkeys(columns, _ANY)


def contradictions(frame: pl.DataFrame, values: dict[str, str]) -> dict[str, int]:
    """Count by column the rows that contradict their folder; a row without a value does not.

    Args:
        frame: the columns of :func:`folder_values`, read by :func:`as_compared`.
        values: those in the names of the folders.
    """
    return {name: _count_other(frame.get_column(name).alias("values"), value) for name, value in values.items()}


def _count_other(column: pl.Series, value: str) -> int:
    present = column.drop_nulls()
    if value == NO_VALUE:
        return len(present)
    if present.dtype.is_numeric():
        try:
            number = int(value) if present.dtype.is_integer() else float(value)
        except ValueError:
            return len(present)
        return int((present != number).sum())
    if present.dtype == pl.Boolean:
        return int((present.cast(pl.String) != value.lower()).sum())
    if present.dtype.is_temporal():
        # A folder of a month holds its days.
        return int(present.dt.to_string().str.replace("T", " ").str.starts_with(value).not_().sum())
    return int((present != value).sum())


WHOLE = "all"
# Bytes of each column's buffer while it is decoded.
_BUFFER = 1 << 16


def read_layout(study: Study, folder: DataFolder) -> Layout:
    """Return the partitions below ``folder`` that a study selects; see :func:`list_partitions`."""
    return list_partitions(folder, study.data.blocks, study.data.select)


def list_partitions(folder: DataFolder, key: str | None, select: Select | None = None) -> Layout:
    """List the partitions below ``folder``, or in its chosen blocks, in the order of paths.

    Reads paths, and from each footer the number of rows alone: never a column's statistics. With the block
    key ``month`` the block of a file is the part ``month=...`` of its path; without, every file is in the block
    ``all``. ``select.newest`` takes the last k blocks that hold rows in natural order (numeric if every value is a
    number, else as text), or all of them if there are fewer: the number of rows of a block is public. Blocks that are
    named must hold rows, and so must both ends of a range.

    Raises:
        ContractError: a folder above or below has a contract of its own.
        DataError: a folder that cannot be listed or belongs to an open table (Delta, Iceberg, Hudi), an extract that
            did not end, no Parquet file or no row in it, a block that is named and holds none, an unreadable or
            truncated footer, a link, a file of several names, a file outside any block. The message names the
            public path.
    """
    refuse_unfinished(folder)
    paths = sorted(folder.parquet_paths())
    if not paths:
        raise DataError(f"{folder}: no Parquet file in this folder")
    files: dict[str, list[str]] = {}
    for path in paths:
        files.setdefault(_block(path, key), []).append(path)
    ordered = natural_order(files)
    named = _named_blocks(folder, key, select, ordered)
    newest = None if select is None else select.newest
    partitions: list[Partition] = []
    filled = 0
    for block in reversed(_chosen_blocks(select, named, ordered)):
        of_block = [Partition(path=path, rows=_footer_rows(folder, path), block=block) for path in files[block]]
        has_rows = any(partition.rows for partition in of_block)
        if block in named and not has_rows:
            raise DataError(
                f"{folder}: block {block}, which 'data.select' names, holds no rows yet; ask when it has some"
            )
        if newest is None or has_rows:
            partitions += of_block
            filled += has_rows
        if filled == newest:
            break
    partitions.sort(key=lambda partition: partition.path)
    layout = Layout(partitions=tuple(partitions), dataset_blocks=tuple(ordered))
    if layout.units == 0:
        raise DataError(f"{folder}: the Parquet files that are to be read hold no rows")
    return layout


def _named_blocks(folder: DataFolder, key: str | None, select: Select | None, ordered: list[str]) -> list[str]:
    """Return the blocks that a study names, the ends of its range among them.

    Raises:
        DataError: there is no such block.
    """
    if select is None:
        return []
    named = [f"{key}={value}" for value in (*(select.blocks or ()), select.first, select.last) if value is not None]
    for block in named:
        if block not in ordered:
            raise DataError(
                f"{folder}: there is no block {block}, which 'data.select' names; there are {ordered[0]} to "
                f"{ordered[-1]}"
            )
    return named


def _chosen_blocks(select: Select | None, named: list[str], ordered: list[str]) -> list[str]:
    """Return the blocks to look at, in order: all for the newest, as some have no rows."""
    if select is None or select.newest is not None:
        return ordered
    if select.blocks is not None:
        return [block for block in ordered if block in named]
    start = 0 if select.first is None else ordered.index(named[0])
    end = len(ordered) if select.last is None else ordered.index(named[-1]) + 1
    if start >= end:
        raise DataError(f"'data.select': {named[0]} comes after {named[-1]}; exchange 'from' and 'to'")
    return ordered[start:end]


def column_types(folder: DataFolder, partition: Partition) -> dict[str, pl.DataType]:
    """Return the types in which one partition stores its columns, from its footer.

    Raises:
        DataError: the file is gone or no file of its own, or its footer does not parse.
    """
    with opened(folder, partition.path) as file:
        return types_of(file, partition)


def types_of(file: OpenFile, partition: Partition) -> dict[str, pl.DataType]:
    """Return the types in which an open file stores its columns, from its footer."""
    with reading(partition.path):
        schema = pq.read_schema(file.place)
    return polars_types(schema)


def read_rows(folder: DataFolder, partition: Partition, columns: Roles, rows: int) -> Iterator[pl.DataFrame]:
    """Read some columns of one partition, frame by frame.

    Memory does not grow with the file nor with its row groups.

    If the folder is held to an admission, the file is digested and read by one descriptor. All frames must be taken:
    only at the end it is checked whether the file was written to meanwhile.

    Args:
        folder: the data folder.
        partition: the file, and the number of rows in its footer.
        columns: names in the order of the frames, each with its declaration: the column is read as declared, whatever
            type the file stores it in (``schemas/admission.py``).
        rows: of each frame but the last; at least 1.

    Yields:
        At least one frame.

    Raises:
        DataError: not the admitted file; missing columns, damaged pages, or another number of rows than the layout
            states. The reader's own error, which may quote data, is dropped.
    """
    with held_file(folder, partition) as file:
        yield from rows_of(file, partition, columns, rows)


def rows_of(
    file: OpenFile, partition: Partition, columns: Roles, rows: int, *, widen: bool = True
) -> Iterator[pl.DataFrame]:
    """Read the rows of an open file.

    ``widen`` is that of :func:`read_frame`.
    """
    batches = _batches(file, columns, rows, widen=widen)
    left, waiting = partition.rows, list[pl.DataFrame]()
    while True:
        with reading(partition.path):
            batch = next(batches, None)
        left -= 0 if batch is None else batch.height
        if left < 0 or (left and batch is None):
            raise DataError(other_count(partition.path))
        if batch is None:
            break
        # A reader may end a batch where a row group ends.
        waiting.append(batch)
        if sum(frame.height for frame in waiting) >= rows:
            whole = pl.concat(waiting)
            yield whole[:rows]
            waiting = [whole[rows:]] if whole.height > rows else []
    if waiting:
        yield pl.concat(waiting)


def opened(folder: DataFolder, path: str) -> OpenFile:
    """Open one of the folder's files for its footer.

    Raises:
        DataError: it is gone, or no file of its own.
    """
    try:
        return folder.file(path)
    except FileNotFoundError:
        pass
    raise DataError(f"{path}: was removed while the data folder was looked at; leave the data alone meanwhile")


def _batches(source: OpenFile, columns: Roles, rows: int, *, widen: bool) -> Iterator[pl.DataFrame]:
    """Frames of at most ``rows`` rows; a single empty frame of a file without rows."""
    # Pages are read as they are decoded: without a buffer the reader would hold a row group's whole column.
    bytes_at_hand = source.content
    place = source.place if bytes_at_hand is None else pa.BufferReader(bytes_at_hand)
    with pq.ParquetFile(place, buffer_size=_BUFFER if bytes_at_hand is None else 0, pre_buffer=False) as file:
        for batch in file.iter_batches(rows, columns=list(columns)):
            yield read_frame(frame_of(batch, list(columns)), columns, widen=widen)
        if file.metadata.num_rows == 0:
            # Types in a file without rows are arbitrary: its writer saw no values.
            yield empty_frame(columns)


# Errors of the two readers at a file that they cannot read.
READER_ERRORS = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    pa.ArrowException,
    OSError,
    ValueError,
    KeyError,
)


def reading(path: str) -> AbstractContextManager[None]:
    """Name a file in errors while it is read, and drop readers' texts, which may quote data.

    Raises:
        DataError: the file, or a column of it, cannot be read.
    """

    def problem(error: BaseException) -> DataError:
        return DataError(f"{path}: {error}" if isinstance(error, DataError) else _unreadable(path))

    return in_own_words(problem, DataError, *READER_ERRORS)


def other_count(path: str) -> str:
    """Say that a file holds another number of rows than its footer when files were listed."""
    return f"{path}: the number of rows differs from the plan's; the file was changed"


def _unreadable(path: str) -> str:
    """Say that a file does not parse."""
    return f"{path}: not readable as Parquet (empty, truncated, damaged or encrypted?); write the file again"


def _block(path: str, key: str | None) -> str:
    """The ledger block of a file: the one folder ``key=value`` on its path."""
    if key is None:
        return WHOLE
    folders = [part for part in PurePosixPath(path).parent.parts if part.startswith(f"{key}=")]
    if len(folders) != 1:
        raise DataError(
            f"{path}: the contract's block key is '{key}', so the file must lie in exactly one folder named {key}=..."
        )
    return folders[0]


def _footer_rows(folder: DataFolder, path: str) -> int:
    with opened(folder, path) as file, reading(path):
        rows = int(pq.read_metadata(file.place).num_rows)
    if rows < 0:
        raise DataError(_unreadable(path))
    return rows


# 16 MB at 8 bytes a value: memory of that size is used again, and more would be taken afresh from the system.
VALUES = 1 << 21
FEWEST_ROWS = 4_096
# From this number of partitions on, small ones share a segment.
MANY = 256


@dataclass(frozen=True, eq=False)
class LoadedSegment:
    """The rows of one segment as they were read, by partition.

    ``number`` counts from 0.
    """

    number: int
    parts: tuple[tuple[Partition, pl.DataFrame], ...]

    @property
    def partition(self) -> Partition:
        """The first one, for errors to name."""
        return self.parts[0][0]

    @cached_property
    def frame(self) -> pl.DataFrame:
        """All rows, partition after partition.

        Raises:
            DataError: a column cannot be read as one in all of them.
        """
        # Types in a file without rows are arbitrary.
        full = [(partition, part) for partition, part in self.parts if part.height] or list(self.parts[:1])
        first = full[0][1].schema
        for partition, part in full:
            for name, kind in part.schema.items():
                if kind != first[name] and not (kind.is_integer() and first[name].is_integer()):
                    raise DataError(f"{partition.path}: a column has another type than in the partitions before")
        # Whole numbers of units may be of several widths.
        return pl.concat([part for _, part in full], how="vertical_relaxed").rechunk()


@dataclass(frozen=True)
class Reading:
    """The partitions that one worker reads from beginning to end: one large, or some small ones.

    Attributes:
        partitions: in the layout's order.
        first: number of the first segment that they fill.
        rows: of each segment but the last, at most.
        segments: number of segments that they fill.
    """

    partitions: tuple[Partition, ...]
    first: int
    rows: int
    segments: int

    @property
    def numbers(self) -> range:
        """The segments' numbers."""
        return range(self.first, self.first + self.segments)


def segment_rows(columns: int) -> int:
    """Return the largest number of rows of a segment."""
    return max(FEWEST_ROWS, VALUES // max(1, columns))


def readings(layout: Layout, columns: int) -> tuple[Reading, ...]:
    """Return the work of reading a layout, in order; a partition without rows has a segment too.

    Args:
        layout: the partitions.
        columns: number of columns that are read, at least 1.
    """
    rows = segment_rows(columns)
    most_partitions = -(-len(layout.partitions) // MANY)
    work: list[Reading] = []
    group: list[Partition] = []

    def close() -> None:
        if group:
            first = work[-1].numbers.stop if work else 0
            segments = max(1, -(-sum(partition.rows for partition in group) // rows))
            work.append(Reading(tuple(group), first, rows, segments))
            group.clear()

    held = 0
    for partition in layout.partitions:
        if len(group) == most_partitions or held + partition.rows > rows:
            close()
            held = 0
        group.append(partition)
        held += partition.rows
    close()
    return tuple(work)


def segment_count(layout: Layout, columns: int) -> int:
    """Return the number of segments that a layout fills."""
    return sum(reading.segments for reading in readings(layout, columns))


def read_segments(folder: DataFolder, reading: Reading, columns: Roles) -> Iterator[LoadedSegment]:
    """Read segment after segment; one is in memory at a time.

    Raises:
        DataError: as of :func:`tasks.data.partitions.read_rows`.
    """
    if reading.segments > 1:
        (partition,) = reading.partitions
        for number, frame in zip(reading.numbers, read_rows(folder, partition, columns, reading.rows), strict=True):
            yield LoadedSegment(number, ((partition, frame),))
        return
    parts = tuple(
        (partition, frame)
        for partition in reading.partitions
        for frame in read_rows(folder, partition, columns, partition.rows + 1)
    )
    yield LoadedSegment(reading.first, parts)
