"""Draw curves of times for a page: steps with bands, cumulative incidence, people at risk.

Positions are percents of the figure's width and height, as its box is stretched to the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from causalveil.schemas.answers import ArmCurve, Curves
from causalveil.schemas.estimators.survival import Measure
from causalveil.schemas.release import EffectTable
from causalveil.schemas.specification import outcomes_of
from causalveil.tasks.report.figures import Axis
from causalveil.tasks.report.numbers import figure, named_arm

# The times that fit below a figure on a narrow screen.
TIMES_SHOWN = 5
# The most pairs of curves that a page draws; the release has all.
PAIRS_SHOWN = 12
NAMES = ("control", "treated")
# Risks further apart than two of 200 pixels can be distinguished.
SEEN_APART = 0.01


@dataclass(frozen=True)
class Area:
    """The area of cumulative incidence of one kind of event in an arm.

    ``beyond``: its path where too few people are at risk; ``last``: the incidence that is stated in words.
    """

    label: str
    path: str
    beyond: str
    last: float


@dataclass(frozen=True)
class DrawnArm:
    """One arm: its curve as far as people are seen at risk and beyond, band, areas by event."""

    name: str
    code: str
    seen: str
    beyond: str
    band: str
    areas: tuple[Area, ...]
    at_risk: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class DrawnPair:
    """The reference and an arm in one group of a protocol, with their released curves."""

    title: str
    names: tuple[str, str]
    curves: Curves
    arms: tuple[DrawnArm, ...]
    # The time of the values in words.
    until: float
    # The first arm whose cumulative incidence is not drawn before: the reference is in several pairs.
    fresh: int = 0


@dataclass(frozen=True)
class DrawnGroups:
    """The pairs that a page shows, those of all units first.

    ``more``: the number of pairs not shown; ``times``: of people at risk.
    """

    shown: tuple[DrawnPair, ...]
    more: int
    times: tuple[float, ...]


def _apart(release: EffectTable, pair: DrawnPair) -> tuple[tuple[float, float] | None, ...]:
    """Return by arm the drawn and the estimated risk at the end, where they visibly differ.

    Curves are drawn monotone; estimates are not. Adjusted risks have no curve.
    """
    risks = [answer for answer in release.answers if answer.measure is Measure.risk]
    adjusted = bool(release.specification.get("covariates"))
    if len(risks) != 1 or adjusted or pair.curves.seen_until < pair.curves.horizon:
        return (None,) * len(pair.arms)
    pairs = zip((arm.areas[0].last for arm in pair.arms), risks[0].values or (None, None), strict=True)
    return tuple(
        None if estimated is None or abs(at_end - estimated) < SEEN_APART else (at_end, estimated)
        for at_end, estimated in pairs
    )


def curves_context(release: EffectTable) -> dict[str, Any]:
    """Return the context of curves of a release of times; of other releases an empty one."""
    if not release.curves:
        return {"curves_drawn": None, "time_unit": "", "enters": None, "end": ""}
    curves, ended = release.curves[0].curves, release.answers[0].restricted_to
    places, asks_for_arms = _places(len(curves.times)), bool(release.specification.get("arms"))
    several, grouped = ({getattr(released, key) for released in release.curves} for key in ("arm", "group"))
    pairs: list[DrawnPair] = []
    stacked: set[tuple[str, str, float]] = set()
    for released in release.curves[:PAIRS_SHOWN]:
        parts = [released.group] if len(grouped) > 1 or len(several) == 1 else []
        parts += [f"{released.arm} against {released.reference}"] if len(several) > 1 else []
        names = (named_arm(released.reference), named_arm(released.arm)) if asks_for_arms else ("controls", "treated")
        # Values in words, for readers who cannot see the figure, end where measures do.
        until = min(released.curves.seen_until, ended or curves.horizon)
        both = zip(released.curves.arms, NAMES, strict=True)
        arms = tuple(_arm(released.curves, arm, name, places, until) for arm, name in both)
        reference = (released.group, released.reference, until)
        title = ", ".join(parts) if len(release.curves) > 1 else ""
        pairs.append(DrawnPair(title, names, released.curves, arms, until, fresh=int(reference in stacked)))
        stacked.add(reference)
    starts, unit = [curves.landmark, *curves.times[:-1]], curves.unit or ""
    alone = len(release.curves) == 1
    return {
        "curves_drawn": DrawnGroups(tuple(pairs), len(release.curves) - len(pairs), tuple(starts[at] for at in places)),
        "time_axis": Axis(curves.landmark, curves.horizon),
        "time_unit": unit,
        "enters": outcomes_of(release.specification)[0].get("entry"),
        "end": figure(ended) + (f" {unit}" if unit else "") if ended else "",
        "apart": _apart(release, pairs[0]) if alone else (),
        "bracket": curves.grid_bracket if alone else None,
    }


def _places(intervals: int) -> list[int]:
    """Return the intervals whose numbers at risk are shown: evenly spaced, with first and last."""
    shown = min(TIMES_SHOWN, intervals)
    return sorted({round(place * (intervals - 1) / max(shown - 1, 1)) for place in range(shown)})


def _arm(curves: Curves, arm: ArmCurve, name: str, places: Sequence[int], until: float) -> DrawnArm:
    axis, ends = Axis(curves.landmark, curves.horizon), [curves.landmark, *curves.times]
    last = sum(end <= curves.seen_until for end in curves.times)
    values = [1.0, *arm.survival]
    lower, upper = [1.0, *arm.lower], [1.0, *arm.upper]
    areas, below = [], [0.0] * len(ends)
    for label, rising in arm.incidence.items():
        incidence = [0.0, *rising]
        above = [min(low + high, 1.0) for low, high in zip(below, incidence, strict=True)]
        seen = _between(axis, ends[: last + 1], below[: last + 1], above[: last + 1])
        areas.append(
            Area(
                label,
                seen,
                _between(axis, ends[last:], below[last:], above[last:]),
                incidence[sum(end <= until for end in curves.times)],
            )
        )
        below = above
    return DrawnArm(
        name=name,
        code=arm.arm,
        seen=_steps(axis, ends[: last + 1], values[: last + 1]),
        beyond=_steps(axis, ends[last:], values[last:]),
        band=_between(axis, ends[: last + 1], lower[: last + 1], upper[: last + 1]),
        areas=tuple(areas),
        at_risk=tuple((arm.at_risk[place], arm.at_risk_error[place]) for place in places),
    )


def _steps(axis: Axis, times: Sequence[float], values: Sequence[float]) -> str:
    """Return the path of a step function; empty for a single point."""
    return "M" + " L".join(_corners(axis, times, values)) if len(times) > 1 else ""


def _between(axis: Axis, times: Sequence[float], lower: Sequence[float], upper: Sequence[float]) -> str:
    """Return the path around the area between two step functions."""
    if len(times) < 2:
        return ""
    return "M" + " L".join([*_corners(axis, times, upper), *reversed(_corners(axis, times, lower))]) + " Z"


def _corners(axis: Axis, times: Sequence[float], values: Sequence[float]) -> list[str]:
    corners = [_point(axis, times[0], values[0])]
    for place in range(1, len(times)):
        corners += [_point(axis, times[place], values[place - 1]), _point(axis, times[place], values[place])]
    return corners


def _point(axis: Axis, time: float, value: float) -> str:
    return f"{axis.at(time):g},{100 * (1 - value):.4g}"
