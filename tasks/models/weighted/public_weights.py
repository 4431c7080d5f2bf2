"""What a difference of weighted arm means may say of weights that are functions of public columns.

At label level covariates and treatments are public, so every unit's weight is, and

    tau = sum over the treated of w_i y_i - sum over the controls of w_i y_i,   the weights of either arm add up to 1.

Weights are kept as whole numbers W_i with the totals T of their arms, w_i = W_i/T, so that everything is exact. No
outcome is read here. Derivations: ``docs/proofs/balancing.md``, section 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from causalveil.schemas.errors import DataError
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray
from causalveil.tasks.models.pairs import PairArray, variance_pairs

# Weights of a mean of this size are told apart to one part in RESOLUTION; fewer where their sum would not fit.
RESOLUTION = 2**12
LARGEST_TOTAL = 2**40


@dataclass(frozen=True)
class PublicWeights:
    """A weighting in numbers; pairs are treated first.

    Attributes:
        arms: units of each arm.
        queries: m, units over whom the effect is averaged.
        totals: T, the sum of W in each arm.
        largest: the largest W in each arm.
        squares: the sum of W^2 in each arm.
        pairs: pairs of near units within the treated, within the controls, and across (``variance_pairs``); none
            across where those within are of units at random.
    """

    arms: tuple[int, int]
    queries: int
    totals: tuple[int, int]
    largest: tuple[int, int]
    squares: tuple[int, int]
    pairs: tuple[int, int, int]

    @property
    def largest_weight(self) -> Fraction:
        """max_i w_i."""
        return max(Fraction(most, total) for most, total in zip(self.largest, self.totals, strict=True))

    @property
    def weight_squares(self) -> tuple[Fraction, Fraction]:
        """Sum of w_i^2 over the treated and over the controls."""
        treated, control = (Fraction(own, total**2) for own, total in zip(self.squares, self.totals, strict=True))
        return treated, control

    @property
    def variance_weights(self) -> tuple[Fraction, Fraction]:
        """Weight of the variance within either arm beside that of the twins."""
        twins = Fraction(1, self.queries) if self.pairs[2] else Fraction(0)
        treated, control = self.weight_squares
        return treated - twins, control - twins

    @property
    def measurable(self) -> bool:
        """True if there are pairs within both arms, so that a sampling variance can be measured."""
        return min(self.pairs[:2]) > 0

    @property
    def effective(self) -> tuple[float, float]:
        """Effective number of units of each arm (Kish): (sum of w)^2 over the sum of w^2."""
        treated, control = (float(1 / square) for square in self.weight_squares)
        return treated, control


@dataclass(frozen=True)
class WeightedUnits:
    """A weighting as the outcome's sums need it: W, shape (n,), and pairs of positions, each shape (pairs, 2)."""

    summary: PublicWeights
    weights: IntArray
    pairs: tuple[PairArray, PairArray, PairArray]


def check_arms(treated: int, controls: int) -> None:
    """Refuse a table that lacks an arm: a public fact where treatments are.

    Raises:
        DataError: it does.
    """
    if min(treated, controls) < 1:
        empty = "treated" if treated < 1 else "control"
        raise DataError(f"there is no {empty} unit, so there is nothing to compare; nothing was drawn")


def weigh_units(v: FloatArray, in_treated: ByteArray, queries: int, scores: FloatArray | None = None) -> WeightedUnits:
    """Round weights to whole numbers and pair near units.

    Args:
        v: weights, shape (n,), >= 0, of mean about 1 within each arm.
        in_treated: shape (n,), 1 for the treated.
        queries: m.
        scores: shape (n,), by which units are near each other; None: units stand in an order that says nothing, pairs
            are of units at random, and none are across.

    Raises:
        DataError: an arm has no unit.
    """
    treated = int(np.count_nonzero(in_treated))
    arms = treated, len(in_treated) - treated
    check_arms(*arms)
    resolution = min(RESOLUTION, LARGEST_TOTAL // len(v))
    weights: IntArray = np.rint(v * resolution).astype(np.int64)
    totals, largest, squares = [], [], []
    for arm in (1, 0):
        own = weights[in_treated == arm]
        totals.append(int(own.sum()))
        largest.append(int(own.max()))
        # Beyond 2^53 a sum of floats would do as well, but Python's whole numbers are exact.
        values, counts = np.unique(own, return_counts=True)
        squares.append(sum(int(value) ** 2 * int(count) for value, count in zip(values, counts, strict=True)))
    used = weights > 0
    pairs = _random_pairs(used, in_treated) if scores is None else variance_pairs(scores, in_treated, used)
    summary = PublicWeights(
        arms=arms,
        queries=queries,
        totals=(totals[0], totals[1]),
        largest=(largest[0], largest[1]),
        squares=(squares[0], squares[1]),
        pairs=(len(pairs[0]), len(pairs[1]), len(pairs[2])),
    )
    return WeightedUnits(summary, weights, pairs)


def _random_pairs(used: np.ndarray, in_treated: ByteArray) -> tuple[PairArray, PairArray, PairArray]:
    """Neighbours within each arm in the order in which units stand: that of their keyed hashes."""
    none = np.empty((0, 2), dtype=np.int32)
    within = []
    for arm in (1, 0):
        members = np.flatnonzero(used & (in_treated == arm)).astype(np.int32)
        within.append(members[: len(members) // 2 * 2].reshape(-1, 2))
    return within[0], within[1], none
