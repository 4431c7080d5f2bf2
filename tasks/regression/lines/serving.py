"""Slopes of features that serve both arms, so that they fit lines of each.

Post-processing of released values: ``docs/proofs/regression.md``, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.regression.lines.fitted import FittedMoments


@dataclass(frozen=True)
class Serving:
    """Slopes of the features that serve both arms, beside lines of each.

    Attributes:
        both: of both arms together.
        across: covariance of each arm's lines with these features, shape (lines, others).
        share: p.
        own: how far each arm's moments have gone to its own.
    """

    both: FittedMoments
    across: tuple[FloatArray, ...]
    share: float
    own: float

    def of(self, fitted: Sequence[FittedMoments], kept: float) -> tuple[FloatArray, float]:
        """What they are beside these lines, ``kept`` of the way from those of both arms, and the noise of q there.

        What those of both arms account for is what they are to account for together: that is q but for its noise.
        """
        others = self.both.moments.others
        alike, served = (one.slopes[others] for one in (self.both, fitted[0]))
        moved = served + self.both.inverse[np.ix_(others, others)] @ self._left(fitted) - alike
        return alike + kept * moved, kept * self._error(fitted)

    def kept(self, fitted: Sequence[FittedMoments]) -> float:
        """How much of what lines of each arm leave exceeds its noise: the positive part of James and Stein.

        In the metric of what they explain, in which noise counts most where these features hardly vary.
        """
        lines, others = self.both.moments.arm_places, self.both.moments.others
        shared, inverse = self.both.covariance[np.ix_(lines, others)], self.both.inverse[np.ix_(lines, lines)]
        metric = self.both.inverse[np.ix_(others, others)]
        noise = float(np.trace(metric)) * self._error(fitted) ** 2
        for part, one, arm in zip((self.share, 1 - self.share), self.across, fitted, strict=True):
            # What sets the arm apart, less what is noise of it.
            apart = (one - shared).T @ inverse
            blur = self.own * self.both.moments.across_error / (2 * part)
            square = float(np.sum(metric * (apart @ apart.T)))
            square -= float(np.trace(metric)) * blur**2 * float(np.sum(inverse**2))
            noise += part**2 * (arm.cross_error**2 + arm.gram_error**2 * arm.slope_size) * max(square, 0.0)
        left = self._left(fitted)
        seen = float(left @ metric @ left)
        return max(0.0, 1 - noise / seen) if seen > 0 else 0.0

    def _error(self, fitted: Sequence[FittedMoments]) -> float:
        """Deviation of the noise on an entry of what is left, by what sets the arms' covariances with lines apart."""
        lines = self.both.moments.arm_places
        differ = float(np.linalg.norm(fitted[0].slopes[lines] - fitted[1].slopes[lines]))
        return self.own * self.both.moments.across_error * differ / 2

    def _left(self, fitted: Sequence[FittedMoments]) -> FloatArray:
        lines, others = self.both.moments.arm_places, self.both.moments.others
        left: FloatArray = self.both.covariance[others] @ self.both.slopes
        left = left - self.both.covariance[np.ix_(others, others)] @ fitted[0].slopes[others]
        for part, one, arm in zip((self.share, 1 - self.share), self.across, fitted, strict=True):
            left = left - part * (one.T @ arm.slopes[lines])
        return left


def across_arms(both: FittedMoments, share: float, own: float) -> tuple[FloatArray, ...] | None:
    """Covariance of each arm's lines with the features that serve both, as far on the way to its own."""
    moments = both.moments
    if moments.across is None:
        return None
    lines, others = moments.arm_places, moments.others
    shared, apart = moments.gram[np.ix_(lines, others)], np.outer(moments.apart[lines], moments.apart[others])
    return tuple(
        shared + own * (arm - shared) - between_arms(both, part, own) * apart
        for arm, part in zip(moments.across, (share, 1 - share), strict=True)
    )


def between_arms(both: FittedMoments, part: float, own: float) -> float:
    """By what D D' is multiplied as far on the way to an arm's own."""
    return (1 - own) * both.between + own * (1 - part) ** 2
