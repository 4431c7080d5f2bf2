"""Find times to an event among a file's columns, and periods among its files.

Find the days, months or years that files are named by, and draft a key of them.

Times to an event among the columns of a file.
Which they are, and what contract and study say of them.

A time and what ended it are two columns. Each by itself is no outcome that a mean can be taken of: who was lost has a
short time as well.
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
from causalveil.tasks.start.doubts import as_read
from causalveil.tasks.start.recognise import Found, Looks
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

    None unless every name says one, and there are two at least.

    Examples:
        >>> periods_of(["visits_2026-01.csv", "visits_202602.csv"])
        (<Step.month: 'month'>, ('2026-01', '2026-02'))
        >>> periods_of(["north.csv", "south.csv"])
    """
    names = list(names)
    for step, pattern in _PERIODS.items():
        found = [pattern.search(name) for name in names]
        periods = sorted({"-".join(one.groups()) for one in found if one is not None})
        if None not in found and len(periods) > 1:
            return step, tuple(periods)
    return None


def key_of(text: str, found: Mapping[str, Found], names: Iterable[str]) -> Key:
    """Return the key that COLUMN=STEP:FIRST:LAST declares.

    Args:
        text: the option; FIRST may be left to names of files, and LAST is the newest that is over.
        found: the columns.
        names: of the source's files.

    Raises:
        StudyError: it is no such text, there is no such column, or the first period is not said.
    """
    column, _, said = text.rpartition("=")
    step, _, ends = said.partition(":")
    first, _, last = ends.partition(":")
    if column not in found or step not in _PERIODS:
        raise StudyError(
            f"{option('key')} is COLUMN=day, month or year, with a column of dates, and the first of them if no file "
            f"is named by it, as in {option(key='visited=month:2026-01')}"
        )
    named = periods_of(names)
    if not first:
        if named is None or named[0] != step:
            way = option(key=f"{column}={step}:{_AS_IN[step]}")
            raise StudyError(f"{option('key')}: no file says the first {step}; say it, as in {way}")
        first = named[1][0]
    name = step if step not in found else f"{step}_block"
    ends_at = {"first": first, "last": last or PREVIOUS}
    return validate(Key, {"name": name, "column": found[column].source_name, "step": step, **ends_at}, option("key"))


_AS_IN = {"day": "2026-01-31", "month": "2026-01", "year": "2026"}


def refuse_no_dates(key: Key, found: Mapping[str, Found]) -> None:
    """Refuse a key whose column holds no dates.

    Raises:
        StudyError: it holds something else.
    """
    one = next((one for one in found.values() if one.source_name == key.column), None)
    if one is None or one.looks is not Looks.date:
        raise StudyError(
            f"{option('key')}: column '{key.column}' holds no dates that are read as such; name a column of dates, or "
            f"say of sensitive text how they are written, as in {option(written={key.column: ['31.12.2025']})}"
        )


def key_question(names: Iterable[str], found: Mapping[str, Found]) -> str | None:
    """Return what a draft asks where files are named by periods; None where they are not."""
    named = periods_of(names)
    if named is None:
        return None
    step, periods = named
    dates = [one.name for one in found.values() if one.looks is Looks.date]
    way = option(key=f"{dates[0] if dates else 'COLUMN'}={step}")
    return (
        f"whether each {step} is a block, charged by itself: files are named {periods[0]} to {periods[-1]}, and all "
        f"rows are one block now; if so begin anew in another folder with {way}"
    )


# Of which rows a time to an earlier event is within the time to the end (but for errors), and of which it is the same.
MOSTLY_WITHIN, OFTEN_SAME = 0.95, 0.05
# Calendar years, which are no times to an event.
_CALENDAR = (1900, 2100)
# More codes than this are no list of what ended follow-up.
MOST_EVENTS = 6
# A day is .0027 of a year, which three decimals tell from the next.
MOST_DECIMALS = 3
# A decimal that a file has is this near to the binary number that it is read as.
WRITTEN_OFF = 1e-9
# A time and what ended it, by one stem: ptime and pstat, os_months and os_status.
_TIME_OF = re.compile(r"(?i)(\w{1,12}?)[\W_]?(time|days?|weeks?|months?|years?|dur|duration)")
_END_OF = re.compile(r"(?i)(\w{1,12}?)[\W_]?(stat|status|event|evt|ind|cens|censor|censored|flag)")
# Fewer different values than this are no times.
FEWEST_TIMES = 10


