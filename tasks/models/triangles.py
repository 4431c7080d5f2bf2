"""Symmetric matrices as the upper triangles that are released of them, row by row."""

from __future__ import annotations

import math

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray


def triangle_weights(size: int) -> FloatArray:
    """Return the factors of entries of an upper triangle, row by row.

    Those off the diagonal stand for two.
    """
    upper = np.triu_indices(size)
    return np.where(upper[0] == upper[1], 1.0, math.sqrt(2))


def symmetric(triangle: FloatArray, size: int) -> FloatArray:
    """The matrix of an upper triangle, row by row."""
    found = np.zeros((size, size))
    found[np.triu_indices(size)] = triangle
    return found + np.triu(found, 1).T
