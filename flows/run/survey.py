"""A sample of a source with its recognised columns, and the rows of it that a draft counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from pathlib import Path

import polars as pl

from causalveil.schemas.contract import DataClass
from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.hints import option
from causalveil.schemas.warehouse import CsvFiles, DuckDb, ParquetFiles, TableFile, TextReading
from causalveil.tasks.machine.arrays import values_of
from causalveil.tasks.start.options import WHOLE, read_as_missing
from causalveil.tasks.start.recognise import Looks, Profile, as_read, counted_again, recognise
from causalveil.tasks.start.roles import USABLE, Cast, Wishes, cast
from causalveil.tasks.start.stated import stated
from causalveil.tasks.warehouse.read_files import by_name
from causalveil.tasks.warehouse.sample import Sample, by_header, sample_of

# The column of row numbers, where each row is a unit.
ROW = "row"


@dataclass(frozen=True)
class Survey:
    """A sample and its columns, by the names that a draft gives them.

    ``options``: encoding and delimiter, where the user stated them.
    """

    sample: Sample
    columns: dict[str, Profile]
    options: dict[str, str | None] = field(default_factory=dict)

    @property
    def frame(self) -> pl.DataFrame:
        """The rows of the sample, columns under their names in the source."""
        return self.sample.frame

    def values(self, column: Profile) -> pl.Series:
        """Return a column as its reading makes it."""
        return as_read(self.frame, column)

    def ids(self, unit: Profile) -> pl.Series:
        """Return the units' ids of all rows that have one."""
        return values_of(self.frame, unit.source_name).drop_nulls()

    def on(self, frame: pl.DataFrame, columns: dict[str, Profile] | None = None) -> Survey:
        """Return the survey with other rows, and with other columns where these are given."""
        return replace(
            self, sample=replace(self.sample, frame=frame), columns=self.columns if columns is None else columns
        )

    @property
    def file_names(self) -> tuple[str, ...]:
        """The names of the source's files; none of a source that is no folder of files."""
        source = self.sample.source
        return tuple(by_name(source, Path())) if isinstance(source, CsvFiles | ParquetFiles) else ()


def survey(
    where: str,
    *,
    table: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    as_text: Collection[str] | None = None,
) -> Survey:
    """Look at a file, a folder or a database (see :func:`tasks.warehouse.sample.sample_of`).

    ``as_text``: columns of a CSV file that stay text; numbers and dates of all others are kept as they are read, which
    takes half the memory. None: all stay text.
    """
    text_columns = None if as_text is None else {_tidy(name) for name in as_text}
    surveyed = survey_of(sample_of(where, table=table, encoding=encoding, delimiter=delimiter), text_columns)
    return replace(surveyed, options={"encoding": encoding, "delimiter": delimiter})


def _tidy(name: str) -> str:
    return " ".join(name.split()).casefold()


def survey_of(sample: Sample, as_text: Collection[str] | None = None) -> Survey:
    """Return a sample with its columns recognised; ``as_text`` as of :func:`survey`."""
    remaining, columns, series = sample.frame.get_columns()[::-1], dict[str, Profile](), list[pl.Series]()
    of_text, separator = isinstance(sample.source, CsvFiles) and as_text is not None, _separator(sample)
    # Text is let go column by column.
    sample = replace(sample, frame=sample.frame.clear())
    while remaining:
        values = remaining.pop()
        column = recognise(values.name, values, delimiter=separator)
        if of_text and column.looks in (Looks.number, Looks.date) and _tidy(column.name) not in (as_text or ()):
            values = as_read(values.to_frame(), column).alias(column.source_name)
        series.append(values)
        notes = (sample.label_notes[column.source_name],) if column.source_name in sample.label_notes else ()
        columns[column.name] = replace(column, notes=(*column.notes, *notes))
    return Survey(replace(sample, frame=pl.DataFrame(series)), columns)


def _separator(sample: Sample) -> str:
    return sample.source.delimiter if isinstance(sample.source, CsvFiles) else ","


def without_missing(survey: Survey, missing: Mapping[str, tuple[str, ...]]) -> Survey:
    """Return the survey in which some values of columns, such as 999, are missing values.

    Raises:
        StudyError: there is no such column, or no row of it holds such a value.
    """
    return survey.on(*read_as_missing(survey.frame, survey.columns, missing, _separator(survey.sample)))