def times_among(found: Iterable[Found]) -> dict[str, str]:
    """Return the columns that look like times, each with its likely event indicator.

    Args:
        found: all columns of a file.
    """
    columns = tuple(found)
    ended = [one.name for one in columns if _ends(one)]
    if not ended:
        return {}
    times = (
        one.name
        for one in columns
        if one.looks is Looks.number
        and one.lower >= 0
        and one.distinct >= FEWEST_TIMES
        and re.search(FOLLOWED_NAME, one.name)
        and not re.search(BEFORE, one.name)
        and one.name not in ended
    )
    return {name: ended[0] for name in times}


def _ends(one: Found) -> bool:
    """Check by name and codes whether a column may say what ended follow-up.

    It has a few codes, 0 or a word for no among them.
    """
    if not re.search(EVENT_NAME, one.name) or one.looks not in (Looks.binary, Looks.category, Looks.number):
        return False
    values = one.values or one.levels
    return 2 <= len(values) <= MOST_EVENTS and any(_none_came(value) for value in values)


def _none_came(value: Any) -> bool:
    return value == 0 if not isinstance(value, str) else value.casefold() in NO | {"censored", "alive"}


def times_in_doubt(found: Iterable[Found]) -> dict[str, str]:
    """Return what to say of columns that look like a time and its event, by their names."""
    told: dict[str, str] = {}
    for time, event in times_among(found).items():
        way = f"{option(outcome=time, event=event, horizon=Blank('N'))} compares times"
        told[time] = f"it looks like a time to an event, which '{event}' names: {way}"
        told.setdefault(event, f"it looks like what ended '{time}': {way}")
    return told


def ends_by_stem(found: Iterable[Found]) -> dict[str, str]:
    """Return columns that say by their names what ended a time, each with that time.

    "pstat" does so of "ptime".

    Args:
        found: all columns of a file.
    """
    columns = tuple(found)
    stems = {read[1].casefold(): one.name for one in columns if (read := _TIME_OF.fullmatch(one.name)) is not None}
    ended = {one.name: _END_OF.fullmatch(one.name) for one in columns}
    return {name: stems[read[1].casefold()] for name, read in ended.items() if read and read[1].casefold() in stems}


def other_time(one: Found, time: Found, frame: pl.DataFrame | None) -> str | None:
    """Say that a column is another time of the same follow-up, or what ended one.

    Return None if it does not look so.

    By its name; and where values may be seen by them: a time to what came before the end is never above the time to
    the end, and is the same where nothing came before.
    """
    name = spoken(one.name)
    if re.search(ENTRY_NAME, name) and one.looks is Looks.number:
        return (
            f"by its name when a person came under observation: if it is on the scale of '{time.name}', write "
            f"'entry: {one.name}' beside 'time' to compare people at risk at each time"
        )
    if _CALENDAR[0] <= one.lower and one.upper <= _CALENDAR[1]:
        return None
    if (one.looks is Looks.number and re.search(FOLLOWED_NAME, name)) or re.search(EVENT_NAME, name):
        return f"by its name a time, or what ended one, beside '{time.name}': it may come after treatment"
    if frame is None or one.looks is not Looks.number or one.distinct < FEWEST_TIMES:
        return None
    pairs = pl.DataFrame({"one": as_read(frame, one), "time": as_read(frame, time)}).drop_nulls()
    within = (pairs["one"] <= pairs["time"]).mean()
    same = (pairs["one"] == pairs["time"]).mean()
    if isinstance(within, float) and isinstance(same, float) and within > MOSTLY_WITHIN and same > OFTEN_SAME:
        return f"never above '{time.name}' and often the same: another time of one follow-up, after treatment"
    return None


def followed_to(
    rows: pl.DataFrame, names: Mapping[Any, str], horizon: float, fewest: float, fewest_in_group: float
) -> str:
    """Say how many rows of each arm reach the horizon, and what to do if noise hides them.

    Args:
        rows: columns ``time`` and ``arm``, and ``group`` where subgroups are asked about.
        names: of the arms, by their values.
        horizon: until when times are compared.
        fewest: that are seen through the noise in an arm; ``fewest_in_group``: in an arm of a subgroup.
    """
    reached = rows.filter(pl.col("time") >= horizon)
    counts = {arm: int((reached["arm"] == arm).sum()) for arm in names}
    told = ", ".join(f"{counts[arm]:,} of {int((rows['arm'] == arm).sum()):,} {name}" for arm, name in names.items())
    way = f"so ask for an earlier {option('horizon')}, or the answer is the whole range"
    if min(counts.values()) < fewest:
        return f"{told}; noise hides so few ({_about(fewest)} in this study), {way}"
    if "group" not in rows.columns:
        return told
    cells = [
        int(((reached["arm"] == arm) & (reached["group"] == group)).sum())
        for arm in names
        for group in rows["group"].drop_nulls().unique().to_list()
    ]
    if min(cells, default=0) < fewest_in_group:
        few = f"{min(cells, default=0):,} in an arm of one subgroup"
        return f"{told}; {few}, and noise hides so few there ({_about(fewest_in_group)}), {way}"
    return told


