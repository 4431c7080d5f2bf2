"""Residuals of each variable given the other: kernel ridge regressions in both directions.

    f minimises (penalty/2) ||w||^2 + (1/n) sum_i (w'phi(x_i) - y_i)^2 over the n training rows,
    r_Y = y' - f(x') on the test rows, and r_X = x' - g(y') with g the regression of x on y (Kusner et al. 2016, (5)).

Both variables lie in [-1, 1] by declared bounds, and so do predictions, which are clipped to it. scikit-learn's
KernelRidge has alpha = n penalty/2, gamma = 1/(2 bandwidth^2).

The kernel is Gaussian with a public bandwidth: k(u) = exp(-u^2 / (2 h^2)), made periodic with a period far beyond the
interval, has the Fourier coefficients of a Gaussian, which are positive and vanish quickly. Cut where they fall below a
float's precision they give a map phi of a few cosines and sines into d dimensions (51 for h = 0.2 on [-1, 1]) with

    ||phi(v)|| = 1 for every v, exactly but for rounding,       |phi(v)'phi(w) - k(v - w)| <= ``PRECISION``.

So a regression is a system of d equations, summed over chunks of rows: O(n d^2) time and O(d^2) memory beyond a chunk,
at any n, and no random feature is drawn. What the privacy proofs ask of a kernel is ||phi|| <= 1, which holds by
construction, and k in [0, 1], which the difference charged for covers (``docs/proofs/direction.md``, section 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from causalveil.schemas.errors import ConvergenceError, StudyError
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import distribute, one_thread

# Twice the largest |phi(v)'phi(w) - k(v - w)|: cut coefficients, neighbouring periods, rounding of angles and sums.
PRECISION = 1e-12
# exp(-CUT^2 / 2) = 2.5e-17.
CUT = 8.75
NARROWEST, WIDEST = 0.02, 10.0


@dataclass(frozen=True)
class Kernel:
    """A Gaussian kernel with a public bandwidth, for values in [-radius, radius].

    Args:
        bandwidth: h in [0.02, 10], in units of the values.
        radius: above 0.

    Raises:
        StudyError: a bandwidth outside its range.
    """

    bandwidth: float
    radius: float

    def __post_init__(self) -> None:
        """Refuse a bandwidth for which the map has too many dimensions."""
        if not NARROWEST <= self.bandwidth <= WIDEST:
            raise StudyError(f"a kernel's bandwidth must lie between {NARROWEST:g} and {WIDEST:g}")

    @property
    def dimension(self) -> int:
        """d, the number of features: one constant, and a cosine and a sine for each frequency."""
        return 2 * len(self._frequencies) + 1

    @property
    def lipschitz(self) -> float:
        """Largest slope of k(u): exp(-1/2)/h, rounded up."""
        return math.exp(-0.5) / self.bandwidth * (1 + 1e-12)

    def features(self, values: FloatArray) -> FloatArray:
        """phi of each value, shape (n,) to shape (n, d); values beyond the radius are clipped to it."""
        angles = np.multiply.outer(np.clip(values, -self.radius, self.radius), self._frequencies)
        result = np.empty((len(values), self.dimension))
        result[:, 0] = self._amplitudes[0]
        np.multiply(np.cos(angles), self._amplitudes[1:], out=result[:, 1 : len(self._frequencies) + 1])
        np.multiply(np.sin(angles), self._amplitudes[1:], out=result[:, len(self._frequencies) + 1 :])
        return result

    @property
    def _half_period(self) -> float:
        """Two values are at most 2 radius apart, so the next period's bump is CUT bandwidths away."""
        return self.radius + CUT * self.bandwidth / 2

    @cached_property
    def _frequencies(self) -> FloatArray:
        count = math.ceil(CUT * self._half_period / (math.pi * self.bandwidth))
        return np.arange(1, count + 1, dtype=np.float64) * np.float64(math.pi / self._half_period)

    @cached_property
    def _amplitudes(self) -> FloatArray:
        """Square roots of the coefficients, which are made to add up to 1: constant first, shape (1 + frequencies,)."""
        squares = np.exp(-((self._frequencies * self.bandwidth) ** 2) / 2)
        coefficients = np.concatenate([[0.5], squares])
        return np.asarray(np.sqrt(coefficients / coefficients.sum()))


