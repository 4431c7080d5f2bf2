"""What release 2 says of both arms together and, where it tells them apart, of each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from causalveil.tasks.machine.arrays import BoolArray, FloatArray, IntArray


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
        arms: of treated and of controls alone, D, square and shifts those of both; None: not released.
        arm_places: places of the features that ``arms`` are of.
        across: of treated and of controls, means of these features by all others, shape (arm places, others); None: not
            released.
        across_error: of the noise on each entry of what treated units add to them over n, less what controls do.
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
    arms: tuple[JointMoments, JointMoments] | None = None
    arm_places: IntArray = field(default_factory=lambda: np.arange(0))
    across: tuple[FloatArray, FloatArray] | None = None
    across_error: float = 0.0

    @cached_property
    def others(self) -> IntArray:
        """Places of the features that ``arms`` are not of."""
        found: IntArray = np.flatnonzero(~_among(self.arm_places, len(self.cross)))
        return found

    def of(self, places: IntArray) -> JointMoments:
        """Moments of these features alone."""
        known = self.with_arms_of(places)
        across = known.across
        if across is not None:
            kept = _among(places, len(self.cross))[known.others]
            across = (across[0][:, kept], across[1][:, kept]) if kept.any() else None
        return replace(
            self,
            cross=self.cross[places],
            apart=self.apart[places],
            shifts=self.shifts[places],
            unseen=self.unseen[places],
            gram=self.gram[np.ix_(places, places)],
            arms=known.arms,
            arm_places=np.flatnonzero(_among(known.arm_places, len(self.cross))[places]),
            across=across,
        )

    def centred(self) -> tuple[JointMoments, FloatArray]:
        """Moments of all features but the last, a constant, less their projection on it; and its coefficients.

        A row's constant is 1 over the length that it was divided by, so a feature less its coefficient times the
        constant has about mean 0.
        """
        coefficients = self.gram[:-1, -1] / max(float(self.gram[-1, -1]), self.gram_error)
        return self._less(coefficients), coefficients

    def with_arms_of(self, places: IntArray) -> JointMoments:
        """The arms' own moments of no other features than these."""
        if self.arms is None:
            return self
        kept = _among(places, len(self.cross))[self.arm_places]
        one, other = (arm.of(np.flatnonzero(kept)) for arm in self.arms)
        across = self.across
        if not kept.all():
            # Where all features had moments of each arm's own, their Gram matrices hold these by all others.
            treated, control = (arm.gram[np.ix_(kept, ~kept)] for arm in self.arms)
            across = None if len(self.others) else (treated, control)
        return replace(self, arms=(one, other), arm_places=self.arm_places[kept], across=across)

    def part_way(self, arm: JointMoments, share: float, part: float) -> JointMoments:
        """An arm's moments, moved from both arms' to its own by this part of the way.

        Of noise an arm's sums have that of both arms' together, times 1/(2 share), and that of their difference.
        """
        alike = self.of(self.arm_places).without_arms()

        def error(both: float, own: float) -> float:
            sums = both / (2 * share)
            differences = max(own**2 - sums**2, 0.0)
            return math.sqrt(((1 - part) * both + part * sums) ** 2 + part**2 * differences)

        return replace(
            alike,
            cross=alike.cross + part * (arm.cross - alike.cross),
            gram=alike.gram + part * (arm.gram - alike.gram),
            cross_error=error(self.cross_error, arm.cross_error),
            gram_error=error(self.gram_error, arm.gram_error),
        )

    def with_across(self, apart: FloatArray, share: float, error: float) -> JointMoments:
        """With each arm's own means of lines by all other features.

        Args:
            apart: what treated units add to them over n, less what controls do, shape (arm places, others).
            share: p.
            error: standard deviation of the noise on each entry of it.
        """
        both = self.gram[np.ix_(self.arm_places, self.others)]
        across = (both + apart) / (2 * share), (both - apart) / (2 * (1 - share))
        return replace(self, across=across, across_error=error)

    def without_arms(self) -> JointMoments:
        """Both arms' moments together alone."""
        return replace(self, arms=None, arm_places=np.arange(0), across=None)

    def _less(self, coefficients: FloatArray) -> JointMoments:
        """Moments of all features but the last, each less its coefficient, shape (d - 1,), times the last."""
        across = np.outer(coefficients, self.gram[:-1, -1])
        own = float(self.gram[-1, -1]) * np.outer(coefficients, coefficients)
        arms, of_both = self.arms, self.across
        if arms is not None:
            of_arms, of_others = coefficients[self.arm_places[:-1]], coefficients[self.others]
            if of_both is not None:
                of_both = self._less_across(of_both, arms, of_arms, of_others)
            arms = arms[0]._less(of_arms), arms[1]._less(of_arms)
        return replace(
            self,
            cross=self.cross[:-1] - coefficients * self.cross[-1],
            apart=self.apart[:-1] - coefficients * self.apart[-1],
            shifts=self.shifts[:-1],
            unseen=self.unseen[:-1],
            gram=self.gram[:-1, :-1] - across - across.T + own,
            arms=arms,
            arm_places=self.arm_places[:-1],
            across=of_both,
        )

    @staticmethod
    def _less_across(
        across: tuple[FloatArray, FloatArray],
        arms: tuple[JointMoments, JointMoments],
        lines: FloatArray,
        others: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """The same of lines by all others, which the last of the lines is taken from."""
        one, other = (
            found[:-1] - np.outer(lines, found[-1]) - np.outer(arm.gram[:-1, -1] - lines * arm.gram[-1, -1], others)
            for found, arm in zip(across, arms, strict=True)
        )
        return one, other

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


def _among(places: IntArray, count: int) -> BoolArray:
    """Return which of ``count`` features have one of these places, shape (count,)."""
    found = np.zeros(count, dtype=bool)
    found[places] = True
    return found
