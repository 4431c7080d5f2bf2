"""Say what columns of sensitive data hold by options, names and types alone, not by rows.

Contract, study and source that are drafted from these columns are the same whatever the rows hold. Text has no type: a
column of it is taken where an option names it. Rows are looked at for the owner's eyes alone, and refused where they
are not what was said.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import polars as pl

from causalveil.schemas.admission import whole_values
from causalveil.schemas.columns import OTHER
from causalveil.schemas.errors import StudyError
from causalveil.schemas.hints import option
from causalveil.schemas.warehouse import Kind, TextReading
from causalveil.tasks.start.doubts import as_read
from causalveil.tasks.start.options import after_name
from causalveil.tasks.start.recognise import MOST_ODD_WORDS, TYPED_FORMATS, Found, Looks
from causalveil.tasks.start.roles import WHOLE, Wishes, column_of, named_levels
from causalveil.tasks.start.words import FEMALE, MALE, NO, YES, date_reading, number_reading

# Words for no value, in every column of text but those of which one is a level.
NULLS = ("NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "Null", "null", "#N/A", ".", "-", "?")
# Who was treated, and whether an event came, where no option says by which words.
_NO_YES = ("no", "yes")
_SAME_WORDS = ((YES, NO), (FEMALE, MALE))
# Digits of an example are no person's.
_MASK = str.maketrans("23456789", "11111111")


def stated(types: Mapping[str, pl.DataType], wishes: Wishes) -> dict[str, Found]:
    """Return what columns hold by their types and by what was said of them.

    Args:
        types: of the columns, by their names in the source.
        wishes: what the owner said.

    Raises:
        StudyError: a name is no column, or an example is neither a number nor a date.
    """
    bare = {(tidy := " ".join(name.split())): Found(tidy, name, Looks.unsaid, Kind.text, 0, 0) for name in types}
    said = _Said(bare, wishes)
    return {name: said.column(one, types[one.source_name]) for name, one in bare.items()}


class _Said:
    """Statements of the owner, by the names of columns."""

    def __init__(self, bare: Mapping[str, Found], wishes: Wishes) -> None:
        def of(argument: str, names: Iterable[str]) -> list[str]:
            return [column_of(bare, name, argument).name for name in names]

        self.unit = of("unit", [wishes.unit])[0]
        self.coded = of("treatment", [wishes.treatment]) + of("event", [wishes.event] if wishes.event else [])
        self.ranges = of("ranges", wishes.ranges)
        self.levels = dict(zip(of("levels", wishes.levels), wishes.levels.values(), strict=True))
        self.written = dict(zip(of("written", wishes.written), wishes.written.values(), strict=True))
        self.missing = dict(zip(of("missing", wishes.missing), wishes.missing.values(), strict=True))
        self.never = of("never_missing", wishes.never_missing)
        compared = [name for text in wishes.where for name in bare if after_name(" ".join(text.split()), name)]
        named = [*of("outcome", [wishes.outcome]), *of("covariates", wishes.covariates or ()), *compared]
        self.numbers = {*self.ranges, *self.written, *named}

    def column(self, bare: Found, kind: pl.DataType) -> Found:
        """Return one column."""
        one = replace(bare, nulls=int(bare.name not in self.never))
        text = kind.base_type() in (pl.String, pl.Categorical, pl.Enum)
        typed = _kind(kind)
        if typed is None and not text:
            return replace(one, looks=Looks.unread)
        if one.name == self.unit:
            looks = Looks.number if typed is Kind.integer else Looks.text
            return replace(one, looks=looks, unique=True, reading=self._reading(one, typed or Kind.text, text))
        levels = named_levels(one, self.levels[one.name])[0] if one.name in self.levels else ()
        if not levels and one.name in self.coded and one.name not in self.ranges:
            levels = _NO_YES if text else ("0", "1") if typed in (Kind.integer, Kind.number) else ()
        if levels and typed is not Kind.boolean:
            return self._of_levels(one, levels, typed, text=text)
        if typed is Kind.boolean:
            both = (False, True)
            return replace(one, looks=Looks.binary, values=both, distinct=2, reading=self._reading(one, typed, text))
        if typed in (Kind.date, Kind.timestamp):
            return replace(one, looks=Looks.date, reading=self._reading(one, typed, text))
        if typed is None and one.name not in self.numbers:
            return one
        reading = self._example(one) if text else self._reading(one, typed or Kind.number, text)
        return replace(one, looks=Looks.date if _kind_of(reading) is Kind.date else Looks.number, reading=reading)

    def _of_levels(self, one: Found, levels: tuple[str, ...], typed: Kind | None, *, text: bool) -> Found:
        whole = all(WHOLE.fullmatch(level) for level in levels)
        values = tuple(int(level) for level in levels) if whole else levels
        looks = Looks.binary if len(values) == 2 else Looks.number if whole else Looks.category
        if typed is not None and not whole:
            raise StudyError(
                f"{option('levels')}: column '{one.name}' holds numbers by its type; give whole numbers as levels"
            )
        reading = self._reading(one, Kind.integer if whole else Kind.text, text)
        if isinstance(reading, TextReading) and not whole:
            nulls = tuple(word for word in reading.nulls if word not in levels)
            reading = reading.model_copy(update={"nulls": nulls, "spellings": _spellings(levels)})
        return replace(
            one, looks=looks, reading=reading, distinct=len(values), values=values, levels=tuple(sorted(values))
        )

    def _reading(self, one: Found, kind: Kind, text: bool) -> Kind | TextReading:
        column = None if one.name == one.source_name else one.source_name
        words = self.missing.get(one.name, ())
        if not text and column is None and not words:
            return kind
        # A number that stands for no value may be written with a point, as its type has it.
        spelt = words if text else tuple(form for word in words for form in (word, f"{word}.0"))
        nulls = tuple(dict.fromkeys((*(NULLS if text and one.name != self.unit else ()), *spelt)))
        return TextReading(kind=kind, column=column, nulls=nulls, formats=TYPED_FORMATS.get(kind, ()))

    def _example(self, one: Found) -> Kind | TextReading:
        """Return the reading of a column of text that is written as its examples are; plain numbers without any."""
        plain = self._reading(one, Kind.number, True)
        examples = [word.strip() for word in self.written.get(one.name, ())]
        if not examples or not isinstance(plain, TextReading):
            return plain
        for read in (number_reading(examples, ","), date_reading(examples)):
            if read[0] is not None and read[1] == set(examples):
                kind = Kind.date if read[0].formats else Kind.number
                return read[0].model_copy(update={"kind": kind, "column": plain.column, "nulls": plain.nulls})
        raise StudyError(
            f"{option('written')}: an example of column '{one.name}' is no number and no date, as in 1.234,56"
        )


def _kind(kind: pl.DataType) -> Kind | None:
    """Return what a type says that it holds; None: it is text, or of no kind that studies read."""
    if kind.is_integer() or (isinstance(kind, pl.Decimal) and not kind.scale):
        return Kind.integer
    if kind.is_numeric():
        return Kind.number
    kinds = {pl.Boolean: Kind.boolean, pl.Date: Kind.date, pl.Datetime: Kind.timestamp}
    return kinds.get(kind.base_type())


def _kind_of(reading: Kind | TextReading) -> Kind:
    return reading.kind if isinstance(reading, TextReading) else reading


def _spellings(levels: tuple[str, ...]) -> dict[str, str]:
    """Return other spellings of levels: by case, and words of the same meaning for yes and no, female and male."""
    meant = {form: level for level in levels for form in _forms(level)}
    for one, other in _SAME_WORDS:
        first = [level for level in levels if level.casefold() in one]
        second = [level for level in levels if level.casefold() in other]
        if len(first) == len(second) == 1 and len(levels) == 2:
            for words, (level,) in ((one, first), (other, second)):
                meant = {form: level for word in sorted(words) for form in _forms(word)} | meant
    return {word: level for word, level in sorted(meant.items()) if word not in levels}


def _forms(word: str) -> tuple[str, ...]:
    return word, word.lower(), word.upper(), word.capitalize()


def misfits(frame: pl.DataFrame, found: Iterable[Found], with_others: Collection[str]) -> list[str]:
    """Return sentences for the owner on columns whose rows are not what was said.

    Args:
        frame: the rows.
        found: the columns that a draft reads, as :func:`stated`.
        with_others: names of columns of which other values than their levels are read as one more.
    """
    told = []
    for one in found:
        reading = one.reading
        if one.looks is Looks.text or not isinstance(reading, TextReading | Kind):
            continue
        values = as_read(frame, one)
        text = as_read(frame, replace(one, reading=_as_text(reading)))
        unread = text.filter(values.is_null() & text.is_not_null()) if isinstance(reading, TextReading) else text[:0]
        if len(unread):
            whole = bool(one.levels) and f"values that are no whole numbers, in {len(unread):,} rows"
            told.append(f"'{one.name}': {whole or _way(one, unread)}")
            continue
        if not one.values and not one.levels:
            continue
        known = {str(value) for value in one.values or one.levels}
        words = _words(values)
        strange = words.filter(~words.is_in(list(known)))
        if len(strange) == len(words) and len(words) and one.name in with_others:
            told.append(f"no row of column '{one.name}' holds any of its levels; write them as the file does")
        elif len(strange) and one.name not in with_others:
            held = f"other values than {' and '.join(sorted(known))}"
            told.append(f"'{one.name}': {held}; {option('levels')} says which it holds")
    return told


def told_by_rows(rows: Mapping[str, Found], drafted: Mapping[str, Found], covariates: Iterable[str]) -> list[str]:
    """Return what rows would add to a draft of sensitive data, for the owner's eyes.

    Args:
        rows: what columns hold by their rows.
        drafted: the same as :func:`stated`.
        covariates: of the draft.
    """
    told = [
        f"'{name}' holds {rows[name].looks}, so it seems"
        for name, one in drafted.items()
        if one.looks is Looks.unsaid and name in rows
    ]
    whole = [name for name in covariates if drafted[name].nulls and not rows[name].nulls]
    if whole:
        never = option(never_missing=",".join(whole))
        told.append(f"no row lacks a value here; if none ever can, {never} saves noise")
    return told


def _words(values: pl.Series) -> pl.Series:
    """Return the values as text, whole numbers without a point, whichever type holds them."""
    values = values.drop_nulls()
    whole = whole_values(values) if values.dtype.is_float() else values
    return (whole if not whole.null_count() else values).cast(pl.String)


def others(frame: pl.DataFrame, found: Iterable[Found]) -> list[str]:
    """Return how many rows hold none of the levels of a column, for the owner's eyes."""
    told = []
    for one in found:
        known = [str(value) for value in one.values or one.levels]
        words = _words(as_read(frame, one))
        rows = len(words.filter(~words.is_in(known))) if known else 0
        if rows:
            told.append(f"'{one.name}': {rows:,} rows hold none of its levels and are read as '{OTHER}'")
    return told


