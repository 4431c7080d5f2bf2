"""Compare declared columns with public values: whom a study is about.

A unit must meet all comparisons. They are part of the study and public. Who meets them is private: a unit that does not
stays in the data as a row that adds nothing, so that n tells nothing of it (``docs/proofs/questions.md``, section 8).

The study file's ``where:`` has them by name (:class:`AskedWhere`); in full they are the contract's columns.
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
        """Return whether it needs numbers."""
        return self in (Operator.less, Operator.at_most, Operator.more, Operator.at_least)

    @property
    def several(self) -> bool:
        """Return whether it takes a list of values."""
        return self in (Operator.one_of, Operator.none_of)

    @property
    def negated(self) -> bool:
        """Return whether a unit meets it by having none of the values."""
        return self in (Operator.unequal, Operator.none_of)


def _one_value(value: Any) -> Any:
    """Refuse what is no text, number or boolean before each kind says so for itself."""
    if value is None or isinstance(value, Mapping | list | tuple):
        raise ValueError("a value is text, a number or a boolean")
    if isinstance(value, int) and not abs(value) < 2**63:
        raise ValueError("a whole number has at most 64 bits")
    return value


Value = Annotated[Code | Finite, BeforeValidator(_one_value)]


class Condition(Frozen):
    """A comparison in full: the column as the contract declares it, and values that it may hold.

    A value that is missing meets no comparison. A number is compared as it is read: clipped to its declared range.
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
        """Say what is wrong with the values; the first problem may be the reason of the next."""
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
            named = self.holds.of_names if isinstance(self.holds, CategoricalCovariate) else {}
            shown = ", ".join(repr(one) for one in (*named, *known)[:20])
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
        """Values that the column may hold: its levels, or two codes; None for a number."""
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
        """Declaration of what the column must hold."""
        nulls = Nulls.welcome if self._may_be_missing else Nulls.undeclared
        return covariate_role(self.holds, nulls)

    @property
    def words(self) -> str:
        """Condition as a person reads it."""
        return condition_words(self.model_dump(mode="json"))


def said(column: str, op: str, values: Iterable[Any]) -> str:
    """Return a comparison in one line."""
    shown = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    return f"{column} {op} {shown[0] if len(shown) == 1 and 'in' not in op else '[' + ', '.join(shown) + ']'}"


def condition_words(condition: Mapping[str, Any], *, column: bool = True) -> str:
    """Return a comparison of a study in full, in one line; levels that have names are named.

    ``column``: whether its column stands before it.
    """
    labels = labels_of(condition["holds"])
    values = [labels.get(str(one), one) for one in condition["values"]]
    return said(condition["column"] if column else "", condition["op"], values).strip()


def where_words(specification: Any) -> str:
    """Return who a study in full is about, in one line; empty where it is about all units."""
    return " and ".join(map(condition_words, specification.get("where") or ()))


def refuse_roles(conditions: Iterable[Condition], roles: Mapping[str | None, str]) -> None:
    """Refuse comparisons of columns with another role, and those that no unit can meet.

    A column has another role where the study reads it as something else.

    Args:
        conditions: of a study.
        roles: columns that tell what happened, or whom a row is of, each with what it is.

    Raises:
        ValueError: names the column.
    """
    conditions = tuple(conditions)
    for one in conditions:
        if one.column in roles:
            raise RuleBroken(
                f"'where' names '{one.column}', which is {roles[one.column]}; eligibility must be known before "
                "treatment",
                "where",
            )
    if column := never_met(conditions):
        raise RuleBroken(
            f"'where': no value of '{column}' meets all comparisons, so no unit would be eligible", "where"
        )


def never_met(conditions: Iterable[Condition]) -> str | None:
    """Return the column of which no declared value meets all comparisons; None: there is none."""
    by_column: dict[str, list[Condition]] = {}
    for one in conditions:
        by_column.setdefault(one.column, []).append(one)
    for column, own in by_column.items():
        known = own[0].known
        if known is not None:
            left = set(known)
            for one in own:
                left = left - set(one.values) if one.op.negated else left & set(one.values)
            if not left:
                return column
        elif _empty(own):
            return column
    return None


def _empty(own: list[Condition]) -> bool:
    """Return whether no number meets all comparisons of a column."""
    lower, upper, open_lower, open_upper = -float("inf"), float("inf"), False, False
    points: set[float] | None = None
    for one in own:
        value = float(one.values[0])
        if one.op in (Operator.more, Operator.at_least) and value >= lower:
            open_lower = one.op is Operator.more or (open_lower and value == lower)
            lower = value
        elif one.op in (Operator.less, Operator.at_most) and value <= upper:
            open_upper = one.op is Operator.less or (open_upper and value == upper)
            upper = value
        elif one.op in (Operator.equal, Operator.one_of):
            own_points = {float(value) for value in one.values}
            points = own_points if points is None else points & own_points
    excluded = {float(value) for one in own if one.op.negated for value in one.values}

    def inside(value: float) -> bool:
        above = value > lower if open_lower else value >= lower
        below = value < upper if open_upper else value <= upper
        return above and below and value not in excluded

    if points is not None:
        return not any(inside(value) for value in points)
    return lower > upper or (lower == upper and not inside(lower))


def _stands_in(value: Any, known: tuple[Any, ...]) -> bool:
    """Return whether a value is one of those that are known.

    1 is no text, and 0 and 1 may be written for booleans.
    """
    kinds: tuple[type, ...] = (str,) if isinstance(value, str) else (bool, int)
    return any(isinstance(one, kinds) and one == value for one in known)


class AskedCondition(Frozen):
    """A comparison that units must meet to be eligible: ``{column: age, op: ">=", value: 40}``.

    ``in`` and ``not in`` take ``values``, a list. Who has no value in the column is not eligible.
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
        """Return the comparison with what the contract says of its column.

        Numbers and booleans have one form.
        """
        values: list[Any] = list(self.listed)
        if isinstance(column, LevelsColumn):
            values = [column.coded(one) for one in values]
        if "levels" not in holds and column is not None and not isinstance(column, CodesColumn):
            values = [float(one) if isinstance(one, int) and not isinstance(one, bool) else one for one in values]
        if isinstance(column, CodesColumn) and isinstance(column.codes.written[0], bool):
            values = [bool(one) if isinstance(one, int) and one in (0, 1) else one for one in values]
        return {"column": self.column, "holds": holds, "op": self.op, "values": values}

    def is_asked_by(self, found: Condition) -> bool:
        """Return whether a comparison in full is this one."""
        codes = found.holds.of_names if isinstance(found.holds, CategoricalCovariate) else {}
        values = tuple(codes.get(one, one) if isinstance(one, str) else one for one in self.listed)
        return (self.column, self.op, values) == (found.column, found.op, found.values)


def _nothing_as_none(value: Any) -> Any:
    return () if value is None else value


AskedWhere = Annotated[
    tuple[AskedCondition, ...],
    Field(
        max_length=MOST_CONDITIONS,
        description="whom the study is about: comparisons of declared columns, all of which a unit must meet",
    ),
    BeforeValidator(_nothing_as_none),
]
