"""Has every unit one row? Keyed hashes go to scratch, spread over files by value, and each file is looked at once.

Numbers that rise from row to row, as most tables' do, need less: they are written as they are, and nothing more is
asked if no two such pieces overlap. Of numbers without a gap, which count rows, their ends say all. Memory holds the
hashes of one piece or of one file, whatever the number of units.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from causalveil.tasks.enclave.enclave import HashArray
from causalveil.tasks.enclave.unit_hash import ascending, keyed_hash
from causalveil.tasks.machine.arrays import IntArray

# Hashes per file, about: 16 MB each.
FILE_UNITS = 1_000_000
MOST_FILES = 512


class SeenUnits:
    """All units that were seen, in files of a scratch folder."""

    def __init__(self, folder: Path, units: int, key: bytes) -> None:
        """Make the folder.

        Args:
            folder: in scratch.
            units: about how many will be seen.
            key: of their hashes, 16 bytes.
        """
        self._hashes = SeenHashes(folder, units)
        self._key, self._raw = key, folder / "rising"
        self._ends: list[tuple[int, int]] = []
        # Those of them that are whole, from end to end.
        self._counts: list[range] = []

    def add(self, units: pl.Series) -> None:
        """Take in units, without nulls, in any order and number."""
        numbers = None if self._hashes.any else _rising_numbers(units)
        if numbers is None:
            self._hashes.add(keyed_hash(units, self._key))
        elif len(numbers):
            first, last = int(numbers[0]), int(numbers[-1])
            self._ends.append((first, last))
            if last - first + 1 == len(numbers):
                self._counts.append(range(first, last + 1))
                return
            with self._raw.open("ab") as file:
                numbers.tofile(file)

    def repeated(self) -> int:
        """Count the rows that belong to a unit that an earlier row named."""
        apart = all(before[1] < after[0] for before, after in pairwise(sorted(self._ends)))
        if apart and not self._hashes.any:
            return 0
        for numbers in self._rising():
            self._hashes.add(keyed_hash(pl.Series(numbers), self._key))
        self._ends.clear()
        self._counts.clear()
        return self._hashes.repeated()

    def _rising(self) -> Iterator[IntArray]:
        """Yield the units that are not hashed yet, in pieces: first those that count rows.

        Once they are among the hashes, there are none.
        """
        for count in self._counts:
            for start in range(count.start, count.stop, FILE_UNITS):
                yield start + np.arange(min(FILE_UNITS, count.stop - start), dtype=np.int64)
        if len(self._ends) > len(self._counts):
            with self._raw.open("rb") as file:
                while len(numbers := np.fromfile(file, dtype=np.int64, count=FILE_UNITS)):
                    yield numbers


class SeenHashes:
    """Hashes of units, in files of a folder."""

    def __init__(self, folder: Path, units: int, file_units: int = FILE_UNITS) -> None:
        """Make the folder; ``units`` is about how many will be seen."""
        self._folder = folder
        self._files = min(MOST_FILES, max(1, -(-units // file_units)))
        self.any = False
        folder.mkdir(mode=0o700)

    def add(self, hashes: HashArray) -> None:
        """Take in uniform 128-bit hashes, shape (n, 2), high word first."""
        self.any = self.any or len(hashes) > 0
        # The top bits decide, as floor(high * files / 2^64) without a product that overflows.
        numbers = ((hashes[:, 0] >> np.uint64(32)) * np.uint64(self._files) >> np.uint64(32)).astype(np.uint16)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(self._files + 1))
        spread = hashes.take(order, axis=0)
        for number in range(self._files):
            part = spread[ends[number] : ends[number + 1]]
            if len(part):
                with (self._folder / f"{number:03d}").open("ab") as file:
                    part.tofile(file)

    def repeated(self) -> int:
        """Count the rows that belong to a unit that an earlier row named."""
        return sum(_repeated(self._read(number)) for number in range(self._files))

    def _read(self, number: int) -> HashArray:
        path = self._folder / f"{number:03d}"
        if not path.exists():
            return np.empty((0, 2), dtype=np.uint64)
        return np.fromfile(path, dtype=np.uint64).reshape(-1, 2)


def _rising_numbers(units: pl.Series) -> IntArray | None:
    """Integers of 64 bits of which each is above the one before; None: they are not that."""
    if not units.dtype.is_integer():
        return None
    wide = units.cast(pl.Int64, strict=False)
    if wide.null_count():
        return None
    numbers: IntArray = wide.to_numpy()
    return numbers if bool(np.all(numbers[1:] > numbers[:-1])) else None


def _repeated(hashes: HashArray) -> int:
    """Rows beyond the first of each 128-bit value.

    High words alone almost never tie, so they are sorted first.
    """
    ranked = np.sort(hashes[:, 0])
    if not np.any(ranked[1:] == ranked[:-1]):
        return 0
    whole = hashes[ascending(hashes)]
    return int(np.sum(np.all(whole[1:] == whole[:-1], axis=1)))
