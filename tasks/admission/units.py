"""Has every unit one row? Keyed hashes go to scratch, spread over files by value, and each file is looked at once.

Memory holds the hashes of one partition or of one file, whatever the number of units.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from causalveil.tasks.enclave.rows import HashArray
from causalveil.tasks.enclave.unit_hash import ascending

# Hashes per file, about: 16 MB each.
FILE_UNITS = 1_000_000
MOST_FILES = 512


class SeenUnits:
    """The hashes of all units that were seen, in files of a scratch folder."""

    def __init__(self, folder: Path, units: int, file_units: int = FILE_UNITS) -> None:
        """Make the folder; ``units`` is about how many will be seen."""
        self._folder = folder
        self._files = min(MOST_FILES, max(1, -(-units // file_units)))
        folder.mkdir(mode=0o700)

    def add(self, hashes: HashArray) -> None:
        """Take in uniform 128-bit hashes, shape (n, 2), high word first."""
        # The top bits decide, as floor(high * files / 2^64) without a product that overflows.
        numbers = ((hashes[:, 0] >> np.uint64(32)) * np.uint64(self._files) >> np.uint64(32)).astype(np.uint16)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(self._files + 1))
        spread = hashes[order]
        for number in range(self._files):
            part = spread[ends[number] : ends[number + 1]]
            if len(part):
                with (self._folder / f"{number:03d}").open("ab") as file:
                    part.tofile(file)

    def repeated(self) -> int:
        """How many rows belong to a unit that an earlier row named."""
        return sum(_repeated(self._read(number)) for number in range(self._files))

    def _read(self, number: int) -> HashArray:
        path = self._folder / f"{number:03d}"
        if not path.exists():
            return np.empty((0, 2), dtype=np.uint64)
        return np.fromfile(path, dtype=np.uint64).reshape(-1, 2)


def _repeated(hashes: HashArray) -> int:
    """Rows beyond the first of each 128-bit value. High words alone almost never tie, so they are sorted first."""
    ranked = np.sort(hashes[:, 0])
    if not np.any(ranked[1:] == ranked[:-1]):
        return 0
    whole = hashes[ascending(hashes)]
    return int(np.sum(np.all(whole[1:] == whole[:-1], axis=1)))
