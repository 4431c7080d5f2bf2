"""Recognise what a column holds: codes, a category, numbers, dates, or text without a use."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import polars as pl

from causalveil.schemas.admission import whole_values
from causalveil.schemas.warehouse import Kind, TextReading
from causalveil.tasks.machine.arrays import values_of
from causalveil.tasks.start.words import (
    AMOUNT_WORD,
    COUNTED_NAME,
    FEMALE,
    KIND_NAME,
    MALE,
    NO,
    NOTHING,
    YES,
    currencies,
    date_reading,
    number_reading,
    spoken,
)
from causalveil.tasks.warehouse.values import read_text, respelled, value_of

MOST_LEVELS = 30
# The longest list of places' codes: FIPS codes of the states and territories of the United States.
MOST_PLACES = 56
# At least this share of the values must be of a kind before other words count as missing values.
MOSTLY = 0.9
MOST_ODD_WORDS = 5


class Looks(StrEnum):
    """The kinds of content that a column may have."""

    binary = "two values"
    category = "a category"
    number = "a number"
    date = "a date"
    moment = "a moment as a number"
    text = "free text"
    unread = "values of a type that no study reads"
    mixed = "numbers and words"
    constant = "one value only"
    empty = "no value"
    unsaid = "text of which nothing is said"
    infinite = "infinite values"
    duration = "durations"


@dataclass(frozen=True)
class Profile:
    """The content of a column of a sample.

    Attributes:
        name: as contract and study will call it.
        source_name: as the source calls it.
        looks: what it looks like.
        reading: how it is read; a plain kind where the source's own type says it all.
        nulls: number of rows without a value.
        distinct: number of different values, after spellings are made one.
        values: of codes and categories, the most frequent first.
        levels: of any column of at most thirty different values, in order; of codes of kinds a few more.
        lower, upper: of numbers.
        unique: whether every row has a value of its own.
        notes: what was assumed, each a clause for a comment.
    """

    name: str
    source_name: str
    looks: Looks
    reading: Kind | TextReading
    nulls: int
    distinct: int
    values: tuple[str | int | bool, ...] = ()
    lower: float = 0.0
    upper: float = 0.0
    unique: bool = False
    notes: tuple[str, ...] = field(default=())
    levels: tuple[str | int, ...] = ()

    @property
    def kind(self) -> Kind:
        """The kind that its values are read as."""
        return self.reading.kind if isinstance(self.reading, TextReading) else self.reading

    @property
    def whole(self) -> bool:
        """Return whether it is read as whole numbers."""
        return self.kind is Kind.integer

    @property
    def of_kinds(self) -> bool:
        """Return whether its whole numbers are category codes by its name."""
        named = self.looks is Looks.number and self.whole and names_kinds(self.name)
        # Numbers from 0 may be counts, such as years of school.
        counts = self.distinct > 0 and re.search(COUNTED_NAME, spoken(self.name)) is not None
        return named and (self.lower >= 1 or (self.lower == 0 and not counts))


def names_kinds(name: str) -> bool:
    """Check whether a name ends in a word for categories, without a word for an amount."""
    words = spoken(name)
    return re.search(KIND_NAME, words) is not None and re.search(AMOUNT_WORD, words) is None


def _most(name: str) -> int:
    """Return the most different whole numbers that a column lists as levels."""
    return MOST_PLACES if names_kinds(name) else MOST_LEVELS


# Formats of typed dates and times once they are written as text.
TYPED_FORMATS = {Kind.date: ("%Y-%m-%d",), Kind.timestamp: ("%Y-%m-%d %H:%M:%S%.f",)}


def recognise(name: str, values: pl.Series, *, delimiter: str = ",") -> Profile:
    """Return a column with what it holds.

    Args:
        name: its name in the source.
        values: all rows of it, text as text.
        delimiter: of the CSV file: where it is a semicolon, 1,5 is more likely one and a half.
    """
    tidy = " ".join(name.split())
    # polars reads some names as patterns.
    values = values.alias("values")
    if values.dtype.base_type() in (pl.Categorical, pl.Enum):
        values = values.cast(pl.String)
    if values.dtype == pl.String:
        return _text(tidy, name, values, delimiter)
    if values.dtype == pl.Boolean:
        return _typed(tidy, name, values, Kind.boolean, Looks.binary, len(values), values.null_count())
    if values.dtype.is_numeric():
        return _number(tidy, name, values)
    if values.dtype == pl.Date or values.dtype == pl.Datetime:
        kind = Kind.date if values.dtype == pl.Date else Kind.timestamp
        return _typed(tidy, name, values, kind, Looks.date, len(values), values.null_count())
    looks_of_type = Looks.duration if values.dtype == pl.Duration else Looks.unread
    looks = Looks.empty if values.null_count() == len(values) else looks_of_type
    return Profile(tidy, name, looks, Kind.text, values.null_count(), 0)


def _number(name: str, source_name: str, values: pl.Series) -> Profile:
    """Return a column of numbers: integers by type, or by value where few differ."""
    given = values.fill_nan(None) if values.dtype.is_float() else values
    if given.dtype.is_float() and bool(given.is_infinite().any()):
        return Profile(
            name, source_name, Looks.infinite, _as_typed(name, source_name, Kind.number), given.null_count(), 0
        )
    whole = whole_values(given)
    by_type = values.dtype.is_integer() or (isinstance(values.dtype, pl.Decimal) and not values.dtype.scale)
    if whole.null_count() == given.null_count() and (by_type or whole.n_unique() <= _most(name) + 1):
        column = _typed(name, source_name, whole, Kind.integer, Looks.number, len(whole), whole.null_count())
        return replace(column, looks=Looks.moment) if _moments(source_name, whole) else column
    numbers = given.cast(pl.Float64)
    return _typed(name, source_name, numbers, Kind.number, Looks.number, len(numbers), numbers.null_count())


# Seconds from 1990 to 2050, and how many parts of a second there may be.
_EPOCH = (631_152_000, 2_524_608_000)
_EPOCH_PARTS = (10**3, 10**6, 10**9)
_MOMENT_NAME = re.compile(
    r"(?i)(^|[\W_])(at|on|ts|time|timestamp|date|datetime|epoch|created|updated|seen|since|until)($|[\W_\d])"
    r"|time$|date$"
)


def _moments(name: str, whole: pl.Series) -> bool:
    """Check whether whole numbers count time since 1970; whole seconds need a name for it, too."""
    ends = whole.min(), whole.max()
    if whole.n_unique() <= 2 or not all(isinstance(end, int) for end in ends):
        return False
    lower, upper = int(ends[0]), int(ends[1])  # type: ignore[arg-type]
    parts = (*_EPOCH_PARTS, 1) if _MOMENT_NAME.search(name) else _EPOCH_PARTS
    return any(_EPOCH[0] * part <= lower and upper <= _EPOCH[1] * part for part in parts)


def _typed(name: str, source_name: str, values: pl.Series, kind: Kind, looks: Looks, rows: int, nulls: int) -> Profile:
    """Return a column whose kind is known.

    Args:
        name, source_name: of the column.
        values: all of them, or each distinct value once.
        kind, looks: of its values.
        rows, nulls: how many rows there are, and how many of them have no value.
    """
    seen = values.drop_nulls().unique()
    distinct = len(seen)
    few: tuple[str | int | bool, ...] = ()
    if distinct <= 2 and kind in (Kind.integer, Kind.boolean):
        few = tuple(sorted(seen.to_list()))
    if distinct <= 1:
        looks = Looks.constant if distinct else Looks.empty
    elif distinct == 2 and few:
        looks = Looks.binary
    ends = (0.0, 0.0)
    if looks is Looks.number or few:
        numbers = seen.cast(pl.Float64)
        ends = (float(numbers.min() or 0.0), float(numbers.max() or 0.0))  # type: ignore[arg-type]
    return Profile(
        name,
        source_name,
        looks,
        _as_typed(name, source_name, kind),
        nulls,
        distinct,
        few,
        *ends,
        unique=distinct == rows,
        levels=tuple(sorted(seen.to_list())) if kind is Kind.integer and distinct <= _most(name) else (),
    )


def counted_again(first: Profile, values: pl.Series) -> Profile:
    """Return a column of numbers or dates that were text, for some of its rows.

    Args:
        first: the column over all rows.
        values: of the rows, by its reading.
    """
    now = _typed(first.name, first.source_name, values, first.kind, first.looks, len(values), values.null_count())
    return replace(now, reading=first.reading, notes=first.notes)


def _as_typed(name: str, source_name: str, kind: Kind) -> Kind | TextReading:
    """Return the reading of a typed column: its kind alone, unless its name needs mending."""
    return kind if kind is not Kind.text and name == source_name else text_reading(name, source_name, kind)


def text_reading(name: str, source_name: str, kind: Kind, nulls: tuple[str, ...] = ()) -> TextReading:
    """Return a reading by a column's name in the source, words for missing values, and kind."""
    column = None if name == source_name else source_name
    return TextReading(kind=kind, column=column, nulls=nulls, formats=TYPED_FORMATS.get(kind, ()))


