"""Exact sums over the rows of each subgroup: a release has a block of numbers for each, and a row fills one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from causalveil.tasks.enclave.cells import CellRows
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.lattice_sums import exact_sums


def one_hot(arms: FloatArray | np.ndarray, count: int) -> FloatArray:
    """Shape (rows, count): 1 in the column of each row's arm."""
    return np.asarray(arms[:, None] == np.arange(count)[None, :], dtype=np.float64)


def by_block(
    pieces: Pieces, of: Sequence[Callable[[CellRows], FloatArray]], numbers: Sequence[int], workers: int
) -> list[FloatArray]:
    """Return exact sums of each subgroup's rows by a function of its own.

    Args:
        pieces: all units.
        of: from some rows of a subgroup to their sums, by subgroup.
        numbers: how many sums each has.
        workers: threads; the sums do not depend on it.

    Returns:
        By subgroup, shape (its numbers,).
    """

    def together(index: int) -> CellRows:
        """A piece with the rows of each subgroup beside each other, so that a chunk is of few."""
        rows = cast(CellRows, pieces.rows(index))
        if not rows.g.any():
            return rows
        order = np.argsort(rows.g, kind="stable")
        return CellRows(rows.x[order], rows.t[order], rows.u[order], rows.g[order])

    def sums(rows: CellRows) -> FloatArray:
        parts = zip(of, numbers, rows.by_group(len(of)), strict=True)
        return np.concatenate([one(part) if len(part) else np.zeros(count) for one, count, part in parts])

    return cut(exact_sums(Pieces(together, pieces.count, pieces.units), sums, sum(numbers), workers), numbers)


def cut(vector: FloatArray, sizes: Sequence[int]) -> list[FloatArray]:
    """Return a vector in parts of these sizes."""
    return np.split(vector, np.cumsum(sizes)[:-1].tolist())
