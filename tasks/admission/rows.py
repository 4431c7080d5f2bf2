"""Does a partition keep what the contract declares of its columns? Every problem at once, with counts for the owner."""

from __future__ import annotations

from collections import Counter
from itertools import compress
from typing import TYPE_CHECKING

import polars as pl

from causalveil.schemas.admission.casts import Roles, Types, families_differ
from causalveil.schemas.admission.cohort import Rule, accepts, cohort_schema, row_rules, suspects, type_rule
from causalveil.schemas.admission.manifest import Finding
from causalveil.schemas.plan import Partition
from causalveil.tasks.machine.named import named, values_of

if TYPE_CHECKING:
    import pandera.polars as pa


def type_findings(roles: Roles, partition: Partition, types: Types, first: Types, *, exact: bool) -> list[Finding]:
    """Find columns that are missing, of a wrong type, or not to be read as one with the first partition's.

    Args:
        roles: what each column must hold.
        partition: a file; one without rows holds nothing of a wrong type.
        types: of its columns, from its footer: no row is read.
        first: of the first partition that has rows.
        exact: whether whole numbers must have one type too, as where rows are written anew.
    """
    found = []
    for name, role in roles.items() if partition.rows else ():
        if name not in types:
            found.append(Finding(path=partition.path, column=name, rule=Rule.missing))
        elif not accepts(role, types[name]):
            found.append(Finding(path=partition.path, column=name, rule=type_rule(role)))
        elif name in first and families_differ(role, types[name], first[name], exact=exact):
            found.append(Finding(path=partition.path, column=name, rule=Rule.same_type))
    return found


class RowRules:
    """The rules that every row of some columns is held to, made ready once for all frames of one schema."""

    def __init__(self, roles: Roles, types: Types) -> None:
        """``roles``: columns whose types are as they should be; ``types``: theirs, as files store them."""
        self._roles, self._types = roles, {name: types[name] for name in roles}
        self._schema: pa.DataFrameSchema | None = None
        asked = [
            (name, rule, asks) for name, role in roles.items() for rule, asks in suspects(role, types[name]).items()
        ]
        self._names = [name for name, _, _ in asked]
        # To pandera columns are numbered: it takes names for patterns.
        self._numbers = {name: str(place) for place, name in enumerate(self._roles)}
        self._asked = [asks(named(name)).alias(str(place)) for place, (name, _, asks) in enumerate(asked)]

    def keep(self, frame: pl.DataFrame) -> bool:
        """Say of a frame, as it is read, whether every row keeps every rule; False: :meth:`broken` must look."""
        return not self._suspected(frame)

    def broken(self, frame: pl.DataFrame) -> Counter[tuple[str, Rule]]:
        """How many rows of a frame break which rule of which column: pandera says which, of the suspected columns."""
        counts = Counter[tuple[str, Rule]]()
        columns = self._suspected(frame)
        if columns:
            if self._schema is None:
                self._schema = cohort_schema(
                    {self._numbers[name]: role for name, role in self._roles.items()},
                    {self._numbers[name]: dtype for name, dtype in self._types.items()},
                )
            numbered = {self._numbers[name]: name for name in columns}
            rows = pl.DataFrame({number: values_of(frame, name) for number, name in numbered.items()})
            for number, rule in _broken(self._schema.select_columns(list(numbered)), rows):
                name = numbered[number]
                breaks = row_rules(self._roles[name], self._types[name])[rule]
                counts[name, rule] += int(frame.select(breaks(named(name)).sum()).item())
        return counts

    def _suspected(self, frame: pl.DataFrame) -> list[str]:
        """The columns that may break a rule, in the order in which they are declared."""
        if not self._asked or frame.is_empty():
            return []
        return list(dict.fromkeys(compress(self._names, frame.select(self._asked).row(0))))


def row_findings(partition: Partition, counts: Counter[tuple[str, Rule]]) -> list[Finding]:
    """What :meth:`RowRules.broken` counted in one partition, for its owner."""
    return [Finding(path=partition.path, column=name, rule=rule, rows=rows) for (name, rule), rows in counts.items()]


def _broken(schema: pa.DataFrameSchema, frame: pl.DataFrame) -> list[tuple[str, Rule]]:
    """Run pandera, fully, whatever the environment says, and keep of its failures column and rule alone."""
    from pandera.config import ValidationDepth, config_context
    from pandera.errors import SchemaErrors

    # PANDERA_VALIDATION_ENABLED=False in the environment would turn every check into a pass.
    with config_context(
        validation_enabled=True,
        validation_depth=ValidationDepth.SCHEMA_AND_DATA,
        use_narwhals_backend=False,
    ):
        try:
            schema.validate(frame, lazy=True)
        except SchemaErrors as problem:
            return [(str(error.schema.name), Rule(str(error.check.name))) for error in problem.schema_errors]
    return []
