"""Name the arrays and frames that stages exchange, and keep them in files.

Files of arrays have mode 0600, are there whole or not at all, and are read through a memory map.

To polars ``^age$`` is a pattern, and ``*`` is every column. ``pl.col(name)``, strings as arguments of ``select`` or
``sort``, and methods of a series (which are expressions over a column of its name) all read a name as a pattern. A name
that was not written in this program goes through here.

Arrow's columns become columns of polars: bytes as text, UUIDs in their usual form, decimals of all widths. Columns that
polars would misread, or that would end the process, are converted first.

In a CSV file text stays text: no spreadsheet takes it for a formula, and no terminal for a command.
"""

from __future__ import annotations

import io
import mmap
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import polars.selectors as cs
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from causalveil.schemas.errors import CausalveilError, DataError, in_own_words, kind_of, printable
from causalveil.tasks.machine.files import whole_file

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Int32Array = NDArray[np.int32]
ByteArray = NDArray[np.uint8]
BoolArray = NDArray[np.bool_]


# Bytes of a .npy file of version 1.0 before its header: magic, version, the header's length in two bytes.
_PREFIX = 10


def load_array(path: Path) -> NDArray[Any]:
    """Map an array of any shape read-only.

    Pages are read when touched and may be dropped again by the system.

    ``numpy.load`` maps an array as well, but takes ten times as long to parse the same header again and again.
    """
    with path.open("rb", buffering=0) as file:
        first = file.read(_PREFIX)
        shape, order, dtype, start = _parsed(first + file.read(int.from_bytes(first[-2:], "little")))
        held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.ndarray(shape, dtype, buffer=held, offset=start, order=order)


@lru_cache(maxsize=256)
def _parsed(header: bytes) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype[Any], int]:
    """Shape, order, type and first byte of the array behind a header of :func:`new_array`."""
    stream = io.BytesIO(header)
    np.lib.format.read_magic(stream)
    shape, by_column, dtype = np.lib.format.read_array_header_1_0(stream)
    return shape, "F" if by_column else "C", dtype, len(header)


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array of any shape to a .npy file with mode 0600, which is never there in part.

    Raises:
        CausalveilError: the disk is full or fails.
    """
    with new_array(path, array.shape, array.dtype) as write:
        write(0, np.ascontiguousarray(array))


@contextmanager
def new_array(
    path: Path, shape: tuple[int, ...], dtype: Any, by_column: bool = False
) -> Iterator[Callable[[int, NDArray[Any]], None]]:
    """Create a .npy file that takes its name when the block is left without an error.

    Its mode is 0600.

    Args:
        path: of the file.
        shape: of the array.
        dtype: of its numbers.
        by_column: write the file in Fortran order.

    Yields:
        ``write(first, rows)``, which writes C-contiguous ``rows`` of ``dtype`` from row number ``first`` on, or whole
        columns, one a row. Threads may write different rows at once.

    Raises:
        CausalveilError: the disk is full or fails.
    """
    header = io.BytesIO()
    fields = {"descr": np.dtype(dtype).str, "fortran_order": by_column, "shape": shape}
    np.lib.format.write_array_header_1_0(header, fields)
    row_shape = shape[:-1] if by_column else shape[1:]
    start, row_bytes = len(header.getvalue()), int(np.prod(row_shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    with ExitStack() as file:
        with writing_scratch():
            handle = file.enter_context(whole_file(path)).fileno()
            _write_at(handle, 0, memoryview(header.getvalue()))
        # Outside of that block: an error in making the rows is none of the disk.
        yield lambda first, rows: _write_at(handle, start + first * row_bytes, rows.reshape(-1).view(np.uint8).data)
        with writing_scratch():
            file.close()


def _write_at(handle: int, offset: int, view: memoryview) -> None:
    """Write all of ``view`` at byte ``offset``; the system may take it piece by piece."""
    with writing_scratch():
        while view:
            written = os.pwrite(handle, view, offset)
            view, offset = view[written:], offset + written


def writing_scratch() -> AbstractContextManager[None]:
    """Name the scratch folder in errors of writing there.

    Raises:
        CausalveilError: it cannot be written.
    """
    return in_own_words(
        lambda error: CausalveilError(
            f"the scratch folder cannot be written ({kind_of(error)}); free some space, or let CAUSALVEIL_SCRATCH name "
            "a folder, still to be made, on a disk with room"
        ),
        OSError,
    )


def named(name: str) -> pl.Expr:
    """Return the expression of the column of exactly this name."""
    return cs.by_name(name)


def values_of(frame: pl.DataFrame, name: str) -> pl.Series:
    """Return a column as a series under a name that is no pattern.

    Messages take its name from elsewhere.
    """
    return frame.get_column(name).alias("values")


# From this fixed length on bytes are UUIDs and digests; shorter ones are text of a fixed length.
UUID_BYTES = 16


def polars_types(schema: pa.Schema) -> dict[str, pl.DataType]:
    """Return the types in which :func:`frame_of` gives columns.

    The type is ``Unknown`` for those that it does not take.
    """
    return {field.name: polars_type(field.type) for field in schema}


@lru_cache(maxsize=256)
def polars_type(type_: pa.DataType) -> pl.DataType:
    """Return the type that :func:`frame_of` gives a column; ``Unknown`` if it does not take it."""
    if not _taken(type_):
        return pl.Unknown()
    empty = pa.record_batch([pa.array([], plain_type(type_))], names=["column"])
    return frame_of(empty, ["column"]).schema["column"]


def frame_of(rows: pa.RecordBatch | pa.Table, columns: Sequence[str]) -> pl.DataFrame:
    """Return some columns of Arrow's batch or table, dictionaries of text as text.

    Columns are chosen here, since a Parquet reader takes names for paths into nested columns.

    Raises:
        DataError: bytes are no text; names the column.
    """
    frame = pl.DataFrame(plain(rows.select(columns)))
    entries = [name for name, kind in frame.schema.items() if kind.base_type() in (pl.Categorical, pl.Enum)]
    return frame.with_columns(cs.by_name(entries).cast(pl.String)) if entries else frame


def plain(rows: Any) -> Any:
    """Return a batch or table whose columns polars reads rightly.

    Raises:
        DataError: bytes are no text; names the column.
    """
    for place, field in enumerate(rows.schema):
        wanted = plain_type(field.type)
        if wanted == field.type:
            continue
        values = None
        with suppress(pa.ArrowInvalid):
            values = _plain_values(rows.column(place), field.type, wanted)
        if values is None:
            raise DataError(f"column '{field.name}' holds bytes that are no UTF-8 text; write them as text")
        rows = rows.set_column(place, pa.field(field.name, wanted), values)
    return rows


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the type that :func:`plain` makes of a type: the same where polars takes it."""
    if isinstance(type_, pa.BaseExtensionType):
        return pa.string() if isinstance(type_, pa.UuidType) else plain_type(type_.storage_type)
    if types.is_dictionary(type_):
        inner = plain_type(type_.value_type)
        return type_ if inner == type_.value_type else inner
    if types.is_decimal256(type_) or (types.is_decimal(type_) and type_.scale < 0):
        return pa.float64()
    if types.is_decimal(type_):
        return pa.decimal128(type_.precision, type_.scale)
    if types.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp(type_.unit, "UTC")
    if types.is_binary(type_) or types.is_large_binary(type_) or types.is_binary_view(type_):
        return pa.large_string()
    return pa.large_string() if types.is_fixed_size_binary(type_) else type_