def _as_text(reading: Kind | TextReading) -> TextReading:
    if isinstance(reading, Kind):
        return TextReading(kind=Kind.text)
    return TextReading(kind=Kind.text, column=reading.column, nulls=reading.nulls)


def example_of(unread: pl.Series) -> str | None:
    """Return how most of some texts write numbers, with other digits; None: they hold none."""
    _, fits, _ = number_reading(unread.unique().to_list(), ",")
    return min(fits, key=lambda word: (-len(word), word)).translate(_MASK) if fits else None


def not_plain(frame: pl.DataFrame, one: Found) -> pl.Series:
    """Return the values of a column that are no plain numbers."""
    text = as_read(frame, replace(one, reading=_as_text(one.reading)))
    return (
        text.filter(text.cast(pl.Float64, strict=False).is_null() & text.is_not_null())
        if text.dtype == pl.String
        else text[:0]
    )


def _way(one: Found, unread: pl.Series) -> str:
    """Say how a column of text may be read, by the reading that most of its values have."""
    if (example := example_of(unread)) is not None:
        way = option(written={one.name: [example]})
        return f"no plain numbers; {way} gives an example of how they are written"
    words = unread.unique().sort().to_list()
    if len(words) <= MOST_ODD_WORDS and not any(re.search(r"\d", word) for word in words):
        return f"no numbers; if they mean a missing value, {option(missing={one.name: words})} says so"
    ways = f"{option('missing')} says which mean none, {option('levels')} lists words"
    return f"values that are no numbers, in {len(unread):,} rows; {ways}"
