"""What a private propensity model may leave of confounding, and the allowance for it.

A penalty, the noise on coefficients and the clip of scores each take off a part of the adjustment that no released
number tells. So the interval allows for what a study declares where nothing is adjusted for, and for what noise may add
to it: post-processing of declared and released values. Argument: ``docs/proofs/ipw.md``, section 6.
"""

from __future__ import annotations

import math

from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.study import Estimand
from causalveil.tasks.covariates.encoding import dimension
from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.models import logistic

# The part of 1 - confidence in which outcomes may spread more than the bound on it says.
SPREAD_SHARE = 0.25


def distance_left(study: IpwStudy, sizes: Sizes) -> float:
    """Return how many deviations the arms' weighted means of an index may still differ by.

    Deviations are standard deviations of that confounding index.

    The declared distance, and what noise z on the coefficients adds: to first order the weighted means of an index of
    unit variance move apart by its covariance with z'x, of standard deviation s sqrt(largest eigenvalue of the
    covariance of x) <= s sqrt(p/(p + 1)), since a row's entries are at most 1/sqrt(p + 1). However large the noise is,
    it moves them no further than weights within the clip can.
    """
    mechanism, p = logistic.model(study, sizes).mechanism(), len(study.covariates)
    noise = Noise.of(mechanism, dimension(study)).deviation * math.sqrt(p / (p + 1))
    return study.estimator.confounding_prior.distance + min(noise, most_moved(study))


def most_moved(study: IpwStudy) -> float:
    """Bound how many deviations weights within the clip move the arms' means of an index.

    Of both arms together, in standard deviations of the index.

    |E_w f - E f| <= sd(f) sd(w)/E(w), and weights between a and r a have sd(w)/E(w) <= (r - 1)/(2 sqrt(r)), attained by
    two values.
    """
    low, high = study.estimator.clip
    ratios = {
        Estimand.ATE: (high / low, (1 - low) / (1 - high)),
        Estimand.ATT: (high / (1 - high) * (1 - low) / low,),
        Estimand.ATC: (high / (1 - high) * (1 - low) / low,),
    }[study.estimand]
    return sum((ratio - 1) / (2 * math.sqrt(ratio)) for ratio in ratios)


def weighted_spread(arms: list[tuple[float, float, float]], noise: Noise, confidence: float) -> float:
    """Upper bound on the standard deviation of scaled outcomes within arms, in [0, 1].

    A released sum of squares within arms over a released sum of weights, each at the end of its noise that makes the
    ratio larger: below the true ratio in SPREAD_SHARE of 1 - confidence at most, but for the means in it.

    Args:
        arms: of each arm that counts (sum of c a^2 (u - mean)^2, sum of c a^2, the mean), as released.
        noise: of each released sum.
        confidence: of the bound, in [0.5, 1).
    """
    far = noise.quantile((1 - confidence) * SPREAD_SHARE)
    squares = sum(found for found, _, _ in arms) + far * math.sqrt(
        sum(1 + 4 * mean**2 + mean**4 for _, _, mean in arms)
    )
    weights = sum(found for _, found, _ in arms) - far * math.sqrt(len(arms))
    # Scaled outcomes lie in [-1, 1].
    return math.sqrt(min(max(squares, 0.0) / weights, 1.0)) if weights > 0 else 1.0
