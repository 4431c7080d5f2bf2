"""How an enclave cuts the rows of its partitions into segments that one process can hold.

A segment has about 16 MB of the study's columns, whatever partitions they came from: a large partition has several,
and of very many small ones several share one. So memory does not grow with the largest partition, and no pass over
the rows opens more files than there are segments. Segments follow from the layout alone, which is public: units are
found by their hashes and released sums are exact, so that results depend on segments in their last digits at most, and
at label level in which rows a public sample holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from causalveil.schemas.admission.casts import Roles
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout, Partition
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.enclave.partitions import read_rows

# 16 MB at 8 bytes a value: memory of that size is used again, and more would be taken afresh from the system.
VALUES = 1 << 21
FEWEST_ROWS = 4_096
# From here on small partitions share a segment.
MANY = 256


@dataclass(frozen=True, eq=False)
class LoadedSegment:
    """The rows of one segment as they were read: from which partition, and the frame; ``number`` counts from 0."""

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
        # What a file without rows says of its columns counts for nothing.
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
    """What one worker reads from its beginning to its end: one large partition, or some small ones.

    Attributes:
        partitions: in the layout's order.
        first: number of the first segment that they fill.
        rows: of each segment but the last, at most.
        segments: how many they fill.
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
    """The rows of a segment of so many columns, at most."""
    return max(FEWEST_ROWS, VALUES // max(1, columns))


def readings(layout: Layout, columns: int) -> tuple[Reading, ...]:
    """The work of reading a layout, in its order. Partitions without rows have a segment too.

    Args:
        layout: the partitions.
        columns: how many of each are read, at least 1.
    """
    rows = segment_rows(columns)
    together = -(-len(layout.partitions) // MANY)
    found: list[Reading] = []
    group: list[Partition] = []

    def close() -> None:
        if group:
            first = found[-1].numbers.stop if found else 0
            segments = max(1, -(-sum(partition.rows for partition in group) // rows))
            found.append(Reading(tuple(group), first, rows, segments))
            group.clear()

    held = 0
    for partition in layout.partitions:
        if len(group) == together or held + partition.rows > rows:
            close()
            held = 0
        group.append(partition)
        held += partition.rows
    close()
    return tuple(found)


def segment_count(layout: Layout, columns: int) -> int:
    """Return the number of segments that a layout fills."""
    return sum(reading.segments for reading in readings(layout, columns))


def read_segments(folder: DataFolder, reading: Reading, columns: Roles) -> Iterator[LoadedSegment]:
    """Read segment after segment; one is in memory at a time.

    Raises:
        DataError: as of :func:`tasks.enclave.partitions.read_rows`.
    """
    if reading.segments > 1:
        (partition,) = reading.partitions
        for number, frame in zip(reading.numbers, read_rows(folder, partition, columns, reading.rows), strict=True):
            yield LoadedSegment(number, ((partition, frame),))
        return
    parts = [(one, frame) for one in reading.partitions for frame in read_rows(folder, one, columns, one.rows + 1)]
    yield LoadedSegment(reading.first, tuple(parts))
