"""PrivATE: matching on a private propensity score (Yuan et al. 2026, Algorithm 4).

                                                    label level   sample level
    1  w' = w + noise                propensity     w as it is    e11, all units
       e' = e(x; w') + noise         scores         e as it is    e12, all units
    2  t' = RR(t)                    respond        t as it is    e2,  all units
    3  caps k_1, k_0; N nearest      match          public        post-processing of e', t'
       sums of outcomes + noise      perturb        epsilon       e3,  all units

At label level covariates and treatments are public, so only the last step is charged. The corrections are listed in
``docs/privacy.md``.
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.estimators.estimator import Estimator, Stages
from causalveil.flows.estimators.foreseen import foreseen, most_read, rows_weighed
from causalveil.flows.estimators.rehearsed import most_public, rehearsed, weighed_once
from causalveil.flows.estimators.shared import ENTRY, HALVES
from causalveil.flows.estimators.stage import Run, Stage, StageRun
from causalveil.flows.planning import matching as planning
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.people import PublicPeople
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.matching import interval, scores, weights
from causalveil.tasks.matching.weights import Reuse
from causalveil.tasks.models.nearest import traversal

PROPENSITY = Stage[MatchingStudy, FloatArray](
    "propensity",
    lambda step: scores.propensity_stage(*step.given, step.budget),
    charges=lambda study, sizes: [(scores.MODEL_SLOT, scores.model(study, sizes).mechanism())],
    reads=(HALVES,),
)
SCORES = Stage[MatchingStudy, None](
    "scores",
    lambda step: scores.scores_stage(step.study, step.enclave, step[PROPENSITY], step.budget),
    charges=lambda study, _: [(scores.SLOT, scores.mechanism(study))],
    reads=(PROPENSITY,),
)
RESPOND = Stage[MatchingStudy, None](
    "respond",
    lambda step: scores.respond_stage(step.study, step.enclave, step.budget),
    charges=lambda study, _: [(scores.TREATMENT_SLOT, scores.treatment_mechanism(study))],
    reads=(SCORES,),
)
MATCH = Stage[MatchingStudy, Reuse](
    "match", lambda step: weights.match_stage(step.study, step.enclave), reads=(SCORES, RESPOND)
)
IMBALANCE = Stage[MatchingStudy, Reuse](
    "imbalance", lambda step: weights.imbalance_stage(step.study, step.enclave, step[MATCH]), reads=(MATCH,)
)
PERTURB = Stage[MatchingStudy, FloatArray](
    "perturb",
    lambda step: weights.perturb_stage(step.study, step.enclave, _reuse(step), step.budget),
    charges=lambda study, _: [(weights.SLOT, weights.mechanism(study))],
    reads=(MATCH, IMBALANCE),
)
INTERVAL = Stage[MatchingStudy, EffectFindings](
    "interval",
    lambda step: interval.interval_stage(step.study, step.sizes, _reuse(step), step[PROPENSITY], step[PERTURB]),
    reads=(PROPENSITY, MATCH, IMBALANCE, PERTURB),
)


def _reuse(step: StageRun[MatchingStudy]) -> Reuse:
    return step[IMBALANCE] if step.study.allows_imbalance else step[MATCH]


def _stages(study: MatchingStudy) -> Stages:
    left = (IMBALANCE,) if study.allows_imbalance else ()
    return (*ENTRY, HALVES, PROPENSITY, SCORES, RESPOND, MATCH, *left, PERTURB, INTERVAL)


def _other_outcomes(run: Run[Any]) -> None:
    """Give the same people, who are matched, outcomes that they did not have when they were."""
    run.enclave.save(scores.OUTCOME, run.enclave.gather("u")[traversal(run.enclave)])


def expected(
    study: MatchingStudy, sizes: Sizes, stand_in: StandIn, effect: float | None, people: PublicPeople | None = None
) -> dict[str, Any]:
    """Return the numbers, sentences and warnings that ``plan`` gives of a study.

    A rehearsal, where it has an answer, gives half-width and standard errors; formulas give the rest.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
        people: whom the run has, where their covariates and treatments are public.
    """
    randomised = study.estimator.confounding_prior.outcome_r2 == 0
    if study.privacy.level is not Level.label:
        found = rehearsed(
            MATCHING.estimate, study, sizes, stand_in, randomised, most=most_public(study), epsilon_stays=True
        )
        return planning.expected(study, sizes, stand_in, effect, found)
    again = weighed_once(_stages(study), PERTURB, _other_outcomes)
    if people is not None:
        own = foreseen(again, study, sizes, stand_in, people, rows_weighed(study), randomised, bias_stays=True)
        return planning.expected(study, sizes, stand_in, effect, own)
    most = most_public(study)
    found = rehearsed(again, study, sizes, stand_in, randomised, most, bias_stays=True, by_chance=True)
    return planning.expected(study, sizes, stand_in, effect, found)


def reads(study: MatchingStudy) -> int:
    """Return how many people's public covariates and treatments :func:`expected` reads at most."""
    return most_read(study) if study.privacy.level is Level.label else 0


def warned(study: MatchingStudy, sizes: Sizes, stand_in: StandIn) -> list[str]:
    """Return the warnings of :func:`expected` without an effect: they need no rehearsal."""
    return list(planning.expected(study, sizes, stand_in, None)["warnings"])


MATCHING = Estimator(MatchingStudy, _stages, expected, warned=warned, most_read=reads)
