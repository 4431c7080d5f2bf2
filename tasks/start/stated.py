"""Describe columns of sensitive data by options, names and types alone, not by rows.

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
from causalveil.tasks.start.options import WHOLE, after_name
from causalveil.tasks.start.recognise import MOST_ODD_WORDS, Looks, Profile, as_read, text_reading
from causalveil.tasks.start.roles import Wishes, column_of, named_levels
from causalveil.tasks.start.words import FEMALE, MALE, NO, YES, date_reading, number_reading

# Words for missing values, in every column of text that has no such level.
NULLS = ("NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "Null", "null", "#N/A", ".", "-", "?")
# Who was treated, and whether an event came, where no option says by which words.
_NO_YES = ("no", "yes")
_SAME_WORDS = ((YES, NO), (FEMALE, MALE))
# An example must not show a person's digits.
_MASK = str.maketrans("23456789", "11111111")


def stated(types: Mapping[str, pl.DataType], wishes: Wishes) -> dict[str, Profile]:
    """Return the columns by their types and the owner's statements.

    Args:
        types: of the columns, by their names in the source.
        wishes: the owner's statements.

    Raises:
        StudyError: a name is no column, or an example is neither a number nor a date.
    """
    bare = {(tidy := " ".join(name.split())): Profile(tidy, name, Looks.unsaid, Kind.text, 0, 0) for name in types}
    statements = _Said(bare, wishes)
    return {name: statements.column(column, types[column.source_name]) for name, column in bare.items()}


class _Said:
    """Statements of the owner, by the names of columns."""

    def __init__(self, bare: Mapping[str, Profile], wishes: Wishes) -> None:
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

    def column(self, bare: Profile, kind: pl.DataType) -> Profile:
        """Return one column."""
        column = replace(bare, nulls=int(bare.name not in self.never))
        text = kind.base_type() in (pl.String, pl.Categorical, pl.Enum)
        typed = _kind(kind)
        if typed is None and not text:
            return replace(column, looks=Looks.unread)
        if column.name == self.unit:
            looks = Looks.number if typed is Kind.integer else Looks.text
            return replace(column, looks=looks, unique=True, reading=self._reading(column, typed or Kind.text, text))
        levels = named_levels(column, self.levels[column.name])[0] if column.name in self.levels else ()
        if not levels and column.name in self.coded and column.name not in self.ranges:
            levels = _NO_YES if text else ("0", "1") if typed in (Kind.integer, Kind.number) else ()
        if levels and typed is not Kind.boolean:
            return self._of_levels(column, levels, typed, text=text)
        if typed is Kind.boolean:
            both = (False, True)
            return replace(
                column, looks=Looks.binary, values=both, distinct=2, reading=self._reading(column, typed, text)
            )
        if typed in (Kind.date, Kind.timestamp):
            return replace(column, looks=Looks.date, reading=self._reading(column, typed, text))
        if typed is None and column.name not in self.numbers:
            return column
        reading = self._example(column) if text else self._reading(column, typed or Kind.number, text)
        column = replace(column, looks=Looks.number, reading=reading)
        return replace(column, looks=Looks.date) if column.kind is Kind.date else column

    def _of_levels(self, column: Profile, levels: tuple[str, ...], typed: Kind | None, *, text: bool) -> Profile:
        whole = all(WHOLE.fullmatch(level) for level in levels)
        values = tuple(int(level) for level in levels) if whole else levels
        looks = Looks.binary if len(values) == 2 else Looks.number if whole else Looks.category
        if typed is not None and not whole:
            raise StudyError(
                f"{option('levels')}: column '{column.name}' holds numbers by its type; give whole numbers as levels"
            )
        reading = self._reading(column, Kind.integer if whole else Kind.text, text)
        if isinstance(reading, TextReading) and not whole:
            nulls = tuple(word for word in reading.nulls if word not in levels)
            reading = reading.model_copy(update={"nulls": nulls, "spellings": _spellings(levels)})
        return replace(
            column, looks=looks, reading=reading, distinct=len(values), values=values, levels=tuple(sorted(values))
        )

    def _reading(self, column: Profile, kind: Kind, text: bool) -> Kind | TextReading:
        words = self.missing.get(column.name, ())
        if not text and column.name == column.source_name and not words:
            return kind
        # A number that stands for no value may be written with a point, as its type has it.
        spelt = words if text else tuple(form for word in words for form in (word, f"{word}.0"))
        nulls = tuple(dict.fromkeys((*(NULLS if text and column.name != self.unit else ()), *spelt)))
        return text_reading(column.name, column.source_name, kind, nulls)

    def _example(self, column: Profile) -> Kind | TextReading:
        """Return the reading of a column of text by its examples; without any, of plain numbers."""
        plain = self._reading(column, Kind.number, True)
        examples = [word.strip() for word in self.written.get(column.name, ())]
        if not examples or not isinstance(plain, TextReading):
            return plain
        for read in (number_reading(examples, ","), date_reading(examples)):
            if read[0] is not None and read[1] == set(examples):
                kind = Kind.date if read[0].formats else Kind.number
                return read[0].model_copy(update={"kind": kind, "column": plain.column, "nulls": plain.nulls})
        raise StudyError(
            f"{option('written')}: an example of column '{column.name}' is no number and no date, as in 1.234,56"
        )


def _kind(kind: pl.DataType) -> Kind | None:
    """Return the kind of a typed column; None for text, and for types that studies do not read."""
    if kind.is_integer() or (isinstance(kind, pl.Decimal) and not kind.scale):
        return Kind.integer
    if kind.is_numeric():
        return Kind.number
    kinds = {pl.Boolean: Kind.boolean, pl.Date: Kind.date, pl.Datetime: Kind.timestamp}
    return kinds.get(kind.base_type())


def _spellings(levels: tuple[str, ...]) -> dict[str, str]:
    """Return other spellings of levels: by case, and synonyms of yes and no, female and male."""
    meant = {form: level for level in levels for form in _forms(level)}
    for first_words, second_words in _SAME_WORDS:
        first = [level for level in levels if level.casefold() in first_words]
        second = [level for level in levels if level.casefold() in second_words]
        if len(first) == len(second) == 1 and len(levels) == 2:
            for words, (level,) in ((first_words, first), (second_words, second)):
                meant = {form: level for word in sorted(words) for form in _forms(word)} | meant
    return {word: level for word, level in sorted(meant.items()) if word not in levels}


def _forms(word: str) -> tuple[str, ...]:
    return word, word.lower(), word.upper(), word.capitalize()


def misfits(frame: pl.DataFrame, columns: Iterable[Profile], with_others: Collection[str]) -> list[str]:
    """Return sentences for the owner on columns whose rows contradict the options.

    Args:
        frame: the rows.
        columns: the columns that a draft reads, as :func:`stated`.
        with_others: names of columns whose values beyond their levels are read as one more level.
    """
    sentences = []
    for column in columns:
        reading = column.reading
        if column.looks is Looks.text or not isinstance(reading, TextReading | Kind):
            continue
        values = as_read(frame, column)
        text = as_read(frame, replace(column, reading=_as_text(reading)))
        unread = text.filter(values.is_null() & text.is_not_null()) if isinstance(reading, TextReading) else text[:0]
        if len(unread):
            whole = bool(column.levels) and f"values that are no whole numbers, in {len(unread):,} rows"
            sentences.append(f"'{column.name}': {whole or _way(column, unread)}")
            continue
        if not column.values and not column.levels:
            continue
        declared = {str(value) for value in column.values or column.levels}
        held = _words(values)
        strange = held.filter(~held.is_in(list(declared)))
        if len(strange) == len(held) and len(held) and column.name in with_others:
            sentences.append(f"no row of column '{column.name}' holds any of its levels; write them as the file does")
        elif len(strange) and column.name not in with_others:
            problem = f"other values than {' and '.join(sorted(declared))}"
            sentences.append(f"'{column.name}': {problem}; {option('levels')} says which it holds")
    return sentences


def told_by_rows(rows: Mapping[str, Profile], drafted: Mapping[str, Profile], covariates: Iterable[str]) -> list[str]:
    """Return facts of the rows that a draft of sensitive data leaves out, for the owner alone.

    Args:
        rows: the columns by their rows.
        drafted: the columns as :func:`stated`.
        covariates: of the draft.
    """
    sentences = [
        f"'{name}' holds {rows[name].looks}, so it seems"
        for name, column in drafted.items()
        if column.looks is Looks.unsaid and name in rows
    ]
    whole = [name for name in covariates if drafted[name].nulls and not rows[name].nulls]
    if whole:
        never = option(never_missing=",".join(whole))
        sentences.append(f"no row lacks a value here; if none ever can, {never} saves noise")
    return sentences


def _words(values: pl.Series) -> pl.Series:
    """Return the values as text, whole numbers without a point, whichever type holds them."""
    values = values.drop_nulls()
    whole = whole_values(values) if values.dtype.is_float() else values
    return (whole if not whole.null_count() else values).cast(pl.String)


def others(frame: pl.DataFrame, columns: Iterable[Profile]) -> list[str]:
    """Return how many rows hold none of the levels of a column, for the owner alone."""
    sentences = []
    for column in columns:
        declared = [str(value) for value in column.values or column.levels]
        held = _words(as_read(frame, column))
        rows = len(held.filter(~held.is_in(declared))) if declared else 0
        if rows:
            sentences.append(f"'{column.name}': {rows:,} rows hold none of its levels and are read as '{OTHER}'")
    return sentences


def _as_text(reading: Kind | TextReading) -> TextReading:
    if isinstance(reading, Kind):
        return TextReading(kind=Kind.text)
    return TextReading(kind=Kind.text, column=reading.column, nulls=reading.nulls)


def example_of(unread: pl.Series) -> str | None:
    """Return an example of how texts write numbers, with other digits; None if they hold none."""
    _, fits, _ = number_reading(unread.unique().to_list(), ",")
    return min(fits, key=lambda word: (-len(word), word)).translate(_MASK) if fits else None


def not_plain(frame: pl.DataFrame, column: Profile) -> pl.Series:
    """Return the texts of a column that are no plain numbers."""
    text = as_read(frame, replace(column, reading=_as_text(column.reading)))
    return (
        text.filter(text.cast(pl.Float64, strict=False).is_null() & text.is_not_null())
        if text.dtype == pl.String
        else text[:0]
    )


def _way(column: Profile, unread: pl.Series) -> str:
    """Say how a column of text may be read, by the form of most of its values."""
    if (example := example_of(unread)) is not None:
        as_option = option(written={column.name: [example]})
        return f"no plain numbers; {as_option} gives an example of how they are written"
    words = unread.unique().sort().to_list()
    if len(words) <= MOST_ODD_WORDS and not any(re.search(r"\d", word) for word in words):
        return f"no numbers; if they mean a missing value, {option(missing={column.name: words})} says so"
    ways = f"{option('missing')} says which mean none, {option('levels')} lists words"
    return f"values that are no numbers, in {len(unread):,} rows; {ways}"
