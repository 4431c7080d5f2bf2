"""Declared terms as features: functions of one row that release 1 scales, at no cost.

A term g(z) of one number becomes f = (g - intercept - slopes'b)/size, with b the number's line and its terms before it:
regressed on them in the number's released histogram, so that noise on the Gram matrix is not spent on what lines say.
A product is that of two standardised functions. What release 1 does not say, as how two covariates correlate, release 2
does: here it is doubt in mean and variance. Nothing but released and declared numbers is read, so that a term is a
function of one row, cut as lines are (``docs/proofs/regression.md``, section 6).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.columns import NumberScale, NumericCovariate
from causalveil.schemas.terms import LEAST_SPLINE, TermFactor, TermFunction
from causalveil.tasks.estimate.adjust.features import LINE_CUT, LineFeature
from causalveil.tasks.estimate.adjust.released import EDGES, EncodedColumn, TermPart
from causalveil.tasks.machine.arrays import FloatArray

# Places in each cell of a histogram, evenly: its mass is taken to lie so.
PER_CELL = 8
_PARTS = (np.arange(PER_CELL) + 0.5) / PER_CELL
PLACES: FloatArray = (EDGES[:-1, None] + np.diff(EDGES)[:, None] * _PARTS).ravel()
NODES: FloatArray = np.unique(np.concatenate([EDGES, PLACES]))
# Thresholds lie so far beside their value, beyond rounding of a row's entries and less than any number's own steps.
BESIDE = 1e-9
# Of its deviation a term keeps this part beside line and earlier terms, or it is collinear with them; one whose
# deviation is less than the second, in half ranges, is constant.
LEAST_OWN, LEAST_DEVIATION = 0.03, 1e-4
# Least share of units on either side of a threshold, as of a flag.
LEAST_SIDE = 0.002
# A correlation of which nothing is known: even on [-1, 1], whose deviation is 1/sqrt(3), and its square's mean.
UNKNOWN_CORRELATION, SQUARED_CORRELATION = 1 / math.sqrt(3), 1 / 3
# Harrell's quantiles of the outer knots: of three knots, of up to six, of seven.
OUTER = {3: 0.10, 7: 0.025}
USUAL_OUTER = 0.05


@dataclass(frozen=True)
class ColumnFacts:
    """Facts of a kept column by release 1.

    Attributes:
        line: its feature.
        shares: of a number's cells; None of an indicator.
        centre, deviation: of it.
        doubt: in its variance, relatively.
    """

    line: LineFeature
    shares: FloatArray | None
    centre: float
    deviation: float
    doubt: float


@dataclass(frozen=True)
class FoundTerms:
    """Declared terms as release 1 scales them.

    Attributes:
        places: of those that are features, among the public columns.
        lines: their features.
        centre_sd, ratio_sd: doubt in the mean, and in the variance, of which 1 is expected.
        left_out: places of those that are constant or collinear in release 1, or of a column that noise hides.
    """

    places: tuple[int, ...] = ()
    lines: tuple[LineFeature, ...] = ()
    centre_sd: tuple[float, ...] = ()
    ratio_sd: tuple[float, ...] = ()
    left_out: tuple[int, ...] = ()


def terms_of(columns: Sequence[EncodedColumn], places: Sequence[int], known: Mapping[int, ColumnFacts]) -> FoundTerms:
    """Return the features of declared terms.

    Args:
        columns: all public columns.
        places: of the terms among them.
        known: facts of each kept column by release 1, by its place.
    """
    terms: list[tuple[int, LineFeature, float, float]] = []
    before: dict[int, list[LineFeature]] = {}
    left_out: list[int] = []
    for place in places:
        parts = columns[place].parts
        facts = [known.get(part.column) for part in parts]
        line = None
        if None not in facts:
            of = [column_facts for column_facts in facts if column_facts is not None]
            if len(parts) == 1:
                line = _own(parts[0], of[0], before.setdefault(parts[0].column, []))
            else:
                line = _product(
                    [_standardised(part, column_facts) for part, column_facts in zip(parts, of, strict=True)]
                )
        if line is None:
            left_out.append(place)
            continue
        doubt = math.hypot(*(column_facts.doubt for column_facts in of))
        # The relative error of a square's variance is twice that of its number's.
        one_number = len(parts) == 1
        centre_sd = doubt if one_number else math.hypot(doubt, UNKNOWN_CORRELATION)
        ratio_sd = 2 * doubt if one_number else math.hypot(doubt, SQUARED_CORRELATION)
        terms.append((place, line, centre_sd, min(ratio_sd, 1.0)))
    return FoundTerms(
        places=tuple(term[0] for term in terms),
        lines=tuple(term[1] for term in terms),
        centre_sd=tuple(term[2] for term in terms),
        ratio_sd=tuple(term[3] for term in terms),
        left_out=tuple(left_out),
    )


def _own(part: TermPart, facts: ColumnFacts, before: list[LineFeature]) -> LineFeature | None:
    """Return the feature of a term of one number and add it to ``before``; or None."""
    if facts.shares is None or part.covariate is None:
        return None
    at, (seen, to) = _nodes(part), (_values(part, facts.shares, z) for z in (PLACES, _nodes(part)))
    weights = np.repeat(facts.shares / PER_CELL, PER_CELL)
    deviation = _deviation(seen, weights)
    if deviation < LEAST_DEVIATION or not _divides(part, seen, weights):
        return None
    beside = [facts.line, *before]
    basis, basis_at = (
        np.column_stack([np.ones(len(z)), *(np.interp(z, line.at, line.to) for line in beside)]) for z in (PLACES, at)
    )
    root = np.sqrt(weights)[:, None]
    slopes = np.linalg.lstsq(root * basis, root[:, 0] * seen, rcond=None)[0]
    size = _deviation(seen - basis @ slopes, weights)
    if size < LEAST_OWN * deviation:
        return None
    cut = np.clip((to - basis_at @ slopes) / size, -LINE_CUT, LINE_CUT)
    line = LineFeature(part.column, at, cut, facts.line.missing)
    before.append(line)
    return line


def _standardised(part: TermPart, facts: ColumnFacts) -> LineFeature | None:
    """Return a function of one column with mean 0 and deviation 1 in release 1.

    None where it is constant there.
    """
    if facts.shares is None or part.covariate is None:
        ends = np.array([0.0, 1.0])
        return LineFeature(part.column, ends, _cut((ends - facts.centre) / facts.deviation))
    at, weights = _nodes(part), np.repeat(facts.shares / PER_CELL, PER_CELL)
    seen = _values(part, facts.shares, PLACES)
    deviation = _deviation(seen, weights)
    if deviation < LEAST_DEVIATION or not _divides(part, seen, weights):
        return None
    to = _cut((_values(part, facts.shares, at) - float(weights @ seen)) / deviation)
    return LineFeature(part.column, at, to, facts.line.missing)


def _product(parts: Sequence[LineFeature | None]) -> LineFeature | None:
    first, second = parts
    if first is None or second is None:
        return None
    return LineFeature(first.column, first.at, first.to, first.missing, second)


def _cut(values: FloatArray) -> FloatArray:
    clipped: FloatArray = np.clip(values, -LINE_CUT, LINE_CUT)
    return clipped


def _deviation(values: FloatArray, weights: FloatArray) -> float:
    """Return the deviation between cells.

    The places of units within a cell are unknown, and two values fill two cells.
    """
    values, weights = values.reshape(-1, PER_CELL).mean(axis=1), weights.reshape(-1, PER_CELL).sum(axis=1)
    return math.sqrt(max(float(weights @ (values - float(weights @ values)) ** 2), 0.0))


def _divides(part: TermPart, seen: FloatArray, weights: FloatArray) -> bool:
    """Return whether a threshold has people on both sides; True of any other function."""
    share = float(weights @ seen)
    return part.factor.function is not TermFunction.above or LEAST_SIDE < share < 1 - LEAST_SIDE


def _nodes(part: TermPart) -> FloatArray:
    """Return the places between which a function is straight, ascending, within [-1, 1]."""
    if part.factor.function is not TermFunction.above or part.covariate is None:
        return NODES
    jump = _scaled(part.covariate, part.factor.knots)[0] + (-1 if part.factor.reached else 1) * BESIDE
    return np.union1d(NODES, np.clip([jump - BESIDE / 4, jump + BESIDE / 4], -1, 1))


def _values(part: TermPart, shares: FloatArray, z: FloatArray) -> FloatArray:
    """Return a function of a number at places z of its declared range, before it is centred."""
    factor, covariate = part.factor, part.covariate
    if covariate is None:
        return z
    values: FloatArray
    match factor.function:
        case TermFunction.power:
            values = z ** (factor.degree or 2)
        case TermFunction.log | TermFunction.sqrt:
            ends = covariate.on_scale
            raw = ends.middle + ends.width / 2 * z
            back = {NumberScale.log: np.exp, NumberScale.sqrt: np.square}.get(covariate.scale or NumberScale.linear)
            raw = np.clip(raw if back is None else back(raw), covariate.lower, covariate.upper)
            values = np.log(raw) if factor.function is TermFunction.log else np.sqrt(raw)
            values = values / (np.ptp(values) or 1.0)
        case TermFunction.above:
            jump = _scaled(covariate, factor.knots)[0] + (-1 if factor.reached else 1) * BESIDE
            values = (z > jump).astype(np.float64)
        case TermFunction.spline:
            values = natural_spline(z, spline_knots(factor, covariate, shares), part.basis)
        case _:
            values = z
    return values


def _scaled(covariate: NumericCovariate, values: Sequence[float]) -> FloatArray:
    """Return values of a number on the scale on which its declared range is [-1, 1]."""
    on = {NumberScale.log: np.log, NumberScale.sqrt: np.sqrt}.get(covariate.scale or NumberScale.linear, np.asarray)
    ends = covariate.on_scale
    scaled: FloatArray = (on(np.array(values, dtype=np.float64)) - ends.middle) / (ends.width / 2)
    return scaled


def spline_knots(factor: TermFactor, covariate: NumericCovariate, shares: FloatArray) -> FloatArray:
    """Return all knots of a spline.

    Stated ones lie between the ends of the declared range; others are Harrell's quantiles of the histogram.
    """
    if factor.knots:
        return np.concatenate([[-1.0], _scaled(covariate, factor.knots), [1.0]])
    many = (factor.degree or LEAST_SPLINE) + 1
    outer = OUTER.get(many, USUAL_OUTER)
    reached = np.concatenate([[0.0], np.cumsum(shares)])
    knots = np.interp(np.linspace(outer, 1 - outer, many), reached / reached[-1], EDGES)
    # Where most have one value knots may meet: each is moved beyond the one before by a place.
    for place in range(1, many):
        knots[place] = max(knots[place], knots[place - 1] + 1 / (2 * len(PLACES)))
    return np.asarray(knots, dtype=np.float64)


def natural_spline(z: FloatArray, knots: FloatArray, basis: int) -> FloatArray:
    """Return a column of a natural cubic spline beside constant and line, shape of ``z``.

    It is d_k - d_{K-1}, d_k = ((z - x_k)^3_+ - (z - x_K)^3_+)/(x_K - x_k), of knots x_1 to x_K and k = basis + 1
    (Hastie, Tibshirani and Friedman, The Elements of Statistical Learning, equations 5.4 and 5.5).
    """

    def over(knot: float) -> FloatArray:
        beyond = np.maximum(z - knot, 0) ** 3 - np.maximum(z - knots[-1], 0) ** 3
        ratio: FloatArray = beyond / (knots[-1] - knot)
        return ratio

    return over(float(knots[basis])) - over(float(knots[-2]))
