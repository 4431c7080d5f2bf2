"""Recognise what a column holds from all of it.

Codes, a category, a number, a date, or text that no study can use.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import polars as pl

from causalveil.schemas.admission import whole_values
from causalveil.schemas.warehouse import Kind, TextReading
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
from causalveil.tasks.warehouse.values import said, value_of

MOST_LEVELS = 30
# As many places as have codes in one country's list: the FIPS codes of the states and territories of the United States.
MOST_PLACES = 56
# At least this share of the values must be of a kind before the rest counts as words for "no value".
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
class Found:
    """One column of a sample.

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
    def whole(self) -> bool:
        """Return whether it is read as whole numbers."""
        return Kind.integer in (self.reading, getattr(self.reading, "kind", None))

    @property
    def of_kinds(self) -> bool:
        """Return whether its whole numbers are codes of kinds by its name."""
        named = self.looks is Looks.number and self.whole and names_kinds(self.name)
        # What begins with 0 may count something, such as years of school.
        counts = self.distinct > 0 and re.search(COUNTED_NAME, spoken(self.name)) is not None
        return named and (self.lower >= 1 or (self.lower == 0 and not counts))


def names_kinds(name: str) -> bool:
    """Check whether a name ends in a word for kinds, such as school, and speaks of no amount."""
    words = spoken(name)
    return re.search(KIND_NAME, words) is not None and re.search(AMOUNT_WORD, words) is None


def _most(name: str) -> int:
    """Return how many different whole numbers of a column are listed."""
    return MOST_PLACES if names_kinds(name) else MOST_LEVELS


# How a type that is no text says dates and times once it is written as text.
TYPED_FORMATS = {Kind.date: ("%Y-%m-%d",), Kind.timestamp: ("%Y-%m-%d %H:%M:%S%.f",)}


def recognise(name: str, values: pl.Series, *, delimiter: str = ",") -> Found:
    """Say what a column holds.

    Args:
        name: its name in the source.
        values: all rows of it, text as text.
        delimiter: of the CSV file: where it is a semicolon, 1,5 is more likely one and a half.
    """
    tidy = " ".join(name.split())
    # A series is what polars takes its name for, and a name may be a pattern.
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
    held = Looks.duration if values.dtype == pl.Duration else Looks.unread
    looks = Looks.empty if values.null_count() == len(values) else held
    return Found(tidy, name, looks, Kind.text, values.null_count(), 0)


def _number(name: str, source_name: str, values: pl.Series) -> Found:
    """A column of numbers: whole ones by their type, or by all of them where they are few, as of codes with gaps."""
    given = values.fill_nan(None) if values.dtype.is_float() else values
    if given.dtype.is_float() and bool(given.is_infinite().any()):
        return Found(
            name, source_name, Looks.infinite, _as_typed(name, source_name, Kind.number), given.null_count(), 0
        )
    whole = whole_values(given)
    by_type = values.dtype.is_integer() or (isinstance(values.dtype, pl.Decimal) and not values.dtype.scale)
    if whole.null_count() == given.null_count() and (by_type or whole.n_unique() <= _most(name) + 1):
        found = _typed(name, source_name, whole, Kind.integer, Looks.number, len(whole), whole.null_count())
        return replace(found, looks=Looks.moment) if _moments(source_name, whole) else found
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
    """Check whether whole numbers count time since 1970.

    Parts of a second do by their size alone, seconds by a name too.
    """
    ends = whole.min(), whole.max()
    if whole.n_unique() <= 2 or not all(isinstance(end, int) for end in ends):
        return False
    lower, upper = int(ends[0]), int(ends[1])  # type: ignore[arg-type]
    parts = (*_EPOCH_PARTS, 1) if _MOMENT_NAME.search(name) else _EPOCH_PARTS
    return any(_EPOCH[0] * part <= lower and upper <= _EPOCH[1] * part for part in parts)


