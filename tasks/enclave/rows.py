"""The normalised rows as later stages see them: memory-mapped slices, one partition at a time.

Layout of a run's scratch folder (all files 0600 in a 0700 folder)::

    enclave/part-00000/x.npy   float64 (rows, d)   rows in the unit ball, last column the intercept
                       t.npy   uint8   (rows,)     treatment, 0 or 1
                       u.npy   float64 (rows,)     outcome scaled by its declared bounds to [-1, 1]
                       h.npy   uint64  (rows, 2)   keyed hash of the unit, high word first; rows ascend by it
    split.npy                  int64   (partitions,)   leading rows of each partition that are training units
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.errors import CausalveilError
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray
from causalveil.tasks.machine.arrays_on_disk import load_array, save_array

T = TypeVar("T")
HashArray = NDArray[np.uint64]
SPLIT_FILE = "split.npy"


@dataclass(frozen=True)
class Rows:
    """Aligned rows of one partition: x (rows, d), t (rows,) in {0, 1}, u (rows,) in [-1, 1]."""

    x: FloatArray
    t: ByteArray
    u: FloatArray

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.t)


@dataclass(frozen=True)
class Enclave:
    """The normalised partitions of one run.

    ``everyone``: there is no split, every unit serves every purpose (``Study.training_share`` is None).
    """

    scratch: Path
    partitions: int
    everyone: bool
    _training: IntArray

    @classmethod
    def open(cls, scratch: Path, *, everyone: bool) -> Enclave:
        """Open what ``normalise`` and ``split`` left in ``scratch``.

        Raises:
            CausalveilError: one of the two stages has not run.
        """
        path = scratch / SPLIT_FILE
        if not path.exists():
            raise CausalveilError("the scratch folder holds no split; run validate, normalise and split first")
        training = np.load(path, allow_pickle=False)
        return cls(scratch, len(training), everyone, training)

    @classmethod
    def create(
        cls,
        scratch: Path,
        parts: Iterable[tuple[FloatArray, ByteArray, FloatArray]],
        training: Sequence[int],
        *,
        everyone: bool = False,
    ) -> Enclave:
        """Write rows that are already normalised, and their split, into ``scratch`` and open it.

        Args:
            scratch: an existing folder.
            parts: (x, t, u) of each partition, shapes (rows, d), (rows,), (rows,); training units first.
            training: number of training units of each partition.
            everyone: whether every unit serves every purpose.
        """
        for index, (x, t, u) in enumerate(parts):
            folder = partition_folder(scratch, index)
            folder.mkdir(mode=0o700, parents=True)
            # A stand-in for the hash that has the order the layout promises.
            rank = np.arange(len(t), dtype=np.uint64)
            save_array(folder / "x.npy", np.asarray(x, dtype=np.float64))
            save_array(folder / "t.npy", np.asarray(t, dtype=np.uint8))
            save_array(folder / "u.npy", np.asarray(u, dtype=np.float64))
            save_array(folder / "h.npy", np.column_stack([rank, rank]))
        save_array(scratch / SPLIT_FILE, np.asarray(training, dtype=np.int64))
        return cls.open(scratch, everyone=everyone)

    def train(self, index: int) -> Rows:
        """The training units of partition ``index`` (all of its units if ``everyone``)."""
        return self.all(index) if self.everyone else self._slice(index, slice(0, int(self._training[index])))

    def estimation(self, index: int) -> Rows:
        """The estimation units of partition ``index`` (all of its units if ``everyone``)."""
        return self.all(index) if self.everyone else self._slice(index, slice(int(self._training[index]), None))

    def all(self, index: int) -> Rows:
        """All units of partition ``index``."""
        return self._slice(index, slice(None))

    def _slice(self, index: int, rows: slice) -> Rows:
        folder = partition_folder(self.scratch, index)
        x, t, u = (load_array(folder / name)[rows] for name in ("x.npy", "t.npy", "u.npy"))
        return Rows(x, t, u)


def partition_folder(scratch: Path, index: int) -> Path:
    """Where partition ``index`` lies."""
    return scratch / "enclave" / f"part-{index:05d}"
