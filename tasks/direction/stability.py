"""How many units must change before a quartile range or an order of residuals does: distances for propose-test-release.

Log IQR is put into bins of a public width, and into the same bins shifted by half a width (Dwork & Lei 2009). While it
stays in a bin it moves by at most the width. The distance is the fewest units to replace until a bin is left: test
units exactly, by windows of the sorted values; training units by a lower bound, since each moves every residual by at
most D (``sensitivity.residual_movement``). The larger distance of the two bins counts, and the smallest of all
vectors. Proofs that it moves by at most 1, and is at most 1 where a bin can be left: ``docs/proofs/direction.md``, 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.tasks.direction.dependence import quartile_places
from causalveil.tasks.machine.arrays import FloatArray

# Ranges below this count as 0: a bin that is unstable by declaration, whose logarithm is released as its edge.
SMALLEST = 1e-9
# Covers the rounding of bin edges and of differences of values in [-2, 2].
SLACK = 1e-9


@dataclass(frozen=True)
class QuartileRange:
    """The quartile range of a sorted vector, and the widest and narrowest it can become.

    ``values``: shape (m,), ascending, m >= 2. Replaced values may be anything, which can only shorten distances.
    """

    values: FloatArray

    @property
    def _places(self) -> tuple[int, int]:
        return quartile_places(len(self.values))

    @property
    def now(self) -> float:
        """The interquartile range."""
        low, high = self._places
        return float(self.values[high] - self.values[low])

    def widest(self, replaced: int) -> float:
        """The widest after that many replacements: the widest window around the quartiles, longer by as many."""
        low, high = self._places
        if replaced > min(low, len(self.values) - 1 - high):
            return math.inf
        return float(np.max(self.values[high : high + replaced + 1] - self.values[low - replaced : low + 1]))

    def narrowest(self, replaced: int) -> float:
        """The narrowest after that many replacements: the narrowest window between them, shorter by as many."""
        low, high = self._places
        if replaced >= high - low:
            return 0.0
        return float(np.min(self.values[high - replaced : high + 1] - self.values[low : low + replaced + 1]))


@dataclass(frozen=True)
class Bins:
    """Bins of log IQR: [(k + shift) width, (k + 1 + shift) width) for whole k."""

    width: float
    shift: float

    def of(self, iqr: float) -> int | None:
        """The bin of a range; None if it counts as 0."""
        if iqr < SMALLEST:
            return None
        return math.floor(math.log(iqr) / self.width - self.shift) if iqr < math.inf else 10**9

    def room(self, place: int, widest: float, narrowest: float) -> float:
        """Return how far ranges may move before one leaves bin ``place``.

        ``widest``: the largest of the ranges. ``narrowest``: the smallest.
        """
        low, high = (math.exp(min((place + k + self.shift) * self.width, 700.0)) for k in (0, 1))
        return min(high - widest, narrowest - low) - SLACK


def released_log(iqr: float) -> float:
    """The logarithm of a range as it is released: never below that of ``SMALLEST``."""
    return math.log(max(iqr, SMALLEST))


def bin_distances(
    quartile_range: QuartileRange, width: float, cap: int, *, replace: bool, movement: float | None
) -> tuple[int, int]:
    """Fewest units to change until log IQR leaves its bin, for the plain and the shifted bins; each at most ``cap``.

    Args:
        quartile_range: range of the sorted values.
        width: of the bins.
        cap: public; distances beyond it are of no use to a test.
        replace: whether test units may be replaced.
        movement: D, how far one training unit moves each value; None: not at all.
    """
    plain, shifted = (_distance(quartile_range, Bins(width, shift), cap, replace, movement) for shift in (0.0, 0.5))
    return plain, shifted


def _distance(quartile_range: QuartileRange, bins: Bins, cap: int, replace: bool, movement: float | None) -> int:
    place = bins.of(quartile_range.now)
    if place is None:
        return 0
    best = _replacements(quartile_range, bins, place, cap) if replace else cap
    if movement is None:
        return best
    # k replacements of test units, the worst ones, then as many training units as the room that is left takes.
    for replaced in range(best if replace else 1):
        room = bins.room(place, quartile_range.widest(replaced), quartile_range.narrowest(replaced))
        best = min(best, replaced + math.ceil(max(room, 0.0) / (2 * movement)))
    return best


def _replacements(quartile_range: QuartileRange, bins: Bins, place: int, cap: int) -> int:
    """Fewest replacements that can leave the bin, by bisection: ranges only widen (narrow) with their number."""

    def leaves(replaced: int) -> bool:
        return bins.of(quartile_range.widest(replaced)) != place or bins.of(quartile_range.narrowest(replaced)) != place

    low, high = 0, cap
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if leaves(middle) else (middle, high)
    return high


def order_distance(residuals: FloatArray, movement: float, cap: int) -> int:
    """Fewest training units, at least, that can change the order of the residuals, shape (m,); at most ``cap``.

    Two residuals come closer by at most 2 D per unit, so those that are a gap apart keep their order for fewer than
    gap/(2 D) units. (Kusner et al.'s floor of that quotient is one too many where it is whole.)
    """
    gap = float(np.min(np.diff(np.sort(residuals)))) - SLACK
    return min(cap, math.ceil(max(gap, 0.0) / (2 * movement)))


def useful_distance(threshold: float, scale: float) -> int:
    """A distance at which a test fails with probability below 1e-12: nobody needs to know a larger one."""
    return math.ceil(threshold + 27 * scale)
