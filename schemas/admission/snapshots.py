"""Which state of an open table rows were taken from: the table's own name for itself, and for that state."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from causalveil.schemas.privacy import Frozen

# What Iceberg calls the state of a table that nothing was ever written to.
NO_SNAPSHOT = -1


class TableSnapshot(Frozen):
    """One state of an open table. Its number says how often the table was written to, not what stands in it."""

    format: Literal["delta", "iceberg"]
    table: Annotated[str, Field(min_length=1, max_length=200, description="the table's uuid")]
    version: Annotated[int, Field(ge=NO_SNAPSHOT, description="Delta's version, or Iceberg's snapshot id")]

    @property
    def words(self) -> str:
        """Return the state in words, without the table."""
        return f"{'version' if self.format == 'delta' else 'snapshot'} {self.version}"
