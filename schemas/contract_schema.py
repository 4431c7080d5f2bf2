"""The contract as a pandera schema.

It alone decides which columns and rows are admitted.

The schema follows from what is declared alone. Its columns say which stored types may be read as what is declared; a
file's footer is held to them. Its checks say what no row may hold, one check a rule over all columns that the rule is
about. By itself pandera runs a query for each check of each column: 20 ms for 95,000 rows of 22 columns. So a check
asks a :class:`Tally`, which looks at a frame once for all of them: one ``select`` of aggregated polars expressions,
1.3 ms. No failing value is gathered: pandera is told yes or no, and the owner how many rows.

Values outside declared bounds are no error: they are clipped, always, because to refuse them at sample level would tell
about a single row. That no unit stands twice is a property of all partitions together: ``tasks/data/admit.py``.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import compress
from typing import Any

import polars as pl
import polars.selectors as cs

from causalveil.schemas.admission import Roles, Rule, Types, accepts, row_rules, suspects, type_rule
from causalveil.schemas.columns import FLOATS, Column
from causalveil.schemas.errors import CausalveilError

try:
    import pandera.polars as pa
    from pandera.config import ValidationDepth, config_context
    from pandera.engines import polars_engine
    from pandera.errors import SchemaErrorReason, SchemaErrors
except ImportError as problem:
    raise CausalveilError(
        f"pandera cannot be imported ({problem.name} is missing), and no rows are read that it has not held to their "
        "contract; install causalveil anew: pip install --force-reinstall causalveil"
    ) from None

Broken = Counter[tuple[str, Rule]]


class ReadAs(polars_engine.DataType):
    """A pandera type of every stored type whose values can be read without loss.

    They are the polars types that can be read as what a column is declared as.
    """

    role: Column

    def __init__(self, role: Column) -> None:
        """``role``: the requirements on the column."""
        object.__setattr__(self, "role", role)

    def check(self, pandera_dtype: Any, data_container: Any = None) -> bool:  # noqa: ARG002  (as pandera calls it)
        """Check a stored type, as pandera hands it over from a frame's schema."""
        return accepts(self.role, pandera_dtype)

    def __str__(self) -> str:
        """Return pandera's name of the type."""
        return str(self.role.holds)


class Tally:
    """Counts of a frame's rows that break each rule of each column, made once for all checks."""

    def __init__(self, roles: Roles) -> None:
        """``roles``: the requirements on each column; a frame may lack columns."""
        self._roles = roles
        self._types: dict[str, pl.DataType] | None = None
        self._looks: list[pl.Expr] = []
        self._keys: list[str] = []
        self._last: tuple[pl.LazyFrame, Broken] | None = None

    def of(self, frame: pl.LazyFrame) -> Broken:
        """Count the rows of a frame as it is read.

        The counts of the frame that was asked about last are remembered.
        """
        if self._last is None or self._last[0] is not frame:
            self._last = frame, self._count(frame)
        return self._last[1]

    def forget(self) -> None:
        """Release the last frame."""
        self._last = None

    def _count(self, frame: pl.LazyFrame) -> Broken:
        types = dict(frame.collect_schema())
        if types != self._types:
            asked = [
                (name, ask(cs.by_name(name)))
                for name in types.keys() & self._roles.keys()
                for ask in suspects(self._roles[name], types[name]).values()
            ]
            self._types = types
            self._keys = [name for name, _ in asked]
            self._looks = [look.alias(str(place)) for place, (_, look) in enumerate(asked)]
        counts = Broken()
        if not self._looks:
            return counts
        suspected = set(compress(self._keys, frame.select(self._looks).collect().row(0)))
        for name in self._roles:
            for rule, breaks in row_rules(self._roles[name], types[name]).items() if name in suspected else ():
                # A suspicion may be wrong, as sums overflow; a count is not.
                counts[name, rule] = int(frame.select(breaks(cs.by_name(name)).sum()).collect().item())
        return +counts


