"""Slopes of each arm, by which slopes that serve both arms lean towards those of the smaller one.

A difference of arm means is adjusted by (1 - p) b_1 + p b_0, p the treated share and b_t the slopes of one arm (Lin
2013). Slopes of both arms together are another average wherever the arms' second moments differ or p is not one half:
a flag that drives treatment varies less in one arm. So the difference of the arms' second moments is released beside
their sum, and believed as far as it exceeds its noise. Post-processing of released values; proofs:
``docs/proofs/aipw.md``, section 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.tasks.aipw.shrinkage import SMALLEST_EIGENVALUE, loose_part, raised_by
from causalveil.tasks.machine.arrays import FloatArray

# Of what sets the treated's second moments apart, controls' have the opposite.
SIGNS = np.array([1.0, -1.0])


@dataclass(frozen=True)
class ArmMoments:
    """Second moments within each arm, along the eigenvectors of both arms' together.

    Attributes:
        matrices: of treated and controls, shape (2, d, d).
        inverses: of them, eigenvalues raised to a floor, shape (2, d, d).
        raised: how much smaller they are than without a floor below eigenvalues, shape (2, d, d).
        noise: deviation of each entry of the difference between arms, by noise and by what shrinkage took off.
        factor: by which that difference was shrunk, in [0, 1].
    """

    matrices: FloatArray
    inverses: FloatArray
    raised: FloatArray
    noise: float
    factor: float


def alike(values: FloatArray, parts: FloatArray) -> ArmMoments:
    """Each arm's part of the second moments of both, where nothing tells them apart.

    Args:
        values: their eigenvalues, above 0, shape (d,).
        parts: of treated and controls, shape (2,).
    """
    matrices = parts[:, None, None] * np.diag(values)
    inverses = np.diag(1 / values) / parts[:, None, None]
    return ArmMoments(matrices, inverses, np.zeros_like(inverses), 0.0, 0.0)


def arm_moments(
    apart: FloatArray, values: FloatArray, parts: FloatArray, noise: float, own: float, constant: int = 0
) -> ArmMoments:
    """Each arm's part of both arms' second moments, and what sets it apart as far as that exceeds its noise's square.

    Where a direction of an arm cannot be told from noise the arms' second moments are taken to be alike.

    Args:
        apart: of the treated less their part of both arms', along eigenvectors of these, shape (d, d).
        values: eigenvalues of both arms' together, above 0, shape (d,).
        parts: of treated and controls, shape (2,).
        noise: deviation of the noise on each entry of both arms'; on diagonal ones sqrt(2) times as much.
        own: deviation of the noise on each entry of ``apart``, likewise.
        constant: in how many directions x never varies, publicly.
    """
    d, square = len(values), float(np.sum(apart**2))
    factor = max(0.0, 1 - own**2 * d * (d + 1) / square) if square > 0 else 0.0
    matrices = parts[:, None, None] * np.diag(values) + SIGNS[:, None, None] * factor * apart
    inverses, raised = [], []
    for matrix, part in zip(matrices, parts.tolist(), strict=True):
        raw, vectors = np.linalg.eigh(matrix)
        mean = part * float(values.mean())
        if loose_part(float(raw[min(constant, d - 1)]), mean, d, math.hypot(part * noise, own)) == 1.0:
            return alike(values, parts)
        floored = np.maximum(raw, SMALLEST_EIGENVALUE * mean)
        inverses.append(vectors / floored @ vectors.T)
        raised.append(vectors * raised_by(raw, floored, constant) @ vectors.T)
    # What shrinkage by f leaves of the noise and takes off the signal is f of the noise's square on average.
    return ArmMoments(matrices, np.array(inverses), np.array(raised), math.sqrt(factor) * own, factor)


@dataclass(frozen=True)
class Distance:
    """How far the arms lie apart, D, as released with noise.

    Attributes:
        seen: D, shape (d,).
        noise: deviation of the noise on each entry of it.
        caution: so many deviations are added to squares of it: noise that hides a distance does not free slopes of
            error.
    """

    seen: FloatArray
    noise: float
    caution: float

    def square(self, form: FloatArray) -> float:
        """D'QD of a symmetric Q without negative eigenvalues, shape (d, d), less what noise adds to it on average."""
        added = self.noise**2
        square = float(self.seen @ form @ self.seen) - added * float(np.trace(form))
        moved = float(np.sum((form @ self.seen) ** 2)) - added * float(np.sum(form**2))
        spread = 2 * added**2 * float(np.sum(form**2)) + 4 * added * max(moved, 0.0)
        return max(0.0, square) + self.caution * math.sqrt(spread)


def moved_by(
    slopes: FloatArray,
    levers: FloatArray,
    apart: FloatArray,
    distance: Distance,
    noise: float,
    mean_noise: float | None = None,
) -> float:
    """Variance of sum_k (L_k D)'E b_k, E symmetric noise on second moments, on the diagonal of twice the variance.

    With S = sum_k b_k (L_k D)' it is noise^2 (|S|^2 + tr S^2), of which 2/d noise^2 (tr S)^2 is that of the mean
    eigenvalue.

    Args:
        slopes: b_k, shape (k, d).
        levers: L_k, shape (k, d, d).
        apart: D, shrunk, shape (d,).
        distance: D as released.
        noise: deviation of each entry off the diagonal.
        mean_noise: deviation of the mean eigenvalue, where that is another than these entries have.
    """
    d = len(apart)
    form = np.einsum("ki,li,kab,lac->bc", slopes, slopes, levers, levers, optimize=True)
    matrix = np.einsum("ki,kab,b->ia", slopes, levers, apart)
    whole = distance.square(form) + float(np.sum(matrix * matrix.T))
    if mean_noise is None:
        return noise**2 * max(0.0, whole)
    trace = np.einsum("ki,kia->a", slopes, levers)
    mean = distance.square(np.outer(trace, trace))
    return noise**2 * max(0.0, whole - 2 / d * mean) + mean_noise**2 * mean


def moved_by_centres(
    slopes: FloatArray,
    levers: FloatArray,
    apart: FloatArray,
    centres: FloatArray,
    noise: float,
    shares: FloatArray,
    slopes_noise: FloatArray,
) -> float:
    """Variance of sum_k (L_k D)'E_k b_k, E_k what noise in the arms' means of x does to second moments around them.

    Second moments around an arm's mean c_s lose n p_s c_s c_s', and noise e_s in n p_s c_s moves that by
    c_s e_s' + e_s c_s'. What noise in the slopes adds to the square on average is taken off: with many columns it is
    most of it.

    Args:
        slopes: b_k, shape (k, d).
        levers: L_k, shape (k, d, d).
        apart: D, shrunk, shape (d,).
        centres: c_s, shape (2, d).
        noise: deviation of each entry of e_s.
        shares: by how much of arm s's loss the second moments of b_k move, shape (k, 2).
        slopes_noise: what b_k holds of the standard normal noise of arm t, shape (k, 2, d, d).
    """
    turned = levers @ apart
    # Of arm s and slopes k, what b_k is multiplied by.
    factors = np.einsum("ka,sa->sk", turned, centres)[:, :, None, None] * np.eye(len(apart))
    factors = shares.T[:, :, None, None] * (factors + np.einsum("ka,sb->skab", turned, centres))
    moved = np.einsum("skab,kb->sa", factors, slopes)
    added = np.einsum("skab,ktbc->stac", factors, slopes_noise, optimize=True)
    return noise**2 * float(np.maximum(np.sum(moved**2, axis=1) - np.sum(added**2, axis=(1, 2, 3)), 0.0).sum())
