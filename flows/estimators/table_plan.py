"""Rehearse a table, and report the expected half-widths of its questions in a plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from statistics import median
from typing import Any

from causalveil.flows.estimators.rehearsal import (
    Made,
    Rehearsal,
    mostly_whole,
)
from causalveil.flows.estimators.table import Rehearsed, Smaller, middle_of
from causalveil.flows.estimators.words import Words, say_row, stated_terms
from causalveil.schemas.confounding import declares_randomised
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.questions import OutcomeRole
from causalveil.schemas.remarks import PlanCode, Remark, remark
from causalveil.schemas.table import EffectStudy, TableStudy
from causalveil.tasks.data.covariates import dimension
from causalveil.tasks.data.enclave import MemoryEnclave
from causalveil.tasks.estimate.answers import ENOUGH, scale_of
from causalveil.tasks.estimate.findings import critical_of
from causalveil.tasks.estimate.label import comparisons
from causalveil.tasks.estimate.people import counted_units, people_of


def words(study: EffectStudy, sizes: Sizes, stand_in: StandIn, found: Sequence[Rehearsed]) -> Words:
    """Return half-widths of all outcomes, and what leaving one out would buy."""
    rows, numbers = middle_of(found), list[dict[str, Any]]()
    sentences = [remark(PlanCode.asked, releases="One budget", question=study.question)]
    if len(study.arm_names) > 2:
        sentences.append(remark(PlanCode.equal_arms, units=sizes.units / len(study.arm_names)))
    if stand_in.deviation is None:
        sentences.append(remark(PlanCode.quarter_ranges))
    grouped = study.subgroups is not None
    for row, weight in zip(rows, study.outcome_weights, strict=True):
        # How much louder its noise is than that of asking for it alone, and by what the others' falls without it.
        factor, without = 1 / weight, 1 - weight if study.in_l1 else math.sqrt(1 - weight**2)
        numbers.append({**vars(row), "noise_factor": factor, "without": without})
        group = (row.group, row.group_together) if grouped else None
        others = f" Its noise is {factor:.2f} times that of asking for it alone; without it the others would have "
        others = f"{others}{1 - without:.0%} less." if len(rows) > 1 else ""
        sentences.append(say_row(row.outcome, row.everybody, row.everybody_together, group, row.adjustment, others))
    names = [contrast.name for contrast in study.contrasts if contrast.of is not None]
    widths = [median(own) for own in zip(*(draw.contrasts for draw in found), strict=True)]
    sentences += [
        remark(PlanCode.contrast, name=name, half_width=width) for name, width in zip(names, widths, strict=False)
    ]
    if len(names) < len(study.contrasts):
        sentences.append(remark(PlanCode.ratios))
    told = {"contrasts": dict(zip(names, widths, strict=False))} if names else {}
    return Words(sentences, {"answers": numbers, **told}, name=rows[study.first].outcome)


def warned(study: EffectStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]) -> list[Remark]:
    """Return warnings of noise, too few controls, or a delta that widens."""
    del sizes, stand_in
    warnings = stated_terms(study)
    if study.privacy.level is Level.sample and mostly_whole(few()):
        warnings.append(remark(PlanCode.whole_range))
    if (reach := placebo_reach(study, few)) is not None and study.gates and study.gates.placebo:
        warnings.append(remark(PlanCode.placebo_hidden, bound=study.gates.placebo, reach=reach))
    controls = sum(outcome.role is OutcomeRole.negative_control for outcome in study.outcomes)
    if 0 < controls < ENOUGH:
        warnings.append(remark(PlanCode.few_controls, controls=controls, least=ENOUGH))
    if (
        study.privacy.level is Level.label
        and study.privacy.delta > 0
        and (ratio := comparisons.without_delta(study)) < 1
    ):
        warnings.append(remark(PlanCode.delta_widens, name=study.outcomes[study.first].name, ratio=ratio))
    return warnings


def placebo_reach(study: EffectStudy, few: Callable[[], Sequence[Rehearsed]]) -> float | None:
    """Return how far from 0 a placebo of 0 may lie, in deviations.

    None where that is within the gate on placebos, or there is no such gate.
    """
    placebos = [place for place, outcome in enumerate(study.outcomes) if outcome.role is OutcomeRole.placebo]
    if study.gates is None or study.gates.placebo is None or not (found := few()):
        return None
    critical, reach, rows = critical_of(len(placebos) * len(study.groups)), 0.0, middle_of(found)
    for place in placebos:
        answers = [answer for answer in found[0].found.answers if answer.outcome == study.outcomes[place].name]
        scale = scale_of(answers[0].spread or 0.0, study.outcomes[place].width)
        reach = max(reach, critical * math.hypot(rows[place].sampling_error, rows[place].noise_error) / scale)
    return reach if reach >= study.gates.placebo else None


def equal_arms(study: TableStudy) -> Callable[[StandIn], StandIn]:
    """Return the stand-in population as a study has it.

    Of more than two arms all are of one size.
    """
    arms = len(study.arm_names)
    return lambda told: told if arms == 2 else told.model_copy(update={"treated": 1 - 1 / arms})


@cache
def _people(groups: int) -> Callable[[Any, Made], MemoryEnclave]:
    """Return how people of so many subgroups are made: one function, by which draws that are alike are told."""
    return lambda study, made: people_of(study, made.stand_in, made.count, made.randomised, made.sample, groups)


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
    return Rehearsal(
        most,
        smaller,
        randomised=declares_randomised(study.estimator.model_dump()),
        told=equal_arms(study),
        make=_people(groups),
        units=lambda study, sizes, stand_in: counted_units(study, sizes, stand_in) * groups / len(study.groups),
        columns=dimension(study),
        **how,
    )
