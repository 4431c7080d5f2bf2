"""Curves and effects of a study of times, of one site or of several, as a page draws them.

Steps with bands, areas of cumulative incidence, people at risk.

Positions are percents of the figure's width and height: it is drawn in a box that is stretched to the page.
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

# So many times fit below a figure on a narrow screen.
TIMES_SHOWN = 5
# Pairs of curves of a protocol that a page draws; all are in the release.
PAIRS_SHOWN = 12
NAMES = ("control", "treated")
# Risks further apart than this are told apart in a figure of 200 pixels: two of them.
SEEN_APART = 0.01


@dataclass(frozen=True)
class Area:
    """The area of cumulative incidence of one kind of event in an arm.

    ``beyond`` is where too few people are seen at risk; ``last`` is the incidence that a reader is told.
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
    # Until when values are told in words.
    told: float
    # The first arm whose cumulative incidence no pair before it has shown: the reference stands in several.
    fresh: int = 0


@dataclass(frozen=True)
class DrawnGroups:
    """The pairs that a page shows, those of all units first.

    ``more``: how many it does not; ``times``: of people at risk.
    """

    shown: tuple[DrawnPair, ...]
    more: int
    times: tuple[float, ...]


def _apart(release: EffectTable, pair: DrawnPair) -> tuple[tuple[float, float] | None, ...]:
    """Return by arm the risk that its figure ends at and the estimated one, where an eye sees that they differ.

    Curves are drawn monotone; estimates are not. Adjusted risks are no curve's.
    """
    risks = [one for one in release.answers if one.measure is Measure.risk]
    adjusted = bool(release.specification.get("covariates"))
    if len(risks) != 1 or adjusted or pair.curves.seen_until < pair.curves.horizon:
        return (None,) * len(pair.arms)
    pairs = zip((arm.areas[0].last for arm in pair.arms), risks[0].values or (None, None), strict=True)
    return tuple(
        None if estimated is None or abs(drawn - estimated) < SEEN_APART else (drawn, estimated)
        for drawn, estimated in pairs
    )


def curves_context(release: EffectTable) -> dict[str, Any]:
    """Return the curves of a release of times; of any other that it has none."""
    if not release.curves:
        return {"curves_drawn": None, "time_unit": "", "enters": None, "end": ""}
    curves, ended = release.curves[0].curves, release.answers[0].restricted_to
    places, asks_for_arms = _places(len(curves.times)), bool(release.specification.get("arms"))
    several, grouped = ({getattr(one, key) for one in release.curves} for key in ("arm", "group"))
    pairs: list[DrawnPair] = []
    stacked: set[tuple[str, str, float]] = set()
    for one in release.curves[:PAIRS_SHOWN]:
        parts = [one.group] if len(grouped) > 1 or len(several) == 1 else []
        parts += [f"{one.arm} against {one.reference}"] if len(several) > 1 else []
        names = (named_arm(one.reference), named_arm(one.arm)) if asks_for_arms else ("controls", "treated")
        # Where measures end earlier, so do the values that stand in words for those who cannot see the figure.
        told = min(one.curves.seen_until, ended or curves.horizon)
        both = zip(one.curves.arms, NAMES, strict=True)
        arms = tuple(_arm(one.curves, arm, name, places, told) for arm, name in both)
        reference = (one.group, one.reference, told)
        title = ", ".join(parts) if len(release.curves) > 1 else ""
        pairs.append(DrawnPair(title, names, one.curves, arms, told, fresh=int(reference in stacked)))
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
    """The intervals at whose beginnings people at risk are shown: evenly spread, the first and the last among them."""
    shown = min(TIMES_SHOWN, intervals)
    return sorted({round(place * (intervals - 1) / max(shown - 1, 1)) for place in range(shown)})


def _arm(curves: Curves, arm: ArmCurve, name: str, places: Sequence[int], told: float) -> DrawnArm:
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
                incidence[sum(end <= told for end in curves.times)],
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
    """Return the path of a curve that changes at the ends of intervals.

    It is empty for a single point.
    """
    return "M" + " L".join(_corners(axis, times, values)) if len(times) > 1 else ""


def _between(axis: Axis, times: Sequence[float], lower: Sequence[float], upper: Sequence[float]) -> str:
    """Return the path around what lies between two such curves."""
    if len(times) < 2:
        return ""
    return "M" + " L".join([*_corners(axis, times, upper), *reversed(_corners(axis, times, lower))]) + " Z"


def _corners(axis: Axis, times: Sequence[float], values: Sequence[float]) -> list[str]:
    found = [_point(axis, times[0], values[0])]
    for place in range(1, len(times)):
        found += [_point(axis, times[place], values[place - 1]), _point(axis, times[place], values[place])]
    return found


def _point(axis: Axis, time: float, value: float) -> str:
    return f"{axis.at(time):g},{100 * (1 - value):.4g}"
