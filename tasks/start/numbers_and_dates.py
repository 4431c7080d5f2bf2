"""Read numbers and dates as people write them.

Numbers are such as `$1,200`, `1.200,50 €`, `72 kg`, `(300)`, `45 %`. Which comes first in a date, day or month, is told
by the dates that allow one order only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from causalveil.schemas.sources import Kind, TextReading
from causalveil.tasks.start.words import CURRENCY, CURRENCY_CODES, UNITS

_PLAIN = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
# Groups of three, or of two before the last three, as in India.
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{2,3})*,\d{3}(\.\d*)?")
_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?")
_NAMES = {" ": "spaces", "\u00a0": "no-break spaces", "\u202f": "narrow spaces"}
_SPACES = " \u00a0\u202f'’"
# Not more different whole numbers than this are codes, however they are written.
MOST_CODES = 30
# A word before or behind: a currency's code, a unit of measure.
_CODE = "|".join(CURRENCY_CODES)
_AROUND = re.compile(rf"((?:{_CODE})\s*)?[{CURRENCY}]?\s*([-+(]?.*\d\.?\)?)\s*([^\d\s)]{{1,10}})?")


class Style(NamedTuple):
    """One way of writing numbers: what is left when decorations are gone must match ``shape``."""

    shape: re.Pattern[str]
    remove: tuple[str, ...]
    decimal: str


_STYLES = (Style(_PLAIN, (), "."), Style(_THOUSANDS, (",",), "."), Style(_COMMA, (".",), ","))


def number_reading(words: Iterable[str], delimiter: str) -> tuple[TextReading | None, set[str], tuple[str, ...]]:
    """The reading under which most of the words are numbers, and which those are.

    Args:
        words: the different values of a column, without spaces around them.
        delimiter: of the file; a semicolon speaks for decimal commas.

    Returns:
        TextReading (None if no word is a number), the words that it fits, and what was assumed.
    """
    bare = {word: _bare(word) for word in words}
    if len({money for word in bare for money in _money(word)}) > 1:
        # Ten dollars and ten euros are no column of numbers until somebody says which it is.
        return None, set(), ()
    units = {unit.casefold() for _, unit in bare.values() if unit}
    if len(units) > 1 or not units <= UNITS or ("%" in units and _some_without(bare)):
        # 72 kg beside 158 lb is no column of numbers until somebody says which it is, and 12A is a name.
        bare = {word: (core, unit) for word, (core, unit) in bare.items() if not unit}
    cores = {word: core for word, (core, _) in bare.items() if core}
    if any(re.fullmatch(r"0\d+", core) for core in cores.values()):
        return None, set(), ()
    fits = [{word for word, core in cores.items() if style.shape.fullmatch(core)} for style in _STYLES]
    plain, thousands, comma = fits
    notes: tuple[str, ...] = ()
    # The way that fits more of them counts; a semicolon speaks for decimal commas where both fit the same.
    pointed = thousands | plain
    tie = delimiter != ";" and len(pointed) == len(comma)
    if thousands - plain and (len(pointed) > len(comma) or tie):
        chosen, kept = _STYLES[1], thousands | plain
        notes = ("a comma is read as thousands",)
    elif len(comma) > len(plain):
        chosen, kept = _STYLES[2], comma
        notes = ("a comma is read as the decimal point",)
    else:
        chosen, kept = _STYLES[0], plain
    if not kept:
        return None, set(), ()
    decorations = sorted({piece for word in kept for piece in _decorations(word)})
    remove = tuple(dict.fromkeys([*decorations, *(one for one in chosen.remove if any(one in cores[w] for w in kept))]))
    written = [_stripped(cores[word], chosen) for word in kept]
    # Where some have no value, tools write codes of kinds as 1.0 and 2.0; of many values some may have decimals.
    few = len(kept) <= MOST_CODES and all(re.fullmatch(r"[-+]?\d{1,15}(\.0*)?", one) for one in written)
    whole = few or all(re.fullmatch(r"[-+]?\d{1,18}", one) for one in written)
    kind = Kind.integer if whole else Kind.number
    if decorations:
        notes = (*notes, f"without {' and '.join(_NAMES.get(one, repr(one)) for one in decorations)}")
    return TextReading(kind=kind, remove=remove, decimal=chosen.decimal), kept, notes


def _money(word: str) -> set[str]:
    """The currencies that a word names, by sign or by code."""
    return {sign for sign in CURRENCY if sign in word} | {code for code in CURRENCY_CODES if code in word.upper()}


def _some_without(bare: dict[str, tuple[str, str]]) -> bool:
    """Check whether a number other than 0 has no unit.

    Beside numbers with a percent sign: is 0.5 a half, or half a percent?
    """
    return any(core.strip("0.,+-") and not unit for core, unit in bare.values() if core)


def _stripped(core: str, style: Style) -> str:
    for piece in style.remove:
        core = core.replace(piece, "")
    return core.replace(style.decimal, ".") if style.decimal == "," else core


def _bare(word: str) -> tuple[str, str]:
    """A number without what stands around and between its digits, and the unit behind it."""
    found = _AROUND.fullmatch(word)
    if not found:
        return "", ""
    core = found[2]
    if core.startswith("(") and core.endswith(")"):
        core = "-" + core[1:-1]
    for space in _SPACES:
        core = core.replace(space, "")
    unit = (found[3] or "").strip(CURRENCY)
    return core.strip(CURRENCY + " "), unit


def _decorations(word: str) -> set[str]:
    """The pieces of a word that are no part of the number: currency, unit, spaces inside."""
    found = _AROUND.fullmatch(word)
    if not found:
        return set()
    pieces = {one for one in CURRENCY if one in word} | {one for one in _SPACES if one in word and one != " "}
    pieces |= {piece.strip() for piece in (found[1], found[3]) if piece and piece.strip(CURRENCY + " ")}
    if " " in found[2]:
        pieces.add(" ")
    return pieces


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
    """The formats under which most of the words are dates, and which those are.

    A few formats in turn may do it.
    """
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
