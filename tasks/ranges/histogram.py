"""A histogram of magnitudes on a fixed grid, released with Laplace noise, and the range that its counts leave.

Each unit adds one to at most one bin of each column, so replacing a unit moves the d columns' counts by at most 2 d in
the L1 norm. The grid (1, 2, 5 times powers of ten, both signs, and zero) is public and the same for all data, so a bin
says a magnitude and nothing finer. Proof: ``docs/proofs/ranges.md``.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.schemas.ranges import FoundRange, RangesStudy
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.privacy.mechanisms import Budget, Laplace, Sensitivity, Slot

SLOT = Slot(name="ranges", scope=Scope.all)
# Magnitudes from a billionth to five trillion.
_POSITIVE = tuple(float(f"{digit}e{power}") for power in range(-9, 13) for digit in (1, 2, 5))
EDGES: FloatArray = np.array([*(-edge for edge in reversed(_POSITIVE)), 0.0, *_POSITIVE])
# One bin below the lowest edge, one above each edge.
BINS = len(EDGES) + 1
# By noise alone, the probability that any empty bin of any column counts as filled.
FALSE_BIN = 1e-3


def counts(values: pl.Series) -> IntArray:
    """Values in each bin, shape (BINS,); bin i holds EDGES[i - 1] <= x < EDGES[i]; nulls and NaN in none."""
    numbers = values.cast(pl.Float64).drop_nulls().drop_nans().to_numpy()
    bins: IntArray = np.bincount(np.searchsorted(EDGES, numbers, side="right"), minlength=BINS).astype(np.int64)
    return bins


def mechanism(columns: int, cost: PrivacyCost) -> Laplace:
    """Laplace noise for the counts of so many columns."""
    return Laplace(Sensitivity(2.0 * columns, Norm.l1, "2 d"), cost)


def release(study: RangesStudy, histogram: IntArray, budget: Budget) -> FloatArray:
    """The counts, shape (d, BINS), with noise on each."""
    noisy = mechanism(len(study.numbers), study.privacy.cost).release(
        histogram.astype(np.float64).ravel(), SLOT, budget
    )
    return noisy.reshape(len(study.numbers), BINS)


def threshold(columns: int, scale: float) -> float:
    """Above it noise alone lifts some of ``columns * BINS`` empty bins with a probability of at most FALSE_BIN.

    A Laplace draw of scale b exceeds t with probability exp(-t/b)/2; the bound is the union over all bins.
    """
    return scale * math.log(columns * BINS / (2 * FALSE_BIN))


def found(study: RangesStudy, noisy: FloatArray) -> tuple[FoundRange, ...]:
    """From the lower edge of the lowest bin that counts to the upper edge of the highest: post-processing."""
    least = threshold(len(study.numbers), mechanism(len(study.numbers), study.privacy.cost).known_scale)
    ranges = []
    for name, row in zip(study.numbers, noisy, strict=True):
        filled = np.flatnonzero(row > least)
        if not filled.size:
            ranges.append(FoundRange(column=name, lower=None, upper=None))
            continue
        # Beyond the grid there is no edge: its last one stands.
        lower = EDGES[max(int(filled[0]) - 1, 0)]
        upper = EDGES[min(int(filled[-1]), len(EDGES) - 1)]
        ranges.append(FoundRange(column=name, lower=float(min(lower, EDGES[-2])), upper=float(max(upper, EDGES[1]))))
    return tuple(ranges)