Pairs = Callable[[int], FloatArray]
"""``pairs(index)``: the (x, y) of one segment, shape (rows, 2), both in [-1, 1]."""

CHUNK = 8_192
# Largest norm of the computed gradient at which a fit is accepted, the rounding of its sums included; charged.
TOLERANCE = 1e-10
# Predictions are rounded to this lattice; charged.
STEP = 2.0**-32


@dataclass(frozen=True)
class Regression:
    """A function of one variable: w'phi(v), clipped to [-1, 1]; ``weights`` has shape (d,)."""

    kernel: Kernel
    weights: FloatArray

    def predict(self, values: FloatArray) -> FloatArray:
        """Predictions in [-1, 1], shape (m,) for values of shape (m,); multiples of ``STEP``.

        Equal values have equal predictions then, whatever a product's rounding makes of their places: rows that tie
        are ranked by their keyed order, not by the last bit of a float.
        """
        result = np.empty(len(values))
        with one_thread():
            for first in range(0, len(values), CHUNK):
                result[first : first + CHUNK] = self.kernel.features(values[first : first + CHUNK]) @ self.weights
        return np.clip(np.rint(result / STEP) * STEP, -1.0, 1.0)


def fit(pairs: Pairs, segments: int, cause: int, penalty: float, bandwidth: float, workers: int = 1) -> Regression:
    """Return the regression of the other column on column ``cause`` (0: x, 1: y).

    Args:
        pairs: training rows of a segment, shape (rows, 2) in [-1, 1].
        segments: how many there are.
        cause: the column that predicts.
        penalty: in (0, 1].
        bandwidth: of the Gaussian kernel.
        workers: threads.

    Raises:
        ConvergenceError: no training rows, or the equations were not solved to ``TOLERANCE``.
    """
    kernel = Kernel(bandwidth, 1.0)
    parts = distribute(lambda index: _sums(pairs(index), cause, kernel), segments, workers)
    units = sum(rows for rows, _, _ in parts)
    if units == 0:
        raise ConvergenceError("there are no training units to fit a regression to")
    gram = np.sum([square for _, square, _ in parts], axis=0) * (2 / units) + penalty * np.eye(kernel.dimension)
    right = np.sum([vector for _, _, vector in parts], axis=0) * (2 / units)
    with one_thread():
        weights = np.linalg.solve(gram, right)
    gradient = float(np.linalg.norm(gram @ weights - right))
    # ||w|| <= 1/sqrt(2 penalty) for the minimiser; what the sums' rounding adds to the gradient grows with it.
    if not (gradient <= TOLERANCE / 2 and np.linalg.norm(weights) <= 1 / math.sqrt(penalty)):
        raise ConvergenceError("the regression did not reach its declared tolerance; raise 'penalty'")
    return Regression(kernel, weights)


def _sums(pairs: FloatArray, cause: int, kernel: Kernel) -> tuple[int, FloatArray, FloatArray]:
    """Rows, sum of phi phi', shape (d, d), and sum of phi times the other column, shape (d,)."""
    square, vector = np.zeros((kernel.dimension, kernel.dimension)), np.zeros(kernel.dimension)
    for first in range(0, len(pairs), CHUNK):
        chunk = pairs[first : first + CHUNK]
        features = kernel.features(chunk[:, cause])
        square += features.T @ features
        vector += features.T @ chunk[:, 1 - cause]
    return len(pairs), square, vector


def residuals(train: FloatArray, test: FloatArray, penalty: float, bandwidth: float) -> tuple[FloatArray, FloatArray]:
    """(r_Y, r_X) on the test rows, shape (m,) each, in [-2, 2], for arrays that are at hand.

    Args:
        train: (x, y) in [-1, 1], shape (n, 2).
        test: (x', y') in [-1, 1], shape (m, 2).
        penalty: in (0, 1].
        bandwidth: of the Gaussian kernel.

    Raises:
        ConvergenceError: see :func:`fit`.
    """
    f, g = (fit(lambda _: train, 1, cause, penalty, bandwidth) for cause in (0, 1))
    return test[:, 1] - f.predict(test[:, 0]), test[:, 0] - g.predict(test[:, 1])
