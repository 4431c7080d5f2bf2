"""The context of the page of a protocol over several sites, beside the release itself."""

from __future__ import annotations

from typing import Any

from causalveil.schemas.protocols.study import EVERYBODY
from causalveil.schemas.sites.pooled import PooledAnswer, PooledProtocolRelease
from causalveil.tasks.report.figures import Axis, Line, axis_of, site_bars
from causalveil.tasks.report.numbers import amount, axis_name, beside, span
from causalveil.tasks.report.protocol import (
    ROLES,
    Forest,
    adjustments,
    first_of,
    love_plots,
    place_of,
    said_first,
    sides_of,
)


def pooled_context_of(release: PooledProtocolRelease) -> dict[str, Any]:
    """Return what a page says, by the names that the template uses."""
    bars = [(site.site, site.epsilon, site.delta) for site in release.sites]
    row = first_of(release.answers)
    pooled = release.headline(row)
    ends = None if pooled is None else (pooled.interval.lower, pooled.interval.upper)
    estimate = None if pooled is None else pooled.estimate
    return {
        **said_first(row.outcome, estimate, ends, release.confidence, "" if pooled else _why(row)),
        "waterfalls": (site_bars(bars, amount),),
        "method": f"method_{release.estimator}.html.j2",
        "details": [],
        "forests": _forests(release),
        "loves": love_plots(release.balance),
        "adjustments": adjustments(release.answers),
        "calibrated": any(answer.calibrated is not None for answer in release.answers),
        "several": len({answer.arm for answer in release.answers}) > 1,
        "not_covered": release.not_covered,
    }


def _forests(release: PooledProtocolRelease) -> tuple[Forest, ...]:
    """Return a forest plot of each outcome, in the order of the study."""
    found = []
    for outcome in dict.fromkeys(answer.outcome for answer in release.answers):
        rows = [answer for answer in release.answers if answer.outcome == outcome]
        drawn = [(row, _line(release, row)) for row in rows]
        lines = tuple(line for _, line in drawn if line is not None)
        found.append(
            Forest(
                outcome=outcome,
                role=ROLES[rows[0].role],
                label=axis_name(release.units_of_measure.get(outcome), sides_of(release.specification)),
                lines=lines,
                axis=axis_of(lines) if lines else Axis(-1.0, 1.0),
                withheld=tuple(f"{_label(release, row)} ({_why(row)})" for row, line in drawn if line is None),
            )
        )
    return tuple(found)


def _why(row: PooledAnswer) -> str:
    return "a gate failed" if row.state == "withheld" else "fewer than two sites answered"


def _label(release: PooledProtocolRelease, row: PooledAnswer) -> str:
    return place_of([(one.group, one.arm) for one in release.answers], row.group, row.arm, row.reference)


def _line(release: PooledProtocolRelease, row: PooledAnswer) -> Line | None:
    """Nothing without a pooled answer."""
    pooled = release.headline(row)
    if pooled is None or row.simultaneous is None:
        return None
    ends = {"lower": pooled.interval.lower, "upper": pooled.interval.upper}
    note = f"{beside(pooled.estimate, ends)} ({span(ends)})"
    return Line(
        label=_label(release, row),
        note=note + (" – gate failed" if row.state == "marked" else ""),
        estimate=pooled.estimate,
        lower=pooled.interval.lower,
        upper=pooled.interval.upper,
        weight=None if row.group == EVERYBODY else 0.4,
        outer=(row.simultaneous.lower, row.simultaneous.upper),
    )
