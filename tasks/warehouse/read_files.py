"""Read files as a source of an extract: Parquet, CSV, and tables of other programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyarrow import types

from causalveil.schemas.documents import is_stored
from causalveil.schemas.errors import CausalveilError, DataError, in_own_words, kind_of
from causalveil.schemas.warehouse import (
    CsvFiles,
    Files,
    Kind,
    Manifest,
    Source,
    SourceFile,
    Step,
    TableFile,
    TextReading,
)
from causalveil.tasks.data.partitions import NO_VALUE, contradictions, values_in
from causalveil.tasks.machine.arrays import frame_of, plain_type
from causalveil.tasks.machine.folders import refuse_log_in, refuse_open_table
from causalveil.tasks.machine.object_storage import StoredFile, arrow_place, opened, stored_files
from causalveil.tasks.warehouse.csv_files import NO_BYTES, csv_input
from causalveil.tasks.warehouse.extract import EVERYTHING, KEYLESS, KeyInterval
from causalveil.tasks.warehouse.table_files import frame_in
from causalveil.tasks.warehouse.values import BATCH_ROWS, holds, led, respelled, value_of

if TYPE_CHECKING:
    import pyarrow.compute as pc


_DOUBTS = {
    "csv": "is a quote left open, or a value not of its declared kind?",
    "parquet": "is it truncated, damaged or encrypted?",
}


@contextmanager
def _reading(source: Source, files: Files, path: Path | StoredFile) -> Iterator[None]:
    """Name a file in errors of its reader, whose own texts may quote rows.

    Raises:
        DataError: the file cannot be read as it is declared.
        CausalveilError: of a stored file, see :func:`opened`.
    """

    def renamed(error: BaseException) -> DataError:
        if path.size == 0 if isinstance(path, StoredFile) else os.path.exists(path) and not os.path.getsize(path):
            why = NO_BYTES
        elif isinstance(error, pa.ArrowException | UnicodeError):
            why = f"cannot be read as {files.kind}: {_DOUBTS.get(files.kind, 'is it damaged?')} Write the file again"
        else:
            why = f"cannot be read ({kind_of(error)})"
        return DataError(f"source '{source.name}': {path.name}: {why}")

    # Of a store that does not answer Arrow's error is an OSError too.
    kinds = () if isinstance(path, StoredFile) else (OSError,)
    with opened(path), in_own_words(renamed, pa.ArrowException, UnicodeError, *kinds):
        yield


@contextmanager
def file_batches(
    source: Source,
    files: Files,
    place: Path,
    schema: pa.Schema,
    interval: KeyInterval | None,
    among: Collection[str] | None = None,
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield the rows of one block in batches; row groups that cannot hold any are skipped.

    Args:
        source: the declaration.
        files: its part that names the folder.
        place: the folder that the path is relative to.
        schema: of the declared columns.
        interval: the block; None: no rows.
        among: the files to read, by :func:`by_name`; None: all.

    Raises:
        DataError: a file lacks a column. (A data set's reader alone would fill it with nulls.)
        CausalveilError: no such folder, or no such file in it.
    """
    paths = [path for name, path in by_name(files, place).items() if among is None or name in among]
    if not paths:
        where = files.path if is_stored(files.path) else place / files.path
        raise CausalveilError(f"source '{source.name}': no {files.kind} file in {where}")
    constants = [folder_values(files, place, path) for path in paths]
    stored = [_file_schema(source, files, path, values) for path, values in zip(paths, constants, strict=True)]
    read = [_read_schema(source, files, schema, columns) for columns in stored]
    rows: Iterator[pa.RecordBatch] = iter(())
    if interval is None:
        pass
    elif isinstance(files, CsvFiles):
        local = [path for path in paths if isinstance(path, Path)]
        rows = _csv_batches(source, files, local, read[0], _block(source, read[0], interval))
    elif files.row_number is None:
        rows = _parquet_batches(zip(paths, read, stored, constants, strict=True), source, files, interval)
    else:
        # Rows are numbered before any is left out.
        field = read[0].field(files.row_number)
        unnumbered = [pa.schema([column for column in columns if column.name != field.name]) for columns in read]
        every = _parquet_batches(zip(paths, unnumbered, stored, constants, strict=True), source, files, None)
        rows = _all_numbered(every, field, _block(source, read[0], interval))
    yield led(read[0], rows)


