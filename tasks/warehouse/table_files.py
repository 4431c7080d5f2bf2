"""Read files of Stata, SPSS and SAS, and sheets of Excel, as one frame each.

Types, dates, value labels and declared missing values are those of the file's header. A sheet has no types: its cells
are text, as those of a CSV file, and are read as source.yaml declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from causalveil.schemas.errors import CausalveilError, DataError, StudyError, in_own_words
from causalveil.schemas.hints import Blank, option
from causalveil.schemas.warehouse import TableFile
from causalveil.tasks.machine.arrays import named
from causalveil.tasks.warehouse.csv_files import MOST_COLUMNS, NO_BYTES, footer_rows, sums_of, title_rows

# Kinds of files by the ends of their names.
ENDINGS = {
    **dict.fromkeys((".dta",), "stata"),
    **dict.fromkeys((".sav", ".zsav", ".por"), "spss"),
    **dict.fromkeys((".sas7bdat", ".xpt"), "sas"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "excel"),
}
PROGRAMS = {"stata": "Stata", "spss": "SPSS", "sas": "SAS", "excel": "Excel"}
_READERS = {
    ".dta": "read_dta",
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
_STORED: dict[str, pl.DataType] = {
    **dict.fromkeys(("int8", "int16", "int32"), pl.Int64()),
    **dict.fromkeys(("float", "double"), pl.Float64()),
}
# A password makes of a workbook an encrypted package in the format of old workbooks.
_OLD_FORMAT = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Records of SAS transport files.
_RECORD = 80


class FileRows(NamedTuple):
    """The rows of a file, and the labels of codes in its header.

    Attributes:
        frame: a column for each unique name; codes are not replaced by their labels.
        labels: by column, the labels of its codes.
        left_out: names that are not unique, and why they are left out.
    """

    frame: pl.DataFrame
    labels: Mapping[str, Mapping[Any, str]]
    left_out: Mapping[str, str]


def table_of(files: TableFile, path: Path, most: int = 0) -> FileRows:
    """Read a file.

    Args:
        files: how it is read.
        path: where it lies.
        most: rows to read of a file with a header of types; 0: all.

    Raises:
        StudyError: the library that reads it is not installed, or no sheet is named among several.
        DataError: it cannot be read; says what to do.
    """
    if not path.stat().st_size:
        raise DataError(f"{path.name}: {NO_BYTES}")
    return _rows(files, _cells(files, path), path) if files.kind == "excel" else _typed(files, path, most)


@lru_cache(maxsize=1)
def _cached(files: TableFile, path: Path, size: int, changed: int) -> pl.DataFrame:
    # A file without an index would be read whole for each block.
    del size, changed
    return labelled(table_of(files, path), files.codes)


def frame_in(files: TableFile, path: Path) -> pl.DataFrame:
    """Return the rows of a file as an extract takes them.

    Labels stand in place of codes, but for the columns ``codes``.

    Raises:
        CausalveilError: as :func:`table_of`.
    """
    status = path.stat()
    return _cached(files, path, status.st_size, status.st_mtime_ns)


def labelled(table: FileRows, codes: tuple[str, ...]) -> pl.DataFrame:
    """Return rows with labels in place of codes, but for the columns ``codes``.

    A code without a label is its own text.
    """
    return table.frame.with_columns(
        _labels(table.frame[name], labels).alias(name)
        for name, labels in table.labels.items()
        if name not in codes and name in table.frame.columns
    )


def _labels(values: pl.Series, labels: Mapping[Any, str]) -> pl.Series:
    codes = values.drop_nulls().unique().to_list()
    texts = [str(labels.get(code, f"{code:.15g}" if isinstance(code, float) else code)).strip() for code in codes]
    return values.replace_strict(codes, [text or None for text in texts], default=None, return_dtype=pl.String)


def in_codes(table: FileRows) -> tuple[str, ...]:
    """Return the labelled columns in which a value has no label, or two values have the same.

    A scale from 0 to 10 may have labels at its ends, and an age a label for "refused".
    """
    columns = []
    for name, labels in table.labels.items():
        values = set(table.frame[name].drop_nulls().unique().to_list())
        if not values <= set(labels) or len({labels[value] for value in values}) < len(values):
            columns.append(name)
    return tuple(columns)


def _library(name: str, kind: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise StudyError(
            f"{PROGRAMS[kind]} files: {name}, which is not installed, reads them; install causalveil[files]"
        ) from None


@contextmanager
def _in_words(path: Path, sentence: Callable[[BaseException], str]) -> Iterator[None]:
    with in_own_words(
        lambda error: error if isinstance(error, CausalveilError) else DataError(f"{path.name}: {sentence(error)}"),
        Exception,
    ):
        yield


def _typed(files: TableFile, path: Path, most: int) -> FileRows:
    """Return the rows of a file of Stata, SPSS or SAS."""
    library, program = _library("pyreadstat", files.kind), PROGRAMS[files.kind]

    def sentence(error: BaseException) -> str:
        if isinstance(error, MemoryError):
            return f"is too large for this machine's memory; keep the columns that the study needs in {program}"
        if isinstance(error, UnicodeError) or "encod" in str(error) or "convert" in str(error).lower():
            return (
                f"its text is not encoded as its header says; give {option('encoding')}, or save it again in {program}"
            )
        if isinstance(error, OSError):
            return "cannot be read by this user; mend its permissions"
        return f"cannot be read as a file of {program}: is it cut off or damaged? Save it again there"

    ending = path.suffix.lower()
    with path.open("rb") as stream:
        transport = stream.read(6) == b"HEADER"
    if transport and path.stat().st_size % _RECORD:
        # The format says nowhere how many rows there are.
        raise DataError(f"{path.name}: {sentence(ValueError())}")
    reader = getattr(library, _READERS.get(ending, _READERS[{"stata": ".dta", "spss": ".sav"}.get(files.kind, ".xpt")]))
    with _in_words(path, sentence):
        options = {} if files.encoding is None else {"encoding": files.encoding}
        frame, header = reader(str(path), row_limit=most, output_format="polars", **options)
        names = [str(name) for name in frame.columns]
        if header.number_rows is not None and not most and frame.height != header.number_rows:
            raise DataError(f"{path.name}: {sentence(ValueError())}")
        kinds = {name: _STORED.get(kind, pl.String()) for name, kind in header.readstat_variable_types.items()}
        # A column without a value has its type by the header.
        columns = [
            named(name) if kind.is_temporal() else named(name).cast(kinds[name]) for name, kind in frame.schema.items()
        ]
        frame = frame.select(columns)
        # An empty text is a missing value, as in a CSV file.
        texts = [named(name).replace("", None) for name in names if frame.schema[name] == pl.String]
        labels = {
            name: dict(texts_by_code)
            for name, texts_by_code in header.variable_value_labels.items()
            if texts_by_code and name in names
        }
        return FileRows(frame.with_columns(texts), labels, {})


def _cells(files: TableFile, path: Path) -> pl.DataFrame:
    """Return all lines of a sheet that are not blank, titles and totals too, as text."""
    library = _library("fastexcel", files.kind)
    with path.open("rb") as stream:
        old = stream.read(8) == _OLD_FORMAT

    def sentence(error: BaseException) -> str:
        if (old and path.suffix.lower() != ".xls") or "password" in str(error).lower():
            return "is protected by a password, or is an old .xls by another name; save it as .xlsx without a password"
        return "cannot be read as a workbook: is it cut off or damaged? Save it again in Excel"

    with _in_words(path, sentence):
        book = library.read_excel(str(path))
        sheets = list(book.sheet_names)
        there = f"there are {', '.join(sheets[:20]) or 'none'}"
        if files.sheet is None and len(sheets) != 1:
            raise StudyError(f"{path.name}: say which sheet: {option(table=Blank('NAME'))}; {there}")
        sheet = files.sheet or sheets[0]
        if sheet not in sheets:
            raise StudyError(f"{path.name}: has no sheet '{sheet}'; {there}")
        cells: pl.DataFrame = book.load_sheet(
            sheet, header_row=None, dtypes="string", skip_whitespace_tail_rows=True
        ).to_polars()
    if cells.width > MOST_COLUMNS:
        raise DataError(f"{path.name}: has more than {MOST_COLUMNS:,} columns; keep those that the study needs")
    cells = cells.select(pl.all().str.strip_chars().replace("", None))
    return cells.filter(pl.any_horizontal(pl.all().is_not_null()))


def _rows(files: TableFile, cells: pl.DataFrame, path: Path) -> FileRows:
    """Return the rows of a sheet's table, without the lines above and below it."""
    lines = cells[files.skip_lines : cells.height - files.skip_end]
    if lines.height < 2:
        raise DataError(
            f"{path.name}: has no row below a header; is this the sheet? {option(table=Blank('NAME'))} says which"
        )
    names = [" ".join((name or "").split()) for name in lines.row(0)]
    columns = [lines.to_series(place)[1:] for place in range(lines.width)]
    left_out = {
        name or "(no name)": "stands twice in the header; give each its own name" if name else "has no name"
        for name, values in zip(names, columns, strict=True)
        if names.count(name) > 1 or (not name and values.null_count() < len(values))
    }
    unique = {name: values for name, values in zip(names, columns, strict=True) if name and names.count(name) == 1}
    if not unique:
        raise DataError(f"{path.name}: no column has a name of its own; mend the header")
    return FileRows(pl.DataFrame(unique), {}, left_out)


def layout_of(files: TableFile, path: Path, *, by_header: bool = False) -> TableFile:
    """Return a sheet with its numbers of lines above the header and below the last row.

    Args:
        files: the sheet.
        path: the workbook.
        by_header: whether rows have no part in it, as of sensitive data; then no line below is left out.

    Raises:
        DataError: the sheet ends in a total, which rows alone show.
    """
    cells = _cells(files, path)
    lines = [[cell or "" for cell in line] for line in cells.iter_rows()]
    filled = [sum(map(bool, line)) for line in lines[:31]]
    above = next((place for place, count in enumerate(filled) if count > 1), 0) if by_header else title_rows(filled)
    below = footer_rows(lines[above + 1 :][-400:])
    sheet = files.model_copy(update={"skip_lines": above, "skip_end": below})
    if not below and sums_of(_rows(sheet, cells, path).frame):
        sheet = sheet.model_copy(update={"skip_end": 1})
    if sheet.skip_end and by_header:
        raise DataError(f"{path.name}: ends in a total or a note, which is no row; take it out of the sheet")
    return sheet
