"""The one draw of noise on outcomes under public weights: an estimate and its sampling variance, each of sensitivity 1.

What one outcome can move is known only once units are weighed. So each sum is divided by that before noise is added:
the declared sensitivity is 1, whatever the weights; plan, ledger and release agree exactly. Proofs:
``docs/proofs/balancing.md``, sections 2 and 3.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from causalveil.schemas.privacy import Norm, PrivacyCost
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.models.pairs import ROUNDING, arm_sums, squared_differences, sums_exponent
from causalveil.tasks.models.weighted.public_weights import PublicWeights, WeightedUnits
from causalveil.tasks.privacy.mechanisms import Laplace, Mechanism, Sensitivity, vector_mechanism

# Parts of the draw that may measure the sampling variance; of the rest is the estimate.
SHARES = tuple(Fraction(part, 200) for part in (4, 6, 8, 10, 14, 20, 30))
# Deviations of the variance's noise by which it widens an interval's square, about.
REACH = 1.0


def mechanism(cost: PrivacyCost) -> Mechanism:
    """Laplace noise on two numbers; Gaussian if there is a delta to spend."""
    if cost.delta > 0:
        return vector_mechanism(
            Sensitivity(1 + ROUNDING, Norm.l2, "1: a^2 + b^2 = 1 in units of max_i w_i B and of the variance's"), cost
        )
    return Laplace(
        Sensitivity(1 + ROUNDING, Norm.l1, "1: a + b = 1 in units of max_i w_i B and of the variance's"), cost
    )


def variance_unit(weights: PublicWeights) -> Fraction:
    """Bound how far one outcome in [-1, 1] moves the sum of squares of :func:`sums` (section 3)."""
    treated, control, across = weights.pairs
    within = (
        2 * abs(weight) / pairs for weight, pairs in zip(weights.variance_weights, (treated, control), strict=True)
    )
    return max(within) + (Fraction(4, weights.queries * across) if across else 0)


def shares(weights: PublicWeights, cost: PrivacyCost, louder: float = 1.0) -> tuple[Fraction, Fraction]:
    """Factors of the estimate and of its variance in the draw, from public weights alone.

    ``louder``: by how much their noise is larger than that of a draw of their own. The factors make the sum of the
    estimate's noise variance and of what the variance's noise adds to an interval least. With Laplace noise they add up
    to 1, with Gaussian noise their squares do, up to rounding towards 0.
    """
    if not weights.measurable:
        return Fraction(1), Fraction(0)
    scale = mechanism(cost).known_scale * louder
    noise, unit = float(weights.largest_weight), float(variance_unit(weights))

    def cost_of(share: Fraction) -> float:
        rest = float(_rest(share, cost))
        return 2 * (2 * noise * scale / rest) ** 2 + REACH * math.sqrt(2) * unit * scale / float(share)

    best = min(SHARES, key=cost_of)
    return _rest(best, cost), best


def _rest(share: Fraction, cost: PrivacyCost) -> Fraction:
    """The estimate's factor beside that of its variance."""
    if cost.delta == 0:
        return 1 - share
    return Fraction(math.isqrt(int((1 - share**2) * 2**60)), 2**30)


def sums(units: WeightedUnits, in_treated: ByteArray, outcome: FloatArray, cost: PrivacyCost) -> FloatArray:
    """The two numbers to be released, shape (2,); arguments as of :func:`exact_sums`."""
    first, second = exact_sums(units, in_treated, outcome, cost)
    return np.array([float(first), float(second)])


def exact_sums(
    units: WeightedUnits, in_treated: ByteArray, outcome: FloatArray, cost: PrivacyCost, louder: float = 1.0
) -> tuple[Fraction, Fraction]:
    """The two numbers before rounding: one outcome moves them by at most 1 in the mechanism's norm.

    Outcomes are rounded to a public lattice first and everything after that is exact, up to the last rounding.

    Args:
        units: the weighting.
        in_treated: shape (n,), 1 for units of the treated arm, 0 for controls.
        outcome: u, shape (n,), in [-1, 1].
        cost: of the draw, which sets how the two share it.
        louder: as of :func:`shares`.
    """
    weights = units.summary
    exponent = sums_exponent(2 * max(weights.totals), 1)
    per_arm = arm_sums(units.weights, in_treated, outcome, exponent)
    means = [Fraction(found, total << exponent) for found, total in zip(per_arm, weights.totals, strict=True)]
    first, second = shares(weights, cost, louder)
    estimate = (means[0] - means[1]) / (2 * weights.largest_weight)
    variance = _sum_of_squares(units, outcome) / variance_unit(weights) if weights.measurable else Fraction(0)
    return first * estimate, second * variance


def _sum_of_squares(units: WeightedUnits, outcome: FloatArray) -> Fraction:
    """1/(m L) sum over twins of (u - u')^2 + sum over arms of (A - 1/m)/P sum over pairs of (u - u')^2/2, exact."""
    weights = units.summary
    exponent = sums_exponent(len(outcome), 2)
    *within, across = (squared_differences(pairs, outcome, exponent) for pairs in units.pairs)
    total = across / (weights.queries * weights.pairs[2]) if weights.pairs[2] else Fraction(0)
    for weight, pairs, found in zip(weights.variance_weights, weights.pairs, within, strict=False):
        total += weight / pairs * found / 2
    return total
