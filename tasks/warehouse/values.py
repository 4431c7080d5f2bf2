"""Read values of a source: types without loss, and text as source.yaml declares it.

A type becomes the kind that source.yaml declares (``schemas/warehouse.py``) without loss, or not at all. No value is
guessed at here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import polars as pl
import pyarrow as pa
from pyarrow import types

from causalveil.schemas.admission import whole_values
from causalveil.schemas.errors import DataError
from causalveil.schemas.warehouse import Key, Kind, Source, Step, TextReading

BATCH_ROWS = 65_536


def led(schema: pa.Schema, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield one batch without rows ahead of the others, so drift is found in empty blocks too."""
    # An array made of a list would import pandas, where there is one.
    yield pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)
    yield from rest


def holds(stored: pa.DataType, kind: Kind) -> bool:
    """Check whether a column of an Arrow type, or of nulls, may be stored as a declared kind."""
    if types.is_null(stored):
        return True
    if types.is_dictionary(stored):
        return holds(stored.value_type, kind)
    numeric = types.is_integer(stored) or types.is_floating(stored) or types.is_decimal(stored)
    verdict: bool = {
        Kind.integer: numeric,
        Kind.number: numeric,
        Kind.boolean: types.is_boolean(stored),
        Kind.text: types.is_string(stored) or types.is_large_string(stored) or types.is_string_view(stored),
        Kind.date: types.is_date(stored),
        Kind.timestamp: types.is_timestamp(stored),
    }[kind]
    return verdict


def check_key(where: str, key: Key | None, schema: pa.Schema) -> None:
    """Check that a table has the column of a key, in a type that has the key's steps.

    Raises:
        DataError: it has not; names the column and its type.
    """
    if key is None:
        return
    if schema.get_field_index(key.column) < 0:
        raise DataError(f"{where}: has no column '{key.column}', which 'key' names")
    stored = schema.field(key.column).type
    whole = key.step is Step.integer
    if not (types.is_integer(stored) if whole else types.is_date(stored) or types.is_timestamp(stored)):
        steps = "whole numbers" if whole else "dates or times"
        raise DataError(
            f"{where}: column '{key.column}' is of type {stored}, and a key of step {key.step} is of {steps}"
        )


