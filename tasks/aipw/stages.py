"""AIPW of a known chance, step by step.

Models from the other folds, one release of all scores, an interval.

The interval without a normal approximation is the empirical Bernstein inequality's (Maurer and Pontil 2009, Theorem 4):
n independent numbers in [-1, 1] with sample variance V have a mean within sqrt(2 V L/n) + 14 L/(3 (n - 1)) of its
expectation, on one side with probability 1 - 2 exp(-L). Folds are scored by models of the other folds, so it is used
within each fold, where scores are independent given the models; folds add up by the union bound. The exact sums that it
asks for are bounded by the released ones and quantiles of their noise. Derivation: ``docs/proofs/aipw.md``, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from causalveil.schemas.confounding import AdjustmentMethod, of_trial
from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.limits import Code, limit
from causalveil.schemas.privacy import Coverage
from causalveil.tasks.adjustment.drawn import JointDraws
from causalveil.tasks.adjustment.five_releases import FiveReleases
from causalveil.tasks.adjustment.recipe import SCORES, made
from causalveil.tasks.aipw.recipe import (
    FoldScores,
    KnownRecipe,
    OutcomeModel,
    common_range,
    expected_variance,
)
from causalveil.tasks.enclave.cells import CellRows
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.split import Folds, Pieces
from causalveil.tasks.inference.allowance import allowance
from causalveil.tasks.inference.assemble import Estimate, Findings, Noise, around, assemble
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.models.lattice_sums import BITS, exact_sums
from causalveil.tasks.privacy.mechanisms import Budget, Laplace

# A released treated share so many deviations of chance and noise from a true chance is seen once in two million times.
CONTRADICTS = 5.0


def learnt(recipe: KnownRecipe, drawn: JointDraws) -> OutcomeModel:
    """Make the releases on units outside a fold and return the model that scores the fold."""
    everybody, scales = drawn.recipe.everybody, drawn.scales().questions[0][0][0]
    asked = FiveReleases(everybody, scales)
    found, chance = asked.found_scales, recipe.chance
    arms = found.arms
    doubt = math.sqrt(found.share_sd**2 + chance * (1 - chance) / everybody.units)
    contradicted = abs(found.observed_share - chance) > CONTRADICTS * doubt
    plain = OutcomeModel(chance, arms.means, arms.spread, (), np.zeros(0), np.zeros((2, 0)), 0.0, contradicted)
    if not recipe.slopes:
        return plain
    (released,) = drawn.lines((((asked,),),))
    asked.lines = made(released)[0][0]
    with one_thread():
        first = asked.first
    grams = first.draws.grams.mean(axis=0)
    # The larger of the arms' deviations of predictions.
    deviation = math.sqrt(max(float(np.einsum("td,tde,te->t", first.slopes, grams, first.slopes).max()), 0.0))
    best = expected_variance(chance, arms.means, arms.spread, 1 - first.residual, deviation, recipe.precision)
    if best.limit == 0:
        return plain
    return replace(
        plain, lines=first.features.lines, middle=first.moments.middle, slopes=first.slopes, limit=best.limit
    )


def summed(recipe: KnownRecipe, folds: Sequence[Pieces], models: Sequence[OutcomeModel], workers: int) -> FloatArray:
    """Return the sums of all units' scores in the common range and of their squares.

    The shape is (2,). Each fold's sums are rounded once, and their exact sum once more: both are in the release's
    sensitivity.
    """
    bound = common_range([model.ends for model in models])
    parts = [
        exact_sums(pieces, FoldScores(recipe.folds[0].encoding, model, bound).of, 2, workers)
        for pieces, model in zip(folds, models, strict=True)
    ]
    return np.array([math.fsum(part[place] for part in parts) for place in (0, 1)])


def findings(study: AipwStudy, recipe: KnownRecipe, models: Sequence[OutcomeModel], released: FloatArray) -> Findings:
    """Return estimate and interval from the released sums of scores, in outcome units.

    Given the models of other folds scores are independent and their mean is the effect: sampling and noise are all.
    Where a released treated share contradicts the chance that is declared nothing is known of the effect.
    """
    contradicted = any(model.contradicted for model in models)
    bound, units, width = common_range([model.ends for model in models]), sum(recipe.known_sizes), study.outcome.width
    effect = recipe.effect
    noise = Noise(effect.known_scale, 1.0 if isinstance(effect, Laplace) else None)
    unit, (first, square) = bound.half * width / 2, (released / units).tolist()
    mean = min(max(first, -1.0), 1.0)
    estimate = Estimate(
        value=bound.middle * width / 2 + unit * first,
        variance=unit**2 * (square - mean**2) / units,
        noise=unit / units,
        variance_noise=unit**2 / units**2 * math.hypot(1.0, 2 * mean),
        # Of numbers in [-1, 1].
        largest_variance=unit**2 / units,
        drowned=contradicted,
        excess=width**2 if contradicted else 0.0,
    )
    if noise.mixing is None:
        # Normal noise on the two sums is independent: the union bound would be a little wider.
        ratio = noise.deviation * estimate.variance_noise / (noise.deviation * estimate.noise) ** 2
        estimate = replace(estimate, allowance=allowance(ratio, study.confidence))
    value, interval, variance, upper = assemble(estimate, noise, study.confidence, (-width, width))
    if study.estimator.coverage is Coverage.finite_sample and not contradicted:
        # Rounding towards 0 moves a score by up to 2^-BITS, and its square by twice that.
        rounding = units * 2.0 ** (1 - BITS)
        half = bernstein_half_width(released, noise, recipe.known_sizes, study.confidence, rounding)
        value, interval = around(estimate.value, half * unit, study.confidence, (-width, width))
        interval = interval.model_copy(update={"coverage": Coverage.finite_sample})
    adjusts = any(model.limit > 0 for model in models)
    details: dict[str, float | int | str | bool] = {
        "noise_standard_error": math.sqrt(variance.noise),
        "sampling_standard_error": math.sqrt(variance.sampling),
        "sampling_standard_error_upper": math.sqrt(upper),
        "score_range": 2 * unit,
        "folds": len(models),
        "outcome_model": "slopes of each arm" if adjusts else "arm means",
        "chance_contradicted": contradicted,
    }
    for fold, model in enumerate(models, start=1):
        details[f"mean_treated[{fold}]"] = study.outcome.middle + width / 2 * model.means[0]
        details[f"mean_control[{fold}]"] = study.outcome.middle + width / 2 * model.means[1]
        details[f"spread[{fold}]"] = width / 2 * model.spread
    done = of_trial(AdjustmentMethod.doubly_robust if adjusts else None)
    return Findings.of_one(study, value, interval, variance, details, done, not_covered=(limit(Code.not_randomised),))


def outcome_model_stage(
    study: AipwStudy, recipe: KnownRecipe, enclave: Enclave, fold: int, budget: Budget, times: float = 1.0
) -> OutcomeModel:
    """Release the outcome model by which ``fold`` is scored, from all other folds.

    ``times``: of rehearsals, how many units each row stands for.
    """
    trained = Folds.open(enclave).without(fold)
    pieces = Pieces(lambda index: CellRows.of(trained.rows(index)), trained.count, trained.units)
    return learnt(recipe, JointDraws(recipe.folds[fold], pieces, budget, study.execution.workers, times))


def scores_stage(
    study: AipwStudy,
    recipe: KnownRecipe,
    enclave: Enclave,
    models: Sequence[OutcomeModel],
    budget: Budget,
    times: float = 1.0,
) -> FloatArray:
    """Release the sums of everybody's scores and of their squares.

    ``times``: of rehearsals, how many units each row stands for.
    """
    folds = Folds.open(enclave)
    units = [folds.fold(fold) for fold in range(folds.count)]
    exact = summed(recipe, units, models, study.execution.workers) * times
    return recipe.effect.release(exact, SCORES, budget)


# How 1 - confidence is divided: the inequality, the noise on the sum, the noise on the sum of squares.
BERNSTEIN_SAMPLING, BERNSTEIN_EFFECT, BERNSTEIN_SQUARES = 0.5, 0.4, 0.1


def bernstein_half_width(
    released: FloatArray, noise: Noise, sizes: Sequence[int], confidence: float, rounding: float = 0.0
) -> float:
    """Return the half-width around (sum v)/n for the mean of expectations of v in [-1, 1].

    Args:
        released: (sum v, sum v^2), noisy, shape (2,).
        noise: on each of them; the two may depend on each other.
        sizes: units of each fold, n in all.
        confidence: the level, in [0.5, 1).
        rounding: how far either sum may be off before noise.
    """
    units, alpha = sum(sizes), 1 - confidence
    if min(sizes) < 2:
        return 2.0
    effect = noise.quantile(alpha * BERNSTEIN_EFFECT / 2) + rounding
    squares = noise.quantile(alpha * BERNSTEIN_SQUARES) + rounding
    first, second = released.tolist()
    # Sum of squared deviations from the folds' means, at most that from the common mean.
    most = min(second + squares, float(units)) - max(abs(first) - effect, 0.0) ** 2 / units
    smallest = min(sizes)
    variance = max(most, 0.0) * smallest / (smallest - 1)
    bound = math.log(4 * len(sizes) / (alpha * BERNSTEIN_SAMPLING))
    linear = sum(size * 14 * bound / (3 * (size - 1)) for size in sizes)
    return min(2.0, (effect + math.sqrt(2 * bound * len(sizes) * variance) + linear) / units)
