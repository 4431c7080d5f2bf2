"""What the moments say of treated and of controls, and what noise in both does to the estimate.

From both arms' moments together, or from those moved towards each arm's own. Post-processing of released values:
``docs/proofs/regression.md``, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from causalveil.tasks.regression.lines.fitted import LEAST_RESIDUAL, FittedMoments
from causalveil.tasks.regression.lines.serving import Serving, across_arms, between_arms
from causalveil.tasks.regression.moments import JointMoments
from causalveil.tasks.regression.scales import Scales

# Slopes of the two arms are taken to differ by this part of their own length.
SLOPES_DIFFER = 0.5
# Of a matrix whose noise is larger, over its mean eigenvalue, what it does is not known.
MOST_FLOOR = 0.3
# Slopes of features that serve both arms are made to fit lines of each arm so many times, each of which leaves about a
# quarter of what it found.
ROUNDS = 3


@dataclass(frozen=True)
class Fits:
    """What the moments say of treated and of controls.

    Attributes:
        treated, control: of each.
        both: of both together.
        own: 0 where both arms have the same, 1 where each has its own alone, or how far it is moved there.
    """

    treated: FittedMoments
    control: FittedMoments
    both: FittedMoments
    own: float

    @property
    def resolved(self) -> bool:
        """Whether noise hides no more directions in an arm than in both, and it is known what it does there."""
        return all(
            arm.own_floor <= MOST_FLOOR and arm.floored <= self.both.floored for arm in (self.treated, self.control)
        )

    def __iter__(self) -> Iterator[FittedMoments]:
        """Treated, then controls."""
        yield self.treated
        yield self.control

    @classmethod
    def alike(cls, moments: JointMoments, share: float) -> Fits:
        """From both arms' moments together; ``share``: p."""
        return cls.alike_of(FittedMoments.of(moments, share * (1 - share)))

    @classmethod
    def alike_of(cls, both: FittedMoments) -> Fits:
        """The same of what these say."""
        return cls(both, both, both, 0.0)

    def apart(self, share: float, own: float) -> Fits:
        """Each arm's moments moved from both arms' to its own by a part of the way, in (0, 1]; ``share``: p.

        Slopes of features that serve both arms fit each arm's own lines: where effects differ with a column that drives
        treatment, those that fit lines of both arms would leave to its square what lines do.
        """
        both, moments = self.both, self.both.moments
        across = across_arms(both, share, own)
        # An arm's moments, by what D D' is multiplied there, and its covariance with features that serve both arms.
        arms = [
            (
                moments.part_way(arm, part, own),
                between_arms(both, part, own),
                beside,
                own * moments.across_error / (2 * part),
            )
            for arm, part, beside in zip(moments.arms or (), (share, 1 - share), across or (None, None), strict=True)
        ]
        fitted = [both.in_arm(*arm) for arm in arms]
        if across is not None:
            serving = Serving(both, across, share, own)
            kept = serving.kept(fitted)
            for last in [False] * ROUNDS + [True]:
                served = both.with_others(*serving.of(fitted, kept if last else 1.0))
                fitted = [served.in_arm(*arm) for arm in arms]
        treated, control = fitted
        # Squares of residuals are released of both arms together.
        left = moments.square - share * treated.explained - (1 - share) * control.explained
        residual = max(left, LEAST_RESIDUAL * moments.square)
        return Fits(replace(treated, residual=residual), replace(control, residual=residual), self.both, own)


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
    # A shift of the features' means moves the estimate by (b'shift)(h'shift), and with an arm's error e by k h'shift e.
    found += _added(lean, [_by_shifts(fitted) for fitted in fits])
    for fitted, k, part, error in zip(fits, lean, parts, scales.mean_errors, strict=True):
        arm, squares = (k * error / scales.limit) ** 2, fitted.weights**2
        found += arm * float(fitted.moments.shifts**2 @ squares)
        # The arm's mean of the features comes from D: its noise e moves the arm's error by k h'e of it.
        found += arm * (1 - part) ** 2 * fitted.weight_noise * float(squares.sum())
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
