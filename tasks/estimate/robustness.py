"""Compute how strong an unmeasured confounder would have to be.

It is read off a release: estimate, interval and sampling variance. Nothing is drawn and nothing charged.

A confounder Z that explains a part R2_Y of the outcome's variance that covariates and treatment leave, and a part R2_T
of the variance that covariates leave of treatment (of an estimator's weight), moves an average effect by at most

    |bias| <= S sqrt(R2_Y R2_T/(1 - R2_T)),    S^2 = E(Y - g)^2 E alpha^2,

g the outcome's mean given covariates and arm, alpha the weight of a person (Chernozhukov, Cinelli, Newey, Sharma and
Syrgkanis 2022; for one regression line Cinelli and Hazlett 2020). S^2/n is the sampling variance where residuals and
weights are independent. An estimator that fits no g has what covariates explain in its variance: S is then too large,
and the answer is on the safe side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtri

from causalveil.schemas.confounding import declares_randomised
from causalveil.schemas.release import EffectRelease, Interval, Variance
from causalveil.schemas.table import ALL_UNITS


def robustness_value(effect: float, scale: float) -> float:
    """Return the part of both variances by which a confounder moves an effect to 0.

    It solves ``|effect| = scale R/sqrt(1 - R)`` for R = R2_Y = R2_T (Cinelli and Hazlett 2020, equation 19).

    Args:
        effect: in outcome units.
        scale: S, above 0, in outcome units.

    Examples:
        The exposure of the Darfur study of Cinelli and Hazlett: 0.0973 with a standard error of .0232 on 783 degrees.

        >>> round(robustness_value(0.0973, 0.0232 * 783**0.5), 3)
        0.139
    """
    square = (effect / scale) ** 2
    return 2 / (1 + math.sqrt(1 + 4 / square)) if square > 0 else 0.0


def extreme_value(effect: float, scale: float) -> float:
    """Return the part of treatment's variance needed by a confounder that explains the outcome.

    It explains all of the outcome's variance that is left.
    """
    square = (effect / scale) ** 2
    return square / (1 + square)


def largest_bias(scale: float, outcome: float, treatment: float) -> float:
    """Return by how much a confounder of a given strength may move an effect, in outcome units.

    Args:
        scale: S.
        outcome: R2_Y, in [0, 1].
        treatment: R2_T, in [0, 1).
    """
    return scale * math.sqrt(outcome * treatment / (1 - treatment))


def e_value(ratio: float) -> float:
    """Return the E-value of a risk ratio (VanderWeele and Ding 2017).

    It is the risk ratio by which a confounder must be tied to treatment and to outcome to explain the ratio away.

    Args:
        ratio: above 0; below 1 its inverse is taken.

    Examples:
        >>> round(e_value(3.9), 2)
        7.26
    """
    larger = max(ratio, 1 / ratio)
    return larger + math.sqrt(larger * (larger - 1))


@dataclass(frozen=True)
class Robustness:
    """The strength that an unmeasured confounder would need.

    Attributes:
        scale: S, from the released sampling variance.
        upper: S by the upper bound of that variance which the interval uses.
        value: part of both variances that would bring the estimate to 0.
        near_end: part of both that would bring the nearer end of the interval to 0, at ``upper``; 0 where it holds 0.
        extreme: part of treatment's variance that would, if the confounder explained all of the outcome's.
    """

    scale: float
    upper: float
    value: float
    near_end: float
    extreme: float

    @classmethod
    def of(cls, estimate: float, interval: Interval, variance: Variance, units: int) -> Robustness | None:
        """Read one effect; None where noise hides it or it has no sampling variance.

        Args:
            estimate: in outcome units.
            interval: around it.
            variance: its squared standard errors.
            units: the number of units that the effect is over.
        """
        if interval.whole_range or variance.sampling <= 0:
            return None
        half = (interval.upper - interval.lower) / 2
        error = half / float(ndtri((1 + interval.confidence) / 2))
        # What the interval allows for beyond its noise: at least the sampling variance.
        upper = math.sqrt(units * max(variance.sampling, error * error - variance.noise))
        scale = math.sqrt(units * variance.sampling)
        held = interval.lower <= 0 <= interval.upper
        near = 0.0 if held else min(abs(interval.lower), abs(interval.upper))
        return cls(
            scale,
            upper,
            robustness_value(estimate, scale),
            robustness_value(near, upper),
            extreme_value(estimate, scale),
        )

    def beside(self, interval: Interval, outcome: float, treatment: float) -> tuple[float, float]:
        """Return the interval widened by the largest bias of a confounder of a given strength."""
        bias = largest_bias(self.upper, outcome, treatment)
        return interval.lower - bias, interval.upper + bias


def robustness_of(release: EffectRelease) -> Robustness | None:
    """Return what an unmeasured confounder would have to explain of the headline answer.

    None in a declared trial, behind noise, of an answer that a gate withholds, and of a subgroup, whose number of units
    is not public.
    """
    estimate, interval, variance = release.estimate, release.interval, release.variance
    if estimate is None or interval is None or variance is None or release.answers[0].group != ALL_UNITS:
        return None
    if declares_randomised(release.specification["estimator"]):
        return None
    return Robustness.of(estimate, interval, variance, release.units)
