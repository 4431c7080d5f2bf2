"""From the two released numbers of a difference of weighted means to an estimate and its interval.

Post-processing of released and public values (``docs/proofs/balancing.md``, section 4).
"""

from __future__ import annotations

import math

from causalveil.schemas.privacy import PrivacyCost
from causalveil.schemas.study import EffectStudy
from causalveil.tasks.inference.assemble import EffectFindings, Estimate, Noise, assemble
from causalveil.tasks.inference.biased_allowance import allowance_beside
from causalveil.tasks.inference.confounding import effect_in_twins
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.weighted.perturb import mechanism, shares, variance_unit
from causalveil.tasks.models.weighted.public_weights import PublicWeights


def largest_variance(weights: PublicWeights) -> float:
    """Upper bound on the sampling variance of any population, for outcomes in [-1, 1] (``matching.md``, section 4)."""
    treated, control = (float(square) for square in weights.weight_squares)
    # With nothing left out, weights of either arm make room for the variance of effects.
    whole = weights.queries == sum(weights.arms)
    return treated + control + (0 if whole else 4 / weights.queries)


def noise_of(cost: PrivacyCost) -> Noise:
    """Return the noise on one of the two numbers."""
    release_by = mechanism(cost)
    return Noise.of(release_by, 2) if cost.delta > 0 else Noise(release_by.known_scale, 1.0)


def weighted_findings(
    study: EffectStudy, weights: PublicWeights, statistics: FloatArray, bias: float = 0.0
) -> EffectFindings:
    """Estimate and interval.

    Args:
        study: the study.
        weights: the weighting.
        statistics: the two noisy numbers.
        bias: what the estimate may be off by, in standard errors of sampling.
    """
    cost, half, width = study.privacy.cost, study.outcome.width / 2, study.outcome.width
    noise = noise_of(cost)
    first, second = (float(share) for share in shares(weights, cost))
    factor = 2 * float(weights.largest_weight) / first
    value = factor * float(statistics[0])
    most = largest_variance(weights)
    estimate = Estimate(value * half, most * half**2, factor * half, 0.0, bias=bias)
    if weights.measurable:
        unit = float(variance_unit(weights)) / second
        variance = unit * float(statistics[1])
        # The twins' differences hold the effect itself; its share is taken off with the estimate.
        variance -= effect_in_twins(value, bias, variance) / weights.queries if weights.pairs[2] else 0.0
        # Both noises are independent; their deviations are those of one number each.
        ratio = unit / (noise.deviation * factor**2)
        estimate = Estimate(
            value=value * half,
            variance=variance * half**2,
            noise=factor * half,
            variance_noise=unit * half**2,
            largest_variance=most * half**2,
            allowance=allowance_beside(ratio, study.confidence, bias, laplace=cost.delta == 0),
            bias=bias,
        )
    value, interval, variances, upper = assemble(estimate, noise, study.confidence, (-width, width))
    treated, control = weights.effective
    details: dict[str, float | int | str | bool] = {
        "noise_standard_error": math.sqrt(variances.noise),
        "sampling_standard_error": math.sqrt(variances.sampling),
        "sampling_standard_error_upper": math.sqrt(upper),
        "sensitivity_of_estimate": float(weights.largest_weight) * width,
        "largest_weight": float(weights.largest_weight),
        "effective_treated": treated,
        "effective_control": control,
        "variance_share": second,
        "drowned": estimate.drowned,
    }
    return EffectFindings(value, interval, variances, details)
