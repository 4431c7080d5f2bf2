"""Answers of a table at label level, from released numbers and public weights.

Each answer is that of one question (``docs/proofs/balancing.md`` 4, ``docs/proofs/matching.md`` 5) with the noise of
the joint draw; how sizes of subgroups, balance and overlap enter is exact, for all of that is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from causalveil.schemas.limits import Code, united
from causalveil.schemas.protocols.answers import BalanceRow, GateResult
from causalveil.schemas.protocols.study import EffectStudy
from causalveil.tasks.inference.allowance import allowance_beside
from causalveil.tasks.inference.assemble import NOISY, Findings
from causalveil.tasks.inference.covered import covered
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.protocols.calibration import calibrate
from causalveil.tasks.protocols.findings import together
from causalveil.tasks.protocols.gates import balance_gate, critical_of, gated, overlap_gate
from causalveil.tasks.protocols.label.draw import JointDraw
from causalveil.tasks.protocols.label.weights import Comparison
from causalveil.tasks.protocols.parts import Part, table, told_of_errors, with_everybody, with_statement
from causalveil.tasks.weighting.imbalance import Weighing
from causalveil.tasks.weighting.weighted_means import NoisyDifference


def part_of(
    study: EffectStudy,
    draw: JointDraw,
    outcome: int,
    place: tuple[str, str],
    weighing: Weighing | None,
    numbers: Sequence[float],
    answers: int,
) -> Part:
    """Return one answer of the table.

    Args:
        study: the study.
        draw: its draw.
        outcome: which.
        place: subgroup and arm.
        weighing: the weights; None: an arm is too small to be compared.
        numbers: the two released ones.
        answers: how many the table has.
    """
    group, arm = place
    half, mixing = study.outcomes[outcome].width / 2, None if draw.gaussian else 1.0
    if weighing is None:
        return Part(outcome, group, arm, False, 0.0, 0.0, 0.0, 0.0, half / 2, None, mixing, hidden=Code.arm_too_small)
    weights, bias, deviation = weighing.weights, weighing.bias, draw.deviation(outcome)
    own = [number / draw.part(outcome) for number in numbers]
    read = NoisyDifference.of(weights, draw.cost, own, bias, draw.louder(outcome))
    noise, of_variance = (deviation * read.noise) ** 2, deviation * read.variance_noise
    upper = min(max(read.variance, 0.0), weights.largest_variance)
    if of_variance > 0:
        # The larger of what either interval asks for serves both.
        confidences = (study.confidence, 1 - (1 - study.confidence) / answers)
        most = max(allowance_beside(of_variance / noise, level, bias, not draw.gaussian) for level in confidences)
        upper = min(upper + most * of_variance, weights.largest_variance)
    return Part(
        outcome=outcome,
        group=group,
        arm=arm,
        answered=True,
        value=read.value * half,
        sampling=upper * half**2,
        noise=noise * half**2,
        bias=bias * math.sqrt(upper) * half,
        spread=math.sqrt(min(upper / float(sum(weights.weight_squares)), 1.0)) * half,
        confounding=weighing.confounding,
        mixing=mixing,
    )


def _of_one_question(study: EffectStudy, found: Findings, weighing: Weighing | None) -> Findings:
    """Return a table of one row with what is told of one question alone."""
    if weighing is None:
        raise ValueError("a table without weights is refused before its draw")
    return replace(
        with_statement(found, weighing.confounding),
        covers=(*NOISY, *weighing.covers),
        details={
            **told_of_errors(study, found),
            **weighing.weights.details(study.outcome.width),
            **weighing.details,
        },
    )


def number_of_answers(study: EffectStudy) -> int:
    """Return the number of rows of the table."""
    return len(study.outcomes) * (len(study.arm_names) - 1) * len(study.answered_groups)


def answers_stage(
    study: EffectStudy,
    comparisons: Sequence[Comparison],
    weighed: Sequence[Weighing | None],
    released: FloatArray,
) -> Findings:
    """Return the answers: the last stage reads nothing but public and released values."""
    draw, answers = JointDraw.of(study), number_of_answers(study)
    parts = []
    for comparison, weighing, numbers in zip(comparisons, weighed, released, strict=True):
        place = (comparison.group, comparison.arm)
        for outcome in range(len(study.outcomes)):
            parts.append(part_of(study, draw, outcome, place, weighing, numbers[outcome].tolist(), answers))
    sizes = {arm: [one.weight(study.estimand) for one in comparisons if one.arm == arm] for arm in study.arm_names[1:]}
    total = float(max(sum(own) for own in sizes.values()))
    parts = with_everybody(study, parts, sizes, 0.0, total)
    rows, calibration = calibrate(study, parts, table(study, parts))
    gates = gates_of(study, comparisons, weighed)
    details: dict[str, float | int | str | bool] = {
        "cells": len(study.groups) * len(study.arm_names),
        **together(len(rows)),
    }
    for comparison in comparisons:
        # In the order of the arms, of which the reference is the first.
        details[f"units[{comparison.group}][{study.arm_names[0]}]"] = comparison.arms[1]
        details[f"units[{comparison.group}][{comparison.arm}]"] = comparison.arms[0]
    answered = gated(study, rows, gates)
    found = Findings(
        answers=answered,
        confidence=study.confidence,
        covers=covered(study, answered),
        balance=tuple(
            BalanceRow(
                group=comparison.group,
                arm=comparison.arm,
                covariate=row.covariate,
                before=row.before,
                after=row.after,
                noise_error=0.0,
            )
            for comparison, weighing in zip(comparisons, weighed, strict=True)
            if weighing is not None
            for row in weighing.differences
        ),
        gates=gates,
        calibration=calibration,
        not_covered=united(limit for one in weighed if one is not None for limit in one.not_covered),
        details=details,
    )
    return _of_one_question(study, found, weighed[0]) if study.asks_one else found


def gates_of(
    study: EffectStudy, comparisons: Sequence[Comparison], weighed: Sequence[Weighing | None]
) -> tuple[GateResult, ...]:
    """Return every declared gate in every comparison.

    They are exact, so that one cannot be told only where nothing was weighed.
    """
    found, gates = list[GateResult](), study.gates
    if gates is None:
        return ()
    for comparison, weighing in zip(comparisons, weighed, strict=True):
        place = (comparison.group, comparison.arm)
        if gates.balance is not None:
            rows = [] if weighing is None else [(row.after, 0.0) for row in weighing.differences]
            found.append(balance_gate(*place, gates.balance, rows, critical_of(1)))
        if gates.overlap is not None:
            value, error = (1.0, 1.0) if weighing is None else (weighing.weights.least_effective, 0.0)
            found.append(overlap_gate(*place, gates.overlap, value, error, critical_of(1)))
    return tuple(found)
