"""Find the days, months or years that files are named by, and draft a key of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from causalveil.schemas.errors import StudyError
from causalveil.schemas.mistakes import validate
from causalveil.schemas.warehouse import PREVIOUS, Key, Step
from causalveil.tasks.start.recognise import Found, Looks

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
            "--key is COLUMN=day, month or year, with a column of dates, and the first of them if no file is named by "
            "it, as in --key visited=month:2026-01"
        )
    named = periods_of(names)
    if not first:
        if named is None or named[0] != step:
            raise StudyError(
                f"--key: no file says the first {step}; say it, as in --key {column}={step}:{_AS_IN[step]}"
            )
        first = named[1][0]
    name = step if step not in found else f"{step}_block"
    ends_at = {"first": first, "last": last or PREVIOUS}
    return validate(Key, {"name": name, "column": found[column].source_name, "step": step, **ends_at}, "--key")


_AS_IN = {"day": "2026-01-31", "month": "2026-01", "year": "2026"}


def refuse_no_dates(key: Key, found: Mapping[str, Found]) -> None:
    """Refuse a key whose column holds no dates.

    Raises:
        StudyError: it holds something else.
    """
    one = next((one for one in found.values() if one.source_name == key.column), None)
    if one is None or one.looks is not Looks.date:
        raise StudyError(
            f"--key: column '{key.column}' holds no dates that are read as such; name a column of dates, or say of "
            f"sensitive text how they are written, as in --written '{key.column}=31.12.2025'"
        )


def key_question(names: Iterable[str], found: Mapping[str, Found]) -> str | None:
    """Return what a draft asks where files are named by periods; None where they are not."""
    named = periods_of(names)
    if named is None:
        return None
    step, periods = named
    dates = [one.name for one in found.values() if one.looks is Looks.date]
    return (
        f"whether each {step} is a block, charged by itself: files are named {periods[0]} to {periods[-1]}, and all "
        "rows are one block now; if so begin anew in another folder (--out) with "
        f"--key '{dates[0] if dates else 'COLUMN'}={step}'"
    )
