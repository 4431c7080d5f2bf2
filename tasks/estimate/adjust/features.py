"""Encode rows as features: lines, curves and declared terms of one row, in the unit ball.

Which features there are is decided by released numbers, all public. Arrays are features by rows. The numbers of a row
depend on that row alone, to the last bit, whatever stands beside it: blocks have one shape, every step goes along rows,
and no sum that rounds is left to BLAS, whose rounding may depend on a row's place. Otherwise replacing one unit could
move other rows by a step of the lattice. Lines are taken out of curves on the lattice, where products add up exactly in
any order (:class:`CurveArrays`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from causalveil.schemas.columns import CategoricalCovariate, NumericCovariate
from causalveil.schemas.table import EffectStudy
from causalveil.schemas.terms import DeclaredTerm, TermFactor, TermFunction
from causalveil.tasks.data.covariates import blocks, scale
from causalveil.tasks.estimate.adjust.released import ColumnKind, EncodedColumn, TermPart
from causalveil.tasks.estimate.models.lattice_sums import BITS, bounded
from causalveil.tasks.machine.arrays import FloatArray, IntArray

# Lines and curves are cut at this many deviations: the ball has cut most rows before.
LINE_CUT = 6.0


@dataclass(frozen=True)
class LineFeature:
    """f = interp(z[column], at, to), constant beyond the knots; 0 where z[missing] is 1.

    ``by``: of a product of two functions, the other one; the product is cut to [-LINE_CUT, LINE_CUT].
    """

    column: int
    at: FloatArray
    to: FloatArray
    missing: int | None = None
    by: LineFeature | None = None


class Shape(StrEnum):
    """The shape of a curve as a function of the lines f.

    f_i^2 (second is first), f_i f_j, 1 where f_i > at[0], or interp(f_i, at, to).
    """

    square = "square"
    product = "product"
    step = "step"
    bend = "bend"


@dataclass(frozen=True)
class Curve:
    """c = raw/size - intercept - slopes'f, cut to [-6, 6].

    ``raw`` is given by the shape. Intercept and slopes, which are over all lines, are multiples of 2^-BITS, and f is
    rounded to multiples of it too.
    """

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
    """v = (1, f, c) of f the lines and c the curves, cut so that v/radius is in the unit ball.

    ``lines_radius``: (1, f) is cut to that length first, and c to what is left of the radius, so that lines are the
    same numbers beside curves as alone. Without it (1, f, c) is cut as a whole.
    """

    lines: tuple[LineFeature, ...]
    curves: tuple[Curve, ...]
    radius: float
    lines_radius: float | None = None

    @property
    def count(self) -> int:
        """Number of features beside the constant."""
        return len(self.lines) + len(self.curves)

    @cached_property
    def made(self) -> CurveArrays:
        """Curves made ready for blocks of rows."""
        return CurveArrays(self.curves)

    @cached_property
    def made_lines(self) -> LineArrays:
        """Lines made ready for blocks of rows."""
        return LineArrays(self.lines)


@dataclass(frozen=True)
class ArmScales:
    """Scales of the arms by release 1.

    The treated share, the means of u, its deviation within arms, and where residuals are cut.
    """

    share: float
    means: tuple[float, float]
    spread: float
    limit: float


@dataclass(frozen=True)
class Screen:
    """Release 3 sums c r and c a.

    c = curves/radius, cut to the unit ball; with f the lines, cut as release 2 cuts them, less ``middle``:
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
    lines_radius: float = math.inf

    @cached_property
    def made(self) -> CurveArrays:
        """Candidates made ready for blocks of rows."""
        return CurveArrays(self.curves)

    @cached_property
    def alone(self) -> FeatureMap:
        """Lines without curves, as release 2 has them."""
        return FeatureMap(self.lines, (), self.lines_radius)


