"""Combine rows of a table into contrasts and ratios, with intervals.

A contrast adds rows with public coefficients. Its sampling, noise and model errors are put together part by part, not
from intervals. Rows of different subgroups are of different people, so their errors are independent but for the
shrinkage that they share; errors of rows of one subgroup are taken to add up in the worst case.

A ratio of two rows has Fieller's set: all b at which top - b bottom is not significantly different from 0. It needs no
division, so it holds whatever the denominator is: an interval, two rays, or the whole line (Fieller 1954; of an
instrument it is the set of Anderson and Rubin 1949). All is post-processing of released values
(``docs/proofs/questions.md``, section 11).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from scipy.optimize import brentq

from causalveil.schemas.answers import Answer, ConfidenceSet, ContrastAnswer, Limits, SetShape, State
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.questions import ALL_UNITS
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.estimate.answers import Part, limits
from causalveil.tasks.machine.arrays import FloatArray

# Rows with their coefficients.
Rows = Sequence[tuple[float, Part]]
# Directions in which a ratio's set is looked for, beside that of the estimate.
DIRECTIONS = 61
# The least deviation, so that none is divided by 0.
LEAST = 1e-300


def contrast_answers(
    study: EffectStudy,
    parts: Sequence[Part],
    answers: Sequence[Answer],
    treated: Mapping[int, tuple[float, float]] = MappingProxyType({}),
) -> tuple[ContrastAnswer, ...]:
    """Return every contrast that a study asks for.

    Args:
        study: the table.
        parts: its rows with the parts of their errors.
        answers: its rows as released; a contrast of a withheld one is withheld.
        treated: by outcome, the noisy number of the treated whose outcome is recorded, and the deviation of its noise.
    """
    places = {(study.outcomes[part.outcome].name, part.group, part.arm): part for part in parts}
    withheld = {(answer.outcome, answer.group, answer.arm) for answer in answers if answer.state is State.withheld}
    error, number = 1 - study.confidence, len(parts) + len(study.contrasts)
    contrasts = []
    for contrast in study.contrasts:
        top, bottom = ([(times, places[row]) for row, times in own.items()] for own in study.rows_of(contrast))
        named: dict[str, object] = {
            "name": contrast.name,
            "of": contrast.of,
            "top": contrast.top,
            "bottom": contrast.bottom,
        }
        if any(row in withheld for own in study.rows_of(contrast) for row in own):
            contrasts.append(ContrastAnswer(**named, state=State.withheld))
        elif contrast.by_size:
            weighed = _by_size(study, top, treated)
            contrasts.append(_difference(study, {**named, "by_size": True}, *weighed, error, number))
        elif contrast.of is None:
            contrasts.append(_ratio(study, named, top, bottom, error, number))
        else:
            contrasts.append(_difference(study, named, top, 0.0, error, number))
    return tuple(contrasts)


def combined(study: EffectStudy, rows: Rows) -> Part:
    """Return a sum of rows with coefficients, its errors put together by parts.

    Deviations add up within a subgroup, variances over subgroups. A row over all units shares people with subgroups.
    """
    first, groups = rows[0][1], dict[str, list[tuple[float, Part]]]()
    together = any(part.group == ALL_UNITS for _, part in rows)
    for times, part in rows:
        groups.setdefault(ALL_UNITS if together else part.group, []).append((times, part))
    # The noise on scores of two outcomes is then independent.
    by_outcomes = isinstance(study, RegressionStudy) and len(study.arm_names) == 2
    sampling, noise = 0.0, 0.0
    for group in groups.values():
        sampling += _sampling(group)
        by_outcome = dict[int, list[float]]()
        for times, part in group:
            alone = abs(times) * math.sqrt(max(part.noise - part.models, 0.0))
            by_outcome.setdefault(part.outcome if by_outcomes else 0, []).append(alone)
        noise += math.fsum(math.fsum(deviations) ** 2 for deviations in by_outcome.values())
    error = _models(list(groups.values()))
    return replace(
        first,
        value=math.fsum(times * part.value for times, part in rows),
        answered=all(part.answered for _, part in rows),
        sampling=sampling,
        noise=noise + (0.0 if error is None else float(error.var())),
        bias=math.fsum(abs(times) * part.bias for times, part in rows),
        averaged=True,
        error=error,
        confounding=None,
        risks=None,
    )


def _sampling(rows: Rows) -> float:
    """Return the sampling variance of a sum of rows of one subgroup.

    A released covariance counts with one deviation of its noise added; rows without one are taken to be perfectly
    correlated.
    """
    total = 0.0
    for times, part in rows:
        for second_times, second in rows:
            signed, sizes = times * second_times, math.sqrt(max(part.sampling, 0.0) * max(second.sampling, 0.0))
            most, same = abs(signed) * sizes, (part.group, part.arm) == (second.group, second.arm)
            covariance = (
                (part.covariances or {}).get(second.outcome) if same and part.outcome != second.outcome else None
            )
            if covariance is not None:
                most = min(most, max(signed * covariance[0] + abs(signed) * covariance[1], -most))
            total += most
    return max(total, 0.0)


def _models(groups: Sequence[Rows]) -> FloatArray | None:
    """Return draws of the models' error of a sum; None where one row has no draws.

    Within a subgroup draws are paired so that they add up. Over subgroups the errors by noise are independent; those
    by shrinkage, of the variance of a row the part that was not adjusted for, add up as well.
    """
    rows = [row for group in groups for row in group]
    if any(part.error is None for _, part in rows):
        return None
    count = max(len(part.error) for _, part in rows if part.error is not None)
    total, common, independent = np.zeros(count), 0.0, 0.0
    for group in groups:
        draws = np.zeros(count)
        for times, part in group:
            draws += np.sort(times * np.resize(part.error if part.error is not None else np.zeros(1), count))
        left = max(1 - (1.0 if part.adjusted is None else part.adjusted) for _, part in group)
        variance = float(draws.var())
        common += math.sqrt(variance * left)
        independent += variance * (1 - left)
        total += draws
    scaled: FloatArray = (total - total.mean()) * math.sqrt((common**2 + independent) / max(float(total.var()), LEAST))
    return scaled


def _by_size(study: EffectStudy, rows: Rows, treated: Mapping[int, tuple[float, float]]) -> tuple[Rows, float]:
    """Return a mean's rows weighted by their sizes, and the variance by noise in sizes.

    An error of a size moves the mean by how far that row lies from it. Rows of a cohort may share a size.
    """
    sizes = [times * treated[part.outcome][0] for times, part in rows]
    total = math.fsum(sizes)
    weighed = [(size / total, part) for size, (_, part) in zip(sizes, rows, strict=True)]
    mean = math.fsum(share * part.value for share, part in weighed)
    moved = dict[str | None, float]()
    for times, part in rows:
        cohort = study.outcomes[part.outcome].arm
        far = times * treated[part.outcome][1] / total * abs(part.value - mean)
        moved[cohort] = moved.get(cohort, 0.0) + far
    return weighed, math.fsum(error**2 for error in moved.values())


def _difference(
    study: EffectStudy, named: Mapping[str, object], rows: Rows, size_variance: float, error: float, number: int
) -> ContrastAnswer:
    """Return a linear contrast with its intervals, cut to its possible range."""
    part = combined(study, rows)
    width = math.fsum(abs(times) * study.outcomes[row.outcome].width for times, row in rows)
    part = replace(part, noise=part.noise + size_variance)
    value, single = limits(part, width, error)
    _, simultaneous = limits(part, width, error / number)
    return ContrastAnswer.model_validate(
        {
            **named,
            "state": State.answered if part.answered else State.unresolved,
            "estimate": value,
            "interval": _bounded(single),
            "simultaneous": _bounded(simultaneous),
            "noise_error": math.sqrt(part.noise) if part.answered else width,
            "sampling_error": math.sqrt(part.sampling),
            "bias": part.bias,
        }
    )


def _bounded(ends: Limits) -> ConfidenceSet:
    return ConfidenceSet(shape=SetShape.interval, lower=ends.lower, upper=ends.upper)


def _ratio(
    study: EffectStudy, named: Mapping[str, object], top: Rows, bottom: Rows, error: float, number: int
) -> ContrastAnswer:
    """Return a ratio of two rows, or of two contrasts, with Fieller's set."""
    above, below = combined(study, top), combined(study, bottom)
    line = ConfidenceSet(shape=SetShape.line)
    if not (above.answered and below.answered):
        return ContrastAnswer.model_validate(
            {**named, "state": State.unresolved, "interval": line, "simultaneous": line}
        )
    units = [max(math.sqrt(side.sampling + side.noise), LEAST) for side in (above, below)]

    def holds(angle: float, error: float) -> float:
        """Return the distance of 0 from the nearer end of a direction's interval; negative outside."""
        cos, sin = math.cos(angle) / units[0], math.sin(angle) / units[1]
        rows = [(times * cos, part) for times, part in top] + [(-times * sin, part) for times, part in bottom]
        _, ends = limits(combined(study, [row for row in rows if row[0] != 0]), math.inf, error)
        return min(-ends.lower, ends.upper)

    def confidence_set(error: float) -> ConfidenceSet:
        return fieller_set(lambda angle: holds(angle, error), above.value / units[0], below.value / units[1], units)

    estimate = above.value / below.value if below.value else math.inf
    return ContrastAnswer.model_validate(
        {
            **named,
            "state": State.answered,
            "estimate": estimate if math.isfinite(estimate) else None,
            "interval": confidence_set(error),
            "simultaneous": confidence_set(error / number),
            "denominator_z": below.value / units[1],
        }
    )


