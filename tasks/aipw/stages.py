"""The AIPW estimator, step by step: models of each fold from the other folds, scores of all, one release, an interval.

Pure functions take rows in pieces, so that the same steps serve files and arrays; the stages, last, take paths and
released values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Charge
from causalveil.tasks.aipw import outcome_model, slopes
from causalveil.tasks.aipw.interval import findings
from causalveil.tasks.aipw.outcome_model import ArmSummary, OutcomeModel
from causalveil.tasks.aipw.recipe import EFFECT, Recipe, recipe
from causalveil.tasks.aipw.scores import Nuisances, score_range, score_sums
from causalveil.tasks.enclave.folds import Folds, Pieces
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.inference.assemble import EffectFindings, Noise
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.arrays_on_disk import save_array
from causalveil.tasks.privacy.mechanisms import Budget

SUMS_FILE = "scores.npy"


def declare(study: AipwStudy, sizes: Sizes | None) -> tuple[Charge, ...]:
    """Every charge of the study, from public facts alone."""
    return tuple(recipe(study, sizes).charges())


def release_outcome_model(
    study: AipwStudy, plan: Recipe, fold: int, trained: Pieces, budget: Budget
) -> tuple[ArmSummary, OutcomeModel]:
    """The outcome model of one fold from the units of all others: one or two releases."""
    workers, clip = study.execution.workers, _share_bounds(study)
    summary = outcome_model.release_summary(trained, plan, fold, clip, budget, workers)
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
        count = np.array([float(_treated(trained))])
        released = mechanism.release(count, plan.slot("share", "propensity", fold), budget)
        variance = (Noise.of(mechanism, 1).deviation / trained.units) ** 2
        weight = summary.treated_share_variance / (summary.treated_share_variance + variance)
        best = weight * float(released[0]) / trained.units + (1 - weight) * summary.treated_share
        low, high = _share_bounds(study)
        summary = replace(summary, treated_share=min(max(best, low), high), treated_share_variance=weight * variance)
    model = plan.propensity_model(fold)
    if model is None:
        return summary, None
    return summary, model.release(trained.rows, trained.count, budget, study.execution.workers)


def nuisances(study: AipwStudy, summary: ArmSummary, model: OutcomeModel, coefficients: FloatArray | None) -> Nuisances:
    """What a fold is scored by."""
    known = study.estimator.propensity.known
    return Nuisances(model, summary.treated_share if known is None else known, coefficients)


def release_scores(plan: Recipe, sums: FloatArray, budget: Budget) -> FloatArray:
    """Noise on the sums of scores and squares."""
    return plan.effect_mechanism().release(sums, EFFECT, budget)


def analyse(study: AipwStudy, sizes: Sizes, folds: Sequence[Rows], budget: Budget) -> EffectFindings:
    """The whole estimator on rows in memory, for replications and tests.

    Args:
        study: the study.
        sizes: its sizes.
        folds: the units of each fold, as a run would cut them.
        budget: where noise is drawn and charged.
    """
    plan, found = recipe(study, sizes), []
    for fold in range(plan.folds):
        trained = in_memory([rows for index, rows in enumerate(folds) if index != fold])
        summary, model = release_outcome_model(study, plan, fold, trained, budget)
        summary, coefficients = release_propensity(study, plan, fold, trained, summary, budget)
        found.append((summary, nuisances(study, summary, model, coefficients)))
    models = [pair[1] for pair in found]
    bound = score_range(study, models)
    sums = score_sums(study, [in_memory([rows]) for rows in folds], models, bound, study.execution.workers)
    return findings(study, plan, [pair[0] for pair in found], models, bound, release_scores(plan, sums, budget))


def in_memory(tables: Sequence[Rows]) -> Pieces:
    """Rows that are in memory as pieces."""
    return Pieces(tables.__getitem__, len(tables), sum(map(len, tables)))


def _share_bounds(study: AipwStudy) -> tuple[float, float]:
    """Within which the treated share is used: the clip, or around a known propensity."""
    known = study.estimator.propensity.known
    return study.estimator.propensity.clip if known is None else (known, known)


def _treated(trained: Pieces) -> int:
    """Number of treated units: exact."""
    return sum(int(np.count_nonzero(trained.rows(index).t)) for index in range(trained.count))


def outcome_model_stage(
    study: AipwStudy, sizes: Sizes, scratch: Path, fold: int, budget: Budget
) -> tuple[ArmSummary, OutcomeModel]:
    """Release the outcome model by which ``fold`` is scored, from all other folds."""
    trained = Folds.open(scratch).without(fold)
    return release_outcome_model(study, recipe(study, sizes), fold, trained, budget)


def propensity_stage(
    study: AipwStudy, sizes: Sizes, scratch: Path, fold: int, summary: ArmSummary, budget: Budget
) -> tuple[ArmSummary, FloatArray | None]:
    """Release the propensity model by which ``fold`` is scored, from all other folds.

    Raises:
        ConvergenceError: before anything is drawn.
    """
    trained = Folds.open(scratch).without(fold)
    return release_propensity(study, recipe(study, sizes), fold, trained, summary, budget)


def scores_stage(study: AipwStudy, scratch: Path, models: Sequence[Nuisances]) -> None:
    """Write the exact sums of scores and squares to ``scores.npy`` in the scratch folder. They are private."""
    folds = Folds.open(scratch)
    units = [folds.fold(fold) for fold in range(folds.count)]
    sums = score_sums(study, units, models, score_range(study, models), study.execution.workers)
    save_array(scratch / SUMS_FILE, sums)


def perturb_stage(study: AipwStudy, sizes: Sizes, scratch: Path, budget: Budget) -> FloatArray:
    """Release the sums that the scores' stage left in the scratch folder."""
    return release_scores(recipe(study, sizes), np.load(scratch / SUMS_FILE, allow_pickle=False), budget)


def interval_stage(
    study: AipwStudy, sizes: Sizes, summaries: Sequence[ArmSummary], models: Sequence[Nuisances], released: FloatArray
) -> EffectFindings:
    """The last stage: reads nothing but released and public values."""
    return findings(study, recipe(study, sizes), summaries, models, score_range(study, models), released)
