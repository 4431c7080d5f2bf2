"""Compute a difference of weighted arm means under public weights, and its variance.

The two numbers are released; read back they are an estimate. At label level covariates and treatments are public, so
every unit's weight is, and

    tau = sum over the treated of w_i y_i - sum over the controls of w_i y_i,   the weights of either arm add up to 1.

Weights are kept as whole numbers W_i with the totals T of their arms, w_i = W_i/T, so that everything is exact. The
sensitivity is known only once units are weighed, so estimate and sampling variance are each divided by their own before
noise is added: the declared sensitivity is 1, whatever the weights; plan, ledger and release agree exactly.
Proofs: ``docs/proofs/balancing.md``, sections 1 to 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from causalveil.schemas.errors import DataError
from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.tasks.estimate.interval import effect_in_twins
from causalveil.tasks.estimate.models.nearest import (
    ROUNDING,
    PairArray,
    arm_sums,
    squared_differences,
    sums_exponent,
    variance_pairs,
)
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, Int32Array, IntArray
from causalveil.tasks.privacy.mechanisms import Laplace, Mechanism, Sensitivity, Slot, vector_mechanism

Details = dict[str, float | int | str | bool]
SLOT = Slot(name="effect", scope=Scope.all)
# Weights of mean 1 are rounded to multiples of 1/RESOLUTION; more coarsely where their sum would exceed LARGEST_TOTAL.
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
        pairs: numbers of pairs of near units within the treated, within the controls, and across arms
            (``variance_pairs``); none across where pairs within arms are random.
        share: the part of the draw that measures the variance, where a study declares it; None: see :func:`shares`.
    """

    arms: tuple[int, int]
    queries: int
    totals: tuple[int, int]
    largest: tuple[int, int]
    squares: tuple[int, int]
    pairs: tuple[int, int, int]
    share: Fraction | None = None

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

    @property
    def least_effective(self) -> float:
        """The smaller share of an arm's units that the weights leave effective."""
        return min(1.0, *(own / units for own, units in zip(self.effective, self.arms, strict=True)))

    def details(self, width: float) -> Details:
        """Return details of a release, for an outcome whose declared range has this width."""
        largest, (treated, control) = float(self.largest_weight), self.effective
        return {
            "sensitivity_of_estimate": largest * width,
            "largest_weight": largest,
            "effective_treated": treated,
            "effective_control": control,
        }

    @property
    def twins(self) -> float:
        """Factor of the squared effect in the measured variance."""
        return 1 / self.queries if self.pairs[2] else 0.0

    @property
    def largest_variance(self) -> float:
        """Upper bound on the sampling variance of any population with outcomes in [-1, 1].

        Derivation: ``docs/proofs/matching.md``, section 4.
        """
        treated, control = (float(square) for square in self.weight_squares)
        # Where the average is over all units, the weights of both arms bound the variance of effects too.
        whole = self.queries == sum(self.arms)
        return treated + control + (0 if whole else 4 / self.queries)


@dataclass(frozen=True)
class WeightedUnits:
    """A weighting in units: W, shape (n,), and pairs of positions, each shape (pairs, 2)."""

    summary: PublicWeights
    weights: IntArray | Int32Array
    pairs: tuple[PairArray, PairArray, PairArray]

    @classmethod
    def of(
        cls,
        weights: IntArray | Int32Array,
        in_treated: ByteArray,
        queries: int,
        pairs: tuple[PairArray, PairArray, PairArray],
        share: Fraction | None = None,
    ) -> WeightedUnits:
        """Return whole weights, shape (n,), with their summary."""
        totals, largest, squares = [], [], []
        for arm in (1, 0):
            arm_weights = weights[in_treated == arm]
            totals.append(int(arm_weights.sum()))
            largest.append(int(arm_weights.max(initial=0)))
            # Python's whole numbers are exact beyond 2^53 too.
            values, counts = np.unique(arm_weights, return_counts=True)
            squares.append(sum(int(value) ** 2 * int(count) for value, count in zip(values, counts, strict=True)))
        treated = int(np.count_nonzero(in_treated))
        summary = PublicWeights(
            arms=(treated, len(in_treated) - treated),
            queries=queries,
            totals=(totals[0], totals[1]),
            largest=(largest[0], largest[1]),
            squares=(squares[0], squares[1]),
            pairs=(len(pairs[0]), len(pairs[1]), len(pairs[2])),
            share=share,
        )
        return cls(summary, weights, pairs)

    def in_rows(self, order: IntArray) -> WeightedUnits:
        """Return the weighting in the order of rows; ``order``: the row of each unit, shape (n,)."""
        weights = np.empty_like(self.weights)
        weights[order] = self.weights
        first, second, across = (order[pairs].astype(np.int32) for pairs in self.pairs)
        return WeightedUnits(self.summary, weights, (first, second, across))