def fieller_set(holds: Callable[[float], float], top: float, bottom: float, units: Sequence[float]) -> ConfidenceSet:
    """Return the set of ratios tan(angle) at which a function of the angle is not below 0.

    A direction and its opposite are one. Where several stretches of directions hold, the set is all but the largest
    gap.

    Args:
        holds: from an angle, of period pi.
        top, bottom: the two numbers in units of their errors; their direction holds.
        units: standard errors of both.
    """
    middle = math.atan2(top, bottom)
    angles = middle + np.linspace(0.0, math.pi, DIRECTIONS + 1)
    inside = np.array([holds(angle) >= 0 for angle in angles[:-1]])
    # The estimate's own direction holds by definition.
    inside[0] = True
    if inside.all():
        return ConfidenceSet(shape=SetShape.line)
    gaps, start = list[tuple[int, int]](), None
    for place, holding in enumerate([*inside.tolist(), True]):
        if not holding and start is None:
            start = place
        elif holding and start is not None:
            gaps.append((start, place))
            start = None
    first, last = max(gaps, key=lambda gap: gap[1] - gap[0])

    def edge(low: float, high: float) -> float:
        """Return where the function passes 0 between two angles."""
        if holds(low) * holds(high) >= 0:
            return low if holds(low) >= 0 else high
        return float(brentq(holds, low, high, xtol=1e-10))

    # The set goes from the end of the gap, over the estimate's direction, to the beginning of the gap.
    begin, end = edge(angles[last - 1], angles[last]) - math.pi, edge(angles[first - 1], angles[first])
    lower, upper = (math.tan(angle) * units[0] / units[1] for angle in (begin, end))
    # Tangents run through infinity where a right angle lies between both.
    crosses = math.floor((end - math.pi / 2) / math.pi) > math.floor((begin - math.pi / 2) / math.pi)
    if crosses:
        return ConfidenceSet(shape=SetShape.rays, lower=upper, upper=lower)
    return ConfidenceSet(shape=SetShape.interval, lower=lower, upper=upper)