def _plain_values(values: Any, type_: pa.DataType, wanted: pa.DataType) -> Any:
    if isinstance(type_, pa.BaseExtensionType):
        chunked = isinstance(values, pa.ChunkedArray)
        storage = (
            pa.chunked_array([chunk.storage for chunk in values.chunks], type_.storage_type)
            if chunked
            else values.storage
        )
        return _plain_values(storage, type_.storage_type, wanted)
    if types.is_dictionary(type_):
        return _plain_values(values.cast(type_.value_type), type_.value_type, wanted)
    if types.is_decimal(type_) and types.is_floating(wanted):
        # Arrow multiplies by a rounded power of ten; the text of the number has one nearest float.
        return values.cast(pa.string()).cast(wanted)
    if types.is_fixed_size_binary(type_) and type_.byte_width >= UUID_BYTES:
        return _hexadecimal(values, type_.byte_width).cast(wanted)
    if types.is_binary_view(type_) or types.is_fixed_size_binary(type_):
        values = values.cast(pa.large_binary())
    return values if values.type == wanted else values.cast(wanted)


def _hexadecimal(values: Any, width: int) -> Any:
    """Bytes as hexadecimal digits; sixteen bytes in the form of UUIDs."""
    digits = pl.DataFrame(pa.table({"bytes": values.cast(pa.large_binary())}))["bytes"].bin.encode("hex")
    if width == UUID_BYTES:
        ends = (0, 8, 12, 16, 20, 32)
        parts = [digits.str.slice(start, stop - start) for start, stop in pairwise(ends)]
        digits = pl.select(pl.concat_str(parts, separator="-")).to_series()
    return digits.to_arrow()


def _taken(type_: pa.DataType) -> bool:
    """Check whether a type holds one value that polars has a type for.

    Lists, records, unions and intervals of months do not.
    """
    type_ = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
    if types.is_dictionary(type_):
        return _taken(type_.value_type)
    taken = (
        types.is_null,
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_decimal,
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_binary,
        types.is_large_binary,
        types.is_binary_view,
        types.is_fixed_size_binary,
        types.is_date,
        types.is_time,
        types.is_timestamp,
        types.is_duration,
    )
    return any(is_type(type_) for is_type in taken)


# First characters by which a spreadsheet takes text for a formula (OWASP, "CSV injection"), their wide forms too.
FORMULAS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
# Characters that a terminal acts on when a file is printed, and those that reverse the direction of text.
ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(value: Any) -> Any:
    """Return a value that neither spreadsheets nor terminals run.

    Text that begins like a formula gets a quote, and control characters are escaped. A number that was written as text
    stays as it is.
    """
    if not isinstance(value, str):
        return value
    value = ACTING.sub(lambda match: printable(match[0]), value)
    if not value.startswith(FORMULAS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def harmless_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a table with harmless names and values."""
    return {harmless(name): harmless(value) for name, value in row.items()}


def csv_text(frame: pl.DataFrame) -> str:
    """Return a frame as CSV for people."""
    texts = [series.name for series in frame if series.dtype == pl.String]
    columns = [pl.Series(name, [harmless(value) for value in frame[name]], dtype=pl.String) for name in texts]
    return frame.with_columns(columns).rename({name: harmless(name) for name in frame.columns}).write_csv()
