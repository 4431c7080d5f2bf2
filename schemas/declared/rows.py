"""How several rows of a unit become one when data are admitted: ``rows`` of dataset.yaml.

A unit's rows are put in the order of one column; the first or the last ``at_most`` of them count, and each column of
the row that results comes of those by its aggregate. What the result can hold follows from the contract alone, so one
unit is one bounded row however many rows it has (``docs/proofs/data.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from causalveil.schemas.asked.numbers import sane_range
from causalveil.schemas.declared.columns import (
    CodesColumn,
    Declared,
    EventColumn,
    LevelsColumn,
    NumberColumn,
    TimeColumn,
)
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.study import Name


class Keep(StrEnum):
    """From which end of their order a unit's rows are kept."""

    first = "first"
    last = "last"


class Aggregate(StrEnum):
    """What becomes of one column of a unit's rows. Nulls are left out by all but ``first`` and ``last``."""

    first = "first"
    last = "last"
    sum = "sum"
    mean = "mean"
    min = "min"
    max = "max"
    any = "any"
    all = "all"


_OF_ORDER = (Aggregate.first, Aggregate.last)
_OF_NUMBERS = (*_OF_ORDER, Aggregate.sum, Aggregate.mean, Aggregate.min, Aggregate.max)
_OF_CODES = (*_OF_ORDER, Aggregate.sum, Aggregate.mean, Aggregate.any, Aggregate.all)


class RowsPerUnit(Frozen):
    """``at_most`` rows of a unit count, from one end of the order; columns without an aggregate are that end's row.

    Rows without a value of ``order`` stand at the other end: they count only where a unit has no others. To leave them
    out would drop units for what stands in their rows.
    """

    at_most: Annotated[int | None, Field(ge=1, le=10_000)] = None
    keep: Keep = Keep.last
    order: Name | None = None
    aggregates: Annotated[dict[Name, Aggregate], Field(default_factory=dict)]
    count: Annotated[Name | None, Field(description="name of a new column: how many rows were kept")] = None

    def aggregate(self, name: str) -> Aggregate:
        """Return the aggregate of a column: the declared one, or else the row that is kept."""
        return self.aggregates.get(name, Aggregate(self.keep.value))

    def check(self, unit: str, columns: Mapping[str, Declared]) -> None:
        """Refuse what names no column, has no bound, or has no order to go by.

        Raises:
            ValueError: says what to write instead.
        """
        for name, aggregate in self.aggregates.items():
            if name not in columns:
                raise ValueError(f"'rows.aggregates' names '{name}', which is no key of 'columns'; declare it there")
            allowed = _allowed(columns[name])
            if aggregate not in allowed:
                raise ValueError(
                    f"'rows.aggregates.{name}': a column of its kind cannot be '{aggregate}'; one of: "
                    f"{', '.join(allowed)}"
                )
            if aggregate is Aggregate.sum and self.at_most is None:
                raise ValueError(
                    f"'rows.aggregates.{name}': a sum over any number of rows has no bound; add 'rows.at_most'"
                )
        self._check_order(unit, columns)
        self._check_count(unit, columns)
        for name, column in columns.items():
            lower, upper = _range(self, name, column)
            if (lower, upper) != (0, 0):
                _sane(name, lower, upper)

    def _check_order(self, unit: str, columns: Mapping[str, Declared]) -> None:
        if self.order == unit:
            raise ValueError(
                "'rows.order' is the unit, which is the same in all rows of a unit; name a date or a number"
            )
        if self.order is None:
            by_order = [name for name in columns if self.aggregate(name) in _OF_ORDER]
            if self.at_most is not None or by_order:
                reason = "'at_most'" if not by_order else f"column '{by_order[0]}'"
                raise ValueError(
                    f"'rows.order' is missing: {reason} needs to know which rows come first; name a column of the "
                    "data, such as a date"
                )

    def _check_count(self, unit: str, columns: Mapping[str, Declared]) -> None:
        if self.count is None:
            return
        if self.count in (unit, self.order, *columns):
            raise ValueError(f"'rows.count' is '{self.count}', a column of the data; give the new column another name")
        if self.at_most is None or self.at_most < 2:
            raise ValueError("'rows.count' counts up to 'rows.at_most', which must be given and above 1")


def offered(rows: RowsPerUnit | None, columns: Mapping[str, Declared]) -> dict[str, Declared]:
    """The columns that a study can name, and what they hold: declared ranges of aggregates, and the count.

    Args:
        rows: how rows are reduced; None: each unit has one row.
        columns: of the data, as declared; :meth:`RowsPerUnit.check` has passed.
    """
    if rows is None:
        return dict(columns)
    result = {name: _reduced(rows, name, column) for name, column in columns.items()}
    if rows.count is not None and rows.at_most is not None:
        result[rows.count] = NumberColumn(lower=1, upper=rows.at_most, unit_of_measure="rows")
    return result


# Of these a unit has the value of one of her rows: a sum or a mean of two follow-ups is no follow-up.
_TAKEN_WHOLE = (LevelsColumn, TimeColumn, EventColumn)


def _allowed(column: Declared) -> tuple[Aggregate, ...]:
    if isinstance(column, _TAKEN_WHOLE):
        return _OF_ORDER
    return _OF_CODES if isinstance(column, CodesColumn) else _OF_NUMBERS


def _range(rows: RowsPerUnit, name: str, column: Declared) -> tuple[float, float]:
    """The ends of what a number becomes; (0, 0) where the result is no number.

    The sum of j values in [l, u], 1 <= j <= k, lies in [min(l, k l), max(u, k u)].
    """
    aggregate = rows.aggregate(name)
    if isinstance(column, _TAKEN_WHOLE) or (
        isinstance(column, CodesColumn) and aggregate not in (Aggregate.sum, Aggregate.mean)
    ):
        return 0, 0
    lower, upper = (column.lower, column.upper) if isinstance(column, NumberColumn) else (0.0, 1.0)
    if aggregate is not Aggregate.sum or rows.at_most is None:
        return lower, upper
    return min(lower, rows.at_most * lower), max(upper, rows.at_most * upper)


def _reduced(rows: RowsPerUnit, name: str, column: Declared) -> Declared:
    """A column as it is once rows are reduced."""
    lower, upper = _range(rows, name, column)
    if isinstance(column, NumberColumn):
        return column.model_copy(update={"lower": lower, "upper": upper})
    if (lower, upper) == (0, 0) or isinstance(column, _TAKEN_WHOLE):
        return column
    return NumberColumn(lower=lower, upper=upper, nulls=column.nulls, description=column.description)


def _sane(name: str, lower: float, upper: float) -> None:
    try:
        sane_range(lower, upper)
    except ValueError as problem:
        raise ValueError(f"'rows': the range that follows for '{name}': {problem}") from None