def converted(values: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Cast values to the wanted type.

    Numbers must fit exactly but for rounding to float64, times but for digits below a microsecond.

    A NaN is a missing value.

    Returns:
        None where a number for whole numbers is not whole, or beyond their range.
    """
    import pyarrow.compute as pc

    if types.is_integer(wanted) and (types.is_floating(values.type) or types.is_decimal(values.type)):
        return _whole(values)
    if types.is_floating(wanted) and types.is_decimal(values.type):
        # Arrow multiplies by a rounded power of ten, so that whole numbers would not stay whole.
        return _in_polars(values).cast(pl.Float64).to_arrow()
    if types.is_floating(values.type):
        nan = pc.is_nan(values)
        values = pc.if_else(nan, None, values) if pc.any(nan).as_py() else values
    return values.cast(wanted, safe=not (types.is_timestamp(wanted) or types.is_floating(wanted)))


def _whole(values: pa.Array) -> pa.Array | None:
    given = _in_polars(values)
    given = given.fill_nan(None) if given.dtype.is_float() else given
    whole = whole_values(given)
    return whole.to_arrow() if whole.null_count() == given.null_count() else None


def _in_polars(values: pa.Array) -> pl.Series:
    return pl.DataFrame(pa.table({"values": values}))["values"]


def as_declared(batch: pa.RecordBatch, source: Source) -> pa.RecordBatch:
    """Return the declared columns of a batch by their given names, text as its reading's values.

    Without any reading the batch is returned unchanged.

    Raises:
        DataError: a value does not fit its column's reading. Names the column, never the value.
    """
    if not any(isinstance(kind, TextReading) for kind in source.columns.values()):
        return batch
    arrays = {}
    for name, column in source.found_as.items():
        place = batch.schema.get_field_index(column)
        if place < 0:
            raise DataError(
                f"source '{source.name}': column '{column}' is missing (or there twice); its schema drifted"
            )
        arrays[name] = _values(batch.column(place), source.columns[name], f"source '{source.name}': column '{name}'")
    return pa.record_batch(arrays)


def complete(batch: pa.RecordBatch, source: Source, lost: Counter[str]) -> pa.RecordBatch:
    """Return the rows of a batch with a value in every column that the source requires.

    Other rows are counted in ``lost``.
    """
    import pyarrow.compute as pc

    for name in source.required:
        valid = batch.filter(pc.is_valid(batch.column(name)))
        if valid.num_rows < batch.num_rows:
            lost[name] += batch.num_rows - valid.num_rows
        batch = valid
    return batch


def _values(stored: pa.Array, reading: Kind | TextReading, where: str) -> pa.Array:
    """Return the values of a column; polars' parsers turn unreadable text into null."""
    if not isinstance(reading, TextReading):
        return stored
    values, unread = read_text(pl.Series("text", stored.cast(pa.string()), dtype=pl.String), reading)
    if unread:
        raise DataError(
            f"{where} holds values that its reading does not make a {reading.kind} of; add them to 'nulls' or "
            "'spellings', or mend 'remove', 'decimal' or 'formats'"
        )
    return values.to_arrow()


def read_text(text: pl.Series, reading: TextReading) -> tuple[pl.Series, int]:
    """Return text as values of the reading's kind, and how many different texts are none.

    Plain numbers are read at once, other texts once for each different text.
    """
    plain = _plain(text, reading)
    if plain is not None:
        return plain, 0
    texts = text.alias("text").unique().drop_nulls().to_frame()
    read = texts.select("text", spelling=respelled(reading), value=value_of(respelled(reading), reading))
    unread = read["value"].null_count() - read["spelling"].null_count()
    if read.height and reading.kind is Kind.text and read["value"].eq_missing(read["text"]).all():
        return text.alias("value"), unread
    rows = text.alias("text").to_frame().join(read, on="text", how="left", maintain_order="left")
    return rows["value"], unread


def _plain(text: pl.Series, reading: TextReading) -> pl.Series | None:
    """Return numbers, if all texts but those for missing values are plain numbers; else None.

    None too where a text for missing values is a number.
    """
    kinds: dict[Kind, type[pl.DataType]] = {Kind.integer: pl.Int64, Kind.number: pl.Float64}
    kind = kinds.get(reading.kind)
    if kind is None or reading.since is not None or reading.remove or reading.spellings or reading.decimal != ".":
        return None
    numbers = text.cast(kind, strict=False)
    nulls = pl.Series([null for null in reading.nulls if null], dtype=pl.String).cast(pl.Float64, strict=False)
    if nulls.null_count() < len(nulls):
        return None
    if numbers.null_count() > text.null_count():
        rest = text.filter(numbers.is_null() & text.is_not_null()).str.strip_chars()
        if not rest.is_in(["", *reading.nulls]).all():
            return None
    return numbers.alias("value") if kind is pl.Int64 or numbers.is_finite().all() else None


def respelled(reading: TextReading) -> pl.Expr:
    """Return column ``text`` with one spelling for each meaning, without spaces around it.

    It is null where the value is missing.
    """
    text = pl.col("text").str.strip_chars()
    missing = text.is_in(["", *reading.nulls])
    return pl.when(~missing).then(text.replace(reading.spellings) if reading.spellings else text)


def value_of(text: pl.Expr, reading: TextReading) -> pl.Expr:
    """Return text as a value of the reading's kind; null where it is none.

    A number in brackets is negative, as accountants write it.
    """
    match reading.kind:
        case Kind.integer:
            # 1.0 is a whole number, as tools write one where a column has gaps.
            return _digits(text, reading).str.replace(r"\.0*$", "").cast(pl.Int64, strict=False)
        case Kind.number if reading.since is not None:
            return (_day(text, reading) - pl.lit(reading.since)).dt.total_days().cast(pl.Float64)
        case Kind.number:
            number = _digits(text, reading).cast(pl.Float64, strict=False)
            return pl.when(number.is_finite()).then(number)
        case Kind.date:
            return _day(text, reading)
        case Kind.timestamp:
            return pl.coalesce(
                *(text.str.to_datetime(format_, time_unit="us", strict=False) for format_ in reading.formats)
            )
        case Kind.boolean:
            return text.str.to_lowercase().replace_strict(
                {"true": True, "false": False}, default=None, return_dtype=pl.Boolean
            )
        case _:
            return text


def _day(text: pl.Expr, reading: TextReading) -> pl.Expr:
    """Return a date by the first format that fits; a time of day is dropped."""
    return pl.coalesce(
        *(text.str.to_datetime(format_, strict=False).dt.date() if "%M" in format_ or "%T" in format_
          else text.str.to_date(format_, strict=False) for format_ in reading.formats)
    )  # fmt: skip


def _digits(text: pl.Expr, reading: TextReading) -> pl.Expr:
    for piece in reading.remove:
        text = text.str.replace_all(piece, "", literal=True)
    text = text.str.strip_chars()
    if reading.decimal == ",":
        text = text.str.replace_all(",", ".", literal=True)
    bracketed = text.str.starts_with("(") & text.str.ends_with(")")
    return pl.when(bracketed).then(pl.lit("-") + text.str.strip_chars("()")).otherwise(text)
