"""Panels of answers: of one run, of several sites, and of a series of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from rich.markup import escape

from causalveil.schemas.specification import one_outcome
from causalveil.tasks.report.numbers import confidence_level, counted, freedom, in_place, is_whole, percent, within
from causalveil.tasks.report.panel.direction import head_of
from causalveil.tasks.report.panel.parts import (
    adjusted,
    adjusted_by_answer,
    ends,
    estimate_line,
    estimated,
    limits,
    span_of,
)
from causalveil.tasks.report.panel.pooled import head_of_sites

if TYPE_CHECKING:
    from causalveil.schemas.estimators.survival import LogRankTest
    from causalveil.schemas.protocols.answers import Answer, GateResult, Limits
    from causalveil.schemas.release import EffectRelease, EffectTable
    from causalveil.schemas.sites.pooled import PooledAnswer, PooledRelease, SiteGate
    from causalveil.schemas.sites.series import Series, SeriesAnswer

Table = TypeVar("Table", "EffectRelease", "PooledRelease", "Series")
Row = TypeVar("Row", bound="Answer")
ROLES = ("primary", "secondary", "negative_control")
# Why a site has no part in an answer.
NO_PART = "noise hides it, a gate withholds it, or its measures end earlier"
# So many blocks without an answer are named; a line has 25 words at most.
SILENT = 5


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


def effect_lines(release: EffectRelease, room: int) -> list[str]:
    """Return the panel of effects without its cost: answers over all units come first."""
    release, lines = _labelled(release), [head_of(release)]
    ends_with = _about(release)
    lines += [*_answers(release, room, ends_with), *ends_with]
    return lines + limits(release.not_covered, room - len(lines), _not_in(len(release.answers)))


def _answers(release: EffectTable, room: int, ends_with: Sequence[str]) -> list[str]:
    """Return the answers: the only one in words, of several one a line as far as they fit."""
    rows, of = _in_order(release.answers), _units_in(release)
    if len(rows) == 1:
        return _only(release, of.get(rows[0].outcome))
    fit = _rows_in(room, ends_with)
    shown = rows[:fit]
    # Ratios are told if those of all answers fit.
    asked, whole = any(one.measures for one in rows), sum(1 + len(one.measures) for one in rows) <= fit
    lines = [_key(release, len(rows), len(rows) - len(shown), hidden=asked and not whole)]
    for name, one in zip(_names(shown, rows), shown, strict=True):
        lines.append(f"{name}  {_numbers(one, of.get(one.outcome, ''))}")
        lines += [f"  {one.words}" for one in one.measures if whole]
    return lines


def _only(release: EffectTable, unit: str | None) -> list[str]:
    """Return the only answer: of times or of some units alone what it is about, its interval, and its ratios."""
    row, interval = release.answers[0], release.interval
    about = f"{_among(release.specification)}{escape(row.outcome) if row.measure else ''}{_origin(release)}"
    lines = [f"{about.removesuffix(': ')}:"] if about else []
    if row.estimate is None or interval is None:
        return [*lines, f"[yellow]{_silent(row)}.[/yellow]"]
    ratios = [f"  {one.words}" for one in row.measures]
    return [*lines, estimate_line(row.estimate, interval, unit or _share(release)) + _further(row), *ratios]


def _share(release: EffectTable) -> str | None:
    """Return what is counted of an outcome of two words: an effect on it is one on the share with that word."""
    codes = (one_outcome(release.specification) or {}).get("codes") or {}
    return (
        f"in the share with '{codes['yes']}'" if isinstance(codes.get("yes"), str) and codes["yes"] != "yes" else None
    )


def _origin(release: EffectTable) -> str:
    """Return from when times count, in brackets; nothing of other outcomes."""
    from causalveil.schemas.specification import outcomes_of

    first = outcomes_of(release.specification)[0]
    return f" (origin: {escape(first['origin'])})" if "origin" in first else ""


def _about(release: EffectRelease) -> list[str]:
    """Return what was done about confounding, and what else must be known of the answers, if anything must."""
    from causalveil.tasks.report.table import part_seen

    first, details = release.answers[0], release.details
    one = len(release.answers) == 1
    lines = adjusted(first.confounding) if one else adjusted_by_answer([row.confounding for row in release.answers])
    if details.get("chance_contradicted"):
        lines.append("[yellow]The released share of treated contradicts the declared chance of treatment.[/yellow]")
    elif one and first.state == "unresolved":
        lines.append("[yellow]The noise was too large: the interval is the whole declared range.[/yellow]")
    if details.get("attenuation_corrected") is False:
        factor = percent(float(details["attenuation_factor"]))
        said = f"Attenuated: noise on treatments leaves about {factor} of the effect in the estimate."
        lines.append(f"[yellow]{said}[/yellow]")
    lines += [*_of_times(release), *_gates(release.gates)]
    if release.clusters is not None:
        lines += [escape(one) for one in release.clusters.sentences[:1]]
    if seen := part_seen(release):
        lines.append(f"[yellow]{escape(seen)}[/yellow]")
    if release.calibration is not None:
        lines.append(escape(release.calibration.statement))
    return lines


def _of_times(release: EffectRelease) -> list[str]:
    """Return the test of a single pair of curves, and until when people are seen."""
    if len(release.curves) != 1:
        return []
    curves, lines = release.curves[0].curves, list[str]()
    unit = escape(f" {curves.unit}") if curves.unit else ""
    ended = release.answers[0].restricted_to
    if ended is not None:
        said = f"Too few are followed to {curves.horizon:g}{unit}, so measures end with {ended:g}."
        lines.append(f"[yellow]{said}[/yellow]")
    tests = [row.log_rank for row in release.answers if row.log_rank is not None]
    if len(tests) == 1:
        # The test compares the arms as they are: beside an adjusted difference it may point the other way.
        test = "Without adjustment: log-rank p" if release.specification.get("covariates") else "Log-rank p"
        lines.append(_test(test, tests[0]))
    if curves.seen_until < curves.horizon:
        lines.append(f"[yellow]People of both arms are seen at risk until {curves.seen_until:.4g}{unit} only.[/yellow]")
    if release.details.get("pooled_strata"):
        left = release.details["strata"]
        lines.append(f"[yellow]Noise hides strata of losses: neighbours are pooled, which leaves {left}.[/yellow]")
    return lines


def _test(name: str, test: LogRankTest) -> str:
    """Return a log-rank test, and the ratio of hazards if noise leaves one."""
    said, ratio = f"{name} = {test.p_value:.3g}", test.hazard_ratio
    if ratio is not None:
        shown = [within(one, ratio.lower, ratio.upper) for one in (ratio.estimate, ratio.lower, ratio.upper)]
        said += f", hazard ratio {shown[0]} {escape(f'[{shown[1]}, {shown[2]}]')}"
    return f"{said}."


def pooled_lines(release: PooledRelease, room: int) -> list[str]:
    """Return the panel of effects over several sites, without its cost."""
    release = _labelled(release)
    first, one = release.answers[0], len(release.answers) == 1
    ends_with = adjusted(first.confounding) if one else adjusted_by_answer([row.confounding for row in release.answers])
    if first.log_rank is not None:
        ends_with.append(_test("Within sites: log-rank p", first.log_rank))
    ends_with += [*_between(release, first), *_gates(release.gates), *_site_gates(release.site_gates)]
    if release.calibration is not None:
        ends_with.append(escape(release.calibration.statement))
    lines = [head_of_sites(release), *_answers(release, room, ends_with), *ends_with]
    # Sites are named if all of them have room beside the first limit.
    if one and len(lines) + len(first.sites) + 2 <= room:
        lines += _sites(release, first)
    return lines + limits(release.not_covered, room - len(lines), _not_in(len(release.answers)))


def _between(release: PooledRelease, answer: PooledAnswer) -> list[str]:
    """Return how far apart the sites are in the first answer, the other model's, and who gave none."""
    apart, lines = answer.heterogeneity, list[str]()
    if apart is not None:
        of = "Between sites" if len(release.answers) == 1 else "Between sites, first answer"
        said = f"{of}: tau2 {apart.tau2:.3g}, I2 {apart.i2:.0%}, Q {apart.q:.3g} on {freedom(apart.degrees)}, "
        said += f"p = {apart.p_value:.2g}."
        others = release.estimates(answer)[:-1]
        if len(release.answers) == 1:
            said += "".join(
                f" With {name.lower()} {estimated(other)} {ends(other.interval)}." for name, other in others[-1:]
            )
        lines.append(said)
    if answer.silent and answer.state != "withheld":
        lines.append(f"[yellow]No answer at {escape(', '.join(answer.silent))}: {NO_PART}.[/yellow]")
    return lines


