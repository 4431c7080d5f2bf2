"""What an interval must allow for the noise in its own variance, when that noise is independent of the estimate's.

The union bound of ``interval.assemble`` holds however the two depend on each other, and pays for it. Where a release
has independent normal noise on the estimate and on the sampling variance, the coverage can be computed instead:

    E[2 Phi(z sqrt((noise + max(s + M, 0) + a m)/(noise + s))) - 1],  M ~ N(0, m^2), z the normal quantile,

s the unknown sampling variance. The allowance is the least a >= 0 for which this is at least the confidence whatever s
is. Derivation: ``docs/proofs/aipw.md``, section 6.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray

NODES = 48
# Sampling variances to look at, in deviations m of the noise in their estimate; beyond, the loss only shrinks.
PLACES = np.concatenate([np.linspace(0.0, 6.0, 49), np.geomspace(6.5, 1e4, 40)])
LARGEST = 4.0


def allowance(ratio: float, confidence: float) -> float:
    """The least a, in deviations of the variance's noise, rounded up to 1e-3; 0 if there is no noise in the variance.

    Args:
        ratio: deviation m of the variance's noise over the noise variance of the estimate, >= 0.
        confidence: the level, in [0.5, 1).
    """
    from scipy.special import ndtri

    if ratio == 0:
        return 0.0
    quantile = -float(ndtri((1 - confidence) / 2))
    low, high = 0.0, LARGEST
    if least_coverage(0.0, ratio, quantile) >= confidence:
        return 0.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if least_coverage(middle, ratio, quantile) >= confidence else (middle, high)
    return high


def least_coverage(a: float, ratio: float, quantile: float) -> float:
    """The least coverage over the places where the sampling variance may be, when ``a`` deviations are allowed."""
    from scipy.special import ndtr

    nodes, weights = _rule()
    # In units of m: the estimate's noise variance is 1/ratio.
    noise, true = 1 / ratio, PLACES[:, None]
    used = noise + np.maximum(true + nodes[None], 0.0) + a
    covered = 2 * ndtr(quantile * np.sqrt(used / (noise + true))) - 1
    return float((covered @ weights).min())


@lru_cache(maxsize=1)
def _rule() -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of a standard normal's expectation."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return nodes, weights / math.sqrt(2 * math.pi)
