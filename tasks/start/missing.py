"""Numbers that stand for no value, as 999 and -9 do: found where they stand apart, and read as none where asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from causalveil.schemas.errors import StudyError
from causalveil.schemas.sources import TextReading
from causalveil.tasks.machine.frames import named, values_of
from causalveil.tasks.start.recognise import TYPED_FORMATS, Found, Looks, recognise

# The last values of a questionnaire's scale: not asked, refused, unknown. A single digit counts below zero alone.
CODE = re.compile(r"-[1-9]|-?(9{2,6}|8{2,6}|7{2,6}|9{1,5}[78])(\.0+)?")
# As many of them are looked for at either end of a column, beside so many other numbers.
MOST_CODES, FEWEST_OTHERS = 4, 4


def seem_missing(values: pl.Series) -> list[float]:
    """Return numbers that may be codes of missing values.

    They occur in several rows and stand apart at an end of a column.

    Below zero they do where no other number is, and none is as far from its next; above, where they are farther from
    the rest than it is wide. A scale from -3 to 3 has none.
    """
    counted = values.drop_nulls().cast(pl.Float64).value_counts(name="times").sort("values")
    coded = [CODE.fullmatch(f"{number:.6g}") is not None and rows > 1 for number, rows in counted.iter_rows()]
    rest, low, high = counted["values"].to_list(), list[float](), list[float]()
    for count in range(1, min(MOST_CODES, len(rest) - FEWEST_OTHERS) + 1):
        if all(coded[-count:]) and rest[-count] - rest[-count - 1] > rest[-count - 1] - max(rest[0], 0.0):
            rest, coded, high = rest[:-count], coded[:-count], rest[-count:]
            break
    for count in range(min(MOST_CODES, len(rest) - FEWEST_OTHERS), 0, -1):
        below, others = rest[:count], rest[count:]
        if all(coded[:count]) and below[-1] < 0 <= others[0] and others[0] - below[-1] > np.diff(others).max():
            low = below
            break
    return low + high


def told_missing(one: Found, values: pl.Series) -> str | None:
    """Say that numbers of a column may stand for no value, and what to do.

    Return None if they seem not to.
    """
    if one.looks is not Looks.number or not values.dtype.is_numeric():
        return None
    codes = ",".join(f"{code:.6g}" for code in seem_missing(values.alias("values")))
    if not codes:
        return None
    words = codes.replace(",", " and ")
    verb = "stands" if words == codes else "stand"
    return f"{words} {verb} apart from all other values and may mean no value: --missing '{one.name}={codes}' says so"


def read_as_missing(
    frame: pl.DataFrame, found: Mapping[str, Found], missing: Mapping[str, Iterable[str]], delimiter: str
) -> tuple[pl.DataFrame, dict[str, Found]]:
    """Return rows and columns in which the values that stand for none are none.

    Args:
        frame: the rows, columns under their names in the source.
        found: the columns by name.
        missing: for columns by name, the values that stand for none, as the source writes them.
        delimiter: of a CSV file.

    Raises:
        StudyError: there is no such column, or no row of it holds such a value.
    """
    columns = dict(found)
    for name, words in missing.items():
        tidy = " ".join(name.split())
        if tidy not in columns:
            raise StudyError(f"--missing: there is no column '{name}'")
        before = columns[tidy]
        text = values_of(frame, before.source_name).cast(pl.String).str.strip_chars()
        hit = _is_one(text, tuple(words))
        if not hit.any():
            raise StudyError(f"--missing: no row of column '{tidy}' holds such a value; write it as the source does")
        spelt = sorted(set(text.filter(hit).to_list()) | {word.removesuffix(".0") for word in text.filter(hit)})
        kept = pl.when(~pl.Series(hit)).then(named(before.source_name)).alias(before.source_name)
        frame = frame.with_columns(kept)
        now = recognise(before.source_name, values_of(frame, before.source_name), delimiter=delimiter)
        columns[tidy] = replace(now, reading=_reading(now, tuple(spelt)), notes=(*now.notes, _note(spelt)))
    return frame, columns


def _is_one(text: pl.Series, words: tuple[str, ...]) -> pl.Series:
    """Tell which values are one of some words, by their text or as numbers."""
    numbers = pl.Series(list(words), dtype=pl.String).cast(pl.Float64, strict=False).drop_nulls()
    same = text.is_in(list(words)) | text.cast(pl.Float64, strict=False).is_in(numbers.implode())
    return same.fill_null(value=False)


def _reading(now: Found, spelt: tuple[str, ...]) -> TextReading:
    if isinstance(now.reading, TextReading):
        return now.reading.model_copy(update={"nulls": tuple(dict.fromkeys((*now.reading.nulls, *spelt)))})
    column = None if now.name == now.source_name else now.source_name
    return TextReading(kind=now.reading, column=column, nulls=spelt, formats=TYPED_FORMATS.get(now.reading, ()))


def _note(spelt: list[str]) -> str:
    return ", ".join(f"'{one}'" for one in spelt) + " read as no value, as --missing says"
