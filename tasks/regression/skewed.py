"""Columns that release 1 shows to be skewed: whose mean lies near one end of the declared range and far from the other.

A number whose mean is a standard deviations from an end that it cannot pass has a third moment of at least 1/a - a.
An outcome that follows its logarithm is then not seen by a line: where the number is log-normal a line sees

    r^2 = sigma^2/(exp(sigma^2) - 1) = a^2 log(1 + 1/a^2),   exp(sigma^2) = 1 + 1/a^2,

of what the logarithm explains, so beside confounding of size B a line leaves (1 - r^2)/r^2 B. Post-processing of
release 1: ``docs/proofs/regression.md``, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from causalveil.tasks.covariates.columns import Columns
from causalveil.tasks.covariates.narrow_ranges import Ranged
from causalveil.tasks.machine.arrays import BoolArray, FloatArray, IntArray
from causalveil.tasks.regression.scales import POWER_WEIGHT, VARIANCE_DEVIATIONS, Scales

# A mean is near an end within so many standard deviations, if the other is so many away, so that a tail has room, and
# if the product of both distances is at least the third number: it is 1 for two values at the ends, which are a line.
NEAR, FAR, MANY_VALUES = 2.0, 4.0, 2.0
# Deviations of the noise in a variance that are in favour of many values.
VARIANCE_NOISE = 2.0
# No mean is taken to be nearer: noise in the deviations brings means nearer than they are.
NEAREST = 0.45
# The logarithm is taken of 1 + 20 times the distance from the end over its mean: finite at the end, and close to a
# logarithm where most people are.
STEEPNESS = 20.0
# Where two curves stand for a column, so much of the confounding that they see is allowed for.
CURVES_UNSEEN = 0.05
# Standardised logarithms are cut here before the exponential is taken, which is taken of at most this spread.
CURVE_CUT, MOST_SPREAD = 2.5, 1.0
# A column's mean distance from its end is taken to be at least so many deviations of its noise.
MEAN_DEVIATIONS = 2.0
# So many deviations of the noise in the variance are in favour of numbers that are not cut away.
CLIPPED_DEVIATIONS = 2.0


def drowned(scales: Scales, columns: Columns) -> BoolArray:
    """Numbers whose declared range is so wide that noise hides how much they vary, shape (kept columns,)."""
    found = np.zeros(len(columns.kept), dtype=bool)
    places = list(columns.numbers)
    floor = VARIANCE_DEVIATIONS * scales.centre_error[places] * columns.span
    found[places] = scales.deviation[places] ** 2 <= floor * (1 + 1e-9)
    return found


def clipped(scales: Scales, columns: Columns) -> BoolArray:
    """Numbers whose declared range is so narrow that most people lie at one of its ends, shape (kept columns,)."""
    found = np.zeros(len(columns.kept), dtype=bool)
    found[list(columns.ranges.places)] = in_ranges(scales, columns).cut_away
    return found


def beyond(scales: Scales, columns: Columns, apart: FloatArray) -> FloatArray:
    """What is left of a number's confounding over what it shows, by a range that is too narrow, shape (kept columns,).

    Of columns that are cut away more is left: they may confound as any other.

    Args:
        scales: of release 1.
        columns: whose numbers.
        apart: the means of the columns among treated less among controls, shape (kept columns,).
    """
    found, places = np.zeros(len(columns.kept)), list(columns.ranges.places)
    found[places] = in_ranges(scales, columns).left(apart[places], scales.share)
    return found


def in_ranges(scales: Scales, columns: Columns) -> Ranged:
    """The numbers with declared ranges; noise is in favour of those that are not cut away."""
    places = list(columns.ranges.places)
    doubt = CLIPPED_DEVIATIONS * scales.centre_error[places]
    return Ranged(
        columns.ranges,
        mean=scales.centre[places],
        variance=scales.deviation[places] ** 2 - doubt * columns.span,
        span=columns.span,
        powers=scales.powers[places] - doubt / (POWER_WEIGHT * columns.span) if columns.eighth else None,
    )


@dataclass(frozen=True)
class Skewed:
    """Columns that are skewed, and how their logarithm is standardised.

    Attributes:
        places: within ``Columns.kept``, shape (k,).
        ends: the end of x that each is near, shape (k,).
        signs: 1 where it is the lower end, -1 where it is the upper, shape (k,).
        means: mean distance from the end, in units of x, above 0, shape (k,).
        middles, spreads: what centres and scales log(1 + STEEPNESS distance/mean), shape (k,).
        unseen: (1 - r^2)/r^2 of a log-normal column, shape (k,).
    """

    places: IntArray
    ends: FloatArray
    signs: FloatArray
    means: FloatArray
    middles: FloatArray
    spreads: FloatArray
    unseen: FloatArray

    @classmethod
    def of(cls, scales: Scales, columns: Columns) -> Skewed:
        """What release 1 says of numbers that no scale is declared for."""
        asked = np.array(columns.unscaled, dtype=np.int64)
        centre, deviation = scales.centre[asked], scales.deviation[asked]
        least = MEAN_DEVIATIONS * scales.centre_error[asked]
        low, high = np.maximum(columns.span + centre, least), np.maximum(columns.span - centre, least)
        nearer, farther = np.minimum(low, high), np.maximum(low, high)
        chosen = (nearer < NEAR * deviation) & (farther > FAR * deviation)
        noise = scales.centre_error[asked] * columns.span
        chosen &= nearer * farther >= MANY_VALUES * (deviation**2 - VARIANCE_NOISE * noise)
        lower = low[chosen] <= high[chosen]
        ratio = np.maximum(nearer[chosen] / deviation[chosen], NEAREST) ** 2
        spread = np.log1p(1 / ratio)
        seen = ratio * spread
        return cls(
            places=asked[chosen],
            ends=np.where(lower, -columns.span, columns.span),
            signs=np.where(lower, 1.0, -1.0),
            means=nearer[chosen],
            # The median of a log-normal column over its mean is exp(-sigma^2/2).
            middles=np.log1p(STEEPNESS * np.exp(-spread / 2)),
            spreads=np.sqrt(spread),
            unseen=(1 - seen) / seen,
        )

    @property
    def count(self) -> int:
        """k."""
        return len(self.places)

    def curves(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Standardised logarithms of the kept columns x, and what a line has beside them, each of shape (rows, k).

        The second is exp(s z) less its projection on 1 and on z, by its deviation, were z a standard normal: with the
        logarithm it spans the column itself, and the two hardly overlap, as a column and its logarithm do.
        """
        distance = np.maximum((x[:, self.places] - self.ends) * self.signs, 0.0) / self.means
        z = (np.log1p(STEEPNESS * distance) - self.middles) / self.spreads
        short, s = np.clip(z, -CURVE_CUT, CURVE_CUT), np.minimum(self.spreads, MOST_SPREAD)
        mean = np.exp(s**2 / 2)
        beside = (np.exp(s * short) - mean * (1 + s * short)) / (mean * np.sqrt(np.expm1(s**2) - s**2))
        return z, beside
