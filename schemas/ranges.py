"""The question that `causalveil ranges` asks: between which round numbers do a column's values lie?

The owner asks it of data whose contract leaves ranges open. It is no kind of study: what it finds goes into the
contract, and from there into releases.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from causalveil.schemas.columns import Column, Holds, Nulls
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.study import Finite, Name, Study

MOST_COLUMNS = 100


class RangesStudy(Study):
    """The numbers to find a range for."""

    kind: Literal["ranges"] = "ranges"
    numbers: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_COLUMNS)]

    @property
    def roles(self) -> dict[str, Column]:
        """The unit, and numbers that may be missing."""
        return {
            self.data.unit: Column(holds=Holds.unit),
            **{name: Column(holds=Holds.number, nulls=Nulls.welcome) for name in self.numbers},
        }


class FoundRange(Frozen):
    """The ends between which a column's values lie, but for few.

    They are None where noise hides all counts of the column.
    """

    column: Name
    lower: Finite | None
    upper: Finite | None


class RangesFound(Frozen):
    """The ranges that were found, and what they cost."""

    kind: Literal["ranges"] = "ranges"
    run_id: str
    dataset: str
    units: int
    epsilon: str
    threshold: Finite
    ranges: tuple[FoundRange, ...]
