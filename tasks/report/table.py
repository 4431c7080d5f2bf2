"""Answers of one site or of several, for their page and as tables.

For the page these are forest plots, Love plots and gates; the tables are answers.csv and answers.parquet,
which other tools read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar, cast

import polars as pl
from pydantic import BaseModel

from causalveil.schemas.answers import Answer, BalanceRow, ContrastAnswer
from causalveil.schemas.declared import PERIOD
from causalveil.schemas.estimators.survival import MEAN_TIME
from causalveil.schemas.limits import capital
from causalveil.schemas.questions import EffectMeasure
from causalveil.schemas.release import EffectRelease, EffectTable
from causalveil.schemas.sites.pooled import CombinedAnswer, CombinedTable, PooledRelease
from causalveil.schemas.specification import level_names, outcomes_of
from causalveil.tasks.machine.arrays import csv_text
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.report.figures import Axis, Line, LovePlot, axis_of, line_of, site_bars
from causalveil.tasks.report.numbers import (
    TWO_SIDES,
    all_of,
    amount,
    arm_label,
    axis_name,
    beside,
    counted,
    figure,
    group_label,
    in_place,
    is_whole,
    span,
    verdict_of,
)

Row = TypeVar("Row", bound=Answer)
Document = TypeVar("Document", bound=BaseModel)
# Fields whose rows are of a subgroup and an arm.
TABLES = ("answers", "balance", "gates", "site_gates", "curves")
ROLES = {
    "primary": "primary outcome",
    "secondary": "secondary outcome",
    "negative_control": "negative control",
    "placebo": "placebo",
}


@dataclass(frozen=True)
class Forest:
    """A figure of one outcome: a line per subgroup and arm, or per site or block.

    ``withheld``: those without numbers.
    """

    outcome: str
    role: str
    label: str
    lines: tuple[Line, ...]
    axis: Axis
    withheld: tuple[str, ...]


def labelled(document: Document) -> Document:
    """Return a table with labels: codes with their columns, times as pages write numbers."""
    if not isinstance(document, EffectTable):
        return document
    specification = document.specification
    labels = {"outcome": outcome_label, "group": group_label, "arm": arm_label, "reference": arm_label}

    def read(row: BaseModel) -> BaseModel:
        labels_shown = {
            key: label(specification, getattr(row, key)) for key, label in labels.items() if hasattr(row, key)
        }
        return row.model_copy(update=labels_shown)

    fields = [name for name in TABLES if hasattr(document, name)]
    changed: dict[str, Any] = {name: tuple(map(read, getattr(document, name))) for name in fields}
    if (clusters := getattr(document, "clusters", None)) is not None:
        changed["clusters"] = clusters.model_copy(update={"answers": tuple(map(read, clusters.answers))})
    return cast(Document, document.model_copy(update=changed))


def outcome_label(specification: Mapping[str, Any], outcome: str) -> str:
    """Return a measure of a time to an event with its horizon as pages write numbers."""
    for asked_outcome in outcomes_of(specification) if of_times(specification) else ():
        horizon = float(asked_outcome["horizon"])
        outcome = re.sub(rf"(?<=until ){horizon:g}(?![0-9.])", figure(horizon), outcome)
    return outcome


def forests(release: EffectTable) -> tuple[Forest, ...]:
    """Return a forest plot of each outcome, in the order of the study."""
    if by_parts(release):
        return tuple(forest_of_parts(release, row) for row in release.answers)
    if events := event_study(release):
        return events
    plots = []
    for outcome in dict.fromkeys(answer.outcome for answer in release.answers):
        rows = [answer for answer in release.answers if answer.outcome == outcome]
        plots.append(_forest(release, rows[0], [(_label(release, row), _line(release, row)) for row in rows]))
    return tuple(plots)


def event_study(release: EffectTable) -> tuple[Forest, ...]:
    """Return changes in the order of their periods on one axis, the base among them.

    With cohorts the means by event time come first, then each cohort. Empty if an outcome is no change, or answers are
    of several subgroups.
    """
    outcomes = outcomes_of(release.specification)
    changes = {outcome["name"]: change for outcome in outcomes if (change := _change(outcome)) is not None}
    order = sorted({at for change in changes.values() for at in (change.at, change.base)}, key=_numbers_first)
    alike = len({(change.column, change.base if change.cohort is None else "") for change in changes.values()}) == 1
    alike &= len({answer.group for answer in release.answers}) == 1 and all(
        change.cohort in (None, *order) for change in changes.values()
    )
    if not alike or len(changes) < max(len(outcomes), 2):
        return ()
    plots, column = list[Forest](), next(iter(changes.values())).column

    def add(role: str, rows: Mapping[int, Line | None], base: int, label: Callable[[int], str]) -> None:
        """Add a figure of rows by their place in time."""
        marked = {
            at: label(at) + (", placebo" if at < base else ", the base" if at == base else "") for at in (*rows, base)
        }
        zero = Line("", "0", 0.0, 0.0, 0.0, 0.4)
        lines = [
            (marked[at], line and replace(line, label=marked[at], weight=0.4))
            for at, line in sorted({**rows, base: zero}.items())
        ]
        plots.append(replace(_forest(release, release.answers[0], lines), outcome=column, role=role))

    times = dict[int, Line | None]()
    for contrast in getattr(release, "contrasts", ()):
        places = {
            order.index(changes[name].at) - order.index(str(changes[name].cohort))
            for name in contrast.of or ()
            if contrast.by_size
        }
        if len(places) == 1:
            times[places.pop()] = _line(release, contrast)
    if times:
        add("change over time, all cohorts", times, -1, lambda at: f"event time {at}")
    for cohort in dict.fromkeys(change.cohort for change in changes.values()):
        own = [row for row in release.answers if changes[row.outcome].cohort == cohort]
        rows = {order.index(changes[row.outcome].at): _line(release, row) for row in own}
        role = "change over time" if cohort is None else f"cohort {cohort}"
        add(role, rows, order.index(changes[own[0].outcome].base), lambda at: order[at])
    return tuple(plots)


@dataclass(frozen=True)
class Change:
    """The column of an outcome that is a change from one period to another, and of a cohort."""

    column: str
    at: str
    base: str
    cohort: str | None


def _change(outcome: Mapping[str, Any]) -> Change | None:
    """Return an outcome as a change of one column between two periods; None if it is none."""
    parts = [] if "horizon" in outcome else outcome.get("of") or []
    names = [part["name"].rpartition(PERIOD) for part in sorted(parts, key=lambda part: -part["times"])]
    if [part["times"] for part in parts] not in ([1.0, -1.0], [-1.0, 1.0]) or len({name for name, _, _ in names}) > 1:
        return None
    (column, _, at), (_, _, base) = names
    return Change(column, at, base, outcome.get("arm")) if column else None


def _numbers_first(period: str) -> tuple[bool, float, str]:
    return (not period.isdecimal(), float(period) if period.isdecimal() else 0.0, period)


def forest_of_parts(release: EffectTable, row: Answer) -> Forest:
    """Return the figure of an answer over sites or blocks: each of them, and all together."""
    return _forest(release, row, list(_of_parts(release, row)))


def _forest(release: EffectTable, row: Answer, lines_or_none: Sequence[tuple[str, Line | None]]) -> Forest:
    lines = tuple(line for _, line in lines_or_none if line is not None)
    return Forest(
        outcome=row.outcome,
        role=ROLES[row.role],
        label=axis_name(units_in(release).get(row.outcome), sides_of(release.specification)),
        lines=lines,
        axis=axis_of(lines) if lines else Axis(-1.0, 1.0),
        withheld=tuple(label for label, line in lines_or_none if line is None),
    )


def by_parts(release: EffectTable) -> bool:
    """Return whether figures show sites or blocks: there are several, and one subgroup and arm."""
    return isinstance(release, CombinedTable) and len({(row.group, row.arm) for row in release.answers}) == 1


def _of_parts(release: EffectTable, row: Answer) -> Iterator[tuple[str, Line | None]]:
    """Yield the lines of sites or blocks, and of all together; None without an answer."""
    table, answer = cast(CombinedTable, release), cast(CombinedAnswer, row)
    for part in answer.parts:
        if part.estimate is None or part.interval is None:
            yield part.source, None
            continue
        yield part.source, line_of(part.source, part.estimate, part.interval, part.weight(table.headline_model))
    for name, estimate in table.estimates(answer):
        yield name, line_of(name, estimate.estimate, estimate.interval)


def _label(release: EffectTable, row: Answer) -> str:
    if len(release.answers) == 1:
        return "Estimate"
    place = place_of([(answer.group, answer.arm) for answer in release.answers], row.group, row.arm, row.reference)
    # In one run only a gate withholds numbers, and the page says so.
    return f"{place} ({why(row)})" if row.estimate is None and isinstance(release, CombinedTable) else place


def why(row: Answer) -> str:
    """Return the reason for a row without numbers."""
    return "a gate failed" if row.state == "withheld" else "too few answered"


def place_of(places: Sequence[tuple[str, str]], group: str, arm: str, reference: str) -> str:
    """Return the subgroup, the arm if there are several, or both.

    ``places``: every (subgroup, arm) of the table.
    """
    several, grouped = len({value for _, value in places}) > 1, len({value for value, _ in places}) > 1
    parts = [group] if grouped or not several else []
    return ", ".join([*parts, *([f"{arm} against {reference}"] if several else [])])


def _line(release: EffectTable, row: Answer | ContrastAnswer) -> Line | None:
    """Return the line of an answer or contrast; None without numbers."""
    if row.estimate is None or row.interval is None or row.interval.lower is None or row.interval.upper is None:
        return None
    wider = row.simultaneous
    outer = None if wider is None or wider.lower is None or wider.upper is None else (wider.lower, wider.upper)
    hidden = str(row.state) == "unresolved"
    ends = {"lower": row.interval.lower, "upper": row.interval.upper}
    note = f"hidden by noise ({span(ends)})" if hidden else f"{beside(row.estimate, ends)} ({span(ends)})"
    return Line(
        label="" if isinstance(row, ContrastAnswer) else _label(release, row),
        note=note + (" – gate failed" if row.state == "marked" else ""),
        estimate=row.estimate,
        lower=row.interval.lower,
        upper=row.interval.upper,
        weight=None if isinstance(row, Answer) and is_whole(row.group) and len(release.answers) > 1 else 0.4,
        outer=outer,
        hidden=hidden,
    )


def units_in(release: EffectTable) -> dict[str, str]:
    """Return the unit of measure of each outcome that has one, of mean times as well."""
    outcomes = outcomes_of(release.specification)
    unit = outcomes[0].get("unit_of_measure") if "horizon" in outcomes[0] else None
    times = {row.outcome: str(unit) for row in release.answers if unit and row.outcome.startswith(MEAN_TIME)}
    return release.units_of_measure | times


def balance_sides(release: EffectTable) -> str:
    """Return the contrast of a table of balance.

    Each of several arms is compared with all others if the reference has rows too, or else with the reference.
    """
    arms = release.specification.get("arms")
    if not arms:
        return TWO_SIDES
    answered = {row.arm for row in release.answers}
    each_against_others = any(row.arm not in answered for row in release.balance)
    return "this arm minus all others" if each_against_others else "arm minus reference"


def sides_of(specification: Mapping[str, Any]) -> str:
    """Return the contrast of the arms."""
    return "arm minus reference" if specification.get("arms") else TWO_SIDES


def first_of(rows: Sequence[Row]) -> Row:
    """Return the first primary answer over all units."""
    return next((row for row in rows if row.role == "primary" and is_whole(row.group)), rows[0])


def adjustments(rows: Sequence[Answer]) -> list[str]:
    """Say how each answer was adjusted, unless all were adjusted as the first."""
    several, grouped = len({row.arm for row in rows}) > 1, len({row.group for row in rows}) > 1
    places_by_sentence: dict[str, list[str]] = {}
    for row in rows:
        if row.confounding is not None:
            parts = [row.outcome, *([row.group] if grouped else []), *([row.arm] if several else [])]
            places_by_sentence.setdefault(row.confounding.sentence, []).append(", ".join(parts))
    if len(places_by_sentence) < 2 and first_of(rows).confounding is not None:
        return []
    return [f"{sentence}: {'; '.join(places)}" for sentence, places in places_by_sentence.items()]


@dataclass(frozen=True)
class First:
    """The headline answer, as the first line of a page has it.

    ``verdict``: raises, lowers, open, drowned, or none; ``why`` explains the last two. ``sides``: the arm and the
    reference where arms were declared.
    """

    verdict: str
    outcome: str
    estimate: float | None
    interval: dict[str, Any] | None
    why: str
    sides: tuple[str, str] | None


def first_answer(release: EffectTable) -> First:
    """Return the headline answer."""
    row, reason = release.answers[0], ""
    interval = release.interval_of(row)
    if interval is None:
        reason = why(row)
    elif interval.whole_range:
        reason = "the privacy noise is too large" if row.reason is None else row.reason.sentence
    sides = (row.arm, row.reference) if release.specification.get("arms") else None
    ends = None if interval is None else interval.model_dump(mode="json")
    return First("none" if ends is None else verdict_of(ends), row.outcome, row.estimate, ends, reason, sides)


def love_plots(balance: Sequence[BalanceRow], sides: str = TWO_SIDES) -> list[tuple[str, LovePlot]]:
    """Return a Love plot of each subgroup and arm whose balance was released, with its title."""
    plots, places = [], dict.fromkeys((row.group, row.arm) for row in balance)
    for group, arm in places:
        plot = LovePlot.of([row for row in balance if (row.group, row.arm) == (group, arm)], sides)
        if plot is not None:
            several = len(places) > len({grouped for grouped, _ in places})
            plots.append((in_place(group, arm) if several else "" if is_whole(group) else group, plot))
    return plots


def context_of(release: EffectTable) -> dict[str, Any]:
    """Return the context of the templates of a table."""
    asks, first = release.specification, first_answer(release)
    return {
        "first": first,
        "verdict": first.verdict,
        "forests": forests(release),
        "by_parts": by_parts(release),
        "loves": love_plots(release.balance, balance_sides(release)),
        "unseen": unseen(release),
        "compared": getattr(release, "contrasts", ()),
        "unit_of": units_in(release),
        "lost_within": lost_within(asks),
        "of_times": of_times(asks),
        "adjusts": of_times(asks) and bool(asks.get("covariates")),
        "adjustments": adjustments(release.answers) if len(release.answers) > 1 else [],
        "calibrated": any(answer.calibrated is not None for answer in release.answers),
        "together": any(answer.simultaneous is not None for answer in release.answers),
        "several": len({answer.arm for answer in release.answers}) > 1,
        "not_covered": release.not_covered,
        "all_units": all_of(asks),
        "covers": release.covers,
        "biased": any(answer.bias for answer in release.answers),
        "sided": any(answer.values for answer in release.answers),
        "measured": any(answer.measures for answer in release.answers),
        "part_seen": part_seen(release),
        "ends_earlier": ends_earlier(release),
    }


def sites_context(release: PooledRelease) -> dict[str, Any]:
    """Return the context of the page of several sites beside its table."""
    return {
        "waterfalls": (site_bars([(site.site, site.epsilon, site.delta) for site in release.sites], amount),),
        "details": [],
    }


def of_times(specification: Mapping[str, Any]) -> bool:
    """Return whether a study asks for times to an event."""
    return "horizon" in outcomes_of(specification)[0]


def unseen(release: EffectTable) -> list[str]:
    """Return the covariates without a row in the Love plot: noise hides their spread.

    Empty where the adjustment left covariates out, which its sentence names.
    """
    first = release.answers[0].confounding
    if not release.balance or (first and first.left_out):
        return []
    shown = {row.covariate.split("=")[0] for row in release.balance} | {row.covariate for row in release.balance}
    return [name for name in release.specification.get("covariates") or {} if name not in shown]


def lost_within(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``censoring``, by the columns within whose levels losses are independent."""
    if not specification.get("covariates"):
        return {}
    groups, named = specification.get("subgroups"), dict(specification.get("censoring") or {})
    return {**named, "by": [groups["name"]]} if groups else named


