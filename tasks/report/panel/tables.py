"""Panels of tables of answers.

A protocol, one over several sites, and a series of blocks have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from rich.markup import escape

from causalveil.tasks.report.numbers import confidence_level, counted, freedom, in_place, is_whole, within
from causalveil.tasks.report.panel.effects import head_of
from causalveil.tasks.report.panel.parts import adjusted_by_answer, ends, estimated, limits, span_of

if TYPE_CHECKING:
    from causalveil.schemas.protocols.answers import GateResult, Limits, ProtocolAnswer
    from causalveil.schemas.release import ProtocolRelease
    from causalveil.schemas.sites.pooled import PooledAnswer, PooledProtocolRelease, SiteGate
    from causalveil.schemas.sites.series import Series, SeriesRow

Table = TypeVar("Table", "ProtocolRelease", "PooledProtocolRelease", "Series")
Row = TypeVar("Row", "ProtocolAnswer", "PooledAnswer")
ROLES = ("primary", "secondary", "negative_control")


class TableRow(Protocol):
    """A row of a table: an outcome, a subgroup and an arm."""

    @property
    def outcome(self) -> str:
        """The outcome's name."""

    @property
    def group(self) -> str:
        """The subgroup."""

    @property
    def arm(self) -> str:
        """The arm that is compared with the reference."""


def protocol_lines(release: ProtocolRelease, room: int) -> list[str]:
    """Return a protocol's panel without its cost: answers over all units come first."""
    from causalveil.tasks.report.protocol import part_seen

    release = _labelled(release)
    ends_with = [*adjusted_by_answer([one.confounding for one in release.answers]), *_gates(release.gates)]
    if seen := part_seen(release):
        ends_with.append(f"[yellow]{escape(seen)}[/yellow]")
    if release.calibration.controls:
        ends_with.append(escape(release.calibration.statement))
    rows, of, fit = _in_order(release.answers), _units_in(release), _rows_in(room, ends_with)
    shown = rows[:fit]
    # Ratios are told if those of all answers fit.
    asked, whole = any(one.measures for one in rows), sum(1 + len(one.measures) for one in rows) <= fit
    lines = [head_of(release), _key(release, len(rows), len(rows) - len(shown), hidden=asked and not whole)]
    for name, one in zip(_names(shown, rows), shown, strict=True):
        lines.append(f"{name}  {_numbers(one, of.get(one.outcome, ''), len(rows))}")
        lines += [f"  {one.words}" for one in one.measures if whole]
    lines += ends_with
    return lines + limits(release.not_covered, room - len(lines), _not_in(len(rows)))


def pooled_protocol_lines(release: PooledProtocolRelease, head: str, room: int) -> list[str]:
    """Return the panel of a protocol over several sites, without its cost."""
    release = _labelled(release)
    ends_with = [*adjusted_by_answer([one.confounding for one in release.answers]), *_gates(release.gates)]
    ends_with += _site_gates(release.site_gates)
    if release.calibration.controls:
        ends_with.append(escape(release.calibration.statement))
    rows = _in_order(release.answers)
    shown = rows[: _rows_in(room, ends_with)]
    of = _units_in(release)
    lines = [head, _key(release, len(rows), len(rows) - len(shown))]
    for name, one in zip(_names(shown, rows), shown, strict=True):
        lines.append(f"{name}  {_pooled_numbers(release, one, of.get(one.outcome, ''), len(rows))}")
    lines += ends_with
    return lines + limits(release.not_covered, room - len(lines), _not_in(len(rows)))


