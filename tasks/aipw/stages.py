"""The AIPW estimator, step by step: models of each fold from the other folds, scores of all, one release, an interval.

Pure functions take rows in pieces; the stages, last, take the enclave's handle and released values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.tasks.aipw import outcome_model, slopes
from causalveil.tasks.aipw.interval import findings
from causalveil.tasks.aipw.outcome_model import ArmSummary, OutcomeModel
from causalveil.tasks.aipw.recipe import EFFECT, Recipe
from causalveil.tasks.aipw.scores import Nuisances, score_range, score_sums
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.folds import Folds, Pieces
from causalveil.tasks.inference.assemble import EffectFindings, Noise
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Budget, Mechanism

SUMS = "scores"


def release_outcome_model(
    study: AipwStudy, plan: Recipe, fold: int, trained: Pieces, budget: Budget
) -> tuple[ArmSummary, OutcomeModel]:
    """The outcome model of one fold from the units of all others: one or two releases."""
    workers, known = study.execution.workers, study.estimator.propensity.known
    summary = outcome_model.release_summary(trained, plan, fold, known, budget, workers)
    return slopes.release_model(trained, summary, plan, fold, budget, workers)


def release_propensity(
    study: AipwStudy, plan: Recipe, fold: int, trained: Pieces, summary: ArmSummary, budget: Budget
) -> tuple[ArmSummary, FloatArray | None]:
    """The propensity model of one fold: the summary with the best treated share, and coefficients if a model is fitted.

    Raises:
        ConvergenceError: before anything is drawn.
    """
    mechanism = plan.treated_count_mechanism(fold)
    if mechanism is not None:
        count = np.array([float(treated_units(trained))])
        released = mechanism.release(count, plan.slot("share", fold), budget)
        summary = with_count(summary, mechanism, float(released[0]), trained.units)
    model = plan.propensity_model(fold)
    if model is None:
        return summary, None
    return summary, model.release(trained.rows, trained.count, budget, study.execution.workers)


def with_count(summary: ArmSummary, mechanism: Mechanism, count: float, units: int) -> ArmSummary:
    """The summary with the treated share that a released count of ``units`` sharpens: by inverse variances."""
    variance = (Noise.of(mechanism, 1).deviation / units) ** 2
    weight = summary.treated_share_variance / (summary.treated_share_variance + variance)
    best = weight * count / units + (1 - weight) * summary.observed_share
    left = weight * variance
    share = outcome_model.clear_of_ends(best, left, units)
    return replace(summary, treated_share=share, treated_share_variance=left, observed_share=best)


def nuisances(study: AipwStudy, summary: ArmSummary, model: OutcomeModel, coefficients: FloatArray | None) -> Nuisances:
    """What a fold is scored by."""
    known = study.estimator.propensity.known
    return Nuisances(model, summary.treated_share if known is None else known, coefficients)


def release_scores(plan: Recipe, sums: FloatArray, budget: Budget) -> FloatArray:
    """Noise on the sums of scores and squares."""
    return plan.effect_mechanism().release(sums, EFFECT, budget)


def treated_units(trained: Pieces) -> int:
    """Number of treated units: exact."""
    return sum(int(np.count_nonzero(trained.rows(index).t)) for index in range(trained.count))


def outcome_model_stage(
    study: AipwStudy, plan: Recipe, enclave: Enclave, fold: int, budget: Budget
) -> tuple[ArmSummary, OutcomeModel]:
    """Release the outcome model by which ``fold`` is scored, from all other folds."""
    trained = Folds.open(enclave).without(fold)
    return release_outcome_model(study, plan, fold, trained, budget)


def propensity_stage(
    study: AipwStudy, plan: Recipe, enclave: Enclave, fold: int, summary: ArmSummary, budget: Budget
) -> tuple[ArmSummary, FloatArray | None]:
    """Release the propensity model by which ``fold`` is scored, from all other folds.

    Raises:
        ConvergenceError: before anything is drawn.
    """
    trained = Folds.open(enclave).without(fold)
    return release_propensity(study, plan, fold, trained, summary, budget)


def scores_stage(study: AipwStudy, enclave: Enclave, models: Sequence[Nuisances]) -> None:
    """Leave the exact sums of scores and squares in the enclave."""
    folds = Folds.open(enclave)
    units = [folds.fold(fold) for fold in range(folds.count)]
    sums = score_sums(study, units, models, score_range(study, models), study.execution.workers)
    enclave.save(SUMS, sums)


def perturb_stage(plan: Recipe, enclave: Enclave, budget: Budget) -> FloatArray:
    """Release the sums that the scores' stage left in the enclave."""
    return release_scores(plan, enclave.load(SUMS), budget)


def interval_stage(
    study: AipwStudy, plan: Recipe, summaries: Sequence[ArmSummary], models: Sequence[Nuisances], released: FloatArray
) -> EffectFindings:
    """The last stage: reads nothing but released and public values."""
    return findings(study, plan, summaries, models, score_range(study, models), released)
