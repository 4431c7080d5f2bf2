"""Causal direction between two variables (Kusner, Sun, Sridharan & Weinberger 2016, Algorithm 1).

    1  split D into a training and a test half
    2  regress y on x and x on y                        regress, charged to the training half if weights are released
    3  residuals on the test half                       score
    4  dependence of each residual on the predictor     score
    5  private scores, or their difference              answer, charged to the halves that the study protects

``protect`` says whose rows are hidden; the other half is unbounded, which the release says and the policy allows.
"""

from __future__ import annotations

from flows.direction_outlook import outlook
from flows.engine import Engine
from flows.run import Run
from schemas.direction import DirectionStudy
from schemas.plan import Design
from schemas.privacy import Charge
from tasks import direction, direction_draws, pairs, split, validate
from tasks.direction_answers import Findings

__all__ = ["declare", "estimate", "outlook"]


def declare(study: DirectionStudy, design: Design) -> tuple[Charge, ...]:
    """Every charge of the study, from public facts alone."""
    weights = (fit.mechanism.charge(fit.slot) for fit in direction_draws.fits(study, design))
    answers = (draw.mechanism.charge(draw.slot) for draw in direction_draws.draws(study, design))
    return (*weights, *answers)


def estimate(run: Run[DirectionStudy], stage: Engine) -> Findings:
    """The order of the stages."""
    study, design, scratch = run.study, run.design, run.scratch
    stage(validate.validate_stage, study, run.folder, run.layout, scratch, run.run_id, run.seed)
    stage(pairs.normalise_stage, study, run.folder, run.layout, scratch, run.run_id, run.seed)
    stage(split.split_stage, study, run.layout, scratch)
    stage(direction.regress_stage, study, design, scratch, run.budget)
    stage(direction.score_stage, study, design, scratch)
    return stage(direction.answer_stage, study, design, scratch, run.budget)
