"""What an interval that allows for a bias must allow for the noise in its own variance.

The bias that an interval allows for is c standard errors of sampling, and so is read off a noisy variance: where that
comes out too small, noise takes the allowance too. With independent noise on the estimate and on its variance, s the
unknown sampling variance and h(v) the critical value of a bias of c sqrt(v) beside N(0, v) and the estimate's noise,

    E[P(|c sqrt(s) + N(0, s) + noise| <= h(max(s + M, 0) + a m))]

is computed as of an interval without a bias (``variance_allowance.py``). The allowance is the least a >= 0 for which
this is at least the confidence whatever s is. Derivation: ``docs/proofs/balancing.md``, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from causalveil.tasks.inference.variance_allowance import (
    LARGEST,
    PLACES,
    allowance,
    laplace_allowance,
    laplace_rule,
    laplace_tails,
    normal_rule,
)
from causalveil.tasks.machine.arrays import FloatArray

Tails = Callable[[FloatArray, FloatArray], FloatArray]
POINTS, HALVINGS, STEP = 240, 44, 1e-3


def allowance_beside(ratio: float, confidence: float, bias: float, laplace: bool) -> float:
    """The least a, in deviations of the variance's noise, rounded up to 1e-3.

    Args:
        ratio: deviation m of the variance's noise over the noise variance of the estimate, > 0.
        confidence: the level, in [0.5, 1).
        bias: c, what the estimate may be off by, in standard errors of sampling, >= 0.
        laplace: whether both noises are Laplace noise, or else normal.
    """
    if bias == 0:
        return laplace_allowance(ratio, confidence) if laplace else allowance(ratio, confidence)
    return _allowance(float(f"{ratio:.6g}"), confidence, float(f"{bias:.4g}"), laplace)


@lru_cache(maxsize=1024)
def _allowance(ratio: float, confidence: float, bias: float, laplace: bool) -> float:
    nodes, shares = laplace_rule() if laplace else normal_rule()
    tails: Tails = partial(laplace_tails, scale=math.sqrt(0.5)) if laplace else _normal_tails
    # In units of the estimate's noise variance.
    sampling = np.geomspace(min(ratio, 1.0) * 1e-3, max(ratio * 1e5, 1e5), POINTS)
    size = np.sqrt(1 + (1 + bias**2) * sampling)
    table, places = critical_values(tails, sampling, 1 - confidence, bias) / size, np.log(sampling)
    # Coverage changes slowly from place to place.
    looked = PLACES[::2, None]
    true = np.maximum(ratio * looked, 1e-12 * ratio)
    read = ratio * (looked + nodes[None])
    # Far from 0 the coverage is the confidence itself, up to the table's and the rule's error.
    wanted = confidence - 1e-4

    def spare(a: float) -> float:
        used = np.maximum(read, 0.0) + a * ratio
        half = np.interp(np.log(np.maximum(used, sampling[0])), places, table)
        half *= np.sqrt(1 + (1 + bias**2) * used)
        deviation, off = np.sqrt(true), bias * np.sqrt(true)
        outside = tails(half - off, deviation) + tails(half + off, deviation)
        return float(((1 - outside) @ shares).min()) - wanted

    if spare(0.0) >= 0:
        return 0.0
    return float(brentq(spare, 0.0, LARGEST, xtol=STEP)) + STEP


def critical_values(tails: Tails, sampling: FloatArray, error: float, bias: float) -> FloatArray:
    """h with P(|c sqrt(v) + N(0, v) + noise of variance 1| > h) = ``error`` for each v, by bisection."""
    deviation, off = np.sqrt(sampling), bias * np.sqrt(sampling)
    low, high = np.zeros(len(sampling)), np.sqrt(1 + sampling) / math.sqrt(error) + off
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        outside = tails(middle - off, deviation) + tails(middle + off, deviation) > error
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    return high


def _normal_tails(distance: FloatArray, deviation: FloatArray) -> FloatArray:
    """P(E > distance), E a normal of this deviation plus normal noise of variance 1."""
    found: FloatArray = ndtr(-distance / np.sqrt(1 + deviation**2))
    return found