def count_arms(in_treated: ByteArray) -> tuple[int, int]:
    """Count controls and treated units, in the order of the arms' numbers.

    Raises:
        DataError: an arm has no unit.
    """
    treated = int(np.count_nonzero(in_treated))
    controls = len(in_treated) - treated
    refuse_empty(treated, controls)
    return controls, treated


def refuse_empty(treated: int, controls: int) -> None:
    """Refuse an arm without units, a public fact where treatments are public.

    Raises:
        DataError: an arm has no unit.
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
        scores: shape (n,), by which units are near each other; None: units are in random order, pairs within arms are
            of neighbours in it, and none are across arms.

    Raises:
        DataError: an arm has no unit.
    """
    count_arms(in_treated)
    resolution = min(RESOLUTION, LARGEST_TOTAL // len(v))
    weights: IntArray = np.rint(v * resolution).astype(np.int64)
    used = weights > 0
    pairs = _random_pairs(used, in_treated) if scores is None else variance_pairs(scores, in_treated, used)
    return WeightedUnits.of(weights, in_treated, queries, pairs)


def _random_pairs(used: np.ndarray, in_treated: ByteArray) -> tuple[PairArray, PairArray, PairArray]:
    """Return pairs of neighbours within each arm in the order of units, that of keyed hashes."""
    none = np.empty((0, 2), dtype=np.int32)
    within = []
    for arm in (1, 0):
        members = np.flatnonzero(used & (in_treated == arm)).astype(np.int32)
        within.append(members[: len(members) // 2 * 2].reshape(-1, 2))
    return within[0], within[1], none


# Candidate parts of the draw that measure the sampling variance; the rest measures the estimate.
SHARES = tuple(Fraction(part, 200) for part in (4, 6, 8, 10, 14, 20, 30))
# Deviations of the variance's noise by which it widens an interval's square, about.
REACH = 1.0


def mechanism(cost: PrivacyCost) -> Mechanism:
    """Return Laplace noise on two numbers; Gaussian if there is a delta to spend."""
    if cost.delta > 0:
        return vector_mechanism(
            Sensitivity(1 + ROUNDING, Norm.l2, "1: a^2 + b^2 = 1 in units of max_i w_i B and of the variance's"), cost
        )
    return Laplace(
        Sensitivity(1 + ROUNDING, Norm.l1, "1: a + b = 1 in units of max_i w_i B and of the variance's"), cost
    )


def variance_unit(weights: PublicWeights) -> Fraction:
    """Bound the change of the sum of squares by one outcome in [-1, 1] (section 3)."""
    treated, control, across = weights.pairs
    within = (
        2 * abs(weight) / pairs for weight, pairs in zip(weights.variance_weights, (treated, control), strict=True)
    )
    return max(within) + (Fraction(4, weights.queries * across) if across else 0)


def shares(weights: PublicWeights, cost: PrivacyCost, times_noise: float = 1.0) -> tuple[Fraction, Fraction]:
    """Return factors of the estimate and of its variance in the draw, from public weights alone.

    The factors minimise the sum of the estimate's noise variance and of the addition to an interval's square by noise
    in the variance. With Laplace noise they add up to 1, with Gaussian noise their squares do, up to rounding towards
    0. ``times_noise``: factor of the noise over that of a draw of these two numbers alone.
    """
    if not weights.measurable:
        return Fraction(1), Fraction(0)
    if weights.share is not None:
        return 1 - weights.share, weights.share
    scale = mechanism(cost).known_scale * times_noise
    noise, unit = float(weights.largest_weight), float(variance_unit(weights))

    def cost_of(share: Fraction) -> float:
        rest = float(_rest(share, cost))
        return 2 * (2 * noise * scale / rest) ** 2 + REACH * math.sqrt(2) * unit * scale / float(share)

    best = min(SHARES, key=cost_of)
    return _rest(best, cost), best


def _rest(share: Fraction, cost: PrivacyCost) -> Fraction:
    """Return the estimate's factor, given that of its variance."""
    if cost.delta == 0:
        return 1 - share
    return Fraction(math.isqrt(int((1 - share**2) * 2**60)), 2**30)


def sums(units: WeightedUnits, in_treated: ByteArray, outcome: FloatArray, cost: PrivacyCost) -> FloatArray:
    """Return the two numbers to be released, shape (2,); arguments as of :func:`exact_sums`."""
    first, second = exact_sums(units, in_treated, outcome, cost)
    return np.array([float(first), float(second)])


def exact_sums(
    units: WeightedUnits, in_treated: ByteArray, outcome: FloatArray, cost: PrivacyCost, times_noise: float = 1.0
) -> tuple[Fraction, Fraction]:
    """Return the two numbers before rounding.

    One outcome moves them by at most 1 in the mechanism's norm. Outcomes are rounded to a public lattice first;
    everything after is exact, up to the last rounding.

    Args:
        units: the weighting.
        in_treated: shape (n,), 1 for units of the treated arm, 0 for controls.
        outcome: u, shape (n,), in [-1, 1].
        cost: of the draw.
        times_noise: as in :func:`shares`.
    """
    weights = units.summary
    exponent = sums_exponent(2 * max(weights.totals), 1)
    per_arm = arm_sums(units.weights, in_treated, outcome, exponent)
    means = [Fraction(arm_sum, total << exponent) for arm_sum, total in zip(per_arm, weights.totals, strict=True)]
    first, second = shares(weights, cost, times_noise)
    estimate = (means[0] - means[1]) / (2 * weights.largest_weight)
    variance = _sum_of_squares(units, outcome) / variance_unit(weights) if weights.measurable else Fraction(0)
    return first * estimate, second * variance


def _sum_of_squares(units: WeightedUnits, outcome: FloatArray) -> Fraction:
    """Return the exact sum of squares that measures the variance.

    1/(m L) sum over twins of (u - u')^2 + sum over arms of (A - 1/m)/P sum over pairs of (u - u')^2/2.
    """
    weights = units.summary
    exponent = sums_exponent(len(outcome), 2)
    *within, across = (squared_differences(pairs, outcome, exponent) for pairs in units.pairs)
    total = across / (weights.queries * weights.pairs[2]) if weights.pairs[2] else Fraction(0)
    for weight, pairs, squares in zip(weights.variance_weights, weights.pairs, within, strict=False):
        total += weight / pairs * squares / 2
    return total


@dataclass(frozen=True)
class NoisyDifference:
    """A difference of weighted means and its variance, read off two released numbers.

    Attributes:
        value: the difference of weighted means, of outcomes in [-1, 1].
        variance: its sampling variance; the largest of any population where none was measured.
        noise, variance_noise: change of either by one unit of noise.
    """

    value: float
    variance: float
    noise: float
    variance_noise: float

    @classmethod
    def of(
        cls, weights: PublicWeights, cost: PrivacyCost, numbers: Sequence[float], bias: float, times_noise: float = 1.0
    ) -> NoisyDifference:
        """Read the two numbers.

        Args:
            weights: the weighting.
            cost: of the draw.
            numbers: as released.
            bias: bound on the estimate's bias, in standard errors of sampling.
            times_noise: as in :func:`shares`.
        """
        first, second = (float(share) for share in shares(weights, cost, times_noise))
        noise = 2 * float(weights.largest_weight) / first
        value = noise * numbers[0]
        if not weights.measurable:
            return cls(value, weights.largest_variance, noise, 0.0)
        unit = float(variance_unit(weights)) / second
        variance = unit * numbers[1]
        # The twins' differences contain the effect itself; its square is subtracted by the estimate.
        variance -= weights.twins * effect_in_twins(value, bias, variance)
        return cls(value, variance, noise, unit)
