"""Columns of two values of which hardly anybody has the rarer one, as the level for values that nobody declared.

Release 1 tells how many have it at most. Left out they can confound no more than so few people do, while moments of a
column that does not vary hold nothing but noise. Post-processing of release 1 (``docs/proofs/regression.md``,
section 7).
"""

from __future__ import annotations

import math

import numpy as np

from causalveil.tasks.covariates.columns import Columns
from causalveil.tasks.machine.arrays import FloatArray

# Shares are taken to be larger than released by so many deviations of their noise.
DEVIATIONS = 2.0
# A share is told from 0 by so many.
TOLD = 3.0
# Those who have the rarer value are taken to lie so far out along the index that confounds, in outcome and in odds of
# treatment together.
FARTHEST = 4.0
# No columns are left out that more than the first share of the units may have, and no level, flag or indicator that
# somebody declared if more than the second may.
MOST, MOST_OF_DECLARED = 0.1, 0.01


def rarer_shares(centre: FloatArray, errors: FloatArray, columns: Columns) -> tuple[FloatArray, FloatArray]:
    """Of each column of two values the share of units that have the rarer one, and the error of it.

    Both have the shape (kept columns,); of other columns they are 1 and 0.

    Args:
        centre: released mean of each kept column.
        errors: standard deviation of the noise in it.
        columns: whose they are.
    """
    low, wide = np.zeros(len(columns.kept)), np.full(len(columns.kept), columns.span)
    # A flag is -c or c, a level 0 or c.
    flags = list(columns.numbers)
    low[flags], wide[flags] = -columns.span, 2 * columns.span
    shares = (centre - low) / wide
    found = np.clip(np.minimum(shares, 1 - shares), 0.0, 1.0), errors / wide
    for numbers, value in zip(found, (1.0, 0.0), strict=True):
        numbers[list(columns.curved)] = value
    return found


def most_have(shares: FloatArray, errors: FloatArray) -> float:
    """At most so many units have one of these values, as a share of all."""
    return float(shares.sum()) + DEVIATIONS * math.sqrt(float(np.sum(errors**2)))


def mostly_undeclared(centre: FloatArray, errors: FloatArray, columns: Columns) -> tuple[int, ...]:
    """Places of the levels for values that nobody declared which most have. Arguments as of :func:`rarer_shares`."""
    places = np.array(columns.undeclared, dtype=np.int64)
    most = centre[places] - TOLD * errors[places] > columns.span / 2
    return tuple(places[most].tolist())


def rare_places(centre: FloatArray, errors: FloatArray, columns: Columns) -> tuple[tuple[int, ...], float]:
    """Places of the columns whose rarer value is not told from one that nobody has, and how many have it at most.

    None where they are all columns, or where more than MOST may have it. A declared level or
    indicator is one that somebody expects to be had. Arguments as of :func:`rarer_shares`.
    """
    shares, noise = rarer_shares(centre, errors, columns)
    unexpected = np.isin(np.arange(len(shares)), columns.undeclared)
    hardly = (shares <= TOLD * noise) & (unexpected | (shares + DEVIATIONS * noise <= MOST_OF_DECLARED))
    most = most_have(shares[hardly], noise[hardly])
    if hardly.all() or most > MOST:
        return (), 0.0
    return tuple(np.flatnonzero(hardly).tolist()), most
