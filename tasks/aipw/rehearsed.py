"""What AIPW would say of a stand-in population: the study's own steps on people who nobody is.

Their sums are scaled to the study's number of units and get seeded noise of the study's own mechanisms, a few times
over. Nothing is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.aipw.decide import recipe, settled
from causalveil.tasks.aipw.interval import findings
from causalveil.tasks.aipw.outcome_model import (
    ArmSummary,
    OutcomeModel,
    arm_sums,
    slope_sums,
    summary_from,
    without_slopes,
)
from causalveil.tasks.aipw.recipe import Recipe
from causalveil.tasks.aipw.scores import score_range, score_sums
from causalveil.tasks.aipw.slopes import moments_from, slopes_from
from causalveil.tasks.aipw.stages import nuisances, release_scores, treated_units, with_count
from causalveil.tasks.enclave.folds import Pieces, fold_sizes
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.inference.people import Rehearsed, enough, people
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.logistic import fit
from causalveil.tasks.privacy.rehearsal import RehearsalBudget

PEOPLE, DRAWS, FEW = 8_000, 8, 3


def rehearsed(study: AipwStudy, sizes: Sizes, stand_in: StandIn, draws: int = DRAWS) -> Rehearsed:
    """What the study says of the stand-in population on average.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        draws: of noise.
    """
    return _mean(study, sizes, stand_in, draws, study.estimator.propensity.known is not None, told=True)


def ends(study: AipwStudy, sizes: Sizes, stand_in: StandIn) -> tuple[float, float]:
    """The half-widths between which a run of such people comes out, whatever their covariates say of treatment.

    The lower: covariates that are not related confound nothing. The higher: nothing that is released tells how far
    they confound, so that all of the declared size is allowed for. Nothing but noise lies between the two where
    treatment is randomised.
    """
    alone = stand_in.model_copy(update={"correlation": 0.0})
    randomised = study.estimator.propensity.known is not None
    low = _mean(study, sizes, alone, FEW, randomised=True, told=True).half_width
    return low, _mean(study, sizes, stand_in, FEW, randomised, told=False).half_width


def _mean(study: AipwStudy, sizes: Sizes, stand_in: StandIn, draws: int, randomised: bool, told: bool) -> Rehearsed:
    plan, found = recipe(study, sizes), []
    for seed in range(draws):
        rows = people(study, stand_in, enough(stand_in, min(sizes.units, PEOPLE)), randomised, sample=seed)
        edges = np.cumsum([0, *fold_sizes(len(rows), plan.folds)]).tolist()
        found.append(_once(study, plan, [rows[start:stop] for start, stop in pairwise(edges)], seed, told))
    return Rehearsed(*np.mean(found, axis=0).tolist())


def _once(study: AipwStudy, plan: Recipe, folds: Sequence[Rows], seed: int, told: bool) -> tuple[float, ...]:
    budget, summaries, models = RehearsalBudget(seed), [], []
    for fold in range(plan.folds):
        trained = _pieces([rows for place, rows in enumerate(folds) if place != fold])
        summary, model = _outcome_model(study, plan, fold, trained, budget)
        if not told:
            model = replace(model, loose=1.0, seen=0.0)
        summary, coefficients = _propensity(plan, fold, trained, summary, budget)
        summaries.append(summary)
        models.append(nuisances(study, summary, model, coefficients))
    models = settled(study, plan, summaries, models)
    scored, bound = [_pieces([rows]) for rows in folds], score_range(study, models)
    many = sum(plan.known_sizes) / sum(map(len, folds))
    released = release_scores(plan, score_sums(study, scored, models, bound) * many, budget)
    said = findings(study, plan, summaries, models, bound, released)
    width = (said.interval.upper - said.interval.lower) / 2
    return width, math.sqrt(said.variance.noise), math.sqrt(said.variance.sampling), said.interval.bias


def _outcome_model(
    study: AipwStudy, plan: Recipe, fold: int, trained: Pieces, budget: RehearsalBudget
) -> tuple[ArmSummary, OutcomeModel]:
    units, many = plan.trained_on(fold), plan.trained_on(fold) / trained.units
    released = plan.arm_sums_mechanism(fold).release(arm_sums(trained) * many, plan.slot("arms", fold), budget)
    summary = summary_from(released, units, plan, fold, study.estimator.propensity.known)
    mechanism = plan.slopes_mechanism(fold)
    if mechanism is None:
        return summary, without_slopes(summary, plan)
    sums = slope_sums(trained, summary, plan) * many
    released = mechanism.release(sums, plan.slot("slopes", fold), budget)
    return slopes_from(moments_from(released, summary, units, plan, fold), summary, plan)


def _propensity(
    plan: Recipe, fold: int, trained: Pieces, summary: ArmSummary, budget: RehearsalBudget
) -> tuple[ArmSummary, FloatArray | None]:
    mechanism, model = plan.treated_count_mechanism(fold), plan.propensity_model(fold)
    if mechanism is not None:
        units = plan.trained_on(fold)
        count = np.array([treated_units(trained) * units / trained.units])
        released = mechanism.release(count, plan.slot("share", fold), budget)
        summary = with_count(summary, mechanism, float(released[0]), units)
    if model is None:
        return summary, None
    return summary, model.perturb(fit(trained.rows, trained.count, trained.units, model.penalty), budget)


def _pieces(parts: Sequence[Rows]) -> Pieces:
    return Pieces(parts.__getitem__, len(parts), sum(map(len, parts)))
