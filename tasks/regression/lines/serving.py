"""Slopes and weights of features that serve both arms, beside lines of each.

Slopes are the same in both arms and fit lines of each; weights balance these features in each arm, so that slopes that
ought to differ do no harm. Post-processing of released values: ``docs/proofs/regression.md``, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.regression.lines.fitted import FittedMoments, OwnMoments

# Slopes of these features in an arm are taken to differ from what serves both by this part of its length: all, if they
# matter to one arm alone.
SERVED_DIFFER = 1.0
# Slopes and weights are made to fit lines of each arm so many times, each of which leaves about a quarter of what it
# found, and at most half.
ROUNDS = 3


@dataclass(frozen=True)
class Serving:
    """The features that serve both arms, beside lines of each.

    Attributes:
        both: of both arms together.
        arms: of treated and of controls, covariances of lines with these features among them.
        share: p.
    """

    both: FittedMoments
    arms: Sequence[OwnMoments]
    share: float

    def fitted(self) -> list[FittedMoments]:
        """What the moments say of treated and of controls."""
        found = [self.both.in_arm(arm) for arm in self.arms]
        sloped = self._slopes_kept(found)
        weighed = [self._weights_kept(arm, one) for arm, one in zip(self.arms, found, strict=True)]
        for last in [False] * ROUNDS + [True]:
            served = self.both.with_slopes(*self._slopes(found, sloped if last else 1.0))
            found = [
                served.with_weights(self._weights(arm, one, kept if last else 1.0)).in_arm(arm)
                for arm, one, kept in zip(self.arms, found, weighed, strict=True)
            ]
        noise = [self._noise(found, place, sloped, kept) for place, kept in enumerate(weighed)]
        return [one.noisier(*more) for one, more in zip(found, noise, strict=True)]

    @property
    def left_by_round(self) -> float:
        """The largest part of what slopes or weights are off by that a round leaves: they go astray where it is 1.

        A round makes good what both arms' covariance of these features beside lines says. In an arm of which these are
        closer to its lines, as squares of people who are all to one side are, that may be far too much.
        """
        lines, others = self.both.moments.arm_places, self.both.moments.others
        beside, shared = np.linalg.cholesky(self._inverse), self.both.covariance[np.ix_(lines, others)]
        alike = shared.T @ self.both.beside_others.inverse @ shared
        found = 0.0
        for arm in self.arms:
            inverse = FittedMoments.of(arm.moments, arm.between).inverse
            turned = beside.T @ (alike - arm.across.T @ inverse @ arm.across) @ beside
            found = max(found, float(np.abs(np.linalg.eigvalsh(turned)).max()))
        return found

    def floor(self, fitted: Sequence[FittedMoments]) -> float:
        """How large noise in an arm's covariances of lines with these features is, as a correlation."""
        fewer = min(len(self.both.moments.arm_places), len(self.both.moments.others))
        trace = float(np.trace(self._inverse))
        return max(
            arm.blur * math.sqrt(one.line_trace * trace / fewer) for arm, one in zip(self.arms, fitted, strict=True)
        )

    @cached_property
    def _inverse(self) -> FloatArray:
        """Of these features beside lines, shape (others, others)."""
        others = self.both.moments.others
        return self.both.inverse[np.ix_(others, others)]

    @property
    def _parts(self) -> tuple[float, float]:
        return self.share, 1 - self.share

    def _slopes(self, fitted: Sequence[FittedMoments], kept: float) -> tuple[FloatArray, float]:
        """What they are beside these lines, ``kept`` of the way from those of both arms, and the noise of q there.

        What those of both arms account for is what they are to account for together: that is q but for its noise.
        """
        others = self.both.moments.others
        alike, served = (one.slopes[others] for one in (self.both, fitted[0]))
        moved = served + self._inverse @ self._left(fitted) - alike
        return alike + kept * moved, kept * self._error(fitted)

    def _slopes_kept(self, fitted: Sequence[FittedMoments]) -> float:
        """How much of what lines of each arm leave exceeds its noise: the positive part of James and Stein.

        In the metric of what they explain, in which noise counts most where these features hardly vary.
        """
        lines, others = self.both.moments.arm_places, self.both.moments.others
        shared, inverse = self.both.covariance[np.ix_(lines, others)], self.both.inverse[np.ix_(lines, lines)]
        metric, trace = self._inverse, float(np.trace(self._inverse))
        noise = trace * self._error(fitted) ** 2
        for part, own, arm in zip(self._parts, self.arms, fitted, strict=True):
            # What sets the arm apart, less what is noise of it.
            apart = (own.across - shared).T @ inverse
            square = float(np.sum(metric * (apart @ apart.T)))
            square -= trace * own.blur**2 * float(np.sum(inverse**2))
            noise += part**2 * (arm.cross_error**2 + arm.gram_error**2 * arm.slope_size) * max(square, 0.0)
        left = self._left(fitted)
        return _exceeding(float(left @ metric @ left), noise)

    def _weights(self, arm: OwnMoments, fitted: FittedMoments, kept: float) -> FloatArray:
        """What balances them in an arm beside these lines, ``kept`` of the way from those of both arms."""
        others = self.both.moments.others
        alike = self.both.weights[others]
        moved = fitted.weights[others] + self._inverse @ self._unbalanced(arm, fitted) - alike
        return alike + kept * moved

    def _weights_kept(self, arm: OwnMoments, fitted: FittedMoments) -> float:
        """The same as of slopes of what is out of balance, which the arm's noise meets by the weights of its lines."""
        left, metric = self._unbalanced(arm, fitted), self._inverse
        noise = float(np.trace(metric)) * arm.blur**2 * self._line_size(fitted.weights)
        return _exceeding(float(left @ metric @ left), noise)

    def _noise(self, fitted: Sequence[FittedMoments], place: int, sloped: float, weighed: float) -> tuple[float, float]:
        """By how much noise in an arm's covariances of lines with these features moves it on average; its variance.

        That noise is in slopes of the arm's lines, in its weights, and in the slopes of these features.
        """
        lines, others = self.both.moments.arm_places, self.both.moments.others
        own, arm, metric, part = self.arms[place], fitted[place], self._inverse, self._parts[place]
        slopes, weights = arm.slopes[others], arm.weights[others]
        differ = fitted[0].slopes[lines] - fitted[1].slopes[lines]
        # What sets the arms apart has one noise, which has the other sign in the other arm.
        shared = float(np.trace(metric)) * float(differ @ arm.weights[lines])
        shared += float(differ @ self.both.inverse[np.ix_(lines, others)] @ weights)
        by_lines = own.blur**2 * arm.line_trace * float(slopes @ weights)
        mean = by_lines + (1, -1)[place] * sloped * weighed * own.blur**2 * part * shared
        # What weights are off by meets the noise of slopes, and what these ought to differ by.
        size = float(np.sum(metric**2))
        # One noise is in both: at most twice what it would be of two.
        of_slopes = _slopes_noise(self.both) + 2 * (sloped * self._error(fitted)) ** 2
        met = of_slopes * size + SERVED_DIFFER**2 * _served_size(self.both, slopes)
        return mean, weighed**2 * own.blur**2 * self._line_size(arm.weights) * met + mean**2 / 4

    def _line_size(self, weights: FloatArray) -> float:
        lines = weights[self.both.moments.arm_places]
        return float(lines @ lines)

    def _error(self, fitted: Sequence[FittedMoments]) -> float:
        """Deviation of the noise on an entry of what is left, by what sets the arms' covariances with lines apart."""
        lines = self.both.moments.arm_places
        differ = float(np.linalg.norm(fitted[0].slopes[lines] - fitted[1].slopes[lines]))
        return self.arms[0].blur * self.share * differ

    def _left(self, fitted: Sequence[FittedMoments]) -> FloatArray:
        """Of what slopes of both arms account for in q of these features, what those in use do not."""
        lines, others = self.both.moments.arm_places, self.both.moments.others
        left: FloatArray = self.both.covariance[others] @ self.both.slopes
        left = left - self.both.covariance[np.ix_(others, others)] @ fitted[0].slopes[others]
        for part, own, arm in zip(self._parts, self.arms, fitted, strict=True):
            left = left - part * (own.across.T @ arm.slopes[lines])
        return left

    def _unbalanced(self, arm: OwnMoments, fitted: FittedMoments) -> FloatArray:
        """Of what weights of both arms balance in these features, what those in use do not balance in an arm."""
        lines, others = self.both.moments.arm_places, self.both.moments.others
        left: FloatArray = self.both.covariance[others] @ self.both.weights
        left = left - self.both.covariance[np.ix_(others, others)] @ fitted.weights[others]
        return left - arm.across.T @ fitted.weights[lines]


