"""Write the panel of a release of any kind, for a terminal and as plain text.

Panels share sentences on limits, adjustment, cost, and an estimate with its interval. Lines are in the markup of
``rich``, with all that a study names escaped.

The first line of every panel of a run, and the panel of a causal direction.

Panels of answers: of one run, of several sites, and of a series of blocks.

The cost of pooling over sites or over blocks, and the first line of a panel of sites.
Nothing beside what each site or block spent.

The panel of a release of any kind, and the same as plain text: what ``str`` of it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rich.markup import escape

from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.specification import one_outcome
from causalveil.tasks.report.numbers import (
    SCORES,
    confidence_level,
    counted,
    freedom,
    in_place,
    is_whole,
    percent,
    within,
)

if TYPE_CHECKING:
    from causalveil.schemas.answers import Answer, GateResult, Limits, LogRankTest
    from causalveil.schemas.confounding import ConfoundingStatement
    from causalveil.schemas.ledger import BudgetOutlook
    from causalveil.schemas.release import DirectionRelease, EffectRelease, EffectTable, Interval, Release
    from causalveil.schemas.sites.pooled import PooledAnswer, PooledRelease, Published, Series, SeriesAnswer, SiteGate


class Spanned(Protocol):
    """An interval."""

    @property
    def lower(self) -> float:
        """Its lower end."""

    @property
    def upper(self) -> float:
        """Its upper end."""


class Estimated(Protocol):
    """An estimate with its interval."""

    @property
    def estimate(self) -> float:
        """The estimate."""

    @property
    def interval(self) -> Spanned:
        """Its interval."""


# So many lines a panel has, and so many limits at most, in order of importance; the report has the rest.
LINES = 12
LIMITS = 4


def limits(not_covered: Sequence[Limit], room: int, head: str = "The interval does not cover") -> list[str]:
    """Return the first limits of a release, and how many more the report has."""
    sentences = [one.sentence for one in not_covered]
    shown = max(min(LIMITS, room - 1, len(sentences)), 1)
    if not sentences:
        return []
    more = len(sentences) - shown
    rest = f" ({more} more in the report)" if more > 0 else ""
    return [f"{head}{rest}:", *(f"- {escape(sentence)}" for sentence in sentences[:shown])]


def estimate_line(estimate: float, interval: Interval, unit: str | None) -> str:
    """Return an estimate with its unit of measure and its interval."""
    of = escape(f" {unit}") if unit else ""
    level = confidence_level(interval.confidence)
    found = within(estimate, interval.lower, interval.upper)
    return f"[bold]{found}{of}[/bold]   {level} interval [bold]{ends(interval)}[/bold]"


def ends(interval: Spanned) -> str:
    """Return the ends of an interval in square brackets."""
    low, high = (within(end, interval.lower, interval.upper) for end in (interval.lower, interval.upper))
    return escape(f"[{low}, ") + f"{high}]"


def estimated(found: Estimated) -> str:
    """Return an estimate with the decimals that its interval bears."""
    return within(found.estimate, found.interval.lower, found.interval.upper)


def span_of(interval: Spanned) -> str:
    """Return an interval in words, with the decimals that it bears."""
    return " to ".join(within(end, interval.lower, interval.upper) for end in (interval.lower, interval.upper))


def adjusted(found: ConfoundingStatement | None) -> list[str]:
    """Return what was done about confounding, in yellow where it was not all that could be done."""
    from causalveil.schemas.confounding import AdjustmentState

    if found is None:
        return []
    whole = found.state in (AdjustmentState.adjusted, AdjustmentState.randomised) and not found.left_out
    said = [escape(one) for one in found.sentences if one != found.of_curves]
    return said if whole else [f"[yellow]{one}[/yellow]" for one in said]


def _of_curves(release: EffectTable, lines: int, room: int) -> list[str]:
    """Return what curves may do to the only answer, where a limit has room beside it."""
    found = release.answers[0].confounding
    alone = len(release.answers) == 1 and found is not None and lines + 3 <= room
    return [escape(found.of_curves)] if alone and found and found.of_curves else []


def adjusted_by_answer(stated: Sequence[ConfoundingStatement | None]) -> list[str]:
    """Return what was done about confounding, best and worst where answers differ."""
    from causalveil.schemas.confounding import AdjustmentState

    found = list(dict.fromkeys(one for one in stated if one is not None))
    if not found:
        return []
    order = list(AdjustmentState)
    found.sort(key=lambda one: (order.index(one.state), -(one.share or 0.0)))
    if found[0].done == found[-1].done:
        return [escape(found[0].done)]
    if all(one.state is AdjustmentState.adjusted and one.share is not None and not one.left_out for one in found):
        # Each is nearly whole: the largest part that is left speaks for all.
        return [f"{escape(found[-1].done.removesuffix('.'))}, or less."]
    best, worst = escape(found[0].sentence), escape(found[-1].sentence)
    return [f"Best adjusted answer: {best}.", f"[yellow]Worst: {worst}.[/yellow]"]


def runs_left(fits: int) -> str:
    """Return for how many more runs like this one a budget is enough."""
    if fits == 0:
        return "too little for another such run"
    return f"enough for {fits:,} more such run{'' if fits == 1 else 's'}"


def budget_left(outlook: BudgetOutlook, of: str) -> str:
    """Return the share of a budget that is left, and for how many runs it is enough."""
    return f"{share_left(outlook)} of the budget of {escape(of)} is left: {runs_left(outlook.fits)}."


def share_left(outlook: BudgetOutlook) -> str:
    """Return the share that is left; neither what is not all nor what is not nothing reads so."""
    text = f"{outlook.share_left:.1%}"
    if text == "100.0%" and outlook.share_left < 1:
        return "More than 99.9%"
    return "Less than 0.1%" if text == "0.0%" and outlook.share_left > 0 else text


def head_of(release: Release) -> str:
    """Return the first line: study, question, estimator, units; before it a missing guarantee."""
    question = getattr(release, "estimand", release.kind)
    loud = "" if release.headline is None else f"[bold red]{escape(release.headline)}[/bold red] "
    asked = (
        "causal direction" if question == release.estimator else f"{question} by {release.estimator.replace('_', ' ')}"
    )
    named = escape(f"{release.study}: {asked}, {release.units:,} units of {release.dataset}")
    return f"{loud}{named}"


def direction_lines(release: DirectionRelease, room: int) -> list[str]:
    """Return the panel of a causal direction without its cost."""
    x, y = escape(release.pair.x.name), escape(release.pair.y.name)
    names = {"x_to_y": f"{x} → {y}", "y_to_x": f"{y} → {x}"}
    verdict = release.verdict
    said = "The noise decides nothing: no score answered, or they cancel."
    if verdict.favours:
        weight = f"weight {abs(verdict.weight):.2f} from 0 (noise decides) to 1 (it does not)"
        said = f"[bold]{names[verdict.favours]}[/bold]   {weight}"
    lines = [head_of(release), said]
    for score in release.scores:
        name = SCORES.get(score.score, score.score)
        if score.margin is None or score.order_kept is None:
            lines.append(f"{name}: no answer")
            continue
        favoured = names[score.favours] if score.favours else "neither"
        kept = f"{score.order_kept:.1%}" if score.order_kept < SURE else "above 99.9%"
        lines.append(f"{name}: {favoured}, margin {abs(score.margin):.4g} (order kept by the noise: {kept})")
    return lines + limits(DIRECTION_LEFT, room - len(lines), "The scores take no account of")


# A probability that would be rounded to 1.
SURE = 0.9995
# What no score of a direction speaks of.
DIRECTION_LEFT = (limit(Code.other_samples), limit(Code.common_cause), limit(Code.not_additive))


Table = TypeVar("Table", "EffectRelease", "PooledRelease", "Series")
Row = TypeVar("Row", bound="Answer")
ROLES = ("primary", "secondary", "placebo", "negative_control")
# Why a site has no part in an answer.
NO_PART = "noise hides it, a gate withholds it, or its measures end earlier"
# So many blocks without an answer are named; a line has 25 words at most.
SILENT = 5


def effect_lines(release: EffectRelease, room: int) -> list[str]:
    """Return the panel of effects without its cost: answers over all units come first."""
    release, lines = _labelled(release), [head_of(release)]
    ends_with = _about(release)
    lines += [*_answers(release, room, ends_with), *ends_with]
    lines += _of_curves(release, len(lines), room)
    return lines + limits(release.not_covered, room - len(lines), _not_in(len(release.answers)))


def _answers(release: EffectTable, room: int, ends_with: Sequence[str]) -> list[str]:
    """Return the answers: the only one in words, of several one a line as far as they fit."""
    rows, of = _in_order(release.answers), _units_in(release)
    if len(rows) == 1:
        return _only(release, of.get(rows[0].outcome))
    contrasts = _contrasts(release)
    fit = _rows_in(room - len(contrasts), ends_with)
    shown = rows[:fit]
    # Ratios are told if those of all answers fit.
    asked, whole = any(one.measures for one in rows), sum(1 + len(one.measures) for one in rows) <= fit
    lines = [_key(release, len(rows), len(rows) - len(shown), hidden=asked and not whole)]
    for name, one in zip(_names(shown, rows), shown, strict=True):
        lines.append(f"{name}  {_numbers(one, of.get(one.outcome, ''))}")
        lines += [f"  {one.words}" for one in one.measures if whole]
    return lines + contrasts


# Contrasts that a panel has beside the answers; the report has all.
SHOWN_CONTRASTS = 3


def _contrasts(release: EffectTable) -> list[str]:
    """Return the first contrasts of rows, a line each."""
    found = list(getattr(release, "contrasts", ()))
    lines = []
    for one in found[:SHOWN_CONTRASTS]:
        if one.interval is None:
            lines.append(f"[yellow]{escape(one.name)}  withheld: a gate failed[/yellow]")
            continue
        estimate = "" if one.estimate is None else f"[bold]{one.estimate:,.4g}[/bold]  "
        estimate = "hidden by noise  " if str(one.state) == "unresolved" else estimate
        lines.append(f"{escape(one.name)}  {estimate}{one.interval.words}")
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
    from causalveil.tasks.report.robustness import robustness_line
    from causalveil.tasks.report.table import part_seen

    first, details = release.answers[0], release.details
    one = len(release.answers) == 1
    lines = adjusted(first.confounding) if one else adjusted_by_answer([row.confounding for row in release.answers])
    if missed := robustness_line(release):
        lines.append(missed)
    if details.get("unlike"):
        lines.append(f"[yellow]{escape(out_of_balance(str(details['unlike'])))}[/yellow]")
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


def out_of_balance(names: str) -> str:
    """Return that arms of a trial differ in columns, by names with commas between them."""
    first, *others = names.split(", ")
    more = f" and {len(others)} more" if others else ""
    return f"Out of balance: arms differ in {first}{more} by more than randomisation and noise explain."


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
    lines += _of_curves(release, len(lines), room)
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


def _names(shown: Sequence[Answer], rows: Sequence[Answer]) -> list[str]:
    """Return what answers are of, padded: outcome, and subgroup and arm where the table has several."""
    several, grouped = len({one.arm for one in rows}) > 1, len({one.group for one in rows}) > 1
    names = [
        ", ".join([one.outcome, *([one.group] if grouped else []), *([one.arm] if several else [])])
        + {"negative_control": " (control)", "placebo": " (placebo)"}.get(getattr(one, "role", ""), "")
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


def head_of_sites(release: PooledRelease) -> str:
    """Return the first line: study, question, estimator, way of pooling, sites and units."""
    asked = f"{release.study}: {release.estimand} by {release.estimator}, {release.way}"
    return escape(f"{asked}, {len(release.sites)} sites, {release.units:,} units (round {release.round})")


def cost_of_sites(release: PooledRelease) -> list[str]:
    """Return what the sites spent, and what is left of their budgets."""
    from causalveil.schemas.privacy import cost_text

    privacy, sites = release.privacy, release.sites
    where = f"one replaced {escape(privacy.unit)}, level {privacy.level.replace('_', ' ')}"
    spent = f"Differential privacy at each site: {cost_text(privacy)} at most ({where})."
    lines = [f"{spent} No unit is in two sites (declared)."]
    known = [site for site in sites if site.budget is not None]
    if len(known) < len(sites):
        return [*lines, "Pooling cost nothing. Each site's ledger says what is left of its budget."]
    scarce = min(known, key=lambda site: (site.budget.fits, site.budget.share_left) if site.budget else (0, 0.0))
    if scarce.budget is None:
        return lines
    share = share_left(scarce.budget)
    left = f"{share[:1].lower()}{share[1:]} of its budget, {runs_left(scarce.budget.fits)}"
    return [*lines, f"Pooling cost nothing. Least is left at {escape(scarce.site)}: {left}."]


def cost_of_series(series: Series) -> list[str]:
    """Return what each block spent, and what is left of the newest one's budget."""
    from causalveil.schemas.privacy import cost_text

    privacy, newest = series.privacy, series.runs[-1]
    where = f"one replaced {escape(privacy.unit)}, level {privacy.level.replace('_', ' ')}"
    lines = [f"Differential privacy of each block: {cost_text(privacy)} at most ({where}). The series cost nothing."]
    if series.unreleased:
        lines.insert(0, f"[yellow]{escape(series.unreleased_words)}[/yellow]")
    if newest.budget is not None:
        lines.append(budget_left(newest.budget, f"block {newest.blocks[-1]}"))
    return lines


