"""The context of the page of a study of times over several sites, beside the release itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from causalveil.schemas.estimators.survival import Measure
from causalveil.schemas.sites.pooled import NOT_SEEN, PooledMeasure, PooledSurvivalRelease
from causalveil.tasks.report.figures import Axis, Line, axis_of, site_bars
from causalveil.tasks.report.numbers import amount, axis_name, beside, span, verdict_of
from causalveil.tasks.report.times import drawn_curves


@dataclass(frozen=True)
class MeasureForest:
    """The forest of one measure: its sites, and all of them together.

    ``hidden``: sites that have no part in it.
    """

    title: str
    lines: tuple[Line, ...]
    axis: Axis
    unit: str
    hidden: tuple[str, ...]


def pooled_times_context(release: PooledSurvivalRelease) -> dict[str, Any]:
    """Return what a page says, by the names that the template uses."""
    bars = [(site.site, site.epsilon, site.delta) for site in release.sites]
    first = release.headline(release.measures[0])
    return {
        **({} if release.curves is None else drawn_curves(release.curves)),
        "waterfalls": (site_bars(bars, amount),),
        "method": f"method_{release.estimator}.html.j2",
        "details": [],
        "first": None if first is None else first.model_dump(mode="json"),
        "verdict": "" if first is None else verdict_of(first.interval.model_dump()),
        "forests": tuple(_forest(release, one) for one in release.measures),
        "unit": release.unit or "",
        "not_covered": release.not_covered,
        "not_seen": NOT_SEEN,
    }


def _forest(release: PooledSurvivalRelease, measure: PooledMeasure) -> MeasureForest:
    lines = [
        _line(part.site, part.estimate, part.interval.model_dump(), part.weight(release.model))
        for part in measure.sites
        if part.estimate is not None and part.interval is not None
    ]
    # The declared model stands last.
    for model in sorted(("fixed", "random"), key=lambda name: name == release.model):
        found = getattr(measure, model)
        if found is not None:
            lines.append(_line(f"{model.capitalize()} effects", found.estimate, found.interval.model_dump()))
    if measure.stratified is not None:
        lines.append(_line("Stratified by site", measure.stratified.estimate, measure.stratified.interval.model_dump()))
    unit = None if measure.measure is Measure.risk else release.unit or "time"
    return MeasureForest(
        measure.words,
        tuple(lines),
        axis_of(lines) if lines else Axis(-1.0, 1.0),
        axis_name(unit),
        tuple(part.site for part in measure.sites if part.estimate is None),
    )


def _line(label: str, estimate: float, ends: Mapping[str, Any], weight: float | None = None) -> Line:
    note = f"{beside(estimate, ends)} ({span(ends)})"
    return Line(label, note, estimate, ends["lower"], ends["upper"], weight)
