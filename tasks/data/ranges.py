"""Find ranges of numbers privately, from one noisy histogram of magnitudes on a fixed grid.

Each unit adds one to at most one bin of each column, so replacing a unit moves the d columns' counts by at most 2 d in
the L1 norm. The grid (1, 2, 5 times powers of ten, both signs, and zero) is public and the same for all data, so a bin
tells a magnitude and nothing finer. Proof: ``docs/proofs/ranges.md``.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from causalveil.schemas.admission import wrong_types
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout
from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.schemas.studies import FoundRange, RangesStudy
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.partitions import column_types, read_rows
from causalveil.tasks.data.split import HASH_LABEL, keyed_hash
from causalveil.tasks.machine.arrays import FloatArray, IntArray, values_of
from causalveil.tasks.privacy.keys import key_of
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
    """Count the values in each bin, shape (BINS,).

    Bin i holds EDGES[i - 1] <= x < EDGES[i]; nulls and NaN in none.
    """
    numbers = values.cast(pl.Float64).drop_nulls().drop_nans().to_numpy()
    bins: IntArray = np.bincount(np.searchsorted(EDGES, numbers, side="right"), minlength=BINS).astype(np.int64)
    return bins


def mechanism(columns: int, cost: PrivacyCost) -> Laplace:
    """Return Laplace noise for the counts of ``columns`` columns."""
    return Laplace(Sensitivity(2.0 * columns, Norm.l1, "2 d"), cost)


def release(study: RangesStudy, histogram: IntArray, budget: Budget) -> FloatArray:
    """Return the counts with noise on each, shape (d, BINS)."""
    noisy = mechanism(len(study.numbers), study.privacy.cost).release(
        histogram.astype(np.float64).ravel(), SLOT, budget
    )
    return noisy.reshape(len(study.numbers), BINS)


def threshold(columns: int, scale: float) -> float:
    """Return the count that any empty bin exceeds with probability FALSE_BIN at most.

    A Laplace draw of scale b exceeds t with probability exp(-t/b)/2; the bound is the union over all bins.
    """
    return scale * math.log(columns * BINS / (2 * FALSE_BIN))


def ranges_of(study: RangesStudy, noisy: FloatArray) -> tuple[FoundRange, ...]:
    """Return the range of each column from its noisy bins; post-processing.

    It reaches from the lower edge of the lowest bin above the threshold to the upper edge of the highest.
    """
    least = threshold(len(study.numbers), mechanism(len(study.numbers), study.privacy.cost).known_scale)
    ranges = []
    for name, row in zip(study.numbers, noisy, strict=True):
        filled = np.flatnonzero(row > least)
        if not filled.size:
            ranges.append(FoundRange(column=name, lower=None, upper=None))
            continue
        # Values beyond the grid get its last edge.
        lower = EDGES[max(int(filled[0]) - 1, 0)]
        upper = EDGES[min(int(filled[-1]), len(EDGES) - 1)]
        ranges.append(FoundRange(column=name, lower=float(min(lower, EDGES[-2])), upper=float(max(upper, EDGES[1]))))
    return tuple(ranges)


ROWS = 1_000_000


def check_kinds(study: RangesStudy, folder: DataFolder, layout: Layout) -> None:
    """Check by footers, before the run reserves, that all partitions have numeric columns.

    Raises:
        DataError: a column is missing or is no number.
    """
    for partition in layout.partitions:
        wrong = wrong_types(study.roles, column_types(folder, partition)) if partition.rows else {}
        for name, rule in wrong.items():
            raise DataError(f"{partition.path}: column '{name}' {rule}")


def count_stage(study: RangesStudy, folder: DataFolder, layout: Layout, run_id: str) -> IntArray:
    """Count each column's values, shape (d, BINS); the counts stay inside the enclave.

    Raises:
        DataError: the rows are not those that were admitted, or a unit has two.
    """
    key = key_of(run_id, None).subkey(HASH_LABEL)
    histogram, tags = np.zeros((len(study.numbers), BINS), dtype=np.int64), []
    for partition in layout.partitions:
        for frame in read_rows(folder, partition, study.roles, ROWS):
            tags.append(keyed_hash(values_of(frame, study.data.unit), key))
            histogram += np.stack([counts(values_of(frame, name)) for name in study.numbers])
    # Checked again on the rows that were counted: the sensitivity depends on it.
    if len(np.unique(np.concatenate(tags), axis=0)) < layout.units:
        raise DataError(f"column '{study.data.unit}' names a unit twice; a range is found where each unit has one row")
    return histogram
