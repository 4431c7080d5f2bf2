"""Answers of one site or of several, for their page and as tables.

For the page these are forest plots, Love plots and gates; the tables are answers.csv and answers.parquet,
which other tools read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar, cast

import polars as pl
from pydantic import BaseModel

from causalveil.schemas.estimators.survival_protocol import MEAN_TIME
from causalveil.schemas.limits import Limit, united
from causalveil.schemas.protocols.answers import Answer, BalanceRow
from causalveil.schemas.protocols.study import EffectMeasure
from causalveil.schemas.release import EffectRelease, Interval
from causalveil.schemas.sites.pooled import PooledAnswer, PooledEstimate, PooledProtocolRelease
from causalveil.schemas.sites.series import Series
from causalveil.schemas.specification import level_names, outcomes_of
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.machine.frames import csv_text
from causalveil.tasks.report.figures import Axis, Line, LovePlot, axis_of, site_bars
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

Row = TypeVar("Row", bound=Answer | PooledAnswer)
Document = TypeVar("Document", bound=BaseModel)
# Fields whose rows are of a subgroup and an arm.
TABLES = ("answers", "balance", "gates", "site_gates", "curves", "rows")
ROLES = {"primary": "primary outcome", "secondary": "secondary outcome", "negative_control": "negative control"}


@dataclass(frozen=True)
class Forest:
    """A figure of one outcome: a line per subgroup and arm.

    ``withheld``: those whose numbers a gate keeps back.
    """

    outcome: str
    role: str
    label: str
    lines: tuple[Line, ...]
    axis: Axis
    withheld: tuple[str, ...]


def labelled(document: Document) -> Document:
    """Return a table as people read it.

    Codes of subgroups and arms stand with their columns, and times are written as numbers of pages are.
    """
    if not isinstance(document, EffectRelease | PooledProtocolRelease | Series):
        return document
    specification = document.specification
    labels = {"outcome": outcome_label, "group": group_label, "arm": arm_label, "reference": arm_label}

    def read(row: BaseModel) -> BaseModel:
        told = {key: label(specification, getattr(row, key)) for key, label in labels.items() if hasattr(row, key)}
        return row.model_copy(update=told)

    fields = [name for name in TABLES if hasattr(document, name)]
    changed = {name: tuple(map(read, getattr(document, name))) for name in fields}
    return cast(Document, document.model_copy(update=changed))


def outcome_label(specification: Mapping[str, Any], outcome: str) -> str:
    """Return a measure of a time to an event with its horizon as pages write numbers."""
    for one in outcomes_of(specification) if of_times(specification) else ():
        horizon = float(one["horizon"])
        outcome = re.sub(rf"(?<=until ){horizon:g}(?![0-9.])", figure(horizon), outcome)
    return outcome


def forests(release: EffectRelease | PooledProtocolRelease) -> tuple[Forest, ...]:
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
                label=axis_name(units_in(release).get(outcome), sides_of(release.specification)),
                lines=lines,
                axis=axis_of(lines) if lines else Axis(-1.0, 1.0),
                withheld=tuple(_label(release, row) + _reason(row) for row, line in drawn if line is None),
            )
        )
    return tuple(found)


def _label(release: EffectRelease | PooledProtocolRelease, row: Answer | PooledAnswer) -> str:
    if len(release.answers) == 1:
        return "Estimate"
    return place_of([(one.group, one.arm) for one in release.answers], row.group, row.arm, row.reference)


def _reason(row: Answer | PooledAnswer) -> str:
    """Return why sites gave no answer, in brackets; of one site a gate is why, and the page says so."""
    return f" ({_why(row)})" if isinstance(row, PooledAnswer) else ""


def _why(row: PooledAnswer) -> str:
    return "a gate failed" if row.state == "withheld" else "fewer than two sites answered"


def place_of(places: Sequence[tuple[str, str]], group: str, arm: str, reference: str) -> str:
    """Return the subgroup, the arm if there are several, or both.

    ``places``: every (subgroup, arm) of the table.
    """
    several, grouped = len({one for _, one in places}) > 1, len({one for one, _ in places}) > 1
    parts = [group] if grouped or not several else []
    return ", ".join([*parts, *([f"{arm} against {reference}"] if several else [])])


def _line(release: EffectRelease | PooledProtocolRelease, row: Answer | PooledAnswer) -> Line | None:
    """Nothing for a withheld answer, or without a pooled one."""
    found: Answer | PooledEstimate | None = None
    if isinstance(row, Answer):
        found = row
    elif isinstance(release, PooledProtocolRelease):
        found = release.headline(row)
    if found is None or found.estimate is None or found.interval is None:
        return None
    outer = None if row.simultaneous is None else (row.simultaneous.lower, row.simultaneous.upper)
    hidden = str(row.state) == "unresolved"
    ends = {"lower": found.interval.lower, "upper": found.interval.upper}
    note = f"hidden by noise ({span(ends)})" if hidden else f"{beside(found.estimate, ends)} ({span(ends)})"
    return Line(
        label=_label(release, row),
        note=note + (" – gate failed" if row.state == "marked" else ""),
        estimate=found.estimate,
        lower=found.interval.lower,
        upper=found.interval.upper,
        weight=None if is_whole(row.group) and len(release.answers) > 1 else 0.4,
        outer=outer,
        hidden=hidden,
    )


def units_in(release: EffectRelease | PooledProtocolRelease | Series) -> dict[str, str]:
    """Return the unit of measure of each outcome that has one; means of times have theirs."""
    asked = outcomes_of(release.specification)
    unit = asked[0].get("unit_of_measure") if "horizon" in asked[0] else None
    rows: Sequence[Any] = release.rows if isinstance(release, Series) else release.answers
    times = {row.outcome: str(unit) for row in rows if unit and row.outcome.startswith(MEAN_TIME)}
    return release.units_of_measure | times


def balance_sides(release: EffectRelease | PooledProtocolRelease) -> str:
    """Return which side is subtracted from which in a table of balance.

    Of several arms each is compared with all others, where the reference has rows too, or else with the reference.
    """
    arms = release.specification.get("arms")
    if not arms:
        return TWO_SIDES
    answered = {row.arm for row in release.answers}
    each = any(row.arm not in answered for row in release.balance)
    return "this arm minus all others" if each else "arm minus reference"


def sides_of(specification: Mapping[str, Any]) -> str:
    """Return which side is subtracted from which."""
    return "arm minus reference" if specification.get("arms") else TWO_SIDES


def first_of(rows: Sequence[Row]) -> Row:
    """Return the first primary answer over all units."""
    return next((row for row in rows if row.role == "primary" and is_whole(row.group)), rows[0])


def adjustments(rows: Sequence[Answer | PooledAnswer]) -> list[str]:
    """Say how each answer was adjusted, if the first answer's adjustment is not that of all."""
    several, grouped = len({row.arm for row in rows}) > 1, len({row.group for row in rows}) > 1
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.confounding is not None:
            parts = [row.outcome, *([row.group] if grouped else []), *([row.arm] if several else [])]
            found.setdefault(row.confounding.words, []).append(", ".join(parts))
    if len(found) < 2 and first_of(rows).confounding is not None:
        return []
    return [f"{words}: {'; '.join(places)}" for words, places in found.items()]


