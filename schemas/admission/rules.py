"""Rules that a contract implies for rows of its columns.

Each has words that tell an owner of a breach.

A rule of rows is a polars expression of the rows that break it; ``schemas/admission/contract_schema.py`` makes one
pandera schema of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial

import polars as pl

from causalveil.schemas.admission.casts import read_as
from causalveil.schemas.columns import FLOATS, Column, Holds, Nulls
from causalveil.schemas.contract import Contract
from causalveil.schemas.declared import CodesColumn, EventColumn, LevelsColumn, TimeColumn
from causalveil.schemas.study import Missing, Others


class Rule(StrEnum):
    """Every way in which a column can break the schema, as the message words it.

    That is what is wrong and, after a semicolon, what to do.
    """

    brief: str

    def __new__(cls, brief: str, advice: str = "") -> Rule:
        """Return a rule whose value is its message; ``brief`` is what is wrong."""
        text = f"{brief}; {advice}" if advice else brief
        rule = str.__new__(cls, text)
        rule._value_, rule.brief = text, brief
        return rule

    missing = "is missing"
    unit_type = "must be a column of whole numbers, or a text column"
    number_type = "must be an integer, float, decimal or boolean column"
    time_type = "must be an integer, float or decimal column, since it holds times"
    treatment_type = "must be a column of numbers, booleans or text"
    text_code_type = "must be a text column, since its declared codes are text"
    text_level_type = "must be a text column, since its declared levels are text"
    order_type = "must be a date, a time, a number or text, since rows are put in order by it"
    integer_level_type = "must be a column of numbers or text, since its declared levels are integers"
    same_type = "has a type that cannot be read as one with that of the first partition", "write all with one schema"
    null = "holds nulls or NaN"
    null_unit = "holds nulls, or numbers that are not whole or have too many digits to tell units apart"
    null_covariate = "holds nulls or NaN", "fill them, or declare 'nulls: indicator' in the contract"
    null_code = (
        "holds nulls or NaN",
        "fill them, or let the contract say by 'nulls' that it may hold them, and a study whose "
        "treatment it is by 'missing_treatment' what they count as",
    )
    finite = "holds infinity, which is no finite number", "write missing values as nulls"
    level = "holds a value that is not among its declared levels", "declare it, or 'others: other', in the contract"
    binary = "must hold 0 and 1 only"
    codes = "must hold its two declared codes only"
    unique = (
        "names a unit twice",
        "each unit has one row over all partitions, or 'rows' of the contract makes one of several",
    )
    unique_in_block = "names a unit twice in a block", "each unit has one row in a block"
    folder = "says otherwise than the name of the folder that the file lies in", "move the file, or mend the column"


def _null_rule(role: Column) -> Rule:
    """Return what a null breaks, in words that say what may be done about it."""
    if role.nulls is Nulls.never:
        return Rule.null
    return Rule.null_code if role.holds is Holds.binary else Rule.null_covariate


_NULL_RULES = (Rule.null, Rule.null_covariate, Rule.null_code)


# The rows that break a rule, as an expression over a column.
Breaks = Callable[[pl.Expr], pl.Expr]


def contract_roles(contract: Contract) -> dict[str, Column]:
    """Return what each column that a contract declares must hold, the unit first."""
    roles = {contract.unit: Column(holds=Holds.unit)}
    for name, column in contract.columns.items():
        nulls = Nulls.welcome if column.nulls is Missing.indicator else Nulls.undeclared
        if isinstance(column, LevelsColumn):
            admitted = column.codes if column.others is Others.refuse else None
            roles[name] = Column(holds=Holds.level, levels=column.codes, nulls=nulls, admitted=admitted)
        elif isinstance(column, CodesColumn):
            roles[name] = Column(holds=Holds.binary, codes=column.codes.pair, nulls=nulls)
        elif isinstance(column, EventColumn):
            codes = tuple(column.codes.values())
            admitted = codes if column.others is Others.refuse else None
            roles[name] = Column(holds=Holds.level, levels=codes, nulls=nulls, admitted=admitted)
        else:
            holds = Holds.time if isinstance(column, TimeColumn) else Holds.number
            roles[name] = Column(holds=holds, nulls=nulls)
    for name in contract.clusters:
        roles[name] = Column(holds=Holds.unit, nulls=Nulls.welcome)
    if contract.rows is not None and contract.rows.order is not None:
        roles.setdefault(contract.rows.order, Column(holds=Holds.order, nulls=Nulls.welcome))
    return roles


def row_rules(role: Column, kind: pl.DataType) -> dict[Rule, Breaks]:
    """Return the rules that each row of a column is held to.

    They are expressions of the rows that break them.

    Args:
        role: what is declared.
        kind: the type of the column as it was read; numbers may be as wide as they are stored.
    """
    rules: dict[Rule, Breaks] = {}
    if role.nulls is not Nulls.welcome:
        rules[_null_rule(role)] = _absent if _may_be_nan(role, kind) else lambda values: values.is_null()
    match role.holds:
        case Holds.unit:
            pass
        case Holds.binary:
            rules |= _binary(role.codes)
        case Holds.level:
            rules |= {} if role.admitted is None else _levels(role.admitted)
        case Holds.number | Holds.time | Holds.order:
            rules |= {Rule.finite: lambda values: values.is_infinite()} if _may_be_nan(role, kind) else {}
    return rules


def suspects(role: Column, kind: pl.DataType) -> dict[Rule, Breaks]:
    """Return for each rule of :func:`row_rules` whether a row of the column may break it.

    Each is an expression of one yes or no over the whole column.

    A no is sure. A yes is not: a sum that overflows is as little a number as one that has met a NaN. It is what makes
    the look at many rows cheap; rows are counted by the rules themselves wherever it says yes.
    """
    found: dict[Rule, Breaks] = {}
    for rule, breaks in row_rules(role, kind).items():
        if rule is Rule.finite:
            found[rule] = _overflows
        elif rule in _NULL_RULES:
            # A NaN is suspected by the sum.
            found[rule] = lambda values: values.is_null().any()
        else:
            found[rule] = partial(_any, breaks)
    return found


def _may_be_nan(role: Column, kind: pl.DataType) -> bool:
    """Return whether the column, as it is read, may hold NaN or infinity."""
    return role.holds in FLOATS and kind.is_float()


def _absent(values: pl.Expr) -> pl.Expr:
    return values.is_null() | values.is_nan()


def _any(breaks: Breaks, values: pl.Expr) -> pl.Expr:
    return breaks(values).any()


def _overflows(values: pl.Expr) -> pl.Expr:
    """Return an expression for whether a sum is NaN or infinite.

    It is once a NaN or an infinity was added: no later term brings it back.
    """
    return values.sum().is_finite().not_()


def type_rule(role: Column) -> Rule:
    """Return the rule that a column of a wrong type breaks."""
    match role.holds:
        case Holds.unit:
            return Rule.unit_type
        case Holds.binary:
            return Rule.text_code_type if isinstance(role.codes[0], str) else Rule.treatment_type
        case Holds.level:
            return Rule.text_level_type if isinstance(role.levels[0], str) else Rule.integer_level_type
        case Holds.number:
            return Rule.number_type
        case Holds.time:
            return Rule.time_type
        case Holds.order:
            return Rule.order_type


def wrong_types(roles: Mapping[str, Column], types: Mapping[str, pl.DataType]) -> dict[str, Rule]:
    """Return what the pandera schema says of a footer, without pandera.

    It is for commands that read no row and do not wait for pandera.
    """
    return {
        name: type_rule(role) if name in types else Rule.missing
        for name, role in roles.items()
        if name not in types or not accepts(role, types[name])
    }


def accepts(role: Column, stored: pl.DataType) -> bool:
    """Return whether a column stored in this type can be read as it is declared."""
    return read_as(role, stored) is not None


def _binary(codes: tuple[str | int, str | int]) -> dict[Rule, Breaks]:
    if set(codes) == {0, 1}:
        return {Rule.binary: lambda values: values.is_between(0, 1).not_()}
    return {Rule.codes: _none_of(codes)}


def _levels(levels: tuple[str | int, ...]) -> dict[Rule, Breaks]:
    return {Rule.level: _none_of(levels)}


def _none_of(known: tuple[str | int, ...]) -> Breaks:
    # A level of more than 64 bits becomes null: no column that is read as such can hold it.
    kind = pl.String() if isinstance(known[0], str) else pl.Int64()
    series = pl.Series(known, dtype=kind, strict=False).drop_nulls()
    return lambda values: values.is_not_null() & ~_among(values, series)


def _among(values: pl.Expr, known: pl.Series) -> pl.Expr:
    """Return an expression for whether each value is a known one; false where it is null."""
    return values.is_in(known.implode()).fill_null(value=False)
