"""Numbers with many people at the ends of their declared ranges, as if these were too narrow.

A number in [-c, c] of mean m has at most the variance c^2 - m^2, which two values at the ends have. Of a normal number
with deviation s that is cut to the range a line through what is left of it sees r^2 = s^2 P(within)^2/v, v the variance
of what is left (Stein), so beside confounding of size B such a line leaves (1 - r^2)/r^2 B. Mean and variance tell
which normal number it was. Post-processing of released or public values: ``docs/proofs/regression.md``, section 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from causalveil.tasks.machine.arrays import BoolArray, FloatArray

TOO_NARROW = (
    "what people do beyond the declared range of {}, at whose ends most are (declare a wider one, or two values as"
    " levels)"
)
NARROW = (
    "what people do beyond the declared range of {}, near whose ends many are, unless as normal numbers would (declare"
    " a wider one, or few values as levels)"
)
# Of numbers that vary so much of what their mean leaves possible most lie at an end of their declared range.
CLIPPED = 0.8
# What is left unseen counts where a mean is clearly nearer to an end than that of numbers spread evenly is, which is
# sqrt(3) standard deviations, and in full from where numbers are that are cut at 1.25 deviations on both sides.
EVENLY, CLEARLY = 1.7, 1.55
# Numbers near their lower end whose upper one is so many deviations away have a tail, as costs do: they are skewed.
TAIL = 4.0
# Where it is known how many people lie at the ends, it counts in full from this share of them on.
MANY = 0.05
# Less left unseen is taken for nothing, and of a number of which less than the second is nothing is said.
TINY_PART, SMALL_PART = 0.005, 0.02
# Normal numbers are cut at these deviations, to ranges of at least so many deviations.
CUTS = (*np.linspace(-2.0, 4.0, 61).tolist(), 6.0, 10.0, 20.0, 50.0, 200.0)
LEAST_LENGTH = 0.15


@dataclass(frozen=True)
class Ranged:
    """Moments of numbers with declared ranges.

    Attributes:
        names: of the numbers, (k,).
        mean: shape (k,), within [-span, span].
        variance: shape (k,).
        span: half the length of each range.
        from_zero: whether declared ranges start at 0, where people are by nature: nobody earns less; (k,).
        doubt: of the variances, that are taken off where it is asked what is left unseen.
        ends: the shares of people at the lower and the upper ends, each of shape (k,), where covariates are public.
    """

    names: Sequence[str]
    mean: FloatArray
    variance: FloatArray
    span: float
    from_zero: Sequence[bool]
    doubt: float = 0.0
    ends: tuple[FloatArray, FloatArray] | None = None

    @property
    def cut_away(self) -> BoolArray:
        """Whether most people lie at the ends, shape (k,)."""
        found: BoolArray = self.variance > CLIPPED * (self.span**2 - self.mean**2)
        return found

    @property
    def unseen(self) -> FloatArray:
        """What lines leave of confounding by numbers that were cut, over what they see, shape (k,); 0 or more.

        Nothing of those at whose ends nobody is, as far as is known: of those that vary no more than evenly spread
        ones, and of those near a lower end of 0, or with a long tail above.
        """
        deviation = np.sqrt(np.maximum(self.variance - self.doubt, np.finfo(np.float64).tiny))
        near, far = ((self.span + side * np.abs(self.mean)) / deviation for side in (-1, 1))
        natural = np.array(self.from_zero, dtype=bool) & (far > EVENLY)
        if self.ends is None:
            counted = np.clip((EVENLY - near) / (EVENLY - CLEARLY), 0.0, 1.0)
            natural |= far > TAIL
        else:
            counted = np.minimum((self.ends[0] + self.ends[1]) / MANY, 1.0)
        counted[natural & (self.mean < 0)] = 0.0
        found = np.zeros(len(counted))
        some = counted > 0
        if some.any():
            found[some] = counted[some] * _of_cut_normals()(np.maximum(near[some], 0.0), far[some])
        found[found < TINY_PART] = 0.0
        return found


@dataclass(frozen=True)
class NarrowRanges:
    """Names of the numbers whose declared ranges seem too narrow.

    Attributes:
        clipped: those most of whose people lie at the ends.
        cut: others many of whose people do.
    """

    clipped: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()

    @classmethod
    def of(cls, numbers: Ranged) -> NarrowRanges:
        """Of numbers with these moments."""
        parts = list(zip(numbers.names, numbers.cut_away.tolist(), (numbers.unseen > SMALL_PART).tolist(), strict=True))
        clipped = tuple(name for name, away, _ in parts if away)
        return cls(clipped, tuple(name for name, away, some in parts if some and not away))

    @classmethod
    def together(cls, several: Iterable[NarrowRanges]) -> NarrowRanges:
        """What any of them names."""
        found = list(several)
        clipped = dict.fromkeys(name for one in found for name in one.clipped)
        cut = dict.fromkeys(name for one in found for name in one.cut if name not in clipped)
        return cls(tuple(clipped), tuple(cut))

    @property
    def words(self) -> list[str]:
        """What is not covered of them, if there are any."""
        said = ((TOO_NARROW, self.clipped), (NARROW, self.cut))
        return [words.format(", ".join(names)) for words, names in said if names]


# All ranges fit.
FIT = NarrowRanges()


@lru_cache(maxsize=1)
def _of_cut_normals() -> Callable[[FloatArray, FloatArray], FloatArray]:
    """(1 - r^2)/r^2 by how many deviations of what is left its mean lies from the nearer and from the farther end."""
    from scipy.interpolate import CloughTocher2DInterpolator, NearestNDInterpolator
    from scipy.special import ndtr

    upper, lower = (found.ravel() for found in np.meshgrid(CUTS, CUTS))
    apart = (upper <= lower) & (upper + lower > LEAST_LENGTH)
    upper, lower = upper[apart], lower[apart]
    densities = [np.exp(-(cut**2) / 2) / math.sqrt(2 * math.pi) for cut in (upper, lower)]
    above, below = ndtr(-upper), ndtr(-lower)
    within = 1 - above - below
    mean = upper * above - lower * below - densities[0] + densities[1]
    square = (upper**2 * above + lower**2 * below + within) - upper * densities[0] - lower * densities[1]
    variance = square - mean**2
    seen = within**2 / variance
    places = np.log(np.stack([(upper - mean) / np.sqrt(variance), (lower + mean) / np.sqrt(variance)], axis=1))
    smooth, nearest = (kind(places, (1 - seen) / seen) for kind in (CloughTocher2DInterpolator, NearestNDInterpolator))

    def of(near: FloatArray, far: FloatArray) -> FloatArray:
        at = np.log(np.stack([np.maximum(near, 1e-6), far], axis=1))
        found: FloatArray = smooth(at)
        found = np.where(np.isnan(found), nearest(at), found)
        return np.maximum(found, 0.0)

    return of
