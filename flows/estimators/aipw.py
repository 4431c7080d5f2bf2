"""AIPW with cross-fitting: doubly robust scores from private models (Schroeder, Hartenstein & Feuerriegel 2025).

    1  cut D into K folds by the rank of a keyed hash          folds
    2  for each fold, from the units of all others:
         mu_0, mu_1 from noisy sums                            outcome model, charged to those units
         pi from noisy coefficients, or a treated share        propensity, charged to those units
       slopes that would widen the interval are left out       models, public
    3  sum of the scores of all units, each by its fold's models    scores
    4  sums + noise                                            perturb, charged to everybody, once

A unit trains the models of K - 1 folds and is scored in its own, so it pays K - 1 models and one effect. With
``guarantee: asymptotic`` the paper's equations take the place of steps 2 to 4. Corrections: ``docs/privacy.md``.
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.estimators.estimator import Estimator, Stages
from causalveil.flows.estimators.shared import ENTRY, NORMALISE
from causalveil.flows.estimators.stage import Draws, Stage, StageRun, recalled
from causalveil.flows.planning import aipw as planning
from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Guarantee
from causalveil.tasks.aipw import decide, recipe, stages
from causalveil.tasks.aipw.outcome_model import ArmSummary, OutcomeModel
from causalveil.tasks.aipw.scores import Nuisances
from causalveil.tasks.aipw_asymptotic import stages as asymptotic
from causalveil.tasks.enclave import folds
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.machine.arrays import FloatArray

plan = recalled(decide.recipe)

FOLDS = Stage[AipwStudy, None](
    "folds", lambda step: folds.folds_stage(step.enclave, step.study.estimator.folds), reads=(NORMALISE,)
)


def _outcome_draws(study: AipwStudy, sizes: Sizes | None) -> Draws:
    made = plan(study, sizes)
    for fold in range(made.folds):
        yield made.slot("arms", fold), made.arm_sums_mechanism(fold)
        yield made.slot("slopes", fold), made.slopes_mechanism(fold)


def _propensity_draws(study: AipwStudy, sizes: Sizes | None) -> Draws:
    made = plan(study, sizes)
    for fold in range(made.folds):
        yield made.slot("share", fold), made.treated_count_mechanism(fold)
        model = made.propensity_model(fold)
        if model is not None:
            yield model.slot, model.mechanism()


OUTCOME_MODEL = Stage[AipwStudy, tuple[ArmSummary, OutcomeModel]](
    "outcome_model",
    lambda step: stages.outcome_model_stage(step.study, _plan(step), step.enclave, step.fold, step.budget),
    charges=_outcome_draws,
    reads=(FOLDS,),
)
PROPENSITY = Stage[AipwStudy, tuple[ArmSummary, FloatArray | None]](
    "propensity",
    lambda step: stages.propensity_stage(
        step.study, _plan(step), step.enclave, step.fold, step[OUTCOME_MODEL][0], step.budget
    ),
    charges=_propensity_draws,
    reads=(FOLDS, OUTCOME_MODEL),
)


def _models(step: StageRun[AipwStudy]) -> tuple[list[ArmSummary], list[Nuisances]]:
    learnt, scored = step.each(OUTCOME_MODEL), step.each(PROPENSITY)
    summaries = [summary for summary, _ in scored]
    models = [
        stages.nuisances(step.study, summary, model, coefficients)
        for (_, model), (summary, coefficients) in zip(learnt, scored, strict=True)
    ]
    return summaries, decide.settled(step.study, _plan(step), summaries, models)


MODELS = Stage[AipwStudy, tuple[list[ArmSummary], list[Nuisances]]](
    "models", _models, reads=(OUTCOME_MODEL, PROPENSITY)
)
SCORES = Stage[AipwStudy, None](
    "scores", lambda step: stages.scores_stage(step.study, step.enclave, step[MODELS][1]), reads=(FOLDS, MODELS)
)
PERTURB = Stage[AipwStudy, FloatArray](
    "perturb",
    lambda step: stages.perturb_stage(_plan(step), step.enclave, step.budget),
    charges=lambda study, sizes: [(recipe.EFFECT, plan(study, sizes).effect_mechanism())],
    reads=(SCORES,),
)
INTERVAL = Stage[AipwStudy, EffectFindings](
    "interval",
    lambda step: stages.interval_stage(step.study, _plan(step), *step[MODELS], step[PERTURB]),
    reads=(MODELS, PERTURB),
)
ASYMPTOTIC = Stage[AipwStudy, EffectFindings](
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
    models = [model.of(fold, len(each)) for fold in each for model in (OUTCOME_MODEL, PROPENSITY)]
    return (*ENTRY, FOLDS, *models, MODELS, SCORES, PERTURB, INTERVAL)


def _plan(step: StageRun[AipwStudy]) -> recipe.Recipe:
    """Every stage draws by the same recipe, from public facts."""
    return plan(step.study, step.sizes)


def expected(study: AipwStudy, sizes: Sizes, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """What ``plan`` says: formulas tell what is done, a rehearsal how wide it gets.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
    """
    return planning.expected(study, sizes, stand_in, effect)


def warned(study: AipwStudy, sizes: Sizes, stand_in: StandIn) -> list[str]:
    """The warnings of :func:`expected` without an effect: they need no rehearsal."""
    return list(planning.expected(study, sizes, stand_in, None, rehearses=False)["warnings"])


def formula(study: AipwStudy, sizes: Sizes, stand_in: StandIn) -> float | None:
    """Expected half-width without a rehearsal; None where the stand-in population cannot be analysed."""
    found: float | None = planning.expected(study, sizes, stand_in, None, rehearses=False).get("half_width")
    return found


AIPW = Estimator(AipwStudy, _stages, expected, formula, warned, wide=planning.half_width)
