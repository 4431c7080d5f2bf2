"""Say what columns must hold, which numbers may be declared, and on which scale.

One rule holds for all numbers of a file, so that no scale derived from them is infinite, NaN or denormal. Ranges enter
sensitivities by their width, its square and the midpoint, clips by their reciprocals. A declared number within these
limits leaves all of them far inside the floats, whatever a stage does with them.

A number is read as it is, or by its logarithm or square root, after clipping to the declared range. A covariate that
spans orders of magnitude acts on most outcomes by its ratio. On a scale of its own a linear adjustment sees that; which
scale is declared, never taken from the data, so the transformation is public and applies to every row.

``schemas/admission/cohort.py`` makes checks of what the columns of a study must hold.
"""

from __future__ import annotations

import math
from enum import StrEnum

from causalveil.schemas.privacy import Frozen

LARGEST = 1e100
SMALLEST_WIDTH = 1e-100
# A range narrower than this share of its ends has too few floats inside for a midpoint to be between them.
SMALLEST_SHARE = 1e-9
CLIP_MARGIN = 1e-6


def sane_range(lower: float, upper: float) -> None:
    """Refuse a range whose width, square or midpoint is no ordinary number.

    Raises:
        ValueError: says what to declare instead.
    """
    if not lower < upper:
        raise ValueError("lower must be below upper")
    if not max(abs(lower), abs(upper)) <= LARGEST:
        raise ValueError(f"the ends of a range must lie between -{LARGEST:g} and {LARGEST:g}; use a larger unit")
    width = upper - lower
    if width < SMALLEST_WIDTH:
        raise ValueError(f"a range must be at least {SMALLEST_WIDTH:g} wide; use a smaller unit")
    if width < SMALLEST_SHARE * max(abs(lower), abs(upper)):
        raise ValueError(
            f"a range must be at least {SMALLEST_SHARE:g} of its larger end wide; measure from another zero"
        )


def sane_clip(low: float, high: float) -> None:
    """Refuse a clip of propensity scores that is too near to 0 or 1.

    Its reciprocal would outweigh everything else.

    Raises:
        ValueError: the clip is not within [1e-6, 1 - 1e-6].
    """
    if not CLIP_MARGIN <= low <= high <= 1 - CLIP_MARGIN:
        raise ValueError(f"clip needs {CLIP_MARGIN:g} <= low <= high <= 1 - {CLIP_MARGIN:g}")


def ordinary(value: float | None) -> bool:
    """Return whether a declared scale is a float from 2**-1000 to 2**1000, or None.

    Such a float is positive and neither infinite, NaN nor denormal; None is unknown yet.
    """
    return value is None or (math.isfinite(value) and 2.0**-1000 <= value <= 2.0**1000)


class NumberScale(StrEnum):
    """As it is, which says that outcomes follow it linearly; logarithm; or square root."""

    linear = "linear"
    log = "log"
    sqrt = "sqrt"


def scaled_ends(scale: NumberScale | None, lower: float, upper: float) -> tuple[float, float]:
    """Return the ends of a range on its scale.

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


class Holds(StrEnum):
    """The kinds of values that a column can hold."""

    unit = "unit"
    binary = "binary"
    number = "number"
    level = "level"
    order = "order"


class Nulls(StrEnum):
    """The rule for nulls in a column: never, not unless the study declares so, or allowed."""

    never = "never"
    undeclared = "undeclared"
    welcome = "welcome"


class Column(Frozen):
    """The requirements on a column before a row of it is used."""

    holds: Holds
    levels: tuple[str | int, ...] = ()
    nulls: Nulls = Nulls.never
    # Which levels may stand in it; None: any value of the levels' type. Codes of a binary column: control, treated.
    admitted: tuple[str | int, ...] | None = None
    codes: tuple[str | int, str | int] = (0, 1)
