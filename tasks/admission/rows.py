"""Does a partition keep what the contract declares of its columns? Every problem at once, with counts for the owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from causalveil.schemas.admission.cohort import (
    Roles,
    Rule,
    Types,
    accepts,
    cohort_schema,
    row_rules,
    storage,
    type_rule,
)
from causalveil.schemas.admission.manifest import Finding
from causalveil.schemas.plan import Partition
from causalveil.tasks.enclave.partitions import read_as, read_rows
from causalveil.tasks.enclave.segments import segment_rows

if TYPE_CHECKING:
    import pandera.polars as pa


def type_findings(roles: Roles, partition: Partition, types: Types, first: Types) -> list[Finding]:
    """Columns that are missing, of a wrong type, or of another type than in the first partition. Reads no row."""
    found = []
    for name, role in roles.items():
        if name not in types:
            found.append(Finding(path=partition.path, column=name, rule=Rule.missing))
        elif not accepts(role, types[name]):
            found.append(Finding(path=partition.path, column=name, rule=type_rule(role)))
        elif name in first and storage(types[name]) != storage(first[name]):
            found.append(Finding(path=partition.path, column=name, rule=Rule.same_type))
    return found


def row_findings(
    roles: Roles, folder: Path, partition: Partition, types: Types, each: Callable[[pl.DataFrame], None]
) -> list[Finding]:
    """Hold all rows of one partition to the rules of their columns, frame by frame.

    Args:
        roles: columns whose types are as they should be.
        folder: the data folder.
        partition: one of its files.
        types: of its columns.
        each: is shown every frame.

    Raises:
        DataError: the file cannot be read.
    """
    types = {name: read_as(types[name]) for name in roles}
    schema, counts = cohort_schema(roles, types), Counter[tuple[str, Rule]]()
    for frame in read_rows(folder, partition, list(roles), segment_rows(len(roles))):
        for name, rule in _broken(schema, frame):
            breaks = row_rules(roles[name], types[name])[rule]
            counts[name, rule] += int(frame.select(breaks(pl.col(name)).sum()).item())
        each(frame)
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