class Finished(Protocol):
    """A run that is finished: its release, and what of it was new."""

    @property
    def release(self) -> Release:
        """The release."""

    @property
    def returned(self) -> int | None:
        """Charges that the ledger held already; None: no stage ran."""

    @property
    def resumed(self) -> bool:
        """True if the ledger knew the run before."""

    @property
    def granted(self) -> bool:
        """True if the data granted themselves at this run."""

    @property
    def admitted(self) -> bool:
        """True if the data were held to their contract at this run."""


def lines_of(result: Finished) -> list[str]:
    """Return the panel of a run: its answer, limits, cost, and whether it ran before."""
    return _of_run(result.release, [*cost(result.release), *_begun(result)])


def panel_of(document: Published | Series) -> list[str]:
    """Return the panel of a release of any kind, pooled or not, or of a series."""
    from causalveil.schemas.release import Release
    from causalveil.schemas.sites.pooled import PooledRelease

    if isinstance(document, Release):
        return _of_run(document, cost(document))
    if isinstance(document, PooledRelease):
        paid = cost_of_sites(document)
        return [*pooled_lines(document, LINES - len(paid)), *paid]
    paid = cost_of_series(document)
    return [*series_lines(document, LINES - len(paid)), *paid]


def panel_text(document: Published | Series) -> str:
    """Return the panel as plain text."""
    return plain_text(panel_of(document))


