"""The pandera schema that a study implies: what each column must be before a row is used.

Each rule is one pandera check over a native polars expression that reduces to a single yes or no, so that
pandera never gathers failing values. Values outside declared bounds are no error: they are clipped,
always, because to refuse them at sample level would tell about a single row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

import polars as pl

from schemas.study import CategoricalCovariate, EffectStudy, Missing, NumericCovariate

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
    text_level_type = "must be a text column, since its declared levels are text"
    integer_level_type = "must be an integer column, since its declared levels are integers"
    same_type = "has another type than in the first partition; write all partitions with one schema"
    null = "holds nulls"
    null_covariate = "holds nulls; fill them or declare 'missing: indicator'"
    finite = "holds NaN or infinity; write missing values as nulls"
    level = "holds a value that is not among its declared levels"
    binary = "must hold 0 and 1 only"
    unique = "names a unit twice; each unit has one row over all partitions of the run"


def cohort_schema(study: EffectStudy, types: Mapping[str, pl.DataType]) -> pa.DataFrameSchema:
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
    import pandera.polars as pa

    def column(name: str, *checks: pa.Check) -> pa.Column:
        accepted, canonical = _accepted(study, name)
        found = types.get(name)
        dtype = found if found is not None and found.base_type() in accepted else canonical
        # nullable: nulls are told apart from NaN by a check of our own.
        return pa.Column(dtype, checks=list(checks), nullable=True)

    no_null = _check(Rule.null, lambda values: values.null_count() == 0)
    columns = {
        study.data.unit: column(study.data.unit, no_null),
        study.treatment: column(study.treatment, no_null, _binary(types.get(study.treatment))),
        study.outcome.name: column(study.outcome.name, no_null, *_finite(types.get(study.outcome.name))),
    }
    filled = _check(Rule.null_covariate, lambda values: values.null_count() == 0)
    for name, covariate in study.covariates.items():
        nulls = [filled] if study.missing is Missing.refuse else []
        if isinstance(covariate, NumericCovariate):
            columns[name] = column(name, *nulls, *_finite(types.get(name)))
        else:
            columns[name] = column(name, *nulls, _levels(covariate, types.get(name)))
    return pa.DataFrameSchema(columns)


def type_rule(study: EffectStudy, name: str) -> Rule:
    """The rule that a column of a wrong type breaks."""
    if name == study.data.unit:
        return Rule.unit_type
    if name == study.treatment:
        return Rule.treatment_type
    covariate = study.covariates.get(name)
    if isinstance(covariate, CategoricalCovariate):
        return Rule.text_level_type if isinstance(covariate.levels[0], str) else Rule.integer_level_type
    return Rule.number_type


def accepts(study: EffectStudy, name: str, dtype: pl.DataType) -> bool:
    """Whether a column of this type may be what the study takes it for."""
    return dtype.base_type() in _accepted(study, name)[0]


def storage(dtype: pl.DataType | None) -> object:
    """The type by which partitions must agree: dictionaries of text may differ in their entries."""
    return "dictionary" if dtype is not None and dtype.base_type() in (pl.Categorical, pl.Enum) else dtype


def _accepted(study: EffectStudy, name: str) -> tuple[tuple[object, ...], type[pl.DataType]]:
    """Accepted types of a column, and the one to compare with if it has none of them."""
    match type_rule(study, name):
        case Rule.unit_type:
            return (*_INTEGERS, *_TEXTS), pl.Int64
        case Rule.treatment_type:
            return (*_INTEGERS, pl.Boolean), pl.Boolean
        case Rule.text_level_type:
            return _TEXTS, pl.String
        case Rule.integer_level_type:
            return _INTEGERS, pl.Int64
        case _:
            return _NUMBERS, pl.Float64


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


def _binary(dtype: pl.DataType | None) -> pa.Check:
    if dtype == pl.Boolean:
        return _check(Rule.binary, lambda _: pl.lit(True))
    return _check(Rule.binary, lambda values: values.is_between(0, 1).all())


def _levels(covariate: CategoricalCovariate, dtype: pl.DataType | None) -> pa.Check:
    if isinstance(covariate.levels[0], str):
        known = pl.Series(covariate.levels, dtype=pl.String)
        return _check(Rule.level, lambda values: values.cast(pl.String).is_in(known.implode()).all())
    # A declared level that the column's type cannot hold becomes null: it cannot occur in the column.
    fits = dtype if dtype is not None and dtype.is_integer() else pl.Int64()
    known = pl.Series(covariate.levels, dtype=fits, strict=False).drop_nulls()
    return _check(Rule.level, lambda values: values.is_in(known.implode()).all())
