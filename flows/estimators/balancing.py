"""Minimal-noise balancing weights, covariates and treatments public, outcomes private (``docs/proofs/balancing.md``).

1  features of covariates, and their means over whom the effect is averaged     weigh, public
2  per arm the weights of least noise, sampling error and imbalance             weigh, public
3  sum of w_i y_i over the treated minus that over the controls, + noise        perturb, charged to everybody, once
4  its interval                                                                 interval, public
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.engine.engine import Engine
from causalveil.flows.estimators.foreseen import foreseen, most_read, rows_balanced
from causalveil.flows.estimators.rehearsed import SLOW, rehearsed, weighed_once
from causalveil.flows.planning import balancing as planning
from causalveil.flows.sequence.run import Run, enter
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Charge
from causalveil.tasks.balancing import stages, weights
from causalveil.tasks.balancing.weights import Balance
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.public_people import PublicPeople


def declare(study: BalancingStudy, sizes: Sizes | None) -> tuple[Charge, ...]:
    """Every charge of the study, from public facts alone: the same whatever its size."""
    del sizes
    return stages.declare(study)


def estimate(run: Run[BalancingStudy], stage: Engine) -> EffectFindings:
    """The order of the stages."""
    enter(run, stage)
    return _answer(run, stage, _weigh(run, stage))


def _weigh(run: Run[BalancingStudy], stage: Engine) -> Balance:
    return stage(weights.weigh_stage, run.study, run.enclave)


def _answer(run: Run[BalancingStudy], stage: Engine, found: Balance) -> EffectFindings:
    statistics = stage(stages.perturb_stage, run.study, run.enclave, found, run.budget)
    return stage(stages.interval_stage, run.study, found, statistics)


def expected(
    study: BalancingStudy, sizes: Sizes, stand_in: StandIn, effect: float | None, people: PublicPeople | None = None
) -> dict[str, Any]:
    """What ``plan`` says: formulas tell what is done, a rehearsal how wide it gets.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
        people: whom the run has, where their covariates and treatments are public.
    """
    randomised = study.estimator.allowance == 0
    again = weighed_once(_weigh, _answer)
    if people is not None:
        own = foreseen(again, study, sizes, stand_in, people, rows_balanced(study), randomised)
        return planning.expected(study, sizes, stand_in, effect, own)
    found = rehearsed(again, study, sizes, stand_in, randomised, most=SLOW, by_chance=True)
    return planning.expected(study, sizes, stand_in, effect, found)


def reads(study: BalancingStudy) -> int:
    """How many people's public covariates and treatments :func:`expected` wants at most."""
    return most_read(study)


def warned(study: BalancingStudy, sizes: Sizes, stand_in: StandIn) -> list[str]:
    """The warnings of :func:`expected` without an effect: they need no rehearsal."""
    return list(planning.expected(study, sizes, stand_in, None)["warnings"])


def formula(study: BalancingStudy, sizes: Sizes, stand_in: StandIn) -> float | None:
    """Expected half-width without a rehearsal; None where the stand-in population cannot be analysed."""
    found: float | None = planning.expected(study, sizes, stand_in, None).get("half_width")
    return found
