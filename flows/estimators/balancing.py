"""Minimal-noise balancing weights on public covariates and treatments.

Outcomes are private (``docs/proofs/balancing.md``).

1  features of covariates, and their means over whom the effect is averaged     weigh, public
2  per arm the weights of least noise, sampling error and imbalance             weigh, public
3  sum of w_i y_i over the treated minus that over the controls, + noise        perturb, charged to everybody, once
4  its interval                                                                 interval, public
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.estimators.estimator import Estimator, Stages
from causalveil.flows.estimators.foreseen import foreseen, most_read, rows_balanced
from causalveil.flows.estimators.rehearsed import SLOW, rehearsed, weighed_once
from causalveil.flows.estimators.shared import ENTRY, NORMALISE
from causalveil.flows.estimators.stage import Stage
from causalveil.flows.planning import balancing as planning
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.balancing import stages
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.people import PublicPeople
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
STAGES: Stages = (*ENTRY, WEIGH, PERTURB, INTERVAL)


def expected(
    study: BalancingStudy, sizes: Sizes, stand_in: StandIn, effect: float | None, people: PublicPeople | None = None
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
    randomised = study.estimator.allowance == 0
    again = weighed_once(STAGES, PERTURB)
    if people is not None:
        own = foreseen(again, study, sizes, stand_in, people, rows_balanced(study), randomised)
        return planning.expected(study, sizes, stand_in, effect, own)
    found = rehearsed(again, study, sizes, stand_in, randomised, most=SLOW, by_chance=True)
    return planning.expected(study, sizes, stand_in, effect, found)


def reads(study: BalancingStudy) -> int:
    """Return how many people's public covariates and treatments :func:`expected` reads at most."""
    return most_read(study)


def warned(study: BalancingStudy, sizes: Sizes, stand_in: StandIn) -> list[str]:
    """Return the warnings of :func:`expected` without an effect: they need no rehearsal."""
    return list(planning.expected(study, sizes, stand_in, None)["warnings"])


def formula(study: BalancingStudy, sizes: Sizes, stand_in: StandIn) -> float | None:
    """Return the expected half-width without a rehearsal.

    Returns None where the stand-in population cannot be analysed.
    """
    found: float | None = planning.expected(study, sizes, stand_in, None).get("half_width")
    return found


BALANCING = Estimator(BalancingStudy, STAGES, expected, formula, warned, reads)
