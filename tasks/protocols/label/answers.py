"""The table of a protocol at label level, from released numbers and public weights.

Each answer is that of one question (``docs/proofs/balancing.md`` 4, ``docs/proofs/matching.md`` 5) with the noise of
the joint draw; how sizes of subgroups, balance and overlap enter is exact, for all of that is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from causalveil.schemas.confounding import AdjustmentMethod, ConfoundingStatement
from causalveil.schemas.estimators.balancing import BalancingEstimator
from causalveil.schemas.estimators.matching import MatchingEstimator, MatchingStudy
from causalveil.schemas.limits import Limit, united
from causalveil.schemas.protocols.answers import BalanceRow, GateResult
from causalveil.schemas.protocols.study import ProtocolStudy
from causalveil.tasks.balancing import stages as balancing
from causalveil.tasks.inference.allowance import allowance_beside
from causalveil.tasks.inference.assemble import effect_in_twins, open_to, partly_if_left
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.matching import interval as matching
from causalveil.tasks.matching import weights as matched
from causalveil.tasks.matching.weights import Reuse
from causalveil.tasks.protocols.calibration import calibrate
from causalveil.tasks.protocols.findings import ProtocolFindings, together
from causalveil.tasks.protocols.gates import balance_gate, critical_of, gated, overlap_gate
from causalveil.tasks.protocols.label.draw import JointDraw
from causalveil.tasks.protocols.label.weights import Comparison, Weighing
from causalveil.tasks.protocols.parts import Part, table, with_everybody
from causalveil.tasks.weighting import weighted_means as weighted
from causalveil.tasks.weighting.imbalance import Balance
from causalveil.tasks.weighting.weighted_means import shares, variance_unit

TOO_SMALL = "an arm is too small to be compared"


@dataclass(frozen=True)
class Scaled:
    """The map of one outcome's two numbers to an estimate and its variance.

    Outcomes are in [-1, 1].

    Attributes:
        estimate, variance: what the numbers are multiplied by.
        twins: by how much of its square the effect itself is in the variance.
        largest: bound on the sampling variance of any population.
        squares: sum of the squared weights of both arms.
        measurable: whether a variance was measured.
        bias: allowed for, in standard errors of sampling.
    """

    estimate: float
    variance: float
    twins: float
    largest: float
    squares: float
    measurable: bool
    bias: float


def scaled(study: ProtocolStudy, draw: JointDraw, outcome: int, found: Balance | Reuse) -> Scaled:
    """Return the factors of an outcome's two numbers in a comparison."""
    if isinstance(found, Balance):
        weights, settings = found.weights, study.estimator
        first, second = (float(share) for share in shares(weights, draw.cost, draw.louder(outcome)))
        return Scaled(
            estimate=2 * float(weights.largest_weight) / first,
            variance=float(variance_unit(weights)) / second if weights.measurable else 0.0,
            twins=1 / weights.queries if weights.pairs[2] else 0.0,
            largest=weighted.largest_variance(weights),
            squares=float(sum(weights.weight_squares)),
            measurable=weights.measurable,
            bias=found.bias * (settings.allowance if isinstance(settings, BalancingEstimator) else 1.0),
        )
    share, m = study.estimator.variance_share if isinstance(study.estimator, MatchingEstimator) else 0.0, found.queries
    return Scaled(
        estimate=2 * float(found.largest_weight) / m / (1 - share),
        variance=float(matched.variance_unit(found)) / m**2 / share if found.measurable else 0.0,
        twins=1 / m,
        largest=matching.largest_variance(found),
        squares=float(sum(found.weight_squares)) / m**2,
        measurable=found.measurable,
        bias=found.bias,
    )


