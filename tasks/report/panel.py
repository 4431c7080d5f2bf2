"""Write the panel of a release of any kind, for a terminal and as plain text.

Panels of runs, of several sites, of series and of causal directions share sentences on limits, adjustment and cost.
Lines are in the markup of ``rich``; names from a study are escaped. ``str`` of a release is its panel as plain text.
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
    from causalveil.schemas.answers import Answer, GateResult, LogRankTest
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


# The most lines of a panel, and its most limits, in order of importance; the report has the rest.
LINES = 12
LIMITS = 4


def limits(not_covered: Sequence[Limit], room: int, head: str = "The interval does not cover") -> list[str]:
    """Return the first limits of a release, and the number of further ones in the report."""
    sentences = [limit_left.sentence for limit_left in not_covered]
    shown = max(min(LIMITS, room - 1, len(sentences)), 1)
    if not sentences:
        return []
    more = len(sentences) - shown
    rest = f" ({more} more in the report)" if more > 0 else ""
    return [f"{head}{rest}:", *(f"- {escape(sentence)}" for sentence in sentences[:shown])]


def estimate_line(estimate: float, interval: Interval, unit: str | None) -> str:
    """Return an estimate with its unit of measure and its interval."""
    measured_in = escape(f" {unit}") if unit else ""
    level = confidence_level(interval.confidence)
    shown = within(estimate, interval.lower, interval.upper)
    return f"[bold]{shown}{measured_in}[/bold]   {level} interval [bold]{ends(interval)}[/bold]"


def ends(interval: Spanned) -> str:
    """Return the ends of an interval in square brackets."""
    low, high = (within(end, interval.lower, interval.upper) for end in (interval.lower, interval.upper))
    return escape(f"[{low}, ") + f"{high}]"


def estimated(answer: Estimated) -> str:
    """Return an estimate with the decimals that its interval bears."""
    return within(answer.estimate, answer.interval.lower, answer.interval.upper)


def span_of(interval: Spanned) -> str:
    """Return an interval in words, with the decimals that it bears."""
    return " to ".join(within(end, interval.lower, interval.upper) for end in (interval.lower, interval.upper))


def adjusted(statement: ConfoundingStatement | None) -> list[str]:
    """Return the sentences on confounding, in yellow where adjustment is not complete."""
    from causalveil.schemas.confounding import AdjustmentState

    if statement is None:
        return []
    whole = statement.state in (AdjustmentState.adjusted, AdjustmentState.randomised) and not statement.left_out
    sentences = [escape(sentence) for sentence in statement.sentences if sentence != statement.of_curves]
    return sentences if whole else [f"[yellow]{sentence}[/yellow]" for sentence in sentences]


def _of_curves(release: EffectTable, lines: int, room: int) -> list[str]:
    """Return the sentence on non-linear confounding of a single answer, if there is room."""
    statement = release.answers[0].confounding
    alone = len(release.answers) == 1 and statement is not None and lines + 3 <= room
    return [escape(statement.of_curves)] if alone and statement and statement.of_curves else []


def adjusted_by_answer(stated: Sequence[ConfoundingStatement | None]) -> list[str]:
    """Return the sentences on confounding: of the best and the worst answer where they differ."""
    from causalveil.schemas.confounding import AdjustmentState

    statements = list(dict.fromkeys(statement for statement in stated if statement is not None))
    if not statements:
        return []
    order = list(AdjustmentState)
    statements.sort(key=lambda statement: (order.index(statement.state), -(statement.share or 0.0)))
    if statements[0].done == statements[-1].done:
        return [escape(statements[0].done)]
    if all(
        statement.state is AdjustmentState.adjusted and statement.share is not None and not statement.left_out
        for statement in statements
    ):
        # All are nearly complete: the largest share that is left is stated.
        return [f"{escape(statements[-1].done.removesuffix('.'))}, or less."]
    best, worst = escape(statements[0].sentence), escape(statements[-1].sentence)
    return [f"Best adjusted answer: {best}.", f"[yellow]Worst: {worst}.[/yellow]"]


def runs_left(fits: int) -> str:
    """Return the number of further runs like this one that a budget allows."""
    if fits == 0:
        return "too little for another such run"
    return f"enough for {fits:,} more such run{'' if fits == 1 else 's'}"


def budget_left(outlook: BudgetOutlook, owner: str) -> str:
    """Return the share of a budget that is left, and the number of runs that it allows."""
    return f"{share_left(outlook)} of the budget of {escape(owner)} is left: {runs_left(outlook.fits)}."


def share_left(outlook: BudgetOutlook) -> str:
    """Return the share that is left; only 1 reads as 100.0%, and only 0 as 0.0%."""
    text = f"{outlook.share_left:.1%}"
    if text == "100.0%" and outlook.share_left < 1:
        return "More than 99.9%"
    return "Less than 0.1%" if text == "0.0%" and outlook.share_left > 0 else text


def head_of(release: Release) -> str:
    """Return the first line: a missing guarantee, study, question, estimator, units."""
    question = getattr(release, "estimand", release.kind)
    loud = "" if release.headline is None else f"[bold red]{escape(release.headline)}[/bold red] "
    question_asked = (
        "causal direction" if question == release.estimator else f"{question} by {release.estimator.replace('_', ' ')}"
    )
    named = escape(f"{release.study}: {question_asked}, {release.units:,} units of {release.dataset}")
    return f"{loud}{named}"


def direction_lines(release: DirectionRelease, room: int) -> list[str]:
    """Return the panel of a causal direction without its cost."""
    x, y = escape(release.pair.x.name), escape(release.pair.y.name)
    names = {"x_to_y": f"{x} → {y}", "y_to_x": f"{y} → {x}"}
    verdict = release.verdict
    sentence = "The noise decides nothing: no score answered, or they cancel."
    if verdict.favours:
        weight = f"weight {abs(verdict.weight):.2f} from 0 (noise decides) to 1 (it does not)"
        sentence = f"[bold]{names[verdict.favours]}[/bold]   {weight}"
    lines = [head_of(release), sentence]
    for score in release.scores:
        name = SCORES.get(score.score, score.score)
        if score.margin is None or score.order_kept is None:
            lines.append(f"{name}: no answer")
            continue
        favoured = names[score.favours] if score.favours else "neither"
        order_kept = f"{score.order_kept:.1%}" if score.order_kept < SURE else "above 99.9%"
        lines.append(f"{name}: {favoured}, margin {abs(score.margin):.4g} (order kept by the noise: {order_kept})")
    return lines + limits(DIRECTION_LEFT, room - len(lines), "The scores take no account of")


# A probability above this rounds to 1.
SURE = 0.9995
# Sources of error that no score of a direction accounts for.
DIRECTION_LEFT = (limit(Code.other_samples), limit(Code.common_cause), limit(Code.not_additive))


Table = TypeVar("Table", "EffectRelease", "PooledRelease", "Series")
Row = TypeVar("Row", bound="Answer")
ROLES = ("primary", "secondary", "placebo", "negative_control")
# Why a site has no part in an answer.
NO_PART = "noise hides it, a gate withholds it, or its measures end earlier"
# The most blocks without an answer that are named; a line has at most 25 words.
SILENT = 5


def effect_lines(release: EffectRelease, room: int) -> list[str]:
    """Return the panel of effects without its cost: answers over all units come first."""
    release, lines = _labelled(release), [head_of(release)]
    ends_with = _about(release)
    lines += [*_answers(release, room, ends_with), *ends_with]
    lines += _of_curves(release, len(lines), room)
    return lines + limits(release.not_covered, room - len(lines), _not_in(len(release.answers)))


def _answers(release: EffectTable, room: int, ends_with: Sequence[str]) -> list[str]:
    """Return the answers: a single one in words, several as a line each as far as they fit."""
    # Answers over all units come first, primary ones before others.
    rows = sorted(release.answers, key=lambda answer: (not is_whole(answer.group), ROLES.index(answer.role)))
    units = _units_in(release)
    if len(rows) == 1:
        return _only(release, units.get(rows[0].outcome))
    contrasts = _contrasts(release)
    fit = _rows_in(room - len(contrasts), ends_with)
    shown = rows[:fit]
    # Ratios are shown if those of all answers fit.
    has_ratios, whole = any(answer.measures for answer in rows), sum(1 + len(answer.measures) for answer in rows) <= fit
    lines = [_key(release, len(rows), len(rows) - len(shown), hidden=has_ratios and not whole)]
    for name, answer in zip(_names(shown, rows), shown, strict=True):
        lines.append(f"{name}  {_numbers(answer, units.get(answer.outcome, ''))}")
        lines += [f"  {answer.words}" for answer in answer.measures if whole]
    return lines + contrasts


# The most contrasts of a panel; the report has all.
SHOWN_CONTRASTS = 3


def _contrasts(release: EffectTable) -> list[str]:
    """Return the first contrasts of rows, a line each."""
    contrasts = list(getattr(release, "contrasts", ()))
    lines = []
    for contrast in contrasts[:SHOWN_CONTRASTS]:
        if contrast.interval is None:
            lines.append(f"[yellow]{escape(contrast.name)}  withheld: a gate failed[/yellow]")
            continue
        estimate = "" if contrast.estimate is None else f"[bold]{contrast.estimate:,.4g}[/bold]  "
        estimate = "hidden by noise  " if str(contrast.state) == "unresolved" else estimate
        lines.append(f"{escape(contrast.name)}  {estimate}{contrast.interval.words}")
    return lines


def _only(release: EffectTable, unit: str | None) -> list[str]:
    """Return a single answer: its units and measure, its interval, and its ratios."""
    row, interval = release.answers[0], release.interval
    about = f"{_among(release.specification)}{escape(row.outcome) if row.measure else ''}{_origin(release)}"
    lines = [f"{about.removesuffix(': ')}:"] if about else []
    if row.estimate is None or interval is None:
        return [*lines, f"[yellow]{_silent(row)}.[/yellow]"]
    ratios = [f"  {measure.words}" for measure in row.measures]
    return [*lines, estimate_line(row.estimate, interval, unit or _share(release)) + _further(row), *ratios]


def _share(release: EffectTable) -> str | None:
    """Return the value of a binary outcome whose share the effect is on; None if it is "yes"."""
    codes = (one_outcome(release.specification) or {}).get("codes") or {}
    return (
        f"in the share with '{codes['yes']}'" if isinstance(codes.get("yes"), str) and codes["yes"] != "yes" else None
    )


def _origin(release: EffectTable) -> str:
    """Return the origin of times, in brackets; empty for other outcomes."""
    from causalveil.schemas.specification import outcomes_of

    first = outcomes_of(release.specification)[0]
    return f" (origin: {escape(first['origin'])})" if "origin" in first else ""


def _about(release: EffectRelease) -> list[str]:
    """Return sentences on confounding, balance, attenuation, gates, clusters and calibration."""
    from causalveil.tasks.report.robustness import robustness_line
    from causalveil.tasks.report.table import part_seen

    first, details = release.answers[0], release.details
    alone = len(release.answers) == 1
    lines = adjusted(first.confounding) if alone else adjusted_by_answer([row.confounding for row in release.answers])
    if missed := robustness_line(release):
        lines.append(missed)
    if details.get("unlike"):
        lines.append(f"[yellow]{escape(out_of_balance(str(details['unlike'])))}[/yellow]")
    elif alone and first.state == "unresolved":
        lines.append("[yellow]The noise was too large: the interval is the whole declared range.[/yellow]")
    if details.get("attenuation_corrected") is False:
        factor = percent(float(details["attenuation_factor"]))
        sentence = f"Attenuated: noise on treatments leaves about {factor} of the effect in the estimate."
        lines.append(f"[yellow]{sentence}[/yellow]")
    lines += [*_of_times(release), *_gates(release.gates)]
    if release.clusters is not None:
        lines += [escape(sentence) for sentence in release.clusters.sentences[:1]]
    if seen := part_seen(release):
        lines.append(f"[yellow]{escape(seen)}[/yellow]")
    if release.calibration is not None:
        lines.append(escape(release.calibration.statement))
    return lines


def out_of_balance(names: str) -> str:
    """Return that arms of a trial differ in columns, named in a comma-separated list."""
    first, *others = names.split(", ")
    more = f" and {len(others)} more" if others else ""
    return f"Out of balance: arms differ in {first}{more} by more than randomisation and noise explain."


def _of_times(release: EffectRelease) -> list[str]:
    """Return the test of a single pair of curves, and how far they are observed."""
    if len(release.curves) != 1:
        return []
    curves, lines = release.curves[0].curves, list[str]()
    unit = escape(f" {curves.unit}") if curves.unit else ""
    ended = release.answers[0].restricted_to
    if ended is not None:
        sentence = f"Too few are followed to {curves.horizon:g}{unit}, so measures end with {ended:g}."
        lines.append(f"[yellow]{sentence}[/yellow]")
    tests = [row.log_rank for row in release.answers if row.log_rank is not None]
    if len(tests) == 1:
        # The test is unadjusted: beside an adjusted difference it may point the other way.
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
    sentence, ratio = f"{name} = {test.p_value:.3g}", test.hazard_ratio
    if ratio is not None:
        shown = [within(number, ratio.lower, ratio.upper) for number in (ratio.estimate, ratio.lower, ratio.upper)]
        sentence += f", hazard ratio {shown[0]} {escape(f'[{shown[1]}, {shown[2]}]')}"
    return f"{sentence}."


def pooled_lines(release: PooledRelease, room: int) -> list[str]:
    """Return the panel of effects over several sites, without its cost."""
    release = _labelled(release)
    first, alone = release.answers[0], len(release.answers) == 1
    ends_with = (
        adjusted(first.confounding) if alone else adjusted_by_answer([row.confounding for row in release.answers])
    )
    if first.log_rank is not None:
        ends_with.append(_test("Within sites: log-rank p", first.log_rank))
    ends_with += [*_between(release, first), *_gates(release.gates), *_site_gates(release.site_gates)]
    if release.calibration is not None:
        ends_with.append(escape(release.calibration.statement))
    lines = [head_of_sites(release), *_answers(release, room, ends_with), *ends_with]
    # Sites are named if all of them have room beside the first limit.
    lines += _of_curves(release, len(lines), room)
    if alone and len(lines) + len(first.sites) + 2 <= room:
        lines += _sites(release, first)
    return lines + limits(release.not_covered, room - len(lines), _not_in(len(release.answers)))


def _between(release: PooledRelease, answer: PooledAnswer) -> list[str]:
    """Return the first answer's heterogeneity, the other model's estimate, and silent sites."""
    apart, lines = answer.heterogeneity, list[str]()
    if apart is not None:
        scope = "Between sites" if len(release.answers) == 1 else "Between sites, first answer"
        sentence = f"{scope}: tau2 {apart.tau2:.3g}, I2 {apart.i2:.0%}, Q {apart.q:.3g} on {freedom(apart.degrees)}, "
        sentence += f"p = {apart.p_value:.2g}."
        others = release.estimates(answer)[:-1]
        if len(release.answers) == 1:
            sentence += "".join(
                f" With {name.lower()} {estimated(other_model)} {ends(other_model.interval)}."
                for name, other_model in others[-1:]
            )
        lines.append(sentence)
    if answer.silent and answer.state != "withheld":
        lines.append(f"[yellow]No answer at {escape(', '.join(answer.silent))}: {NO_PART}.[/yellow]")
    return lines


def _sites(release: PooledRelease, answer: PooledAnswer) -> list[str]:
    """Return a line for each site: its answer, its weight, and the answer without it."""
    lines, without = [], {left_out.site: left_out for left_out in answer.leave_one_out}
    for part in answer.sites:
        if part.estimate is None or part.interval is None:
            continue
        shown = within(part.estimate, part.interval.lower, part.interval.upper)
        sentence = f"- {escape(part.site)}: {shown} {ends(part.interval)}, weight {part.weight(release.model):.0%}"
        if (rest := without.get(part.site)) is not None:
            others = rest.fixed if release.model == "fixed" or rest.random is None else rest.random
            sentence += f"; without it {estimated(others)}"
        lines.append(sentence)
    return lines


def series_lines(series: Series, room: int) -> list[str]:
    """Return the panel of a series, without its cost: a line for each question."""
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
    """Return an answer over all blocks, its drift, and the number of blocks that answered."""
    if row.fixed is None or row.drift is None:
        return "[yellow]fewer than two blocks answered[/yellow]"
    measured_in = escape(f" {unit}") if unit else ""
    drift = f"  drift {row.drift.per_block:+.3g} a block (p = {row.drift.p_value:.2g})"
    answered = f"  {len(row.blocks) - len(row.silent)} of {len(row.blocks)} blocks" if row.silent else ""
    return f"[bold]{estimated(row.fixed)}{measured_in}[/bold]  {ends(row.fixed.interval)}{drift}{answered}"


def _labelled(table: Table) -> Table:
    """Return a table whose codes stand with the names of their columns."""
    from causalveil.tasks.report.table import labelled

    return labelled(table)


def _units_in(release: EffectTable) -> dict[str, str]:
    from causalveil.tasks.report.table import units_in

    return units_in(release)


def _blocks(row: SeriesAnswer) -> list[str]:
    """Return the heterogeneity of the blocks of a single question, and those without an answer."""
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
    """Return the number of answers that fit: two lines stand above them, and a limit takes two."""
    return max(room - len(ends_with) - 4, 1)


def _key(release: EffectTable, answers: int, more: int, *, hidden: bool = False) -> str:
    """Return the line above the answers: their units, their intervals, and what the report adds.

    ``hidden``: whether ratios stand in the report alone.
    """
    level, among = confidence_level(release.confidence), _among(release.specification)
    from_ = _origin(release)
    if answers == 1:
        return f"{among}{level} interval{'; ratios in the report' if hidden else ''}:"
    rest = [*([counted(more, "more answer")] if more else []), *(["ratios"] if hidden else [])]
    in_report = f"; {' and '.join(rest)} in the report" if rest else ""
    together = (
        ", in brackets those that hold all together" if any(answer.simultaneous for answer in release.answers) else ""
    )
    return f"{among}{level} intervals{from_}{together}{in_report}:"


def _among(specification: Mapping[str, object]) -> str:
    """Return the condition of eligible units, as the beginning of a line; empty for all units."""
    from causalveil.schemas.where import where_words

    among = where_words(specification)
    return f"Among units where {escape(among)}: " if among else ""


def _not_in(answers: int) -> str:
    """Return the head of the limits."""
    return "The interval does not cover" if answers == 1 else "The intervals do not cover"


def _gates(gates: Sequence[GateResult]) -> list[str]:
    """Return the number of gates that did not pass, and the place of the first."""
    lines = []
    for verdict, text in (("failed", "failed"), ("cannot_tell", "cannot be told at this noise")):
        if of_verdict := [gate for gate in gates if gate.verdict == verdict]:
            first, many = of_verdict[0], f"{len(of_verdict)} of {counted(len(gates), 'gate')}"
            place = f"{first.gate} in {escape(in_place(first.group, first.arm))}"
            value = f"{first.value:.3g} ± {first.noise_error:.2g}, bound {first.bound:g}"
            lines.append(f"[yellow]{many} {text}; {place}: {value}.[/yellow]")
    passed = "The gate passed." if len(gates) == 1 else f"All {len(gates)} gates passed."
    return lines or ([passed] if gates else [])


def _site_gates(gates: Sequence[SiteGate]) -> list[str]:
    """Return the number of gates that failed at the sites, and the place of the first."""
    failed = [gate for gate in gates if gate.verdict == "failed"]
    if not failed:
        return []
    place = escape(in_place(failed[0].group, failed[0].arm))
    first = f"{failed[0].gate} at {escape(failed[0].site)} in {place}"
    return [f"[yellow]{len(failed)} of {counted(len(gates), 'gate')} at the sites failed; {first}.[/yellow]"]


def _names(shown: Sequence[Answer], rows: Sequence[Answer]) -> list[str]:
    """Return padded names of answers: outcome, and subgroup and arm where there are several."""
    several, grouped = len({answer.arm for answer in rows}) > 1, len({answer.group for answer in rows}) > 1
    names = [
        ", ".join([answer.outcome, *([answer.group] if grouped else []), *([answer.arm] if several else [])])
        + {"negative_control": " (control)", "placebo": " (placebo)"}.get(getattr(answer, "role", ""), "")
        for answer in shown
    ]
    width = max(map(len, names))
    return [f"{escape(name)}{'':<{width - len(name)}}" for name in names]


def _numbers(answer: Answer, unit: str) -> str:
    if answer.estimate is None or answer.interval is None:
        return f"[yellow]{_silent(answer)}[/yellow]"
    if answer.state == "unresolved":
        return "[yellow]the noise is too large: the interval is the whole range[/yellow]"
    measured_in = escape(f" {unit}") if unit else ""
    shown = within(answer.estimate, answer.interval.lower, answer.interval.upper)
    text = f"[bold]{shown}{measured_in}[/bold]  {span_of(answer.interval)}"
    silent, parts = getattr(answer, "silent", ()), getattr(answer, "parts", ())
    answered = f"  {len(parts) - len(silent)} of {len(parts)} sites" if silent else ""
    together = "" if answer.simultaneous is None else f"  ({span_of(answer.simultaneous)})"
    return text + together + _further(answer) + answered


def _silent(answer: Answer) -> str:
    """Return why an answer has no numbers."""
    return "withheld: a gate failed" if answer.state == "withheld" else "fewer than two sites answered"


def _further(answer: Answer) -> str:
    """Return the calibrated interval, if any, and that a gate failed."""
    calibrated = answer.calibrated
    sentence = "" if calibrated is None else f"  calibrated {span_of(calibrated)}"
    return sentence + ("  [yellow]marked: a gate failed[/yellow]" if answer.state == "marked" else "")


def head_of_sites(release: PooledRelease) -> str:
    """Return the first line: study, question, estimator, way of pooling, sites and units."""
    sentence = f"{release.study}: {release.estimand} by {release.estimator}, {release.way}"
    return escape(f"{sentence}, {len(release.sites)} sites, {release.units:,} units (round {release.round})")


def cost_of_sites(release: PooledRelease) -> list[str]:
    """Return the cost at the sites, and what is left of their budgets."""
    from causalveil.schemas.privacy import cost_text

    privacy, sites = release.privacy, release.sites
    where = f"one replaced {escape(privacy.unit)}, level {privacy.level.replace('_', ' ')}"
    spent = f"Differential privacy at each site: {cost_text(privacy)} at most ({where})."
    lines = [f"{spent} No unit is in two sites (declared)."]
    budgeted = [site for site in sites if site.budget is not None]
    if len(budgeted) < len(sites):
        return [*lines, "Pooling cost nothing. Each site's ledger says what is left of its budget."]
    scarce = min(budgeted, key=lambda site: (site.budget.fits, site.budget.share_left) if site.budget else (0, 0.0))
    if scarce.budget is None:
        return lines
    share = share_left(scarce.budget)
    left = f"{share[:1].lower()}{share[1:]} of its budget, {runs_left(scarce.budget.fits)}"
    return [*lines, f"Pooling cost nothing. Least is left at {escape(scarce.site)}: {left}."]


def cost_of_series(series: Series) -> list[str]:
    """Return the cost of each block, and what is left of the newest one's budget."""
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
    """A finished run: its release, and which parts of it were new."""

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
    """Return the panel of a run: answers, limits, cost, and whether it ran before."""
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
    answer_lines = ANSWERS[release.kind](release, LINES - len(paid)) if release.kind in ANSWERS else [head_of(release)]
    return [*answer_lines, *paid]


def cost(release: Release) -> list[str]:
    """Return the cost of a run, and the budget that is left."""
    from causalveil.schemas.privacy import cost_text

    privacy, left = release.privacy, release.budget
    open_half = next(iter(getattr(release, "unbounded_halves", ())), None)
    half = {"train": " of the test half", "test": " of the training half"}.get(str(open_half), "")
    protected = (
        f"outcomes of one {escape(privacy.unit)}"
        if privacy.level == "label"
        else f"one replaced {escape(privacy.unit)}"
    )
    where = f"{protected}{half}, level {str(privacy.level).replace('_', ' ')}"
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
    """Return notes beside the panel: unprotected facts, warnings, the run's own decisions."""
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


# The panel of each kind of release; without an entry only question and cost are shown.
ANSWERS: dict[str, Callable[[Any, int], list[str]]] = {
    "effect": effect_lines,
    "direction": direction_lines,
}