def _typed(name: str, source_name: str, values: pl.Series, kind: Kind, looks: Looks, rows: int, nulls: int) -> Found:
    """A column whose type says what it is.

    Args:
        name, source_name: of the column.
        values: all of them, or each different one once.
        kind, looks: what it holds.
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
    return Found(
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


def counted_again(first: Found, values: pl.Series) -> Found:
    """Return what a column of numbers or dates that were text holds in some of its rows.

    Args:
        first: what all of them hold.
        values: of these rows, by its reading.
    """
    kind = first.reading.kind if isinstance(first.reading, TextReading) else first.reading
    now = _typed(first.name, first.source_name, values, kind, first.looks, len(values), values.null_count())
    return replace(now, reading=first.reading, notes=first.notes)


def _as_typed(name: str, source_name: str, kind: Kind) -> Kind | TextReading:
    """The reading of a column whose type says what it holds: its kind alone, unless its name needs mending."""
    if kind is not Kind.text and name == source_name:
        return kind
    column = None if name == source_name else source_name
    return TextReading(kind=kind, column=column, formats=TYPED_FORMATS.get(kind, ()))


def _text(name: str, source_name: str, values: pl.Series, delimiter: str) -> Found:
    """Recognise a column of text by its different texts and how often each stands there."""
    rows = len(values)
    texts = values.drop_nulls().value_counts(sort=True, name="times")
    bare = texts.select(pl.col("values").str.strip_chars().alias("text"), "times")
    silent = bare["text"].str.to_lowercase().is_in(["", *NOTHING])
    nothing = tuple(sorted(set(bare.filter(silent)["text"].to_list()) - {""}))
    held = bare.filter(~silent).group_by("text", maintain_order=True).agg(pl.col("times").sum())
    held = held.sort("times", descending=True, maintain_order=True)
    column = None if source_name == name else source_name
    plain = TextReading(kind=Kind.text, column=column, nulls=nothing)
    nulls = rows - int(held["times"].sum())

    def read(reading: TextReading, looks: Looks, notes: tuple[str, ...]) -> Found:
        """Return the column as its reading makes it, which is what an extract will see."""
        made = held.select("times", value=value_of(said(reading), reading))
        without = rows - int(made.filter(pl.col("value").is_not_null())["times"].sum())
        found = _typed(name, source_name, made["value"], reading.kind, looks, rows, without)
        return replace(found, reading=reading, notes=notes)

    if (numbers := _plain_numbers(held, _most(name))) is not None:
        known = plain.model_copy(update={"kind": numbers[0], "nulls": (*nothing, *numbers[1])})
        return read(known, Looks.number, _notes(known.nulls, {}))
    words = dict(zip(held["text"].to_list(), held["times"].to_list(), strict=True))
    if len(words) <= 1:
        looks = Looks.constant if words else Looks.empty
        return Found(name, source_name, looks, plain, nulls, len(words))
    if not _says_yes_and_no(words):
        # Where none of the first is a number, more words are odd than may be.
        first = list(words)[: MOST_ODD_WORDS + 1]
        for kind in (Looks.number, Looks.date) if number_reading(first, delimiter)[0] is not None else (Looks.date,):
            shape, fits, notes = (
                number_reading(words, delimiter, _most(name)) if kind is Looks.number else date_reading(words)
            )
            others = {word: times for word, times in words.items() if word not in fits}
            odd = _odd_words(others, rows - nulls) if fits else None
            if shape is not None and odd is not None:
                known = shape.model_copy(update={"column": column, "nulls": (*nothing, *odd)})
                return read(known, kind, (*notes, *_notes(known.nulls, {})))
    spellings = _one_spelling(words)
    meanings = tuple(dict.fromkeys(str(spellings.get(word, word)) for word in words))
    unique = len(words) == rows
    if len(meanings) > MOST_LEVELS or len(meanings) * 2 > max(rows - nulls, 4):
        looks = Looks.mixed if _mostly_numbers(words) else Looks.text
        return Found(name, source_name, looks, plain, nulls, len(words), unique=unique)
    looks = {1: Looks.constant, 2: Looks.binary}.get(len(meanings), Looks.category)
    reading = plain.model_copy(update={"spellings": spellings})
    notes = _notes(nothing, spellings)
    levels = tuple(sorted(meanings))
    return Found(
        name, source_name, looks, reading, nulls, len(meanings), meanings, unique=unique, notes=notes, levels=levels
    )


def _plain_numbers(held: pl.DataFrame, most: int) -> tuple[Kind, tuple[str, ...]] | None:
    """Return the kind of more different numbers than codes have, and words that stand for no value among them.

    What :func:`number_reading` and :func:`_odd_words` find word by word, in one pass, where all numbers are written by
    digits, sign and point. None: they are not, or other words are too many or hold a digit.

    Args:
        held: the different texts and how often each stands there, the most frequent first.
        most: how many different numbers are codes.
    """
    plain = held["text"].str.contains(r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$")
    words, odd = held["text"].filter(plain), held.filter(~plain)["text"].to_list()
    if len(words) <= most or words.str.contains(r"^0[0-9]+$").any() or len(odd) > MOST_ODD_WORDS:
        return None
    if len(currencies("\n".join(odd))) > 1:
        return None
    apart = _odd_words(dict(held.select("text", "times").filter(~plain).iter_rows()), int(held["times"].sum()))
    if apart is None:
        return None
    return (Kind.integer if words.str.contains(r"^[-+]?[0-9]{1,18}$").all() else Kind.number), apart


def _says_yes_and_no(words: Iterable[str]) -> bool:
    lower = {word.casefold() for word in words}
    return lower <= YES | NO and bool(lower & YES) and bool(lower & NO) and not lower <= {"0", "1"}


def _mostly_numbers(words: Mapping[str, int]) -> bool:
    """Return whether half of the values or more are numbers: names of which a few are numbers are text."""
    numbers = sum(times for word, times in words.items() if re.fullmatch(r"[-+]?\d+([.,]\d+)?", word))
    return 2 * numbers >= sum(words.values())


def _one_spelling(words: dict[str, int]) -> dict[str, str]:
    """For each word that is another spelling of one more frequent, that one: yes/no, female/male, or by case alone."""
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


def as_read(one: Found, words: Iterable[str]) -> tuple[str, ...]:
    """Return words for a column's values as its reading makes them, in order.

    The words may be spelt as in the source.
    """
    spelt = one.reading.spellings if isinstance(one.reading, TextReading) else {}
    known = [str(value) for value in one.values]
    words = [spelt.get(word, word) for word in words]
    alike = _one_spelling(dict.fromkeys([*known, *words], 0))
    read = {alike.get(word, word): word for word in reversed(known)}
    return tuple(dict.fromkeys(read.get(alike.get(word, word), word) for word in words))


def _notes(nothing: tuple[str, ...], spellings: dict[str, str]) -> tuple[str, ...]:
    notes = []
    # That "Yes" is read as "yes" needs no word.
    other = {word: meant for word, meant in spellings.items() if word.casefold() != meant}
    if other:
        notes.append(_spelt(other))
    if nothing:
        words = ", ".join(f"'{word}'" for word in nothing)
        one = "it is a value, take it" if len(nothing) == 1 else "one is a value, take it"
        notes.append(f"{words} read as no value; if {one} out of `nulls` in source.yaml")
    return tuple(notes)


def _spelt(spellings: dict[str, str]) -> str:
    """Say which words stand for which, the most frequent first; of many the first three."""
    first = sorted(list(spellings.items())[:3], key=lambda pair: (pair[1], pair[0]))
    pairs = [f"'{word}' read as '{meant}'" for word, meant in first]
    return ", ".join(pairs) + (" and so on" if len(spellings) > 3 else "")


def _odd_words(odd: Mapping[str, int], rows: int) -> tuple[str, ...] | None:
    """Return words that do not fit, in order, if they are few and without a digit and may stand for no value.

    Args:
        odd: the words that do not fit, and how often each stands there.
        rows: how many rows have a word.
    """
    share = (rows - sum(odd.values())) / rows
    if share < MOSTLY or len(odd) > MOST_ODD_WORDS or any(re.search(r"\d", word) for word in odd):
        return None
    return tuple(sorted(odd))
