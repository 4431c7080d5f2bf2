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
from typing import Any

from causalveil.flows.estimators.estimator import HALVES as HALVES_OF_EFFECTS
from causalveil.flows.estimators.estimator import VALIDATE, Estimator, normalised_by
from causalveil.flows.estimators.stage import Stage
from causalveil.flows.estimators.words import Words
from causalveil.schemas.estimators.direction import DirectionStudy, Score
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Half
from causalveil.schemas.remarks import PlanCode, Remark, remark
from causalveil.tasks.estimate.papers.direction import stages
from causalveil.tasks.estimate.papers.direction.scores import residual_movement
from causalveil.tasks.estimate.papers.direction.stages import DirectionFindings
from causalveil.tasks.privacy.mechanisms import Laplace, StableRelease
from causalveil.tasks.report.numbers import SCORES

SURE = 0.95
# Below this chance of the right direction, or of an answer, the planner warns.
ENOUGH = 0.75
# The largest margin that a score can have.
LARGEST = {Score.spearman: 1.0, Score.kendall: 1.0, Score.hsic: 0.25}

NORMALISE = normalised_by(lambda: stages.normalise_segment)
HALVES = replace(HALVES_OF_EFFECTS, reads=(NORMALISE,))
REGRESS = Stage[DirectionStudy, None](
    "regress",
    lambda step: stages.regress_stage(*step.given, step.budget),
    charges=lambda study, sizes: [(fit.slot, fit.mechanism) for fit in stages.fits(study, sizes)],
    reads=(HALVES,),
)
SCORE = Stage[DirectionStudy, None]("score", lambda step: stages.score_stage(*step.given), reads=(HALVES, REGRESS))
ANSWER = Stage[DirectionStudy, DirectionFindings](
    "answer",
    lambda step: stages.answer_stage(*step.given, step.budget),
    charges=lambda study, sizes: [(draw.slot, draw.mechanism) for draw in stages.draws(study, sizes)],
    reads=(SCORE,),
)


def _said(study: DirectionStudy, sizes: Sizes) -> tuple[Words, list[Remark]]:
    """Return the margins that noise leaves in order, the tests' chances, and HSIC on a stand-in; and warnings."""
    numbers: dict[str, Any] = {}
    sentences: list[Remark] = []
    warnings: list[Remark] = []
    for draw in stages.draws(study, sizes):
        if isinstance(draw.mechanism, Laplace):
            _margin(study, draw, numbers, sentences, warnings)
        else:
            _test(study, sizes, draw, numbers, sentences, warnings)
    foreseen = stages.expected_order_kept(study, sizes)
    if foreseen is not None:
        margin, scale, right = foreseen
        numbers |= {"hsic_stand_in_margin": margin, "hsic_right_direction": right}
        sentences.append(remark(PlanCode.example, example=stages.STAND_IN, margin=margin, right=right))
        if right < ENOUGH:
            warnings.append(remark(PlanCode.margin_hidden, scale=scale, margin=margin))
    if Half.train in study.estimator.protect:
        estimator = study.estimator
        movement = residual_movement(sizes.train, estimator.penalty, estimator.variant)
        numbers["residual_movement_bound"] = movement
        sentences.append(remark(PlanCode.residuals, movement=movement))
    warnings += [remark(PlanCode.unprotected, what=what) for what in study.unprotected]
    return Words(sentences, numbers), warnings


def _margin(
    study: DirectionStudy, draw: stages.Draw, numbers: dict[str, Any], sentences: list[Remark], warnings: list[Remark]
) -> None:
    """Add the margin between scores that keeps its order through Laplace noise."""
    (score,) = draw.scores
    margin, largest = stages.sure_margin(study, draw, SURE), LARGEST[score]
    numbers[f"{score}_sure_margin"] = margin
    if margin < largest:
        sentences.append(remark(PlanCode.margin_kept, score=SCORES[score], margin=margin, sure=SURE))
    else:
        told = remark(PlanCode.score_hidden, score=SCORES[score], margin=margin, sure=SURE, largest=float(largest))
        warnings.append(told)


def _test(
    study: DirectionStudy,
    sizes: Sizes,
    draw: stages.Draw,
    numbers: dict[str, Any],
    sentences: list[Remark],
    warnings: list[Remark],
) -> None:
    """Add the distance that a test needs, and its chance of an answer on spread-out values."""
    if isinstance(draw.mechanism, Laplace):
        return
    distance = stages.expected_distance(study, sizes, draw)
    chance = draw.mechanism.answer_probability(distance)
    numbers[f"{draw.slot.name}_answer_probability"] = chance
    other, values = ("order", "random")
    if not isinstance(draw.mechanism, StableRelease):
        numbers["iqr_bin"] = draw.bin
        other, values = f"bin of log IQR, {draw.bin:.2g} wide", "evenly spread"
    answered = chance >= ENOUGH
    told = remark(
        PlanCode.answer if answered else PlanCode.no_answer,
        score=SCORES.get(draw.slot.name, draw.slot.name),
        least=float(draw.mechanism.threshold),
        other=other,
        values=values,
        distance=distance,
        chance=chance,
    )
    (sentences if answered else warnings).append(told)


DIRECTION = Estimator(
    DirectionStudy,
    (VALIDATE, NORMALISE, HALVES, REGRESS, SCORE, ANSWER),
    words=lambda study, sizes, *_: _said(study, sizes)[0],
    warned=lambda study, sizes, *_: _said(study, sizes)[1],
)
