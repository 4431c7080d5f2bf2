"""The noisy Gram matrix of release 2 as a spectrum that can be inverted, and what its noise does to the estimate.

Symmetric noise spreads eigenvalues like charges that repel each other, and turns eigenvectors. The best values for the
noisy eigenvectors are lam_i - 2 e^2 sum_j 1/(lam_i - lam_j), e the noise of an entry off the diagonal (Bun, Allez,
Bouchaud and Potters 2016, for many dimensions), here with each 1/gap smoothed at e. Values below what the noise can
resolve are raised to a floor. Post-processing of released values: ``docs/proofs/regression.md``, section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.tasks.machine.arrays import BoolArray, FloatArray

# An eigenvalue is taken to be at least this part of the mean one, and the noise's own largest part.
LEAST_PART = 0.01
# The mean eigenvalue is taken to be at least this over their number: rows of the unit ball hardly have less.
LEAST_TRACE = 0.1
# Eigenvalues closer than this are one.
SAME = 1e-15


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues and eigenvectors of the Gram matrix, made positive.

    Attributes:
        values: xi, shape (d,), ascending, positive.
        vectors: U, shape (d, d), a column per value.
        floored: which values were raised to the floor, shape (d,).
        floor: the least value that is told from 0, over the mean one.
        kept: kappa, shape (d, d): how much of the noise between two directions is left in xi, 0 to 1.
    """

    values: FloatArray
    vectors: FloatArray
    floored: BoolArray
    floor: float
    kept: FloatArray

    @classmethod
    def of(cls, gram: FloatArray, error: float) -> Spectrum:
        """From a noisy Gram matrix, shape (d, d), and the noise's standard deviation off the diagonal."""
        d = len(gram)
        mean = max(float(np.trace(gram)) / d, LEAST_TRACE / d)
        noisy, vectors = np.linalg.eigh(gram)
        gaps = noisy[:, None] - noisy[None, :]
        pushed = 2 * error**2 * (gaps / (gaps**2 + max(error, SAME) ** 2)).sum(axis=1)
        raw = np.maximum.accumulate(noisy - pushed)
        floor = min(max(LEAST_PART * mean, error * math.sqrt(d)), mean)
        values = np.maximum(raw, floor)
        return cls(values, vectors, raw < floor, floor / mean, _kept(values, gaps))

    @property
    def inverse(self) -> FloatArray:
        """G^-1, shape (d, d)."""
        found: FloatArray = (self.vectors / self.values) @ self.vectors.T
        return found

    def along(self, vector: FloatArray) -> FloatArray:
        """A vector's coordinates in the eigenvectors, shape (d,)."""
        found: FloatArray = self.vectors.T @ vector
        return found

    def noise_bias(self, slopes: FloatArray, weights: FloatArray, within: FloatArray) -> float:
        """Mean of b'E W E h over e^2, E symmetric with independent entries of variance e^2 kappa, twice on the
        diagonal.

        ``within``: W, shape (d, d).
        """
        one, other = self.along(slopes), self.along(weights)
        turned, unit = self.vectors.T @ within @ self.vectors, np.eye(len(slopes))
        found = float((one * other) @ (self.kept * (1 + unit)) @ np.diagonal(turned))
        return found + float(one @ (self.kept * turned * (1 - unit)) @ other)


def _kept(values: FloatArray, gaps: FloatArray) -> FloatArray:
    """Gaps between shrunk eigenvalues over gaps between noisy ones; on the diagonal the larger of the two beside it."""
    same = np.abs(gaps) < SAME
    kept = np.clip((values[:, None] - values[None, :]) / np.where(same, 1.0, gaps), 0.0, 1.0)
    beside = np.diagonal(kept, offset=1)
    own = np.maximum(np.append(beside, 0.0), np.insert(beside, 0, 0.0)) if len(values) > 1 else np.ones(1)
    np.fill_diagonal(kept, own)
    return kept


def gram_variance(slopes: FloatArray, weights: FloatArray, within: FloatArray) -> float:
    """Variance of b'E W E h over e^4: E symmetric, independent normal entries of variance e^2, 2 e^2 on its diagonal.

    By Isserlis' theorem 2 (|A|^2 tr W^2 + 2 |W A|^2 + (b'W h)^2), A = (b h' + h b')/2.
    """
    turned_slopes, turned_weights = within @ slopes, within @ weights
    one, other, both = float(slopes @ slopes), float(weights @ weights), float(slopes @ weights)
    size = (one * other + both**2) * float(np.sum(within**2))
    turned = float(turned_slopes @ turned_slopes) * other + float(turned_weights @ turned_weights) * one
    turned += 2 * float(turned_slopes @ turned_weights) * both
    return size + turned + 2 * float(slopes @ turned_weights) ** 2
