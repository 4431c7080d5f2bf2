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

from causalveil.flows.engine.engine import Engine
from causalveil.flows.estimators.foreseen import foreseen, most_read, rows_weighed
from causalveil.flows.estimators.rehearsed import most_public, rehearsed, weighed_once
from causalveil.flows.planning import matching as planning
from causalveil.flows.sequence.run import Run, enter
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Charge, Level
from causalveil.tasks.balancing import imbalance
from causalveil.tasks.enclave import split
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.public_people import PublicPeople
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.matching import interval, perturb, respond, weights
from causalveil.tasks.matching import scores as matching_scores
from causalveil.tasks.matching.scores import OUTCOME, traversal
from causalveil.tasks.matching.weights import Reuse


def declare(study: MatchingStudy, sizes: Sizes | None) -> tuple[Charge, ...]:
    """Every charge of the study, from public facts alone."""
    steps = (
        (matching_scores.MODEL_SLOT, matching_scores.model(study, sizes).mechanism()),
        (matching_scores.SLOT, matching_scores.mechanism(study)),
        (respond.SLOT, respond.mechanism(study)),
        (perturb.SLOT, perturb.mechanism(study)),
    )
    return tuple(mechanism.charge(slot) for slot, mechanism in steps if mechanism is not None)


def estimate(run: Run[MatchingStudy], stage: Engine) -> EffectFindings:
    """The order of the stages."""
    return _answer(run, stage, _match(run, stage))


def _match(run: Run[MatchingStudy], stage: Engine) -> tuple[Reuse, FloatArray]:
    study, sizes, enclave = run.study, run.sizes, run.enclave
    enter(run, stage)
    stage(split.split_stage, study, enclave)
    coefficients = stage(matching_scores.propensity_stage, study, sizes, enclave, run.budget)
    stage(matching_scores.scores_stage, study, enclave, coefficients, run.budget)
    stage(respond.respond_stage, study, enclave, run.budget)
    reuse = stage(weights.match_stage, study, enclave)
    if study.allows_imbalance:
        reuse = stage(imbalance.imbalance_stage, study, enclave, reuse)
    return reuse, coefficients


def _answer(run: Run[MatchingStudy], stage: Engine, matched: tuple[Reuse, FloatArray]) -> EffectFindings:
    reuse, coefficients = matched
    sums = stage(perturb.perturb_stage, run.study, run.enclave, reuse, run.budget)
    return stage(interval.interval_stage, run.study, run.sizes, reuse, coefficients, sums)


def _answer_anew(run: Run[MatchingStudy], stage: Engine, matched: tuple[Reuse, FloatArray]) -> EffectFindings:
    """The same of the same people with outcomes that they did not have when they were matched."""
    run.enclave.save(OUTCOME, run.enclave.gather("u")[traversal(run.enclave)])
    return _answer(run, stage, matched)


def expected(
    study: MatchingStudy, sizes: Sizes, stand_in: StandIn, effect: float | None, people: PublicPeople | None = None
) -> dict[str, Any]:
    """What ``plan`` says: formulas tell what is done, a rehearsal how wide it gets.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
        people: whom the run has, where their covariates and treatments are public.
    """
    randomised = study.estimator.unadjusted.outcome == 0
    if study.privacy.level is not Level.label:
        found = rehearsed(estimate, study, sizes, stand_in, randomised, most=most_public(study), epsilon_stays=True)
        return planning.expected(study, sizes, stand_in, effect, found)
    again = weighed_once(_match, _answer_anew)
    if people is not None:
        own = foreseen(again, study, sizes, stand_in, people, rows_weighed(study), randomised, bias_stays=True)
        return planning.expected(study, sizes, stand_in, effect, own)
    most = most_public(study)
    found = rehearsed(again, study, sizes, stand_in, randomised, most, bias_stays=True, by_chance=True)
    return planning.expected(study, sizes, stand_in, effect, found)


def reads(study: MatchingStudy) -> int:
    """How many people's public covariates and treatments :func:`expected` wants at most."""
    return most_read(study) if study.privacy.level is Level.label else 0


def warned(study: MatchingStudy, sizes: Sizes, stand_in: StandIn) -> list[str]:
    """The warnings of :func:`expected` without an effect: they need no rehearsal."""
    return list(planning.expected(study, sizes, stand_in, None)["warnings"])