def series_lines(series: Series, room: int) -> list[str]:
    """Return the panel of a series, without its cost: one line a question."""
    series = _labelled(series)
    count = len({block for row in series.rows for one in row.blocks for block in one.blocks})
    head = f"{series.study}: series of {count} blocks of {series.dataset}, by {series.estimator}"
    ends_with = adjusted_by_answer([row.confounding for row in series.rows])
    lines_each = 1 if len(series.rows) > 1 else 4
    shown = series.rows[: max(_rows_in(room, ends_with) // lines_each, 1)]
    more = len(series.rows) - len(shown)
    rest = f"; {counted(more, 'more question')} on the page" if more else ""
    interval = "interval" if len(series.rows) == 1 else "intervals"
    level = confidence_level(series.confidence)
    lines = [escape(head), f"{_among(series.specification)}{level} {interval}, all blocks together{rest}:"]
    units = _units_in(series)
    for name, row in zip(_names(shown, series.rows), shown, strict=True):
        unit = units.get(row.outcome)
        of = escape(f" {unit}") if unit else ""
        lines.append(f"{name}  [bold]{estimated(row.fixed)}{of}[/bold]  {ends(row.fixed.interval)}{_trend(row)}")
    if lines_each > 1:
        lines += _blocks(series.rows[0])
    lines += ends_with
    return lines + limits(series.not_covered, room - len(lines), _not_in(len(series.rows)))


def _labelled(table: Table) -> Table:
    """Return a table in which a code stands with the name of its column."""
    from causalveil.tasks.report.protocol import labelled

    return labelled(table)


def _units_in(release: ProtocolRelease | PooledProtocolRelease | Series) -> dict[str, str]:
    from causalveil.tasks.report.protocol import units_in

    return units_in(release)


def _trend(row: SeriesRow) -> str:
    return f"  drift {row.drift.per_block:+.3g} a block (p = {row.drift.p_value:.2g})"


def _blocks(row: SeriesRow) -> list[str]:
    """Return how far apart the blocks of a single question are."""
    apart, newest = row.heterogeneity, row.newest
    lines = [
        f"Between blocks: Q = {apart.q:.3g} on {freedom(apart.degrees)}, p = {apart.p_value:.2g}.",
        f"The newest block, {escape(newest.blocks[-1])}, minus the others: {newest.difference:+.3g}, "
        f"standard error {newest.standard_error:.2g}, p = {newest.p_value:.2g}.",
    ]
    if row.missing:
        lines.append(f"[yellow]No answer in {counted(len(row.missing), 'block')}.[/yellow]")
    return lines


def _rows_in(room: int, ends_with: Sequence[str]) -> int:
    """Return how many answers fit: the first limit takes two lines, and two stand above the answers."""
    return max(room - len(ends_with) - 4, 1)


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """Answers over all units first, primary ones before others."""
    return sorted(rows, key=lambda one: (not is_whole(one.group), ROLES.index(one.role)))


def _key(release: ProtocolRelease | PooledProtocolRelease, answers: int, more: int, *, hidden: bool = False) -> str:
    """Return the line above the answers: what their numbers are, of whom, and what else the report has.

    ``hidden``: whether ratios stand in the report alone.
    """
    level, of = confidence_level(release.confidence), _among(release.specification)
    if answers == 1:
        return f"{of}{level} interval{'; ratios in the report' if hidden else ''}:"
    rest = [*([counted(more, "more answer")] if more else []), *(["ratios"] if hidden else [])]
    said = f"; {' and '.join(rest)} in the report" if rest else ""
    return f"{of}{level} intervals, in brackets those that hold all together{said}:"


def _among(specification: Mapping[str, object]) -> str:
    """Return whom answers are about, before a line; nothing where they are about all units."""
    from causalveil.schemas.where import where_words

    among = where_words(specification)
    return f"Among units where {escape(among)}: " if among else ""


def _not_in(answers: int) -> str:
    """Return what limits of so many answers are headed by."""
    return "The interval does not cover" if answers == 1 else "The intervals do not cover"


def _gates(gates: Sequence[GateResult]) -> list[str]:
    """Return how many gates did not pass, and where the first of them stands."""
    lines = []
    for verdict, words in (("failed", "failed"), ("cannot_tell", "cannot be told at this noise")):
        found = [gate for gate in gates if gate.verdict == verdict]
        if found:
            one = found[0]
            first = f"{one.gate} in {escape(in_place(one.group, one.arm))}: {one.value:.3g} ± {one.noise_error:.2g}"
            many = f"{len(found)} of {counted(len(gates), 'gate')}"
            lines.append(f"[yellow]{many} {words}; {first}, bound {one.bound:g}.[/yellow]")
    passed = "The gate passed." if len(gates) == 1 else f"All {len(gates)} gates passed."
    return lines or ([passed] if gates else [])


def _site_gates(gates: Sequence[SiteGate]) -> list[str]:
    """Return how many gates failed at the sites themselves, and where the first of them stands."""
    failed = [gate for gate in gates if gate.verdict == "failed"]
    if not failed:
        return []
    place = escape(in_place(failed[0].group, failed[0].arm))
    first = f"{failed[0].gate} at {escape(failed[0].site)} in {place}"
    return [f"[yellow]{len(failed)} of {counted(len(gates), 'gate')} at the sites failed; {first}.[/yellow]"]


def _names(shown: Sequence[TableRow], rows: Sequence[TableRow]) -> list[str]:
    """Return what answers are of, padded: outcome, and subgroup and arm where the table has several."""
    several, grouped = len({one.arm for one in rows}) > 1, len({one.group for one in rows}) > 1
    names = [
        ", ".join([one.outcome, *([one.group] if grouped else []), *([one.arm] if several else [])])
        + (" (control)" if getattr(one, "role", "") == "negative_control" else "")
        for one in shown
    ]
    width = max(map(len, names))
    return [f"{escape(name)}{'':<{width - len(name)}}" for name in names]


def _numbers(answer: ProtocolAnswer, unit: str, answers: int) -> str:
    if answer.estimate is None or answer.interval is None or answer.simultaneous is None:
        return "[yellow]withheld: a gate failed[/yellow]"
    if answer.state == "unresolved":
        return "[yellow]the noise is too large: the interval is the whole range[/yellow]"
    of = escape(f" {unit}") if unit else ""
    shown = within(answer.estimate, answer.interval.lower, answer.interval.upper)
    text = f"[bold]{shown}{of}[/bold]  {span_of(answer.interval)}"
    return text + _together(answer.simultaneous, answers) + _further(answer)


def _together(all_: Limits, answers: int) -> str:
    """Return the interval that holds with all others, in brackets; nothing where there are none."""
    return f"  ({span_of(all_)})" if answers > 1 else ""


def _pooled_numbers(release: PooledProtocolRelease, answer: PooledAnswer, unit: str, answers: int) -> str:
    found = release.headline(answer)
    if answer.state == "withheld":
        return "[yellow]withheld: a gate failed on the pooled balance[/yellow]"
    if found is None or answer.simultaneous is None:
        return "[yellow]fewer than two sites answered[/yellow]"
    of = escape(f" {unit}") if unit else ""
    text = f"[bold]{estimated(found)}{of}[/bold]  {span_of(found.interval)}"
    text += _together(answer.simultaneous, answers) + _further(answer)
    told = sum(site.weight_fixed > 0 for site in answer.sites)
    return text + (f"  {told} of {len(answer.sites)} sites" if told < len(answer.sites) else "")


def _further(answer: ProtocolAnswer | PooledAnswer) -> str:
    """Return the calibrated interval, if any, and that a gate failed."""
    calibrated = answer.calibrated
    said = "" if calibrated is None else f"  calibrated {span_of(calibrated)}"
    return said + ("  [yellow]marked: a gate failed[/yellow]" if answer.state == "marked" else "")
