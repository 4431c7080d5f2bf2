"""FeatureMap of a row, and what releases 3 and 5 sum over: decided from released numbers, computed on rows elsewhere.

All are functions of one row alone. ``spread`` is the outcome's deviation within arms, m_t the arms' means of u,
y = (u - m_t)/spread; s_1 = 1 - p and s_0 = -p, so that an arm's mean of features is s_t D, D their difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray

# Curves are cut at so many deviations.
CURVE_CUT = 6.0


@dataclass(frozen=True)
class LineFeature:
    """f = interp(z[column], at, to), constant beyond the knots; 0 where z[missing] is 1."""

    column: int
    at: FloatArray
    to: FloatArray
    missing: int | None = None


class Shape(StrEnum):
    """What a curve is of the lines f: f_i^2 (second is first), f_i f_j, 1 where f_i > at[0], or interp(f_i, at, to)."""

    square = "square"
    product = "product"
    step = "step"
    bend = "bend"


@dataclass(frozen=True)
class Curve:
    """c = (raw - intercept - slopes'f)/size, cut to [-6, 6]; raw by shape, slopes over all lines."""

    shape: Shape
    first: int
    second: int
    at: FloatArray
    to: FloatArray
    intercept: float
    slopes: FloatArray
    size: float


@dataclass(frozen=True)
class FeatureMap:
    """v = (1, f, c) min(1, radius/|(1, f, c)|), f the lines and c the curves; v/radius is in the unit ball."""

    lines: tuple[LineFeature, ...]
    curves: tuple[Curve, ...]
    radius: float

    @property
    def count(self) -> int:
        """Number of features beside the constant."""
        return len(self.lines) + len(self.curves)


@dataclass(frozen=True)
class ArmScales:
    """What release 1 says of arms: treated share, means of u, deviation of u within arms, where residuals are cut."""

    share: float
    means: tuple[float, float]
    spread: float
    limit: float


@dataclass(frozen=True)
class Screen:
    """Release 3 sums c r and c a.

    c = curves/radius, cut to the unit ball; with f the lines, not cut to a ball, less ``middle``:
    a = (t - p - p (1 - p) weights'f)/reach and r = (y - slopes_t'(f - s_t apart)) spread/limit, both cut to [-1, 1].
    """

    arms: ArmScales
    lines: tuple[LineFeature, ...]
    curves: tuple[Curve, ...]
    radius: float
    middle: FloatArray
    apart: FloatArray
    slopes: FloatArray
    weights: FloatArray
    reach: float


@dataclass(frozen=True)
class Scores:
    """Release 5 sums v and v^2.

    With x = (f, c) of the features, not cut to a ball, less ``middle``: v cut to [-1, 1] is 1/cut times
    (slopes_1 - slopes_0)'x + w_t (y - slopes_t'(x - s_t apart)), w_1 = (1 - lean_1 (weights_1'x - s_1 index_1))/p,
    w_0 = -(1 + lean_0 (weights_0'x - s_0 index_0))/(1 - p).
    """

    arms: ArmScales
    features: FeatureMap
    lean: tuple[float, float]
    middle: FloatArray
    apart: FloatArray
    slopes: FloatArray
    weights: FloatArray
    index: FloatArray
    cut: float


def line_values(lines: tuple[LineFeature, ...], z: FloatArray) -> FloatArray:
    """Return f of rows z, shape (rows, lines)."""
    found = np.empty((len(z), len(lines)))
    for place, line in enumerate(lines):
        found[:, place] = np.interp(z[:, line.column], line.at, line.to)
        if line.missing is not None:
            found[:, place] *= 1 - z[:, line.missing]
    return found


def raw_values(curve: Curve, f: FloatArray) -> FloatArray:
    """Return a curve of lines f before lines are taken out of it, shape (rows,)."""
    one = f[:, curve.first]
    found: FloatArray
    match curve.shape:
        case Shape.step:
            found = np.where(one > curve.at[0], 1.0, 0.0)
        case Shape.bend:
            found = np.interp(one, curve.at, curve.to)
        case _:
            found = one * f[:, curve.second]
    return found


def curve_values(curves: tuple[Curve, ...], f: FloatArray) -> FloatArray:
    """Return c of lines f, shape (rows, curves)."""
    if not curves:
        return np.zeros((len(f), 0))
    found = np.column_stack([raw_values(curve, f) - curve.intercept for curve in curves])
    found -= f @ np.column_stack([curve.slopes for curve in curves])
    found /= np.array([curve.size for curve in curves])
    return np.clip(found, -CURVE_CUT, CURVE_CUT, out=found)


def feature_values(features: FeatureMap, z: FloatArray) -> FloatArray:
    """Return v of rows z, shape (rows, 1 + count): the constant, lines and curves, cut to a ball together."""
    f = line_values(features.lines, z)
    v = np.column_stack([np.ones(len(z)), f, curve_values(features.curves, f)])
    v *= np.minimum(1.0, features.radius / np.sqrt(np.einsum("ij,ij->i", v, v)))[:, None]
    return v