def _text(name: str, source_name: str, values: pl.Series, delimiter: str) -> Profile:
    """Recognise a column of text by its distinct texts and their counts."""
    rows = len(values)
    texts = values.drop_nulls().value_counts(sort=True, name="times")
    bare = texts.select(pl.col("values").str.strip_chars().alias("text"), "times")
    silent = bare["text"].str.to_lowercase().is_in(["", *NOTHING])
    nothing = tuple(sorted(set(bare.filter(silent)["text"].to_list()) - {""}))
    texts_held = bare.filter(~silent).group_by("text", maintain_order=True).agg(pl.col("times").sum())
    texts_held = texts_held.sort("times", descending=True, maintain_order=True)
    plain = text_reading(name, source_name, Kind.text, nothing)
    nulls = rows - int(texts_held["times"].sum())

    def read(reading: TextReading, looks: Looks, notes: tuple[str, ...]) -> Profile:
        """Return the column as its reading makes it, as an extract will."""
        made = texts_held.select("times", value=value_of(respelled(reading), reading))
        without = rows - int(made.filter(pl.col("value").is_not_null())["times"].sum())
        profile = _typed(name, source_name, made["value"], reading.kind, looks, rows, without)
        return replace(profile, reading=reading, notes=notes)

    if (numbers := _plain_numbers(texts_held, _most(name))) is not None:
        reading = plain.model_copy(update={"kind": numbers[0], "nulls": (*nothing, *numbers[1])})
        return read(reading, Looks.number, _notes(reading.nulls, {}))
    words = dict(zip(texts_held["text"].to_list(), texts_held["times"].to_list(), strict=True))
    if len(words) <= 1:
        looks = Looks.constant if words else Looks.empty
        return Profile(name, source_name, looks, plain, nulls, len(words))
    if not _says_yes_and_no(words):
        # If none of the first words is a number, too many words are odd.
        first = list(words)[: MOST_ODD_WORDS + 1]
        for kind in (Looks.number, Looks.date) if number_reading(first, delimiter)[0] is not None else (Looks.date,):
            shape, fits, notes = (
                number_reading(words, delimiter, _most(name)) if kind is Looks.number else date_reading(words)
            )
            others = {word: times for word, times in words.items() if word not in fits}
            odd = _odd_words(others, rows - nulls) if fits else None
            if shape is not None and odd is not None:
                reading = shape.model_copy(update={"column": plain.column, "nulls": (*nothing, *odd)})
                return read(reading, kind, (*notes, *_notes(reading.nulls, {})))
    spellings = _one_spelling(words)
    meanings = tuple(dict.fromkeys(str(spellings.get(word, word)) for word in words))
    unique = len(words) == rows
    if len(meanings) > MOST_LEVELS or len(meanings) * 2 > max(rows - nulls, 4):
        looks = Looks.mixed if _mostly_numbers(words) else Looks.text
        return Profile(name, source_name, looks, plain, nulls, len(words), unique=unique)
    looks = {1: Looks.constant, 2: Looks.binary}.get(len(meanings), Looks.category)
    reading = plain.model_copy(update={"spellings": spellings})
    notes = _notes(nothing, spellings)
    levels = tuple(sorted(meanings))
    return Profile(
        name, source_name, looks, reading, nulls, len(meanings), meanings, unique=unique, notes=notes, levels=levels
    )


