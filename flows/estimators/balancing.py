"""Minimal-noise balancing weights on public covariates and treatments.

Outcomes are private (``docs/proofs/balancing.md``).

1  features of covariates, and their means over whom the effect is averaged     weigh, public
2  per arm the weights of least noise, sampling error and imbalance             weigh, public
3  sum of w_i y_i over the treated minus that over the controls, + noise        perturb, charged to everybody, once
4  its interval                                                                 interval, public
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from causalveil.flows.estimators.estimator import ENTRY, NORMALISE, Estimator, Stages
from causalveil.flows.estimators.rehearsal import SLOW, Rehearsal, Rehearsed, in_step, rows_balanced
from causalveil.flows.estimators.stage import Stage
from causalveil.flows.estimators.words import Importance, Sentence, Words, say_imbalance
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.balancing import stages
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.weighting import imbalance
from causalveil.tasks.weighting import weighted_means as weighted
from causalveil.tasks.weighting.imbalance import Balance

WEIGH = Stage[BalancingStudy, Balance](
    "weigh", lambda step: stages.weigh_stage(step.study, step.enclave), reads=(NORMALISE,)
)
PERTURB = Stage[BalancingStudy, FloatArray](
    "perturb",
    lambda step: imbalance.perturb_stage(step.study, step.enclave, step[WEIGH], step.budget),
    charges=lambda study, _: [(weighted.SLOT, weighted.mechanism(study.privacy.cost))],
    reads=(WEIGH,),
)
INTERVAL = Stage[BalancingStudy, EffectFindings](
    "interval", lambda step: stages.findings(step.study, step[WEIGH], step[PERTURB]), reads=(WEIGH, PERTURB)
)
NO_DELTA = Sentence(
    Importance.declare,
    "with delta: 0 the interval is narrower, since a release of two numbers gains nothing by a delta.",
)
STAGES: Stages = (*ENTRY, WEIGH, PERTURB, INTERVAL)


def words(study: BalancingStudy, sizes: Sizes, stand_in: StandIn, found: Sequence[Rehearsed]) -> Words:
    """Return what imbalance the weights leave, and the largest weight of the draws."""
    del sizes, stand_in
    weight = max(float(one.found.details["largest_weight"]) for one in found)
    return Words(say_imbalance(found) if study.estimator.allowance > 0 else (), {"largest_weight": weight})


def warned(study: BalancingStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]) -> list[str]:
    """Return the warnings of a plan: they need no rehearsal."""
    del sizes, stand_in, few
    return [NO_DELTA] if study.privacy.delta > 0 else []


def rehearsal(study: BalancingStudy) -> Rehearsal:
    """Return how a plan rehearses a study.

    Public weights are computed once for several draws.
    """
    return Rehearsal(
        SLOW,
        in_step,
        study.estimator.allowance == 0,
        by_chance=True,
        first=PERTURB,
        anew=0,
        own=rows_balanced(study),
    )


BALANCING = Estimator(BalancingStudy, STAGES, rehearsal=rehearsal, words=words, warned=warned)
