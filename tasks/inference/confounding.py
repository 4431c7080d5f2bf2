"""How far confounding that the released models leave can move an AIPW estimate, and how much of it would undo one.

Scores Gamma = m_1 - m_0 + a (u - m), m and a = t/pi - (1-t)/(1-pi) released models and weights, mu and alpha the true
ones given every confounder, recorded or not. Their mean is off by E[(a - alpha)(mu - m)], so by Cauchy and Schwarz

    |bias| <= sqrt(outcome * treatment * Var(Gamma)),
    outcome = E[a^2 (mu - m)^2]/Var(Gamma),  treatment = E[(1 - alpha/a)^2] = E[(p - pi)^2/(p (1 - p))], p the true pi,

after Chernozhukov, Cinelli, Newey, Sharma and Syrgkanis (2022), whose models are projections; here they may be any.
Post-processing of released values. Derivation: ``docs/proofs/aipw.md``, section 9.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from causalveil.schemas.confounding import AdjustmentMethod, ConfoundingStatement, Shortfall, by
from causalveil.schemas.estimators.aipw import OmittedConfounding
from causalveil.tasks.inference.assemble import Estimate, Noise, variance_error

COVERS_CONFOUNDING = "confounding left out, up to the declared shares"
COVERS_DECLARED = "confounding up to the size that `confounding_prior` assumes"
COVERS_MODELS = "noise of slopes and weights"
COVERS_IMBALANCE = "imbalance that is left, up to the declared allowance"
# What no covariate holds is seen by no released number.
UNMEASURED = "confounding by variables that are not among the covariates"
NOT_COVERED_DECLARED = "confounding larger than the size that `confounding_prior` assumes"
NOT_COVERED_TRIAL = "treatment that was not randomised"
# Of arms that are compared as they are.
NOT_COVERED_ARMS = "confounding: the arms are taken as randomised"

# What was done about confounding, as ``details["adjustment"]`` says it.
LINEAR = "adjusted linearly"
PARTLY = "partly adjusted, linearly"
UNADJUSTED = "unadjusted"
SWITCHED = "unadjusted: the noise was too large for this many people and this budget"
RANDOMISED = "not adjusted: treatment was randomised"
# Of public weights that leave more than so much of what may confound, in deviations of the outcome, as is usual of
# differences in covariates (Austin 2009).
ENOUGH_LEFT = 0.1
# No outcome is taken to deviate less within arms, in half ranges.
LEAST_SPREAD = 0.02


def sure_spread(within: float, error: float) -> float:
    """The standard deviation of u in [-1, 1] within arms, in which confounding of the declared size is counted.

    Half a deviation of the noise of the squares is added, and one is a floor: it cannot be known better.

    Args:
        within: released variance of u within arms.
        error: standard deviation of the noise in it.
    """
    return min(1.0, math.sqrt(max(within + error / 2, error, LEAST_SPREAD**2)))


def partly_if_left(method: AdjustmentMethod, left: float) -> ConfoundingStatement:
    """Return how far public weights adjust: in part where they leave much of the arms' differences.

    Args:
        method: whose weights they are.
        left: what they leave of the arms' differences, in standard deviations of the outcome.
    """
    return by(method, Shortfall.imbalance if left > ENOUGH_LEFT else None)


def part_hidden(hidden: int, columns: int) -> float:
    """The part of all declared confounding that so many columns may have of which nothing is seen; 0 to 1.

    Noise shows some columns by chance: where most are hidden, all are taken to be.
    """
    return 1.0 if hidden and 2 * hidden >= columns else math.sqrt(hidden / max(columns, 1))


def effect_in_twins(value: float, bias: float, square: float) -> float:
    """The least square of the effect that differences of twins hold beside the variance, for outcomes in [-1, 1].

    An estimate that is off by a bias says so much less of twins, who are near each other: they would take off more
    than they hold, and leave the variance too small.

    Args:
        value: the estimate.
        bias: what it may be off by, in standard errors of sampling.
        square: the sampling variance before anything is taken off.
    """
    return max(min(abs(value), 2.0) - bias * math.sqrt(max(square, 0.0)), 0.0) ** 2


def bias_ratio(omitted: OmittedConfounding | None, units: int) -> float:
    """The largest bias over the standard error of sampling, sqrt(Var(Gamma)/units); 0 if nothing is declared."""
    return 0.0 if omitted is None else math.sqrt(omitted.outcome * omitted.treatment * units)


def robustness_value(estimate: Estimate, noise: Noise, confidence: float, upper: float, units: int) -> float:
    """The least share, of outcome and treatment alike, at which the interval would reach 0; in [0, 1].

    After Cinelli and Hazlett (2020), section 4.2: their robustness value for the end of an interval. 0: the interval
    holds 0 even if nothing was left out.

    Args:
        estimate: what the interval was made of; its own bias is not looked at.
        noise: the noise in it.
        confidence: the level, in [0.5, 1).
        upper: the upper bound on the sampling variance that the interval uses.
        units: n.
    """
    error, size = 1 - confidence - variance_error(estimate, noise, confidence), abs(estimate.value)

    def excess(bias: float) -> float:
        return noise.outside(size, bias, upper, estimate.noise) - error

    if size == 0 or excess(0.0) >= 0:
        return 0.0
    # At a bias of the estimate's own size every second interval would hold 0.
    share = float(brentq(excess, 0.0, size)) / math.sqrt(upper * units) if upper > 0 else 1.0
    return min(share, 1.0)
