"""Numbers whose declared ranges are so narrow that many people lie at one of their ends: slopes see less of them.

Second moments do not tell, for rows at the ends of all ranges are cut in length, and so are many others. So the slopes'
release holds 1 - z^2 of each number besides, z in [-1, 1] its place within its declared range. Derivations:
``docs/proofs/aipw.md``, sections 2 and 11.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from causalveil.tasks.aipw.recipe import INSIDE_WEIGHT, Recipe
from causalveil.tasks.covariates.narrow_ranges import FIT, NarrowRanges, Ranged
from causalveil.tasks.machine.arrays import FloatArray

# So many deviations of the noise are in favour of numbers that are not cut, while some people are within their range.
NOISE_DEVIATIONS = 1.0
LEAST_SQUARE = 1e-12


class Narrow(NamedTuple):
    """What ranges that are too narrow hide.

    Attributes:
        numbers: which those are.
        unseen: of all columns, what is left of their confounding over what they show, shape (d - 1,).
    """

    numbers: NarrowRanges
    unseen: FloatArray


def inside(x: FloatArray, recipe: Recipe) -> FloatArray:
    """1 - z^2 of each number with a range, of rows x with their intercept, shape (rows, k); in [0, 1]."""
    squares = (x[:, recipe.ranges.places] / x[:, -1:]) ** 2
    left: FloatArray = 1 - np.minimum(squares, 1.0)
    return left


def inside_weight(recipe: Recipe) -> float:
    """What these are weighted by in the release: the weighted vector of a row is at most INSIDE_WEIGHT long."""
    return INSIDE_WEIGHT / math.sqrt(max(len(recipe.ranges.places), 1))


def narrow(
    released: FloatArray,
    noise: float,
    units: int,
    recipe: Recipe,
    centre: FloatArray,
    squares: FloatArray,
    apart: FloatArray,
    share: float,
) -> Narrow:
    """What ranges hide.

    Cutting rows in length takes as much off a column's mean as off the root of its mean square, about, so that their
    ratio is that of z. Without delta, where nothing is released of what lies within ranges, the square of a single
    number tells it, over the largest that is possible: rows of nothing else are cut to the ends of its range or before.

    Args:
        released: sums of :func:`inside`, weighted, and noise, shape (k,); empty without second moments.
        noise: deviation of the noise on every released number.
        units: in training.
        recipe: of the study.
        centre: means of x, shape (d - 1,).
        squares: mean squares of x, shape (d - 1,); their sum alone without second moments.
        apart: means of x among treated less among controls, shape (d - 1,).
        share: of the treated.
    """
    places, hidden = list(recipe.ranges.places), np.zeros(len(centre))
    if recipe.gram:
        part = inside_weight(recipe)
        square = 1 - np.clip(released / part / units, 0.0, 1.0)
    elif len(centre) == 1:
        # An entry is at most 1/sqrt(2) before rows are cut and stretched.
        part = min(1.0, 0.5 / recipe.radius**2)
        square = np.clip(squares[places] / part, 0.0, 1.0)
    else:
        return Narrow(FIT, hidden)
    ratio = centre[places] ** 2 / np.maximum(squares[places], np.maximum(centre[places] ** 2, LEAST_SQUARE))
    numbers = Ranged(
        recipe.ranges,
        mean=np.sign(centre[places]) * np.sqrt(square * ratio),
        variance=square * (1 - ratio),
        span=1.0,
        doubt=NOISE_DEVIATIONS * noise / part / units,
    )
    # In units of the declared range, of whose numbers x is a multiple that depends on the row.
    deviation = np.sqrt(np.maximum(squares[places] * (1 - ratio), LEAST_SQUARE))
    hidden[places] = numbers.left(apart[places] / deviation * np.sqrt(numbers.variance), share)
    return Narrow(NarrowRanges.of(numbers), hidden)