def _about(fewest: float) -> str:
    """Say below how many people noise hides them, to two digits."""
    return f"fewer than about {float(f'{fewest:.2g}'):,.0f}"


def no_event(frame: pl.DataFrame, parts: Cast, wishes: Wishes) -> str | None:
    """Say that no row has an event before the horizon; None: one has, or the outcome is no time."""
    if parts.event is None:
        return None
    names = dict(
        zip(wishes.levels.get(parts.event.name, ()), wishes.level_names.get(parts.event.name, ()), strict=False)
    )
    said = declared_event(parts.event, wishes.censored, wishes.levels.get(parts.event.name), names, secret=False)
    codes = said["event"]
    censored = codes[said["censored"]] if "censored" in said else 0
    ended = (as_read(frame, parts.outcome) <= wishes.horizon) & as_read(frame, parts.event).is_not_null()
    values = as_read(frame, parts.event).filter(ended.fill_null(value=False))
    values = (
        values.cast(pl.Int64, strict=False) if values.dtype.is_numeric() or values.dtype == pl.Boolean else values
    ).cast(pl.String)
    if not len(values) or bool((values != str(censored)).any()):
        return None
    other = next((code for code in codes.values() if code != censored), censored)
    return (
        f"no row of '{parts.event.name}' has an event before the horizon {wishes.horizon:g}, as {censored} is read as "
        f"censored: {option(censored=str(other))} reads it the other way round, a later {option('horizon')} waits for "
        "events"
    )


def declared_event(
    event: Found, censored: str | None, known: tuple[str, ...] | None, names: Mapping[str, str], *, secret: bool
) -> dict[str, Any]:
    """Return what the contract says of what ended the times.

    Args:
        event: the column.
        censored: the value that means censored, if declared.
        known: its values, if declared; ``names``: their names, if declared, by the values as text.
        secret: of sensitive data no list of codes is read off the rows; two codes are what a column is.

    Raises:
        StudyError: it has no few values, or none of them is known to be censoring; says what to do.
    """
    values = tuple(event.values or event.levels)
    if known is not None:
        values = tuple(int(one) if event.looks is Looks.number else one for one in known)
    elif secret and len(values) > 2:
        way = option(levels={event.name: ["0", "1", "2"]})
        raise StudyError(f"{option('levels')}: say which codes '{event.name}' may hold, as in {way}")
    if not 2 <= len(values) <= MOST_EVENTS:
        raise StudyError(
            f"{option('event')}: column '{event.name}' has no 2 to {MOST_EVENTS} values; name what ended the times"
        )
    if censored is not None:
        named = {name.casefold(): level for level, name in names.items()}
        said = censored.strip().casefold()
        chosen = [one for one in values if str(one).casefold() == named.get(said, said).casefold()]
    else:
        chosen = [one for one in values if _none_came(one)]
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
    """Return what the contract says of the times, of which nothing is asked beyond ``upper``."""
    end = int(upper) if float(upper).is_integer() else upper
    steps = {} if step == 1 else {"step": step}
    return {"time": {"upper": end, "origin": "randomised" if trial else "start of treatment"} | steps}


def step_of(times: pl.Series) -> float:
    """Return the smallest difference that times are recorded in, at most 1.

    It is a tenth where they have one decimal. Years that were reckoned from days have more decimals than were
    recorded; MOST_DECIMALS of them tell days apart.
    """
    values = times.drop_nulls().cast(pl.Float64)
    for places in range(MOST_DECIMALS):
        tens = values * 10**places
        if ((tens - tens.round()).abs() < WRITTEN_OFF * 10**places).all():
            return float(f"1e-{places}")
    return float(f"1e-{MOST_DECIMALS}")


def asked_times(time: str, event: str, horizon: float, adjusts: bool, several: bool = False) -> list[str]:
    """Return the lines of a study that ask for the time to an event.

    In an adjusted study each measure has releases of its own.

    ``several``: it has subgroups or arms, so that more outcomes cost nothing.
    """
    asked = f"{{time: {scalar(time)}, event: {scalar(event)}, horizon: {horizon:g}"
    outcome = [f"outcome: {asked}}}"]
    if several:
        outcome = [
            "outcomes:",
            f"  - {asked}, role: primary}}",
            *comment("Other events (`of`) and earlier horizons cost nothing: each is one more line."),
        ]
    return [
        *comment("`of: [NAME]` would count some of the events; the others then compete with them."),
        *outcome,
        "measure: risk" if adjusts else f"measure: {flow(['risk', 'rmst'])}",
    ]
