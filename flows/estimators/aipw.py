"""AIPW with cross-fitting.

Doubly robust scores of private outcome models and a known chance of treatment.

    1  cut D into K folds by the rank of a keyed hash                 folds
    2  for each fold, from the units of all others:
         m_1, m_0 and slopes from noisy moments                       outcome model, charged to those units
    3  sums of scores of all units, each by its fold's model, + noise    scores, charged to everybody, once
    4  estimate and interval                                          interval, public

A unit trains the models of K - 1 folds and is scored in its own, so it pays K - 1 models and one effect. With
``guarantee: asymptotic`` the equations of Schröder, Hartenstein and Feuerriegel (2025) take the place of steps 2 to 4.
Proofs: ``docs/proofs/aipw.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from causalveil.flows.estimators.estimator import ENTRY, NORMALISE, Estimator, Stages
from causalveil.flows.estimators.rehearsal import SLOW, Rehearsal, as_it_is, mostly_whole, summed
from causalveil.flows.estimators.stage import Stage, recalled
from causalveil.flows.estimators.table import Rehearsed
from causalveil.flows.estimators.words import Words
from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Guarantee
from causalveil.schemas.remarks import PlanCode, Remark, remark
from causalveil.tasks.data import split
from causalveil.tasks.data.covariates import dimension
from causalveil.tasks.estimate.adjust.recipe import SCORES as SLOT
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.papers.aipw import stages
from causalveil.tasks.estimate.papers.aipw.stages import OutcomeModel
from causalveil.tasks.estimate.papers.aipw_asymptotic import stages as asymptotic
from causalveil.tasks.estimate.people import PEOPLE
from causalveil.tasks.machine.arrays import FloatArray

plan = recalled(stages.known_recipe)

FOLDS = Stage[AipwStudy, None](
    "folds", lambda step: split.folds_stage(step.enclave, step.study.estimator.folds), reads=(NORMALISE,)
)
OUTCOME_MODEL = Stage[AipwStudy, OutcomeModel](
    "outcome_model",
    lambda step: stages.outcome_model_stage(
        step.study, plan(step.study, step.sizes), step.enclave, step.fold, step.budget, step.times
    ),
    charges=lambda study, sizes: [
        draw for fold in range(study.estimator.folds) for draw in plan(study, sizes).model_draws(fold)
    ],
    reads=(FOLDS,),
)
SCORES = Stage[AipwStudy, FloatArray](
    "scores",
    lambda step: stages.scores_stage(
        step.study, plan(step.study, step.sizes), step.enclave, step.each(OUTCOME_MODEL), step.budget, step.times
    ),
    charges=lambda study, sizes: [(SLOT, plan(study, sizes).effect)],
    reads=(FOLDS, OUTCOME_MODEL),
)
INTERVAL = Stage[AipwStudy, Findings](
    "interval",
    lambda step: stages.findings(step.study, plan(step.study, step.sizes), step.each(OUTCOME_MODEL), step[SCORES]),
    reads=(OUTCOME_MODEL, SCORES),
)
ASYMPTOTIC = Stage[AipwStudy, Findings](
    "asymptotic",
    lambda step: asymptotic.asymptotic_stage(
        step.study, step.enclave, step.seed_for(asymptotic.SEED_LABEL), step.budget
    ),
    charges=lambda study, sizes: asymptotic.draws(study, sizes),
    reads=(FOLDS,),
)


def _stages(study: AipwStudy) -> Stages:
    if study.guarantee is Guarantee.asymptotic:
        return (*ENTRY, FOLDS, ASYMPTOTIC)
    each = range(study.estimator.folds)
    return (*ENTRY, FOLDS, *(OUTCOME_MODEL.of(fold, len(each)) for fold in each), SCORES, INTERVAL)


def words(study: AipwStudy, sizes: Sizes, stand_in: StandIn, found: Sequence[Rehearsed]) -> Words:
    """Return how cross-fitting spends, and what public sizes decide."""
    del stand_in
    if study.guarantee is Guarantee.asymptotic:
        return Words()
    own, folds = plan(study, sizes), study.estimator.folds
    return Words(
        [
            remark(PlanCode.cross_fitting, others=folds - 1, folds=folds),
            remark(PlanCode.public_sizes, terms="slopes" if own.slopes else "arm means alone"),
        ],
        {
            "treated": own.chance,
            "score_range": median(float(one.found.details["score_range"]) for one in found),
            "slopes": own.slopes,
        },
    )


def warned(study: AipwStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]) -> list[Remark]:
    """Return warnings of what a guarantee leaves open, or of noise beyond the range."""
    del sizes, stand_in
    if study.guarantee is Guarantee.asymptotic:
        return [remark(PlanCode.unprotected, what=what) for what in study.unprotected]
    return [remark(PlanCode.whole_range)] if mostly_whole(few()) else []


def rehearsal(study: AipwStudy) -> Rehearsal:
    """Return how a plan rehearses a study.

    Under the asymptotic guarantee noise is on two numbers alone, and models are fitted once for all draws.
    """
    known = study.estimator.propensity.known
    if study.guarantee is Guarantee.asymptotic:
        return Rehearsal(SLOW, as_it_is, known is not None, anew=0, columns=dimension(study))
    return Rehearsal(
        PEOPLE,
        summed,
        randomised=True,
        told=lambda stand_in: stand_in.model_copy(update={"treated": known}),
        columns=dimension(study),
    )


AIPW = Estimator(AipwStudy, _stages, rehearsal=rehearsal, words=words, warned=warned)
