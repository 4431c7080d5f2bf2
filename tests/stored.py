"""Types in which warehouses, Spark, Hive, DuckDB, pandas and polars store the columns of ``tests.bad_data``."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tests.bad_data import AGE, GROUP, OUTCOME, TREATMENT, UNIT

Store = Callable[[pa.Array], pa.Array]


def cast(kind: pa.DataType) -> Store:
    return lambda values: values.cast(kind)


def decimals(kind: pa.DataType) -> Store:
    return lambda values: pa.array([Decimal(int(one)) for one in values.to_pylist()], kind)


def dictionary(kind: pa.DataType) -> Store:
    return lambda values: values.cast(kind.value_type).dictionary_encode().cast(kind)


WHOLE: dict[str, Store] = {
    "int8": cast(pa.int8()),
    "int16": cast(pa.int16()),
    "int32": cast(pa.int32()),
    "int64": cast(pa.int64()),
    "uint8": cast(pa.uint8()),
    "uint16": cast(pa.uint16()),
    "uint32": cast(pa.uint32()),
    "uint64": cast(pa.uint64()),
    "half": cast(pa.float16()),
    "float": cast(pa.float32()),
    "double": cast(pa.float64()),
    "decimal32": decimals(pa.decimal32(9, 2)),
    "decimal64": decimals(pa.decimal64(18, 4)),
    "NUMBER(38, 0)": decimals(pa.decimal128(38, 0)),
    "NUMERIC(38, 9)": decimals(pa.decimal128(38, 9)),
    "BIGNUMERIC": decimals(pa.decimal256(76, 38)),
}
TEXT: dict[str, Store] = {
    "string": cast(pa.string()),
    "large_string": cast(pa.large_string()),
    "string_view": cast(pa.string_view()),
    "bytes": cast(pa.binary()),
    "large bytes": cast(pa.large_binary()),
    "bytes_view": lambda values: values.cast(pa.binary()).cast(pa.binary_view()),
    "dictionary": dictionary(pa.dictionary(pa.int8(), pa.string())),
    "dictionary of bytes": dictionary(pa.dictionary(pa.int32(), pa.binary())),
}
FIXED = {"bytes of a fixed length": lambda values: values.cast(pa.binary()).cast(pa.binary(1))}
# Of these numbers no width of 8 bits holds all.
WIDE = {name: one for name, one in WHOLE.items() if name not in ("int8", "uint8", "half")}
SIGNED = {name: one for name, one in WHOLE.items() if not name.startswith("uint")}
LOGICAL = {"boolean": cast(pa.bool_()), "bool8": lambda values: pa.ExtensionArray.from_storage(pa.bool8(), values)}
DIGITS = {
    "digits": cast(pa.string()),
    "digits as bytes": lambda values: values.cast(pa.string()).cast(pa.binary()),
}
WORDS = {"True": lambda values: pa.array([("False", "True")[one] for one in values.to_pylist()])}
KINDS = {
    **{(UNIT, name): store for name, store in WIDE.items()},
    **{(TREATMENT, name): store for name, store in (WHOLE | LOGICAL | DIGITS | WORDS).items()},
    **{(AGE, name): store for name, store in WHOLE.items()},
    **{(OUTCOME, name): store for name, store in SIGNED.items()},
    **{(GROUP, name): store for name, store in (TEXT | FIXED).items()},
}


def put(path: Path, frame: pl.DataFrame, column: str = "", store: Store | None = None) -> None:
    """Write a file, one column of it stored otherwise."""
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    if store is not None:
        place = table.schema.get_field_index(column)
        table = table.set_column(place, column, store(table.column(place).combine_chunks()))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


TEXT_UNITS: dict[str, Store] = {
    **TEXT,
    "UUID": lambda values: pa.array([uuid.UUID(one).bytes for one in values.to_pylist()], pa.uuid()),
    "16 bytes": lambda values: pa.array([uuid.UUID(one).bytes for one in values.to_pylist()], pa.binary(16)),
}
