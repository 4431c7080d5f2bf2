"""Sensitivities of direction finding, and the probability that noise keeps the order of two scores.

Everything takes public sizes and declared settings. Neighbours are replace-one; a unit is in one half of the split, so
it moves either test rows or the regressions, never both. ``variant: paper`` is Kusner et al. (2016) as printed.
Proofs, and where the printed ones are wide: ``docs/proofs/direction.md``.
"""

from __future__ import annotations

import math

from causalveil.schemas.estimators.direction import Score
from causalveil.schemas.study import Variant
from causalveil.tasks.direction.gaussian_kernel import PRECISION, Kernel
from causalveil.tasks.direction.kernel_ridge import CHUNK, STEP, TOLERANCE

UNIT_ROUNDOFF = 2.0**-53
# How far a computed HSIC, and a computed rank score, may be from the number that the proofs speak of.
HSIC_ERROR = 2e-10
RANK_ERROR = 2.0**-40


def score_sensitivity(score: Score, m: int, variant: Variant) -> float:
    """Bound the change of a rank score or HSIC when one of m >= 2 test units is replaced.

    Ours: 6/(m + 1) for |rho| and 4/m for |tau|, both attained; 3 m/(2 (m - 1)^2) for HSIC. The paper's: 30/m,
    4/m, (12 m - 11)/(m - 1)^2 (Theorems 1 and 3 and their appendix).

    Raises:
        ValueError: the interquartile range, which has no such bound.
    """
    if score is Score.spearman:
        bound = 6 / (m + 1) if variant is Variant.ours else 30 / m
    elif score is Score.kendall:
        bound = 4 / m
    elif score is Score.hsic:
        bound = 3 * m / 2 if variant is Variant.ours else 12 * m - 11
        return bound / (m - 1) ** 2 * (1 + RANK_ERROR) + 2 * HSIC_ERROR
    else:
        raise ValueError("the interquartile range has no bounded sensitivity")
    return bound * (1 + RANK_ERROR) + 2 * RANK_ERROR


def weight_movement(n: int, penalty: float, variant: Variant) -> float:
    """L2 distance between the weights of two regressions whose n training units differ in one.

    4 (sqrt(penalty) + 1/sqrt(2)) / (n penalty^1.5); the paper's 8/(n penalty^1.5) for penalty <= 1 (Theorem 5). The
    solver's tolerance and the rounding of sums and features are charged on top.
    """
    constant: float = 4 * (math.sqrt(penalty) + math.sqrt(0.5)) if variant is Variant.ours else 8.0
    rounding = 4 * UNIT_ROUNDOFF * (CHUNK + n / CHUNK + 64) + PRECISION
    gradient = TOLERANCE + rounding * (1 + 1 / math.sqrt(penalty))
    return (constant / (n * math.pow(penalty, 1.5)) + 2 * gradient / penalty) * (1 + RANK_ERROR)


def residual_movement(n: int, penalty: float, variant: Variant) -> float:
    """D: how far any computed residual moves when one of n training units is replaced; at most 2.

    A prediction is an inner product of the weights with a vector of norm 1, rounded to a lattice, clipped to [-1, 1].
    """
    rounding = 4 * PRECISION / math.sqrt(penalty) + STEP
    return min(2.0, weight_movement(n, penalty, variant) + rounding)


def hsic_training_sensitivity(n: int, m: int, penalty: float, bandwidth: float, variant: Variant) -> float:
    """Bound the change of HSIC on m test units when one of n training units is replaced.

    Ours: (m/(m - 1))^2 min(1/4, L D/2), L the slope of the residuals' kernel. The paper's Theorem 7 as printed:
    32 L sqrt(m) D with D = 8/(n penalty^1.5).
    """
    kernel, movement = Kernel(bandwidth, 2.0), residual_movement(n, penalty, variant)
    if variant is Variant.paper:
        return 32 * kernel.lipschitz * math.sqrt(m) * movement + 2 * HSIC_ERROR
    bound = (m / (m - 1)) ** 2 * min(0.25, kernel.lipschitz * movement / 2)
    return bound * (1 + RANK_ERROR) + 2 * HSIC_ERROR


def default_bin(m: int, threshold: float) -> float:
    """Bins of log IQR wide enough that a test on m evenly spread values passes with a factor of 3 to spare; at most 1.

    k replacements move the logarithm of the range of evenly spread values by about 2 k/m, and the better of the two
    bins leaves room for a quarter of its width at least.
    """
    return min(1.0, 24 * threshold / m)


def order_kept_one_draw(margin: float, scale: float) -> float:
    """P(a margin plus one Laplace draw of that scale has the margin's sign), margin >= 0: 1 - exp(-margin/scale)/2."""
    return 1 - math.exp(-margin / scale) / 2


def order_kept_two_draws(margin: float, scale: float) -> float:
    """Return P(order kept) for two scores with a draw each (Kusner et al. 2016, Theorem 2)."""
    ratio = margin / scale
    return 1 - (ratio + 2) / 4 * math.exp(-ratio)


def order_kept_four_draws(margin: float, scale: float) -> float:
    """Return P(order kept) for four draws (Kusner et al. 2016, Theorem 4.2).

    Each score is a sum of two logarithms, every one with a draw of its own.
    """
    ratio = margin / scale
    return 1 - (48 + 33 * ratio + 9 * ratio**2 + ratio**3) / 96 * math.exp(-ratio)
