"""Combine rows of a table into contrasts and ratios, with intervals.

A contrast adds rows with public coefficients. Its sampling, noise and model errors are put together part by part, not
from intervals: rows of different subgroups are of different people, so their errors are independent but for what
shrinkage leaves alike; rows of one subgroup are taken to err in the most unfavourable way together.

A ratio of two rows has Fieller's set: all b at which top - b bottom is not clearly apart from 0. It needs no division,
so it holds whatever the denominator is: an interval, two rays, or the whole line (Fieller 1954; of an instrument it is
the set of Anderson and Rubin 1949). Post-processing of released values (``docs/proofs/questions.md``, section 11).
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
from causalveil.schemas.table import ALL_UNITS, EffectStudy
from causalveil.tasks.estimate.answers import Part, limits
from causalveil.tasks.machine.arrays import FloatArray

# Rows with their coefficients.
Rows = Sequence[tuple[float, Part]]
# Directions in which a ratio's set is looked for, beside that of the estimate.
DIRECTIONS = 61
# An error below which a deviation is taken for it.
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
        answers: the same as they are released; a contrast of a withheld one is withheld.
        treated: of outcomes with rows of their own, how many treated have it, and the deviation of the noise on that.
    """
    places = {(study.outcomes[one.outcome].name, one.group, one.arm): one for one in parts}
    withheld = {(one.outcome, one.group, one.arm) for one in answers if one.state is State.withheld}
    error, many = 1 - study.confidence, len(parts) + len(study.contrasts)
    found = []
    for contrast in study.contrasts:
        top, bottom = ([(times, places[row]) for row, times in own.items()] for own in study.rows_of(contrast))
        told: dict[str, object] = {
            "name": contrast.name,
            "of": contrast.of,
            "top": contrast.top,
            "bottom": contrast.bottom,
        }
        if any(row in withheld for own in study.rows_of(contrast) for row in own):
            found.append(ContrastAnswer(**told, state=State.withheld))
        elif contrast.by_size:
            weighed = _by_size(study, top, treated)
            found.append(_difference(study, {**told, "by_size": True}, *weighed, error, many))
        elif contrast.of is None:
            found.append(_ratio(study, told, top, bottom, error, many))
        else:
            found.append(_difference(study, told, top, 0.0, error, many))
    return tuple(found)


def combined(study: EffectStudy, rows: Rows) -> Part:
    """Return a sum of rows with coefficients, its errors put together by parts.

    Deviations add up within a subgroup, variances over subgroups. A row over all units shares people with each of
    them. By regression of two arms the noise on scores of two outcomes is that of two numbers, so it is independent.
    """
    first, groups = rows[0][1], dict[str, list[tuple[float, Part]]]()
    together = any(part.group == ALL_UNITS for _, part in rows)
    for times, part in rows:
        groups.setdefault(ALL_UNITS if together else part.group, []).append((times, part))
    apart = isinstance(study, RegressionStudy) and len(study.arm_names) == 2

    def within(own: Rows, name: str) -> float:
        return math.fsum(abs(times) * math.sqrt(max(getattr(part, name), 0.0)) for times, part in own)

    sampling, noise = 0.0, 0.0
    for own in groups.values():
        sampling += _sampling(own)
        by_outcome = dict[int, list[float]]()
        for times, part in own:
            alone = abs(times) * math.sqrt(max(part.noise - part.models, 0.0))
            by_outcome.setdefault(part.outcome if apart else 0, []).append(alone)
        noise += math.fsum(math.fsum(one) ** 2 for one in by_outcome.values())
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
    """Return the variance by sampling of a sum of rows of one subgroup.

    A released correlation counts with one deviation of its noise added; of rows that have none it is the worst.
    """
    total = 0.0
    for times, one in rows:
        for other_times, other in rows:
            signed, sizes = times * other_times, math.sqrt(max(one.sampling, 0.0) * max(other.sampling, 0.0))
            most, same = abs(signed) * sizes, (one.group, one.arm) == (other.group, other.arm)
            known = (one.covariances or {}).get(other.outcome) if same and one.outcome != other.outcome else None
            if known is not None:
                most = min(most, max(signed * known[0] + abs(signed) * known[1], -most))
            total += most
    return max(total, 0.0)


def _models(groups: Sequence[Rows]) -> FloatArray | None:
    """Return draws of what models leave possible of a sum; None where their laws are not known.

    Within a subgroup draws are paired so that they add up. Over subgroups what noise leaves is independent, and what
    shrinkage leaves adds up as well: of the variance of a row the part that was not adjusted for.
    """
    rows = [one for own in groups for one in own]
    if any(part.error is None for _, part in rows):
        return None
    count = max(len(part.error) for _, part in rows if part.error is not None)
    total, alike, own_of = np.zeros(count), 0.0, 0.0
    for own in groups:
        drawn = np.zeros(count)
        for times, part in own:
            drawn += np.sort(times * np.resize(part.error if part.error is not None else np.zeros(1), count))
        left = max(1 - (1.0 if part.adjusted is None else part.adjusted) for _, part in own)
        variance = float(drawn.var())
        alike, own_of, total = alike + math.sqrt(variance * left), own_of + variance * (1 - left), total + drawn
    found: FloatArray = (total - total.mean()) * math.sqrt((alike**2 + own_of) / max(float(total.var()), LEAST))
    return found


