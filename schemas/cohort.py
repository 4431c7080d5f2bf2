"""The pandera schema that a study implies: what each column must be before a row is used.

Each rule is one pandera check over a native polars expression that reduces to a single yes or no, so that
pandera never gathers failing values. Values outside declared bounds are no error: they are clipped,
always, because to refuse them at sample level would tell about a single row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING

import polars as pl

from causalveil.schemas.columns import Column, Holds, Nulls
from causalveil.schemas.study import Study

if TYPE_CHECKING:
    import pandera.polars as pa

_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
_TEXTS = (pl.String, pl.Categorical, pl.Enum)
_NUMBERS = (*_INTEGERS, pl.Float32, pl.Float64, pl.Boolean, pl.Decimal)


class Rule(StrEnum):
    """Every way in which a column can break the schema, as the message words it."""

    missing = "is missing"
    unit_type = "must be an integer column (64 bits at most) or a text column"
    number_type = "must be an integer, float, decimal or boolean column"
    treatment_type = "must be a boolean or an integer column"
    text_code_type = "must be a text column, since its declared codes are text"
    text_level_type = "must be a text column, since its declared levels are text"
    integer_level_type = "must be an integer column, since its declared levels are integers"
    same_type = "has another type than in the first partition; write all partitions with one schema"
    null = "holds nulls"
    null_covariate = "holds nulls; fill them or declare 'missing: indicator'"
    finite = "holds NaN or infinity; write missing values as nulls"
    level = "holds a value that is not among its declared levels"
    binary = "must hold 0 and 1 only"
    codes = "must hold its two declared codes only"
    unique = "names a unit twice; each unit has one row over all partitions of the run"


# What a null breaks, by whether the column may hold one.
_NO_NULLS = {Nulls.never: Rule.null, Nulls.undeclared: Rule.null_covariate}


def cohort_schema(study: Study, types: Mapping[str, pl.DataType]) -> pa.DataFrameSchema:
    """The schema of the study's columns.

    Args:
        study: declares columns, levels and what to do about nulls.
        types: the types that the columns have. Pandera compares with one type per column, while a study
            accepts a class of them (any integer, say): the schema takes the type at hand if it is in the
            class.

    Returns:
        A schema whose checks carry a :class:`Rule` as name; apply it to any subset of the columns with
        ``schema.select_columns``. A column of a wrong class fails with pandera's WRONG_DATATYPE;
        :func:`type_rule` says which rule that is.
    """
    _load_pandera()
    import pandera.polars as pa

    def column(name: str, *checks: pa.Check) -> pa.Column:
        accepted, canonical = _accepted(study, name)
        found = types.get(name)
        dtype = found if found is not None and found.base_type() in accepted else canonical
        # nullable: nulls are told apart from NaN by a check of our own.
        return pa.Column(dtype, checks=list(checks), nullable=True)

    columns = {}
    for name, role in study.roles.items():
        nulls = [_NO_NULLS[role.nulls]] if role.nulls in _NO_NULLS else []
        checks = [_check(rule, lambda values: values.null_count() == 0) for rule in nulls]
        columns[name] = column(name, *checks, *_values(role, types.get(name)))
    return pa.DataFrameSchema(columns)


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


def type_rule(study: Study, name: str) -> Rule:
    """The rule that a column of a wrong type breaks."""
    role = study.roles[name]
    match role.holds:
        case Holds.unit:
            return Rule.unit_type
        case Holds.binary:
            return Rule.text_code_type if isinstance(role.codes[0], str) else Rule.treatment_type
        case Holds.level:
            return Rule.text_level_type if isinstance(role.levels[0], str) else Rule.integer_level_type
        case Holds.number:
            return Rule.number_type


def accepts(study: Study, name: str, dtype: pl.DataType) -> bool:
    """Whether a column of this type may be what the study takes it for."""
    return dtype.base_type() in _accepted(study, name)[0]


def storage(dtype: pl.DataType | None) -> object:
    """The type by which partitions must agree: dictionaries of text may differ in their entries."""
    return "dictionary" if dtype is not None and dtype.base_type() in (pl.Categorical, pl.Enum) else dtype


def _accepted(study: Study, name: str) -> tuple[tuple[object, ...], type[pl.DataType]]:
    """Accepted types of a column, and the one to compare with if it has none of them."""
    match type_rule(study, name):
        case Rule.unit_type:
            return (*_INTEGERS, *_TEXTS), pl.Int64
        case Rule.treatment_type:
            return (*_INTEGERS, pl.Boolean), pl.Boolean
        case Rule.text_level_type | Rule.text_code_type:
            return _TEXTS, pl.String
        case Rule.integer_level_type:
            return _INTEGERS, pl.Int64
        case _:
            return _NUMBERS, pl.Float64


def _values(role: Column, dtype: pl.DataType | None) -> list[pa.Check]:
    """The checks of a column's values, nulls apart."""
    match role.holds:
        case Holds.unit:
            return []
        case Holds.binary:
            return [_binary(role.codes, dtype)]
        case Holds.level:
            return [] if role.admitted is None else [_levels(role.admitted, dtype)]
        case Holds.number:
            return _finite(dtype)


def _check(rule: Rule, condition: Callable[[pl.Expr], pl.Expr]) -> pa.Check:
    """A check that yields one boolean: pandera then has no failing cases to collect."""
    import pandera.polars as pa

    def holds(data: pa.PolarsData) -> bool:
        return bool(data.lazyframe.select(condition(pl.col(data.key))).collect().item())

    return pa.Check(holds, name=rule.value)


def _finite(dtype: pl.DataType | None) -> list[pa.Check]:
    """NaN is an error even where nulls are welcome: it may as well be a failed computation."""
    if dtype is None or not dtype.is_float():
        return []
    return [_check(Rule.finite, lambda values: values.is_finite().all())]


def _binary(codes: tuple[str | int, str | int], dtype: pl.DataType | None) -> pa.Check:
    if dtype == pl.Boolean and set(codes) == {0, 1}:
        return _check(Rule.binary, lambda _: pl.lit(True))
    if set(codes) == {0, 1}:
        return _check(Rule.binary, lambda values: values.is_between(0, 1).all())
    kind = pl.String() if isinstance(codes[0], str) else pl.Int64()
    known = pl.Series(codes, dtype=kind)
    return _check(Rule.codes, lambda values: values.cast(kind, strict=False).is_in(known.implode()).all())


def _levels(levels: tuple[str | int, ...], dtype: pl.DataType | None) -> pa.Check:
    if isinstance(levels[0], str):
        known = pl.Series(levels, dtype=pl.String)
        return _check(Rule.level, lambda values: values.cast(pl.String).is_in(known.implode()).all())
    # A declared level that the column's type cannot hold becomes null: it cannot occur in the column.
    fits = dtype if dtype is not None and dtype.is_integer() else pl.Int64()
    known = pl.Series(levels, dtype=fits, strict=False).drop_nulls()
    return _check(Rule.level, lambda values: values.is_in(known.implode()).all())
