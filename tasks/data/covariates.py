"""Determine which columns encode covariates, and which declared ranges are too narrow.

With p covariates x = (z, 1) / sqrt(p + 1): the blocks of z in the order of the covariates' names, the intercept last.
``tasks/data/normalise.py`` encodes their values.

A declared range is too narrow where many people have its ends. A number in [-c, c] of mean m has at most the variance
c^2 - m^2, that of two values at the ends. If a normal number with deviation s is clipped to the range, a line through
the clipped number explains r^2 = s^2 P(within)^2/v of it, v the clipped variance (Stein), so beside confounding of size
B such a line leaves (1 - r^2)/r^2 B. Mean and variance determine the normal number, and the share of people at the ends
how far the number is normal. Post-processing of released or public values: ``docs/proofs/regression.md``, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, compress

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


# If the variance is above this share of its largest possible value, most numbers are at an end of the declared range.
CLIPPED = 0.8
# Distance from the mean to an end, in standard deviations, just below that of a uniform number, sqrt(3).
EVENLY = 1.7
# From this share of people at the ends on, the unseen ratio counts in full.
MANY = 0.05
# A normal number whose mean is further from both ends, in deviations, has an unseen ratio below TINY_PART.
FITTING = 2.6
# Unseen ratios below the first are set to 0; those below the second are not reported.
TINY_PART, SMALL_PART = 0.005, 0.02
# Deviations at which the table clips normal numbers, and the least length of the range between two of them.
CUTS = (*np.linspace(-2.0, 4.0, 61).tolist(), 6.0, 10.0, 20.0, 50.0, 200.0)
LEAST_LENGTH = 0.15
# Largest distance of the arms' means as a share of the possible, bisections to find it, and least treated share.
MOST_APART, HALVINGS, LEAST_SHARE = 0.95, 40, 0.01
# The squares of each arm increase the error of clipping: by the first number times the third power of the arms'
# distance in deviations, up to the second number (found numerically: docs/proofs/regression.md, section 5).
CARRIED, MOST_CARRIED = 0.022, 2.0
# The largest ratio of unseen to seen confounding.
MOST_LEFT = 2.0


@dataclass(frozen=True)
class DeclaredRanges:
    """Numbers whose declared ranges may be too narrow, k of them.

    Attributes:
        places: of their columns.
        names: of the numbers.
        from_zero: whether the declared range starts at 0, often a natural limit, as of incomes.
    """

    places: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    from_zero: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Ranged:
    """Moments of numbers with declared ranges.

    Attributes:
        declared: the numbers and their columns.
        mean: shape (k,), within [-span, span].
        variance: shape (k,).
        span: half the length of each range.
        ends: the shares of people at the lower and at the upper ends, each of shape (k,).
    """

    declared: DeclaredRanges
    mean: FloatArray
    variance: FloatArray
    span: float
    ends: tuple[FloatArray, FloatArray]

    @property
    def cut_away(self) -> BoolArray:
        """True where most people lie at the ends, shape (k,)."""
        is_cut: BoolArray = self.variance > CLIPPED * (self.span**2 - self.mean**2)
        return is_cut

    @property
    def unseen(self) -> FloatArray:
        """Ratio of unseen to seen confounding by clipped numbers, shape (k,), if arms coincide.

        It is 0 of numbers without people at the ends, and of numbers near a lower end of 0.
        """
        return self._left(lambda cuts, _: cuts.unseen)

    def left(self, apart: FloatArray, share: float) -> FloatArray:
        """Return :attr:`unseen` where the arms' means are ``apart`` and ``share`` is treated.

        ``apart`` has shape (k,), in units of the range.

        No less than :attr:`unseen`, since one of the arms may lie where more is clipped.
        """
        return self._left(lambda cuts, some: cuts.left(apart[some] / self.span, share))

    def _left(self, ratio: Callable[[CutNormals, BoolArray], FloatArray]) -> FloatArray:
        deviation = np.sqrt(np.maximum(self.variance, np.finfo(np.float64).tiny))
        near, far = ((self.span + side * np.abs(self.mean)) / deviation for side in (-1, 1))
        left, some = np.zeros(len(near)), near < FITTING
        if not some.any():
            return left
        lower = self.mean[some] < 0
        cuts = CutNormals.of(near[some], far[some], lower)
        natural = np.array(self.declared.from_zero, dtype=bool)[some] & (far[some] > EVENLY)
        weight = np.minimum((self.ends[0] + self.ends[1])[some] / MANY, 1.0)
        weight[natural & lower] = 0.0
        weight[weight * cuts.unseen < TINY_PART] = 0.0
        left[some] = weight * ratio(cuts, some)
        return left


@dataclass(frozen=True)
class CutNormals:
    """Normal variables clipped to [-1, 1], as mean and variance after clipping determine them.

    Each attribute has shape (k,).

    Attributes:
        unseen: (1 - r^2)/r^2.
        lower, upper: distances of the cuts below and above the mean, in deviations of the normal variable.
        deviation: of the clipped variable, over that of the normal variable.
    """

    unseen: FloatArray
    lower: FloatArray
    upper: FloatArray
    deviation: FloatArray

    @classmethod
    def of(cls, near: FloatArray, far: FloatArray, lower: BoolArray) -> CutNormals:
        """Return the normal variables that fit distances of clipped means from the ranges' ends.

        Distances are in clipped deviations; ``lower`` is True where the lower end is the nearer.
        """
        unseen, at_near, at_far = _fit_of_cut_normals()(near, far)
        below, above = np.where(lower, at_near, at_far), np.where(lower, at_far, at_near)
        return cls(unseen, below, above, (below + above) / (near + far))

    def left(self, apart: FloatArray, share: float) -> FloatArray:
        """Return the ratio of unseen to seen confounding where the arms' means differ.

        Treated and controls are normal as well, around two means.

        Args:
            apart: difference of the arms' clipped means, in half ranges, shape (k,).
            share: p, of the treated.
        """
        share = min(max(share, LEAST_SHARE), 1 - LEAST_SHARE)
        between = share * (1 - share)
        # In deviations of the normal variables. Bisection finds the difference before clipping.
        seen, side = np.abs(apart) * (self.lower + self.upper) / 2, np.where(apart < 0, -1.0, 1.0)
        low, high = np.zeros(len(seen)), np.full(len(seen), MOST_APART / math.sqrt(between))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = self._seen(side * middle, share)[0] < seen
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        clipped, slope = self._seen(side * high, share)
        explained = np.maximum(slope * clipped, np.finfo(np.float64).tiny)
        of_squares = CARRIED * np.minimum(seen / self.deviation, MOST_CARRIED) ** 3
        ratio: FloatArray = np.maximum(np.minimum(high / explained - 1, MOST_LEFT), self.unseen) + of_squares
        return ratio

    def _seen(self, apart: FloatArray, share: float) -> tuple[FloatArray, FloatArray]:
        """Return the distance of the arms' means after clipping, and the slope within arms.

        The slope is that of the normal variables on the clipped ones.
        """
        within = np.sqrt(1 - share * (1 - share) * apart**2)
        treated, controls = (
            _cut_normal((-self.lower - mean) / within, (self.upper - mean) / within)
            for mean in ((1 - share) * apart, -share * apart)
        )
        means = (1 - share) * apart + within * treated[0], -share * apart + within * controls[0]
        covariance, variance = (
            share * of_treated + (1 - share) * of_controls
            for of_treated, of_controls in zip(treated[1:], controls[1:], strict=True)
        )
        return np.abs(means[0] - means[1]), covariance / variance


@dataclass(frozen=True)
class NarrowRanges:
    """Names of the numbers whose declared ranges seem too narrow.

    Attributes:
        clipped: numbers with most people at the ends.
        cut: others with many people at the ends.
    """

    clipped: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()

    @classmethod
    def of(cls, numbers: Ranged) -> NarrowRanges:
        """Return the names by the moments of numbers."""
        most, many = numbers.cut_away, (numbers.unseen > SMALL_PART) & ~numbers.cut_away
        names = numbers.declared.names
        return cls(tuple(compress(names, most)), tuple(compress(names, many)))

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Limits that follow from these ranges; empty if all fit."""
        by_code = ((Code.most_at_limits, self.clipped), (Code.many_at_limits, self.cut))
        return tuple(limit(code, columns=names) for code, names in by_code if names)


