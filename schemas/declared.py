"""Declare what columns hold, and how several rows of a unit become one.

The owner declares both, in ``columns`` and ``rows`` of dataset.yaml. A unit's rows are sorted by one column; the first
or the last ``at_most`` of them count, and each column is reduced to one value by its aggregate. The range of the result
follows from the contract alone, so one unit is one bounded row however many rows it has (``docs/proofs/data.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Discriminator, Field, Tag, model_validator

from causalveil.schemas.columns import (
    ANY_OTHER,
    OTHER,
    Bounds,
    Code,
    Codes,
    Finite,
    LevelCode,
    Levels,
    Missing,
    Name,
    NumberScale,
    Others,
    YesOrNo,
    distinct_levels,
    distinct_names,
    event_codes,
    level_labels,
    sane_names,
    sane_range,
    scaled_ends,
)
from causalveil.schemas.documents import RuleBroken
from causalveil.schemas.privacy import Frozen

Words = Annotated[str, Field(max_length=2000)]
# The most periods of one column in ``rows.wide``.
MOST_PERIODS = 200
# The separator of column and period in the name of a column that ``rows.wide`` makes.
PERIOD = "@"


class DeclaredColumn(Frozen):
    """The keys of every column.

    ``nulls: indicator`` welcomes nulls: a study that uses the column says who has one.
    """

    nulls: Missing = Missing.refuse
    unit_of_measure: Annotated[str | None, Field(max_length=100)] = None
    description: Words | None = None


class NumberColumn(DeclaredColumn, Bounds):
    """A number and its range, from public knowledge; values beyond it are clipped.

    ``scale``: the scale on which it is read as a covariate; a study may replace it.
    """

    scale: NumberScale | None = None

    @model_validator(mode="after")
    def _on_its_scale(self) -> NumberColumn:
        scaled_ends(self.scale, self.lower, self.upper)
        return self


# Tags have a space, which distinguishes them from keys in messages.
DeclaredLevels = Annotated[
    Annotated[Levels, Tag("listed levels")]
    | Annotated[dict[str, LevelCode], Field(min_length=2, max_length=1000), Tag("named levels")],
    Discriminator(lambda value: "named levels" if isinstance(value, Mapping) else "listed levels"),
]


class LevelsColumn(DeclaredColumn):
    """A category: a list of levels, or levels by name, as ``levels: {never: 1, former: 2}``.

    ``others``: whether a value that is no level counts as the level ``other``, or is refused. Names affect no
    computation: people read them in place of the levels.
    """

    levels: DeclaredLevels
    others: Others = Others.refuse

    @model_validator(mode="after")
    def _distinct(self) -> LevelsColumn:
        distinct_names(self.names, self.codes)
        distinct_levels(self.codes)
        if self.others is Others.other and self.names is not None:
            labels = level_labels(self.codes, self.names)
            if labels[OTHER] == ANY_OTHER:
                raise RuleBroken(
                    f"'levels' has a code of the name '{OTHER}', as undeclared values would; rename it", "levels"
                )
        return self

    @property
    def codes(self) -> tuple[str | int, ...]:
        """The levels, as rows hold them."""
        return tuple(self.levels.values()) if isinstance(self.levels, dict) else self.levels

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the levels, in their order; None where they have none."""
        return tuple(self.levels) if isinstance(self.levels, dict) else None

    def coded(self, value: Any) -> Any:
        """Return the code that a value names; other values are returned unchanged."""
        return self.levels.get(value, value) if isinstance(self.levels, dict) and isinstance(value, str) else value


DeclaredCodes = Annotated[
    Annotated[Codes, Tag("codes of arms")] | Annotated[YesOrNo, Tag("codes of no and yes")],
    Discriminator(
        lambda value: (
            "codes of no and yes"
            if isinstance(value, YesOrNo) or (isinstance(value, Mapping) and not {"no", "yes"}.isdisjoint(value))
            else "codes of arms"
        )
    ),
]


class CodesColumn(DeclaredColumn):
    """A column of two codes: ``{control, treated}`` of a treatment, else ``{no, yes}``."""

    codes: DeclaredCodes


class FollowUp(Frozen):
    """Times from an origin that every unit has.

    ``upper``: the longest time that counts. ``step``: the smallest difference that is recorded. ``origin``: time zero,
    in words, as ``randomised`` or ``date of diagnosis``.
    """

    upper: Annotated[Finite, Field(gt=0, le=1e9)]
    origin: Annotated[str, Field(min_length=1, max_length=200)]
    step: Annotated[Finite, Field(ge=1e-9)] = 1.0

    @model_validator(mode="after")
    def _holds_a_step(self) -> Self:
        if self.step > self.upper:
            raise RuleBroken(
                "'step' is the smallest difference that is recorded, and must not be above 'upper'", "step"
            )
        return self


