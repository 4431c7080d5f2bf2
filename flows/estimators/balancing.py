"""Minimal-noise balancing weights, covariates and treatments public, outcomes private (``docs/proofs/balancing.md``).

1  features of covariates, and their means over whom the effect is averaged     weigh, public
2  per arm the weights of least noise, sampling error and imbalance             weigh, public
3  sum of w_i y_i over the treated minus that over the controls, + noise        perturb, charged to everybody, once
4  its interval                                                                 interval, public
"""

from __future__ import annotations

from causalveil.flows.engine.engine import Engine
from causalveil.flows.planning.balancing import expected
from causalveil.flows.sequence.run import Run, enter
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Charge
from causalveil.tasks.balancing import stages, weights
from causalveil.tasks.inference.assemble import EffectFindings

__all__ = ["declare", "estimate", "expected"]


def declare(study: BalancingStudy, sizes: Sizes | None) -> tuple[Charge, ...]:
    """Every charge of the study, from public facts alone: the same whatever its size."""
    del sizes
    return stages.declare(study)


def estimate(run: Run[BalancingStudy], stage: Engine) -> EffectFindings:
    """The order of the stages."""
    study, enclave = run.study, run.enclave
    enter(run, stage)
    found = stage(weights.weigh_stage, study, enclave)
    statistics = stage(stages.perturb_stage, study, enclave, found, run.budget)
    return stage(stages.interval_stage, study, found, statistics)
