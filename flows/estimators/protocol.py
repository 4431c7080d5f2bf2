"""What a plan says of several questions, and how it rehearses a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from causalveil.flows.estimators.rehearsal import (
    Made,
    Rehearsal,
    mostly_whole,
)
from causalveil.flows.estimators.table import Rehearsed, Smaller, middle_of
from causalveil.flows.estimators.words import WHOLE_RANGE, Importance, Sentence, Words, say_row, stated_terms
from causalveil.schemas.confounding import declares_randomised
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.protocols.study import EffectStudy, OutcomeRole, TableStudy
from causalveil.tasks.covariates import dimension
from causalveil.tasks.enclave.enclave import MemoryEnclave
from causalveil.tasks.inference.people import counted_units
from causalveil.tasks.protocols.calibration import ENOUGH
from causalveil.tasks.protocols.label import draw
from causalveil.tasks.protocols.people import people_of


def words(study: EffectStudy, sizes: Sizes, stand_in: StandIn, found: Sequence[Rehearsed]) -> Words:
    """Return half-widths of all outcomes, and what leaving one out would buy."""
    rows, numbers = middle_of(found), list[dict[str, Any]]()
    sentences: list[str] = [Sentence(Importance.expected, f"One budget for all: {study.question}.")]
    if len(study.arm_names) > 2:
        each = f"{sizes.units / len(study.arm_names):,.0f} units each"
        text = f"That is for arms of one size, {each}. The answer of a smaller arm has a wider interval."
        sentences.append(Sentence(Importance.expected, text))
    if stand_in.deviation is None:
        sentences.append("Assumed: each outcome's standard deviation is a quarter of its range, of 0 and 1 half.")
    grouped = study.subgroups is not None
    for row, weight in zip(rows, study.weights, strict=True):
        # How much louder its noise is than that of asking for it alone, and by what the others' falls without it.
        factor, without = 1 / weight, 1 - weight if study.in_l1 else math.sqrt(1 - weight**2)
        numbers.append({**vars(row), "noise_factor": factor, "without": without})
        said = say_row(
            row.outcome,
            row.everybody,
            row.everybody_together,
            (row.group, row.group_together) if grouped else None,
        )
        said += f" {row.adjustment[:1].upper()}{row.adjustment[1:]}."
        if len(rows) > 1:
            said += f" Its noise is {factor:.2f} times that of asking for it alone; without it the others would have "
            said += f"{1 - without:.0%} less."
        sentences.append(Sentence(Importance.expected, said))
    return Words(sentences, {"answers": numbers}, name=rows[study.first].outcome)


def warned(study: EffectStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]) -> list[str]:
    """Return warnings of noise, too few controls, or a delta that widens."""
    del sizes, stand_in
    warnings = stated_terms(study)
    if study.privacy.level is Level.sample and mostly_whole(few()):
        warnings.append(WHOLE_RANGE)
    controls = sum(outcome.role is OutcomeRole.negative_control for outcome in study.outcomes)
    if 0 < controls < ENOUGH:
        warnings.append(
            Sentence(
                Importance.declare,
                f"{controls} negative control{'s are' if controls > 1 else ' is'} too few to calibrate intervals, "
                f"which takes at least {ENOUGH}.",
            )
        )
    if study.privacy.level is Level.label and study.privacy.delta > 0 and (ratio := draw.without_delta(study)) < 1:
        warnings.append(
            Sentence(
                Importance.declare,
                f"without a delta the noise on {study.outcomes[study.first].name} would be {ratio:.2f} times as large: "
                "declare 'delta: 0'.",
            )
        )
    return warnings


def equal_arms(study: TableStudy) -> Callable[[StandIn], StandIn]:
    """Return the stand-in population as a study has it.

    Of more than two arms all are of one size.
    """
    arms = len(study.arm_names)
    return lambda told: told if arms == 2 else told.model_copy(update={"treated": 1 - 1 / arms})


def rehearsal_of(
    study: EffectStudy, most: int, smaller: Callable[[Any, float], Smaller[Any]], groups: int = 1, **how: Any
) -> Rehearsal:
    """Return how a plan rehearses a table.

    Args:
        study: the study.
        most: units in memory, unless one arm is rare.
        smaller: the study for fewer units, where it has more.
        groups: how many subgroups have people; one may stand for all.
        how: more of a ``Rehearsal``.
    """

    def made(study: EffectStudy, made: Made) -> MemoryEnclave:
        return people_of(study, made.stand_in, made.count, made.randomised, made.sample, groups)

    return Rehearsal(
        most,
        smaller,
        randomised=declares_randomised(study.estimator.model_dump()),
        told=equal_arms(study),
        make=made,
        units=lambda study, sizes, stand_in: counted_units(study, sizes, stand_in) * groups / len(study.groups),
        columns=dimension(study),
        **how,
    )
