"""Causal direction between two variables by additive noise models.

Kusner, Sun, Sridharan and Weinberger 2016, Algorithm 1.

    1  split D into a training and a test half
    2  regress y on x and x on y                        regress, charged to the training half if weights are released
    3  residuals on the test half                       score
    4  dependence of each residual on the predictor     score
    5  private scores, or their difference              answer, charged to the halves that the study protects

``protect`` says whose rows are hidden; the other half is unbounded, which the release says and the contract allows.
"""

from __future__ import annotations

from dataclasses import replace

from causalveil.flows.estimators import shared
from causalveil.flows.estimators.estimator import Estimator
from causalveil.flows.estimators.shared import VALIDATE, normalised_by
from causalveil.flows.estimators.stage import Stage
from causalveil.flows.planning.direction import expected
from causalveil.schemas.estimators.direction import DirectionStudy
from causalveil.tasks.direction import draws, stages
from causalveil.tasks.direction.answers import DirectionFindings

NORMALISE = normalised_by(lambda: stages.normalise_segment)
HALVES = replace(shared.HALVES, reads=(NORMALISE,))
REGRESS = Stage[DirectionStudy, None](
    "regress",
    lambda step: stages.regress_stage(*step.given, step.budget),
    charges=lambda study, sizes: [(fit.slot, fit.mechanism) for fit in draws.fits(study, sizes)],
    reads=(HALVES,),
)
SCORE = Stage[DirectionStudy, None]("score", lambda step: stages.score_stage(*step.given), reads=(HALVES, REGRESS))
ANSWER = Stage[DirectionStudy, DirectionFindings](
    "answer",
    lambda step: stages.answer_stage(*step.given, step.budget),
    charges=lambda study, sizes: [(draw.slot, draw.mechanism) for draw in draws.draws(study, sizes)],
    reads=(SCORE,),
)

DIRECTION = Estimator(DirectionStudy, (VALIDATE, NORMALISE, HALVES, REGRESS, SCORE, ANSWER), expected)
