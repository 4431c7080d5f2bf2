"""State rules of admitted data: lossless casts, rules of rows, and the manifest.

Lossless casts, from the type that files store to the type in which a declared column is read. The declaration and the
stored type alone decide, so footers are enough and no row is needed: files of one folder may store a column in
different types and are read as one. A value that its cast would change becomes one that breaks a rule of the
declaration, so that admission finds it as any other wrong row.

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

A NaN is a missing value. A column without any value is read where values may be missing.

A rule of rows is a polars expression of the rows that break it, with a sentence for the owner;
``schemas/contract_schema.py`` makes one pandera schema of all of them.

The manifest of admitted data is as private as the rows: it lies beside them, or in the causalveil home. The ledger
records its digest, which is independent of the rows to a reader, since the manifest holds a secret key.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import Field

from causalveil.schemas.columns import FLOATS, Column, Holds, Missing, Nulls, Others
from causalveil.schemas.contract import Contract
from causalveil.schemas.declared import CodesColumn, EventColumn, LevelsColumn, TimeColumn
from causalveil.schemas.documents import digest_of, read_regular
from causalveil.schemas.errors import DataError, in_own_words
from causalveil.schemas.mistakes import parse_written
from causalveil.schemas.plan import Partition
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.study import Slug

Roles = Mapping[str, Column]
Types = Mapping[str, pl.DataType]

# The largest integer up to which floats represent all integers.
_MOST_WHOLE_FLOAT = 2**53
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_LOGICAL = {"true": 1, "false": 0}
# Replaces a text that its cast would change; no declared code or level contains it.
_NO_TEXT = "\0"


def read_as(role: Column, stored: pl.DataType) -> pl.DataType | None:
    """Return the type in which a column is read; None where it cannot be read as declared."""
    if stored == pl.Null:
        return None if role.nulls is not Nulls.welcome or _is_key(role) else _canonical(role)
    match role.holds:
        case Holds.unit:
            if stored.is_integer():
                return pl.UInt64() if stored == pl.UInt64 else pl.Int64()
            return pl.Int64() if stored.is_numeric() else _text(stored)
        case Holds.number:
            return pl.Float64() if stored.is_numeric() or stored == pl.Boolean else None
        case Holds.time:
            # A boolean column that is declared a time is more likely that of the event.
            return pl.Float64() if stored.is_numeric() else None
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
    wanted = read_as(role, stored)
    if not widen and role.holds in (Holds.number, Holds.time) and stored != pl.Null:
        wanted = stored
    if wanted is None:
        raise TypeError("not to be read as declared")
    if role.holds in (Holds.binary, Holds.level) and stored != wanted:
        return _known(role, stored, values)
    if role.holds in FLOATS and stored.is_float():
        # Where no value may be missing, NaN is kept for the rules to find.
        wide = values if stored == wanted else values.cast(wanted)
        filled = wide.fill_nan(None) if role.nulls is Nulls.welcome else wide
        return None if stored == wanted and role.nulls is not Nulls.welcome else filled
    if stored == wanted:
        return None
    if role.holds is Holds.unit and not (stored.is_integer() or wanted == pl.String):
        return as_whole(values, stored, None)
    return values.cast(wanted)


def read_frame(frame: pl.DataFrame, roles: Roles, *, widen: bool = True) -> pl.DataFrame:
    """Return a frame as files store it, its columns read as they are declared.

    Args:
        frame: with all columns of ``roles``.
        roles: the requirements on each.
        widen: False leaves numbers as wide as they are stored, which is enough for rules.

    Raises:
        DataError: a column's type cannot be read as declared; names it.
    """
    # polars builds a schema at each access.
    stored = dict(frame.schema)
    for name, role in roles.items():
        if read_as(role, stored[name]) is None:
            raise DataError(f"column '{name}' is of type {stored[name]}, and is declared as a {role.holds}")
    casts = [
        values.alias(name)
        for name, role in roles.items()
        if (values := cast(role, stored[name], pl.nth(frame.get_column_index(name)), widen=widen)) is not None
    ]
    return frame.with_columns(casts) if casts else frame


def empty_frame(roles: Roles) -> pl.DataFrame:
    """Return a frame without rows, its columns as declared; units may have any type."""
    return pl.DataFrame(
        schema={name: pl.Int64() if _is_key(role) else _canonical(role) for name, role in roles.items()}
    )


def families_differ(role: Column, stored: pl.DataType, first: pl.DataType, *, exact: bool) -> bool:
    """Return whether files that store a column in these two types cannot be read as one.

    Args:
        role: what is declared.
        stored, first: types that may be read as it.
        exact: whether whole numbers must have one type too, as where rows are rewritten.
    """
    types = read_as(role, stored), read_as(role, first)
    if types[0] is None or types[1] is None or types[0] == types[1]:
        return False
    return exact or not (types[0].is_integer() and types[1].is_integer())


def as_whole(values: pl.Expr, stored: pl.DataType, stranger: int | None) -> pl.Expr:
    """Return numbers as Int64; values that are no such integers become ``stranger``, NaN null."""
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
    """Return a series as Int64, null where a value is not whole; its name may be a pattern."""
    return values.alias("values").to_frame().select(as_whole(pl.col("values"), values.dtype, None)).to_series()


def _is_key(role: Column) -> bool:
    return role.holds in (Holds.unit, Holds.order)


def _text(stored: pl.DataType) -> pl.DataType | None:
    return pl.String() if stored.base_type() in (pl.String, pl.Categorical, pl.Enum) else None


def _in_order(stored: pl.DataType) -> pl.DataType | None:
    if stored.is_integer():
        return pl.UInt64() if stored == pl.UInt64 else pl.Int64()
    if stored.is_numeric():
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
        return not isinstance(known[0], str) or {str(code).lower() for code in known} <= set(_LOGICAL)
    return stored.is_numeric() and all(isinstance(code, int) or _WHOLE.fullmatch(code) for code in known)


def _known(role: Column, stored: pl.DataType, values: pl.Expr) -> pl.Expr:
    """Return codes or levels; other values that the cast would change become undeclared ones."""
    known = _declared(role)
    if stored == pl.Null:
        return values.cast(_canonical(role))
    if isinstance(known[0], str):
        if _text(stored) is not None:
            return values.cast(pl.String)
        if stored == pl.Boolean:
            spelled = {str(code).lower(): str(code) for code in known}
            return _replaced(values.cast(pl.String), spelled, _NO_TEXT, pl.String())
        numbers = as_whole(values, stored, None).cast(pl.String)
        return pl.when(numbers.is_null() & _there(values, stored)).then(pl.lit(_NO_TEXT)).otherwise(numbers)
    numbers_known = set(map(int, known))
    stranger = next(number for number in range(len(numbers_known) + 1) if number not in numbers_known)
    if _text(stored) is None:
        return as_whole(values, stored, stranger)
    written = {str(number): number for number in numbers_known}
    if numbers_known <= {0, 1}:
        written |= {spelt(word): number for word, number in _LOGICAL.items() for spelt in (str, str.title, str.upper)}
    return _replaced(values.cast(pl.String), written, stranger, pl.Int64())


def _replaced(values: pl.Expr, table: Mapping[str, str | int], default: str | int, kind: pl.DataType) -> pl.Expr:
    replaced = values.replace_strict(dict(table), default=pl.lit(default, kind), return_dtype=kind)
    return pl.when(values.is_not_null()).then(replaced)


def _there(values: pl.Expr, stored: pl.DataType) -> pl.Expr:
    return values.is_not_null() & values.is_nan().not_() if stored.is_float() else values.is_not_null()


class Rule(StrEnum):
    """Every way in which a column can break the schema: the problem; and what to do about it."""

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
    null_unit = "holds nulls, or numbers that are not whole or have too many digits to distinguish units"
    null_covariate = "holds nulls or NaN", "fill them, or declare 'nulls: indicator' in the contract"
    null_code = (
        "holds nulls or NaN",
        "fill them, or declare 'nulls: indicator' in the contract; studies of this treatment then say by "
        "'missing_treatment' what they count as",
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
    """Return the rule that a null breaks, by what its owner may do about it."""
    if role.nulls is Nulls.never:
        return Rule.null
    return Rule.null_code if role.holds is Holds.binary else Rule.null_covariate


_NULL_RULES = (Rule.null, Rule.null_covariate, Rule.null_code)


# The rows that break a rule, as an expression over a column.
Breaks = Callable[[pl.Expr], pl.Expr]


def contract_roles(contract: Contract) -> dict[str, Column]:
    """Return the requirements on each column that a contract declares, the unit first."""
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
    if contract.weights is not None:
        roles[contract.weights.column] = contract.weights.role
    if contract.rows is not None and contract.rows.order is not None:
        roles.setdefault(contract.rows.order, Column(holds=Holds.order, nulls=Nulls.welcome))
    return roles


def row_rules(role: Column, kind: pl.DataType) -> dict[Rule, Breaks]:
    """Return the rules of a column's rows, as expressions of the rows that break them.

    Args:
        role: what is declared.
        kind: the type of the column as it was read; numbers may be as wide as they are stored.
    """
    rules: dict[Rule, Breaks] = {}
    may_be_nan = role.holds in FLOATS and kind.is_float()
    if role.nulls is not Nulls.welcome:
        rules[_null_rule(role)] = _null_or_nan if may_be_nan else lambda values: values.is_null()
    if role.holds is Holds.binary and set(role.codes) == {0, 1}:
        rules[Rule.binary] = lambda values: values.is_between(0, 1).not_()
    elif role.holds is Holds.binary:
        rules[Rule.codes] = _none_of(role.codes)
    elif role.holds is Holds.level and role.admitted is not None:
        rules[Rule.level] = _none_of(role.admitted)
    elif may_be_nan:
        rules[Rule.finite] = lambda values: values.is_infinite()
    return rules


def suspects(role: Column, kind: pl.DataType) -> dict[Rule, Breaks]:
    """Return for each rule of :func:`row_rules` an expression of whether any row may break it.

    False is certain; True is not, since a sum may also overflow without a NaN. These expressions are cheap; where one
    is True, the rule itself counts rows.
    """
    expressions: dict[Rule, Breaks] = {}
    for rule, breaks in row_rules(role, kind).items():
        if rule is Rule.finite:
            # A sum is NaN or infinite if any value is.
            expressions[rule] = lambda values: values.sum().is_finite().not_()
        elif rule in _NULL_RULES:
            # The sum of `Rule.finite` finds NaN.
            expressions[rule] = lambda values: values.is_null().any()
        else:
            expressions[rule] = partial(_any, breaks)
    return expressions


def _null_or_nan(values: pl.Expr) -> pl.Expr:
    return values.is_null() | values.is_nan()


def _any(breaks: Breaks, values: pl.Expr) -> pl.Expr:
    return breaks(values).any()


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
    """Return the rules that a footer breaks, without pandera, for commands that read no row."""
    return {
        name: type_rule(role) if name in types else Rule.missing
        for name, role in roles.items()
        if name not in types or not accepts(role, types[name])
    }


def accepts(role: Column, stored: pl.DataType) -> bool:
    """Return whether a column stored in this type can be read as it is declared."""
    return read_as(role, stored) is not None


def _none_of(known: tuple[str | int, ...]) -> Breaks:
    # A level of more than 64 bits becomes null: no column that is read as such can hold it.
    kind = pl.String() if isinstance(known[0], str) else pl.Int64()
    series = pl.Series(known, dtype=kind, strict=False).drop_nulls()
    return lambda values: values.is_not_null() & ~values.is_in(series.implode()).fill_null(value=False)


ADMISSION_FILE = "_admission.json"
NO_ADMISSION = "is not a manifest of admitted data; its owner must admit them again"
# Keys of a contract that do not concern rows.
_NOT_OF_ROWS = {
    "ledger",
    "data_class",
    "public",
    "recorded_is_public",
    "bounds_from_data",
    "caps",
    "accounting",
    "estimators",
    "guarantees",
    "unbounded_halves",
    "review",
    "owner_key",
    "warn_below",
}
_FOR_PEOPLE = {"unit_of_measure", "description"}


class AdmittedFile(Partition):
    """One Parquet file as it was admitted; its rows are units.

    Attributes:
        size: bytes.
        modified: time of the last change, ns; it only decides whether public data are checked again.
        digest: of the bytes, under the manifest's key, 64 hex digits: ``tasks.data.data_folder.file_digest``.
    """

    size: Annotated[int, Field(ge=0)]
    modified: int
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class CastColumn(Frozen):
    """The types in which files store a column, and the one in which it is read, without loss."""

    stored: tuple[str, ...]
    read: str


class Admission(Frozen):
    """The manifest: the files that were found to keep the contract's declarations.

    Attributes:
        dataset: the contract's.
        declares: digest of the contract's declarations of rows; see :func:`declarations`.
        key: of the digests, 32 hex digits.
        columns: name and type of each declared column, as the files store it.
        casts: of each column that some file stores in another type than it is read in.
        files: the partitions that runs read, in the order of their paths.
        given: where several rows of a unit were reduced to one, the owner's files, of whose rows ``files`` were made;
            empty where these are the same.
    """

    version: Literal[1] = 1
    dataset: Slug
    declares: str
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    columns: dict[str, str]
    casts: Annotated[dict[str, CastColumn], Field(default_factory=dict)]
    files: tuple[AdmittedFile, ...]
    given: tuple[AdmittedFile, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 over all fields; the secret key among them hides the rest."""
        return digest_of(self.model_dump(mode="json"))

    @property
    def units(self) -> int:
        """Rows of all files, each of which is one unit."""
        return sum(file.rows for file in self.files)

    @property
    def reduced(self) -> str | None:
        """The name of the folder of reduced rows; None if no rows were reduced.

        It has 32 hex digits over the declarations and the keyed digests of the owner's files.
        """
        text = json.dumps([self.declares, [[file.path, file.digest] for file in self.given]])
        return hashlib.sha256(text.encode()).hexdigest()[:32] if self.given else None

    @property
    def owners(self) -> tuple[AdmittedFile, ...]:
        """The files in the data folder."""
        return self.given or self.files

    @property
    def blocks(self) -> tuple[str, ...]:
        """The ledger blocks, sorted."""
        return tuple(sorted({file.block for file in self.files}))

    @cached_property
    def by_path(self) -> dict[str, AdmittedFile]:
        """The files by their paths."""
        return {file.path: file for file in self.files}

    @property
    def digests(self) -> Digests:
        """Digests against which files are checked when runs read them."""
        return Digests(self.key, self.by_path)