class TimeColumn(DeclaredColumn):
    """The time from an origin to an event or to the end of follow-up; at most ``upper`` counts."""

    time: FollowUp


class EventColumn(DeclaredColumn):
    """The end of a person's follow-up: an event of some kind, or censoring.

    ``censored``: the name of censoring; without it the name whose code is 0 or false. ``others``: whether a code that
    is not declared counts as an event of the name ``other``, or is refused.
    """

    event: Annotated[dict[Name, Code], Field(min_length=2, max_length=20)]
    censored: Name | None = None
    others: Others = Others.refuse

    @model_validator(mode="after")
    def _one_is_censoring(self) -> Self:
        codes = list(self.codes.values())
        sane_names(tuple(self.codes), codes)
        event_codes(tuple(codes))
        if self.censored is not None and self.censored not in self.event:
            raise RuleBroken(f"'censored' is '{self.censored}', which is none of the names of 'event'", "censored")
        if self.censored is None and 0 not in codes:
            raise ValueError("no code of 'event' is 0, so say which of its names is censoring: 'censored: NAME'")
        if self.others is Others.other and OTHER in self.event:
            raise RuleBroken(f"'event' has a code of the name '{OTHER}', as undeclared codes would; rename it", "event")
        return self

    @property
    def codes(self) -> dict[str, str | int]:
        """Every name with its code; booleans as 0 and 1."""
        return {name: code if isinstance(code, str) else int(code) for name, code in self.event.items()}

    @property
    def kinds(self) -> dict[str, str | int | None]:
        """Every name with its code; None: all undeclared codes."""
        return {**self.codes, **({OTHER: None} if self.others is Others.other else {})}

    @property
    def censoring(self) -> str:
        """The name of censoring."""
        return self.censored or next(name for name, code in self.codes.items() if code == 0)


_KINDS = {"levels": LevelsColumn, "codes": CodesColumn, "time": TimeColumn, "event": EventColumn}


def _column_kind(value: Any) -> str | None:
    # Tags have a space, which distinguishes them from keys in messages.
    for kind, model in _KINDS.items():
        if isinstance(value, model) or (isinstance(value, dict) and kind in value):
            return f"{kind} column"
    return "number column" if isinstance(value, dict | NumberColumn) else None


Declared = Annotated[
    Annotated[NumberColumn, Tag("number column")]
    | Annotated[LevelsColumn, Tag("levels column")]
    | Annotated[CodesColumn, Tag("codes column")]
    | Annotated[TimeColumn, Tag("time column")]
    | Annotated[EventColumn, Tag("event column")],
    Discriminator(
        _column_kind,
        custom_error_type="column",
        custom_error_message="a column is declared as {lower, upper}, {levels: [...]}, {levels: {NAME: code}}, "
        "{codes: {no, yes}}, {codes: {control, treated}}, {time: {upper, origin}} or {event: {NAME: code}}",
    ),
]


class Keep(StrEnum):
    """The end of the order from which a unit's rows are kept."""

    first = "first"
    last = "last"


