"""Find times to an event among a file's columns, and periods among its files' names.

A time and its event indicator are two columns. Neither alone is an outcome with a meaningful mean: censored times are
short as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from causalveil.schemas.errors import StudyError
from causalveil.schemas.hints import Blank, option
from causalveil.schemas.mistakes import validate
from causalveil.schemas.warehouse import PREVIOUS, Key, Step
from causalveil.tasks.start.recognise import Looks, Profile, as_read
from causalveil.tasks.start.roles import Cast, Wishes
from causalveil.tasks.start.words import (
    BEFORE,
    ENTRY_NAME,
    EVENT_NAME,
    FOLLOWED_NAME,
    NO,
    comment,
    flow,
    scalar,
    spoken,
)

_DAY, _MONTH, _YEAR = "(0[1-9]|[12][0-9]|3[01])", "(0[1-9]|1[0-2])", "((?:19|20)[0-9]{2})"
# The finest first: the name of a day says its month and year as well.
_PERIODS = {
    Step.day: re.compile(f"(?<![0-9]){_YEAR}[-_.]?{_MONTH}[-_.]?{_DAY}(?![0-9])"),
    Step.month: re.compile(f"(?<![0-9]){_YEAR}[-_.]?{_MONTH}(?![0-9])"),
    Step.year: re.compile(f"(?<![0-9]){_YEAR}(?![0-9])"),
}


def periods_of(names: Iterable[str]) -> tuple[Step, tuple[str, ...]] | None:
    """Return the days, months or years that files are named by, oldest first.

    None unless every name contains a period, and there are two at least.

    Examples:
        >>> periods_of(["visits_2026-01.csv", "visits_202602.csv"])
        (<Step.month: 'month'>, ('2026-01', '2026-02'))
        >>> periods_of(["north.csv", "south.csv"])
    """
    names = list(names)
    for step, pattern in _PERIODS.items():
        matches = [pattern.search(name) for name in names]
        periods = sorted({"-".join(match.groups()) for match in matches if match is not None})
        if None not in matches and len(periods) > 1:
            return step, tuple(periods)
    return None


def key_of(text: str, columns: Mapping[str, Profile], names: Iterable[str]) -> Key:
    """Return the key that COLUMN=STEP:FIRST:LAST declares.

    Args:
        text: the option; FIRST may be left to names of files, and LAST is the newest that is over.
        columns: the columns by name.
        names: of the source's files.

    Raises:
        StudyError: it is no such text, there is no such column, or the first period is not said.
    """
    column, _, period = text.rpartition("=")
    step, _, ends = period.partition(":")
    first, _, last = ends.partition(":")
    if column not in columns or step not in _PERIODS:
        raise StudyError(
            f"{option('key')} is COLUMN=day, month or year, with a column of dates, and the first of them if no file "
            f"is named by it, as in {option(key='visited=month:2026-01')}"
        )
    named = periods_of(names)
    if not first:
        if named is None or named[0] != step:
            as_option = option(key=f"{column}={step}:{_AS_IN[step]}")
            raise StudyError(f"{option('key')}: no file says the first {step}; say it, as in {as_option}")
        first = named[1][0]
    name = step if step not in columns else f"{step}_block"
    ends_at = {"first": first, "last": last or PREVIOUS}
    return validate(Key, {"name": name, "column": columns[column].source_name, "step": step, **ends_at}, option("key"))


_AS_IN = {"day": "2026-01-31", "month": "2026-01", "year": "2026"}


def refuse_no_dates(key: Key, columns: Mapping[str, Profile]) -> None:
    """Refuse a key whose column holds no dates.

    Raises:
        StudyError: it holds something else.
    """
    column = next((column for column in columns.values() if column.source_name == key.column), None)
    if column is None or column.looks is not Looks.date:
        raise StudyError(
            f"{option('key')}: column '{key.column}' holds no dates that are read as such; name a column of dates, or "
            f"say of sensitive text how they are written, as in {option(written={key.column: ['31.12.2025']})}"
        )


def key_question(names: Iterable[str], columns: Mapping[str, Profile]) -> str | None:
    """Return the question whether files named by periods are blocks; None without such names."""
    named = periods_of(names)
    if named is None:
        return None
    step, periods = named
    dates = [column.name for column in columns.values() if column.looks is Looks.date]
    as_option = option(key=f"{dates[0] if dates else 'COLUMN'}={step}")
    return (
        f"whether each {step} is a block, charged by itself: files are named {periods[0]} to {periods[-1]}, and all "
        f"rows are one block now; if so begin anew in another folder with {as_option}"
    )


# Shares of rows in which a time to an earlier event is at most the time to the end (but for errors), and equal to it.
MOSTLY_WITHIN, OFTEN_SAME = 0.95, 0.05
# Calendar years are no times to an event.
_CALENDAR = (1900, 2100)
# More codes than this are no list of events.
MOST_EVENTS = 6
# A day is .0027 of a year, which three decimals tell from the next.
MOST_DECIMALS = 3
# A decimal that a file has is this near to the binary number that it is read as.
WRITTEN_OFF = 1e-9
# A time and its event, by one stem: ptime and pstat, os_months and os_status.
_TIME_OF = re.compile(r"(?i)(\w{1,12}?)[\W_]?(time|days?|weeks?|months?|years?|dur|duration)")
_END_OF = re.compile(r"(?i)(\w{1,12}?)[\W_]?(stat|status|event|evt|ind|cens|censor|censored|flag)")
# Fewer different values than this are no times.
FEWEST_TIMES = 10


def times_among(columns_of_file: Iterable[Profile]) -> dict[str, str]:
    """Return the columns that look like times, each with its likely event indicator.

    Args:
        columns_of_file: all columns of a file.
    """
    columns = tuple(columns_of_file)
    ended = [column.name for column in columns if _ends(column)]
    if not ended:
        return {}
    times = (
        column.name
        for column in columns
        if column.looks is Looks.number
        and column.lower >= 0
        and column.distinct >= FEWEST_TIMES
        and re.search(FOLLOWED_NAME, column.name)
        and not re.search(BEFORE, column.name)
        and column.name not in ended
    )
    return {name: ended[0] for name in times}


def _ends(column: Profile) -> bool:
    """Check by its name and a few codes, with 0 or a word for no, if a column indicates events."""
    if not re.search(EVENT_NAME, column.name) or column.looks not in (Looks.binary, Looks.category, Looks.number):
        return False
    values = column.values or column.levels
    return 2 <= len(values) <= MOST_EVENTS and any(_none_came(value) for value in values)


def _none_came(value: Any) -> bool:
    return value == 0 if not isinstance(value, str) else value.casefold() in NO | {"censored", "alive"}


def times_in_doubt(columns: Iterable[Profile]) -> dict[str, str]:
    """Return columns that look like a time or its event, with reasons."""
    reasons: dict[str, str] = {}
    for time, event in times_among(columns).items():
        as_option = f"{option(outcome=time, event=event, horizon=Blank('N'))} compares times"
        reasons[time] = f"it looks like a time to an event, which '{event}' names: {as_option}"
        reasons.setdefault(event, f"it looks like what ended '{time}': {as_option}")
    return reasons


def ends_by_stem(columns_of_file: Iterable[Profile]) -> dict[str, str]:
    """Return event indicators by name, each with its time, as "pstat" of "ptime".

    Args:
        columns_of_file: all columns of a file.
    """
    columns = tuple(columns_of_file)
    stems = {
        read[1].casefold(): column.name for column in columns if (read := _TIME_OF.fullmatch(column.name)) is not None
    }
    ended = {column.name: _END_OF.fullmatch(column.name) for column in columns}
    return {name: stems[read[1].casefold()] for name, read in ended.items() if read and read[1].casefold() in stems}


def other_time(column: Profile, time: Profile, frame: pl.DataFrame | None) -> str | None:
    """Say that a column seems to be another time of the same follow-up, or its event; else None.

    By its name; and by its values where they may be seen: a time to an earlier event never exceeds the time to the end,
    and equals it where no earlier event came.
    """
    name = spoken(column.name)
    if re.search(ENTRY_NAME, name) and column.looks is Looks.number:
        return (
            f"by its name when a person came under observation: if it is on the scale of '{time.name}', write "
            f"'entry: {column.name}' beside 'time' to compare people at risk at each time"
        )
    if _CALENDAR[0] <= column.lower and column.upper <= _CALENDAR[1]:
        return None
    if (column.looks is Looks.number and re.search(FOLLOWED_NAME, name)) or re.search(EVENT_NAME, name):
        return f"by its name a time, or what ended one, beside '{time.name}': it may come after treatment"
    if frame is None or column.looks is not Looks.number or column.distinct < FEWEST_TIMES:
        return None
    pairs = pl.DataFrame({"one": as_read(frame, column), "time": as_read(frame, time)}).drop_nulls()
    within = (pairs["one"] <= pairs["time"]).mean()
    same = (pairs["one"] == pairs["time"]).mean()
    if isinstance(within, float) and isinstance(same, float) and within > MOSTLY_WITHIN and same > OFTEN_SAME:
        return f"never above '{time.name}' and often the same: another time of one follow-up, after treatment"
    return None


def followed_to(
    rows: pl.DataFrame, names: Mapping[Any, str], horizon: float, fewest: float, fewest_in_group: float
) -> str:
    """Say how many rows of each arm reach the horizon, and what to do if noise hides so few.

    Args:
        rows: columns ``time`` and ``arm``, and ``group`` where subgroups are asked about.
        names: of the arms, by their values.
        horizon: until when times are compared.
        fewest: the smallest arm that noise does not hide; ``fewest_in_group``: the same in a subgroup.
    """
    reached = rows.filter(pl.col("time") >= horizon)
    counts = {arm: int((reached["arm"] == arm).sum()) for arm in names}
    sentence = ", ".join(
        f"{counts[arm]:,} of {int((rows['arm'] == arm).sum()):,} {name}" for arm, name in names.items()
    )
    advice = f"so ask for an earlier {option('horizon')}, or the answer is the whole range"
    if min(counts.values()) < fewest:
        return f"{sentence}; noise hides so few ({_about(fewest)} in this study), {advice}"
    if "group" not in rows.columns:
        return sentence
    cells = [
        int(((reached["arm"] == arm) & (reached["group"] == group)).sum())
        for arm in names
        for group in rows["group"].drop_nulls().unique().to_list()
    ]
    if min(cells, default=0) < fewest_in_group:
        few = f"{min(cells, default=0):,} in an arm of one subgroup"
        return f"{sentence}; {few}, and noise hides so few there ({_about(fewest_in_group)}), {advice}"
    return sentence


def _about(fewest: float) -> str:
    """Say to two digits how many people noise hides."""
    return f"fewer than about {float(f'{fewest:.2g}'):,.0f}"


def no_event(frame: pl.DataFrame, parts: Cast, wishes: Wishes) -> str | None:
    """Say that no row has an event before the horizon; None if one has, or there is no time."""
    if parts.event is None:
        return None
    names = wishes.stated.names_of(parts.event.name)
    declaration = declared_event(parts.event, wishes.censored, wishes.levels.get(parts.event.name), names, secret=False)
    codes = declaration["event"]
    censored = codes[declaration["censored"]] if "censored" in declaration else 0
    ended = (as_read(frame, parts.outcome) <= wishes.horizon) & as_read(frame, parts.event).is_not_null()
    values = as_read(frame, parts.event).filter(ended.fill_null(value=False))
    values = (
        values.cast(pl.Int64, strict=False) if values.dtype.is_numeric() or values.dtype == pl.Boolean else values
    ).cast(pl.String)
    if not len(values) or bool((values != str(censored)).any()):
        return None
    another = next((code for code in codes.values() if code != censored), censored)
    return (
        f"no row of '{parts.event.name}' has an event before the horizon {wishes.horizon:g}, as {censored} is read as "
        f"censored: {option(censored=str(another))} reads it the other way round, a later {option('horizon')} waits "
        "for events"
    )


def declared_event(
    event: Profile,
    censored: str | None,
    stated: tuple[str, ...] | None,
    names: Mapping[str, str],
    *,
    secret: bool,
) -> dict[str, Any]:
    """Return the contract's declaration of an event.

    Args:
        event: the column.
        censored: the value that means censored, if declared.
        stated: its values, if declared; ``names``: their names, if declared, by the values as text.
        secret: whether the data are sensitive: codes beyond two must be declared.

    Raises:
        StudyError: it has too many values, or none of them is known to mean censored.
    """
    values = tuple(event.values or event.levels)
    if stated is not None:
        values = tuple(int(value) if event.looks is Looks.number else value for value in stated)
    elif secret and len(values) > 2:
        way = option(levels={event.name: ["0", "1", "2"]})
        raise StudyError(f"{option('levels')}: say which codes '{event.name}' may hold, as in {way}")
    if not 2 <= len(values) <= MOST_EVENTS:
        raise StudyError(
            f"{option('event')}: column '{event.name}' has no 2 to {MOST_EVENTS} values; name what ended the times"
        )
    if censored is not None:
        level_of = {name.casefold(): level for level, name in names.items()}
        spelt = censored.strip().casefold()
        chosen = [value for value in values if str(value).casefold() == level_of.get(spelt, spelt).casefold()]
    else:
        chosen = [value for value in values if _none_came(value)]
    if len(chosen) != 1:
        raise StudyError(f"{option('censored')}: say which value of column '{event.name}' means that no event was seen")
    codes: dict[str, str | int] = {}
    for value in sorted(values, key=str):
        code = int(value) if isinstance(value, bool) else value
        word = code if isinstance(code, str) else "censored" if value == chosen[0] else f"event {code}"
        word = names.get(str(value), word)
        codes[word] = code
    name = next(word for word, code in codes.items() if code == chosen[0])
    return {"event": codes} | ({} if codes[name] == 0 else {"censored": name})


def declared_time(upper: float, *, trial: bool, step: float = 1.0) -> dict[str, Any]:
    """Return the contract's declaration of times up to ``upper``."""
    end = int(upper) if float(upper).is_integer() else upper
    steps = {} if step == 1 else {"step": step}
    return {"time": {"upper": end, "origin": "randomised" if trial else "start of treatment"} | steps}


