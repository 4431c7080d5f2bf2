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


def holds(found: pa.DataType, kind: Kind) -> bool:
    """Check whether a column of this Arrow type may be stored as a declared kind.

    A column of nulls alone may.
    """
    if types.is_null(found):
        return True
    if types.is_dictionary(found):
        return holds(found.value_type, kind)
    verdict: bool = {
        Kind.integer: types.is_integer(found) or types.is_floating(found) or types.is_decimal(found),
        Kind.number: types.is_integer(found) or types.is_floating(found) or types.is_decimal(found),
        Kind.boolean: types.is_boolean(found),
        Kind.text: types.is_string(found) or types.is_large_string(found) or types.is_string_view(found),
        Kind.date: types.is_date(found),
        Kind.timestamp: types.is_timestamp(found),
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
    found = schema.field(key.column).type
    whole = key.step is Step.integer
    if not (types.is_integer(found) if whole else types.is_date(found) or types.is_timestamp(found)):
        what = "whole numbers" if whole else "dates or times"
        raise DataError(f"{where}: column '{key.column}' is of type {found}, and a key of step {key.step} is of {what}")


def converted(values: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Cast values to the wanted type.

    Numbers must fit exactly but for rounding to float64, times but for digits below a microsecond.

    A NaN is a missing value.

    Returns:
        None where a number that is to be whole is not, or is out of reach.
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


def read_off(batch: pa.RecordBatch, source: Source) -> pa.RecordBatch:
    """Return the columns of a batch by their given names, those with a reading as values.

    Other columns stay as they are.

    Raises:
        DataError: a value does not fit its column's reading. Names the column, never the value.
    """
    if not any(isinstance(one, TextReading) for one in source.columns.values()):
        return batch
    arrays = {}
    for name, found in source.found_as.items():
        place = batch.schema.get_field_index(found)
        if place < 0:
            raise DataError(f"source '{source.name}': column '{found}' is missing (or there twice); its schema drifted")
        arrays[name] = _values(batch.column(place), source.columns[name], f"source '{source.name}': column '{name}'")
    return pa.record_batch(arrays)


def complete(batch: pa.RecordBatch, source: Source, lost: Counter[str]) -> pa.RecordBatch:
    """Return the rows of a batch with a value in every column that the source requires.

    Other rows are counted in ``lost``.
    """
    import pyarrow.compute as pc

    for name in source.required:
        kept = batch.filter(pc.is_valid(batch.column(name)))
        if kept.num_rows < batch.num_rows:
            lost[name] += batch.num_rows - kept.num_rows
        batch = kept
    return batch


def _values(found: pa.Array, reading: Kind | TextReading, where: str) -> pa.Array:
    """One column; polars does the reading, whose parsers turn what does not fit into null."""
    if not isinstance(reading, TextReading):
        return found
    values, unread = read_text(pl.Series("text", found.cast(pa.string()), dtype=pl.String), reading)
    if unread:
        raise DataError(
            f"{where} holds values that its reading does not make a {reading.kind} of; add them to 'nulls' or "
            "'spellings', or mend 'remove', 'decimal' or 'formats'"
        )
    return values.to_arrow()


def read_text(text: pl.Series, reading: TextReading) -> tuple[pl.Series, int]:
    """Return text as values of the reading's kind, and how many texts are none.

    Plain numbers are read at once. What else there is, is read once for each different text.
    """
    plain = _plain(text, reading)
    if plain is not None:
        return plain, 0
    words = text.alias("text").unique().drop_nulls().to_frame()
    read = words.select("text", said=said(reading), value=value_of(said(reading), reading))
    unread = read["value"].null_count() - read["said"].null_count()
    if read.height and reading.kind is Kind.text and read["value"].eq_missing(read["text"]).all():
        return text.alias("value"), unread
    rows = text.alias("text").to_frame().join(read, on="text", how="left", maintain_order="left")
    return rows["value"], unread


def _plain(text: pl.Series, reading: TextReading) -> pl.Series | None:
    """Return numbers, if all but words for no value are written as computers write them and no such word is one."""
    kinds: dict[Kind, type[pl.DataType]] = {Kind.integer: pl.Int64, Kind.number: pl.Float64}
    kind = kinds.get(reading.kind)
    if kind is None or reading.since is not None or reading.remove or reading.spellings or reading.decimal != ".":
        return None
    numbers = text.cast(kind, strict=False)
    words = pl.Series([word for word in reading.nulls if word], dtype=pl.String).cast(pl.Float64, strict=False)
    if words.null_count() < len(words):
        return None
    if numbers.null_count() > text.null_count():
        others = text.filter(numbers.is_null() & text.is_not_null()).str.strip_chars()
        if not others.is_in(["", *reading.nulls]).all():
            return None
    return numbers.alias("value") if kind is pl.Int64 or numbers.is_finite().all() else None


def said(reading: TextReading) -> pl.Expr:
    """Return what column ``text`` says, with one spelling for each meaning.

    Spaces around it are removed; it is null where nothing is said.
    """
    text = pl.col("text").str.strip_chars()
    silent = text.is_in(["", *reading.nulls])
    return pl.when(~silent).then(text.replace(reading.spellings) if reading.spellings else text)


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
            return pl.coalesce(*(text.str.to_datetime(one, time_unit="us", strict=False) for one in reading.formats))
        case Kind.boolean:
            return text.str.to_lowercase().replace_strict(
                {"true": True, "false": False}, default=None, return_dtype=pl.Boolean
            )
        case _:
            return text


def _day(text: pl.Expr, reading: TextReading) -> pl.Expr:
    """A date by the first format that fits; a time of day is dropped."""
    return pl.coalesce(
        *(text.str.to_datetime(one, strict=False).dt.date() if "%M" in one or "%T" in one
          else text.str.to_date(one, strict=False) for one in reading.formats)
    )  # fmt: skip


def _digits(text: pl.Expr, reading: TextReading) -> pl.Expr:
    for piece in reading.remove:
        text = text.str.replace_all(piece, "", literal=True)
    text = text.str.strip_chars()
    if reading.decimal == ",":
        text = text.str.replace_all(",", ".", literal=True)
    bracketed = text.str.starts_with("(") & text.str.ends_with(")")
    return pl.when(bracketed).then(pl.lit("-") + text.str.strip_chars("()")).otherwise(text)