class ContractSchema:
    """The pandera schema of some columns, and what it says of footers and of rows.

    Example:
        >>> from causalveil.schemas.columns import Column, Holds
        >>> schema = ContractSchema({"age": Column(holds=Holds.number)})
        >>> schema.wrong({"age": pl.String()})
        {'age': <Rule.number_type: 'must be an integer, float, decimal or boolean column'>}
        >>> schema.broken(pl.DataFrame({"age": [31.0, None, float("nan")]}))
        Counter({('age', <Rule.null: 'holds nulls or NaN'>): 2})
    """

    def __init__(self, roles: Roles) -> None:
        """``roles``: what each column must hold."""
        self._roles = roles
        self._tally = Tally(roles)
        self._footer: tuple[Types, dict[str, Rule]] | None = None
        self.schema = pa.DataFrameSchema(
            # Nulls are a rule of ours: whether a column may hold them is declared.
            {_key(name): _column(name, role) for name, role in roles.items()},
            checks=[
                pa.Check(partial(self._keeps, rule), name=rule.value, description=", ".join(names))
                for rule, names in _columns_of_rules(roles).items()
            ],
        )

        # One question in place of one a rule; which rule is broken is asked of the frames where one is.
        self._at_once = [pa.Check(self._keeps_all, name="rules")]

    def wrong(self, types: Types) -> dict[str, Rule]:
        """Return the columns that a file lacks, or stores in a type that cannot be read.

        A type cannot be read if what is declared cannot be read from it.

        Args:
            types: of its columns, from its footer; no row is read.
        """
        if self._footer is not None and self._footer[0] == types:
            return dict(self._footer[1])
        # A nested column has no type that a polars frame could have.
        stored = {name: pl.List(pl.Null) if kind == pl.Unknown else kind for name, kind in types.items()}
        footer = pl.LazyFrame(schema={_key(name): stored[name] for name in self._roles if name in types})
        rules = dict[str, Rule]()
        for reason, name in _failures(self.schema, footer, ValidationDepth.SCHEMA_ONLY):
            column = self.schema.columns[name].title
            missing = reason is SchemaErrorReason.COLUMN_NOT_IN_DATAFRAME
            rules[column] = Rule.missing if missing else type_rule(self._roles[column])
        broken = {name: rules[name] for name in self._roles if name in rules}
        # Most files of a folder have one schema.
        self._footer = dict(types), broken
        return dict(broken)

    def broken(self, frame: pl.DataFrame) -> Broken:
        """Count the rows of a frame, as it is read, that break a rule of one of its columns.

        Raises:
            CausalveilError: a check could not be carried out.
        """
        # pandera would walk through all columns again, 2 ms a frame, whose types the footer has settled.
        rows, every = (pa.DataFrameSchema(checks=checks) for checks in (self.schema.checks, self._at_once))
        try:
            lazy = frame.lazy()
            if not _failures(every, lazy, ValidationDepth.DATA_ONLY):
                return Broken()
            rules = {Rule(name) for _, name in _failures(rows, lazy, ValidationDepth.DATA_ONLY)}
            return Broken({key: count for key, count in self._tally.of(lazy).items() if key[1] in rules})
        finally:
            self._tally.forget()

    def told(self) -> dict[str, tuple[Rule, ...]]:
        """Return the rules of each column in pandera's schema, that of its type first."""
        about = _columns_of_rules(self._roles)
        rules = [Rule(str(check.name)) for check in self.schema.checks]
        return {
            str(column.title): (
                type_rule(self._roles[str(column.title)]),
                *(rule for rule in rules if column.title in about[rule]),
            )
            for column in self.schema.columns.values()
        }

    def _keeps_all(self, data: pa.PolarsData) -> bool:
        """Check that no row breaks any rule, for pandera."""
        return not self._tally.of(data.lazyframe)

    def _keeps(self, rule: Rule, data: pa.PolarsData) -> bool:
        """Check that no row breaks a rule, for pandera."""
        return all(broken is not rule for _, broken in self._tally.of(data.lazyframe))


def _column(name: str, role: Column) -> pa.Column:
    kind: Any = ReadAs(role)
    return pa.Column(kind, nullable=True, title=name)


def _columns_of_rules(roles: Roles) -> dict[Rule, list[str]]:
    """Return the rules of all columns, each with its columns."""
    columns = dict[Rule, list[str]]()
    for name, role in roles.items():
        for rule in row_rules(role, pl.Float64() if role.holds in FLOATS else pl.Int64()):
            columns.setdefault(rule, []).append(name)
    return columns


def _failures(
    schema: pa.DataFrameSchema, frame: pl.LazyFrame, depth: ValidationDepth
) -> list[tuple[SchemaErrorReason, str]]:
    """Run all checks of pandera and return each failure's reason and its check or column.

    Raises:
        CausalveilError: a check could not be carried out.
    """
    unfinished, failed = None, list[tuple[SchemaErrorReason, str]]()
    # PANDERA_VALIDATION_ENABLED=False in the environment would turn every check into a pass.
    with config_context(validation_enabled=True, validation_depth=depth, use_narwhals_backend=False):
        try:
            schema.validate(frame, lazy=True)
        except SchemaErrors as problem:
            for error in problem.schema_errors:
                if error.reason_code is SchemaErrorReason.CHECK_ERROR:
                    unfinished = error.check.name
                elif error.reason_code is SchemaErrorReason.COLUMN_NOT_IN_DATAFRAME:
                    failed.append((error.reason_code, str(error.failure_cases)))
                elif error.reason_code is SchemaErrorReason.DATAFRAME_CHECK:
                    failed.append((error.reason_code, str(error.check.name)))
                else:
                    failed.append((error.reason_code, str(error.schema.name)))
    if unfinished is not None:
        raise CausalveilError(
            f"the rows could not be held to their contract: the check '{unfinished}' ended in an error"
        )
    return failed


def _key(name: str) -> str:
    """Return a column's name in pandera, quoted where it would be a pattern of many names."""
    return f"'{name}'" if name == "*" or name.startswith(("^", "'")) else name
