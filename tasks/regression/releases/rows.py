"""Functions of one row alone, for many rows: encoded columns z, lines, curves, and features in the unit ball.

Arrays are features by rows. Each row's numbers depend on that row alone, to the last bit, whatever stands beside it:
blocks have one shape, every step goes along rows, and no sum is left to BLAS, whose rounding may depend on a row's
place. Else a unit that is replaced could move others by a step of the lattice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.study import CategoricalCovariate, EffectStudy, NumericCovariate
from causalveil.tasks.covariates.encoding import blocks, scale
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.bounded import bounded
from causalveil.tasks.models.lattice_sums import BITS
from causalveil.tasks.regression.features import CURVE_CUT, Curve, FeatureMap, LineFeature, Shape
from causalveil.tasks.regression.released import ColumnKind, EncodedColumn

# Keeps a row that was cut in floats within the ball.
HAIR = 1 - 2.0**-40
# Rows of which features are made at a time: few enough for a processor's cache, and enough for a call.
BLOCK = 2_048
# A category of so many levels has one column, that of the second.
TWO = 2


@dataclass(frozen=True)
class Encoding:
    """Where the columns z of a study stand in its rows x, whose largest entry is ``span``."""

    columns: tuple[EncodedColumn, ...]
    places: tuple[int, ...]
    span: float

    @classmethod
    def of(cls, study: EffectStudy) -> Encoding:
        """That of a study."""
        columns: list[EncodedColumn] = []
        places: list[int] = []
        for covariate, block in enumerate(blocks(study)):
            kinds = [ColumnKind.missing] * len(block.features)
            if isinstance(block.covariate, CategoricalCovariate):
                kinds = [ColumnKind.flag if len(kinds) == TWO else ColumnKind.level] * len(kinds)
            else:
                kinds[0] = ColumnKind.number if block.covariate.codes is None else ColumnKind.flag
            for offset, (kind, name) in enumerate(zip(kinds, block.features, strict=True)):
                if kind is ColumnKind.flag and offset == 0 and kinds[-1] is ColumnKind.flag and len(kinds) == TWO:
                    continue
                from_zero = isinstance(block.covariate, NumericCovariate) and block.covariate.lower == 0
                columns.append(EncodedColumn(name, covariate, kind, kind is ColumnKind.number and from_zero))
                places.append(block.start + offset)
        return cls(tuple(columns), tuple(places), scale(study))

    def blocks(self, x: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Which rows of x, and z of a whole block, shape (columns, BLOCK): anything finite beyond those rows."""
        found = np.zeros((len(self.columns), BLOCK))
        for first in range(0, len(x), BLOCK):
            rows = x[first : first + BLOCK]
            for place, (column, one) in enumerate(zip(self.columns, self.places, strict=True)):
                z = found[place, : len(rows)]
                if column.kind is ColumnKind.number:
                    z[:] = bounded(rows[:, one] / self.span)
                else:
                    np.greater(rows[:, one], 0, out=z, casting="unsafe")
            yield slice(first, first + len(rows)), found


def lines_of(lines: tuple[LineFeature, ...], z: FloatArray) -> FloatArray:
    """Return f of rows whose columns are z, shape (lines, rows)."""
    found = np.empty((len(lines), z.shape[1]))
    for place, line in enumerate(lines):
        found[place] = np.interp(z[line.column], line.at, line.to)
        if line.missing is not None:
            found[place] *= 1 - z[line.missing]
    return found


def curves_of(curves: tuple[Curve, ...], f: FloatArray) -> FloatArray:
    """Return c of rows whose lines are f, shape (curves, rows)."""
    found = np.empty((len(curves), f.shape[1]))
    for place, curve in enumerate(curves):
        one = f[curve.first]
        match curve.shape:
            case Shape.step:
                np.greater(one, curve.at[0], out=found[place], casting="unsafe")
            case Shape.bend:
                found[place] = np.interp(one, curve.at, curve.to)
            case _:
                np.multiply(one, f[curve.second], out=found[place])
    if curves:
        found -= np.array([[curve.intercept] for curve in curves])
        found -= times(np.stack([curve.slopes for curve in curves]), f)
        found /= np.array([[curve.size] for curve in curves])
    np.clip(found, -CURVE_CUT, CURVE_CUT, out=found)
    return found


def features_of(features: FeatureMap, z: FloatArray) -> FloatArray:
    """Return v/radius of rows whose columns are z, shape (1 + count, rows), on the lattice."""
    f = lines_of(features.lines, z)
    return in_ball(np.concatenate([np.ones((1, z.shape[1])), f, curves_of(features.curves, f)]), features.radius)


def in_ball(values: FloatArray, radius: float) -> FloatArray:
    """Return columns of ``values`` over the radius, no longer than 1, rounded towards 0 to multiples of 2^-BITS.

    The values are overwritten.
    """
    length, step = np.sqrt(np.add.reduce(values * values, axis=0)), 2.0**BITS
    values *= HAIR * step / np.maximum(length, radius)
    # A row of finite length has entries that are finite and no longer than it.
    found = values if np.isfinite(length).all() else bounded(values / step) * step
    np.trunc(found, out=found)
    found *= 1 / step
    return found


def times(vectors: FloatArray, values: FloatArray) -> FloatArray:
    """Return sums over features of vectors, shape (k, features), by values, shape (features, rows): shape (k, rows).

    One product after the other is added to whole rows of values, where BLAS would choose its order by their place.
    """
    found: FloatArray = np.einsum("kd,dn->kn", vectors, values)
    return found
