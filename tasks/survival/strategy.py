"""Release of the cells.

Square roots of suffix sums, kind by kind, and the counts that are read off it.

A curve is made of running sums of cells. Noise on each cell would add up in them; noise on each running sum would need
a sensitivity that grows with their number. Half of the way in between, R of R R = suffix sums, both stay small (Bennett
1977; Henzinger and Upadhyay 2025): here columns are scaled to length 1 at most, so that two people are never farther
apart than sqrt(2). Proof: ``docs/proofs/survival.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import block_diag, toeplitz

from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.privacy.mechanisms import Laplace, Mechanism, Sensitivity, Slot, vector_mechanism
from causalveil.tasks.survival.curves import Grid

SLOT = Slot(name="cells", scope=Scope.all)
# Entries are multiples of 2^-BITS, so that sums over up to 2^35 people are exact in float64.
BITS = 18


def cells_mechanism(cost: PrivacyCost) -> Mechanism:
    """Return Gaussian noise for the square root of cells.

    Without a delta it is Laplace noise for the cells themselves.
    """
    if cost.delta > 0:
        return vector_mechanism(Sensitivity(math.sqrt(2), Norm.l2, "sqrt(2)"), cost)
    return Laplace(Sensitivity(2.0, Norm.l1, "2"), cost)


@lru_cache(maxsize=16)
def _block(length: int) -> IntArray:
    """The square root of suffix sums, columns of length 1 at most, in units of 2^-BITS.

    It has shape (length, length).

    Raises:
        CausalveilError: a column is longer, which rounding towards 0 excludes.
    """
    entries = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, length))])
    root = toeplitz(np.eye(1, length)[0], entries)
    whole: IntArray = np.trunc(root / np.linalg.norm(root, axis=0) * 2**BITS).astype(np.int64)
    if int((whole * whole).sum(axis=0).max()) > 4**BITS:
        raise CausalveilError("a column of the strategy is longer than 1; report this")
    return whole


@lru_cache(maxsize=16)
def strategy(grid: Grid, plain: bool) -> IntArray:
    """Return what is released of the cells of one arm, in units of 2^-BITS.

    It has shape (cells, cells).

    Args:
        grid: the grid.
        plain: the cells themselves, for noise that is Laplace's.
    """
    if plain:
        return np.eye(grid.cells, dtype=np.int64) << BITS
    blocks = [_block(grid.intervals)] * grid.kinds + [_block(grid.intervals + 1)]
    return np.asarray(block_diag(*blocks), dtype=np.int64)


def measured(counts: IntArray, grid: Grid, plain: bool) -> FloatArray:
    """Return the exact numbers that noise is added to, shape (numbers,).

    They are made of exact counts of both arms of all groups.
    """
    whole = counts.reshape(-1, grid.cells) @ strategy(grid, plain).T
    return np.asarray(whole.reshape(-1) / 2**BITS)


@dataclass(frozen=True)
class NoisyCells:
    """Released counts of the cells of both arms, with the covariance of their noise.

    Attributes:
        grid: the grid.
        counts: estimates without bias, shape (2, cells), which add up to n if it is public; they may be negative.
        noise: the covariance of their noise, shape (2 cells, 2 cells).
    """

    grid: Grid
    counts: FloatArray
    noise: FloatArray

    def part(self, arm: int, other: int | None = None) -> FloatArray:
        """Return the covariance of the noise of one arm's cells, or of theirs with another's."""
        size = self.grid.cells
        beside = arm if other is None else other
        return self.noise[arm * size : (arm + 1) * size, beside * size : (beside + 1) * size]


def read_blocks(released: FloatArray, grid: Grid, draw: Mechanism) -> tuple[FloatArray, FloatArray]:
    """Return unbiased counts by group, arm and cell, and the covariance of their noise.

    The covariance is that of one arm's, (cells, cells). Noise of arms and groups is independent, and of the same law in
    each.
    """
    plain = isinstance(draw, Laplace)
    back: FloatArray = np.linalg.inv(strategy(grid, plain) / 2**BITS)
    variance = draw.known_scale**2 * (2 if plain else 1)
    counts = (released.reshape(-1, grid.cells) @ back.T).reshape(grid.groups, grid.arms, grid.cells)
    return counts, back @ back.T * variance