def _plain_numbers(texts: pl.DataFrame, most: int) -> tuple[Kind, tuple[str, ...]] | None:
    """Return the kind of a column of many plain numbers, and its words for missing values.

    Finds in one pass what :func:`number_reading` and :func:`_odd_words` find word by word, where all numbers are
    written by digits, sign and point, and other words are few and without a digit.

    Args:
        texts: the different texts and how often each occurs, the most frequent first.
        most: the most distinct numbers that may be codes.
    """
    plain = texts["text"].str.contains(r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$")
    words, odd = texts["text"].filter(plain), texts.filter(~plain)["text"].to_list()
    if len(words) <= most or words.str.contains(r"^0[0-9]+$").any() or len(odd) > MOST_ODD_WORDS:
        return None
    if len(currencies("\n".join(odd))) > 1:
        return None
    apart = _odd_words(dict(texts.select("text", "times").filter(~plain).iter_rows()), int(texts["times"].sum()))
    if apart is None:
        return None
    return (Kind.integer if words.str.contains(r"^[-+]?[0-9]{1,18}$").all() else Kind.number), apart


def _says_yes_and_no(words: Iterable[str]) -> bool:
    lower = {word.casefold() for word in words}
    return lower <= YES | NO and bool(lower & YES) and bool(lower & NO) and not lower <= {"0", "1"}


def _mostly_numbers(words: Mapping[str, int]) -> bool:
    """Return whether half of the values or more are numbers, not a few among names."""
    numbers = sum(times for word, times in words.items() if re.fullmatch(r"[-+]?\d+([.,]\d+)?", word))
    return 2 * numbers >= sum(words.values())


def _one_spelling(words: dict[str, int]) -> dict[str, str]:
    """Map words to the most frequent spelling: yes/no, female/male, or by case alone."""
    lower = {word.casefold() for word in words}
    for one, other, names in ((YES, NO, ("yes", "no")), (FEMALE, MALE, ("female", "male"))):
        # Codes are yes and no; two other words stay as they are spelt.
        several = len(words) > 2 or names[0] == "yes"
        if several and lower <= one | other and lower & one and lower & other and not lower <= {"0", "1"}:
            return {
                word: meant for word in words if word != (meant := names[0] if word.casefold() in one else names[1])
            }
    first: dict[str, str] = {}
    spellings = {}
    for word in words:
        # An accent is one character or two; people see one spelling.
        key = re.sub(r"[\s_-]+", " ", unicodedata.normalize("NFKC", word).casefold()).strip(" .")
        meant = first.setdefault(key, word)
        if meant != word:
            spellings[word] = meant
    return spellings


def as_read(frame: pl.DataFrame, column: Profile) -> pl.Series:
    """Return the values of a column as its reading makes them."""
    values = values_of(frame, column.source_name)
    if isinstance(column.reading, TextReading) and values.dtype == pl.String:
        return read_text(values, column.reading)[0].alias("values")
    return values


def holds_code(values: pl.Series, code: object) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return which rows hold a code; in files of statistics programs 1 is stored as 1.0."""
    if isinstance(code, int | float) and (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        same = values.cast(pl.Float64) == float(code)
    else:
        same = values.cast(pl.String) == str(code)
    return np.asarray(same.fill_null(value=False).to_numpy(), dtype=bool)


def respelt(column: Profile, words: Iterable[str]) -> tuple[str, ...]:
    """Return words, spelt as in the source or not, as a column's reading makes them, in order."""
    spelt = column.reading.spellings if isinstance(column.reading, TextReading) else {}
    values = [str(value) for value in column.values]
    words = [spelt.get(word, word) for word in words]
    alike = _one_spelling(dict.fromkeys([*values, *words], 0))
    read = {alike.get(word, word): word for word in reversed(values)}
    return tuple(dict.fromkeys(read.get(alike.get(word, word), word) for word in words))


def _notes(nothing: tuple[str, ...], spellings: dict[str, str]) -> tuple[str, ...]:
    notes = []
    # That "Yes" is read as "yes" needs no note.
    other = {word: meant for word, meant in spellings.items() if word.casefold() != meant}
    if other:
        notes.append(_spelt(other))
    if nothing:
        words = ", ".join(f"'{word}'" for word in nothing)
        advice = "it is a value, take it" if len(nothing) == 1 else "one is a value, take it"
        notes.append(f"{words} read as no value; if {advice} out of `nulls` in source.yaml")
    return tuple(notes)


def _spelt(spellings: dict[str, str]) -> str:
    """Say how words are read, the most frequent first; of many the first three."""
    first = sorted(list(spellings.items())[:3], key=lambda pair: (pair[1], pair[0]))
    pairs = [f"'{word}' read as '{meant}'" for word, meant in first]
    return ", ".join(pairs) + (" and so on" if len(spellings) > 3 else "")


def _odd_words(odd: Mapping[str, int], rows: int) -> tuple[str, ...] | None:
    """Return words that are no numbers, in order, if they are few and without a digit.

    Args:
        odd: the words that do not fit, and how often each occurs.
        rows: how many rows have a word.
    """
    share = (rows - sum(odd.values())) / rows
    if share < MOSTLY or len(odd) > MOST_ODD_WORDS or any(re.search(r"\d", word) for word in odd):
        return None
    return tuple(sorted(odd))
