"""Numbers and sentences that `plan` has on a direction study before a row is read.

They compare penalties.
"""

from __future__ import annotations

from typing import Any

from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.direction import DirectionStudy, Score
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Half
from causalveil.schemas.study import Study
from causalveil.tasks.direction import answers as direction_expected
from causalveil.tasks.direction.draws import Draw, draws
from causalveil.tasks.direction.sensitivity import residual_movement
from causalveil.tasks.privacy.mechanisms import Laplace
from causalveil.tasks.privacy.special_mechanisms import StableRelease

SURE = 0.95
# Below this chance of the right direction, or of an answer, the planner warns.
ENOUGH = 0.75
# The largest margin that a score can have.
LARGEST = {Score.spearman: 1.0, Score.kendall: 1.0, Score.hsic: 0.25}


def expected(study: DirectionStudy, sizes: Sizes, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """Return the margins that noise leaves in order, the tests' chances, and HSIC on a stand-in.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: that of effects says nothing of a pair; the pair's own is printed.
        effect: no effect is estimated.
    """
    del stand_in, effect
    numbers: dict[str, Any] = {}
    sentences: list[str] = []
    warnings: list[str] = []
    for draw in draws(study, sizes):
        if isinstance(draw.mechanism, Laplace):
            _margin(study, draw, numbers, sentences, warnings)
        else:
            _test(study, sizes, draw, numbers, sentences, warnings)
    foreseen = direction_expected.expected_order_kept(study, sizes)
    if foreseen is not None:
        margin, scale, right = foreseen
        numbers |= {"hsic_stand_in_margin": margin, "hsic_right_direction": right}
        sentences.append(
            f"hsic on a stand-in, {direction_expected.STAND_IN}: margin {margin:.2g}, "
            f"right with probability {right:.2g}."
        )
        if right < ENOUGH:
            warnings.append(f"noise of scale {scale:.2g} drowns a margin of hsic as small as the stand-in's.")
    if Half.train in study.estimator.protect:
        estimator = study.estimator
        movement = residual_movement(sizes.train, estimator.penalty, estimator.variant)
        numbers["residual_movement_bound"] = movement
        sentences.append(f"One training unit moves a residual, which lies in [-2, 2], by at most {movement:.2g}.")
    warnings += [f"not protected: {sentence}." for sentence in study.unprotected]
    return {**numbers, "sentences": sentences, "warnings": warnings}


def _margin(
    study: DirectionStudy, draw: Draw, numbers: dict[str, Any], sentences: list[str], warnings: list[str]
) -> None:
    """Add the margin between scores that keeps its order through Laplace noise."""
    (score,) = draw.scores
    margin, largest = direction_expected.sure_margin(study, draw, SURE), LARGEST[score]
    numbers[f"{score}_sure_margin"] = margin
    text = f"{score}: a margin of {margin:.3g} keeps its order with probability {SURE:g}"
    if margin < largest:
        sentences.append(f"{text}.")
    else:
        warnings.append(f"{text}, but no margin is above {largest:g}: noise drowns this score.")


def _test(
    study: DirectionStudy,
    sizes: Sizes,
    draw: Draw,
    numbers: dict[str, Any],
    sentences: list[str],
    warnings: list[str],
) -> None:
    """Add the distance that a test needs, and its chance of an answer on spread-out values."""
    if isinstance(draw.mechanism, Laplace):
        return
    distance = direction_expected.expected_distance(study, sizes, draw)
    chance = draw.mechanism.answer_probability(distance)
    numbers[f"{draw.slot.name}_answer_probability"] = chance
    other, values = ("order", "random")
    if not isinstance(draw.mechanism, StableRelease):
        numbers["iqr_bin"] = draw.bin
        other, values = f"bin of log IQR, {draw.bin:.2g} wide", "evenly spread"
    text = (
        f"{draw.slot.name}: an answer needs about {draw.mechanism.threshold:.3g} units' distance to another {other}; "
        f"{values} values have {distance} and get one with probability {chance:.2g}."
    )
    (sentences if chance >= ENOUGH else warnings).append(text)


def sweep(study: Study, sizes: Sizes) -> list[dict[str, float]]:
    """Return the expected numbers of a direction study at each penalty of a grid.

    See ``tasks/direction/answers.py``.

    Raises:
        StudyError: no direction study with HSIC, or the number of units is unknown.
    """
    if not isinstance(study, DirectionStudy):
        raise StudyError("--sweep penalty is for direction studies with the score 'hsic'")
    return direction_expected.sweep(study, sizes)
