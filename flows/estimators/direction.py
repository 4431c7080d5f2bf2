"""Causal direction between two variables (Kusner, Sun, Sridharan & Weinberger 2016, Algorithm 1).

    1  split D into a training and a test half
    2  regress y on x and x on y                        regress, charged to the training half if weights are released
    3  residuals on the test half                       score
    4  dependence of each residual on the predictor     score
    5  private scores, or their difference              answer, charged to the halves that the study protects

``protect`` says whose rows are hidden; the other half is unbounded, which the release says and the contract allows.
"""

from __future__ import annotations

from causalveil.flows.engine.engine import Engine
from causalveil.flows.planning.direction import expected
from causalveil.flows.sequence.run import Run, enter
from causalveil.schemas.estimators.direction import DirectionStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Charge
from causalveil.tasks.direction import draws, pairs, stages
from causalveil.tasks.direction.answers import DirectionFindings
from causalveil.tasks.enclave import split

__all__ = ["declare", "estimate", "expected"]


def declare(study: DirectionStudy, sizes: Sizes | None) -> tuple[Charge, ...]:
    """Every charge of the study, from public facts alone."""
    weights = (fit.mechanism.charge(fit.slot) for fit in draws.fits(study, sizes))
    answers = (draw.mechanism.charge(draw.slot) for draw in draws.draws(study, sizes))
    return (*weights, *answers)


def estimate(run: Run[DirectionStudy], stage: Engine) -> DirectionFindings:
    """The order of the stages."""
    study, sizes, enclave = run.study, run.sizes, run.enclave
    enter(run, stage, pairs.normalise_stage)
    stage(split.split_stage, study, enclave)
    stage(stages.regress_stage, study, sizes, enclave, run.budget)
    stage(stages.score_stage, study, sizes, enclave)
    return stage(stages.answer_stage, study, sizes, enclave, run.budget)
