"""Candidate curves of lines, made in a synthetic table that releases 1 and 2 describe.

A candidate is regressed on lines in the synthetic rows and standardised there, so that a screen pays only for what
lines cannot say, and the candidates' correlations are known without a release.
"""

from __future__ import annotations

import itertools

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.regression.features import Curve, FeatureMap, Shape, curve_values, raw_values
from causalveil.tasks.regression.parts import MOST_CANDIDATES
from causalveil.tasks.regression.released import EDGES, ColumnKind, Public, RandomDraws
from causalveil.tasks.regression.scales import MIDDLE, FoundScales, normal_scores

# Rows of the synthetic table: a correlation is off by a fortieth.
ROWS = 1_500
# Quantiles at which steps are tried; of more numbers than the second, every other one.
STEPS, MANY = (1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6), 8
# Skewness from which the normal score of a number is a candidate beside its line, or its line beside the score.
BENT = 0.8
# A candidate varies by so much; at least so much of it is taken to be left beside lines. Ridge of that regression.
VARIES, LEAST_LEFT, RIDGE = 0.05, 0.25, 1e-3
# Candidates that correlate so much are the same.
SAME = 0.9


def synthetic(
    public: Public, scales: FoundScales, features: FeatureMap, gram: FloatArray, random: RandomDraws
) -> FloatArray:
    """Draw rows z of the released margins and a normal copula of the lines' covariances, shape (ROWS, columns)."""
    from scipy.special import ndtr

    size = np.sqrt(np.diagonal(gram))
    values, vectors = np.linalg.eigh(gram / np.outer(size, size))
    root = vectors * np.sqrt(np.maximum(values, 0))
    level = ndtr(random.standard_normal((ROWS, len(size))) @ root.T)
    z = np.zeros((ROWS, len(public.columns)))
    for place, line in enumerate(features.lines):
        one = scales.margins[place]
        if one is None:
            z[:, line.column] = level[:, place] > 1 - scales.centre[place]
        else:
            z[:, line.column] = np.interp(level[:, place], np.concatenate([[0], np.cumsum(one.shares)]), EDGES)
    return z


def library(public: Public, scales: FoundScales, features: FeatureMap, f: FloatArray) -> list[Curve]:
    """Return the candidates: of each number its square, a bend and steps; products of numbers and of flags."""
    kinds = [public.columns[line.column].kind for line in features.lines]
    numbers = [place for place, kind in enumerate(kinds) if kind is ColumnKind.number]
    none, nothing = np.zeros(0), np.zeros(len(kinds))

    def curve(shape: Shape, one: int, other: int, at: FloatArray = none, to: FloatArray = none) -> Curve:
        return Curve(shape, one, other, at, to, 0.0, nothing, 1.0)

    found = []
    for place in numbers:
        found.append(curve(Shape.square, place, place))
        steps = np.quantile(f[:, place], STEPS if len(numbers) <= MANY else STEPS[1::2])
        found += [curve(Shape.step, place, place, np.array([step])) for step in np.unique(steps)]
        margin, line = scales.margins[place], features.lines[place]
        if margin is not None and abs(margin.skewness()) > BENT:
            at = np.interp(MIDDLE, line.at, line.to)
            scored = line.at is MIDDLE
            to = (MIDDLE - margin.mean) / margin.deviation if scored else normal_scores(margin.shares)
            found.append(curve(Shape.bend, place, place, at, to))
    single = numbers + [place for place, kind in enumerate(kinds) if kind is ColumnKind.flag]
    pairs = itertools.combinations(single, 2)
    found += [curve(Shape.product, i, j) for i, j in itertools.islice(pairs, max(0, MOST_CANDIDATES - len(found)))]
    return found[:MOST_CANDIDATES]


def beside_lines(found: list[Curve], f: FloatArray) -> tuple[tuple[Curve, ...], FloatArray]:
    """Take lines out of candidates in synthetic rows f; return those that vary and differ, and their correlations."""
    raw = np.column_stack([np.zeros((len(f), 0)), *(raw_values(one, f) for one in found)])
    sure = np.flatnonzero(raw.std(axis=0) > VARIES)
    raw, lines = raw[:, sure], np.column_stack([np.ones(len(f)), f])
    ridge = RIDGE * len(f) * np.eye(lines.shape[1])
    slopes = np.linalg.solve(lines.T @ lines + ridge, lines.T @ raw)
    size = np.maximum((raw - lines @ slopes).std(axis=0), LEAST_LEFT * raw.std(axis=0))
    curves = tuple(
        Curve(one.shape, one.first, one.second, one.at, one.to, float(line[0]), line[1:], float(wide))
        for one, line, wide in zip([found[place] for place in sure], slopes.T, size, strict=True)
    )
    correlation = np.corrcoef(curve_values(curves, f).T).reshape(len(curves), len(curves))
    # One of several that are nearly the same: each would be paid and allowed for.
    own: list[int] = []
    for place in range(len(curves)):
        if not own or np.abs(correlation[place, own]).max() < SAME:
            own.append(place)
    return tuple(curves[place] for place in own), correlation[np.ix_(own, own)]
