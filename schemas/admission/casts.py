"""The one table of lossless casts.

It leads from the type that files store to the type that a declaration is read as.

What is read follows from the declaration and the stored type alone, so footers decide it and no row does: files of one
folder may store a column in different types and are read as one. A value that its cast would change becomes one that
no rule of the declaration lets pass: admission finds it as it finds any other wrong row.

=====================  ============================================================  ===========
declared as            stored as                                                     read as
=====================  ============================================================  ===========
unit                   whole numbers of any width, floats and decimals without       whole
                       a fraction
unit                   text, dictionaries of text, bytes of text, UUIDs              text
number                 whole numbers, floats, decimals, booleans                     Float64
codes, levels: whole   whole numbers, booleans, floats and decimals without          Int64
                       a fraction, text of these very numbers
codes, levels: text    text of any kind; whole numbers, where all that is            String
                       declared is written like them; booleans, where it is
                       true and false
order of rows          whole numbers, floats, decimals, booleans, text, days,        by kind
                       times, spans; moments of any precision to the microsecond
=====================  ============================================================  ===========

A NaN is a missing value. A column of no value at all may stand where values may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from causalveil.schemas.columns import FLOATS, Column, Holds, Nulls
from causalveil.schemas.errors import DataError

Roles = Mapping[str, Column]
Types = Mapping[str, pl.DataType]

# Whole numbers beyond it have neighbours that a float cannot tell from them.
_MOST_WHOLE_FLOAT = 2**53
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_LOGICAL = {"true": 1, "false": 0}
# Stands for a text that its cast would change; nothing that is declared holds it.
_NO_TEXT = "\0"


def read_as(role: Column, stored: pl.DataType) -> pl.DataType | None:
    """Return the type in which a column is read.

    Returns None where what is declared cannot be stored like that.
    """
    if stored == pl.Null:
        return None if role.nulls is not Nulls.welcome or _is_key(role) else _canonical(role)
    match role.holds:
        case Holds.unit:
            if stored.is_integer():
                return pl.UInt64() if stored == pl.UInt64 else pl.Int64()
            return pl.Int64() if _is_number(stored) else _text(stored)
        case Holds.number:
            return pl.Float64() if _is_number(stored) or stored == pl.Boolean else None
        case Holds.time:
            # A truth value that is declared a time is the event's column more likely.
            return pl.Float64() if _is_number(stored) else None
        case Holds.order:
            return _in_order(stored)
        case _:
            return _canonical(role) if _holds_known(role, stored) else None


def cast(role: Column, stored: pl.DataType, values: pl.Expr, *, widen: bool = True) -> pl.Expr | None:
    """Return a stored column as :func:`read_as` says; None where it is read as it is stored.

    Args:
        role: what is declared.
        stored: a type that may be read as it.
        values: the column.
        widen: as of :func:`read_frame`.
    """
    wanted = read_as(role, stored) if widen else checked_as(role, stored)
    if wanted is None:
        raise TypeError("not to be read as declared")
    if role.holds in (Holds.binary, Holds.level) and stored != wanted:
        return _known(role, stored, values)
    if role.holds in FLOATS and stored.is_float():
        # Where no value may be missing, a NaN is found as it stands.
        wide = values if stored == wanted else values.cast(wanted)
        filled = wide.fill_nan(None) if role.nulls is Nulls.welcome else wide
        return None if stored == wanted and role.nulls is not Nulls.welcome else filled
    if stored == wanted:
        return None
    if role.holds is Holds.unit and not (stored.is_integer() or wanted == pl.String):
        return as_whole(values, stored, None)
    return values.cast(wanted)


def checked_as(role: Column, stored: pl.DataType) -> pl.DataType | None:
    """Return the type in which rules look at a column.

    It is the type that the column is read as, but numbers are as wide as they are stored.
    """
    return stored if role.holds in (Holds.number, Holds.time) and stored != pl.Null else read_as(role, stored)


def read_frame(frame: pl.DataFrame, roles: Roles, *, widen: bool = True) -> pl.DataFrame:
    """Return a frame as files store it, its columns read as they are declared.

    Args:
        frame: with all columns of ``roles``.
        roles: what each is declared as.
        widen: False leaves numbers as wide as they are stored, for rules to look at: no rule asks for more.

    Raises:
        DataError: a column is of a type that nothing declared like it is stored as; names it.
    """
    for name, role in roles.items():
        if read_as(role, frame.schema[name]) is None:
            raise DataError(f"column '{name}' is of type {frame.schema[name]}, and is declared as a {role.holds}")
    casts = [
        one.alias(name)
        for name, role in roles.items()
        if (one := cast(role, frame.schema[name], pl.nth(frame.get_column_index(name)), widen=widen)) is not None
    ]
    return frame.with_columns(casts) if casts else frame


def empty_frame(roles: Roles) -> pl.DataFrame:
    """Return a frame without rows whose columns are as they are declared.

    It may stand beside units of any type.
    """
    return pl.DataFrame(
        schema={name: pl.Int64() if _is_key(role) else _canonical(role) for name, role in roles.items()}
    )


def families_differ(role: Column, stored: pl.DataType, first: pl.DataType, *, exact: bool) -> bool:
    """Return whether files that store a column in these two types cannot be read as one.

    Args:
        role: what is declared.
        stored, first: types that may be read as it.
        exact: whether whole numbers must have one type too, as where rows are written anew.
    """
    one, other = read_as(role, stored), read_as(role, first)
    if one is None or other is None or one == other:
        return False
    return exact or not (one.is_integer() and other.is_integer())


def as_whole(values: pl.Expr, stored: pl.DataType, stranger: int | None) -> pl.Expr:
    """Return numbers as Int64.

    Those that are not whole, or are out of reach, become ``stranger``. NaN is a missing value.
    """
    whole = values.cast(pl.Int64, strict=False)
    if stored.is_float():
        fine = (values == whole) & (values.abs() <= _MOST_WHOLE_FLOAT)
    elif stored.is_decimal():
        fine = values == whole
    elif stored == pl.UInt64:
        fine = whole.is_not_null()
    else:
        return whole
    return pl.when(fine).then(whole).when(_there(values, stored)).then(pl.lit(stranger, pl.Int64))


def whole_values(values: pl.Series) -> pl.Series:
    """Return a series as Int64, null where a value is not whole.

    Its own name does not matter: to polars a name may be a pattern.
    """
    return values.alias("values").to_frame().select(as_whole(pl.col("values"), values.dtype, None)).to_series()


def _is_key(role: Column) -> bool:
    return role.holds in (Holds.unit, Holds.order)


def _is_number(stored: pl.DataType) -> bool:
    return stored.is_numeric()


def _text(stored: pl.DataType) -> pl.DataType | None:
    return pl.String() if stored.base_type() in (pl.String, pl.Categorical, pl.Enum) else None


def _in_order(stored: pl.DataType) -> pl.DataType | None:
    if stored.is_integer():
        return pl.UInt64() if stored == pl.UInt64 else pl.Int64()
    if _is_number(stored):
        return pl.Float64()
    if isinstance(stored, pl.Datetime):
        return pl.Datetime("us", stored.time_zone)
    if isinstance(stored, pl.Duration):
        return pl.Duration("us")
    return stored if stored.base_type() in (pl.Date, pl.Time, pl.Boolean) else _text(stored)


def _declared(role: Column) -> tuple[str | int, ...]:
    return role.codes if role.holds is Holds.binary else role.levels


def _canonical(role: Column) -> pl.DataType:
    if role.holds in (Holds.number, Holds.time):
        return pl.Float64()
    return pl.String() if isinstance(_declared(role)[0], str) else pl.Int64()


def _holds_known(role: Column, stored: pl.DataType) -> bool:
    """Return whether codes or levels may be stored in this type."""
    if _text(stored) is not None:
        return True
    known = _declared(role)
    if stored == pl.Boolean:
        return not isinstance(known[0], str) or {str(one).lower() for one in known} <= set(_LOGICAL)
    return _is_number(stored) and all(isinstance(one, int) or _WHOLE.fullmatch(one) for one in known)


def _known(role: Column, stored: pl.DataType, values: pl.Expr) -> pl.Expr:
    """Codes or levels.

    What is none of them, and would be changed, becomes something that is none of them either.
    """
    known = _declared(role)
    if stored == pl.Null:
        return values.cast(_canonical(role))
    if isinstance(known[0], str):
        if _text(stored) is not None:
            return values.cast(pl.String)
        if stored == pl.Boolean:
            words = {str(one).lower(): str(one) for one in known}
            return _replaced(values.cast(pl.String), words, _NO_TEXT, pl.String())
        numbers = as_whole(values, stored, None).cast(pl.String)
        return pl.when(numbers.is_null() & _there(values, stored)).then(pl.lit(_NO_TEXT)).otherwise(numbers)
    numbers_known = {int(one) for one in known}
    stranger = next(one for one in range(len(numbers_known) + 1) if one not in numbers_known)
    if _text(stored) is None:
        return as_whole(values, stored, stranger)
    written = {str(one): one for one in numbers_known}
    if numbers_known <= {0, 1}:
        written |= {spelt(word): one for word, one in _LOGICAL.items() for spelt in (str, str.title, str.upper)}
    return _replaced(values.cast(pl.String), written, stranger, pl.Int64())


def _replaced(values: pl.Expr, table: Mapping[str, str | int], default: str | int, kind: pl.DataType) -> pl.Expr:
    found = values.replace_strict(dict(table), default=pl.lit(default, kind), return_dtype=kind)
    return pl.when(values.is_not_null()).then(found)


def _there(values: pl.Expr, stored: pl.DataType) -> pl.Expr:
    return values.is_not_null() & values.is_nan().not_() if stored.is_float() else values.is_not_null()
