"""Which fold a unit is in: by the rank of its keyed hash, so that folds have exact public sizes.

The units whose hashes are the first n_1 of all are fold 1, the next n_2 fold 2, and so on. Normalised rows ascend by
hash, so a fold of a segment is a span of its rows and the folds of a run are K + 1 numbers per segment. A replaced
person takes the old one's place and nobody else moves, as in the split (``docs/proofs/data.md``).

Folds count from 0 in code, from 1 where people read them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.errors import StudyError
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.enclave.split import leading_rows
from causalveil.tasks.machine.arrays import IntArray

FOLDS = "folds"
# Fewer units than this per fold cannot carry an estimate at any budget that a study may ask for.
SMALLEST_FOLD = 2


def fold_sizes(units: int, folds: int) -> tuple[int, ...]:
    """The public number of units of each fold: as equal as can be, the first ones larger by one.

    Raises:
        StudyError: fewer than two units in a fold.
    """
    if units < SMALLEST_FOLD * folds:
        raise StudyError(f"{units} units are too few for {folds} folds; lower 'folds' or bring more units")
    return tuple(units // folds + (fold < units % folds) for fold in range(folds))


@dataclass(frozen=True)
class Pieces:
    """Rows in pieces, one of which is in memory at a time: what sums over units go through."""

    rows: Callable[[int], Rows]
    count: int
    units: int


@dataclass(frozen=True)
class Folds:
    """The rows of one run, cut into folds. ``edges``: shape (K + 1, segments)."""

    enclave: Enclave
    edges: IntArray

    @classmethod
    def open(cls, enclave: Enclave) -> Folds:
        """Open what ``folds`` left.

        Raises:
            CausalveilError: it has not run.
        """
        return cls(enclave, np.array(enclave.load(FOLDS)))

    @property
    def count(self) -> int:
        """K."""
        return len(self.edges) - 1

    def fold(self, fold: int) -> Pieces:
        """The units of one fold, 0 <= fold < K, a piece per segment."""
        return self._pieces([(fold, fold + 1)])

    def without(self, fold: int) -> Pieces:
        """The units of all other folds: those before it, then those behind it, of each segment."""
        return self._pieces([(0, fold), (fold + 1, self.count)])

    def _pieces(self, spans: list[tuple[int, int]]) -> Pieces:
        """The rows between pairs of edges, segment by segment; empty pieces are left out."""
        places = [
            (index, int(self.edges[first, index]), int(self.edges[last, index]))
            for index in range(self.edges.shape[1])
            for first, last in spans
        ]
        places = [place for place in places if place[1] < place[2]]

        def rows(piece: int) -> Rows:
            index, start, stop = places[piece]
            return self.enclave.rows(index)[start:stop]

        return Pieces(rows, len(places), sum(stop - start for _, start, stop in places))


def folds_stage(enclave: Enclave, folds: int) -> None:
    """Leave in the enclave where each fold begins and ends in each segment: ``Folds.edges``.

    Raises:
        StudyError: too few units.
        DataError: a unit occurs twice.
    """
    hashes = enclave.hashes()
    sizes = fold_sizes(sum(map(len, hashes)), folds)
    inner = [leading_rows(hashes, int(size)) for size in np.cumsum(sizes)[:-1]]
    ends = [np.zeros(len(hashes), dtype=np.int64), np.array([len(part) for part in hashes], dtype=np.int64)]
    enclave.save(FOLDS, np.array([ends[0], *inner, ends[1]]))