@dataclass(frozen=True)
class Scores:
    """Release 5 sums v and v^2.

    With x = (f, c) of the features less ``middle``, cut as in their moments where weights are applied, and with lines f
    as they are where slopes are (:func:`score_features`): v cut to [-1, 1] is 1/cut times
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
    """Return f of rows z, shape (rows, lines): those of :class:`LineArrays`, row by row."""
    return np.ascontiguousarray(LineArrays(lines).of(z.T).T)


def raw_values(curve: Curve, f: FloatArray) -> FloatArray:
    """Return a curve of lines f before lines are taken out of it, shape (rows,)."""
    values = f[:, curve.first]
    curved: FloatArray
    match curve.shape:
        case Shape.step:
            curved = np.where(values > curve.at[0], 1.0, 0.0)
        case Shape.bend:
            curved = np.interp(values, curve.at, curve.to)
        case _:
            curved = values * f[:, curve.second]
    return curved


def curve_values(curves: tuple[Curve, ...], f: FloatArray) -> FloatArray:
    """Return c of lines f, shape (rows, curves): those of :class:`CurveArrays`, row by row."""
    return CurveArrays(curves).of(np.ascontiguousarray(f.T)).T


# Keeps a row that was cut in floats within the ball.
HAIR = 1 - 2.0**-40
# Rows of which features are made at a time: few enough for a processor's cache, and enough for a call.
BLOCK = 2_048
# Rows of a block whose curves are made at once: there are up to 200 curves, where lines are few.
PART = 256
# A category of two levels has one column, that of the second; a line of two knots is straight.
TWO = 2
# A term is a function of covariates.
OF_NO_COVARIATE = -1


@dataclass(frozen=True)
class Encoding:
    """The places of a study's columns z within its rows x, whose largest entry is ``span``.

    ``columns`` ends with the study's declared terms, which have no place.
    """

    columns: tuple[EncodedColumn, ...]
    places: tuple[int, ...]
    span: float

    @classmethod
    def of(cls, study: EffectStudy) -> Encoding:
        """Return the features of a study."""
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
        terms = tuple(_of_term(term, study, columns) for term in getattr(study, "terms", ()))
        return cls((*columns, *itertools.chain(*terms)), tuple(places), scale(study))

    @property
    def encoded(self) -> tuple[EncodedColumn, ...]:
        """The columns that rows have: all but declared terms."""
        return self.columns[: len(self.places)]

    def blocks(self, x: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the rows of each block, and its z of shape (columns, BLOCK).

        Columns of z beyond those rows hold anything finite.
        """
        memory, kinds = np.zeros((len(self.places), BLOCK)), [column.kind for column in self.encoded]
        for first in range(0, len(x), BLOCK):
            rows = x[first : first + BLOCK]
            z = memory[:, : len(rows)]
            for place, (kind, column) in enumerate(zip(kinds, self.places, strict=True)):
                if kind is ColumnKind.number:
                    np.divide(rows[:, column], self.span, out=z[place])
                else:
                    z[place] = rows[:, column] > 0
            # As ``bounded``, of all columns in place.
            if not np.isfinite(z).all():
                z[~np.isfinite(z)] = 0
            np.clip(z, -1.0, 1.0, out=z)
            yield slice(first, first + len(rows)), memory


def _of_term(term: DeclaredTerm, study: EffectStudy, encoded: Sequence[EncodedColumn]) -> Iterator[EncodedColumn]:
    """Yield the columns of a declared term: of a spline each, of levels all but the first."""
    owner = {name: place for place, name in enumerate(sorted(study.covariates))}

    def parts(factor: TermFactor) -> list[tuple[str, TermPart]]:
        covariate, number = study.covariates[factor.column], (ColumnKind.number, ColumnKind.flag)
        places = [place for place, column in enumerate(encoded) if column.covariate == owner[factor.column]]
        if isinstance(covariate, CategoricalCovariate):
            two = len(covariate.slots) == TWO and not study.indicated(factor.column)
            levels = places if two else places[1 : len(covariate.slots)]
            return [(encoded[place].name, TermPart(place, factor)) for place in levels]
        place = next(place for place in places if encoded[place].kind in number)
        declared = covariate if encoded[place].kind is ColumnKind.number else None
        return [(encoded[place].name, TermPart(place, factor, declared, basis)) for basis in range(factor.columns)]

    combinations = list(itertools.product(*map(parts, term.factors)))
    plain = all(factor.function is TermFunction.line for factor in term.factors)
    for number, made in enumerate(combinations, 1):
        name = (
            ":".join(label for label, _ in made)
            if plain
            else term.text + (f"[{number}]" if len(combinations) > 1 else "")
        )
        yield EncodedColumn(name, OF_NO_COVARIATE, ColumnKind.term, parts=tuple(part for _, part in made))


