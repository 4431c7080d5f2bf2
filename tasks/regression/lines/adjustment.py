"""An adjustment: slopes and balancing weights of treated and controls, where scores are cut, what is allowed for.

What is known of it before the last release is its expected width, by which ways to adjust are chosen. Post-processing
of released values: ``docs/proofs/regression.md``, sections 4 to 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from causalveil.schemas.study import Estimand
from causalveil.tasks.machine.arrays import FloatArray, IntArray

# An interval by slopes that serve both arms is judged to be wider by this part: it does not hold what effects that
# differ with covariates do to it.
ALIKE_WIDTH = 0.5
# What a part of the way to each arm's own leaves of that, as the power of the rest of the way.
LEFT = 2.0


def leaning(estimand: Estimand, share: float, alone: bool = False) -> tuple[float, float]:
    """(k1, k0): how far treated and controls are moved, in units of the arms' distance, to stand for the estimand.

    ``alone``: the treated are moved to stand for everybody, and controls for nobody.
    """
    if alone:
        return 1 - share, 0.0
    return {Estimand.ATE: (1 - share, share), Estimand.ATT: (0.0, 1.0), Estimand.ATC: (1.0, 0.0)}[estimand]


@lru_cache(maxsize=4096)
def biased_quantile(bias: float, confidence: float) -> float:
    """The h with P(|bias + Z| <= h) = ``confidence``, Z standard normal (Armstrong and Kolesar 2018, equation 14)."""
    from scipy.special import chndtrix, gammaincinv, ndtri  # what scipy.stats.ncx2 calls, which takes .3 s to import

    if bias > 8:
        return bias + float(ndtri(confidence))
    shift = bias**2
    square = chndtrix(confidence, 1, shift) if shift != 0 else 2 * gammaincinv(0.5, confidence)
    return math.sqrt(float(square))


@dataclass(frozen=True)
class ArmLine:
    """Slopes b and weights h, each of shape (d,), and by how much the arms' means of h'xs differ."""

    slopes: FloatArray
    weights: FloatArray
    index: float


@dataclass(frozen=True)
class Adjustment:
    """What release 3 is to be made of and what is known of its error. Residuals in units of L.

    Attributes:
        slopes: b, shape (d,).
        weights: h, shape (d,).
        apart: D, shape (d,); its multiples (1-p) D and -p D are the arms' means of the features.
        index: by how much the arms' means of h'xs differ: h'D less the mean of what noise in D adds to it.
        correction: c_E, by which the Gram matrix's noise moves the estimate on average.
        leaning: (k1, k0) of :func:`leaning`.
        reach: V, at which scores are cut.
        cut: k, V in standard deviations.
        second_order: variance of the estimate by noise in both b and h.
        bias: largest bias that is allowed for.
        adjusted: whether b and h are in use.
        controls: what controls have of their own in place of b, h and index; None: these serve both arms.
        own: 0 where slopes and weights serve both arms, 1 where each has its own, or how far they are moved there.
        deviation_alike: of scores if effects did not differ with covariates; 0: not known.
        seen_off: by how much slopes that serve both arms are seen to be off, since effects differ with covariates.
        differing: what of ``bias`` is for that.
        higher: what of the correction is for terms of higher order.
        uneven: by what part of what scores add it may be too much or too little, since arms vary unlike each other.
        made_good: deviation of what scores add to make noise in slopes good.
    """

    slopes: FloatArray
    weights: FloatArray
    apart: FloatArray
    index: float
    correction: float
    leaning: tuple[float, float]
    reach: float
    cut: float
    second_order: float
    bias: float
    adjusted: bool
    controls: ArmLine | None = None
    own: float = 0.0
    deviation_alike: float = 0.0
    seen_off: float = 0.0
    differing: float = 0.0
    higher: float = 0.0
    uneven: float = 0.0
    made_good: float = 0.0

    @property
    def lines(self) -> tuple[ArmLine, ArmLine]:
        """Of treated and of controls."""
        treated = ArmLine(self.slopes, self.weights, self.index)
        return treated, self.controls or treated

    @property
    def both(self) -> tuple[FloatArray, FloatArray]:
        """Slopes and weights of both arms: each arm's by its part of the way."""
        if self.controls is None:
            return self.slopes, self.weights
        k1, k0 = self.leaning
        treated, control = self.lines
        return k1 * treated.slopes + k0 * control.slopes, k1 * treated.weights + k0 * control.weights

    @property
    def taken_off(self) -> float:
        """By how much slopes move the difference of the arms' means, in units of L."""
        return float(self.both[0] @ self.apart) + self.correction

    def off_by(self, differing: float) -> Adjustment:
        """The same if effects that differ with covariates are seen to leave so much."""
        return replace(self, bias=self.bias + differing, differing=self.differing + differing)

    def spread_over(self, places: IntArray, features: int) -> Adjustment:
        """The same among more features: those at other places have no slopes and no weights."""

        def wide(vector: FloatArray) -> FloatArray:
            found = np.zeros(features)
            found[places] = vector
            return found

        own = self.controls
        controls = None if own is None else replace(own, slopes=wide(own.slopes), weights=wide(own.weights))
        return replace(
            self, slopes=wide(self.slopes), weights=wide(self.weights), apart=wide(self.apart), controls=controls
        )

    def with_constant(self, coefficients: FloatArray) -> Adjustment:
        """The same with a constant as the last feature: others stood less it times their coefficient."""

        def more(vector: FloatArray) -> FloatArray:
            return np.append(vector, -float(coefficients @ vector))

        own = self.controls
        controls = None if own is None else replace(own, slopes=more(own.slopes), weights=more(own.weights))
        apart = np.append(self.apart, 0.0)
        return replace(self, slopes=more(self.slopes), weights=more(self.weights), apart=apart, controls=controls)


@dataclass(frozen=True)
class Seen:
    """What the moments show of the arms and of the outcome, whether or not it is adjusted for.

    Attributes:
        distance: D'W D, the arms' squared distance in the metric within arms, its noise taken off; >= 0.
        distance_error: standard deviation of the noise in it, by the noise on D.
        explained: share of the residuals' mean square that covariates explain, in [0, 1].
        before: the arms' standardised differences by feature, shape (d,).
        after: the same, of what the weights leave of them.
        error: standard deviation of the noise of each, shape (d,).
        floored: number of directions that noise hides.
        floor: least variance of a direction that is told from 0, over the mean one.
        hidden: number of columns whose own variance is not told from 0, but those of two values of which hardly anybody
            has one.
    """

    distance: float
    distance_error: float
    explained: float
    before: FloatArray
    after: FloatArray
    error: FloatArray
    floored: int
    floor: float
    hidden: int = 0


def expected_width(choice: Adjustment, units: int, noise: float) -> float:
    """Expected half-width of a 95 % interval, in units of L, by which a choice is made."""
    deviation = choice.reach / choice.cut
    variance = deviation**2 / units + (choice.reach * noise / units) ** 2 + choice.second_order
    error = math.sqrt(variance)
    return biased_quantile(round(choice.bias / error, 2), 0.95) * error


def judged_width(choice: Adjustment, units: int, noise: float, left: float = LEFT) -> float:
    """The expected width, by which ways to adjust are compared with each other.

    That effects differ widens no way more than another: where slopes are shared it hides in what these leave, of which
    a part of the way to each arm's own leaves the rest of the way to the power of ``left``.
    """
    same = replace(choice, reach=choice.cut * choice.deviation_alike) if choice.deviation_alike > 0 else choice
    wider: float = 1 + ALIKE_WIDTH * (1 - choice.own) ** left
    return expected_width(same, units, noise) * wider
