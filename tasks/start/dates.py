"""Dates as people write them. Which comes first, day or month, is told by the dates that allow one order only."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from causalveil.schemas.sources import Kind, TextReading

_DAYS = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d.%m.%y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d %B %Y",
    "%B %d, %Y",
    "%d-%b-%Y",
    "%d %b %Y",
    "%b %d, %Y",
    "%d-%b-%y",
)
_TIMES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%d.%m.%Y %H:%M")  # fmt: skip # noqa: E501
_YEARS = (1800, 2200)


def date_reading(words: Iterable[str]) -> tuple[TextReading | None, set[str], tuple[str, ...]]:
    """The formats under which most of the words are dates, and which those are; a few formats in turn may do it."""
    text = pl.Series("text", list(words), dtype=pl.String)
    # Few texts hold as many digits as a date; to parse the others sixteen times would take long.
    if text.str.count_matches(r"\d").ge(3).mean() < 0.5:  # type: ignore[operator]
        return None, set(), ()
    fits = {one: _fitting(text, one) for one in (*_DAYS, *_TIMES)}
    chosen: list[str] = []
    covered: set[str] = set()
    while len(chosen) < 4:
        best = max(fits, key=lambda one: len(fits[one] - covered))
        if not fits[best] - covered:
            break
        chosen.append(best)
        covered |= fits[best]
    if not chosen:
        return None, set(), ()
    notes: tuple[str, ...] = ()
    mirrored = {one: one.replace("%d", "%_").replace("%m", "%d").replace("%_", "%m") for one in chosen}
    if any(mirror != one and fits.get(mirror) == fits[one] for one, mirror in mirrored.items()):
        notes = ("day and month cannot be told apart; the day is taken first",)
    # A year of two digits first: four digits would also take 20 for the year 20.
    return TextReading(kind=Kind.date, formats=tuple(sorted(chosen, key=lambda one: "%y" not in one))), covered, notes


def _fitting(text: pl.Series, form: str) -> set[str]:
    if "%H" in form:
        parsed = text.str.to_datetime(form, strict=False, time_unit="us").dt.date()
    else:
        parsed = text.str.to_date(form, strict=False)
    return set(text.filter(parsed.dt.year().is_between(*_YEARS).fill_null(False)).to_list())
