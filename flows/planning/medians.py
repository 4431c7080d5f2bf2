"""Summaries over several draws of noise.

The median half-width, and how far draws are from each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from causalveil.schemas.plan import StandIn
from causalveil.schemas.study import EffectStudy
from causalveil.tasks.covariates import dimension
from causalveil.tasks.inference.assemble import EffectFindings

# Draws of noise of which a plan says the median, and of what is set beside it: other facts, points of a curve.
DRAWS, FEW = 12, 3
# Columns up to which a draw takes less than a tenth of a second. Its time grows with their square and more.
QUICK = 40


def affordable(study: EffectStudy, many: int) -> int:
    """Return how many draws are made where so many are wanted."""
    return max(1, min(many, round(many * (QUICK / dimension(study)) ** 2)))


def half_widths(found: Sequence[EffectFindings]) -> list[float]:
    """Return the half-width of each draw."""
    return [(one.interval.upper - one.interval.lower) / 2 for one in found]


def median_width(found: Sequence[EffectFindings]) -> float:
    """Return the median half-width of some draws."""
    return median(half_widths(found))


def median_of(found: Sequence[EffectFindings], stand_in: StandIn) -> tuple[dict[str, Any], list[str]]:
    """Return medians and the range of half-widths, and the sentence on them.

    Args:
        found: by draw.
        stand_in: the population of which they are.
    """
    widths = half_widths(found)
    numbers: dict[str, Any] = {
        "half_width": median(widths),
        "half_width_range": [min(widths), max(widths)],
        "noise_standard_error": math.sqrt(median(one.variance.noise for one in found)),
        "sampling_standard_error": math.sqrt(median(one.variance.sampling for one in found)),
        "whole_range": sum(one.interval.whole_range for one in found) * 2 > len(found),
    }
    drawn = f"Median of {len(found)} draws of noise, from ± {min(widths):.3g} to ± {max(widths):.3g}. "
    drawn = drawn if len(found) > 1 else "One draw of noise. "
    return numbers, [
        f"{drawn}Assumed is a correlation of {stand_in.correlation:g}, and that covariates explain "
        f"{stand_in.explained:.0%} of the outcome."
    ]
