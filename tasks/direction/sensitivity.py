"""Sensitivities of direction finding, and distances for propose-test-release.

How surely noise keeps an order is bounded here as well.

Everything takes public sizes and declared settings. Neighbours are replace-one; a unit is in one half of the split, so
it moves either test rows or the regressions, never both. ``variant: paper`` is Kusner et al. (2016) as printed.
Proofs, and where the printed ones are wide: ``docs/proofs/direction.md``.

Log IQR is put into bins of a public width, and into the same bins shifted by half a width (Dwork & Lei 2009). While it
stays in a bin it moves by at most the width. The distance is the fewest units to replace until a bin is left: test
units exactly, by windows of the sorted values; training units by a lower bound, since each moves every residual by at
most D (:func:`residual_movement`). The larger distance of the two bins counts, and the smallest of all vectors. Proofs
that it moves by at most 1, and is at most 1 where a bin can be left: ``docs/proofs/direction.md``, 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.estimators.direction import Score
from causalveil.schemas.study import Variant
from causalveil.tasks.direction.scores import CHUNK, PRECISION, STEP, TOLERANCE, Kernel
from causalveil.tasks.machine.arrays import FloatArray

UNIT_ROUNDOFF = 2.0**-53
# How far a computed HSIC, and a computed rank score, may be from the number that the proofs speak of.
HSIC_ERROR = 2e-10
RANK_ERROR = 2.0**-40


def score_sensitivity(score: Score, m: int, variant: Variant) -> float:
    """Bound the change of a rank score or HSIC when one of m >= 2 test units is replaced.

    Ours: 6/(m + 1) for |rho| and 4/m for |tau|, both attained; 3 m/(2 (m - 1)^2) for HSIC. The paper's: 30/m,
    4/m, (12 m - 11)/(m - 1)^2 (Theorems 1 and 3 and their appendix).

    Raises:
        ValueError: the interquartile range, which has no such bound.
    """
    if score is Score.spearman:
        bound = 6 / (m + 1) if variant is Variant.ours else 30 / m
    elif score is Score.kendall:
        bound = 4 / m
    elif score is Score.hsic:
        bound = 3 * m / 2 if variant is Variant.ours else 12 * m - 11
        return bound / (m - 1) ** 2 * (1 + RANK_ERROR) + 2 * HSIC_ERROR
    else:
        raise ValueError("the interquartile range has no bounded sensitivity")
    return bound * (1 + RANK_ERROR) + 2 * RANK_ERROR


def weight_movement(n: int, penalty: float, variant: Variant) -> float:
    """Bound the L2 distance of two regressions' weights whose n training units differ in one.

    4 (sqrt(penalty) + 1/sqrt(2)) / (n penalty^1.5); the paper's 8/(n penalty^1.5) for penalty <= 1 (Theorem 5). The
    solver's tolerance and the rounding of sums and features are charged on top.
    """
    constant: float = 4 * (math.sqrt(penalty) + math.sqrt(0.5)) if variant is Variant.ours else 8.0
    rounding = 4 * UNIT_ROUNDOFF * (CHUNK + n / CHUNK + 64) + PRECISION
    gradient = TOLERANCE + rounding * (1 + 1 / math.sqrt(penalty))
    return (constant / (n * math.pow(penalty, 1.5)) + 2 * gradient / penalty) * (1 + RANK_ERROR)


def residual_movement(n: int, penalty: float, variant: Variant) -> float:
    """Return D, how far any residual moves when one of n training units is replaced.

    It is at most 2.

    A prediction is an inner product of the weights with a vector of norm 1, rounded to a lattice, clipped to [-1, 1].
    """
    rounding = 4 * PRECISION / math.sqrt(penalty) + STEP
    return min(2.0, weight_movement(n, penalty, variant) + rounding)


def hsic_training_sensitivity(n: int, m: int, penalty: float, bandwidth: float, variant: Variant) -> float:
    """Bound the change of HSIC on m test units when one of n training units is replaced.

    Ours: (m/(m - 1))^2 min(1/4, L D/2), L the slope of the residuals' kernel. The paper's Theorem 7 as printed:
    32 L sqrt(m) D with D = 8/(n penalty^1.5).
    """
    kernel, movement = Kernel(bandwidth, 2.0), residual_movement(n, penalty, variant)
    if variant is Variant.paper:
        return 32 * kernel.lipschitz * math.sqrt(m) * movement + 2 * HSIC_ERROR
    bound = (m / (m - 1)) ** 2 * min(0.25, kernel.lipschitz * movement / 2)
    return bound * (1 + RANK_ERROR) + 2 * HSIC_ERROR


def default_bin(m: int, threshold: float) -> float:
    """Return the default width of bins of log IQR, at most 1.

    A test on m evenly spread values passes with a factor of 3 to spare. k replacements move the logarithm of the range
    of evenly spread values by about 2 k/m, and the better of the two bins leaves room for a quarter of its width at
    least.
    """
    return min(1.0, 24 * threshold / m)


def order_kept_one_draw(margin: float, scale: float) -> float:
    """Return P(order kept) for one Laplace draw: 1 - exp(-margin/scale)/2.

    It is the chance that the margin, at least 0, plus the draw has the margin's sign.
    """
    return 1 - math.exp(-margin / scale) / 2


def order_kept_two_draws(margin: float, scale: float) -> float:
    """Return P(order kept) for two scores with a draw each (Kusner et al. 2016, Theorem 2)."""
    ratio = margin / scale
    return 1 - (ratio + 2) / 4 * math.exp(-ratio)


def order_kept_four_draws(margin: float, scale: float) -> float:
    """Return P(order kept) for four draws (Kusner et al. 2016, Theorem 4.2).

    Each score is a sum of two logarithms, every one with a draw of its own.
    """
    ratio = margin / scale
    return 1 - (48 + 33 * ratio + 9 * ratio**2 + ratio**3) / 96 * math.exp(-ratio)


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
    def places(self) -> tuple[int, int]:
        """Places, from 0, of the lower and upper quartile: ceil(m/4) - 1 and ceil(3m/4) - 1."""
        m = len(self.values)
        return -(-m // 4) - 1, -(-3 * m // 4) - 1

    @property
    def now(self) -> float:
        """The interquartile range."""
        low, high = self.places
        return float(self.values[high] - self.values[low])

    def widest(self, replaced: int) -> float:
        """Return the widest range after that many replacements.

        It is the widest window around the quartiles, longer by as many.
        """
        low, high = self.places
        if replaced > min(low, len(self.values) - 1 - high):
            return math.inf
        return float(np.max(self.values[high : high + replaced + 1] - self.values[low - replaced : low + 1]))

    def narrowest(self, replaced: int) -> float:
        """Return the narrowest range after that many replacements.

        It is the narrowest window between the quartiles, shorter by as many.
        """
        low, high = self.places
        if replaced >= high - low:
            return 0.0
        return float(np.min(self.values[high - replaced : high + 1] - self.values[low : low + replaced + 1]))


@dataclass(frozen=True)
class Bins:
    """Bins of log IQR: [(k + shift) width, (k + 1 + shift) width) for whole k."""

    width: float
    shift: float

    def of(self, iqr: float) -> int | None:
        """Return the bin of a range; None if it counts as 0."""
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
    """Return the logarithm of a range as it is released: never below that of ``SMALLEST``."""
    return math.log(max(iqr, SMALLEST))


def bin_distances(
    quartile_range: QuartileRange, width: float, cap: int, *, replace: bool, movement: float | None
) -> tuple[int, int]:
    """Return the fewest units to change until log IQR leaves its bin.

    The two are for the plain and the shifted bins, each at most ``cap``.

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
    """Return the fewest training units, at least, that can change the order of residuals.

    Residuals have shape (m,). The result is at most ``cap``.

    Two residuals come closer by at most 2 D per unit, so those that are a gap apart keep their order for fewer than
    gap/(2 D) units. (Kusner et al.'s floor of that quotient is one too many where it is whole.)
    """
    gap = float(np.min(np.diff(np.sort(residuals)))) - SLACK
    return min(cap, math.ceil(max(gap, 0.0) / (2 * movement)))


def useful_distance(threshold: float, scale: float) -> int:
    """Return a distance at which a test fails with probability below 1e-12.

    Nobody needs to know a larger one.
    """
    return math.ceil(threshold + 27 * scale)