def part_seen(release: EffectTable) -> str:
    """Return that noise hides some subgroups, so that the first answer is of the others."""
    if isinstance(release, CombinedTable):
        return ""
    asks, row = release.specification, release.answers[0]
    # Unadjusted curves are of all units, even where noise hides a subgroup.
    read_off_all = asks["estimator"]["name"] == "survival" and not asks.get("covariates")
    if read_off_all or not is_whole(row.group) or row.estimate is None or row.state == "unresolved":
        return ""
    places = (row.outcome, row.arm)
    groups = [
        answer for answer in release.answers if (answer.outcome, answer.arm) == places and not is_whole(answer.group)
    ]
    hidden = sum(answer.state == "unresolved" for answer in groups)
    if not hidden:
        return ""
    sentence = f"Noise hides {hidden} of {counted(len(groups), 'subgroup')}."
    return f"{sentence} The first answer is of the others; its interval allows for any effect in these."


def ends_earlier(release: EffectTable) -> str:
    """Return the measures that end before their horizon, and when; empty if none does."""
    until_by_outcome = {row.outcome: row.restricted_to for row in release.answers if row.restricted_to is not None}
    unit = release.curves[0].curves.unit if release.curves else None
    measured_in = f" {unit}" if unit else ""
    sentence = "; ".join(
        f"{outcome}: until {figure(until)}{measured_in} alone" for outcome, until in until_by_outcome.items()
    )
    return f"Too few are followed to the horizon. {capital(sentence)}." if until_by_outcome else ""


