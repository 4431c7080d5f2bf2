"""Keep the rows of a run, and the arrays that one stage leaves for the next.

All of them are private, in files or in memory.

An enclave holds arrays by name: of the run, and of each segment. The names of rows::

    x   float64 (rows, d)   rows in the unit ball, last column the intercept
    t   uint8   (rows,)     treatment, 0 or 1
    u   float64 (rows,)     outcome scaled by its declared bounds to [-1, 1]; of a table (rows, outcomes)
    g   uint8   (rows,)     of a table: the subgroup
    xy  float64 (rows, 2)   of a direction study, instead: both variables scaled by their bounds to [-1, 1]
    h   uint64  (rows, 2)   keyed hash of the unit, high word first; rows ascend by it
    w   float64 (rows,)     survey weight over the largest that counts, where the study has weights
    c   uint64  (rows,)     code of the unit's cluster, where the study has clusters

A run of record has files. Rehearsals, replications and coverage studies have rows in memory and run the same stages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.errors import CausalveilError
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray, load_array, save_array

HashArray = NDArray[np.uint64]
# Name of the intraclass correlation, shape (1,), in rehearsals of studies with clusters, whose people have none.
ICC = "icc"


@dataclass(frozen=True)
class Rows:
    """Aligned rows of one segment: x (rows, d), t (rows,) in {0, 1}, u (rows,) in [-1, 1]."""

    x: FloatArray
    t: ByteArray
    u: FloatArray

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.t)

    def __getitem__(self, part: slice) -> Rows:
        """A view of some rows."""
        return Rows(self.x[part], self.t[part], self.u[part])


def segment_folder(scratch: Path, index: int) -> Path:
    """Return the folder of segment ``index``."""
    return scratch / "enclave" / f"part-{index:05d}"


T = TypeVar("T")


class Enclave(ABC):
    """Arrays of a run by name, and of each of its ``segments``."""

    segments: int

    @abstractmethod
    def save(self, name: str, array: NDArray[Any]) -> None:
        """Leave an array for later stages, in place of an older array of that name."""

    @abstractmethod
    def load(self, name: str, segment: int | None = None) -> NDArray[Any]:
        """Return an array of the run or of one segment, read-only.

        Raises:
            CausalveilError: the stage that leaves it has not run.
        """

    @abstractmethod
    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result of ``compute``.

        Rows in memory keep it under ``key``, for rehearsals that differ in noise alone.

        Args:
            key: all that the result depends on beside the rows.
            compute: draws no noise.
        """

    def holds(self, name: str, segment: int) -> bool:
        """Return whether a segment has an array of this name."""
        try:
            self.load(name, segment)
        except CausalveilError:
            return False
        return True

    def rows(self, segment: int) -> Rows:
        """Return all units of a segment."""
        x, t, u = (self.load(name, segment) for name in ("x", "t", "u"))
        return Rows(x, t, u)

    def hashes(self) -> Sequence[HashArray]:
        """Return the hashes of each segment's units, ascending; each is opened when asked for."""
        return OpenedInTurn(lambda segment: self.load("h", segment), self.segments)

    def gather(self, name: str, first: Sequence[int] | IntArray | None = None) -> NDArray[Any]:
        """Return the rows of all segments one after the other; one segment is open at a time.

        Args:
            name: of an array that every segment has; there is at least one segment.
            first: the first row that is taken of each segment; None: all are.
        """
        starts = [0] * self.segments if first is None else [int(row) for row in first]
        shapes = [self.load(name, segment).shape for segment in range(self.segments)]
        edges = np.cumsum([0, *(shape[0] - start for shape, start in zip(shapes, starts, strict=True))])
        result = np.empty((edges[-1], *shapes[0][1:]), dtype=self.load(name, 0).dtype)
        for segment, start in enumerate(starts):
            result[edges[segment] : edges[segment + 1]] = self.load(name, segment)[start:]
        return result


