"""Say which columns encode covariates, and which declared ranges are too narrow.

With p covariates x = (z, 1) / sqrt(p + 1): the blocks of z in the order of the covariates' names, the intercept last.
``tasks/data/normalise.py`` says what stands in them.

A declared range is too narrow where many people have its ends. A number in [-c, c] of mean m has at most the variance
c^2 - m^2, which two values at the ends have. Of a normal number with deviation s that is cut to the range a line
through what is left of it sees r^2 = s^2 P(within)^2/v, v the variance of what is left (Stein), so beside confounding
of size B such a line leaves (1 - r^2)/r^2 B. Mean and variance tell which normal number it was, and the share of people
at its ends how far it is one. Post-processing of released or public values: ``docs/proofs/regression.md``, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from causalveil.schemas.columns import CategoricalCovariate, Covariate
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.machine.arrays import BoolArray, FloatArray

# ||x||^2 <= (p+1) (s (1+2^-53))^2 < 1 with s = HAIR / sqrt(p+1), and sums of up to 2^12 rounded squares
# stay below 1.
HAIR = 1.0 - 2.0**-40


@dataclass(frozen=True)
class Block:
    """The columns of x that encode one covariate."""

    name: str
    covariate: Covariate
    start: int
    features: tuple[str, ...]


def blocks(study: EffectStudy) -> tuple[Block, ...]:
    """Return the covariates in order of their names, each with its columns of x."""
    result: list[Block] = []
    start = 0
    for name, covariate in sorted(study.covariates.items()):
        features = _features(name, covariate, indicated=study.indicated(name))
        result.append(Block(name, covariate, start, features))
        start += len(features)
    return tuple(result)


def feature_names(study: EffectStudy) -> tuple[str, ...]:
    """Return names of the d columns of x, the intercept last."""
    return (*(feature for block in blocks(study) for feature in block.features), "(intercept)")


def dimension(study: EffectStudy) -> int:
    """Return d, the number of columns of x."""
    return len(feature_names(study))


def scale(study: EffectStudy) -> float:
    """Return the factor s <= 1/sqrt(p + 1) of encoded values.

    Every entry of x is an encoded value times s, and the intercept is s.
    """
    return HAIR / math.sqrt(len(study.covariates) + 1)


def _features(name: str, covariate: Covariate, *, indicated: bool) -> tuple[str, ...]:
    extra = (f"{name} (missing)",) if indicated else ()
    if isinstance(covariate, CategoricalCovariate):
        labels = covariate.labels
        return (*(f"{name}={labels[str(level)]}" for level in covariate.slots), *extra)
    return (name, *extra)


# Of numbers that vary so much of what their mean leaves possible most lie at an end of their declared range.
CLIPPED = 0.8
# An end that is closer to the mean than that of numbers spread evenly, which is sqrt(3) standard deviations.
EVENLY = 1.7
# What is left unseen counts in full from this share of people at the ends on.
MANY = 0.05
# A normal number whose mean is further from both ends has less than TINY_PART left unseen.
FITTING = 2.6
# Less left unseen is taken for nothing, and of a number of which less than the second is nothing is said.
TINY_PART, SMALL_PART = 0.005, 0.02
# Normal numbers are cut at these deviations, to ranges of at least so many deviations.
CUTS = (*np.linspace(-2.0, 4.0, 61).tolist(), 6.0, 10.0, 20.0, 50.0, 200.0)
LEAST_LENGTH = 0.15
# Arms lie no further apart than so much of what is possible, in steps of halves; no less than this share is treated.
MOST_APART, HALVINGS, LEAST_SHARE = 0.95, 40, 0.01
# Squares that each arm has of its own carry what is cut further: by so much of the third power of how many deviations
# the arms are apart, at most of the second number (found numerically: docs/proofs/regression.md, section 5).
CARRIED, MOST_CARRIED = 0.022, 2.0
# More than this is not left.
MOST_LEFT = 2.0


@dataclass(frozen=True)
class DeclaredRanges:
    """Numbers whose declared ranges may be too narrow for their people: (k,) of each.

    Attributes:
        places: of their columns.
        names: of the numbers.
        from_zero: whether the declared range starts at 0, where people are by nature: nobody earns less.
    """

    places: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    from_zero: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Ranged:
    """Moments of numbers with declared ranges.

    Attributes:
        declared: which numbers.
        mean: shape (k,), within [-span, span].
        variance: shape (k,).
        span: half the length of each range.
        ends: the shares of people at the lower and the upper ends, each of shape (k,).
    """

    declared: DeclaredRanges
    mean: FloatArray
    variance: FloatArray
    span: float
    ends: tuple[FloatArray, FloatArray]

    @property
    def cut_away(self) -> BoolArray:
        """True where most people lie at the ends, shape (k,)."""
        found: BoolArray = self.variance > CLIPPED * (self.span**2 - self.mean**2)
        return found

    @property
    def unseen(self) -> FloatArray:
        """Ratio of confounding by cut numbers that lines leave to what they see, shape (k,).

        0 or more: nothing of numbers at whose ends nobody is, and of those near a lower end of 0. Of arms that
        lie close to each other, of half the units each.
        """
        return self._left(lambda cuts, _: cuts.unseen)

    def left(self, apart: FloatArray, share: float) -> FloatArray:
        """Return :attr:`unseen` where the arms' means are ``apart`` and ``share`` is treated.

        ``apart`` has shape (k,), in units of the range.

        No less than :attr:`unseen`, for one of the arms may lie where more is cut.
        """
        return self._left(lambda cuts, some: cuts.left(apart[some] / self.span, share))

    def _left(self, of: Callable[[CutNormals, BoolArray], FloatArray]) -> FloatArray:
        deviation = np.sqrt(np.maximum(self.variance, np.finfo(np.float64).tiny))
        near, far = ((self.span + side * np.abs(self.mean)) / deviation for side in (-1, 1))
        found, some = np.zeros(len(near)), near < FITTING
        if not some.any():
            return found
        lower = self.mean[some] < 0
        cuts = CutNormals.of(near[some], far[some], lower)
        near, far = near[some], far[some]
        natural = np.array(self.declared.from_zero, dtype=bool)[some] & (far > EVENLY)
        counted = np.minimum((self.ends[0] + self.ends[1])[some] / MANY, 1.0)
        counted[natural & lower] = 0.0
        counted[counted * cuts.unseen < TINY_PART] = 0.0
        found[some] = counted * of(cuts, some)
        return found


@dataclass(frozen=True)
class CutNormals:
    """Normal variables clipped to [-1, 1], as mean and variance after clipping determine them.

    Each attribute has shape (k,).

    Attributes:
        unseen: (1 - r^2)/r^2.
        lower, upper: how many of their deviations below and above their mean they are cut.
        deviation: of what is left, over that of the numbers.
    """

    unseen: FloatArray
    lower: FloatArray
    upper: FloatArray
    deviation: FloatArray

    @classmethod
    def of(cls, near: FloatArray, far: FloatArray, lower: BoolArray) -> CutNormals:
        """Return the normal numbers that fit the distances of a mean from its range's ends.

        Distances are in deviations of what is left; ``lower`` says whether the lower end is the nearer.
        """
        unseen, at_near, at_far = _of_cut_normals()(near, far)
        below, above = np.where(lower, at_near, at_far), np.where(lower, at_far, at_near)
        return cls(unseen, below, above, (below + above) / (near + far))

    def left(self, apart: FloatArray, share: float) -> FloatArray:
        """Return the ratio of confounding that lines leave to what they see, by the arms' distance.

        Treated and controls are normal as well, around two means.

        Args:
            apart: how far what is left of them lies apart, in half ranges, shape (k,).
            share: p, of the treated.
        """
        share = min(max(share, LEAST_SHARE), 1 - LEAST_SHARE)
        between = share * (1 - share)
        # In deviations of the numbers. How far apart they were before is found by halving.
        seen, side = np.abs(apart) * (self.lower + self.upper) / 2, np.where(apart < 0, -1.0, 1.0)
        low, high = np.zeros(len(seen)), np.full(len(seen), MOST_APART / math.sqrt(between))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = self._seen(side * middle, share)[0] < seen
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        told, slope = self._seen(side * high, share)
        explained = np.maximum(slope * told, np.finfo(np.float64).tiny)
        steeper = CARRIED * np.minimum(seen / self.deviation, MOST_CARRIED) ** 3
        found: FloatArray = np.maximum(np.minimum(high / explained - 1, MOST_LEFT), self.unseen) + steeper
        return found

    def _seen(self, apart: FloatArray, share: float) -> tuple[FloatArray, FloatArray]:
        """Return the distance of the arms' means after cutting, and the slope within arms.

        The slope is that of the numbers by what is left of them.
        """
        within = np.sqrt(1 - share * (1 - share) * apart**2)
        treated, controls = (
            _cut_normal((-self.lower - mean) / within, (self.upper - mean) / within)
            for mean in ((1 - share) * apart, -share * apart)
        )
        means = (1 - share) * apart + within * treated[0], -share * apart + within * controls[0]
        covariance, variance = (
            share * one + (1 - share) * other for one, other in zip(treated[1:], controls[1:], strict=True)
        )
        return np.abs(means[0] - means[1]), covariance / variance


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
        """Name the numbers that are cut, by their moments."""
        away, some = numbers.cut_away.tolist(), (numbers.unseen > SMALL_PART).tolist()
        parts = list(zip(numbers.declared.names, away, some, strict=True))
        clipped = tuple(name for name, away, _ in parts if away)
        return cls(clipped, tuple(name for name, away, some in parts if some and not away))

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Limits that follow from these ranges; empty if all fit."""
        found = ((Code.most_at_limits, self.clipped), (Code.many_at_limits, self.cut))
        return tuple(limit(code, columns=names) for code, names in found if names)