@dataclass(frozen=True)
class First:
    """The headline answer, as the first line of a page has it.

    ``verdict``: raises, lowers, open, drowned, or none, which ``why`` explains. ``sides``: the arm and the reference
    where arms were declared.
    """

    verdict: str
    outcome: str
    estimate: float | None
    interval: dict[str, Any] | None
    why: str
    sides: tuple[str, str] | None


def first_answer(release: EffectRelease) -> First:
    """Return the headline answer of a run."""
    row, why = release.answers[0], ""
    interval = release.interval_of(row)
    if interval is None:
        why = "a gate failed"
    elif interval.whole_range:
        why = row.adjustment if row.confounding is None and row.adjustment else "the privacy noise is too large"
    return _first(release, row, row.estimate, interval, why)


def first_pooled(release: PooledProtocolRelease) -> First:
    """Return the headline answer of several sites."""
    row = first_of(release.answers)
    pooled = release.headline(row)
    estimate, interval = (None, None) if pooled is None else (pooled.estimate, pooled.interval)
    return _first(release, row, estimate, interval, "" if pooled else _why(row))


def _first(
    release: EffectRelease | PooledProtocolRelease,
    row: Answer | PooledAnswer,
    estimate: float | None,
    interval: Interval | None,
    why: str,
) -> First:
    sides = (row.arm, row.reference) if release.specification.get("arms") else None
    ends = None if interval is None else interval.model_dump(mode="json")
    return First("none" if ends is None else verdict_of(ends), row.outcome, estimate, ends, why, sides)


def love_plots(balance: Sequence[BalanceRow], sides: str = TWO_SIDES) -> list[tuple[str, LovePlot]]:
    """Return a Love plot of each subgroup and arm whose balance was released, with its title."""
    found, places = [], dict.fromkeys((row.group, row.arm) for row in balance)
    for group, arm in places:
        plot = LovePlot.of([row for row in balance if (row.group, row.arm) == (group, arm)], sides)
        if plot is not None:
            several = len(places) > len({one for one, _ in places})
            found.append((in_place(group, arm) if several else "" if is_whole(group) else group, plot))
    return found