def _sites(release: PooledRelease, answer: PooledAnswer) -> list[str]:
    """Return a line for each site: its answer, its weight, and the answer without it."""
    lines, without = [], {one.site: one for one in answer.leave_one_out}
    for part in answer.sites:
        if part.estimate is None or part.interval is None:
            continue
        shown = within(part.estimate, part.interval.lower, part.interval.upper)
        said = f"- {escape(part.site)}: {shown} {ends(part.interval)}, weight {part.weight(release.model):.0%}"
        if (rest := without.get(part.site)) is not None:
            others = rest.fixed if release.model == "fixed" or rest.random is None else rest.random
            said += f"; without it {estimated(others)}"
        lines.append(said)
    return lines


def series_lines(series: Series, room: int) -> list[str]:
    """Return the panel of a series, without its cost: one line a question."""
    series = _labelled(series)
    rows, count = series.answers, len({block for run in series.runs for block in run.blocks})
    head = f"{series.study}: series of {count} blocks of {series.dataset}, by {series.estimator}"
    ends_with = adjusted_by_answer([row.confounding for row in rows])
    lines_each = 1 if len(rows) > 1 else 4
    shown = rows[: max(_rows_in(room, ends_with) // lines_each, 1)]
    more = len(rows) - len(shown)
    rest = f"; {counted(more, 'more question')} on the page" if more else ""
    interval = "interval" if len(rows) == 1 else "intervals"
    level = confidence_level(series.confidence)
    lines = [escape(head), f"{_among(series.specification)}{level} {interval}, all blocks together{rest}:"]
    units = _units_in(series)
    for name, row in zip(_names(shown, rows), shown, strict=True):
        lines.append(f"{name}  {_over_blocks(row, units.get(row.outcome))}")
    if lines_each > 1:
        lines += _blocks(rows[0])
    lines += ends_with
    return lines + limits(series.not_covered, room - len(lines), _not_in(len(rows)))


def _over_blocks(row: SeriesAnswer, unit: str | None) -> str:
    """Return an answer over all blocks, how it drifts, and in how many blocks there is none."""
    if row.fixed is None or row.drift is None:
        return "[yellow]fewer than two blocks answered[/yellow]"
    of = escape(f" {unit}") if unit else ""
    drift = f"  drift {row.drift.per_block:+.3g} a block (p = {row.drift.p_value:.2g})"
    told = f"  {len(row.blocks) - len(row.silent)} of {len(row.blocks)} blocks" if row.silent else ""
    return f"[bold]{estimated(row.fixed)}{of}[/bold]  {ends(row.fixed.interval)}{drift}{told}"


def _labelled(table: Table) -> Table:
    """Return a table in which a code stands with the name of its column."""
    from causalveil.tasks.report.table import labelled

    return labelled(table)


def _units_in(release: EffectTable) -> dict[str, str]:
    from causalveil.tasks.report.table import units_in

    return units_in(release)


def _blocks(row: SeriesAnswer) -> list[str]:
    """Return how far apart the blocks of a single question are, and which have no answer."""
    apart, newest, lines = row.heterogeneity, row.newest, list[str]()
    if apart is not None and newest is not None:
        lines = [
            f"Between blocks: Q = {apart.q:.3g} on {freedom(apart.degrees)}, p = {apart.p_value:.2g}.",
            f"The newest block, {escape(newest.blocks[-1])}, minus the others: {newest.difference:+.3g}, "
            f"standard error {newest.standard_error:.2g}, p = {newest.p_value:.2g}.",
        ]
    if row.silent:
        more = f" and {len(row.silent) - SILENT} more" if len(row.silent) > SILENT else ""
        lines.append(f"[yellow]No answer in {escape(', '.join(row.silent[:SILENT]))}{more}.[/yellow]")
    return lines


def _rows_in(room: int, ends_with: Sequence[str]) -> int:
    """Return how many answers fit: the first limit takes two lines, and two stand above the answers."""
    return max(room - len(ends_with) - 4, 1)


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """Answers over all units first, primary ones before others."""
    return sorted(rows, key=lambda one: (not is_whole(one.group), ROLES.index(one.role)))


def _key(release: EffectTable, answers: int, more: int, *, hidden: bool = False) -> str:
    """Return the line above the answers: what their numbers are, of whom, and what else the report has.

    ``hidden``: whether ratios stand in the report alone.
    """
    level, of = confidence_level(release.confidence), _among(release.specification)
    from_ = _origin(release)
    if answers == 1:
        return f"{of}{level} interval{'; ratios in the report' if hidden else ''}:"
    rest = [*([counted(more, "more answer")] if more else []), *(["ratios"] if hidden else [])]
    said = f"; {' and '.join(rest)} in the report" if rest else ""
    together = ", in brackets those that hold all together" if any(one.simultaneous for one in release.answers) else ""
    return f"{of}{level} intervals{from_}{together}{said}:"


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


def _numbers(answer: Answer, unit: str) -> str:
    if answer.estimate is None or answer.interval is None:
        return f"[yellow]{_silent(answer)}[/yellow]"
    if answer.state == "unresolved":
        return "[yellow]the noise is too large: the interval is the whole range[/yellow]"
    of = escape(f" {unit}") if unit else ""
    shown = within(answer.estimate, answer.interval.lower, answer.interval.upper)
    text = f"[bold]{shown}{of}[/bold]  {span_of(answer.interval)}"
    silent, parts = getattr(answer, "silent", ()), getattr(answer, "parts", ())
    told = f"  {len(parts) - len(silent)} of {len(parts)} sites" if silent else ""
    return text + _together(answer.simultaneous) + _further(answer) + told


def _silent(answer: Answer) -> str:
    """Return why an answer has no numbers."""
    return "withheld: a gate failed" if answer.state == "withheld" else "fewer than two sites answered"


def _together(all_: Limits | None) -> str:
    """Return the interval that holds with all others, in brackets; nothing where there are none."""
    return "" if all_ is None else f"  ({span_of(all_)})"


def _further(answer: Answer) -> str:
    """Return the calibrated interval, if any, and that a gate failed."""
    calibrated = answer.calibrated
    said = "" if calibrated is None else f"  calibrated {span_of(calibrated)}"
    return said + ("  [yellow]marked: a gate failed[/yellow]" if answer.state == "marked" else "")