TEXTS = ("outcome", "role", "group", "arm", "reference", "measure", "state", "adjustment")
INTERVALS = ("interval", "simultaneous", "calibrated")
NUMBERS = ("noise_error", "sampling_error", "bias", "spread")


def rows_of(release: EffectTable) -> list[dict[str, Any]]:
    """Return a flat row per answer; levels that have names are named.

    An interval is two columns, ``interval_lower`` and ``interval_upper``.
    """
    rows, has_ratios = [], any(answer.measures for answer in release.answers)
    names = _names(release.specification)
    for stored, answer in zip(release.answers, release.model_dump(mode="json")["answers"], strict=True):
        answer["adjustment"] = stored.adjustment
        texts = {key: names.get(key, {}).get(answer[key], answer[key]) for key in TEXTS}
        row: dict[str, Any] = texts | {"estimate": answer["estimate"]}
        for name in INTERVALS:
            for end in ("lower", "upper"):
                row[f"{name}_{end}"] = None if answer[name] is None else answer[name][end]
        row |= {key: answer[key] for key in NUMBERS}
        for measure in (EffectMeasure.ratio, EffectMeasure.odds_ratio) if has_ratios else ():
            ratio: dict[str, Any] = next((given for given in answer["measures"] if given["measure"] == measure), {})
            row |= {f"{measure}": ratio.get("estimate")}
            row |= {f"{measure}_{end}": ratio.get(end) for end in ("lower", "upper")}
        rows.append(row)
    return rows


def _names(specification: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the names of subgroups and arms, by the column of the table."""
    names, groups = level_names(specification), specification.get("subgroups") or {}
    arms = names.get(specification["treatment"], {})
    names_by_column = {"arm": arms, "reference": arms}
    if groups.get("name") in names:
        names_by_column["group"] = names[groups["name"]]
    return names_by_column


def frame_of(release: EffectTable) -> pl.DataFrame:
    """Return a release's answers as a frame: texts, then numbers in outcome units."""
    rows = rows_of(release)
    return pl.DataFrame(rows, schema={key: pl.String if key in TEXTS else pl.Float64 for key in rows[0]})


TABLE = "answers.parquet"


def write_tables(folder: Path, release: EffectRelease) -> None:
    """Write answers.csv and answers.parquet into the release's folder.

    They hold nothing that the release does not.

    Raises:
        StudyError: they cannot be written.
    """
    frame, parquet = frame_of(release), BytesIO()
    frame.write_parquet(parquet)
    write_whole(folder / "answers.csv", csv_text(frame))
    write_whole(folder / TABLE, parquet.getvalue())