def context_of(release: EffectRelease | PooledProtocolRelease) -> dict[str, Any]:
    """Return what a page says, by the names that the template uses."""
    asks = release.specification
    first = first_answer(release) if isinstance(release, EffectRelease) else first_pooled(release)
    context = {
        "first": first,
        "verdict": first.verdict,
        "forests": forests(release),
        "loves": love_plots(release.balance, balance_sides(release)),
        "unseen": unseen(release) if isinstance(release, EffectRelease) else [],
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
        "covers": release.covers if isinstance(release, EffectRelease) else covered(release),
        "biased": any(isinstance(one, Answer) and one.bias for one in release.answers),
        "sided": any(isinstance(one, Answer) and one.values for one in release.answers),
        "measured": any(isinstance(one, Answer) and one.measures for one in release.answers),
        "part_seen": part_seen(release) if isinstance(release, EffectRelease) else "",
        "ends_earlier": ends_earlier(release) if isinstance(release, EffectRelease) else "",
    }
    if isinstance(release, EffectRelease):
        return context
    return {
        **context,
        "waterfalls": (site_bars([(site.site, site.epsilon, site.delta) for site in release.sites], amount),),
        "method": f"method_{release.estimator}.html.j2",
        "details": [],
    }


def of_times(specification: Mapping[str, Any]) -> bool:
    """Return whether a study asks for times to an event."""
    return "horizon" in outcomes_of(specification)[0]


def unseen(release: EffectRelease) -> list[str]:
    """Return the covariates that a Love plot has no row of: where noise hides how they vary.

    What an adjustment left out says so by itself; in a trial no other sentence does.
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


def part_seen(release: EffectRelease) -> str:
    """Return that the first answer is of some subgroups alone, where noise hides others."""
    asks, row = release.specification, release.answers[0]
    # Arms that are compared as they are have curves of all units, whatever is seen of a subgroup.
    read_off_all = asks["estimator"]["name"] == "survival" and not asks.get("covariates")
    if read_off_all or not is_whole(row.group) or row.estimate is None or row.state == "unresolved":
        return ""
    places = (row.outcome, row.arm)
    groups = [one for one in release.answers if (one.outcome, one.arm) == places and not is_whole(one.group)]
    hidden = sum(one.state == "unresolved" for one in groups)
    if not hidden:
        return ""
    said = f"Noise hides {hidden} of {counted(len(groups), 'subgroup')}."
    return f"{said} The first answer is of the others; its interval allows for any effect in these."


def ends_earlier(release: EffectRelease) -> str:
    """Return which measures end before their horizon, and when; empty if none does."""
    found = {row.outcome: row.restricted_to for row in release.answers if row.restricted_to is not None}
    unit = release.curves[0].curves.unit if release.curves else None
    of = f" {unit}" if unit else ""
    said = "; ".join(f"{outcome}: until {figure(until)}{of} alone" for outcome, until in found.items())
    return f"Too few are followed to the horizon. {said[:1].upper()}{said[1:]}." if found else ""


def covered(release: PooledProtocolRelease) -> tuple[Limit, ...]:
    """Return the sources of error that pooled intervals of a table cover."""
    pooled = [one for row in release.answers if (one := release.headline(row)) is not None]
    return united(one for answer in pooled for one in answer.interval.covers)


TEXTS = ("outcome", "role", "group", "arm", "reference", "measure", "state", "adjustment")
INTERVALS = ("interval", "simultaneous", "calibrated")
NUMBERS = ("noise_error", "sampling_error", "bias", "spread")


def rows_of(release: EffectRelease) -> list[dict[str, Any]]:
    """Return a flat row per answer; levels that have names are named.

    An interval is two columns, ``interval_lower`` and ``interval_upper``.
    """
    rows, asked = [], any(answer.measures for answer in release.answers)
    names = _names(release.specification)
    for answer in release.model_dump(mode="json")["answers"]:
        texts = {key: names.get(key, {}).get(answer[key], answer[key]) for key in TEXTS}
        row: dict[str, Any] = texts | {"estimate": answer["estimate"]}
        for name in INTERVALS:
            for end in ("lower", "upper"):
                row[f"{name}_{end}"] = None if answer[name] is None else answer[name][end]
        row |= {key: answer[key] for key in NUMBERS}
        for one in (EffectMeasure.ratio, EffectMeasure.odds_ratio) if asked else ():
            found: dict[str, Any] = next((given for given in answer["measures"] if given["measure"] == one), {})
            row |= {str(one): found.get("estimate")} | {f"{one}_{end}": found.get(end) for end in ("lower", "upper")}
        rows.append(row)
    return rows


def _names(specification: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the names of subgroups and arms, by the column of the table."""
    names, groups = level_names(specification), specification.get("subgroups") or {}
    arms = names.get(specification["treatment"], {})
    found = {"arm": arms, "reference": arms}
    if groups.get("name") in names:
        found["group"] = names[groups["name"]]
    return found


def frame_of(release: EffectRelease) -> pl.DataFrame:
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