class Aggregate(StrEnum):
    """The ways to reduce one column of a unit's rows to one value.

    Nulls are left out by all but ``first`` and ``last``.
    """

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
    """At most ``at_most`` rows of a unit count, from one end of the order.

    Columns without an aggregate have the value of the row at that end. Rows without a value of ``order`` are at the
    other end: they count only where a unit has too few others. To leave them out would drop units by their values.
    """

    at_most: Annotated[int | None, Field(ge=1, le=10_000)] = None
    keep: Keep = Keep.last
    order: Name | None = None
    aggregates: Annotated[dict[Name, Aggregate], Field(default_factory=dict)]
    count: Annotated[Name | None, Field(description="name of a new column: how many rows were kept")] = None
    wide: Annotated[
        dict[Name, Annotated[tuple[LevelCode, ...], Field(min_length=1, max_length=MOST_PERIODS)]],
        Field(
            description="a column of its own for each of these values of `order`: {wage: [1982, 1983]} makes wage@1982",
            exclude_if=lambda value: not value,
        ),
    ] = Field(default_factory=dict)

    @property
    def periods(self) -> dict[str, tuple[str, str | int]]:
        """Every column that ``wide`` makes, with its source column and value of ``order``.

        >>> RowsPerUnit(order="year", wide={"wage": (1982, 1983)}).periods
        {'wage@1982': ('wage', 1982), 'wage@1983': ('wage', 1983)}
        """
        return {f"{name}{PERIOD}{period}": (name, period) for name, values in self.wide.items() for period in values}

    def aggregate(self, name: str) -> Aggregate:
        """Return the aggregate of a column: as declared, else the value of the kept row."""
        return self.aggregates.get(name, Aggregate(self.keep.value))

    def check(self, unit: str, columns: Mapping[str, Declared]) -> None:
        """Refuse unknown columns, sums without a bound, and rows without an order.

        Raises:
            ValueError: says what to write instead.
        """
        for name, aggregate in self.aggregates.items():
            if name not in columns:
                raise RuleBroken(
                    f"'rows.aggregates' names '{name}', which is no key of 'columns'; declare it there",
                    "rows.aggregates",
                    name,
                )
            allowed = _allowed(columns[name])
            if aggregate not in allowed:
                raise RuleBroken(
                    f"'rows.aggregates.{name}': a column of its kind cannot be '{aggregate}'; one of: "
                    f"{', '.join(allowed)}",
                    f"rows.aggregates.{name}",
                )
            if aggregate is Aggregate.sum and self.at_most is None:
                raise RuleBroken(
                    f"'rows.aggregates.{name}': a sum over any number of rows has no bound; add 'rows.at_most'",
                    f"rows.aggregates.{name}",
                    "at_most",
                )
        self._check_order(unit, columns)
        self._check_count(unit, columns)
        self._check_wide(unit, columns)
        for name, column in columns.items():
            lower, upper = _range(self, name, column)
            if (lower, upper) != (0, 0):
                _sane(name, lower, upper)

    def _check_order(self, unit: str, columns: Mapping[str, Declared]) -> None:
        if self.order == unit:
            raise RuleBroken(
                "'rows.order' is the unit, which is the same in all rows of a unit; name a date or a number",
                "rows.order",
            )
        if self.order is None:
            by_order = [name for name in columns if self.aggregate(name) in _OF_ORDER]
            if self.at_most is not None or by_order:
                reason = "'at_most'" if not by_order else f"column '{by_order[0]}'"
                raise RuleBroken(
                    f"'rows.order' is missing: {reason} needs to know which rows come first; name a column of the "
                    "data, such as a date",
                    "rows.order",
                )

    def _check_count(self, unit: str, columns: Mapping[str, Declared]) -> None:
        if self.count is None:
            return
        if self.count in (unit, self.order, *columns):
            raise RuleBroken(
                f"'rows.count' is '{self.count}', a column of the data; give the new column another name", "rows.count"
            )
        if self.at_most is None or self.at_most < 2:
            raise RuleBroken("'rows.count' counts up to 'rows.at_most', which must be given and above 1", "rows.count")

    def _check_wide(self, unit: str, columns: Mapping[str, Declared]) -> None:
        if not self.wide:
            return
        if self.order is None:
            raise RuleBroken("'rows.wide' needs 'rows.order': the column with each row's period", "rows.wide", "order")
        for name, values in self.wide.items():
            if name not in columns or isinstance(columns[name], TimeColumn | EventColumn):
                raise RuleBroken(
                    f"'rows.wide' names '{name}', which is no number, code or level of 'columns'; declare it there",
                    "rows.wide",
                    name,
                )
            distinct_levels(values)
        for name in self.periods:
            if name in (unit, self.order, self.count, *columns):
                raise RuleBroken(f"'rows.wide' makes column '{name}', which the data have; rename theirs", "rows.wide")


def offered(rows: RowsPerUnit | None, columns: Mapping[str, Declared]) -> dict[str, Declared]:
    """Return the columns that a study can name; ranges of aggregates follow from the contract.

    Args:
        rows: how rows are reduced; None: each unit has one row.
        columns: of the data, as declared; :meth:`RowsPerUnit.check` has passed.
    """
    if rows is None:
        return dict(columns)
    result = {name: _reduced(rows, name, column) for name, column in columns.items()}
    if rows.count is not None and rows.at_most is not None:
        result[rows.count] = NumberColumn(lower=1, upper=rows.at_most, unit_of_measure="rows")
    for wide, (name, _) in rows.periods.items():
        # A unit may have no row of a period.
        result[wide] = result[name].model_copy(update={"nulls": Missing.indicator})
    return result


# Columns reduced to the value of one row: they have no sums and means.
_TAKEN_WHOLE = (LevelsColumn, TimeColumn, EventColumn)


def _allowed(column: Declared) -> tuple[Aggregate, ...]:
    if isinstance(column, _TAKEN_WHOLE):
        return _OF_ORDER
    return _OF_CODES if isinstance(column, CodesColumn) else _OF_NUMBERS


def _range(rows: RowsPerUnit, name: str, column: Declared) -> tuple[float, float]:
    """Return the range of a reduced number; (0, 0) where the result is no number.

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
    """Return the declaration of a column after reduction."""
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
        raise RuleBroken(f"'rows': the range that follows for '{name}': {problem}", "rows") from None
