"""``where:`` of a study file: comparisons of declared columns with values, and the same in full by the contract."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from causalveil.schemas.declared.columns import CodesColumn, Declared
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.protocols.where import MOST_CONDITIONS, MOST_VALUES, Condition, Operator, Value
from causalveil.schemas.study import Name


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
            raise ValueError(f"'{self.op}' takes {takes}")
        return self

    @property
    def listed(self) -> tuple[Value, ...]:
        """The values, one or several."""
        return self.values if self.values is not None else (() if self.value is None else (self.value,))

    def in_full(self, holds: dict[str, Any], column: Declared | None) -> dict[str, Any]:
        """Return the comparison with what the contract says of its column; numbers and booleans have one form."""
        values: list[Any] = list(self.listed)
        if "levels" not in holds and column is not None and not isinstance(column, CodesColumn):
            values = [float(one) if isinstance(one, int) and not isinstance(one, bool) else one for one in values]
        if isinstance(column, CodesColumn) and isinstance(column.codes.control, bool):
            values = [bool(one) if isinstance(one, int) and one in (0, 1) else one for one in values]
        return {"column": self.column, "holds": holds, "op": self.op, "values": values}

    def is_asked_by(self, found: Condition) -> bool:
        """Return whether a comparison in full is this one."""
        return (self.column, self.op, self.listed) == (found.column, found.op, found.values)


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
