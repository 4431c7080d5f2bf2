"""Measures of dependence of two vectors: the four scores of additive-noise-model direction finding.

A variable that causes the other leaves residuals that do not depend on it, so the direction with the *smaller* score
wins (Kusner et al. 2016, Algorithm 1). Smaller is more independent: |Spearman's rho|, |Kendall's tau|, HSIC
(Gretton et al. 2005, the biased estimate trace(KHLH)/(m - 1)^2), and log IQR(a) + log IQR(b), their own.

Ranks are a permutation: ties are broken by an order that the caller passes, in a run by the keyed hash of the unit,
since the sensitivities are proved for permutations and the order of rows may depend on the data.
"""

from __future__ import annotations

import math

import numpy as np

from causalveil.tasks.direction.kernel_ridge import Kernel
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.machine.distribute import one_thread

CHUNK = 8_192


def ranks(values: FloatArray, ties: IntArray | None = None) -> IntArray:
    """Ranks 0 .. m - 1, a permutation, shape (m,).

    Args:
        values: shape (m,), finite.
        ties: a permutation, shape (m,): of equal values the one with the smaller number comes first. None: the
            one that stands first.
    """
    order = np.argsort(values, kind="stable") if ties is None else np.lexsort((ties, values))
    result = np.empty(len(values), dtype=np.int64)
    result[order] = np.arange(len(values))
    return result


def spearman(a: FloatArray, b: FloatArray, ties: tuple[IntArray | None, IntArray | None] = (None, None)) -> float:
    """Return |rho|, the absolute Spearman rank correlation of a and b, in [0, 1].

    |rho| = |1 - 6 sum d_i^2 / (m (m^2 - 1))| of the ranks of a and b, shape (m,) each, m >= 2.
    """
    m = len(a)
    total = sum_of_squares(ranks(a, ties[0]) - ranks(b, ties[1]), m)
    return abs(m * (m * m - 1) - 6 * total) / (m * (m * m - 1))


def sum_of_squares(numbers: IntArray, below: int) -> int:
    """Sum of the squares of whole numbers, exactly.

    They are all of absolute value less than ``below``, at most 2^31.
    """
    # So few at once that 64 bits hold their sum, whatever they are: a wrapped one would move by 2^64 for one row.
    rows = max(1, min(CHUNK, (1 << 62) // below**2))
    parts = (numbers[first : first + rows] for first in range(0, len(numbers), rows))
    return sum(int(part @ part) for part in parts)


def kendall(a: FloatArray, b: FloatArray, ties: tuple[IntArray | None, IntArray | None] = (None, None)) -> float:
    """Return |tau|, the absolute Kendall rank correlation of a and b, in [0, 1].

    |tau| = |C - D| / (m (m - 1)/2) of the ranks of a and b, shape (m,) each, m >= 2, in O(m log m).
    """
    from scipy.stats import kendalltau

    if len(a) < 3:
        return 1.0  # one pair of rows; scipy's p-value divides by zero there
    # The p-value that comes with it is not used; its asymptotic form costs nothing.
    tau = kendalltau(ranks(a, ties[0]), ranks(b, ties[1]), method="asymptotic").statistic
    return min(abs(float(tau)), 1.0)


def hsic(a: FloatArray, b: FloatArray, kernel_a: Kernel, kernel_b: Kernel) -> float:
    """Return HSIC of a and b, shape (m,) each, m >= 2, in [0, (m/(m - 1))^2/4].

    It is trace(KHLH)/(m - 1)^2. With K = FF' and L = GG' it is ||F'HG||^2/(m - 1)^2: chunks of rows of two narrow
    matrices, never an m x m matrix.
    """
    m = len(a)
    cross = np.zeros((kernel_a.dimension, kernel_b.dimension))
    total_a, total_b = np.zeros(kernel_a.dimension), np.zeros(kernel_b.dimension)
    # Small products: threads of BLAS would wait for each other longer than they compute.
    with one_thread():
        for first in range(0, m, CHUNK):
            f, g = kernel_a.features(a[first : first + CHUNK]), kernel_b.features(b[first : first + CHUNK])
            cross += f.T @ g
            total_a += f.sum(axis=0)
            total_b += g.sum(axis=0)
    covariance = cross / m - np.multiply.outer(total_a / m, total_b / m)
    return float(np.sum(covariance**2)) * (m / (m - 1)) ** 2


def quartile_places(m: int) -> tuple[int, int]:
    """Return the places, from 0, of the lower and upper quartile among m sorted values.

    They are ceil(m/4) - 1 and ceil(3m/4) - 1.
    """
    return -(-m // 4) - 1, -(-3 * m // 4) - 1


def log_iqr(values: FloatArray) -> float:
    """Natural logarithm of the interquartile range of values, shape (m,); -infinity if it is 0."""
    low, high = quartile_places(len(values))
    parted = np.partition(values, (low, high))
    width = float(parted[high] - parted[low])
    return math.log(width) if width > 0 else -math.inf


def iqr_score(a: FloatArray, b: FloatArray) -> float:
    """Return log IQR(a) + log IQR(b) of vectors of shape (m,).

    It is -infinity if one of the ranges is 0.
    """
    return log_iqr(a) + log_iqr(b)
