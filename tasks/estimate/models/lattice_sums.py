"""Sum rows exactly on a lattice.

Sums are exact in float64, so that no order of rows and no number of threads changes a bit. A contribution that is no
number becomes one here and nowhere else. Of a symmetric matrix the upper triangle is released, row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np

from causalveil.schemas.privacy import Norm
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.split import Pieces
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import distribute
from causalveil.tasks.privacy.mechanisms import Sensitivity


def bounded(values: FloatArray) -> FloatArray:
    """Return values cut to [-1, 1].

    NaN and infinities become 0, a value that every contribution may have and that lengthens none.

    Declared numbers are checked (``schemas/columns.py``), so nothing here is ever infinite or NaN. If it were,
    an integer made of it would be the smallest there is, and one row would move a sum by 2^63.
    """
    cut: FloatArray = np.clip(values, -1.0, 1.0)
    finite = np.isfinite(values)
    return cut if finite.all() else np.where(finite, cut, 0.0)


R = TypeVar("R", bound=Rows)
LARGEST_EXPONENT = 32


def lattice_exponent(units: int) -> int:
    """Return G of the finest lattice 2^-G on which float64 sums are exact.

    The sums are of ``units`` numbers in [-1, 1].
    """
    return min(LARGEST_EXPONENT, 52 - math.ceil(math.log2(max(units, 1))))


# Rows whose sums are made at once.
CHUNK = 8_192


# Entries are multiples of 2^-BITS, so products are of 2^-2 BITS, and 2^(53 - 2 BITS) of them add up exactly.
BITS = 18


def on_lattice(values: FloatArray) -> FloatArray:
    """Return ``values`` clipped to [-1, 1] and rounded towards 0 to multiples of 2^-BITS."""
    step = 2.0**BITS
    rounded: FloatArray = np.trunc(bounded(values) * step) / step
    return rounded


def weighed(values: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Return values, shape (..., rows), times weights in [0, 1] if any, on the lattice.

    With roots of weights, products of two such values have the weight itself.
    """
    return values if weights is None else on_lattice(values * weights)


def exact_sums(
    pieces: Pieces, function: Callable[[R], FloatArray], numbers: int, workers: int, bits: int = 2 * BITS
) -> FloatArray:
    """Return exact sums over all rows of a function of chunks, for any order of rows.

    Chunks are small enough for their sums of lattice products to be exact floats in any order of addition, and add up
    as whole numbers: 2^-36 n stays below 2^63 for n up to 10^8.

    Args:
        pieces: the rows.
        function: from a chunk of rows to its sums, shape (numbers,), of products of at most two lattice numbers.
        numbers: number of sums.
        workers: threads, where work is not distributed otherwise.
        bits: products are multiples of 2^-bits.

    Returns:
        The sums, shape (numbers,).
    """
    step = 2.0**bits

    def piece(index: int) -> list[int]:
        rows = cast(R, pieces.rows(index))
        totals = np.zeros(numbers, dtype=np.int64)
        for first in range(0, len(rows), CHUNK):
            part = cast(R, rows[first : first + CHUNK])
            totals += (function(part) * step).astype(np.int64)
        return totals.tolist()

    parts = distribute(piece, pieces.count, workers)
    whole = [sum(column) for column in zip(*parts, strict=True)] if parts else [0] * numbers
    return np.array([total / 2**bits for total in whole])


def sums_sensitivity(numbers: int, units: int | None, size: float = 2.0) -> Sensitivity:
    """Return the L2 sensitivity of exact sums rounded to floats: ``size`` plus the rounding.

    There are ``numbers`` sums, each over ``units`` units.
    """
    value = None if units is None else (size + math.sqrt(numbers) * units * 2.0**-51) * (1 + 1e-12)
    return Sensitivity(value, Norm.l2, f"{size:.4g}")


def triangle_weights(size: int) -> FloatArray:
    """Return factors of entries of an upper triangle, row by row; off the diagonal sqrt(2)."""
    upper = np.triu_indices(size)
    return np.where(upper[0] == upper[1], 1.0, math.sqrt(2))


def symmetric(triangle: FloatArray, size: int) -> FloatArray:
    """Return the matrix of an upper triangle, row by row."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size)] = triangle
    return matrix + np.triu(matrix, 1).T