# All ranges fit.
FIT = NarrowRanges()


@lru_cache(maxsize=1)
def _of_cut_normals() -> Callable[[FloatArray, FloatArray], FloatArray]:
    """:class:`CutNormals` but for their deviation, shape (3, k), the nearer end's cut before the farther one's.

    By how many deviations of what is left its mean lies from either.
    """
    from scipy.interpolate import CloughTocher2DInterpolator, NearestNDInterpolator

    upper, lower = (found.ravel() for found in np.meshgrid(CUTS, CUTS))
    apart = (upper <= lower) & (upper + lower > LEAST_LENGTH)
    upper, lower = upper[apart], lower[apart]
    mean, covariance, variance = _cut_normal(-lower, upper)
    seen = covariance**2 / variance
    places = np.log(np.stack([(upper - mean) / np.sqrt(variance), (lower + mean) / np.sqrt(variance)], axis=1))
    known = np.stack([(1 - seen) / seen, upper, lower], axis=1)
    smooth, nearest = (kind(places, known) for kind in (CloughTocher2DInterpolator, NearestNDInterpolator))

    def of(near: FloatArray, far: FloatArray) -> FloatArray:
        at = np.log(np.stack([np.maximum(near, 1e-6), far], axis=1))
        found: FloatArray = smooth(at)
        found = np.where(np.isnan(found), nearest(at), found).T
        found[0] = np.maximum(found[0], 0.0)
        found[2] = np.maximum(found[2], LEAST_LENGTH - found[1])
        return found

    return of


