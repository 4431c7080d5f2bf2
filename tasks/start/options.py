"""Read options of `init`.

They name conditions, groups, measures, and codes that stand for no value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from causalveil.schemas.columns import OTHER
from causalveil.schemas.contract import DataClass
from causalveil.schemas.errors import StudyError
from causalveil.schemas.hints import HIGH, LOW, option
from causalveil.schemas.warehouse import TextReading
from causalveil.schemas.where import Operator
from causalveil.tasks.machine.arrays import named, values_of
from causalveil.tasks.start.recognise import Looks, Profile, recognise, respelt, text_reading

MEASURES = ("difference", "ratio", "odds_ratio")
WHOLE = re.compile(r"[-+]?\d{1,18}")
_COMPARED = re.compile(r"\s*(==|!=|<=|>=|<|>|=)\s*(.+)|\s+(not in|in)\s+(.+)")


@dataclass(frozen=True)
class StatedLevels:
    """Levels and ranges of columns that options state.

    ``levels``: by column, as text; ``names``: one of each, by column; ``ranges``: columns with a range.
    """

    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ranges: Collection[str] = ()

    def names_of(self, column: str) -> dict[str, str]:
        """Return the names of a column's levels, by the levels as text."""
        return dict(zip(self.levels.get(column, ()), self.names.get(column, ()), strict=False))

    def meant(self, column: str, word: str) -> str:
        """Return the level, as text, that a word names; the word itself if it names none."""
        named = {name.casefold(): level for level, name in self.names_of(column).items()}
        return named.get(" ".join(word.split()).casefold(), word.strip())

    def as_levels(self, column: Profile) -> bool:
        """Return whether a draft declares a column of numbers by levels."""
        return column.name in self.levels or (
            column.of_kinds and bool(column.levels) and column.name not in self.ranges
        )


def condition(
    columns: Mapping[str, Profile],
    text: str,
    taken: Collection[str],
    data_class: DataClass,
    stated: StatedLevels = StatedLevels(),
) -> dict[str, Any]:
    """Return a comparison as a study file has it.

    Args:
        columns: the columns by name.
        text: such as "age >= 25".
        taken: columns that no condition may name.
        data_class: values of sensitive data are not compared with those in the rows.
        stated: levels and ranges that options state.

    Raises:
        StudyError: it is no comparison of a column with values that it may hold.
    """
    tidy = " ".join(text.split())
    fitting = {name: read for name in columns if (read := after_name(tidy, name)) is not None}
    if not fitting:
        raise StudyError(
            f"{option('where')}: begin with a column, then one of == != < <= > >= in, and a value, as in "
            f"{option(where=['age >= 25'])} or {option(where=['region in north, south'])}"
        )
    name = max(fitting, key=len)
    column, (sign, values) = columns[name], fitting[name]
    op = Operator("==" if sign == "=" else sign)
    if name in taken:
        raise StudyError(f"{option('where')}: '{name}' already has another role; eligibility is known before treatment")
    if column.looks not in (Looks.binary, Looks.category, Looks.number):
        raise StudyError(f"{option('where')}: column '{name}' holds {column.looks}; compare numbers or a few values")
    words = [part.strip().strip("'\"") for part in (values.split(",") if op.several else [values])]
    numbers = column.looks is Looks.number and not stated.as_levels(column)
    if numbers:
        compared: list[Any] = [_number(column, word) for word in words]
    elif stated.as_levels(column):
        compared = [_named(column, word, stated) for word in words]
    else:
        compared = _levels(column, words, data_class)
    if op.orders and not numbers:
        raise StudyError(f"{option('where')}: the values of '{name}' have no order; use == or in")
    return {"column": name, "op": str(op), **({"values": compared} if op.several else {"value": compared[0]})}


def after_name(text: str, name: str) -> tuple[str, str] | None:
    """Return sign and values behind the name of a column; None if the text begins otherwise."""
    if not text.casefold().startswith(name.casefold()):
        return None
    read = _COMPARED.fullmatch(text[len(name) :])
    return None if read is None else (read[1] or read[3], read[2] or read[4])