def step_of(times: pl.Series) -> float:
    """Return the unit in which times are recorded, at most 1: a tenth if they have one decimal.

    Years computed from days have more decimals than were recorded; MOST_DECIMALS of them tell days apart.
    """
    values = times.drop_nulls().cast(pl.Float64)
    for places in range(MOST_DECIMALS):
        tens = values * 10**places
        if ((tens - tens.round()).abs() < WRITTEN_OFF * 10**places).all():
            return float(f"1e-{places}")
    return float(f"1e-{MOST_DECIMALS}")


def asked_times(time: str, event: str, horizon: float, adjusts: bool, several: bool = False) -> list[str]:
    """Return the lines of a study that ask for the time to an event.

    ``adjusts``: each measure then has releases of its own. ``several``: the study has subgroups or arms, so that more
    outcomes cost nothing.
    """
    fields = f"{{time: {scalar(time)}, event: {scalar(event)}, horizon: {horizon:g}"
    outcome = [f"outcome: {fields}}}"]
    if several:
        outcome = [
            "outcomes:",
            f"  - {fields}, role: primary}}",
            *comment("Other events (`of`) and earlier horizons cost nothing: each is one more line."),
        ]
    return [
        *comment("`of: [NAME]` would count some of the events; the others then compete with them."),
        *outcome,
        "measure: risk" if adjusts else f"measure: {flow(['risk', 'rmst'])}",
    ]