def numbered(survey: Survey) -> Survey:
    """Return the survey with a column of row numbers, where each row is a unit without a name.

    Raises:
        StudyError: the source has a column of that name, or keeps no order of its rows.
    """
    sample = _with_numbers(survey.sample)
    return replace(survey, sample=sample, columns={ROW: recognise(ROW, sample.frame[ROW]), **survey.columns})


def _with_numbers(sample: Sample) -> Sample:
    if not isinstance(sample.source, CsvFiles | ParquetFiles | TableFile | DuckDb):
        raise StudyError(
            f"{option('each_row')} is for files, whose rows have an order; add a column of ids, named by "
            f"{option('unit')}"
        )
    if ROW in sample.frame.columns:
        way = f"name it by {option('unit')} if it tells rows apart"
        raise StudyError(f"{option('each_row')}: there is a column '{ROW}' already; {way}")
    frame = sample.frame.with_row_index(ROW, offset=1).cast({ROW: pl.Int64})
    change = {"row_number": ROW}
    if isinstance(sample.source, DuckDb):
        change = {"query": f'SELECT row_number() OVER () AS "{ROW}", * FROM ({sample.source.query})'}
    return replace(sample, frame=frame, source=sample.source.model_copy(update=change))


def as_stated(survey: Survey, wishes: Wishes) -> tuple[Survey, Survey]:
    """Return a sensitive table with its rows, and as its owner's statements describe it.

    The second has no row, so a draft from it depends on no row.

    Raises:
        StudyError: a name is no column.
        DataError: the file cannot be read as its owner stated.
    """
    labelled = {
        name
        for name, levels in wishes.levels.items()
        if not all(WHOLE.fullmatch(level.rpartition(":")[2]) for level in levels)
    }
    sample = by_header(survey.sample, survey.options.get("encoding"), survey.options.get("delimiter"), labelled)
    if ROW in survey.columns and ROW not in sample.frame.columns:
        sample = _with_numbers(sample)
    columns = stated(sample.frame.schema, wishes)
    rows = replace(survey_of(sample), options=survey.options)
    return rows, Survey(replace(sample, frame=sample.frame.clear()), columns, survey.options)


def rows_that_count(survey: Survey, parts: Cast, wishes: Wishes) -> tuple[Survey, Cast]:
    """Return the rows that an extract will take, and the columns as these rows have them.

    A total line has no id. Rows without a treatment or an outcome are left out where the draft leaves them out.

    Raises:
        DataError: no row counts.
    """
    needed = [column for column in (parts.unit, *parts.recorded) if column.nulls]
    if not needed or wishes.data_class is DataClass.sensitive:
        return survey, parts
    counts = reduce(and_, (survey.values(column).is_not_null() for column in needed))
    if not counts.any():
        raise DataError("no row has a unit, a treatment and an outcome; are the right columns named?")
    # Counts of missing values stay those of all rows, which the extract meets.
    of_all_rows = {column.name for column in (*needed, parts.unit, parts.treatment, parts.outcome)}
    series, columns = list[pl.Series](), dict[str, Profile]()
    for name, column in survey.columns.items():
        values = values_of(survey.frame, column.source_name)
        of_text = isinstance(survey.sample.source, CsvFiles) and isinstance(column.reading, TextReading)
        if (of_text or values.dtype == pl.String) and column.looks in (Looks.number, Looks.date):
            # Read once, by the reading that all rows need.
            read = survey.values(column).filter(counts)
            again, values = counted_again(column, read), values.filter(counts) if name == parts.unit.name else read
        else:
            values = values.filter(counts)
            again = recognise(column.source_name, values, delimiter=_separator(survey.sample))
        series.append(values.alias(column.source_name))
        if again.looks is column.looks:
            nulls = column.nulls if name in of_all_rows else again.nulls
            columns[name] = replace(again, reading=column.reading, notes=column.notes, nulls=nulls)
        else:
            # Too few rows were left to recognise it again.
            columns[name] = column
    return survey.on(pl.DataFrame(series), columns), cast(columns, wishes)


def read_once(survey: Survey, parts: Cast) -> Survey:
    """Return the survey with all values read, which later readings leave as they are."""
    columns = [
        column
        for column in survey.columns.values()
        if column.looks in (*USABLE, Looks.date) and column.name != parts.unit.name
    ]
    return survey.on(survey.frame.with_columns(survey.values(column).alias(column.source_name) for column in columns))