def _parquet_batches(
    read: Iterable[tuple[Path | StoredFile, pa.Schema, pa.Schema, dict[str, str]]],
    source: Source,
    files: Files,
    interval: KeyInterval | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files in turn, in their stored types; interval None: of all blocks.

    ``read``: of each file the columns to read, those that it has, and values by the names of its folders. A column in
    the names of folders alone, as Spark and Hive leave it, has a single value in each file.

    Raises:
        DataError: a file contradicts its folder.
    """
    import pyarrow.dataset as ds

    for path, schema, present, constants in read:
        stored = pa.schema([field for field in schema if present.get_field_index(field.name) >= 0])
        with _reading(source, files, path):
            data = (
                ds.dataset(_table(files, path).select(stored.names))
                if isinstance(files, TableFile) and isinstance(path, Path)
                else ds.dataset(**arrow_place(path), schema=stored, format="parquet")
            )
            written = _written_key(source, stored)
            chosen = None if interval is None or written else _chosen(source, stored, interval)
            of_block = _block(source, stored, EVERYTHING if interval is None or not written else interval)
            for batch in data.scanner(filter=chosen, batch_size=BATCH_ROWS, use_threads=False).to_batches():
                refuse_contradictions(path, batch, constants)
                yield _filled(of_block(batch), schema, constants)


def _table(files: TableFile, path: Path) -> pa.Table:
    return frame_in(files, path).to_arrow(compat_level=pl.CompatLevel.oldest())


def _filled(batch: pa.RecordBatch, schema: pa.Schema, constants: Mapping[str, str]) -> pa.RecordBatch:
    if batch.schema.names == schema.names:
        return batch
    values = {name: None if value == NO_VALUE else value for name, value in constants.items()}
    arrays = [
        batch.column(name) if name in batch.schema.names else pa.array([values[name]] * batch.num_rows, pa.string())
        for name in schema.names
    ]
    return pa.record_batch(arrays, names=schema.names)


def folder_values(files: Files, place: Path, path: Path | StoredFile) -> dict[str, str]:
    """Return the values by folders ``name=value`` above a Parquet file; none of CSV."""
    if files.kind != "parquet":
        return {}
    if isinstance(path, StoredFile):
        return values_in(PurePosixPath(path.path).relative_to(path.root or path.path).parent)
    folder = place / files.path
    return values_in(PurePosixPath(path.relative_to(folder).parent)) if path != folder else {}


def refuse_contradictions(
    path: Path | StoredFile, batch: pa.RecordBatch | pa.Table, constants: Mapping[str, str]
) -> None:
    """Refuse rows that contradict the folder of their file.

    Raises:
        DataError: names the column, and no value.
    """
    stored = {name: value for name, value in constants.items() if batch.schema.get_field_index(name) >= 0}
    if not stored:
        return
    for name, rows in contradictions(frame_of(batch, list(stored)), stored).items():
        if rows:
            raise DataError(
                f"{path.name}: column '{name}' says otherwise than the folder '{name}=...' that the file lies in; "
                "move the file, or take the column out of it"
            )


def _chosen(source: Source, schema: pa.Schema, interval: KeyInterval) -> pc.Expression | None:
    """Return the expression that selects the rows of the block; None: all."""
    import pyarrow.compute as pc

    if source.key is None or interval == EVERYTHING:
        return None
    if interval == KEYLESS:
        return pc.field(source.key.column).is_null(nan_is_null=True)
    type_ = schema.field(source.key.column).type
    lower, upper = (pa.scalar(_edge(edge, type_), type_) for edge in (interval.lower, interval.upper))
    key = pc.field(source.key.column)
    return (key >= lower) & (key < upper)


def _written_key(source: Source, schema: pa.Schema) -> bool:
    """Return whether the column of the key holds text, which its declaration reads."""
    if source.key is None or schema.get_field_index(source.key.column) < 0:
        return False
    stored = schema.field(source.key.column).type
    return bool(types.is_string(stored) or types.is_large_string(stored))


def _block(source: Source, schema: pa.Schema, interval: KeyInterval) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return the filter for rows of the block.

    Raises:
        DataError: the key's column is text that no declared column reads as dates or whole numbers.
    """
    key = source.key
    if key is None or interval == EVERYTHING or not _written_key(source, schema):
        chosen = _chosen(source, schema, interval)
        return lambda batch: batch if chosen is None else batch.filter(chosen)
    whole = key.step is Step.integer
    wanted = (Kind.integer,) if whole else (Kind.date, Kind.timestamp)
    declared = (source.columns[name] for name, column in source.found_as.items() if column == key.column)
    readings = [kind for kind in declared if isinstance(kind, TextReading) and kind.kind in wanted]
    if not readings:
        steps = "whole numbers" if whole else "dates"
        how = "kind: integer" if whole else "kind: date and the formats"
        raise DataError(
            f"source '{source.name}': column '{key.column}' of the key is text; declare it under 'columns' with {how} "
            f"that make it {steps}"
        )
    reading = readings[0]

    def of_block(batch: pa.RecordBatch) -> pa.RecordBatch:
        text = frame_of(batch, [key.column]).rename({key.column: "text"})
        values = text.select(value=value_of(respelled(reading), reading))["value"].cast(pl.Int64 if whole else pl.Date)
        if interval == KEYLESS:
            return batch.filter(values.is_null().to_arrow())
        lower, upper = pl.lit(interval.lower), pl.lit(interval.upper)
        inside = values.to_frame().select(((pl.col("value") >= lower) & (pl.col("value") < upper)).fill_null(False))
        return batch.filter(inside["value"].to_arrow())

    return of_block


def _csv_batches(
    source: Source,
    files: CsvFiles,
    paths: list[Path],
    schema: pa.Schema,
    of_block: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the declared columns alone: names of other columns may be missing or repeated."""
    numbers = files.row_number
    types = {field.name: field.type for field in schema if field.name != numbers}
    options = pyarrow.csv.ConvertOptions(
        column_types=types, include_columns=list(types), strings_can_be_null=True, null_values=[""]
    )
    reading, parsing = csv_options(files)

    def stored() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with (
                _reading(source, files, path),
                pyarrow.csv.open_csv(csv_input(path, files), reading, parsing, options) as reader,
            ):
                yield from reader

    if numbers is not None:
        yield from _all_numbered(stored(), schema.field(numbers), of_block)
        return
    yield from map(of_block, stored())


def _all_numbered(
    batches: Iterator[pa.RecordBatch], field: pa.Field, of_block: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the block with their numbers in all batches."""
    rows = 0
    for batch in batches:
        numbers = pa.array(range(rows + 1, rows + batch.num_rows + 1), pa.int64())
        rows += batch.num_rows
        yield of_block(batch.append_column(field, numbers.cast(field.type)))


def files_of(files: Files, place: Path) -> Sequence[Path | StoredFile]:
    """Return the files of a source, here or in object storage, as :func:`paths_of`.

    Raises:
        DataError: they are an open table's.
        CausalveilError: a store does not answer, or has nothing there.
    """
    return stored_files(files.path, files.kind) if is_stored(files.path) else paths_of(files, place)


def by_name(files: Files, place: Path) -> dict[str, Path | StoredFile]:
    """Return the files of a source by their paths in its folder; a file alone is ``.``.

    Raises:
        CausalveilError: as :func:`files_of`.
    """
    folder = place / files.path
    return {
        (
            PurePosixPath(path.path).relative_to(path.root or path.path)
            if isinstance(path, StoredFile)
            else path.relative_to(folder)
        ).as_posix(): path
        for path in files_of(files, place)
    }


@dataclass(frozen=True)
class SourceChanges:
    """Files of a source as they lie there now, and what changed since an extract that ended.

    Attributes:
        files: size and time of each; empty for a source of no files.
        new, changed, gone: names of files that it did not read, that were written since, and that are missing.
    """

    files: dict[str, SourceFile]
    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def changes_since(source: Source, place: Path, before: Manifest | None) -> SourceChanges:
    """Compare the files of a source with those that an extract read; no file is opened.

    Size and time of change are compared; the manifest of an earlier version may list no files.

    Raises:
        CausalveilError: the files cannot be listed.
    """
    if not isinstance(source.source, Files):
        return SourceChanges({})
    with in_own_words(
        lambda error: CausalveilError(f"source '{source.name}': its files cannot be listed ({kind_of(error)})"),
        OSError,
    ):
        now = {name: _status(path) for name, path in by_name(source.source, place).items()}
    earlier = {} if before is None else before.source_files
    return SourceChanges(
        now,
        new=tuple(name for name in now if name not in earlier),
        changed=tuple(name for name in now if name in earlier and earlier[name] != now[name]),
        gone=tuple(name for name in earlier if name not in now),
    )


def named_files(names: tuple[str, ...]) -> str:
    """Return the names of files for a line, the first ten of them."""
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _status(path: Path | StoredFile) -> SourceFile:
    if isinstance(path, StoredFile):
        return SourceFile(size=path.size, modified=path.modified)
    status = path.stat()
    return SourceFile(size=status.st_size, modified=status.st_mtime_ns)


def paths_of(files: Files, place: Path) -> list[Path]:
    """List the files of a source in order of names: the file that it names, or its folder's.

    Raises:
        DataError: they are an open table's.
    """
    folder = place / files.path
    refuse_open_table(folder)
    if folder.is_file():
        return [folder]
    paths = sorted(path for path in folder.rglob(f"*.{files.kind}") if path.is_file() and not _hidden(path, folder))
    for below in sorted({parent for path in paths for parent in path.parents if parent.is_relative_to(folder)}):
        refuse_log_in(below)
    return paths


def _file_schema(source: Source, files: Files, path: Path | StoredFile, constants: Mapping[str, str]) -> pa.Schema:
    """Return the columns of a file, from its footer or its header line.

    Each declared column is there or in a name of its folders, where only text and values of text can stand, and no key.

    Raises:
        DataError: a column is missing, there twice, or of another kind.
    """
    in_folders = {
        source.found_as[name]
        for name, kind in source.columns.items()
        if source.found_as[name] in constants and (isinstance(kind, TextReading) or kind is Kind.text)
    }
    if isinstance(files, TableFile) and isinstance(path, Path):
        schema = _table(files, path).schema
    elif not isinstance(files, CsvFiles) or isinstance(path, StoredFile):
        where = arrow_place(path)
        with _reading(source, files, path):
            schema = pyarrow.parquet.read_schema(where["source"], filesystem=where["filesystem"])
    else:
        reading, parsing = csv_options(files)
        with (
            _reading(source, files, path),
            pyarrow.csv.open_csv(csv_input(path, files), read_options=reading, parse_options=parsing) as reader,
        ):
            schema = reader.schema
    numbers = files.row_number
    if numbers is not None and schema.get_field_index(numbers) >= 0:
        raise DataError(
            f"source '{source.name}': {path.name} has a column '{numbers}' of its own; name another 'row_number'"
        )
    for name in _names(source):
        if name == numbers:
            continue
        if schema.get_field_index(name) < 0 and name not in in_folders:
            raise DataError(f"source '{source.name}': {path.name} has no column '{name}' (or has it twice)")
    if not isinstance(files, CsvFiles):
        _check_kinds(source, path, schema)
    return schema


def _check_kinds(source: Source, path: Path | StoredFile, schema: pa.Schema) -> None:
    """Check that a file's type of each column may be stored as its declared kind."""
    for name, kind in source.kinds.items():
        if schema.get_field_index(source.found_as[name]) < 0:
            # It is the number of a row, or in the name of a folder.
            continue
        type_ = schema.field(source.found_as[name]).type
        if not isinstance(source.columns[name], TextReading) and not holds(plain_type(type_), kind):
            raise DataError(
                f"source '{source.name}': {path.name} has column '{name}' as {type_}, which was declared {kind}; "
                "write the file again, or declare what it is now"
            )


def _read_schema(source: Source, files: Files, schema: pa.Schema, stored: pa.Schema) -> pa.Schema:
    """Return the types to read as: the file's own, for CSV the declared ones."""
    if not isinstance(files, CsvFiles):
        numbers = pa.field(files.row_number or "", pa.int64())
        return pa.schema(
            [
                numbers
                if name == files.row_number
                else stored.field(name)
                if stored.get_field_index(name) >= 0
                else pa.field(name, pa.string())
                for name in _names(source)
            ]
        )
    schema = pa.schema(
        [
            pa.field(source.found_as[name], pa.string() if isinstance(source.columns[name], TextReading) else type_)
            for name, type_ in zip(schema.names, schema.types, strict=True)
        ]
    )
    if source.key is None or source.key.column in schema.names:
        return schema
    # A date parses as a time of day 0, so one type reads both.
    type_ = pa.int64() if source.key.step is Step.integer else pa.timestamp("us")
    return schema.append(pa.field(source.key.column, type_))


def _names(source: Source) -> list[str]:
    """Return the columns to read, by their names in the source."""
    return list(dict.fromkeys([*source.found_as.values(), *(() if source.key is None else (source.key.column,))]))


# Rows of forty columns are then read ten thousand at a time; each batch is also a row group of what is written.
BLOCK_BYTES = 1 << 22


def csv_options(files: CsvFiles) -> tuple[pyarrow.csv.ReadOptions, pyarrow.csv.ParseOptions]:
    """Return Arrow's options for reading the declared dialect."""
    return (
        pyarrow.csv.ReadOptions(encoding=files.encoding, skip_rows=files.skip_lines, block_size=BLOCK_BYTES),
        pyarrow.csv.ParseOptions(
            delimiter=files.delimiter,
            quote_char=files.quote or False,
            escape_char=files.escape or False,
            newlines_in_values=bool(files.quote),
        ),
    )


def _edge(edge: date | int, wanted: pa.DataType) -> date | int:
    if isinstance(edge, int) or not types.is_timestamp(wanted):
        return edge
    return datetime(edge.year, edge.month, edge.day, tzinfo=UTC if wanted.tz is not None else None)


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