class LineArrays:
    """Lines made ready for blocks of rows: those of two knots together, the others one by one."""

    def __init__(self, lines: tuple[LineFeature, ...]) -> None:
        """Arrange knots and slopes of the lines."""
        self.lines = lines
        self.straight = np.array([len(line.at) == TWO and line.at[0] < line.at[1] for line in lines], dtype=np.bool_)
        ends = [(*line.at, *line.to) for line, straight in zip(lines, self.straight, strict=True) if straight]
        self.first, last, self.to, end = np.array(ends).reshape(-1, 4).T[:, :, None]
        self.slopes = (end - self.to) / (last - self.first)
        self.low, self.high = np.minimum(self.to, end), np.maximum(self.to, end)
        self.columns = np.array([line.column for line in lines], dtype=np.intp)[self.straight]
        self.by = [None if line.by is None else LineArrays((line.by,)) for line in lines]

    def of(self, z: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return f of rows whose columns are z, shape (lines, rows); ``out``: memory for it."""
        features = np.empty((len(self.lines), z.shape[1])) if out is None else out
        # As np.interp, to the bit, in half of its time.
        straight = z[self.columns]
        straight -= self.first
        straight *= self.slopes
        straight += self.to
        features[self.straight] = np.clip(straight, self.low, self.high, out=straight)
        for place, line in enumerate(self.lines):
            if not self.straight[place]:
                features[place] = np.interp(z[line.column], line.at, line.to)
            if line.missing is not None:
                features[place] *= 1 - z[line.missing]
            if (by := self.by[place]) is not None:
                features[place] *= by.of(z)[0]
                np.clip(features[place], -LINE_CUT, LINE_CUT, out=features[place])
        return features


# Lines are cut at FAR deviations before they are taken out of curves. Slopes of a curve that add up to less than
# EXACT_SLOPES then give sums below 2^17, whose steps of 2^-36 are exact in 53 bits in any order of addition.
FAR, EXACT_SLOPES = 512.0, 255.0


class CurveArrays:
    """Curves made ready for blocks of rows.

    They are arranged by their shape: products, steps, then bends.
    Lines are taken out by one product of matrices on the lattice. Where public slopes are so large that its sums could
    round, they are added one line after the other.

    Attributes:
        order: places of the arranged curves among those that were given.
    """

    def __init__(self, curves: tuple[Curve, ...]) -> None:
        """Arrange the curves by shape, in the order of the rows of their values."""
        shapes = [{Shape.step: 1, Shape.bend: 2}.get(curve.shape, 0) for curve in curves]
        self.order: IntArray = np.argsort(shapes, kind="stable")
        self.curves = tuple(curves[place] for place in self.order)
        self.products, self.steps = shapes.count(0), shapes.count(1)
        self.slopes = np.array([[curve.intercept, *curve.slopes] for curve in self.curves])
        self.over_size = 1 / np.array([[curve.size] for curve in self.curves])
        self.exact = bool((np.abs(self.slopes).sum(axis=1) < EXACT_SLOPES).all()) if curves else True
        self.first = np.array([curve.first for curve in self.curves], dtype=np.intp)
        self.second = np.array([curve.second for curve in self.curves], dtype=np.intp)
        self.at = np.array([[curve.at[0]] for curve in self.curves if curve.shape is Shape.step]).reshape(-1, 1)

    def of(self, f: FloatArray) -> FloatArray:
        """Return c of rows whose lines are f, shape (curves, rows)."""
        values = np.empty((len(self.curves), f.shape[1]))
        for first, c, _ in self.parts(f, self.memory()):
            values[self.order, first : first + PART] = c
        return values

    def memory(self) -> FloatArray:
        """Return memory for :meth:`parts`, shape (2, curves, PART)."""
        return np.empty((2, len(self.curves), PART))

    def parts(self, f: FloatArray, memory: FloatArray) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Yield c of some rows after the other, whose lines are f, in the order of the shapes.

        Args:
            f: shape (lines, rows).
            memory: of :meth:`memory`, to use again: to take it anew for each part costs more than some of the steps.

        Yields:
            The number of the first row, c of shape (curves, up to PART), and memory of that shape. Both may be
            overwritten.
        """
        if not self.curves:
            return
        products, steps = slice(self.products), slice(self.products, self.products + self.steps)
        near = np.ones((1 + len(f), f.shape[1]))
        np.clip(f, -FAR, FAR, out=near[1:])
        near *= 2.0**BITS
        np.rint(near, out=near)
        near *= 2.0**-BITS
        for begin in range(0, f.shape[1], PART):
            lines, of_rows = f[:, begin : begin + PART], near[:, begin : begin + PART]
            curves, other = memory[:, :, : lines.shape[1]]
            np.take(lines, self.first[products], axis=0, out=curves[products], mode="clip")
            np.take(lines, self.second[products], axis=0, out=other[products], mode="clip")
            np.greater(lines[self.first[steps]], self.at, out=curves[steps], casting="unsafe")
            for place in range(steps.stop, len(self.curves)):
                curve = self.curves[place]
                curves[place] = np.interp(lines[curve.first], curve.at, curve.to)
            curves *= self.over_size
            curves[products] *= other[products]
            if self.exact:
                np.matmul(self.slopes, of_rows, out=other)
            else:
                other[:] = times(self.slopes, of_rows)
            curves -= other
            np.clip(curves, -LINE_CUT, LINE_CUT, out=curves)
            yield begin, curves, other


def features_of(features: FeatureMap, z: FloatArray) -> FloatArray:
    """Return v/radius of rows whose columns are z, shape (1 + count, rows), on the lattice."""
    values, radius = uncut(features, z), features.lines_radius
    if radius is not None:
        values = cut_apart(values, features.radius, radius, len(features.lines))
    return in_ball(values, features.radius)


def uncut(features: FeatureMap, z: FloatArray) -> FloatArray:
    """Return (1, f, c) of rows whose columns are z before any cut, shape (1 + count, rows)."""
    values = np.empty((1 + features.count, z.shape[1]))
    values[0] = 1.0
    f = features.made_lines.of(z, values[1 : 1 + len(features.lines)])
    if features.curves:
        values[1 + len(f) :] = features.made.of(f)
    return values


def cut_apart(values: FloatArray, radius: float, lines_radius: float, lines: int) -> FloatArray:
    """Cut (1, f) to a length, and c to the rest of the radius; overwrites ``values``."""
    shortened(values[: 1 + lines], lines_radius)
    of_lines = np.add.reduce(values[: 1 + lines] * values[: 1 + lines], axis=0)
    shortened(values[1 + lines :], np.sqrt(np.maximum(radius**2 - of_lines, 0)))
    return values


def shortened(values: FloatArray, most: float | FloatArray) -> FloatArray:
    """Return columns of ``values`` that are no longer than ``most``; overwrites them."""
    length = np.sqrt(np.add.reduce(values * values, axis=0))
    values *= np.where(length > most, most / np.maximum(length, 1e-300), 1.0)
    return values


def lines_in_ball(alone: FeatureMap, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return lines f as they are and as moments in a ball have them, shape (lines, rows)."""
    values = uncut(alone, z)
    return values[1:].copy(), shortened(values, alone.radius)[1:]


def score_features(features: FeatureMap, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (f, c) as slopes see them and as weights do, shape (count, rows) each.

    Weights and curves are cut as :func:`features_of` cuts: they balance what their moments were of. Slopes go on along
    lines: what a cut takes off lines then counts only as far as both slopes and balance are off by it.
    """
    values, curves = uncut(features, z), slice(len(features.lines), None)
    slopes = values[1:].copy()
    weights = _cut(features, values)[1:]
    slopes[curves] = weights[curves]
    return slopes, weights


def _cut(features: FeatureMap, values: FloatArray) -> FloatArray:
    """Return v of (1, f, c), shape (1 + count, rows); overwrites ``values``."""
    if features.lines_radius is None:
        return shortened(values, features.radius)
    return cut_apart(values, features.radius, features.lines_radius, len(features.lines))


def in_map(features: FeatureMap, f: FloatArray) -> FloatArray:
    """Return v of rows with lines f, shape (rows, 1 + count)."""
    of_rows = np.ascontiguousarray(f.T)
    return _cut(features, np.concatenate([np.ones((1, len(f))), of_rows, features.made.of(of_rows)])).T


def in_ball(values: FloatArray, radius: float) -> FloatArray:
    """Return columns of ``values`` divided by the radius, cut to length 1.

    Entries are rounded towards 0 to multiples of 2^-BITS, and ``values`` is overwritten.
    """
    steps = in_steps(values, radius, np.empty_like(values))
    steps *= 2.0**-BITS
    return steps


def in_steps(values: FloatArray, radius: float, squares: FloatArray) -> FloatArray:
    """Return :func:`in_ball` in steps of the lattice; overwrites ``values`` and ``squares``."""
    length, step = np.sqrt(np.add.reduce(np.multiply(values, values, out=squares), axis=0)), 2.0**BITS
    values *= HAIR * step / np.maximum(length, radius)
    # A row of finite length has entries that are finite and no longer than it.
    scaled = values if np.isfinite(length).all() else bounded(values / step) * step
    np.trunc(scaled, out=scaled)
    return scaled


def times(vectors: FloatArray, values: FloatArray) -> FloatArray:
    """Return the product of vectors and values, shape (k, rows).

    Vectors have shape (k, features) and values (features, rows). One product after the other is added to whole rows of
    values, where BLAS would choose its order by their place.
    """
    products: FloatArray = np.einsum("kd,dn->kn", vectors, values)
    return products
