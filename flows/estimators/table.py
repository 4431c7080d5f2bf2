"""Expected half-widths of a table of many questions.

They are over all units and in a subgroup, one by one and all together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from causalveil.flows.estimators.rehearsal import Rehearsed, Smaller
from causalveil.schemas.errors import DataError
from causalveil.schemas.protocols.answers import Answer, Limits, State
from causalveil.schemas.protocols.study import ALL_UNITS


@dataclass(frozen=True)
class ExpectedAnswer:
    """Expected half-widths of one question, in its units, and what they are made of.

    Attributes:
        outcome: the question.
        everybody, everybody_together: over all units, by itself and with all others.
        group, group_together: in a subgroup of average size; as over all units where there are none.
        sampling_error, noise_error: over all units.
        hidden: the share of answers that noise hides.
        adjustment: in words.
    """

    outcome: str
    everybody: float
    everybody_together: float
    group: float
    group_together: float
    sampling_error: float
    noise_error: float
    hidden: float
    adjustment: str


def expected_answers(smaller: Smaller[Any], answers: Sequence[Answer]) -> tuple[ExpectedAnswer, ...]:
    """Return what a table says of each of its questions, for all units.

    Raises:
        DataError: an arm is too small to be compared.
    """
    by_outcome = dict[str, list[Answer]]()
    for row in answers:
        by_outcome.setdefault(row.outcome, []).append(row)
    return tuple(_expected(smaller, outcome, rows) for outcome, rows in by_outcome.items())


def _expected(smaller: Smaller[Any], outcome: str, rows: Sequence[Answer]) -> ExpectedAnswer:
    seen = [row for row in rows if row.interval is not None and row.simultaneous is not None]
    whole = [row for row in seen if row.group == ALL_UNITS] or seen
    groups = [row for row in seen if row.group != ALL_UNITS] or whole
    if not whole:
        raise DataError("an arm would be too small to be compared")
    first = _half(smaller, whole[0], whole[0].interval)
    return ExpectedAnswer(
        outcome=outcome,
        everybody=_mean(smaller, whole),
        everybody_together=_mean(smaller, whole, together=True),
        group=_mean(smaller, groups),
        group_together=_mean(smaller, groups, together=True),
        sampling_error=first.sampling,
        noise_error=first.noise,
        hidden=fmean(row.state is State.unresolved for row in rows),
        adjustment=rows[0].adjustment,
    )


def _mean(smaller: Smaller[Any], rows: Sequence[Answer], together: bool = False) -> float:
    return fmean(_half(smaller, row, row.simultaneous if together else row.interval).half_width for row in rows)


def _half(smaller: Smaller[Any], row: Answer, limits: Limits | None) -> Rehearsed:
    half = 0.0 if limits is None else (limits.upper - limits.lower) / 2
    read = smaller.of_all(half, row.noise_error or 0.0, row.sampling_error or 0.0, row.bias or 0.0)
    return replace(read, half_width=half) if row.state is State.unresolved else read


def of_table(smaller: Smaller[Any], answers: Sequence[Answer], first: int = 0) -> Rehearsed:
    """Return the answer of the first primary question over all units, and with it those of all."""
    found = expected_answers(smaller, answers)
    own, outcome = found[first], found[first].outcome
    whole = next(row for row in answers if row.outcome == outcome).state is State.unresolved
    return Rehearsed(own.everybody, own.noise_error, own.sampling_error, whole_range=whole, found=found)


def middle_of(found: Sequence[Rehearsed]) -> list[ExpectedAnswer]:
    """Return the median of each question over the draws."""
    numbers = ("everybody", "everybody_together", "group", "group_together", "sampling_error", "noise_error", "hidden")
    return [
        replace(own[0], **{name: median(getattr(one, name) for one in own) for name in numbers})
        for own in zip(*(one.found for one in found), strict=True)
    ]
