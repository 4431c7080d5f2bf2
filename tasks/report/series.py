"""A series as a page: a forest plot over time for each question."""

from __future__ import annotations

from causalveil.schemas.sites.pooled import Series, SeriesRow
from causalveil.tasks.report.figures import Axis, Line, axis_of
from causalveil.tasks.report.numbers import axis_name, beside, span
from causalveil.tasks.report.page import environment, likelihood, style
from causalveil.tasks.report.protocol import labelled


def series_html(series: Series) -> str:
    """Return one HTML document: styles and figures inside, nothing outside it referred to.

    Raises:
        CausalveilError: this installation lacks its templates.
    """
    series = labelled(series)
    units = series.units_of_measure
    rows = [(row, *_figure(row), axis_name(units.get(row.outcome))) for row in series.rows]
    context = {
        "series": series,
        "rows": rows,
        "likelihood": likelihood(series.privacy.epsilon),
        "css": style("style.css"),
    }
    return environment().get_template("series.html.j2").render(context)


def _figure(row: SeriesRow) -> tuple[list[Line], Axis]:
    lines = []
    for block in row.blocks:
        ends = block.interval.model_dump()
        note = f"{beside(block.estimate, ends)} ({span(ends)})"
        label = block.blocks[-1]
        lines.append(Line(label, note, block.estimate, block.interval.lower, block.interval.upper, 0.3))
    ends = row.fixed.interval.model_dump()
    note = f"{beside(row.fixed.estimate, ends)} ({span(ends)})"
    lines.append(Line("all together", note, row.fixed.estimate, row.fixed.interval.lower, row.fixed.interval.upper))
    return lines, axis_of(lines)
