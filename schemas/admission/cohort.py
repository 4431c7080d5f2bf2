"""The pandera schema that a contract implies: what each column must be before its data are admitted.

Each rule is one pandera check over a native polars expression that reduces to a single yes or no, so that
pandera never gathers failing values. Values outside declared bounds are no error: they are clipped,
always, because to refuse them at sample level would tell about a single row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import polars as pl
import polars.selectors as cs

from causalveil.schemas.columns import Column, Holds, Nulls
from causalveil.schemas.contract import Contract
from causalveil.schemas.declared.columns import CodesColumn, LevelsColumn
from causalveil.schemas.study import Missing, Others

if TYPE_CHECKING:
    import pandera.polars as pa

_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
_TEXTS = (pl.String, pl.Categorical, pl.Enum)
_NUMBERS = (*_INTEGERS, pl.Float32, pl.Float64, pl.Boolean, pl.Decimal)
_ORDERED = (*_NUMBERS, *_TEXTS, pl.Date, pl.Datetime, pl.Time, pl.Duration)


class Rule(StrEnum):
    """Every way in which a column can break the schema, as the message words it."""

    missing = "is missing"
    unit_type = "must be an integer column (64 bits at most) or a text column"
    number_type = "must be an integer, float, decimal or boolean column"
    treatment_type = "must be a boolean or an integer column"
    text_code_type = "must be a text column, since its declared codes are text"
    text_level_type = "must be a text column, since its declared levels are text"
    order_type = "must be a date, a time, a number or text, since rows are put in order by it"
    integer_level_type = "must be an integer column, since its declared levels are integers"
    same_type = "has another type than in the first partition; write all partitions with one schema"
    null = "holds nulls"
    null_covariate = "holds nulls; fill them, or declare 'nulls: indicator' in the contract"
    null_code = (
        "holds nulls; fill them, or let the contract say by 'nulls' that it may hold them, and a study whose treatment "
        "it is by 'missing_treatment' what they count as"
    )
    finite = "holds NaN or infinity; write missing values as nulls"
    level = "holds a value that is not among its declared levels"
    binary = "must hold 0 and 1 only"
    codes = "must hold its two declared codes only"
    unique = "names a unit twice; each unit has one row over all partitions"
    unique_in_block = "names a unit twice in a block; each unit has one row in a block"


def _no_nulls(role: Column) -> Rule:
    """What a null breaks, in words that say what may be done about it."""
    if role.nulls is Nulls.never:
        return Rule.null
    return Rule.null_code if role.holds is Holds.binary else Rule.null_covariate


Roles = Mapping[str, Column]
Types = Mapping[str, pl.DataType]
# The rows that break a rule, as an expression over a column.
Breaks = Callable[[pl.Expr], pl.Expr]


def contract_roles(contract: Contract) -> dict[str, Column]:
    """What each column that a contract declares must hold, the unit first."""
    roles = {contract.unit: Column(holds=Holds.unit)}
    for name, column in contract.columns.items():
        nulls = Nulls.welcome if column.nulls is Missing.indicator else Nulls.undeclared
        if isinstance(column, LevelsColumn):
            admitted = column.levels if column.others is Others.refuse else None
            roles[name] = Column(holds=Holds.level, levels=column.levels, nulls=nulls, admitted=admitted)
        elif isinstance(column, CodesColumn):
            roles[name] = Column(holds=Holds.binary, codes=column.codes.pair, nulls=nulls)
        else:
            roles[name] = Column(holds=Holds.number, nulls=nulls)
    if contract.rows is not None and contract.rows.order is not None:
        roles.setdefault(contract.rows.order, Column(holds=Holds.order, nulls=Nulls.welcome))
    return roles


def cohort_schema(roles: Roles, types: Types) -> pa.DataFrameSchema:
    """The schema of some columns.

    Args:
        roles: what each column must hold.
        types: the types that the columns have. Pandera compares with one type per column, while a contract
            accepts a class of them (any integer, say): the schema takes the type at hand if it is in the
            class.

    Returns:
        A schema whose checks carry a :class:`Rule` as name; apply it to any subset of the columns with
        ``schema.select_columns``. A column of a wrong class fails with pandera's WRONG_DATATYPE;
        :func:`type_rule` says which rule that is.
    """
    _load_pandera()
    import pandera.polars as pa

    def column(name: str, role: Column) -> pa.Column:
        accepted, canonical = _accepted(role)
        found = types.get(name)
        dtype = found if found is not None and found.base_type() in accepted else canonical
        checks = [_check(rule, breaks) for rule, breaks in row_rules(role, found).items()]
        # nullable: nulls are told apart from NaN by a check of our own.
        return pa.Column(dtype, checks=checks, nullable=True)

    return pa.DataFrameSchema({name: column(name, role) for name, role in roles.items()})


def row_rules(role: Column, dtype: pl.DataType | None) -> dict[Rule, Breaks]:
    """The rules that each row of a column of this type is held to, with the expression of the rows that break them."""
    rules: dict[Rule, Breaks] = {}
    if role.nulls is not Nulls.welcome:
        rules[_no_nulls(role)] = lambda values: values.is_null()
    match role.holds:
        case Holds.unit:
            pass
        case Holds.binary:
            rules |= _binary(role.codes, dtype)
        case Holds.level:
            rules |= {} if role.admitted is None else _levels(role.admitted, dtype)
        case Holds.number | Holds.order:
            rules |= _finite(dtype)
    return rules


def suspects(role: Column, dtype: pl.DataType) -> dict[Rule, Breaks]:
    """For each rule of :func:`row_rules` one yes or no over the whole column: may a row of it break the rule?

    A no is sure. A yes is not: a sum that overflows is as little a number as one that has met a NaN. It is what makes
    the look at many rows cheap, and pandera decides wherever it says yes.
    """
    rules = row_rules(role, dtype)
    return {rule: _overflows if rule is Rule.finite else partial(_any, breaks) for rule, breaks in rules.items()}


def _any(breaks: Breaks, values: pl.Expr) -> pl.Expr:
    return breaks(values).any()


def _overflows(values: pl.Expr) -> pl.Expr:
    """Whether a sum is NaN or infinite, as it is once a NaN or an infinity was added: no later term brings it back."""
    return values.sum().is_finite().not_()


def _load_pandera() -> None:
    """Import pandera without hypothesis, which it takes along wherever it finds it, only to make up data for tests.

    Developers have hypothesis, and it brings pytest. An entry of None in ``sys.modules`` makes an import fail as if the
    package were not installed, which pandera provides for; it is taken back at once.
    """
    if "pandera.strategies.base_strategies" in sys.modules or "hypothesis" in sys.modules:
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        import_module("pandera.polars")
        import_module("pandera.strategies.base_strategies")
    finally:
        del sys.modules["hypothesis"]


def type_rule(role: Column) -> Rule:
    """The rule that a column of a wrong type breaks."""
    match role.holds:
        case Holds.unit:
            return Rule.unit_type
        case Holds.binary:
            return Rule.text_code_type if isinstance(role.codes[0], str) else Rule.treatment_type
        case Holds.level:
            return Rule.text_level_type if isinstance(role.levels[0], str) else Rule.integer_level_type
        case Holds.number:
            return Rule.number_type
        case Holds.order:
            return Rule.order_type


def accepts(role: Column, dtype: pl.DataType) -> bool:
    """Whether a column of this type may be what it is declared as."""
    return dtype.base_type() in _accepted(role)[0]


def storage(dtype: pl.DataType | None) -> object:
    """The type by which partitions must agree: dictionaries of text may differ in their entries."""
    return "dictionary" if dtype is not None and dtype.base_type() in (pl.Categorical, pl.Enum) else dtype


def _accepted(role: Column) -> tuple[tuple[object, ...], type[pl.DataType]]:
    """Accepted types of a column, and the one to compare with if it has none of them."""
    match type_rule(role):
        case Rule.unit_type:
            return (*_INTEGERS, *_TEXTS), pl.Int64
        case Rule.treatment_type:
            return (*_INTEGERS, pl.Boolean), pl.Boolean
        case Rule.text_level_type | Rule.text_code_type:
            return _TEXTS, pl.String
        case Rule.integer_level_type:
            return _INTEGERS, pl.Int64
        case Rule.order_type:
            return _ORDERED, pl.Date
        case _:
            return _NUMBERS, pl.Float64


def _check(rule: Rule, breaks: Breaks) -> pa.Check:
    """A check that yields one boolean: pandera then has no failing cases to collect."""
    import pandera.polars as pa

    def holds(data: pa.PolarsData) -> bool:
        return not data.lazyframe.select(breaks(cs.by_name(data.key)).any()).collect().item()

    return pa.Check(holds, name=rule.value)


def _finite(dtype: pl.DataType | None) -> dict[Rule, Breaks]:
    """NaN is an error even where nulls are welcome: it may as well be a failed computation."""
    if dtype is None or not dtype.is_float():
        return {}
    return {Rule.finite: lambda values: values.is_finite().not_()}


def _binary(codes: tuple[str | int, str | int], dtype: pl.DataType | None) -> dict[Rule, Breaks]:
    if dtype == pl.Boolean and set(codes) == {0, 1}:
        return {}
    if set(codes) == {0, 1}:
        return {Rule.binary: lambda values: values.is_between(0, 1).not_()}
    kind = pl.String() if isinstance(codes[0], str) else pl.Int64()
    known = pl.Series(codes, dtype=kind)
    return {Rule.codes: lambda values: values.is_not_null() & ~_among(values.cast(kind, strict=False), known)}


def _levels(levels: tuple[str | int, ...], dtype: pl.DataType | None) -> dict[Rule, Breaks]:
    if isinstance(levels[0], str):
        words = pl.Series(levels, dtype=pl.String)
        return {Rule.level: lambda values: values.is_not_null() & ~_among(values.cast(pl.String), words)}
    # A declared level that the column's type cannot hold becomes null: it cannot occur in the column.
    fits = dtype if dtype is not None and dtype.is_integer() else pl.Int64()
    known = pl.Series(levels, dtype=fits, strict=False).drop_nulls()
    return {Rule.level: lambda values: values.is_not_null() & ~_among(values, known)}


def _among(values: pl.Expr, known: pl.Series) -> pl.Expr:
    """Whether each value is a known one; false where a cast made it null."""
    return values.is_in(known.implode()).fill_null(value=False)
