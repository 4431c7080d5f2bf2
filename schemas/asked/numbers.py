"""Which numbers a file may declare. One rule, so that no scale derived from them is infinite, NaN or denormal.

Ranges enter sensitivities by their width, its square and the midpoint, clips by their reciprocals. A declared
number within these limits leaves all of them far inside the floats, whatever a stage does with them.
"""

from __future__ import annotations

import math

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
    """Refuse a clip of propensity scores so near to 0 or 1 that its reciprocal swallows everything else.

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