# All ranges fit.
FIT = NarrowRanges()


@lru_cache(maxsize=1)
def _fit_of_cut_normals() -> Callable[[FloatArray, FloatArray], FloatArray]:
    """A function of the distances of a clipped mean from the nearer and the farther end, in clipped deviations.

    It returns the unseen ratio, and the distances of the nearer and the farther cut, shape (3, k).
    """
    from scipy.interpolate import CloughTocher2DInterpolator, NearestNDInterpolator

    upper, lower = (cuts.ravel() for cuts in np.meshgrid(CUTS, CUTS))
    is_range = (upper <= lower) & (upper + lower > LEAST_LENGTH)
    upper, lower = upper[is_range], lower[is_range]
    mean, covariance, variance = _cut_normal(-lower, upper)
    seen = covariance**2 / variance
    places = np.log(np.stack([(upper - mean) / np.sqrt(variance), (lower + mean) / np.sqrt(variance)], axis=1))
    values = np.stack([(1 - seen) / seen, upper, lower], axis=1)
    smooth, nearest = (kind(places, values) for kind in (CloughTocher2DInterpolator, NearestNDInterpolator))

    def fit(near: FloatArray, far: FloatArray) -> FloatArray:
        at = np.log(np.stack([np.maximum(near, 1e-6), far], axis=1))
        fitted: FloatArray = smooth(at)
        fitted = np.where(np.isnan(fitted), nearest(at), fitted).T
        fitted[0] = np.maximum(fitted[0], 0.0)
        fitted[2] = np.maximum(fitted[2], LEAST_LENGTH - fitted[1])
        return fitted

    return fit


