"""Pairs of near units, which measure a sampling variance, and exact sums of outcomes over arms and over pairs.

Matching and estimators with public weights take the variance of what they release from differences of outcomes within
such pairs. Derivations: ``docs/proofs/matching.md``, sections 1 to 4.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.study import Estimand
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.unit_hash import ascending
from causalveil.tasks.machine.arrays import BoolArray, ByteArray, FloatArray, Int32Array, IntArray
from causalveil.tasks.models.bounded import bounded
from causalveil.tasks.models.nearest import Arm, match_capped

# Sums are exact rationals of size below 2^32, rounded to floats once: two roundings of two numbers.
ROUNDING = 2.0**-20
CHUNK = 1 << 20
LARGEST_EXPONENT = 30
PairArray = NDArray[np.int32]
NEAREST = 2, 3


def traversal(enclave: Enclave) -> IntArray:
    """The permutation that puts the units of all segments, one after the other, into the order of traversal."""
    # One segment's rows ascend by hash already.
    return np.arange(len(enclave.load("h", 0))) if enclave.segments == 1 else ascending(enclave.gather("h"))


def variance_pairs(
    scores: FloatArray, in_treated: ByteArray, used: BoolArray
) -> tuple[PairArray, PairArray, PairArray]:
    """Pairs of units near each other in score, no unit twice in one of the three lists.

    Within the treated and within the controls: neighbours in score. Across (a treated unit first): every unit of the
    smaller arm with its nearest unit of the larger one that is still free, the nearest two thirds of these pairs: where
    one arm is scarce what is left over is far apart, and would make the variance larger than it is.

    Args:
        scores: shape (n,), in the order of traversal.
        in_treated: shape (n,), 1 for units of the treated arm, 0 for controls.
        used: shape (n,), the units that weigh anything.
    """
    within = []
    for arm in (1, 0):
        ranked = Arm.of(scores, used & (in_treated == arm)).ranked
        within.append(ranked[: len(ranked) // 2 * 2].reshape(-1, 2))
    members = np.flatnonzero(used).astype(np.int32)
    sides = in_treated[members]
    treated_search = 2 * np.count_nonzero(sides) <= len(sides)
    one_each = match_capped(
        scores[members], sides, 1, (1, 1), Estimand.ATT if treated_search else Estimand.ATC, keep=True
    )
    twins = one_each.neighbours
    if twins is None:
        raise ValueError("neighbours were asked for")
    searching = np.flatnonzero(one_each.matched)
    columns = [members[searching], members[twins[searching, 0]]]
    across = np.column_stack(columns if treated_search else columns[::-1])
    distances = np.abs(scores[across[:, 0]] - scores[across[:, 1]])
    nearest = np.argsort(distances, kind="stable")[: -(-len(across) * NEAREST[0] // NEAREST[1])]
    return within[0], within[1], across[nearest]


def sums_exponent(count: int, power: int) -> int:
    """G of the lattice 2^-G on which ``count`` numbers of size 2^(power G + power) add up in 64 bits."""
    room = 62 - power - math.ceil(math.log2(max(count, 1)))
    return min(LARGEST_EXPONENT, room // power)


def _whole(outcome: FloatArray, exponent: int) -> IntArray:
    return np.rint(bounded(outcome) * 2.0**exponent).astype(np.int64)


def arm_sums(
    weights: IntArray | Int32Array, in_treated: ByteArray, outcome: FloatArray, exponent: int
) -> tuple[int, int]:
    """Sums of W_i u_i 2^G over the treated and over the controls, exact, for whole weights W of shape (n,)."""
    treated = controls = 0
    for first in range(0, len(in_treated), CHUNK):
        part = slice(first, first + CHUNK)
        products = _whole(outcome[part], exponent) * weights[part]
        in_arm = int(products[in_treated[part] != 0].sum())
        treated, controls = treated + in_arm, controls + int(products.sum()) - in_arm
    return treated, controls


def squared_differences(pairs: PairArray, outcome: FloatArray, exponent: int) -> Fraction:
    """Sum of squared differences of outcomes over pairs, exact on the lattice."""
    total = 0
    for first in range(0, len(pairs), CHUNK):
        one, other = pairs[first : first + CHUNK].T
        total += int(np.square(_whole(outcome[one], exponent) - _whole(outcome[other], exponent)).sum())
    return Fraction(total, 1 << (2 * exponent))
