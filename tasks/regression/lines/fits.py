"""What the moments say of treated and of controls, and what noise in both does to the estimate.

From both arms' moments together, or from those moved towards each arm's own. Post-processing of released values:
``docs/proofs/regression.md``, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from causalveil.tasks.regression.lines.fitted import LEAST_RESIDUAL, FittedMoments, OwnMoments
from causalveil.tasks.regression.lines.joint import JointMoments
from causalveil.tasks.regression.lines.serving import Serving, noise_between
from causalveil.tasks.regression.scales import Scales

# Slopes of the two arms are taken to differ by this part of their own length.
SLOPES_DIFFER = 0.5
# Of a matrix whose noise is larger, over its mean eigenvalue, what it does is not known.
MOST_FLOOR = 0.3
# A direction is clear of an arm's noise where it varies by so many times the noise's largest eigenvalue, halved.
CLEAR_OF_NOISE = 2.0
# Features that serve both arms fit an arm's own lines where each round leaves no more of what they are off by.
MOST_LEFT_BY_ROUND = 0.5


@dataclass(frozen=True)
class Fits:
    """What the moments say of treated and of controls.

    Attributes:
        treated, control: of each.
        both: of both together.
        own: 0 where both arms have the same, 1 where each has its own alone, or how far it is moved there.
        across_floor: noise in an arm's covariances of lines with features that serve both, as a correlation.
        left_by_round: what is left of what these features are off by, for each time that they are made to fit.
    """

    treated: FittedMoments
    control: FittedMoments
    both: FittedMoments
    own: float
    across_floor: float = 0.0
    left_by_round: float = 0.0

    @property
    def resolved(self) -> bool:
        """Whether noise hides no more directions in an arm than in both, and it is known what it does there."""
        known = self.across_floor <= MOST_FLOOR and self.left_by_round <= MOST_LEFT_BY_ROUND
        return known and all(
            arm.own_floor <= MOST_FLOOR and arm.floored <= self.both.floored and not self._drowned(arm)
            for arm in (self.treated, self.control)
        )

    def _drowned(self, arm: FittedMoments) -> bool:
        """Whether noise reaches directions in which this arm varies less than both together.

        Around the mean of both arms an arm that lies to one side varies enough, and around its own it may hardly: what
        noise does there is then not known by what is seen of it.
        """
        places = np.ix_(self.both.moments.arm_places, self.both.moments.arm_places)
        reach = CLEAR_OF_NOISE * arm.gram_error * math.sqrt(len(places[0]))
        own, both = (np.count_nonzero(np.linalg.eigvalsh(one.covariance[places]) < reach) for one in (arm, self.both))
        return int(own) > int(both)

    def __iter__(self) -> Iterator[FittedMoments]:
        """Treated, then controls."""
        yield self.treated
        yield self.control

    @classmethod
    def alike(cls, moments: JointMoments, share: float) -> Fits:
        """From both arms' moments together; ``share``: p."""
        both = FittedMoments.of(moments, share * (1 - share))
        return cls(both, both, both, 0.0)

    def apart(self, share: float, own: float) -> Fits:
        """Each arm's moments moved from both arms' to its own by a part of the way, in (0, 1]; ``share``: p.

        Features that serve both arms fit each arm's own lines, if what sets the arms apart there is told: where effects
        differ with a column that drives treatment, slopes that fit lines of both arms would leave to its square what
        lines do, and weights of both arms leave it out of balance.
        """
        arms, floor, left_by_round = list(_arms(self.both, share, own)), 0.0, 0.0
        if self.both.told_across:
            serving = Serving(self.both, arms, share)
            fitted = serving.fitted()
            floor, left_by_round = serving.floor(fitted), serving.left_by_round
        else:
            fitted = [self.both.in_arm(arm) for arm in arms]
        treated, control = fitted
        # Squares of residuals are released of both arms together.
        left = self.both.moments.square - share * treated.explained - (1 - share) * control.explained
        residual = max(left, LEAST_RESIDUAL * self.both.moments.square)
        treated, control = (replace(one, residual=residual) for one in (treated, control))
        return Fits(treated, control, self.both, own, floor, left_by_round)


