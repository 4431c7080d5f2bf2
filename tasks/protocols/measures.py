"""Ratios of two arms' risks, and odds ratios, from released arm means: post-processing that costs nothing.

Fieller's interval of A/B holds every theta at which A - theta B is not clearly apart from 0. It needs no division, so
it holds at any size of the noise, and has no upper end where B itself is not clearly apart from 0. The odds ratio is
such a ratio of A = p1 (1 - p0) and B = p0 (1 - p1), whose covariance follows from that of p1 and p0 to first order
(``docs/proofs/questions.md``, section 9).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.protocols.answers import MeasureAnswer
from causalveil.schemas.protocols.study import EffectMeasure
from causalveil.tasks.machine.arrays import FloatArray


@dataclass(frozen=True)
class Risks:
    """Two arms' shares of an outcome of two values, with the covariance of what they are off by.

    Attributes:
        arms: of the arm and of the reference, each in [0, 1].
        covariance: of both, sampling and noise together, shape (2, 2).
    """

    arms: tuple[float, float]
    covariance: FloatArray

    def _parts(self, measure: EffectMeasure) -> tuple[float, float, FloatArray]:
        """Return numerator and denominator, and their derivatives by the two risks, shape (2, 2)."""
        one, other = self.arms
        if measure is EffectMeasure.ratio:
            return one, other, np.eye(2)
        derivatives = np.array([[1 - other, -one], [-other, 1 - one]])
        return one * (1 - other), other * (1 - one), derivatives

    def answer(self, measure: EffectMeasure, confidence: float) -> MeasureAnswer:
        """Return the measure with its interval; no estimate where the denominator is 0."""
        from scipy.special import ndtri

        top, bottom, derivatives = self._parts(measure)
        covariance = derivatives @ self.covariance @ derivatives.T
        lower, upper = fieller(top, bottom, covariance, float(ndtri((1 + confidence) / 2)))
        return MeasureAnswer(
            measure=measure,
            estimate=top / bottom if bottom > 0 and math.isfinite(top / bottom) else None,
            lower=lower,
            upper=upper,
        )


def fieller(top: float, bottom: float, covariance: FloatArray, quantile: float) -> tuple[float, float | None]:
    """Return the ends of Fieller's interval of a ratio of two numbers that are at least 0.

    None says that there is no upper end.

    Args:
        top, bottom: the estimates.
        covariance: of both, shape (2, 2).
        quantile: of a normal error.

    >>> fieller(2.0, 1.0, np.zeros((2, 2)), 1.96)
    (2.0, 2.0)
    """
    square = quantile**2
    a = bottom**2 - square * float(covariance[1, 1])
    b = top * bottom - square * float(covariance[0, 1])
    c = top**2 - square * float(covariance[0, 0])
    root = b * b - a * c
    if a > 0:
        # The estimate itself is inside, so both roots are real but for rounding.
        spread = math.sqrt(max(root, 0.0))
        upper = (b + spread) / a
        return max((b - spread) / a, 0.0), upper if math.isfinite(upper) else None
    if root <= 0 or a == 0:
        return 0.0, None
    # All but what lies between the roots; where 0 lies between them, that is from the larger root on.
    smaller, larger = sorted(((b - math.sqrt(root)) / a, (b + math.sqrt(root)) / a))
    return (larger if smaller < 0 < larger and math.isfinite(larger) else 0.0), None


def over_all(parts: Iterable[tuple[Risks, float]], count_error: float) -> Risks | None:
    """Return the risks over all subgroups, weighted by their noisy sizes.

    None where there is no size.

    Args:
        parts: each subgroup's risks and its size.
        count_error: standard deviation of the noise on each size.
    """
    found = list(parts)
    total = math.fsum(size for _, size in found)
    if total <= 0:
        return None
    shares = np.array([size / total for _, size in found])
    risks = np.array([one.arms for one, _ in found])
    means = shares @ risks
    covariance = sum(
        (share**2 * one.covariance for share, (one, _) in zip(shares, found, strict=True)), np.zeros((2, 2))
    )
    apart = (risks - means) * count_error / total
    return Risks((float(means[0]), float(means[1])), covariance + apart.T @ apart)
