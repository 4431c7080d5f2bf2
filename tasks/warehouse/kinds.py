"""Types of a source -> the kinds that source.yaml declares: without loss, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from causalveil.schemas.admission.casts import as_whole
from causalveil.schemas.errors import DataError
from causalveil.schemas.sources import Kind
from causalveil.schemas.warehouse import Key, Step

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


def holds(found: pa.DataType, kind: Kind) -> bool:
    """Check whether a column of this Arrow type may be stored as a declared kind.

    A column of nulls alone may.
    """
    from pyarrow import types

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
    from pyarrow import types

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
    """Cast; numbers must fit exactly but for rounding to float64, times but for digits below a microsecond.

    A NaN is a missing value.

    Returns:
        None where a number that is to be whole is not, or is out of reach.
    """
    import polars as pl
    import pyarrow.compute as pc
    from pyarrow import types

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
    import polars as pl

    given = _in_polars(values)
    given = given.fill_nan(None) if given.dtype.is_float() else given
    whole = given.to_frame().select(as_whole(pl.col("values"), given.dtype, None)).to_series()
    return whole.to_arrow() if whole.null_count() == given.null_count() else None


def _in_polars(values: pa.Array) -> pl.Series:
    import polars as pl
    import pyarrow as pa

    return pl.DataFrame(pa.table({"values": values}))["values"]
