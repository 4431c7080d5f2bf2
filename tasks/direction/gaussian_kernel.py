"""The Gaussian kernel on an interval as an inner product of a few cosines and sines.

k(u) = exp(-u^2 / (2 h^2)), made periodic with a period far beyond the interval, has the Fourier coefficients of a
Gaussian, which are positive and vanish quickly. Cut where they fall below a float's precision they give a map phi
into d dimensions (51 for h = 0.2 on [-1, 1]) with

    ||phi(v)|| = 1 for every v, exactly but for rounding,       |phi(v)'phi(w) - k(v - w)| <= ``PRECISION``.

So kernel methods cost O(n d^2) time and O(d^2) memory beyond a chunk of rows, at any n, and no random feature is
drawn. What the privacy proofs ask of a kernel is ||phi|| <= 1, which holds by construction, and k in [0, 1],
which the difference charged for covers (``docs/proofs/direction.md``, section 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from causalveil.schemas.errors import StudyError
from causalveil.tasks.machine.arrays import FloatArray

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