class OpenedInTurn(Sequence[NDArray[Any]]):
    """Arrays that are opened when asked for.

    Each open array takes a file and a memory map, of which a process may have few.
    """

    def __init__(self, load: Callable[[int], NDArray[Any]], count: int) -> None:
        """Set ``load``, which opens the array of a number below ``count``."""
        self._load, self._count = load, count

    def __len__(self) -> int:
        """Return the number of arrays."""
        return self._count

    def __getitem__(self, index: Any) -> Any:
        """Open an array; it stays open as long as a part of it is referenced."""
        if not 0 <= index < self._count:
            raise IndexError(index)
        return self._load(index)


@dataclass(frozen=True)
class FileEnclave(Enclave):
    """Files below a run's scratch folder, 0600 in a folder 0700.

    The enclave can be pickled, so that a worker can open it.
    """

    scratch: Path
    segments: int

    def save(self, name: str, array: NDArray[Any]) -> None:
        """Write ``name.npy``, which is never there in part."""
        save_array(self.scratch / f"{name}.npy", array)

    def load(self, name: str, segment: int | None = None) -> NDArray[Any]:
        """Map the file: pages are read when touched."""
        folder = self.scratch if segment is None else segment_folder(self.scratch, segment)
        if not (folder / f"{name}.npy").exists():
            raise CausalveilError(f"the enclave holds no '{name}': the stage that leaves it has not run")
        return load_array(folder / f"{name}.npy")

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Compute each time, as runs of record do."""
        del key
        return compute()


class MemoryEnclave(Enclave):
    """Arrays in memory: no disk, no ledger, so that thousands of rehearsals are quick."""

    def __init__(self, parts: Sequence[Mapping[str, NDArray[Any]]]) -> None:
        """Hold ``parts``: the arrays of each segment by name, as the module's head lists them.

        Rows ascend by hash.
        """
        self.segments = len(parts)
        self._parts = [{name: _read_only(array) for name, array in part.items()} for part in parts]
        self._of_run: dict[str, NDArray[Any]] = {}
        self._computed: dict[Hashable, Any] = {}

    @classmethod
    def of(cls, rows: Rows) -> MemoryEnclave:
        """Return an enclave of one segment and one subgroup whose rows keep their order.

        Halves and folds are cut from them in this order.
        """
        alone = np.zeros(len(rows), np.uint8)
        return cls([{"x": rows.x, "t": rows.t, "u": rows.u, "g": alone, "h": ranks(len(rows))}])

    def with_outcomes(self, outcomes: FloatArray) -> MemoryEnclave:
        """Return an enclave of the same people with other outcomes.

        It shares all arrays of the run and computed results, which must depend on public columns alone.

        Args:
            outcomes: of the single segment, shape (n,).
        """
        enclave = MemoryEnclave([{**self._parts[0], "u": outcomes}])
        enclave._of_run, enclave._computed = self._of_run, self._computed
        return enclave

    @property
    def units(self) -> int:
        """Rows of all segments."""
        return sum(len(part["h"]) for part in self._parts)

    def save(self, name: str, array: NDArray[Any]) -> None:
        """Keep the array."""
        self._of_run[name] = _read_only(array)

    def load(self, name: str, segment: int | None = None) -> NDArray[Any]:
        """Return the array itself."""
        arrays = self._of_run if segment is None else self._parts[segment]
        if name not in arrays:
            raise CausalveilError(f"the enclave holds no '{name}': the stage that leaves it has not run")
        return arrays[name]

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Compute the first time only."""
        if key not in self._computed:
            self._computed[key] = compute()
        return cast(T, self._computed[key])


def ranks(units: int) -> HashArray:
    """Return stand-ins for hashes, ascending: each row's rank, spread over the hashes' range."""
    rank = np.arange(units, dtype=np.uint64)
    return np.column_stack([rank * np.uint64(2**64 // max(units, 1)), rank])


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view, as of a mapped file."""
    view = array.view()
    view.flags.writeable = False
    return view