def plain_text(lines: list[str]) -> str:
    """Return lines without their markup."""
    from rich.text import Text

    return "\n".join(Text.from_markup(line).plain for line in lines)


def _of_run(release: Release, paid: list[str]) -> list[str]:
    found = ANSWERS[release.kind](release, LINES - len(paid)) if release.kind in ANSWERS else [head_of(release)]
    return [*found, *paid]


def cost(release: Release) -> list[str]:
    """Return what a run cost, and what is left."""
    from causalveil.schemas.privacy import cost_text

    privacy, left = release.privacy, release.budget
    open_half = next(iter(getattr(release, "unbounded_halves", ())), None)
    half = {"train": " of the test half", "test": " of the training half"}.get(str(open_half), "")
    what = (
        f"outcomes of one {escape(privacy.unit)}"
        if privacy.level == "label"
        else f"one replaced {escape(privacy.unit)}"
    )
    where = f"{what}{half}, level {str(privacy.level).replace('_', ' ')}"
    promise = "" if release.headline is None else "; the guarantee is asymptotic"
    lines = [f"Differential privacy: {cost_text(privacy)} ({where}){promise}."]
    return lines if left is None else [*lines, budget_left(left, release.dataset)]


def _begun(result: Finished) -> list[str]:
    """Return whether a run is a repeated or a resumed one."""
    total = len(result.release.privacy.charges)
    if result.returned is None:
        return ["This run was finished before: its release came from the ledger; nothing ran or was charged."]
    if not result.resumed:
        return []
    return [
        f"This run was begun before: {result.returned} of its {total} charges were in the ledger, "
        f"{total - result.returned} were drawn and charged now."
    ]


def notes(result: Finished) -> list[str]:
    """Return what else a person must know now.

    That is what is not protected, warnings, and what the run did by itself.
    """
    privacy, warned = result.release.privacy, len(result.release.warnings)
    lines = [f"[yellow]Not protected: {escape(sentence)}[/yellow]" for sentence in privacy.unprotected]
    if warned:
        things = "one thing" if warned == 1 else f"{warned} things"
        lines.append(f"[yellow]`causalveil plan` warns of {things} about this study: see the report.[/yellow]")
    if privacy.blocks.key is not None:
        lines.append(escape(privacy.blocks.statement))
    if result.admitted:
        lines.append("All rows of this public or synthetic dataset were held to its contract.")
    if result.granted:
        lines.append("First run on this public or synthetic dataset: the cap of its contract was granted.")
    return lines


# How each kind of release reads within so many lines; without an entry only its question and cost are shown.
ANSWERS: dict[str, Callable[[Any, int], list[str]]] = {
    "effect": effect_lines,
    "direction": direction_lines,
}
