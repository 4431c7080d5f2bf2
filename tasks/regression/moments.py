"""Release 2: cross moments of features with residuals and with treatment, and the Gram matrix, which is free.

Rows xs in the unit ball, rho = (u - m_t)/L cut to [-1, 1], tau = (t - p)/max(p, 1 - p): the vector (sum xs rho,
sum xs tau, sum rho^2, sum xs xs') with the Frobenius norm for the matrix has sensitivity sqrt(8), which is what its
first two parts have at opposite rows alone (``docs/proofs/regression.md``, section 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.models.lattice_sums import exact_sums, on_lattice
from causalveil.tasks.regression.features import Features

# The mean square of residuals is taken to be at least half its noise and so much.
LEAST_SQUARE = 1e-4


def moment_numbers(features: int) -> int:
    """How many numbers release 2 has with d features."""
    return 2 * features + 1 + features * (features + 1) // 2


def moment_sums(pieces: Pieces, features: Features, workers: int = 1) -> FloatArray:
    """The exact sums of release 2, shape (moment_numbers(d),).

    The matrix is its upper triangle row by row; entries off the diagonal are multiplied by sqrt(2), so that the
    Euclidean norm of the triangle is the Frobenius norm of the matrix.
    """
    d, scales = features.count, features.scales
    upper = np.triu_indices(d)
    treated = on_lattice(np.array([-scales.share, 1 - scales.share]) / scales.larger)

    def of(rows: Rows) -> FloatArray:
        rho = on_lattice(scales.residuals(rows))
        tau = treated[(rows.t != 0).astype(np.intp)]
        cross, apart, gram = np.zeros(d), np.zeros(d), np.zeros((d, d))
        for first, xs in features.blocks(rows.x):
            part = slice(first, first + xs.shape[1])
            cross += xs @ rho[part]
            apart += xs @ tau[part]
            gram += xs @ xs.T
        return np.concatenate([cross, apart, [rho @ rho], gram[upper]])

    sums = exact_sums(pieces, of, moment_numbers(d), workers)
    sums[2 * d + 1 :] *= np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    return sums


@dataclass(frozen=True)
class JointMoments:
    """What release 2 says, as means over the units, with standard deviations of the noise on each entry.

    Attributes:
        cross: q, mean of xs rho, shape (d,).
        apart: D, mean of xs among treated minus among controls, shape (d,).
        square: mean of rho^2, above 0.
        gram: mean of xs xs', shape (d, d), symmetric.
        cross_error, apart_error: of the noise on each entry of q and of D.
        gram_error: of the noise on each entry of the Gram matrix off its diagonal; sqrt(2) times that on it.
        shifts: of what is left of each feature's mean, shape (d,).
        unseen: what is left of a feature's confounding over what it shows, shape (d,), >= 0.
    """

    cross: FloatArray
    apart: FloatArray
    square: float
    gram: FloatArray
    cross_error: float
    apart_error: float
    gram_error: float
    shifts: FloatArray
    unseen: FloatArray

    def of(self, places: IntArray) -> JointMoments:
        """Moments of these features alone."""
        return replace(
            self,
            cross=self.cross[places],
            apart=self.apart[places],
            shifts=self.shifts[places],
            unseen=self.unseen[places],
            gram=self.gram[np.ix_(places, places)],
        )

    def centred(self) -> tuple[JointMoments, FloatArray]:
        """Moments of all features but the last, a constant, less their projection on it; and its coefficients.

        A row's constant is 1 over the length that it was divided by, so a feature less its coefficient times the
        constant has about mean 0.
        """
        coefficients = self.gram[:-1, -1] / max(float(self.gram[-1, -1]), self.gram_error)
        found = replace(
            self,
            cross=self.cross[:-1] - coefficients * self.cross[-1],
            apart=self.apart[:-1] - coefficients * self.apart[-1],
            shifts=self.shifts[:-1],
            unseen=self.unseen[:-1],
            gram=self.gram[:-1, :-1] - np.outer(coefficients, self.gram[:-1, -1]),
        )
        return found, coefficients

    def left_alike(self, lines: IntArray, slopes: FloatArray, weights: FloatArray, between: float, units: int) -> float:
        """How clearly the other features still part the arms as they move the outcome once lines are adjusted for.

        The sum over these features of what is left of q times what is left of D, each in units of its mean square, over
        its standard deviation by noise and sampling where lines leave nothing: about standard normal there.

        Args:
            lines: places of the features that are adjusted for.
            slopes: b of all features, 0 at other places, shape (d,).
            weights: h of all features, likewise.
            between: p (1 - p).
            units: n.
        """
        within = self.gram - between * np.outer(self.apart, self.apart)
        rest = np.setdiff1d(np.arange(len(self.cross)), lines)
        size = np.maximum(np.diagonal(within)[rest], self.gram_error)
        cross, apart = (self.cross - within @ slopes)[rest], (self.apart - within @ weights)[rest]
        of_gram = self.gram_error**2
        cross_square = self.cross_error**2 + of_gram * float(slopes @ slopes) + size * self.square / units
        apart_square = self.apart_error**2 + of_gram * float(weights @ weights) + size / (units * between)
        variance = cross_square * apart_square
        variance += cross_square * np.maximum(apart**2 - apart_square, 0.0)
        variance += apart_square * np.maximum(cross**2 - cross_square, 0.0)
        # The same noise of the Gram matrix is in both.
        alike = cross * apart - of_gram * float(slopes @ weights)
        return float(np.sum(alike / size)) / math.sqrt(float(np.sum(variance / size**2)))


def moments_from(released: FloatArray, units: int, noise: float, features: Features) -> JointMoments:
    """What the released sums say.

    Args:
        released: of :func:`moment_sums`, noisy.
        units: n.
        noise: standard deviation of the noise on each number.
        features: whose moments they are.
    """
    d, scales = features.count, features.scales
    upper = np.triu_indices(d)
    means = released / units
    triangle = np.zeros((d, d))
    triangle[upper] = means[2 * d + 1 :] * np.where(upper[0] == upper[1], 1.0, math.sqrt(0.5))
    # tau is (t - p)/max(p, 1 - p), and the mean of (t - p) xs is p (1 - p) D.
    per_tau = scales.larger / scales.between
    return JointMoments(
        cross=means[:d],
        apart=means[d : 2 * d] * per_tau,
        square=max(float(means[2 * d]), noise / units / 2 + LEAST_SQUARE),
        gram=triangle + np.triu(triangle, 1).T,
        cross_error=noise / units,
        apart_error=noise / units * per_tau,
        gram_error=noise / units * math.sqrt(0.5),
        shifts=features.shifts,
        unseen=features.unseen,
    )
