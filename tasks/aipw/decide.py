"""Whether an AIPW study adjusts at all: by public sizes before a row is read, and by its released models.

Of what could be done with a budget the study does what its expected interval is narrowest by, allowances in it: so more
units or more budget do not widen it, but for the little that a second model may cost. What is expected is that of a
stand-in population, stated here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import CategoricalCovariate
from causalveil.tasks.aipw.adjustment import are_weighted
from causalveil.tasks.aipw.candidates import EXPLAINED, candidates
from causalveil.tasks.aipw.interval import assembled
from causalveil.tasks.aipw.leaning import alike
from causalveil.tasks.aipw.narrow import Narrow
from causalveil.tasks.aipw.outcome_model import ArmSummary, OutcomeModel, residual_limit, summary_from, without_slopes
from causalveil.tasks.aipw.recipe import MEANS_WEIGHT, Recipe
from causalveil.tasks.aipw.scores import Nuisances, ScoreRange, fold_range, score_range
from causalveil.tasks.aipw.shrinkage import SMALLEST_EIGENVALUE, are_told, loose_part, mean_eigenvalue_noise, raised_by
from causalveil.tasks.aipw.slopes import Moments, slopes_from
from causalveil.tasks.covariates.encoding import blocks, scale
from causalveil.tasks.covariates.narrow_ranges import FIT
from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.machine.arrays import FloatArray

# Of the stand-in population: the arms' distance in the metric of the covariates, and the cosine between what explains
# the outcome and what parts the arms. The outcome's explained share is the recipe's.
DISTANCE, ALIKE = 0.5, 0.5
# A model of treatment is fitted beside slopes where that makes the expected interval at most this much wider.
MODELS_WIDTH = 1.02
# Share of nulls in a column that may have them.
MISSING = 0.05
# Confidence of the intervals that are compared.
DECIDED_AT = 0.95
# By which a recipe is chosen: an outcome's standard deviation within an arm, over its declared range.
DECLARED_DEVIATION = 0.125


def recipe(study: AipwStudy, sizes: Sizes | None) -> Recipe:
    """What the study does with its budget. A study whose number of units is unknown is taken for a large one.

    Raises:
        StudyError: too few units for the folds, or a budget of so many digits that it cannot be divided exactly.
    """
    plans = candidates(study, sizes)
    if len(plans) == 1:
        return plans[0]
    study = _as_decided(study)
    stand_in = StandIn(deviation=DECLARED_DEVIATION * study.outcome.width)
    widths = []
    for plan in plans:
        summaries, models = expected_models(study, plan, stand_in)
        # What shrinkage may move arms' means by is allowed for. Where treatment does little it is no error, and budget
        # that was spent to make it smaller would be missing elsewhere.
        summaries = [replace(found, mean_shifts=(0.0, 0.0)) for found in summaries]
        widths.append(_foreseen_width(study, plan, summaries, models))
    if plans[0].penalty is not None and study.estimator.propensity.penalty == "auto":
        # Right if either model is: that is worth a little width.
        widths[0] /= MODELS_WIDTH
    return plans[widths.index(min(widths))]


def settled(
    study: AipwStudy, plan: Recipe, summaries: Sequence[ArmSummary], models: Sequence[Nuisances]
) -> list[Nuisances]:
    """The models by which folds are scored: what would make the interval wider than arm means is left out.

    Post-processing of released values. Folds lose their slopes in the order of how wide these make the scores; models
    of treatment all or none, and only where they cost more than the little that being right by either model is worth.
    """
    study = _as_decided(study)
    best, narrowest = _with_slopes(study, plan, summaries, models)
    if are_weighted(models):
        plain = [replace(one, coefficients=None) for one in models]
        other, width = _with_slopes(study, plan, summaries, plain)
        if width * MODELS_WIDTH < narrowest:
            return other
    return best


def _with_slopes(
    study: AipwStudy, plan: Recipe, summaries: Sequence[ArmSummary], models: Sequence[Nuisances]
) -> tuple[list[Nuisances], float]:
    """The models without slopes that widen the interval, and how wide it is foreseen to be."""
    kept = [fold for fold, found in enumerate(models) if found.outcome.adjusts]
    kept.sort(key=lambda fold: fold_range(study, models[fold]).low - fold_range(study, models[fold]).high)
    best = found = list(models)
    narrowest = _foreseen_width(study, plan, summaries, found)
    for fold in kept:
        learnt = models[fold].outcome
        plain = replace(
            without_slopes(summaries[fold], plan),
            seen=learnt.seen,
            hidden=learnt.hidden,
            loose=learnt.loose,
            narrow=learnt.narrow,
        )
        found = [replace(one, outcome=plain) if place == fold else one for place, one in enumerate(found)]
        width = _foreseen_width(study, plan, summaries, found)
        if width < narrowest:
            best, narrowest = found, width
    return best, narrowest


def _as_decided(study: AipwStudy) -> AipwStudy:
    """The study as far as it decides: declared omitted confounding and confidence widen the interval, no more.

    So intervals of several confidences are of one estimate.
    """
    estimator = study.estimator.model_copy(update={"omitted_confounding": None})
    return study.model_copy(update={"estimator": estimator, "confidence": DECIDED_AT})


def _foreseen_width(
    study: AipwStudy, plan: Recipe, summaries: Sequence[ArmSummary], models: Sequence[Nuisances]
) -> float:
    # What ranges cut away is adjusted for by nothing: no reason to leave what they do not.
    models = [replace(one, outcome=replace(one.outcome, narrow=FIT, beyond=0.0)) for one in models]
    bound, sums = foreseen_sums(study, plan, summaries, models)
    return assembled(study, plan, summaries, models, bound, sums, quick=True).half_width


def foreseen_sums(
    study: AipwStudy, plan: Recipe, summaries: Sequence[ArmSummary], models: Sequence[Nuisances]
) -> tuple[ScoreRange, FloatArray]:
    """What the scores would add up to if they had the variance of arm means and drew no noise."""
    bound, units = score_range(study, models), sum(plan.known_sizes)
    share = float(np.mean([one.treated_share for one in summaries]))
    deviation = float(np.mean([one.deviation for one in summaries]))
    used = study.estimator.propensity.clipped(share)
    square = deviation**2 * (share / used**2 + (1 - share) / (1 - used) ** 2) / bound.half**2
    middle = min(max(-bound.middle / bound.half, -1.0), 1.0)
    return bound, np.array([middle, min(square + middle**2, 1.0)]) * units


def expected_models(study: AipwStudy, plan: Recipe, stand_in: StandIn) -> tuple[list[ArmSummary], list[Nuisances]]:
    """What the study would learn of a stand-in population.

    Both arms are centred in the declared range, everybody's score is the treated share; a fitted propensity model
    leaves the share's neighbourhood by as much as a log odds of standard deviation 1/2 does.
    """
    known = study.estimator.propensity.known
    share = stand_in.treated if known is None else known
    half = study.outcome.width / 2
    deviation = min(1.0, (stand_in.deviation if stand_in.deviation is not None else half / 2) / half)
    odds: FloatArray | None = None
    if plan.penalty is not None:
        odds = np.full(plan.columns, math.sqrt(0.25 * 3 / max(plan.columns - 1, 1)))
        odds[-1] = math.log(share / (1 - share))
        odds *= math.sqrt(plan.columns)
    summaries, models = [], []
    for fold in range(plan.folds):
        units = plan.trained_on(fold)
        exact = np.array([0.0, 0.0, math.sqrt(2) * share * units, units * deviation**2])
        summary = summary_from(exact, units, plan, fold, known)
        model = without_slopes(summary, plan)
        if plan.slopes_cost is not None:
            summary, model = _expected_slopes(study, plan, summary, fold)
        summaries.append(summary)
        models.append(Nuisances(model, share, odds))
    return summaries, settled(study, plan, summaries, models)


def _expected_slopes(study: AipwStudy, plan: Recipe, summary: ArmSummary, fold: int) -> tuple[ArmSummary, OutcomeModel]:
    """The slopes of the stand-in population: lengths with their noise, so that what is taken off later is there."""
    d, units = plan.columns - 1, plan.trained_on(fold)
    noise = Noise.of(plan.slopes_mechanism(fold), plan.slope_numbers).deviation
    raw = units * expected_variances(study) / plan.radius**2
    told = are_told(float(raw.sum()), d, units, plan.gram)
    loose = loose_part(float(raw.min()), float(raw.mean()), d, noise) if told else 1.0
    values = np.maximum(raw, SMALLEST_EIGENVALUE * raw.mean()) if plan.gram else np.full(d, raw.mean())
    raised = raised_by(raw, values, 0) if plan.gram else np.zeros(d)
    distance = DISTANCE if study.estimator.propensity.known is None else 0.0
    apart_noise = noise / MEANS_WEIGHT / units * math.sqrt(float(np.sum(summary.parts**-2)))
    # In the metric of the covariates what parts the arms lies in all directions alike.
    one = np.full(d, 1 / math.sqrt(d))
    other = ALIKE * one + math.sqrt(1 - ALIKE**2) * one * np.where(np.arange(d) % 2, -1, 1) if d > 1 else one
    apart = distance * np.sqrt(values / units) * one
    # What is read off as their distance has its noise taken off, and is no less than 0: on average more than is true.
    metric = values / units
    spread = 2 * apart_noise**4 * float(np.sum(metric**-2)) + 4 * apart_noise**2 * float(np.sum((apart / metric) ** 2))
    seen = math.sqrt(_positive_mean(distance**2, math.sqrt(spread))) * np.sqrt(metric) * one
    signal = np.sqrt(values * units * EXPLAINED) / plan.residuals * other
    cross = np.copysign(np.sqrt(signal**2 + 2 * noise**2), other)
    moments = Moments(
        units=units,
        parts=summary.parts,
        limit=residual_limit(summary, plan),
        noise=noise,
        difference=np.sqrt(seen**2 + apart_noise**2),
        difference_noise=apart_noise,
        shrunk_difference=apart,
        centres=np.array([summary.parts[1] * apart, -summary.parts[0] * apart]),
        residuals=np.zeros(2),
        within=np.outer(summary.parts, cross),
        values=values,
        vectors=np.eye(d),
        second_factor=1.0 if plan.gram else 0.0,
        mean_eigenvalue_noise=mean_eigenvalue_noise(noise, d, plan.gram),
        raised=raised,
        loose=loose,
        arms=alike(values, summary.parts),
        ranges=Narrow(FIT, np.zeros(d)),
    )
    return slopes_from(moments, summary, plan)


def _positive_mean(mean: float, deviation: float) -> float:
    """Mean of the positive part of a normal variable."""
    from scipy.special import ndtr

    if deviation == 0:
        return max(mean, 0.0)
    z = mean / deviation
    return float(mean * ndtr(z)) + deviation * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def expected_variances(study: AipwStudy) -> FloatArray:
    """Variance of each column of a row, shape (d - 1,): of numbers uniform within their bounds, of levels as frequent
    as each other. Where nulls have a column of their own it is taken for as rare as 1 in 20.
    """
    square, found = scale(study) ** 2, []
    for block in blocks(study):
        if isinstance(block.covariate, CategoricalCovariate):
            part = 1 / len(block.features)
            found += [part * (1 - part)] * len(block.features)
        else:
            found += [1 / 3] + [MISSING * (1 - MISSING)] * (len(block.features) - 1)
    return square * np.array(found)
