"""On which scale a number is read: as it is, or by its logarithm or square root, after clipping to the declared range.

A covariate that spans orders of magnitude acts on most outcomes by its ratio. On a scale of its own a linear adjustment
sees that; which scale is declared, never taken from the data, so the transformation is public and applies to every row.
"""

from __future__ import annotations

import math
from enum import StrEnum

from causalveil.schemas.asked.numbers import sane_range


class NumberScale(StrEnum):
    """As it is, which says that outcomes follow it linearly; logarithm; or square root."""

    linear = "linear"
    log = "log"
    sqrt = "sqrt"


def scaled_ends(scale: NumberScale | None, lower: float, upper: float) -> tuple[float, float]:
    """The ends of a range on its scale.

    Raises:
        ValueError: the range does not allow the scale; says what to declare instead.
    """
    if scale is None or scale is NumberScale.linear:
        return lower, upper
    if scale is NumberScale.log:
        if lower <= 0:
            raise ValueError(
                "scale 'log' needs a range above 0; declare as 'lower' the smallest value that matters (smaller ones "
                "count as it), or use scale 'sqrt'"
            )
        ends = math.log(lower), math.log(upper)
    else:
        if lower < 0:
            raise ValueError("scale 'sqrt' needs a range from 0 up; raise 'lower' (smaller values count as it)")
        ends = math.sqrt(lower), math.sqrt(upper)
    sane_range(*ends)
    return ends
