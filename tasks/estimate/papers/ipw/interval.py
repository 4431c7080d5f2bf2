"""Turn released sums of inverse probability weighting into an estimate and its interval.

Post-processing of released or public values. The penalty, the noise on coefficients and the clip of scores each reduce
the adjustment by an unknown part. So the interval allows for the confounding that a study declares for no adjustment,
and for what noise may add to it. Derivations: ``docs/proofs/ipw.md``, section 6.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from causalveil.schemas.confounding import AdjustmentMethod, ConfoundingStatement, Shortfall, by
from causalveil.schemas.estimators.ipw import IpwStudy, Weighting
from causalveil.schemas.limits import Code, limit
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import Estimand, Variant
from causalveil.tasks.data.covariates import dimension, feature_names
from causalveil.tasks.estimate.interval import Estimate, Findings, Noise, assemble, covering, open_to, unless_randomised
from causalveil.tasks.estimate.models import logistic
from causalveil.tasks.estimate.papers.ipw import weights
from causalveil.tasks.machine.arrays import FloatArray

# The part of 1 - confidence in which outcomes may vary more than their bound.
SPREAD_SHARE = 0.25


def distance_left(study: IpwStudy, sizes: Sizes) -> float:
    """Return the remaining distance of the arms' weighted means of an index, in its deviations.

    It is the declared distance, plus that by noise z on the coefficients: to first order the weighted means of an index
    of unit variance move apart by its covariance with z'x, of standard deviation s sqrt(largest eigenvalue of the
    covariance of x) <= s sqrt(p/(p + 1)), since a row's entries are at most 1/sqrt(p + 1). No noise moves them further
    than weights within the clip can.
    """
    mechanism, p = logistic.model(study, sizes).mechanism(), len(study.covariates)
    noise = Noise.of(mechanism, dimension(study)).deviation * math.sqrt(p / (p + 1))
    return study.estimator.confounding_prior.distance + min(noise, most_moved(study))


def most_moved(study: IpwStudy) -> float:
    """Bound the change, in deviations, of the arms' index means by weights within the clip.

    |E_w f - E f| <= sd(f) sd(w)/E(w), and weights between a and r a have sd(w)/E(w) <= (r - 1)/(2 sqrt(r)), attained by
    two values.
    """
    at_low, at_high = (study.estimand.weights(end) for end in study.estimator.clip)
    ratios = at_low[0] / at_high[0], at_high[1] / at_low[1]
    return sum((ratio - 1) / (2 * math.sqrt(ratio)) for ratio in ratios)


def weighted_spread(arms: list[tuple[float, float, float]], noise: Noise, confidence: float) -> float:
    """Return an upper bound, in [0, 1], on the deviation of scaled outcomes within arms.

    A released sum of squares within arms over a released sum of weights, each moved by its noise so that the ratio is
    larger. It is below the true ratio with probability at most SPREAD_SHARE (1 - confidence), but for errors of means.

    Args:
        arms: of each weighted arm (sum of c a^2 (u - mean)^2, sum of c a^2, the mean), as released.
        noise: of each released sum.
        confidence: of the bound, in [0.5, 1).
    """
    far = noise.quantile((1 - confidence) * SPREAD_SHARE)
    error = far * math.sqrt(sum(1 + 4 * mean**2 + mean**4 for _, _, mean in arms))
    squares = sum(square for square, _, _ in arms) + error
    weights = sum(weight for _, weight, _ in arms) - far * math.sqrt(len(arms))
    # Scaled outcomes lie in [-1, 1].
    return math.sqrt(min(max(squares, 0.0) / weights, 1.0)) if weights > 0 else 1.0


# A noisy sum of weights below this many noise standard deviations does not carry a mean.
FLOOR_DEVIATIONS = 5.0
# The share of a coefficient below which planner and release warn of shrinkage.
ENOUGH = 0.8


def findings(study: IpwStudy, sizes: Sizes, statistics: FloatArray) -> Findings:
    """Return estimate and interval from released sums.

    Args:
        study: the study.
        sizes: numbers of units.
        statistics: of ``perturb``, in the order of ``weights.statistic_names``.
    """
    noise = Noise.of(weights.mechanism(study, sizes), len(weights.statistic_names(study)))
    if study.estimator.weighting is Weighting.hajek:
        estimate, details = _hajek(study, statistics, noise)
    else:
        estimate, details = _horvitz_thompson(study, statistics, sizes.estimation)
    left = study.estimator.bias(distance_left(study, sizes))
    estimate = replace(estimate, offset=left * _spread(study, statistics, noise))
    width = study.outcome.width
    bounds = None if study.estimator.variant is Variant.paper else (-width, width)
    value, interval, variance, upper = assemble(estimate, noise, study.confidence, bounds)
    if estimate.offset > 0:
        interval = covering(interval, limit(Code.confounding_of_prior))
    details |= {
        "noise_standard_error": math.sqrt(variance.noise),
        "sampling_standard_error": math.sqrt(variance.sampling),
        "sampling_standard_error_upper": math.sqrt(upper),
        "propensity_noise_standard_error_bound": propensity_noise_bound(study, sizes),
        "denominator_clamped": estimate.clamped,
    }
    not_covered = open_to(study.estimator, limit(Code.beyond_prior))
    return Findings.of_one(study, value, interval, variance, details, adjustment(study), not_covered=not_covered)


def adjustment(study: IpwStudy) -> ConfoundingStatement:
    """Return the confounding statement: noise and penalty lose a part of unknown size."""
    return unless_randomised(study.estimator, by(AdjustmentMethod.weighting, Shortfall.penalty))


def adjustment_share(study: IpwStudy, treated: float = 0.5) -> float:
    """Return the share of a covariate's coefficient that the penalty leaves, in (0, 1).

    It is also the share of the adjustment for the covariate. With equal scores p and covariates uniform over their
    declared ranges a coefficient's curvature is k = p (1 - p)/(3 (columns + 1)), since rows of the unit ball have
    entries of size 1/sqrt(columns + 1), and ridge regression leaves k/(k + penalty) of it. The rest of the confounding
    stays in the estimate, at any n.
    """
    curvature = treated * (1 - treated) / (3 * (len(study.covariates) + 1))
    return curvature / (curvature + study.estimator.penalty)


def propensity_noise_bound(study: IpwStudy, sizes: Sizes) -> float:
    """Return a first-order bound on the standard error by propensity noise.

    It follows from declared values alone, so it is wide; the interval allows for its confounding. A weighted mean of u
    in [-1, 1] moves along the coefficients by the weighted covariance of u with d log(weight)/dw = k x, where
    ||x|| <= 1 and a standard deviation of u is at most 1: k = 1 - score and score for the arms of ATE, 1 for
    the arm that is weighted otherwise. Horvitz-Thompson means are not centred: |y| <= C, weight times k.
    """
    model = logistic.model(study, sizes).mechanism()
    if model is None:
        return 0.0
    deviation = Noise.of(model, dimension(study)).deviation
    low, high = study.estimator.clip
    if study.estimator.weighting is Weighting.hajek:
        factor = 1 - low + high if study.estimand is Estimand.ATE else 1.0
        return deviation * factor * study.outcome.width / 2
    odds = max(high / (1 - high), (1 - low) / low)
    return deviation * odds * max(abs(study.outcome.lower), abs(study.outcome.upper))


def lemma3_bound(study: IpwStudy, sizes: Sizes, stand_in: StandIn) -> float:
    """Return a bound on g of Lemma 3 (2019a), in outcome units; infinite if none is known.

    It holds on average over people if the fitted scores are the true ones, none is clipped, and weights are Horvitz
    and Thompson's (``docs/proofs/ipw.md``, section 7). |y| <= C, ||x|| <= 1, and the treated have on
    average 1 - share of odds against their treatment per person, the others ``share`` against theirs. For pure
    epsilon the noise is not normal: E exp(z'x) = (1 - s^2 ||x||^2)^(-(d + 1)/2) while s < 1.
    """
    model = logistic.model(study, sizes).mechanism()
    if model is None:
        return 0.0
    noise = Noise.of(model, dimension(study))
    share, largest = stand_in.treated, max(abs(study.outcome.lower), abs(study.outcome.upper))
    odds = study.estimand.tilt(share)
    if noise.mixing is None:
        exponent = noise.scale**2 / 2
    elif noise.scale < 1:
        exponent = -noise.mixing * math.log1p(-(noise.scale**2))
    else:
        return math.inf
    return largest * odds * math.expm1(exponent) if exponent < 700 else math.inf


def _spread(study: IpwStudy, statistics: FloatArray, noise: Noise) -> float:
    """Return an upper bound on the standard deviation of outcomes within weighted arms, in outcome units.

    Horvitz-Thompson means are not centred: it is the largest declared outcome, which no root mean square exceeds.
    """
    if study.estimator.weighting is not Weighting.hajek:
        return max(abs(study.outcome.lower), abs(study.outcome.upper))
    arms = []
    for numerator, total, square, linear, constant in np.asarray(statistics).reshape(2, 5).tolist():
        mean = min(max(numerator / max(total, 1e-9), -1.0), 1.0)
        arms.append((square - 2 * mean * linear + mean**2 * constant, constant, mean))
    used = [arms[1 - arm] for arm in study.estimand.weighted]
    return weighted_spread(used, noise, study.confidence) * study.outcome.width / 2


def _hajek(
    study: IpwStudy, statistics: FloatArray, noise: Noise
) -> tuple[Estimate, dict[str, float | int | str | bool]]:
    """Return the difference of the two weighted arm means, with the delta method per arm.

    mean - mu = (e_numerator - mu e_denominator)/D holds exactly for the noisy denominator D, so the noise of
    one arm's mean has variance (1 + mu^2) sigma^2 / D^2.
    """
    means, variance, noise_square, variance_noise_square, clamped = [], 0.0, 0.0, 0.0, 0
    c = weights.SECOND_MOMENT
    floor = max(FLOOR_DEVIATIONS * noise.deviation, 1e-9)
    for numerator, total, square, linear, constant in np.asarray(statistics).reshape(2, 5).tolist():
        clamped += total < floor
        total = max(total, floor)
        # The true mean lies in [-1, 1]; the nearest point there is no further from it.
        mean = min(max(numerator / total, -1.0), 1.0)
        means.append(mean)
        variance += (square - 2 * mean * linear + mean**2 * constant) / c / total**2
        noise_square += (1 + mean**2) / total**2
        variance_noise_square += (1 + 4 * mean**2 + mean**4) / c**2 / total**4
    half = study.outcome.width / 2
    estimate = Estimate(
        value=(means[0] - means[1]) * half,
        variance=variance * half**2,
        noise=math.sqrt(noise_square) * half,
        variance_noise=math.sqrt(variance_noise_square) * half**2,
        clamped=clamped > 0,
        # A mean anywhere in [-1, 1] has an error of at most the whole width.
        excess=clamped * study.outcome.width**2,
    )
    return estimate, {
        "normalisation": "weights of each arm",
        "mean_treated": study.outcome.middle + means[0] * half,
        "mean_control": study.outcome.middle + means[1] * half,
    }


def _horvitz_thompson(
    study: IpwStudy, statistics: FloatArray, units: int
) -> tuple[Estimate, dict[str, float | int | str | bool]]:
    """Return the sum of signed weighted outcomes over the number of units, with a mean's variance."""
    scale = weights.horvitz_thompson_scale(study)
    first, square = statistics.tolist()
    value = scale.half * first / units + scale.middle
    mean = min(max((value - scale.middle) / scale.half, -1.0), 1.0)
    estimate = Estimate(
        value=value,
        variance=scale.half**2 * (square / units - mean**2) / units,
        noise=scale.half / units,
        variance_noise=scale.half**2 / units**2 * math.hypot(1, 2 * mean),
    )
    return estimate, {"normalisation": "number of estimation units"}


def interval_stage(study: IpwStudy, sizes: Sizes, coefficients: FloatArray, statistics: FloatArray) -> Findings:
    """Return the findings, with coefficients, from released and public values alone.

    Args:
        study: the study.
        sizes: numbers of units.
        coefficients: of the propensity model, shape (d,), as released.
        statistics: of ``perturb``.
    """
    result = findings(study, sizes, statistics)
    names = (f"propensity_coefficient[{name}]" for name in feature_names(study))
    return replace(result, details={**result.details, **dict(zip(names, coefficients.tolist(), strict=True))})
