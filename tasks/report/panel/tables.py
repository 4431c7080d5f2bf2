"""Panels of tables of answers.

A protocol, one over several sites, and a series of blocks have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from rich.markup import escape

from causalveil.tasks.report.numbers import confidence_level, freedom, number
from causalveil.tasks.report.panel.effects import head_of
from causalveil.tasks.report.panel.parts import adjusted_by_answer, ends, limits

if TYPE_CHECKING:
    from causalveil.schemas.protocols.answers import GateResult, ProtocolAnswer
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
    """Return a protocol's panel without its cost: answers over everybody come first."""
    release = _labelled(release)
    ends_with = [*adjusted_by_answer([one.confounding for one in release.answers]), *_gates(release.gates)]
    if release.calibration.controls:
        ends_with.append(escape(release.calibration.statement))
    rows = _in_order(release.answers)
    shown = rows[: _rows_in(room, ends_with)]
    more = len(rows) - len(shown)
    of = _units_in(release)
    lines = [head_of(release), _key(release.confidence, more, release.specification)]
    for name, one in zip(_names(shown, release.answers), shown, strict=True):
        lines.append(f"{name}  {_numbers(one, of.get(one.outcome, ''))}")
        lines += [f"  {one.words}" for one in one.measures if more == 0]
    lines += ends_with
    return lines + limits(release.not_covered, room - len(lines))


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
    lines = [head, _key(release.confidence, len(rows) - len(shown), release.specification)]
    for name, one in zip(_names(shown, release.answers), shown, strict=True):
        lines.append(f"{name}  {_pooled_numbers(release, one, of.get(one.outcome, ''))}")
    lines += ends_with
    return lines + limits(release.not_covered, room - len(lines))


def series_lines(series: Series, room: int) -> list[str]:
    """Return the panel of a series, without its cost: one line a question."""
    series = _labelled(series)
    count = len({block for row in series.rows for one in row.blocks for block in one.blocks})
    head = f"{series.study}: series of {count} blocks of {series.dataset}, by {series.estimator}"
    ends_with = adjusted_by_answer([row.confounding for row in series.rows])
    lines_each = 1 if len(series.rows) > 1 else 4
    shown = series.rows[: max(_rows_in(room, ends_with) // lines_each, 1)]
    more = len(series.rows) - len(shown)
    rest = f"; {more} more question{'' if more == 1 else 's'} on the page" if more else ""
    lines = [escape(head), f"{confidence_level(series.confidence)} intervals, all blocks together{rest}:"]
    for name, row in zip(_names(shown, series.rows), shown, strict=True):
        unit = series.units_of_measure.get(row.outcome)
        of = escape(f" {unit}") if unit else ""
        lines.append(f"{name}  [bold]{number(row.fixed.estimate)}{of}[/bold]  {ends(row.fixed.interval)}{_trend(row)}")
    if lines_each > 1:
        lines += _blocks(series.rows[0])
    lines += ends_with
    return lines + limits(series.not_covered, room - len(lines))


def _labelled(table: Table) -> Table:
    """Return a table in which a code stands with the name of its column."""
    from causalveil.tasks.report.protocol import labelled

    return labelled(table)


def _units_in(release: ProtocolRelease | PooledProtocolRelease) -> dict[str, str]:
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
        lines.append(f"[yellow]No answer in {len(row.missing)} blocks.[/yellow]")
    return lines


def _rows_in(room: int, ends_with: Sequence[str]) -> int:
    """Return how many answers fit: the first limit takes two lines, and two stand above the answers."""
    return max(room - len(ends_with) - 4, 1)


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """Answers over everybody first, primary ones before others."""
    from causalveil.schemas.protocols.study import ALL_UNITS

    return sorted(rows, key=lambda one: (one.group != ALL_UNITS, ROLES.index(one.role)))


def _key(confidence: float, more: int, specification: Mapping[str, object]) -> str:
    """Return the line above the answers: what their numbers are, of whom, and how many more there are."""
    from causalveil.schemas.where import where_words

    rest = f"; {more} more answer{'' if more == 1 else 's'} in the report" if more else ""
    among = where_words(specification)
    of = f"Of units where {escape(among)}: " if among else ""
    return f"{of}{confidence_level(confidence)} intervals, in brackets those that hold all together{rest}:"


def _gates(gates: Sequence[GateResult]) -> list[str]:
    """Return how many gates did not pass, and where the first of them stands."""
    lines = []
    for verdict, words in (("failed", "failed"), ("cannot_tell", "cannot be told at this noise")):
        found = [gate for gate in gates if gate.verdict == verdict]
        if found:
            one = found[0]
            first = f"{one.gate} in {escape(one.group)}, {escape(one.arm)}: {one.value:.3g} ± {one.noise_error:.2g}"
            lines.append(f"[yellow]{len(found)} of {len(gates)} gates {words}; {first}, bound {one.bound:g}.[/yellow]")
    return lines or ([f"All {len(gates)} gates passed."] if gates else [])


def _site_gates(gates: Sequence[SiteGate]) -> list[str]:
    """Return how many gates failed at the sites themselves, and where the first of them stands."""
    failed = [gate for gate in gates if gate.verdict == "failed"]
    if not failed:
        return []
    first = f"{failed[0].gate} at {escape(failed[0].site)} in {escape(failed[0].group)}, {escape(failed[0].arm)}"
    return [f"[yellow]{len(failed)} of {len(gates)} gates at the sites failed; {first}.[/yellow]"]


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


def _numbers(answer: ProtocolAnswer, unit: str) -> str:
    if answer.estimate is None or answer.interval is None or answer.simultaneous is None:
        return "[yellow]withheld: a gate failed[/yellow]"
    if answer.state == "unresolved":
        return "[yellow]the noise is too large: the interval is the declared range[/yellow]"
    single, all_ = answer.interval, answer.simultaneous
    of = escape(f" {unit}") if unit else ""
    text = f"[bold]{number(answer.estimate)}{of}[/bold]  {number(single.lower)} to {number(single.upper)}  "
    text += f"({number(all_.lower)} to {number(all_.upper)})"
    return text + _further(answer)


def _pooled_numbers(release: PooledProtocolRelease, answer: PooledAnswer, unit: str) -> str:
    found = release.headline(answer)
    if answer.state == "withheld":
        return "[yellow]withheld: a gate failed on the pooled balance[/yellow]"
    if found is None or answer.simultaneous is None:
        return "[yellow]fewer than two sites answered[/yellow]"
    all_, of = answer.simultaneous, escape(f" {unit}") if unit else ""
    text = f"[bold]{number(found.estimate)}{of}[/bold]  "
    text += f"{number(found.interval.lower)} to {number(found.interval.upper)}  "
    text += f"({number(all_.lower)} to {number(all_.upper)}){_further(answer)}"
    told = sum(site.weight_fixed > 0 for site in answer.sites)
    return text + (f"  {told} of {len(answer.sites)} sites" if told < len(answer.sites) else "")


def _further(answer: ProtocolAnswer | PooledAnswer) -> str:
    """Return the calibrated interval, if any, and that a gate failed."""
    calibrated = answer.calibrated
    said = "" if calibrated is None else f"  calibrated {number(calibrated.lower)} to {number(calibrated.upper)}"
    return said + ("  [yellow]marked: a gate failed[/yellow]" if answer.state == "marked" else "")
