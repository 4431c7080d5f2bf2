"""Read expected half-widths of a table's questions off one rehearsal.

They are over all units and in a subgroup, one by one and all together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, Generic, TypeVar

from causalveil.schemas.answers import Answer, Limits, State
from causalveil.schemas.errors import DataError
from causalveil.schemas.questions import ALL_UNITS
from causalveil.schemas.study import Study
from causalveil.tasks.estimate.interval import Findings

S = TypeVar("S", bound=Study)


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


@dataclass(frozen=True)
class Rehearsed:
    """Findings of a study with one draw of noise, in outcome units.

    Attributes:
        half_width: of the interval.
        noise, sampling: standard errors.
        bias: what the interval allows for.
        whole_range: whether it is all of the declared range.
        kind: of the outcomes of its people, counted from 0.
        weight: of that kind in the mean over kinds.
        seed: of its noise.
        answers: expected half-widths of each outcome.
        contrasts: expected half-widths of contrasts, those of ratios left out.
        found: what it was read from.
    """

    half_width: float
    noise: float
    sampling: float
    bias: float = 0.0
    whole_range: bool = False
    kind: int = 0
    weight: float = 1.0
    seed: int = 0
    answers: tuple[ExpectedAnswer, ...] = ()
    contrasts: tuple[float, ...] = ()
    found: Any = None


@dataclass(frozen=True)
class Smaller(Generic[S]):
    """A study for fewer units than it has.

    Its errors are divided to be those of all.

    Attributes:
        study: the study.
        noise, sampling, bias: by what errors are divided.
        times: how many units each person's part of a sum counts for.
        all_units: whether stages are told the number of all units, not of those rehearsed.
    """

    study: S
    noise: float = 1.0
    sampling: float = 1.0
    bias: float = 1.0
    times: float = 1.0
    all_units: bool = False

    def of_all(self, half: float, noise: float, sampling: float, bias: float) -> Rehearsed:
        """Return an interval for all units, of its half-width and what that is made of."""
        total, left = math.hypot(noise, sampling), bias / self.bias
        soft, less = noise / self.noise, sampling / self.sampling
        if total > 0:
            half = left + (half - bias) * math.hypot(soft, less) / total
        return Rehearsed(half, soft, less, left)


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
    seen = [row for row in rows if row.interval is not None]
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
    return fmean(
        _half(smaller, row, row.simultaneous if together and row.simultaneous else row.interval).half_width
        for row in rows
    )


def _half(smaller: Smaller[Any], row: Answer, limits: Limits | None) -> Rehearsed:
    half = 0.0 if limits is None else (limits.upper - limits.lower) / 2
    read = smaller.of_all(half, row.noise_error or 0.0, row.sampling_error or 0.0, row.bias or 0.0)
    return replace(read, half_width=half) if row.state is State.unresolved else read


def of_table(smaller: Smaller[Any], found: Findings, first: int) -> Rehearsed:
    """Return the answer about the first primary outcome over all units.

    With it are those of all.

    ``first``: its place among the outcomes.
    """
    answers = expected_answers(smaller, found.answers)
    own = answers[first]
    row = next(row for row in found.answers if row.outcome == own.outcome)
    read = _half(smaller, row, row.interval)
    whole = row.state is State.unresolved
    contrasts = tuple(
        smaller.of_all(
            ((contrast.interval.upper or 0.0) - (contrast.interval.lower or 0.0)) / 2,
            contrast.noise_error or 0.0,
            contrast.sampling_error or 0.0,
            contrast.bias or 0.0,
        ).half_width
        for contrast in found.contrasts
        if contrast.of is not None and contrast.interval is not None
    )
    return replace(read, half_width=own.everybody, whole_range=whole, answers=answers, contrasts=contrasts, found=found)


def middle_of(found: Sequence[Rehearsed]) -> list[ExpectedAnswer]:
    """Return the median of each question over the draws."""
    numbers = ("everybody", "everybody_together", "group", "group_together", "sampling_error", "noise_error", "hidden")
    return [
        replace(own[0], **{name: median(getattr(draw, name) for draw in own) for name in numbers})
        for own in zip(*(draw.answers for draw in found), strict=True)
    ]
