"""Folders of Parquet or CSV files as a source of an extract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from causalveil.schemas.documents import is_stored
from causalveil.schemas.errors import CausalveilError, DataError
from causalveil.schemas.readings import TextReading
from causalveil.schemas.warehouse import CsvFiles, Files, Source, Step
from causalveil.tasks.machine.arrow_frames import plain_type
from causalveil.tasks.machine.open_tables import refuse_log_in, refuse_open_table
from causalveil.tasks.warehouse.footer import csv_input
from causalveil.tasks.warehouse.intervals import EVERYTHING, KEYLESS, KeyInterval
from causalveil.tasks.warehouse.kinds import holds
from causalveil.tasks.warehouse.stores import StoredFile, arrow_place, opened, stored_files

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv

BATCH_ROWS = 65_536


@contextmanager
def file_batches(
    source: Source, files: Files, place: Path, schema: pa.Schema, interval: KeyInterval | None
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Batches of the rows of one block; row groups whose statistics exclude it are skipped.

    Args:
        source: the declaration.
        files: its part that names the folder.
        place: the folder that the path is relative to.
        schema: of the declared columns.
        interval: the block; None: no rows.

    Raises:
        DataError: a file lacks a column. (A data set's reader alone would fill it with nulls.)
        CausalveilError: no such folder, or no such file in it.
    """
    import pyarrow as pa

    paths = files_of(files, place)
    if not paths:
        where = files.path if is_stored(files.path) else place / files.path
        raise CausalveilError(f"source '{source.name}': no {files.kind} file in {where}")
    found = [_file_schema(source, files, path) for path in paths]
    read = [_read_schema(source, files, schema, one) for one in found]
    empty = pa.record_batch([pa.array([], field.type) for field in read[0]], schema=read[0])
    if interval is None:
        yield iter([empty])
    elif isinstance(files, CsvFiles):
        yield _after(empty, _csv_batches(files, paths_of(files, place), read[0], _chosen(source, read[0], interval)))
    elif files.row_number is None:
        yield _after(empty, _parquet_batches(dict(zip(paths, read, strict=True)), source, interval))
    else:
        # Rows are numbered before any is left out.
        field = read[0].field(files.row_number)
        stored = [pa.schema([one for one in schema if one.name != field.name]) for schema in read]
        rows = _parquet_batches(dict(zip(paths, stored, strict=True)), source, None)
        yield _after(empty, _all_numbered(rows, field, _chosen(source, read[0], interval)))


def _parquet_batches(
    files: Mapping[Path | StoredFile, pa.Schema], source: Source, interval: KeyInterval | None
) -> Iterator[pa.RecordBatch]:
    """The rows of one file after the other, each in the types that it stores them in; None: of all blocks."""
    import pyarrow.dataset as ds

    for path, schema in files.items():
        with opened(path):
            data = ds.dataset(**arrow_place(path), schema=schema, format="parquet")
            chosen = None if interval is None else _chosen(source, schema, interval)
            yield from data.scanner(filter=chosen, batch_size=BATCH_ROWS, use_threads=False).to_batches()