def _cut_normal(lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return moments of standard normal variables clipped to [lower, upper].

    Mean, covariance with the unclipped variable, variance.
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
        kept: positions of the columns that enter. The first level of a category is the reference and does not: all
            levels add up to a constant.
        names: of the kept columns.
        span: c, the largest entry of a column.
        curved: places within ``kept`` of numbers that have more than two values.
        ranges: of those of ``curved`` whose declared range is not from one whole number to the next; two values such as
            0 and 1 always lie at the ends.
        owners: number of the covariate of each kept column; products are of columns of different covariates.
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
        positions: list[int] = []
        owners: list[int] = []
        curved: list[int] = []
        ranged: list[int] = []
        from_zero: list[bool] = []
        for owner, block in enumerate(blocks(study)):
            covariate, is_category = block.covariate, isinstance(block.covariate, CategoricalCovariate)
            if not isinstance(covariate, CategoricalCovariate) and covariate.codes is None:
                curved.append(len(positions))
                if covariate.width != 1 or not covariate.lower.is_integer():
                    ranged.append(len(positions))
                    from_zero.append(covariate.lower == 0)
            columns = range(1 if is_category else 0, len(block.features))
            positions += [block.start + offset for offset in columns]
            owners += [owner] * len(columns)
        names = feature_names(study)
        return cls(
            kept=tuple(positions),
            names=tuple(names[position] for position in positions),
            span=scale(study),
            curved=tuple(curved),
            ranges=DeclaredRanges(tuple(ranged), tuple(names[positions[place]] for place in ranged), tuple(from_zero)),
            owners=tuple(owners),
        )

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of places within ``kept`` that have a product."""
        return [(i, j) for i, j in combinations(range(len(self.kept)), 2) if self.owners[i] != self.owners[j]]
