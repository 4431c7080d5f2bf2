"""AIPW with cross-fitting: doubly robust scores from private models (Schroeder, Hartenstein & Feuerriegel 2025).

    1  cut D into K folds by the rank of a keyed hash          folds
    2  for each fold, from the units of all others:
         mu_0, mu_1 from noisy sums                            outcome model, charged to those units
         pi from noisy coefficients, or a treated share        propensity, charged to those units
       slopes that would widen the interval are left out       public
    3  sum of the scores of all units, each by its fold's models    scores
    4  sums + noise                                            perturb, charged to everybody, once

A unit trains the models of K - 1 folds and is scored in its own, so it pays K - 1 models and one effect. With
``guarantee: asymptotic`` the paper's equations take the place of steps 2 to 4. Corrections: ``docs/privacy.md``.
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.engine.engine import Engine
from causalveil.flows.planning import aipw as planning
from causalveil.flows.sequence.run import Run, enter
from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Charge, Guarantee
from causalveil.tasks.aipw import stages as aipw_stages
from causalveil.tasks.aipw.decide import recipe, settled
from causalveil.tasks.aipw_asymptotic import stages as aipw_asymptotic_stages
from causalveil.tasks.enclave import folds
from causalveil.tasks.inference.assemble import EffectFindings


def declare(study: AipwStudy, sizes: Sizes | None) -> tuple[Charge, ...]:
    """Every charge of the study, from public facts alone."""
    if study.guarantee is Guarantee.asymptotic:
        return aipw_asymptotic_stages.declare(study, sizes)
    return aipw_stages.declare(study, sizes)


def estimate(run: Run[AipwStudy], stage: Engine) -> EffectFindings:
    """The order of the stages."""
    study, sizes, enclave, budget = run.study, run.sizes, run.enclave, run.budget
    enter(run, stage)
    stage(folds.folds_stage, enclave, study.estimator.folds)
    if study.guarantee is Guarantee.asymptotic:
        return stage(
            aipw_asymptotic_stages.asymptotic_stage,
            study,
            enclave,
            run.seed_for(aipw_asymptotic_stages.SEED_LABEL),
            budget,
        )
    # Once, from public facts: every stage draws by the same recipe.
    plan, summaries, models = recipe(study, sizes), [], []
    for fold in range(study.estimator.folds):
        summary, model = stage(aipw_stages.outcome_model_stage, study, plan, enclave, fold, budget)
        summary, coefficients = stage(aipw_stages.propensity_stage, study, plan, enclave, fold, summary, budget)
        summaries.append(summary)
        models.append(aipw_stages.nuisances(study, summary, model, coefficients))
    models = settled(study, plan, summaries, models)
    stage(aipw_stages.scores_stage, study, enclave, models)
    released = stage(aipw_stages.perturb_stage, plan, enclave, budget)
    return stage(aipw_stages.interval_stage, study, plan, summaries, models, released)


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