@dataclass(frozen=True)
class Digests:
    """Digests by path, with their key, against which files are checked while rows are read."""

    key: str
    files: Mapping[str, AdmittedFile]


class Finding(Frozen):
    """One thing that keeps data from being admitted; for their owner's eyes.

    Attributes:
        path: the partition; None: all of them together.
        column: the column; None: the file as a whole.
        rule: the broken rule, in words that quote no value.
        rows: how many rows break it; None: all, or no rule of rows.
    """

    path: str | None = None
    column: str | None = None
    rule: str
    rows: int | None = None

    @property
    def words(self) -> str:
        """Place and rule in one line, without the count, which is private."""
        column = None if self.column is None else f"column '{self.column}' {self.rule}"
        return ": ".join(part for part in (self.path, column or self.rule) if part)


class NotAdmitted(DataError):
    """The rows of a dataset break its contract.

    ``findings`` are for the owner alone, the message for all.
    """

    def __init__(self, message: str, findings: tuple[Finding, ...] = ()) -> None:
        """``message``: quotes no count and no value."""
        super().__init__(message)
        self.findings = findings

    def __reduce__(self) -> tuple[type[NotAdmitted], tuple[str]]:
        """Leave findings out of pickles, which a workflow engine may store."""
        return type(self), (str(self),)


def declarations(contract: Contract) -> str:
    """Return SHA-256 over a contract's declarations of unit, blocks, columns and reduction.

    Caps, levels and estimators can change without a new check of rows.
    """
    document: dict[str, Any] = contract.model_dump(mode="json", exclude=_NOT_OF_ROWS)
    for column in document["columns"].values():
        for key in _FOR_PEOPLE:
            column.pop(key, None)
        if isinstance(column.get("levels"), dict):
            # Names of levels are for people too.
            column["levels"] = list(column["levels"].values())
    return digest_of(document)


def load_admission(path: Path) -> Admission | None:
    """Return the manifest in a file; None where there is no such file.

    Raises:
        DataError: it cannot be read.
    """
    with in_own_words(lambda _: DataError(f"{path}: {NO_ADMISSION}"), OSError):
        try:
            content = read_regular(path)
        except FileNotFoundError:
            return None
    return parse_admission(content, str(path))


def parse_admission(content: bytes, where: str) -> Admission:
    """Return the manifest in a file's bytes; ``where`` names it.

    Raises:
        DataError: it is none.
    """
    return parse_written(Admission, content, where, NO_ADMISSION)
