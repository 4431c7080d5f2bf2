"""Moments of standardised features around their mean.

Releases are joined by the inverse of their variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.tasks.adjustment.features import FeatureMap
from causalveil.tasks.adjustment.released import ReleasedMoments
from causalveil.tasks.adjustment.scales import FoundScales, kept_by_cut
from causalveil.tasks.machine.arrays import BoolArray, FloatArray

# Of a kept curve, standardised in a synthetic table: by how much its variance may be off there.
CURVE_DOUBT = 0.2


@dataclass(frozen=True)
class SeenMoments:
    """Seen moments with the deviation of their noise, infinite where nothing was released.

    Features f are less their mean, y = (u - m_t)/spread, s = 1 for treated and -1 for controls.

    Attributes:
        middle, middle_sd: mean of f, and what is left of doubt in it.
        apart: difference of the arms' means of f.
        cross, arm_cross: means of f y and of s f y.
        gram, arm_gram: means of f f' and of s f f'.
        told: entries of ``gram`` that release 1 tells.
        lines: how many of the features are lines; the others are curves.
    """

    middle: FloatArray
    middle_sd: FloatArray
    apart: FloatArray
    apart_sd: FloatArray
    cross: FloatArray
    cross_sd: FloatArray
    arm_cross: FloatArray
    arm_cross_sd: FloatArray
    gram: FloatArray
    gram_sd: FloatArray
    arm_gram: FloatArray
    arm_gram_sd: FloatArray
    told: BoolArray
    lines: int

    @property
    def count(self) -> int:
        """Number of features."""
        return len(self.apart)


class _Joined:
    """Readings of one number with independent noise, entry by entry: weighed by the inverse of its variance."""

    def __init__(self, *shape: int) -> None:
        self.precision, self.sum = np.zeros(shape), np.zeros(shape)

    def add(self, value: FloatArray, sd: FloatArray | float) -> None:
        """Add a reading of the first entries; infinite ``sd`` where there is none."""
        part = tuple(slice(0, size) for size in value.shape)
        precision = np.broadcast_to(np.asarray(sd, dtype=np.float64), value.shape) ** -2.0
        self.precision[part] += precision
        self.sum[part] += precision * value

    def at(self, i: int, j: int, value: float, sd: float) -> None:
        """Add a reading of one entry of a symmetric matrix."""
        for place in {(i, j), (j, i)}:
            self.precision[place] += sd**-2
            self.sum[place] += value * sd**-2

    def found(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean and its deviation; 0 and infinite where nothing was read."""
        with np.errstate(divide="ignore"):
            sd = self.precision**-0.5
        return self.sum / np.maximum(self.precision, 1e-300), sd


def moments_of(scales: FoundScales, releases: list[tuple[FeatureMap, ReleasedMoments]]) -> SeenMoments:
    """Join the moments of releases of the same lines with what release 1 says of lines.

    Later releases have curves too.

    Of a release of rows v in a ball of radius R: mean f = E v, D = E[(t - p) f]/(p (1 - p)), and E[s f] = (2 p - 1) E f
    + 2 p (1 - p) D, which tells D once more.
    """
    p, lines, d = scales.arms.share, len(releases[0][0].lines), releases[-1][0].count
    between, spread = p * (1 - p), scales.arms.limit / scales.arms.spread
    # What a cut takes off slopes is made good.
    spread /= float(kept_by_cut(scales.outcome, np.array([spread]), scales.arms.spread)[0])
    middle = _Joined(d)
    middle.add(np.zeros(lines), scales.centre_sd)
    middle.add(np.zeros(d), np.where(np.arange(d) < lines, np.inf, CURVE_DOUBT))
    for features, one in releases:
        middle.add(features.radius**2 * one.gram[0, 1:], features.radius**2 * one.gram_sd)
    mean, mean_sd = middle.found()
    apart, cross, arm_cross = _Joined(d), _Joined(d), _Joined(d)
    gram, arm_gram = _Joined(d, d), _Joined(d, d)
    for features, one in releases:
        radius, m, wide = features.radius, mean[: features.count], 1 + (math.sqrt(2) - 1) * np.eye(features.count)
        square, to_apart = radius**2, radius * max(p, 1 - p) / between
        apart.add(to_apart * (one.apart[1:] - m * one.apart[0]), to_apart * one.apart_sd)
        of_arm = square * one.arm_gram[0, 1:]
        doubt = np.hypot(square * one.arm_gram_sd, (2 * p - 1) * mean_sd[: features.count])
        apart.add((of_arm - (2 * p - 1) * m) / (2 * between), doubt / (2 * between))
        to_cross = radius * spread
        cross.add(to_cross * one.cross[1:] - m * spread * one.cross[0] * radius, to_cross * one.cross_sd)
        arm_cross.add(
            to_cross * one.arm_cross[1:] - m * spread * one.arm_cross[0] * radius, to_cross * one.arm_cross_sd
        )
        gram.add(square * one.gram[1:, 1:] - np.outer(m, m), square * one.gram_sd * wide)
        moved = np.outer(m, of_arm) + np.outer(of_arm, m) - (2 * p - 1) * np.outer(m, m)
        arm_gram.add(square * one.arm_gram[1:, 1:] - moved, square * one.arm_gram_sd * wide)
    differ, differ_sd = apart.found()
    told = np.zeros((d, d), dtype=bool)
    for j in range(d):
        gram.at(j, j, *((scales.ratio[j], scales.ratio_sd[j]) if j < lines else (1.0, CURVE_DOUBT)))
    # An indicator is its own square, and levels of one category exclude each other: the arms' shares say the rest.
    at, of_arm, of_arm_sd = scales.centre / scales.deviation, 2 * between * differ, 2 * between * differ_sd
    for j in (place for place, one in enumerate(scales.margins) if one is None):
        steep = 1 / scales.deviation[j] - 2 * at[j]
        value = steep * of_arm[j] + (2 * p - 1) * scales.ratio[j]
        arm_gram.at(j, j, value, math.hypot(steep * of_arm_sd[j], scales.ratio_sd[j]))
    for i, j, value, sd in scales.known:
        gram.at(i, j, value, max(sd, 1e-3))
        told[i, j] = told[j, i] = True
        by_arm = (2 * p - 1) * value - at[i] * of_arm[j] - at[j] * of_arm[i]
        arm_gram.at(i, j, by_arm, math.hypot(at[i] * of_arm_sd[j], at[j] * of_arm_sd[i], sd))
    return SeenMoments(
        mean,
        mean_sd,
        differ,
        differ_sd,
        *cross.found(),
        *arm_cross.found(),
        *gram.found(),
        *arm_gram.found(),
        told,
        lines,
    )
