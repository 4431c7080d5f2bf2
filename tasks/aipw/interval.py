"""AIPW: from released sums of scores to an estimate and its interval.

Post-processing of released or public values. Derivations: ``docs/proofs/aipw.md``, section 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.privacy import Coverage
from causalveil.schemas.release import Interval, Variance
from causalveil.tasks.aipw.adjustment import AipwAdjustment, adjustment, are_weighted, is_rare
from causalveil.tasks.aipw.outcome_model import ArmSummary
from causalveil.tasks.aipw.recipe import Recipe
from causalveil.tasks.aipw.scores import Nuisances, ScoreRange
from causalveil.tasks.covariates.encoding import feature_names
from causalveil.tasks.inference import bernstein
from causalveil.tasks.inference.assemble import EffectFindings, Estimate, Noise, around, assemble
from causalveil.tasks.inference.confounding import (
    COVERS_CONFOUNDING,
    COVERS_DECLARED,
    bias_ratio,
    robustness_value,
    sure_spread,
)
from causalveil.tasks.inference.variance_allowance import allowance
from causalveil.tasks.machine.arrays import FloatArray

COVERS_OPEN = "confounding that clipping and noisy second moments leave"
COVERS = "noise of the outcome model and the treated share, to first order"


class Assembled(NamedTuple):
    """An interval and what it was made of, in outcome units.

    Attributes:
        value: the estimate.
        interval: around it.
        variance: of sampling and of noise.
        upper: upper bound on the sampling variance.
        whole: the estimate as it was before.
        noise: of the scores' sums.
        adjustment: what was done about confounding.
    """

    value: float
    interval: Interval
    variance: Variance
    upper: float
    whole: Estimate
    noise: Noise
    adjustment: AipwAdjustment

    @property
    def half_width(self) -> float:
        """Of the interval."""
        return (self.interval.upper - self.interval.lower) / 2


def assembled(
    study: AipwStudy,
    recipe: Recipe,
    summaries: Sequence[ArmSummary],
    nuisances: Sequence[Nuisances],
    bound: ScoreRange,
    released: FloatArray,
    *,
    quick: bool = False,
) -> Assembled:
    """Estimate and interval from the released sums of scores.

    Args:
        study: the study.
        recipe: its charges and sizes.
        summaries: of each fold's training units.
        nuisances: by which each fold was scored.
        bound: what v = (Gamma - middle)/half was scaled by.
        released: (sum v, sum v^2), noisy.
        quick: allow for the noise in the variance by the union bound, which is a little wider and costs nothing.
    """
    noise, units = Noise.of(recipe.effect_mechanism(), 2), sum(recipe.known_sizes)
    estimate = _estimate(released, bound, units, study.outcome.width / 2)
    models = nuisance_variance(study, recipe, summaries, nuisances) * (study.outcome.width / 2) ** 2
    # Both are symmetric around zero and independent: their variances add up.
    whole = replace(estimate, noise=math.hypot(estimate.noise, math.sqrt(models) / noise.deviation))
    # What is decided rests on the arms alone, so that what scores tell favours no way of adjusting.
    sharper = None if quick else _deviation_by_scores(study, recipe, summaries, nuisances, estimate, noise)
    omitted, adjusted = study.estimator.omitted_confounding, adjustment(study, recipe, summaries, nuisances, sharper)
    whole = replace(
        whole,
        allowance=None if quick else variance_allowance(whole, noise, study.confidence),
        bias=bias_ratio(omitted, units),
        offset=adjusted.bias * (study.outcome.width / 2),
        drowned=adjusted.drowned,
        # The variance says so too, for those who pool.
        excess=study.outcome.width**2 if adjusted.drowned else 0.0,
    )
    width = study.outcome.width
    value, interval, variance, upper = assemble(whole, noise, study.confidence, (-width, width))
    also = [
        words
        for words, said in (
            (COVERS, models > 0),
            (COVERS_CONFOUNDING, omitted is not None),
            (COVERS_DECLARED if adjusted.allows_for_all else COVERS_OPEN, whole.offset > 0),
        )
        if said
    ]
    interval = interval.model_copy(update={"covers": (*interval.covers, *also)})
    if study.estimator.coverage is Coverage.finite_sample:
        half = bernstein.half_width(released, noise, recipe.known_sizes, study.confidence, recipe.rounding)
        value, interval = around(estimate.value, half * bound.half * width / 2, study.confidence, (-width, width))
        interval = interval.model_copy(update={"coverage": Coverage.finite_sample})
    return Assembled(value, interval, variance, upper, whole, noise, adjusted)


def findings(
    study: AipwStudy,
    recipe: Recipe,
    summaries: Sequence[ArmSummary],
    nuisances: Sequence[Nuisances],
    bound: ScoreRange,
    released: FloatArray,
) -> EffectFindings:
    """Estimate and interval, and everything that is said of them; arguments as of :func:`assembled`."""
    found = assembled(study, recipe, summaries, nuisances, bound, released)
    variance, noise, units = found.variance, found.noise, sum(recipe.known_sizes)
    details: dict[str, float | int | str | bool] = {
        "effect_noise_standard_error": noise.deviation * bound.half * study.outcome.width / 2 / units,
        "noise_standard_error": math.sqrt(variance.noise),
        "sampling_standard_error": math.sqrt(variance.sampling),
        "sampling_standard_error_upper": math.sqrt(found.upper),
        "score_range": 2 * bound.half * study.outcome.width / 2,
        "score_range_trivial": trivial_range(study),
        "folds": recipe.folds,
        "propensity_model": propensity_kind(study, nuisances),
        "outcome_model": "arm means" if recipe.slopes_cost is None else "ridge with common slopes",
        "not_covered": found.adjustment.not_covered,
    }
    if found.adjustment.words is not None:
        details["adjustment"] = found.adjustment.words
        unbiased = replace(found.whole, value=found.value)
        details["robustness_value"] = robustness_value(unbiased, noise, study.confidence, found.upper, units)
    return EffectFindings(found.value, found.interval, variance, details | models_in_words(study, summaries, nuisances))


def _estimate(released: FloatArray, bound: ScoreRange, units: int, half_outcome: float) -> Estimate:
    """The mean of the scores and its sampling variance, in outcome units."""
    first, square = (float(number) / units for number in released)
    unit = bound.half * half_outcome
    mean = min(max(first, -1.0), 1.0)
    return Estimate(
        value=bound.middle * half_outcome + unit * first,
        variance=unit**2 * (square - mean**2) / units,
        noise=unit / units,
        variance_noise=unit**2 / units**2 * math.hypot(1.0, 2 * mean),
        # Of numbers in [-1, 1].
        largest_variance=unit**2 / units,
    )


def _deviation_by_scores(
    study: AipwStudy,
    recipe: Recipe,
    summaries: Sequence[ArmSummary],
    nuisances: Sequence[Nuisances],
    estimate: Estimate,
    noise: Noise,
) -> float | None:
    """The outcome's deviation within arms as the scores tell it, scaled; None where the arm sums tell it better.

    Without slopes and weights Var Gamma is that of outcomes around their arms' means times p/w^2 + (1 - p)/(1 - w)^2, w
    the share that divides scores.
    """
    if are_weighted(nuisances) or any(models.outcome.adjusts for models in nuisances):
        return None
    units, half = sum(recipe.known_sizes), study.outcome.width / 2
    factor = arms_noise = 0.0
    for fold, found in enumerate(summaries):
        part, used = recipe.known_sizes[fold] / units, study.estimator.propensity.clipped(found.treated_share)
        factor += part * (found.treated_share / used**2 + (1 - found.treated_share) / (1 - used) ** 2)
        arms_noise += (part * Noise.of(recipe.arm_sums_mechanism(fold), 4).deviation / recipe.trained_on(fold)) ** 2
    unit = units / factor / half**2
    scores_noise = noise.deviation * estimate.variance_noise * unit
    if scores_noise**2 > arms_noise:
        return None
    return sure_spread(estimate.variance * unit, scores_noise)


def nuisance_variance(
    study: AipwStudy, recipe: Recipe, summaries: Sequence[ArmSummary], nuisances: Sequence[Nuisances]
) -> float:
    """Variance that noise in outcome model and treated share gives the estimate, scaled outcomes, to first order.

    An error e in the slopes moves a fold's mean score by e'D, D the difference of the arms' means of x. An error e in
    an arm's mean moves it by (1 - part/used) e, part the arm's true share and used the one by which it is divided: the
    product of two errors, which double robustness leaves, or what the clip of a rare treatment's share leaves of the
    error, that of sampling included. Both vanish where a known propensity balances the arms; then part/used - 1 is
    sampling error, which the scores' own variance holds. A model of treatment takes off the second, and of the first
    what it balances of D. Folds are averaged; what their training units have in common errs alike.
    """
    if study.estimator.propensity.known is not None:
        return 0.0
    total, alike, units = 0.0, np.zeros(2), sum(recipe.known_sizes)
    weighted = are_weighted(nuisances) and not any(is_rare(study, found) for found in summaries)
    for fold, (found, models) in enumerate(zip(summaries, nuisances, strict=True)):
        trained, share, size = recipe.trained_on(fold), found.treated_share, recipe.known_sizes[fold] / units
        if weighted:
            total += size**2 * models.outcome.variance * models.outcome.left_by(models.coefficients)
            continue
        used = study.estimator.propensity.clipped(share)
        cut = 1 - found.parts / np.array([used, 1 - used])
        share_variance = found.treated_share_variance + share * (1 - share) / trained
        shifts = np.array(found.mean_shifts) ** 2
        loose = share_variance / found.parts**2
        constants = float(np.array(found.mean_variances) @ (loose + cut**2) + shifts @ loose)
        total += size**2 * (constants + models.outcome.variance)
        alike += size * np.abs(cut) * np.sqrt(found.deviation**2 / (trained * found.parts) + shifts)
    return total + float(alike @ alike)


def variance_allowance(estimate: Estimate, noise: Noise, confidence: float) -> float | None:
    """What to allow for the noise in the variance; None, the union bound, where the two noises depend on each other.

    Normal noise on the two sums is independent. That the mean in the variance is the noisy one correlates them by twice
    the mean of v, a few per cent, and to first order not the interval's two tails together.
    """
    if noise.mixing is not None:
        return None
    ratio = noise.deviation * estimate.variance_noise / (noise.deviation * estimate.noise) ** 2
    return allowance(ratio, confidence)


def trivial_range(study: AipwStudy) -> float:
    """2B/min(w1, 1 - w2): the range of a score if nothing were known of the nuisances. Outcome units."""
    low, high = study.estimator.propensity.bounds
    return 2 * study.outcome.width / min(low, 1 - high)


def propensity_kind(study: AipwStudy, nuisances: Sequence[Nuisances]) -> str:
    """What scores are weighted by."""
    if study.estimator.propensity.known is not None:
        return "known"
    return "logistic" if are_weighted(nuisances) else "treated share"


def models_in_words(
    study: AipwStudy, summaries: Sequence[ArmSummary], nuisances: Sequence[Nuisances]
) -> dict[str, float | int | str | bool]:
    """The released nuisances, by name: all of them functions of noisy statistics."""
    details: dict[str, float | int | str | bool] = {}
    names = feature_names(study)
    for fold, (found, models) in enumerate(zip(summaries, nuisances, strict=True), start=1):
        half, outcome = study.outcome.width / 2, models.outcome
        details[f"treated_share[{fold}]"] = models.constant_score
        details[f"mean_treated[{fold}]"] = study.outcome.middle + half * found.means[0]
        details[f"mean_control[{fold}]"] = study.outcome.middle + half * found.means[1]
        details[f"spread[{fold}]"] = half * found.deviation
        if outcome.limit > 0 or outcome.common_factor > 0:
            details[f"slopes_kept[{fold}]"] = outcome.common_factor
            details[f"slopes_leaning[{fold}]"] = outcome.leaning_factor
        if outcome.limit > 0:
            pairs = zip(names[:-1], outcome.slopes.tolist(), strict=True)
            details |= {f"outcome_slope[{fold}][{name}]": half * slope for name, slope in pairs}
        if models.coefficients is not None:
            pairs = zip(names, models.coefficients.tolist(), strict=True)
            details |= {f"propensity_coefficient[{fold}][{name}]": value for name, value in pairs}
    return details