def _chosen(source: Source, schema: pa.Schema, interval: KeyInterval) -> pc.Expression | None:
    """Which rows are in the block; None: all."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if source.key is None or interval == EVERYTHING:
        return None
    if interval == KEYLESS:
        return pc.field(source.key.column).is_null(nan_is_null=True)
    type_ = schema.field(source.key.column).type
    lower, upper = (pa.scalar(_edge(edge, type_), type_) for edge in (interval.lower, interval.upper))
    key = pc.field(source.key.column)
    return (key >= lower) & (key < upper)


def _csv_batches(
    files: CsvFiles, paths: list[Path], schema: pa.Schema, chosen: pc.Expression | None
) -> Iterator[pa.RecordBatch]:
    """The declared columns alone: what else stands in the files, a name twice or none at all, is not looked at."""
    import pyarrow.csv

    numbers = files.row_number
    types = {field.name: field.type for field in schema if field.name != numbers}
    options = pyarrow.csv.ConvertOptions(
        column_types=types, include_columns=list(types), strings_can_be_null=True, null_values=[""]
    )
    reading, parsing = csv_options(files)

    def found() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with pyarrow.csv.open_csv(csv_input(path, files), reading, parsing, options) as reader:
                yield from reader

    if numbers is not None:
        yield from _all_numbered(found(), schema.field(numbers), chosen)
        return
    for batch in found():
        yield batch if chosen is None else batch.filter(chosen)


def _all_numbered(
    batches: Iterator[pa.RecordBatch], field: pa.Field, chosen: pc.Expression | None
) -> Iterator[pa.RecordBatch]:
    rows = 0
    for found in batches:
        batch = _numbered(found, field, rows)
        rows += found.num_rows
        yield batch if chosen is None else batch.filter(chosen)


def _numbered(batch: pa.RecordBatch, field: pa.Field, before: int) -> pa.RecordBatch:
    """With the numbers of its rows, ``before`` of which came before it."""
    import pyarrow as pa

    numbers = pa.array(range(before + 1, before + batch.num_rows + 1), pa.int64())
    return batch.append_column(field, numbers.cast(field.type))


def files_of(files: Files, place: Path) -> Sequence[Path | StoredFile]:
    """The files of a source, here or in object storage, as :func:`paths_of`.

    Raises:
        DataError: they are an open table's.
        CausalveilError: a store does not answer, or has nothing there.
    """
    return stored_files(files.path, files.kind) if is_stored(files.path) else paths_of(files, place)


def paths_of(files: Files, place: Path) -> list[Path]:
    """The files of a source in the order of their names: the file that it names, or those in the folder.

    Raises:
        DataError: they are an open table's.
    """
    folder = place / files.path
    refuse_open_table(folder)
    if folder.is_file():
        return [folder]
    found = sorted(path for path in folder.rglob(f"*.{files.kind}") if path.is_file() and not _hidden(path, folder))
    for below in sorted({parent for path in found for parent in path.parents if parent.is_relative_to(folder)}):
        refuse_log_in(below)
    return found


def _after(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _file_schema(source: Source, files: Files, path: Path | StoredFile) -> pa.Schema:
    """The columns of one file, from its footer or its header line; all that the extract needs are there."""
    import pyarrow.csv
    import pyarrow.parquet

    if not isinstance(files, CsvFiles) or isinstance(path, StoredFile):
        where = arrow_place(path)
        with opened(path):
            schema = pyarrow.parquet.read_schema(where["source"], filesystem=where["filesystem"])
    else:
        reading, parsing = csv_options(files)
        with pyarrow.csv.open_csv(csv_input(path, files), read_options=reading, parse_options=parsing) as reader:
            schema = reader.schema
    numbers = files.row_number
    if numbers is not None and schema.get_field_index(numbers) >= 0:
        raise DataError(
            f"source '{source.name}': {path.name} has a column '{numbers}' of its own; name another 'row_number'"
        )
    for name in _names(source):
        if name == numbers:
            continue
        if schema.get_field_index(name) < 0:
            raise DataError(f"source '{source.name}': {path.name} has no column '{name}' (or has it twice)")
    if files.kind == "parquet":
        _check_kinds(source, path, schema)
    return schema


def _check_kinds(source: Source, path: Path | StoredFile, schema: pa.Schema) -> None:
    """Files may store a column in different types, each of which must hold what is declared."""
    for name, kind in source.kinds.items():
        if schema.get_field_index(source.found_as[name]) < 0:
            # Rows are numbered as they are read.
            continue
        type_ = schema.field(source.found_as[name]).type
        if not isinstance(source.columns[name], TextReading) and not holds(plain_type(type_), kind):
            raise DataError(
                f"source '{source.name}': {path.name} has column '{name}' as {type_}, which was declared {kind}; "
                "write the file again, or declare what it is now"
            )


def _read_schema(source: Source, files: Files, schema: pa.Schema, found: pa.Schema) -> pa.Schema:
    """The types to read as: Parquet's own, for CSV the declared ones."""
    import pyarrow as pa

    if files.kind == "parquet":
        numbers = pa.field(files.row_number or "", pa.int64())
        return pa.schema([numbers if name == files.row_number else found.field(name) for name in _names(source)])
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
    """The columns to read, by their names in the source."""
    return list(dict.fromkeys([*source.found_as.values(), *(() if source.key is None else (source.key.column,))]))


def csv_options(files: CsvFiles) -> tuple[pacsv.ReadOptions, pacsv.ParseOptions]:
    """How Arrow reads the declared dialect."""
    import pyarrow.csv

    return (
        pyarrow.csv.ReadOptions(encoding=files.encoding, skip_rows=files.skip_lines),
        pyarrow.csv.ParseOptions(
            delimiter=files.delimiter,
            quote_char=files.quote or False,
            escape_char=files.escape or False,
            newlines_in_values=bool(files.quote),
        ),
    )


def _edge(edge: date | int, wanted: pa.DataType) -> date | int:
    from pyarrow import types

    if isinstance(edge, int) or not types.is_timestamp(wanted):
        return edge
    return datetime(edge.year, edge.month, edge.day, tzinfo=UTC if wanted.tz is not None else None)


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
