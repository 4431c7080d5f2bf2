"""Declare how text of a source becomes values, and name the state of an open table.

The owner declares in source.yaml how each column's text is read. Files that people keep hold `$1,200`, `31.12.2025`,
`Yes` beside `y`, and `n/a`. What each means is declared here once, so that no one has to guess later what a number was
before. A value that does not fit the declaration ends the extract.

A snapshot names the state of an open table from which rows were taken, by the table's own names.
"""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from causalveil.schemas.documents import RuleBroken
from causalveil.schemas.privacy import Frozen


class Kind(StrEnum):
    """The kinds of declared columns; each is stored as one Parquet type."""

    integer = "integer"
    number = "number"
    boolean = "boolean"
    text = "text"
    date = "date"
    timestamp = "timestamp"


def _as_text(value: Any) -> Any:
    """YAML reads ``1: yes`` with a number for a key's value; in a file of text both are text."""
    if isinstance(value, dict):
        return {str(key): str(one) for key, one in value.items()}
    return value


# A header may hold line breaks and tabs, as spreadsheets make them; a contract's names may not.
SourceName = Annotated[str, Field(min_length=1, max_length=400)]
Piece = Annotated[str, Field(min_length=1, max_length=40)]
Format = Annotated[str, Field(pattern=r"%", max_length=40)]


class TextReading(Frozen):
    """Reading of one column from text, in this order.

    Spaces around a value never count, and an empty one is null. Then ``nulls`` are null, ``spellings`` are replaced,
    and the rest is read as ``kind``: a number without the characters of ``remove``, its decimal point as ``decimal``
    says; a date by the first of ``formats`` that fits, and as a number of days if ``since`` is given.
    """

    model_config = ConfigDict(populate_by_name=True)

    kind: Kind
    column: Annotated[SourceName | None, Field(alias="from", description="its name in the source, if another")] = None
    nulls: tuple[Annotated[str, Field(max_length=100)], ...] = ()
    spellings: Annotated[dict[str, str], BeforeValidator(_as_text)] = Field(default_factory=dict)
    remove: tuple[Piece, ...] = ()
    decimal: Annotated[str, Field(pattern=r"^[.,]$")] = "."
    formats: tuple[Format, ...] = ()
    since: Annotated[date | None, Field(strict=False)] = None

    @model_validator(mode="after")
    def _fits_its_kind(self) -> TextReading:
        numeric = self.kind in (Kind.integer, Kind.number)
        if (self.remove or self.decimal != ".") and not numeric:
            raise RuleBroken("'remove' and 'decimal' are for kind integer or number", "remove")
        if self.since is not None and not (self.kind is Kind.number and self.formats):
            raise RuleBroken(
                "'since' makes a date a number of days: write kind number, and 'formats' of the date", "since"
            )
        if self.formats and not (self.since or self.kind in (Kind.date, Kind.timestamp)):
            raise RuleBroken("'formats' are for kind date or timestamp, or a number of days with 'since'", "formats")
        if self.kind in (Kind.date, Kind.timestamp) and not self.formats:
            raise ValueError("a date that is read off text needs 'formats', such as ['%Y-%m-%d']")
        return self


# What Iceberg calls the state of a table that nothing was ever written to.
NO_SNAPSHOT = -1


class TableSnapshot(Frozen):
    """One state of an open table.

    Its number says how often the table was written to, not what stands in it.
    """

    format: Literal["delta", "iceberg"]
    table: Annotated[str, Field(min_length=1, max_length=200, description="the table's uuid")]
    version: Annotated[int, Field(ge=NO_SNAPSHOT, description="Delta's version, or Iceberg's snapshot id")]

    @property
    def words(self) -> str:
        """Return the state in words, without the table."""
        return f"{'version' if self.format == 'delta' else 'snapshot'} {self.version}"