def _by_size(study: EffectStudy, rows: Rows, treated: Mapping[int, tuple[float, float]]) -> tuple[Rows, float]:
    """Return a mean's rows by coefficients times sizes, and the variance that noise in sizes adds.

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
    return weighed, math.fsum(one**2 for one in moved.values())


def _difference(
    study: EffectStudy, told: Mapping[str, object], rows: Rows, sizes: float, error: float, many: int
) -> ContrastAnswer:
    """Return a linear contrast with its intervals, cut to the range that it can have."""
    part, width = combined(study, rows), _width(study, rows)
    part = replace(part, noise=part.noise + sizes)
    value, single = limits(part, width, error)
    _, simultaneous = limits(part, width, error / many)
    return ContrastAnswer.model_validate(
        {
            **told,
            "state": State.answered if part.answered else State.unresolved,
            "estimate": value,
            "interval": _bounded(single),
            "simultaneous": _bounded(simultaneous),
            "noise_error": math.sqrt(part.noise) if part.answered else width,
            "sampling_error": math.sqrt(part.sampling),
            "bias": part.bias,
        }
    )


def _width(study: EffectStudy, rows: Rows) -> float:
    """Return how large a contrast can be."""
    return math.fsum(abs(times) * study.outcomes[part.outcome].width for times, part in rows)


def _bounded(ends: Limits) -> ConfidenceSet:
    return ConfidenceSet(shape=SetShape.interval, lower=ends.lower, upper=ends.upper)


def _ratio(
    study: EffectStudy, told: Mapping[str, object], top: Rows, bottom: Rows, error: float, many: int
) -> ContrastAnswer:
    """Return a ratio of two rows, or of two contrasts, with Fieller's set."""
    above, below = combined(study, top), combined(study, bottom)
    line = ConfidenceSet(shape=SetShape.line)
    if not (above.answered and below.answered):
        return ContrastAnswer.model_validate(
            {**told, "state": State.unresolved, "interval": line, "simultaneous": line}
        )
    units = [max(math.sqrt(one.sampling + one.noise), LEAST) for one in (above, below)]

    def holds(angle: float, error: float) -> float:
        """Return how far 0 is within the interval of a direction; below 0 it is outside."""
        cos, sin = math.cos(angle) / units[0], math.sin(angle) / units[1]
        rows = [(times * cos, part) for times, part in top] + [(-times * sin, part) for times, part in bottom]
        _, ends = limits(combined(study, [row for row in rows if row[0] != 0]), math.inf, error)
        return min(-ends.lower, ends.upper)

    def told_of(error: float) -> ConfidenceSet:
        return fieller_set(lambda angle: holds(angle, error), above.value / units[0], below.value / units[1], units)

    estimate = above.value / below.value if below.value else math.inf
    return ContrastAnswer.model_validate(
        {
            **told,
            "state": State.answered,
            "estimate": estimate if math.isfinite(estimate) else None,
            "interval": told_of(error),
            "simultaneous": told_of(error / many),
            "denominator_z": below.value / units[1],
        }
    )


def fieller_set(holds: Callable[[float], float], top: float, bottom: float, units: Sequence[float]) -> ConfidenceSet:
    """Return the set of ratios tan(angle) at which a function of the angle is not below 0.

    Directions are told apart up to their sign. Where several stretches of them hold, all but the largest gap does.

    Args:
        holds: from an angle, of period pi.
        top, bottom: the two numbers in units of their errors, whose own direction holds.
        units: what they are in units of.
    """
    middle = math.atan2(top, bottom)
    angles = middle + np.linspace(0.0, math.pi, DIRECTIONS + 1)
    inside = np.array([holds(angle) >= 0 for angle in angles[:-1]])
    # The estimate's own direction holds by what it is.
    inside[0] = True
    if inside.all():
        return ConfidenceSet(shape=SetShape.line)
    gaps, start = list[tuple[int, int]](), None
    for place, one in enumerate([*inside.tolist(), True]):
        if not one and start is None:
            start = place
        elif one and start is not None:
            gaps.append((start, place))
            start = None
    first, last = max(gaps, key=lambda gap: gap[1] - gap[0])

    def edge(low: float, high: float) -> float:
        """Return where the function passes 0 between two angles."""
        if holds(low) * holds(high) >= 0:
            return low if holds(low) >= 0 else high
        return float(brentq(holds, low, high, xtol=1e-10))

    # The set begins behind the gap and goes on over the estimate's direction to where the gap begins.
    begin, end = edge(angles[last - 1], angles[last]) - math.pi, edge(angles[first - 1], angles[first])
    lower, upper = (math.tan(angle) * units[0] / units[1] for angle in (begin, end))
    # Tangents run through infinity where a right angle lies between both.
    crosses = math.floor((end - math.pi / 2) / math.pi) > math.floor((begin - math.pi / 2) / math.pi)
    if crosses:
        return ConfidenceSet(shape=SetShape.rays, lower=upper, upper=lower)
    return ConfidenceSet(shape=SetShape.interval, lower=lower, upper=upper)
