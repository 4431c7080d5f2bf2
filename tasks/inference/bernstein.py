"""An interval for a mean of bounded scores that holds at any sample size: no normal approximation anywhere.

The empirical Bernstein inequality (Maurer and Pontil 2009, Theorem 4): n independent numbers in [-1, 1] with sample
variance V have a mean within sqrt(2 V L/n) + 14 L/(3 (n - 1)) of its expectation, on one side with probability
1 - 2 exp(-L). Folds are scored by models of the other folds, so it is used within each fold, where scores are
independent given the models; folds add up by the union bound. The exact sums that it asks for are bounded by the
released ones and quantiles of their noise. Derivation: ``docs/proofs/aipw.md``, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.machine.arrays import FloatArray

# How 1 - confidence is divided: the inequality, the noise on the sum, the noise on the sum of squares.
SAMPLING, EFFECT, SQUARES = 0.5, 0.4, 0.1


def half_width(
    released: FloatArray, noise: Noise, sizes: Sequence[int], confidence: float, rounding: float = 0.0
) -> float:
    """Half-width around (sum v)/n for the mean of the expectations of v in [-1, 1]; at most 2.

    Args:
        released: (sum v, sum v^2), noisy, shape (2,).
        noise: on each of them; the two may depend on each other.
        sizes: units of each fold, n in all.
        confidence: the level, in [0.5, 1).
        rounding: how far either sum may be off before noise.
    """
    units, alpha = sum(sizes), 1 - confidence
    if min(sizes) < 2:
        return 2.0
    effect = noise.quantile(alpha * EFFECT / 2) + rounding
    squares = noise.quantile(alpha * SQUARES) + rounding
    first, second = released.tolist()
    # Sum of squared deviations from the folds' means, at most that from the common mean.
    most = min(second + squares, float(units)) - max(abs(first) - effect, 0.0) ** 2 / units
    smallest = min(sizes)
    variance = max(most, 0.0) * smallest / (smallest - 1)
    bound = math.log(4 * len(sizes) / (alpha * SAMPLING))
    linear = sum(size * 14 * bound / (3 * (size - 1)) for size in sizes)
    return min(2.0, (effect + math.sqrt(2 * bound * len(sizes) * variance) + linear) / units)
