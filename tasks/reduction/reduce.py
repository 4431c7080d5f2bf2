"""All rows of some units -> one row each, by the owner's ``rows``. A unit's row is a function of her own rows alone.

Why so much care for so small a sum: one unit's rows must move one reduced row, to the last bit, or the sensitivities
of one bounded row would not hold. So rows are put in an order that their values decide, never the files
(``docs/proofs/data.md``), numbers are clipped before they are added, and sums run through a unit's rows one after the
other, whatever stands beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from causalveil.schemas.declared import (
    Aggregate,
    CodesColumn,
    Declared,
    EventColumn,
    Keep,
    LevelsColumn,
    NumberColumn,
    RowsPerUnit,
    TimeColumn,
)
from causalveil.schemas.errors import DataError
from causalveil.tasks.machine.arrays import BoolArray, FloatArray, IntArray
from causalveil.tasks.machine.frames import named, values_of


@dataclass(frozen=True)
class Groups:
    """Rows of a frame that lie together by unit: where each unit's begin, and how many there are."""

    starts: IntArray
    lengths: IntArray

    @property
    def members(self) -> IntArray:
        """The unit of each row, as a position."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def picked(self, keep: Keep) -> IntArray:
        """The row of each unit that stands first, or last."""
        return self.starts if keep is Keep.first else self.starts + self.lengths - 1


def reduce_rows(frame: pl.DataFrame, unit: str, rows: RowsPerUnit, columns: Mapping[str, Declared]) -> pl.DataFrame:
    """One row per unit.

    Args:
        frame: all rows of its units, in any order: the unit, ``rows.order`` and the declared columns, as checked.
        unit: the column that names the unit; no nulls.
        rows: how many rows count, from which end, and what becomes of each column.
        columns: what the contract declares of the rows of ``frame``.

    Returns:
        The unit, the declared columns in the order of ``columns``, and ``rows.count``; units ascend. Nulls of a column
        are left out by all aggregates but ``first`` and ``last``, and a unit that has none but nulls has a null.

    Raises:
        DataError: a value that the checks before refuse: no number, or neither of two codes.
    """
    frame = counting_rows(frame, unit, rows, columns)
    units = values_of(frame, unit)
    groups = _groups(units)
    one = {unit: units.gather(groups.starts)}
    for name, column in columns.items():
        one[name] = _reduced(values_of(frame, name), name, column, rows.aggregate(name), groups)
    if rows.count is not None:
        one[rows.count] = pl.Series(groups.lengths, dtype=pl.Int64)
    return pl.DataFrame([values.alias(name) for name, values in one.items()])


def counting_rows(frame: pl.DataFrame, unit: str, rows: RowsPerUnit, columns: Mapping[str, Declared]) -> pl.DataFrame:
    """The rows that count, by unit and in their order: each unit's first or last ``rows.at_most``.

    Of some of a unit's rows it leaves all that count among all of her rows, so it may be applied to parts first.
    Arguments as of :func:`reduce_rows`.
    """
    frame = _in_order(frame, unit, rows, columns)
    if rows.at_most is None:
        return frame
    return frame.filter(pl.Series(_kept(_groups(values_of(frame, unit)), rows.keep, rows.at_most)))


def _in_order(frame: pl.DataFrame, unit: str, rows: RowsPerUnit, columns: Mapping[str, Declared]) -> pl.DataFrame:
    """Rows by unit, then by the declared order, then by everything that is declared, so that files decide nothing.

    The last step is taken only where two rows of a unit tie; for a unit without ties it changes nothing.
    """
    keys = [unit] if rows.order is None else [unit, rows.order]
    frame = frame[list(dict.fromkeys((*keys, *columns)))]
    # Rows without a value of the order stand where they count only if a unit has no others.
    last = rows.keep is Keep.first
    ordered = frame.sort(*map(named, keys), nulls_last=last)
    if frame.height < 2 or not ordered[keys].is_duplicated().any():
        return ordered
    return frame.sort(*map(named, (*keys, *sorted(set(columns) - set(keys)))), nulls_last=last)


def _groups(units: pl.Series) -> Groups:
    """Return where runs of equal values begin in a sorted column, and their lengths."""
    lengths = units.rle().struct.field("len").to_numpy().astype(np.int64)
    return Groups(np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)[: len(lengths)], lengths)


def _kept(groups: Groups, keep: Keep, at_most: int) -> BoolArray:
    """Which rows are among a unit's first, or last, ``at_most``."""
    rank = np.arange(groups.lengths.sum()) - np.repeat(groups.starts, groups.lengths)
    if keep is Keep.first:
        return np.asarray(rank < at_most)
    return np.asarray(rank >= np.repeat(groups.lengths, groups.lengths) - at_most)


