"""The normalised rows as later stages see them: memory-mapped slices, one partition at a time.

Layout of a run's scratch folder (all files 0600 in a 0700 folder)::

    enclave/part-00000/x.npy   float64 (rows, d)   rows in the unit ball, last column the intercept
                       t.npy   uint8   (rows,)     treatment, 0 or 1
                       u.npy   float64 (rows,)     outcome scaled by its declared bounds to [-1, 1]
                       h.npy   uint64  (rows, 2)   keyed hash of the unit, high word first; rows ascend by it
    split.npy                  int64   (partitions,)   leading rows of each partition that are training units
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from schemas.errors import CausalveilError
from tasks.arrays import ByteArray, FloatArray, IntArray
from tasks.spread import on_worker, one_thread

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


def load_array(path: Path) -> NDArray[Any]:
    """Map an array read-only: pages are read when touched and may be dropped again by the system."""
    # A plain view of the map: numpy.memmap's own slicing costs microseconds more.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write a new .npy file with mode 0600; whoever opens it finds all of it."""
    partial = partial_path(path)
    handle, start = create_array(partial, array.shape, array.dtype)
    try:
        write_rows(handle, start, np.ascontiguousarray(array))
    finally:
        os.close(handle)
    partial.replace(path)


def partial_path(path: Path) -> Path:
    """Where a file is written before it is renamed: a worker that was given up may still write beside its successor."""
    return path.with_name(f".{path.name}.{uuid4().hex}")


def create_array(path: Path, shape: tuple[int, ...], dtype: Any) -> tuple[int, int]:
    """Create a .npy file (C order, mode 0600, replacing an older one) whose rows are still to be written.

    Returns:
        An open file descriptor, and the byte offset of the first row, for :func:`write_rows`.
    """
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape})
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.pwrite(handle, header.getvalue(), 0)
    return handle, len(header.getvalue())


def write_rows(handle: int, offset: int, rows: NDArray[Any]) -> None:
    """Write C-contiguous ``rows`` at byte ``offset``; threads may write different places at once.

    Raises:
        CausalveilError: the disk is full or fails.
    """
    view = rows.reshape(-1).view(np.uint8).data
    failure = None
    try:
        while view:
            written = os.pwrite(handle, view, offset)
            view, offset = view[written:], offset + written
    except OSError as error:
        failure = errno.errorcode.get(error.errno or 0, "OSError")
    if failure:
        raise CausalveilError(
            f"the scratch folder cannot be written ({failure}); free some space or point CAUSALVEIL_HOME elsewhere"
        )


def map_partitions(function: Callable[[int], T], count: int, workers: int) -> list[T]:
    """Apply ``function`` to 0 .. count-1 on ``workers`` threads; results come in order of partitions.

    BLAS is held to one thread for the time: threads over partitions are the parallelism, and the order of
    BLAS's own reductions would depend on its thread count. The first error in partition order is raised;
    partitions not yet begun are dropped.
    """
    with one_thread():
        # A worker of a cluster is one of many on its machine.
        if workers <= 1 or count <= 1 or on_worker():
            return [function(index) for index in range(count)]
        with ThreadPoolExecutor(max_workers=min(workers, count)) as pool:
            futures = [pool.submit(function, index) for index in range(count)]
            try:
                return [future.result() for future in futures]
            finally:
                for future in futures:
                    future.cancel()