def _cut_normal(lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return moments of standard normal numbers that are clipped to [lower, upper].

    Mean, covariance with what they were, variance.
    """
    from scipy.special import ndtr

    below, above = ndtr(lower), ndtr(-upper)
    densities = [np.exp(-(cut**2) / 2) / math.sqrt(2 * math.pi) for cut in (lower, upper)]
    within = np.maximum(1 - below - above, np.finfo(np.float64).tiny)
    mean = lower * below + upper * above + densities[0] - densities[1]
    square = lower**2 * below + upper**2 * above + within + lower * densities[0] - upper * densities[1]
    return mean, within, np.maximum(square - mean**2, np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Columns:
    """The columns of x that enter, chosen from the declared covariates alone.

    Attributes:
        kept: positions of the columns that enter. The first level of a category is the one that others are compared
            with: all levels add up to a constant.
        names: of the kept columns.
        span: c, the largest entry of a column.
        curved: places within ``kept`` of numbers that have more than two values.
        ranges: of those of ``curved`` whose declared range is not from one whole number to the next; two values such as
            0 and 1 lie at the ends of theirs as they should.
        owners: of which covariate each kept column is; products are of columns of different covariates.
    """

    kept: tuple[int, ...]
    names: tuple[str, ...]
    span: float
    curved: tuple[int, ...]
    ranges: DeclaredRanges
    owners: tuple[int, ...]

    @classmethod
    def of(cls, study: EffectStudy) -> Columns:
        """Return the columns of a study."""
        kept: list[int] = []
        owners: list[int] = []
        curved: list[int] = []
        ranged: list[int] = []
        from_zero: list[bool] = []
        for owner, block in enumerate(blocks(study)):
            one, category = block.covariate, isinstance(block.covariate, CategoricalCovariate)
            if not isinstance(one, CategoricalCovariate) and one.codes is None:
                curved.append(len(kept))
                if one.width != 1 or not one.lower.is_integer():
                    ranged.append(len(kept))
                    from_zero.append(one.lower == 0)
            # Of a category all levels but the first, of a number the indicator of what is missing.
            columns = range(1 if category else 0, len(block.features))
            kept += [block.start + offset for offset in columns]
            owners += [owner] * len(columns)
        names = feature_names(study)
        return cls(
            kept=tuple(kept),
            names=tuple(names[place] for place in kept),
            span=scale(study),
            curved=tuple(curved),
            ranges=DeclaredRanges(tuple(ranged), tuple(names[kept[place]] for place in ranged), tuple(from_zero)),
            owners=tuple(owners),
        )

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of places within ``kept`` that have a product."""
        return [(i, j) for i, j in combinations(range(len(self.kept)), 2) if self.owners[i] != self.owners[j]]