def noise_between(
    both: FittedMoments, fitted: Sequence[FittedMoments], own: float, share: float, lean: tuple[float, float]
) -> float:
    """Variance of the estimate by noise that both arms have in common, where weights of these features differ in them.

    These balance both arms' covariances of these features, from which an arm's own differ, about as those of lines are
    seen to; what that leaves meets the noise of slopes, and by how much slopes ought to differ that of the matrix.

    Args:
        both: of both arms together.
        fitted: of treated and of controls.
        own: how far each arm's moments have gone to its own, above 0.
        share: p.
        lean: (k1, k0).
    """
    lines, others = both.moments.arm_places, both.moments.others
    treated, control = fitted
    apart = lean[0] * (1 - share) * treated.weights[others] - lean[1] * share * control.weights[others]
    differ = (treated.covariance - control.covariance)[np.ix_(lines, lines)]
    # Squared, over both arms' covariances; less what its noise adds to that.
    metric = both.inverse[np.ix_(lines, lines)]
    noise = (treated.gram_error + control.gram_error) ** 2 * (np.trace(metric) ** 2 + np.sum(metric**2))
    over = metric @ differ
    square = max(float(np.sum(over * over.T) - noise), 0.0) / (own * len(lines)) ** 2
    moved = float(apart @ both.covariance[np.ix_(others, others)] @ apart)
    found = square * float(np.trace(both.inverse[np.ix_(others, others)])) * max(moved, 0.0) * _slopes_noise(both)
    size = (2 * SERVED_DIFFER) ** 2 * _served_size(both, treated.slopes[others])
    variance: float = found + both.gram_error**2 * size * float(apart @ apart)
    return variance


def _slopes_noise(both: FittedMoments) -> float:
    """Variance of the noise on what gives slopes."""
    return both.cross_error**2 + both.gram_error**2 * both.slope_size


def _served_size(both: FittedMoments, slopes: FloatArray) -> float:
    """Squared length of slopes that serve both arms, their noise taken off; >= 0."""
    others = both.moments.others
    noise = both.cross_error**2 * float(np.sum(both.inverse[np.ix_(others, others)] ** 2))
    return max(float(slopes @ slopes) - noise, 0.0)


def _exceeding(seen: float, noise: float) -> float:
    """The part of a squared length that exceeds its noise: 0 to 1."""
    return max(0.0, 1 - noise / seen) if seen > 0 else 0.0
