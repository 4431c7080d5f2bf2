"""Conditions of eligibility: comparisons of declared columns with public values.

A unit must meet all of them. They are part of the study and public. Which units meet them is private: all others stay
in the data as rows that add nothing, so that n is independent of them (``docs/proofs/questions.md``, section 8).

The study file's ``where:`` names columns (:class:`AskedWhere`); in full a condition has the contract's declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from causalveil.schemas.columns import (
    CategoricalCovariate,
    Code,
    Column,
    Covariate,
    Finite,
    Missing,
    Name,
    Nulls,
    covariate_role,
    labels_of,
)
from causalveil.schemas.declared import CodesColumn, Declared, LevelsColumn
from causalveil.schemas.documents import RuleBroken
from causalveil.schemas.privacy import Frozen

MOST_CONDITIONS, MOST_VALUES = 20, 1000


class Operator(StrEnum):
    """The comparison of a column with the values."""

    equal = "=="
    unequal = "!="
    less = "<"
    at_most = "<="
    more = ">"
    at_least = ">="
    one_of = "in"
    none_of = "not in"

    @property
    def orders(self) -> bool:
        """True if it needs numbers."""
        return self in (Operator.less, Operator.at_most, Operator.more, Operator.at_least)

    @property
    def several(self) -> bool:
        """True if it takes a list of values."""
        return self in (Operator.one_of, Operator.none_of)

    @property
    def negated(self) -> bool:
        """True if units meet it that have none of the values."""
        return self in (Operator.unequal, Operator.none_of)


def _one_value(value: Any) -> Any:
    """Refuse values that are neither text, number nor boolean."""
    if value is None or isinstance(value, Mapping | list | tuple):
        raise ValueError("a value is text, a number or a boolean")
    if isinstance(value, int) and not abs(value) < 2**63:
        raise ValueError("a whole number has at most 64 bits")
    return value


Value = Annotated[Code | Finite, BeforeValidator(_one_value)]


class Condition(Frozen):
    """A comparison in full: the column as the contract declares it, and values that it may hold.

    A missing value meets no comparison. Numbers are compared after they are clipped to the declared range.
    """

    column: Name
    holds: Covariate
    op: Operator
    values: Annotated[tuple[Value, ...], Field(min_length=1, max_length=MOST_VALUES)]

    @model_validator(mode="after")
    def _comparable(self) -> Self:
        if problem := next(self._problems(), None):
            raise ValueError(f"'{self.column} {self.op}': {problem}")
        return self

    def _problems(self) -> Iterator[str]:
        """Yield problems with the values; the first may cause the next."""
        if len(self.values) > 1 and not self.op.several:
            yield "takes one value"
        if len({(type(value) is str, value) for value in self.values}) < len(self.values):
            yield "a value stands twice"
        known = self.known
        if known is None:
            yield from self._of_numbers()
            return
        if self.op.orders:
            yield "has levels, which have no order; use '==', '!=', 'in' or 'not in'"
        unknown = [value for value in self.values if not _stands_in(value, known)]
        if unknown:
            names = self.holds.of_names if isinstance(self.holds, CategoricalCovariate) else {}
            shown = ", ".join(map(repr, (*names, *known)[:20]))
            yield f"{unknown[0]!r} is none of what the contract declares: {shown}"
        left = len(known) - len(self.values) if self.op.negated else len(self.values)
        if left == 0:
            yield "no unit can meet it: it excludes every declared value"
        if left == len(known) and not self._may_be_missing:
            yield "every unit meets it: it excludes no declared value; leave it out"

    def _of_numbers(self) -> Iterator[str]:
        lower, upper = self._ends
        for value in self.values:
            if isinstance(value, str | bool):
                yield f"{value!r} is no number"
            elif not lower <= value <= upper:
                yield f"{value:g} is outside the declared range from {lower:g} to {upper:g}"
        if not self.op.orders or not all(isinstance(value, int | float) for value in self.values):
            return
        value = float(self.values[0])
        if (self.op is Operator.more and value >= upper) or (self.op is Operator.less and value <= lower):
            yield "no unit can meet it: values are clipped to the declared range"
        every = (self.op is Operator.at_least and value <= lower) or (self.op is Operator.at_most and value >= upper)
        if every and not self._may_be_missing:
            yield "every unit meets it: it excludes no part of the declared range; leave it out"

    @property
    def known(self) -> tuple[str | int | bool, ...] | None:
        """The values that the column may hold: levels, or two codes; None for a number."""
        if isinstance(self.holds, CategoricalCovariate):
            return self.holds.slots
        codes = self.holds.codes
        return None if codes is None else codes.written

    @property
    def _ends(self) -> tuple[float, float]:
        if isinstance(self.holds, CategoricalCovariate):
            return 0.0, 0.0
        return self.holds.lower, self.holds.upper

    @property
    def _may_be_missing(self) -> bool:
        return self.holds.nulls is Missing.indicator

    @property
    def role(self) -> Column:
        """The requirements on the column."""
        nulls = Nulls.welcome if self._may_be_missing else Nulls.undeclared
        return covariate_role(self.holds, nulls)

    @property
    def words(self) -> str:
        """The condition in words."""
        return condition_words(self.model_dump(mode="json"))


def condition_words(condition: Mapping[str, Any], *, column: bool = True) -> str:
    """Return a comparison of a specification in one line; levels that have names are named.

    ``column``: whether the line begins with its column.
    """
    labels = labels_of(condition["holds"])
    values = [labels.get(str(value), value) for value in condition["values"]]
    shown = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    right = shown[0] if len(shown) == 1 and "in" not in condition["op"] else f"[{', '.join(shown)}]"
    return f"{condition['column'] if column else ''} {condition['op']} {right}".strip()


def where_words(specification: Any) -> str:
    """Return the conditions of a specification in one line; empty where all units are eligible."""
    return " and ".join(map(condition_words, specification.get("where") or ()))


def refuse_roles(conditions: Iterable[Condition], roles: Mapping[str | None, str]) -> None:
    """Refuse comparisons of columns with another role, and comparisons that no unit can meet.

    Args:
        conditions: of a study.
        roles: the columns of unit, treatment, outcomes and blocks, with the role of each in words.

    Raises:
        ValueError: names the column.
    """
    conditions = tuple(conditions)
    for condition in conditions:
        if condition.column in roles:
            raise RuleBroken(
                f"'where' names '{condition.column}', which is {roles[condition.column]}; eligibility must be known "
                "before treatment",
                "where",
            )
    if column := never_met(conditions):
        raise RuleBroken(
            f"'where': no value of '{column}' meets all comparisons, so no unit would be eligible", "where"
        )


def never_met(conditions: Iterable[Condition]) -> str | None:
    """Return a column of which no declared value meets all comparisons; None: there is none."""
    by_column: dict[str, list[Condition]] = {}
    for condition in conditions:
        by_column.setdefault(condition.column, []).append(condition)
    for column, comparisons in by_column.items():
        known = comparisons[0].known
        if known is None:
            if _empty(comparisons):
                return column
            continue
        values = set(known)
        for condition in comparisons:
            values = values - set(condition.values) if condition.op.negated else values & set(condition.values)
        if not values:
            return column
    return None


def _empty(comparisons: list[Condition]) -> bool:
    """Return whether no number meets all comparisons of a column."""
    lower, upper, open_lower, open_upper = -float("inf"), float("inf"), False, False
    points: set[float] | None = None
    for condition in comparisons:
        value = float(condition.values[0])
        if condition.op in (Operator.more, Operator.at_least) and value >= lower:
            open_lower = condition.op is Operator.more or (open_lower and value == lower)
            lower = value
        elif condition.op in (Operator.less, Operator.at_most) and value <= upper:
            open_upper = condition.op is Operator.less or (open_upper and value == upper)
            upper = value
        elif condition.op in (Operator.equal, Operator.one_of):
            listed = set(map(float, condition.values))
            points = listed if points is None else points & listed
    excluded = {float(value) for condition in comparisons if condition.op.negated for value in condition.values}

    def inside(value: float) -> bool:
        above = value > lower if open_lower else value >= lower
        below = value < upper if open_upper else value <= upper
        return above and below and value not in excluded

    if points is not None:
        return not any(inside(value) for value in points)
    return lower > upper or (lower == upper and not inside(lower))


def _stands_in(value: Any, known: tuple[Any, ...]) -> bool:
    """Return whether a value is known; 1 is not the text "1", 0 and 1 may be booleans."""
    types: tuple[type, ...] = (str,) if isinstance(value, str) else (bool, int)
    return any(isinstance(level, types) and level == value for level in known)


class AskedCondition(Frozen):
    """A comparison that units must meet to be eligible: ``{column: age, op: ">=", value: 40}``.

    ``in`` and ``not in`` take ``values``, a list. Units without a value in the column are not eligible.
    """

    column: Name
    op: Operator
    value: Value | None = None
    values: Annotated[tuple[Value, ...] | None, Field(min_length=1, max_length=MOST_VALUES)] = None

    @model_validator(mode="after")
    def _as_many_as_it_takes(self) -> Self:
        if (self.values is None) == self.op.several or (self.value is None) != self.op.several:
            takes = "'values', a list" if self.op.several else "one 'value'"
            raise RuleBroken(f"'{self.op}' takes {takes}", "", "value", "values")
        return self

    @property
    def listed(self) -> tuple[Value, ...]:
        """The values, one or several."""
        return self.values if self.values is not None else (() if self.value is None else (self.value,))

    def in_full(self, holds: dict[str, Any], column: Declared | None) -> dict[str, Any]:
        """Return the comparison with its column's declaration, and values in its type."""
        values: list[Any] = list(self.listed)
        if isinstance(column, LevelsColumn):
            values = [column.coded(value) for value in values]
        if "levels" not in holds and column is not None and not isinstance(column, CodesColumn):
            values = [
                float(value) if isinstance(value, int) and not isinstance(value, bool) else value for value in values
            ]
        if isinstance(column, CodesColumn) and isinstance(column.codes.written[0], bool):
            values = [bool(value) if isinstance(value, int) and value in (0, 1) else value for value in values]
        return {"column": self.column, "holds": holds, "op": self.op, "values": values}

    def is_asked_by(self, full: Condition) -> bool:
        """Return whether a comparison in full is this one."""
        codes = full.holds.of_names if isinstance(full.holds, CategoricalCovariate) else {}
        values = tuple(codes.get(value, value) if isinstance(value, str) else value for value in self.listed)
        return (self.column, self.op, values) == (full.column, full.op, full.values)


AskedWhere = Annotated[
    tuple[AskedCondition, ...],
    Field(
        max_length=MOST_CONDITIONS,
        description="conditions of eligibility: comparisons of declared columns, all of which a unit must meet",
    ),
    BeforeValidator(lambda value: () if value is None else value),
]
