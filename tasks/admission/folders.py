"""Does a file say of a column what the folder says that it lies in? Blocks are folders, and folders are accounts."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import unquote

import polars as pl

from causalveil.schemas.admission.casts import Roles, Types, read_as
from causalveil.schemas.columns import Column, Holds, Nulls
from causalveil.schemas.plan import Partition

# What stands in the name of a folder of rows without a value, as Hive and Spark write it.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_ANY = Column(holds=Holds.order, nulls=Nulls.welcome)


def said_by_folders(partition: Partition, types: Types) -> dict[str, str]:
    """The values that folders ``name=value`` give to columns that the file has too, and that can be compared."""
    said = values_in(PurePosixPath(partition.path).parent)
    return {name: value for name, value in said.items() if name in types and read_as(_ANY, types[name]) is not None}


def values_in(folder: PurePosixPath) -> dict[str, str]:
    """Return what the folders ``name=value`` of a path say, by name."""
    pairs = (part.partition("=") for part in folder.parts if "=" in part)
    return {unquote(name): unquote(value) for name, _, value in pairs}


def as_compared(said: dict[str, str]) -> Roles:
    """Return how columns are read to be compared."""
    return dict.fromkeys(said, _ANY)


def contradictions(frame: pl.DataFrame, said: dict[str, str]) -> dict[str, int]:
    """Count by column the rows that contradict their folder; a row without a value does not.

    Args:
        frame: the columns of :func:`said_by_folders`, read as :func:`as_compared` says.
        said: what the folders say.
    """
    return {name: _otherwise(frame.get_column(name).alias("values"), value) for name, value in said.items()}


def _otherwise(values: pl.Series, said: str) -> int:
    there = values.drop_nulls()
    if said == NO_VALUE:
        return len(there)
    if there.dtype.is_numeric():
        try:
            number = int(said) if there.dtype.is_integer() else float(said)
        except ValueError:
            return len(there)
        return int((there != number).sum())
    if there.dtype == pl.Boolean:
        return int((there.cast(pl.String) != said.lower()).sum())
    if there.dtype.is_temporal():
        # A folder of a month holds its days.
        return int(there.dt.to_string().str.replace("T", " ").str.starts_with(said).not_().sum())
    return int((there != said).sum())