def _arms(both: FittedMoments, share: float, own: float) -> Iterator[OwnMoments]:
    """The moments of treated and of controls, moved from both arms' to their own by a part of the way."""
    moments = both.moments
    lines, others = moments.arm_places, moments.others
    shared, apart = moments.gram[np.ix_(lines, others)], np.outer(moments.apart[lines], moments.apart[others])
    for place, (arm, part) in enumerate(zip(moments.arms or (), (share, 1 - share), strict=True)):
        between = (1 - own) * both.between + own * (1 - part) ** 2
        across, blur = both.covariance[np.ix_(lines, others)], 0.0
        if both.told_across and moments.across is not None:
            across = shared + own * (moments.across[place] - shared) - between * apart
            blur = own * moments.across_error / (2 * part)
        yield OwnMoments(moments.part_way(arm, part, own), between, across, blur)


def noise_variance(fits: Fits, scales: Scales, lean: tuple[float, float]) -> float:
    """Variance of the estimate by noise in both b and h, in units of L squared.

    What noise does in one arm and in the other is taken to be alike where it may be.

    Args:
        fits: of treated and of controls.
        scales: of release 1.
        lean: (k1, k0).
    """
    parts, both = (scales.share, 1 - scales.share), fits.both
    found = _added(lean, [fitted.product_variance for fitted in fits])
    # Where slopes differ between arms, noise in D moves the estimate by (p k0 - (1-p) k1) (b1 - b0)'e.
    differ = (parts[0] * lean[1] - parts[1] * lean[0]) ** 2 * SLOPES_DIFFER**2 * (1 - fits.own) ** 2
    found += differ * both.slope_size * both.weight_noise
    if 0 < fits.own < 1:
        # What is left of the way meets noise in an arm's Gram matrix to first order.
        left = ((1 - fits.own) / fits.own) ** 2
        found += left * sum((k * fitted.blur_by(both)) ** 2 for k, fitted in zip(lean, fits, strict=True))
    if fits.own > 0 and both.told_across:
        found += noise_between(both, list(fits), fits.own, scales.share, lean)
    # A shift of the features' means moves the estimate by (b'shift)(h'shift), and with an arm's error e by k h'shift e.
    found += _added(lean, [_by_shifts(fitted) for fitted in fits])
    for fitted, k, part, error in zip(fits, lean, parts, scales.mean_errors, strict=True):
        squares = fitted.weights**2
        found += (k * error / scales.limit) ** 2 * float(fitted.moments.shifts**2 @ squares)
        # The arm's mean of the features comes from D: its noise e moves the arm's error by k h'e of it. So does the
        # arm's error in its own slopes, with what e does to its covariances; or its part of the units in shared ones.
        own = fits.own * k * (1 - part) * (1 + 2 * (1 - part) ** 2 * fitted.distance)
        moved = k * (1 - part) + own + (1 - fits.own) * part * (1 - part) * sum(lean)
        found += (moved * error / scales.limit) ** 2 * fitted.weight_noise * float(squares.sum())
    return found


def over_arms(lean: tuple[float, float], numbers: Iterable[float]) -> float:
    """k1 times what treated have and k0 times what controls have."""
    return sum(k * number for k, number in zip(lean, numbers, strict=True))


def _added(lean: tuple[float, float], variances: list[float]) -> float:
    """Variance of k1 times one error and k0 times the other, which may be the same."""
    return over_arms(lean, map(math.sqrt, variances)) ** 2


def _by_shifts(fitted: FittedMoments) -> float:
    """Of (b'shift)(h'shift)."""
    shifted, slopes, weights = fitted.moments.shifts**2, fitted.slopes, fitted.weights
    return float(shifted @ slopes**2) * float(shifted @ weights**2) + 2 * float(shifted @ (slopes * weights)) ** 2
