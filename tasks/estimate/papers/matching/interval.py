"""Turn the two released numbers of matching into an estimate and its interval.

Post-processing of released or public values. The sampling variance is that of Abadie and Imbens (2006), with
a constant conditional variance in each arm; derivations: ``docs/proofs/matching.md``, sections 4 to 6. Randomised
treatments attenuate an effect; the factor is released, and corrected for if the study asks for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from causalveil.schemas.confounding import AdjustmentMethod, ConfoundingStatement, Shortfall, by, declares_randomised
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Level
from causalveil.schemas.release import Interval, Variance
from causalveil.schemas.study import Variant
from causalveil.tasks.data.covariates import dimension, feature_names
from causalveil.tasks.estimate.interval import (
    VARIANCE_SHARE,
    Estimate,
    Findings,
    Noise,
    assemble,
    covering,
    unless_randomised,
)
from causalveil.tasks.estimate.papers.matching import scores, weights
from causalveil.tasks.estimate.papers.matching.scores import model
from causalveil.tasks.estimate.papers.matching.weights import Reuse
from causalveil.tasks.estimate.weights.weighted_means import Details, NoisyDifference
from causalveil.tasks.machine.arrays import FloatArray


def attenuation(share: float, keep: float) -> float:
    """Return A, the part of an effect that remains between randomised arms.

    A = P(t = 1 | t' = 1) - P(t = 1 | t' = 0).

    Args:
        share: p, the share of treated units, in [0, 1]; 0 and 1 have A = 0.
        keep: the probability that a treatment is kept, in (1/2, 1).
    """
    if not 0 < share < 1:
        return 0.0
    treated = keep * share + (1 - keep) * (1 - share)
    return keep * share / treated - (1 - keep) * share / (1 - treated)


def treated_share(responses: int, units: int, keep: float, tail: float) -> tuple[float, float, float]:
    """Return the treated share behind randomised responses, and bounds each missed by ``tail``.

    The number of responses "treated" has mean n (1 - keep + (2 keep - 1) p) and, given the treatments, variance n keep
    (1 - keep) exactly; the bounds are normal. All three are cut to [0, 1].

    Args:
        responses: units whose randomised treatment is 1.
        units: n.
        keep: the probability that a treatment is kept, in (1/2, 1).
        tail: in (0, 1/2].
    """
    contrast = 2 * keep - 1
    share = (responses / units - (1 - keep)) / contrast
    reach = -float(ndtri(tail)) * math.sqrt(keep * (1 - keep) / units) / contrast
    low, middle, high = np.clip([share - reach, share, share + reach], 0.0, 1.0).tolist()
    return middle, low, high


def attenuation_range(low: float, high: float, keep: float) -> tuple[float, float]:
    """Return the least and largest attenuation factor for shares in [low, high]."""
    ends = (attenuation(low, keep), attenuation(high, keep))
    return min(ends), attenuation(0.5, keep) if low <= 0.5 <= high else max(ends)


DISTANT = limit(Code.matching)


@dataclass(frozen=True)
class Contrast(Noise):
    """The difference of two independent Laplace draws, the second scaled by ``ratio`` <= 1.

    By partial fractions of 1/((1 + s^2)(1 + r^2 s^2)) its tail, with any independent sampling error, is
    (T_1 - r^2 T_r)/(1 - r^2), T the tails with one of the two draws alone.
    """

    ratio: float = 1.0

    @property
    def deviation(self) -> float:
        """Standard deviation of the difference."""
        return self.scale * math.sqrt(2 * (1 + self.ratio**2))

    def tail(self, distance: float, sampling_variance: float = 0.0, factor: float = 1.0) -> float:
        """Return P(E > distance), E = N(0, sampling_variance) + factor * difference, independent."""
        # Of equal draws: a normal whose variance is Gamma(2, 2 scale^2).
        if self.ratio > 1 - 1e-6:
            return Noise(self.scale, 2.0).tail(distance, sampling_variance, factor)
        first = Noise(self.scale, 1.0).tail(distance, sampling_variance, factor)
        second = Noise(self.scale * self.ratio, 1.0).tail(distance, sampling_variance, factor)
        return (first - self.ratio**2 * second) / (1 - self.ratio**2)


def findings(study: MatchingStudy, sizes: Sizes, reuse: Reuse, statistics: FloatArray) -> Findings:
    """Return estimate and interval from released numbers.

    Args:
        study: the study.
        sizes: numbers of units.
        reuse: summary of the matching.
        statistics: the two released numbers.
    """
    scale = weights.mechanism(study).known_scale
    estimate, noise = _estimate(study, reuse, statistics, scale)
    width = study.outcome.width
    details, not_covered = Details(), _not_covered(study)
    if study.leaves_confounding:
        estimate = replace(estimate, offset=_left(study, reuse, estimate, noise))
    if study.corrects_attenuation:
        value, interval, variance, upper = _corrected(study, reuse, estimate, noise)
    else:
        value, interval, variance, upper = assemble(estimate, noise, study.confidence, (-width, width))
    if estimate.offset > 0:
        interval = covering(interval, limit(Code.confounding_of_prior))
    if study.privacy.level is not Level.label:
        details |= _attenuation(study, reuse)
        if not study.corrects_attenuation:
            factor = float(details["attenuation_factor"])
            not_covered = (*not_covered, limit(Code.attenuation, factor=factor))
    details |= _matching_details(study, reuse)
    details |= {
        "noise_standard_error": math.sqrt(variance.noise),
        "sampling_standard_error": math.sqrt(variance.sampling),
        "sampling_standard_error_upper": math.sqrt(upper),
        "drowned": estimate.clamped,
    }
    release_by = model(study, sizes).mechanism()
    if release_by is not None:
        details["propensity_noise"] = Noise.of(release_by, dimension(study)).deviation
    statement = adjustment(study)
    return Findings.of_one(study, value, interval, variance, details, statement, not_covered=not_covered)


def adjustment(study: MatchingStudy) -> ConfoundingStatement:
    """Return the confounding statement of matching."""
    private = by(AdjustmentMethod.private_matching, Shortfall.private_scores)
    statement = by(AdjustmentMethod.matching) if study.privacy.level is Level.label else private
    return unless_randomised(study.estimator, statement)


def _not_covered(study: MatchingStudy) -> tuple[Limit, ...]:
    if declares_randomised(study.estimator.model_dump()):
        return limit(Code.not_randomised), DISTANT
    if study.leaves_confounding:
        return limit(Code.beyond_prior), limit(Code.caps)
    return (
        limit(Code.unmeasured),
        DISTANT,
        *(() if study.privacy.level is Level.label else (limit(Code.noisy_scores),)),
    )


def _left(study: MatchingStudy, reuse: Reuse, estimate: Estimate, noise: Noise) -> float:
    """Return the bias that is allowed for, in outcome units, before attenuation is corrected.

    Noise on scores makes neighbours of people who differ by an unknown amount: so it is all the confounding that a
    study declares for no adjustment. The outcome's deviation within arms follows from the upper bound on the sampling
    variance, at most half of the declared range. Between arms of randomised treatments the bias is attenuated.
    """
    declared = study.estimator.bias()
    if declared == 0 or reuse.queries == 0:
        return 0.0
    half = study.outcome.width / 2
    upper = assemble(estimate, noise, study.confidence, None)[3]
    deviation = half * math.sqrt(min(1.0, upper / (reuse.weights.largest_variance * half**2)))
    share, _, _ = treated_share(reuse.treated, reuse.treated + reuse.controls, _keep(study), 0.5)
    factor = min(max(attenuation(share, _keep(study)), 0.0), 1.0)
    return declared * deviation * (factor if study.corrects_attenuation else 1.0)


def _estimate(study: MatchingStudy, reuse: Reuse, statistics: FloatArray, scale: float) -> tuple[Estimate, Noise]:
    """Return the released numbers in outcome units, and the distribution of their noise."""
    half = study.outcome.width / 2
    noise = Noise(scale, 1.0)
    if reuse.queries == 0:
        return Estimate(0.0, 0.0, 0.0, 0.0, clamped=True, excess=(4 * half) ** 2), noise
    matched = reuse.weights
    first, second = statistics.tolist()
    if study.estimator.variant is Variant.paper:
        treated, controls = (2 * (cap / reuse.ratio + 1) / reuse.queries for cap in reuse.caps)
        factor = max(treated, controls)
        noise = Contrast(scale, 1.0, ratio=min(treated, controls) / factor)
        value = treated * first - controls * second
        return Estimate(value * half, matched.largest_variance * half**2, factor * half, 0.0), noise
    read = NoisyDifference.of(matched, weights.mechanism(study).cost, (first, second), 0.0)
    estimate = Estimate(
        value=read.value * half,
        variance=read.variance * half**2,
        noise=read.noise * half,
        variance_noise=read.variance_noise * half**2,
        largest_variance=matched.largest_variance * half**2,
    )
    return estimate, noise


def _corrected(
    study: MatchingStudy, reuse: Reuse, estimate: Estimate, noise: Noise
) -> tuple[float, Interval, Variance, float]:
    """Return all divided by the attenuation factor, whose own uncertainty takes a tenth of the error."""
    width, alpha = study.outcome.width, 1 - study.confidence
    keep = _keep(study)
    units = reuse.treated + reuse.controls
    share, low, high = treated_share(reuse.treated, units, keep, alpha * VARIANCE_SHARE / 2)
    least, largest = attenuation_range(low, high, keep)
    factor = attenuation(share, keep)
    confidence = 1 - alpha * (1 - VARIANCE_SHARE)
    if least <= 0 or factor <= 0:
        estimate = replace(estimate, clamped=True, excess=(2 * width) ** 2)
        value, interval, variance, upper = assemble(estimate, noise, study.confidence, (-width, width))
        return value, interval, variance, upper
    value, interval, variance, upper = assemble(estimate, noise, confidence, None)
    ends = [
        interval.lower / (least if interval.lower < 0 else largest),
        interval.upper / (least if interval.upper > 0 else largest),
    ]
    if estimate.clamped:
        ends = [-width, width]
    lower, top = (min(max(end, -width), width) for end in ends)
    covers = (*interval.covers, limit(Code.attenuation_factor))
    interval = interval.model_copy(
        update={
            "lower": lower,
            "upper": top,
            "confidence": study.confidence,
            "covers": covers,
            "whole_range": (lower, top) == (-width, width),
            "bias": interval.bias / factor,
        }
    )
    variance = Variance(sampling=variance.sampling / factor**2, noise=variance.noise / factor**2)
    return min(max(value / factor, -width), width), interval, variance, upper / factor**2


def _keep(study: MatchingStudy) -> float:
    release_by = scores.treatment_mechanism(study)
    if release_by is None:
        raise ValueError("treatments are randomised at sample level only")
    return release_by.keep_probability


def _attenuation(study: MatchingStudy, reuse: Reuse) -> Details:
    keep = _keep(study)
    share, _, _ = treated_share(reuse.treated, reuse.treated + reuse.controls, keep, 0.5)
    factor = attenuation(share, keep)
    return {
        "flip_probability": 1 - keep,
        "treated_share": share,
        "attenuation_factor": factor,
        "attenuation_corrected": study.corrects_attenuation,
    }


def _matching_details(study: MatchingStudy, reuse: Reuse) -> Details:
    """Return caps, reuse, effective sizes, counts, and the declared sensitivity of 1 in outcome units."""
    width = study.outcome.width
    if reuse.queries == 0:
        return reuse.details
    if study.estimator.variant is Variant.ours:
        return {**reuse.details, **reuse.weights.details(width)}
    treated, controls = ((cap / reuse.ratio + 1) * width for cap in reuse.caps)
    effective = dict(zip(("effective_treated", "effective_control"), reuse.weights.effective, strict=True))
    return {
        **reuse.details,
        **effective,
        "sensitivity_treated_sum": treated,
        "sensitivity_control_sum": controls,
    }


def interval_stage(
    study: MatchingStudy, sizes: Sizes, reuse: Reuse, coefficients: FloatArray, statistics: FloatArray
) -> Findings:
    """Return the findings, with coefficients, from released and public values alone.

    Args:
        study: the study.
        sizes: numbers of units.
        reuse: summary of the matching.
        coefficients: of the propensity model, shape (d,); released with the findings where it has noise.
        statistics: the two released numbers.
    """
    result = findings(study, sizes, reuse, statistics)
    if study.privacy.level is Level.label:
        return result
    names = (f"propensity_coefficient[{name}]" for name in feature_names(study))
    return replace(result, details={**result.details, **dict(zip(names, coefficients.tolist(), strict=True))})