def _reduced(values: pl.Series, name: str, column: Declared, aggregate: Aggregate, groups: Groups) -> pl.Series:
    """One value per unit."""
    if aggregate in (Aggregate.first, Aggregate.last) or isinstance(column, LevelsColumn | TimeColumn | EventColumn):
        keep = Keep.first if aggregate is Aggregate.first else Keep.last
        return values.gather(groups.picked(keep))
    numbers, there = _numbers(values, name, column)
    members, units = groups.members, len(groups.lengths)
    # One after the other in the order of rows: a unit's sum is the same whoever stands beside her.
    found = np.bincount(members, weights=there, minlength=units)
    if aggregate in (Aggregate.sum, Aggregate.mean):
        sums = np.bincount(members, weights=numbers, minlength=units)
        result = np.asarray(sums / np.maximum(found, 1.0) if aggregate is Aggregate.mean else sums, np.float64)
    else:
        result = _extreme(numbers, there, groups, largest=aggregate in (Aggregate.max, Aggregate.any))
    reduced = pl.Series(result).scatter(np.flatnonzero(found == 0), None)
    if isinstance(column, CodesColumn) and aggregate in (Aggregate.any, Aggregate.all):
        return _coded(reduced, column, values.dtype)
    return reduced


def _extreme(numbers: FloatArray, there: BoolArray, groups: Groups, *, largest: bool) -> FloatArray:
    """The largest or the smallest of each unit's values."""
    if not len(numbers):
        return numbers
    if largest:
        return np.asarray(np.maximum.reduceat(np.where(there, numbers, -np.inf), groups.starts))
    return np.asarray(np.minimum.reduceat(np.where(there, numbers, np.inf), groups.starts))


def _numbers(values: pl.Series, name: str, column: NumberColumn | CodesColumn) -> tuple[FloatArray, BoolArray]:
    """A column as numbers within its declared range, 0 for nulls; and where it has none.

    Raises:
        DataError: something that is no number, or neither code.
    """
    if isinstance(column, CodesColumn):
        control, treated = column.codes.pair
        same = values.cast(pl.String() if isinstance(control, str) else pl.Int64(), strict=False)
        numbers = pl.select(
            pl.when(same == treated).then(pl.lit(1.0)).when(same == control).then(pl.lit(0.0))
        ).to_series()
        lower, upper = 0.0, 1.0
    else:
        numbers = values.cast(pl.Float64, strict=False)
        lower, upper = column.lower, column.upper
    if numbers.null_count() != values.null_count() or numbers.is_nan().any():
        raise DataError(f"column '{name}' holds something that is no number, or neither of its two codes")
    there = numbers.is_not_null().to_numpy()
    clipped = np.clip(numbers.fill_null(0.0).to_numpy(), lower, upper)
    return np.where(there, clipped, 0.0), there


def _coded(numbers: pl.Series, column: CodesColumn, dtype: pl.DataType) -> pl.Series:
    """0 and 1 as the column writes control and treated."""
    control, treated = column.codes.pair
    kind = pl.String() if isinstance(control, str) else pl.Int64()
    coded = pl.select(
        pl.when(numbers == 1.0).then(pl.lit(treated, kind)).when(numbers == 0.0).then(pl.lit(control, kind))
    ).to_series()
    return coded if isinstance(control, str) else coded.cast(dtype)