def _number(column: Profile, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        raise StudyError(f"{option('where')}: '{column.name}' holds numbers, and '{word}' is none") from None
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _named(column: Profile, word: str, stated: StatedLevels) -> Any:
    """Return a level as the draft has it: its name, or the level itself where it has none.

    Raises:
        StudyError: the draft declares no such level.
    """
    levels, names = stated.levels.get(column.name, tuple(map(str, column.levels))), stated.names_of(column.name)
    level = stated.meant(column.name, word)
    spelt = level if column.looks is Looks.number else respelt(column, (level,))[0]
    declared = {name.casefold(): name for name in levels}.get(spelt.casefold())
    if declared is None and word.casefold() == OTHER:
        return OTHER
    if declared is None:
        shown = ", ".join(f"'{names.get(level, level)}'" for level in levels)
        raise StudyError(f"{option('where')}: '{word}' is no level of column '{column.name}'; there are {shown}")
    return names.get(declared) or stored(column, declared)


def stored(column: Profile, level: str) -> str | int:
    """Return a level as rows store it: of whole numbers an integer, of truth values 0 or 1."""
    whole = bool(column.values) and all(isinstance(value, int) for value in column.values)
    if column.looks is not Looks.number and not whole:
        return level
    return {"true": 1, "false": 0}.get(level.casefold(), int(level) if WHOLE.fullmatch(level) else level)


def _levels(column: Profile, words: list[str], data_class: DataClass) -> list[Any]:
    """Return words as the draft reads them; of sensitive data unknown words stay as written."""
    codes = {str(value).casefold(): value for value in column.values}
    read = []
    for word in words:
        spelt = respelt(column, (word,))[0] if column.values and isinstance(column.values[0], str) else word
        value = codes.get(str(spelt).casefold())
        if value is None and (data_class is not DataClass.sensitive or not isinstance(column.values[0], str)):
            shown = ", ".join(f"'{code}'" for code in column.values)
            listed = f"; there are {shown}" if data_class is not DataClass.sensitive else ""
            raise StudyError(f"{option('where')}: column '{column.name}' holds no '{word}'{listed}")
        read.append(spelt if value is None else int(value) if isinstance(value, bool) else value)
    return read


def groups(column: Profile, taken: Collection[str], *, has_levels: bool) -> Profile:
    """Return the column whose levels are subgroups.

    ``has_levels``: whether a draft declares a column of numbers by levels.

    Raises:
        StudyError: the column has another role, or no short list of levels.
    """
    if column.name in taken:
        raise StudyError(
            f"{option('subgroups')}: '{column.name}' already has another role; name a column of a few levels"
        )
    if column.looks not in (Looks.binary, Looks.category) and not has_levels:
        by_levels = f", or say its levels, as in {option(levels={column.name: ['1', '2', '3']})}"
        problem = f"column '{column.name}' holds {column.looks}; name one of a few levels"
        raise StudyError(f"{option('subgroups')}: {problem}{by_levels if column.looks is Looks.number else ''}")
    return column


def measures(words: Iterable[str], *, trial: bool, two_values: bool) -> tuple[str, ...]:
    """Return the measures of an effect, the difference first.

    Raises:
        StudyError: a word is no measure, or the study allows no ratios.
    """
    chosen = {word.strip().casefold().replace(" ", "_").replace("-", "_") for word in words if word.strip()}
    chosen = {{"risk_ratio": "ratio", "rr": "ratio", "or": "odds_ratio"}.get(measure, measure) for measure in chosen}
    if unknown := sorted(chosen - set(MEASURES)):
        raise StudyError(f"{option('measures')}: '{unknown[0]}' is none; there are difference, ratio and odds_ratio")
    if chosen - {"difference"} and not trial:
        advice = f"say {option(trial=True)}, or leave {option('measures')} out"
        raise StudyError(f"{option('measures')}: ratios are of randomised arms; {advice}")
    if chosen - {"difference"} and not two_values:
        raise StudyError(f"{option('measures')}: ratios are of an outcome of two values; leave it out")
    return (
        tuple(measure for measure in MEASURES if measure in chosen | {"difference"}) if chosen - {"difference"} else ()
    )


# The last values of a questionnaire's scale: not asked, refused, unknown. A single digit counts below zero alone.
CODE = re.compile(r"-[1-9]|-?(9{2,6}|8{2,6}|7{2,6}|9{1,5}[78])(\.0+)?")
# The most codes at either end of a column, and the fewest other numbers.
MOST_CODES, FEWEST_OTHERS = 4, 4


def seem_missing(values: pl.Series) -> list[float]:
    """Return numbers that may be codes of missing values: repeated, far from the rest.

    Below zero: no other number is negative, and the gap is the largest; above: the gap exceeds the range of the rest.
    A scale from -3 to 3 has none.
    """
    counted = values.drop_nulls().cast(pl.Float64).value_counts(name="times").sort("values")
    rest, times, low, high = counted["values"].to_list(), counted["times"].to_list(), list[float](), list[float]()

    def coded(part: slice) -> bool:
        ends = zip(rest[part], times[part], strict=True)
        return all(rows > 1 and CODE.fullmatch(f"{number:.6g}") is not None for number, rows in ends)

    for count in range(1, min(MOST_CODES, len(rest) - FEWEST_OTHERS) + 1):
        if coded(slice(-count, None)) and rest[-count] - rest[-count - 1] > rest[-count - 1] - max(rest[0], 0.0):
            rest, times, high = rest[:-count], times[:-count], rest[-count:]
            break
    for count in range(min(MOST_CODES, len(rest) - FEWEST_OTHERS), 0, -1):
        below, others = rest[:count], rest[count:]
        if coded(slice(count)) and below[-1] < 0 <= others[0] and others[0] - below[-1] > np.diff(others).max():
            low = below
            break
    return low + high


# Values farther from all others than this multiple of their range are shown. Of 2,000 samples of 1,000 that are no
# mistake, an end was shown of .1% (lognormal, sigma 1.5), 3% (sigma 2.5), .6% (Pareto, exponent 2), none (t, 3).
FAR = 10.0
FEWEST_NEAR = 10


def far_from_rest(values: pl.Series) -> tuple[list[float], tuple[float, float]] | None:
    """Return values far from all others of a column, and the range of the others; or None."""
    numbers = values.drop_nulls().cast(pl.Float64).unique().sort().to_list()
    low = high = 0
    for count in range(1, min(MOST_CODES, len(numbers) - FEWEST_NEAR) + 1):
        rest = numbers[:-count]
        if numbers[-count] - rest[-1] > FAR * (rest[-1] - rest[0]):
            high = count
    numbers, far = (numbers[:-high], numbers[-high:]) if high else (numbers, [])
    for count in range(1, min(MOST_CODES, len(numbers) - FEWEST_NEAR) + 1):
        rest = numbers[count:]
        if rest[0] - numbers[count - 1] > FAR * (rest[-1] - rest[0]):
            low = count
    rest = numbers[low:]
    far = numbers[:low] + far
    return (far, (rest[0], rest[-1])) if far else None


def told_far(column: Profile, values: pl.Series) -> tuple[str, tuple[float, float]] | None:
    """Say which values of a column lie far from all others, and return the range of the others."""
    if column.looks is not Looks.number or not values.dtype.is_numeric():
        return None
    apart = far_from_rest(values.alias("values"))
    if apart is None:
        return None
    far, (lower, upper) = apart
    rows = int(values.cast(pl.Float64).is_in(far).sum())
    times = min(max(lower - value, value - upper) for value in far) / (upper - lower)
    codes = [f"{value:.12g}" for value in far]
    shown, many = " and ".join(codes), "row holds" if rows == 1 else "rows hold"
    return (
        f"{rows:,} {many} {shown}, {times:,.0f} times the range of all other values, {lower:g} to {upper:g}, away "
        f"from it: {option(missing={column.name: codes})} reads them as missing; "
        f"{option(ranges={column.name: (LOW, HIGH)})} keeps them, clipped to that range; the draft clips them to the "
        "range of the others"
    ), (lower, upper)


def told_missing(column: Profile, values: pl.Series) -> str | None:
    """Say that numbers of a column may be codes of missing values, and what to do; else None."""
    if column.looks is not Looks.number or not values.dtype.is_numeric():
        return None
    codes = [f"{code:.6g}" for code in seem_missing(values.alias("values"))]
    if not codes:
        return None
    shown, verb = " and ".join(codes), "stands" if len(codes) == 1 else "stand"
    as_option = option(missing={column.name: codes})
    return f"{shown} {verb} apart from all other values and may mean no value: {as_option} says so"


def read_as_missing(
    frame: pl.DataFrame,
    columns_by_name: Mapping[str, Profile],
    missing: Mapping[str, Iterable[str]],
    delimiter: str,
) -> tuple[pl.DataFrame, dict[str, Profile]]:
    """Return rows and columns in which codes of missing values are nulls.

    Args:
        frame: the rows, columns under their names in the source.
        columns_by_name: the columns.
        missing: by column, its codes of missing values, as the source writes them.
        delimiter: of a CSV file.

    Raises:
        StudyError: there is no such column, or no row of it holds such a value.
    """
    columns = dict(columns_by_name)
    for name, words in missing.items():
        tidy = " ".join(name.split())
        if tidy not in columns:
            raise StudyError(f"{option('missing')}: there is no column '{name}'")
        before = columns[tidy]
        text = values_of(frame, before.source_name).cast(pl.String).str.strip_chars()
        hit = _is_one(text, tuple(words))
        if not hit.any():
            raise StudyError(
                f"{option('missing')}: no row of column '{tidy}' holds such a value; write it as the source does"
            )
        spelt = sorted(set(text.filter(hit).to_list()) | {word.removesuffix(".0") for word in text.filter(hit)})
        present = pl.when(~pl.Series(hit)).then(named(before.source_name)).alias(before.source_name)
        frame = frame.with_columns(present)
        now = recognise(before.source_name, values_of(frame, before.source_name), delimiter=delimiter)
        columns[tidy] = replace(now, reading=_reading(now, tuple(spelt)), notes=(*now.notes, _note(spelt)))
    return frame, columns


def _is_one(text: pl.Series, words: tuple[str, ...]) -> pl.Series:
    """Return which values equal a word, as text or as numbers."""
    numbers = pl.Series(list(words), dtype=pl.String).cast(pl.Float64, strict=False).drop_nulls()
    same = text.is_in(list(words)) | text.cast(pl.Float64, strict=False).is_in(numbers.implode())
    return same.fill_null(value=False)


def _reading(now: Profile, spelt: tuple[str, ...]) -> TextReading:
    if isinstance(now.reading, TextReading):
        return now.reading.model_copy(update={"nulls": tuple(dict.fromkeys((*now.reading.nulls, *spelt)))})
    return text_reading(now.name, now.source_name, now.reading, spelt)


def _note(spelt: list[str]) -> str:
    return ", ".join(f"'{code}'" for code in spelt) + f" read as no value, as {option('missing')} says"