def part_of(
    study: ProtocolStudy,
    draw: JointDraw,
    outcome: int,
    place: tuple[str, str],
    found: Balance | Reuse | None,
    numbers: tuple[float, float],
    answers: int,
) -> Part:
    """Return one answer of the table.

    Args:
        study: the study.
        draw: its draw.
        outcome: which.
        place: subgroup and arm.
        found: the weights; None: an arm is too small to be compared.
        numbers: the two released ones, weights of the draw taken off.
        answers: how many the table has.
    """
    group, arm = place
    half, mixing = study.outcomes[outcome].width / 2, None if draw.gaussian else 1.0
    if found is None:
        return Part(outcome, group, arm, False, 0.0, 0.0, 0.0, 0.0, half / 2, None, mixing, TOO_SMALL)
    one, deviation = scaled(study, draw, outcome, found), draw.deviation(outcome)
    value, upper = one.estimate * numbers[0], one.largest
    noise = (deviation * one.estimate) ** 2
    if one.measurable:
        variance = one.variance * numbers[1]
        variance -= one.twins * effect_in_twins(value, one.bias, variance)
        # The larger of what either interval asks for serves both.
        confidences = (study.confidence, 1 - (1 - study.confidence) / answers)
        ratio = deviation * one.variance / noise
        most = max(allowance_beside(ratio, level, one.bias, not draw.gaussian) for level in confidences)
        upper = min(min(max(variance, 0.0), one.largest) + most * deviation * one.variance, one.largest)
    return Part(
        outcome=outcome,
        group=group,
        arm=arm,
        answered=True,
        value=value * half,
        sampling=upper * half**2,
        noise=noise * half**2,
        bias=one.bias * math.sqrt(upper) * half,
        spread=math.sqrt(min(upper / one.squares, 1.0)) * half,
        confounding=_confounding(study, found),
        mixing=mixing,
    )


def _confounding(study: ProtocolStudy, found: Balance | Reuse) -> ConfoundingStatement:
    """Return what weights of public columns did about confounding, as an effect asked alone says it."""
    if isinstance(found, Balance):
        return partly_if_left(study.estimator, AdjustmentMethod.balancing, found.left if found.narrow.clipped else 0.0)
    return partly_if_left(study.estimator, AdjustmentMethod.matching, found.left)


def number_of_answers(study: ProtocolStudy) -> int:
    """Return the number of rows of the table."""
    return len(study.outcomes) * (len(study.arm_names) - 1) * len(study.answered_groups)


def answers_stage(
    study: ProtocolStudy,
    comparisons: Sequence[Comparison],
    weighed: Sequence[Weighing | None],
    released: FloatArray,
) -> ProtocolFindings:
    """Return the answers: the last stage reads nothing but public and released values."""
    draw, answers = JointDraw.of(study), number_of_answers(study)
    parts = []
    for comparison, weighing, numbers in zip(comparisons, weighed, released, strict=True):
        place, found = (comparison.group, comparison.arm), None if weighing is None else weighing.found
        for outcome in range(len(study.outcomes)):
            first, second = (float(one) / draw.part(outcome) for one in numbers[outcome])
            parts.append(part_of(study, draw, outcome, place, found, (first, second), answers))
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
    return ProtocolFindings(
        answers=gated(study, rows, gates),
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
        not_covered=_not_covered(study, weighed),
        details=details,
    )


def _not_covered(study: ProtocolStudy, weighed: Sequence[Weighing | None]) -> tuple[Limit, ...]:
    """Return what no interval of the table holds, as an effect asked alone says it."""
    first = study.questions[study.first]
    found = united(limit for one in weighed if one is not None for limit in one.found.narrow.limits)
    if isinstance(first, MatchingStudy):
        return matching.not_covered_public(first, found)
    return *open_to(study.estimator, *balancing.NOT_COVERED), *found


def gates_of(
    study: ProtocolStudy, comparisons: Sequence[Comparison], weighed: Sequence[Weighing | None]
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
            value, error = (1.0, 1.0) if weighing is None else (weighing.effective, 0.0)
            found.append(overlap_gate(*place, gates.overlap, value, error, critical_of(1)))
    return tuple(found)
