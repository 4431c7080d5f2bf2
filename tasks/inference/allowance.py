"""The allowance of an interval for noise in its own variance.

That noise is independent of the estimate's.

The union bound of ``assemble.py`` holds however the two depend on each other, and pays for it. Where a release
has independent normal noise on the estimate and on the sampling variance, the coverage can be computed instead:

    E[2 Phi(z sqrt((noise + max(s + M, 0) + a m)/(noise + s))) - 1],  M ~ N(0, m^2), z the normal quantile,

s the unknown sampling variance. The allowance is the least a >= 0 for which this is at least the confidence whatever s
is. Derivation: ``docs/proofs/aipw.md``, section 4.

A bias that an interval allows for is c standard errors of sampling, and so is read off a noisy variance: where that
comes out too small, noise takes the allowance too. With h(v) the critical value of a bias of c sqrt(v) beside N(0, v)
and the estimate's noise,

    E[P(|c sqrt(s) + N(0, s) + noise| <= h(max(s + M, 0) + a m))]

takes the place of the coverage above. Derivation: ``docs/proofs/balancing.md``, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from causalveil.tasks.machine.arrays import FloatArray

NODES = 48
# Sampling variances to look at, in deviations m of the noise in their estimate; beyond, the loss only shrinks.
PLACES = np.concatenate([np.linspace(0.0, 6.0, 49), np.geomspace(6.5, 1e4, 40)])
LARGEST = 4.0


@lru_cache(maxsize=1024)
def laplace_allowance(ratio: float, confidence: float) -> float:
    """Compute the allowance for Laplace noise on the variance, rounded up to 1e-3.

    The noise on the estimate is Laplace as well, and independent of it.

    The critical value is that of a normal and a Laplace error together; quadrature replaces the normal's.

    Args:
        ratio: deviation m of the variance's noise over the noise variance of the estimate, > 0.
        confidence: the level, in [0.5, 1).
    """
    nodes, shares = laplace_rule()
    # In units of the estimate's noise variance.
    sampling = np.geomspace(min(ratio, 1.0) * 1e-3, max(ratio * 1e5, 1e5), 600)
    tails = partial(laplace_tails, scale=math.sqrt(0.5))
    table = critical_values(tails, sampling, 1 - confidence, 0.0)
    true = ratio * PLACES[:, None]
    read = ratio * (PLACES[:, None] + nodes[None])

    def covered(a: float) -> float:
        used = np.maximum(read, 0.0) + a * ratio
        half = np.interp(np.log(np.maximum(used, sampling[0])), np.log(sampling), table / np.sqrt(1 + sampling))
        outside = 2 * tails(half * np.sqrt(1 + used), np.sqrt(np.maximum(true, 1e-12 * ratio)))
        return float(((1 - outside) @ shares).min())

    # Far from 0 the coverage is the confidence itself, up to the table's and the rule's error.
    return _least(lambda a: covered(a) >= confidence - 1e-4)


def _least(enough: Callable[[float], bool]) -> float:
    """Return the least allowance that is enough, rounded up to 1e-3."""
    low, high = 0.0, LARGEST
    if enough(0.0):
        return 0.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def laplace_tails(distance: FloatArray, deviation: FloatArray, scale: float) -> FloatArray:
    """Return P(E > distance) elementwise, E a normal plus Laplace noise (Reed 2006).

    The normal has a deviation above 0, the Laplace noise this scale.
    """
    z, a = distance / deviation, deviation / scale
    above = np.exp(log_ndtr(z - a) + a * a / 2 - a * z)
    below = np.exp(log_ndtr(-z - a) + a * a / 2 + a * z)
    found: FloatArray = ndtr(-z) + (above - below) / 2
    return found


@lru_cache(maxsize=1)
def laplace_rule() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of the expectation over a Laplace draw of deviation 1."""
    nodes, shares = np.polynomial.laguerre.laggauss(NODES)
    half = nodes / math.sqrt(2)
    return np.concatenate([-half, half]), np.concatenate([shares, shares]) / 2


def allowance(ratio: float, confidence: float) -> float:
    """Return the least a, in deviations of the variance's noise, rounded up to 1e-3.

    It is 0 if there is no noise in the variance.

    Args:
        ratio: deviation m of the variance's noise over the noise variance of the estimate, >= 0.
        confidence: the level, in [0.5, 1).
    """
    if ratio == 0:
        return 0.0
    quantile = -float(ndtri((1 - confidence) / 2))
    return _least(lambda a: least_coverage(a, ratio, quantile) >= confidence)


def least_coverage(a: float, ratio: float, quantile: float) -> float:
    """Return the least coverage over possible sampling variances, with an allowance of ``a``.

    ``a`` is in deviations of the noise in the variance.
    """
    nodes, weights = normal_rule()
    # In units of m: the estimate's noise variance is 1/ratio.
    noise, true = 1 / ratio, PLACES[:, None]
    used = noise + np.maximum(true + nodes[None], 0.0) + a
    covered = 2 * ndtr(quantile * np.sqrt(used / (noise + true))) - 1
    return float((covered @ weights).min())


@lru_cache(maxsize=1)
def normal_rule() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of a standard normal's expectation."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return nodes, weights / math.sqrt(2 * math.pi)


Tails = Callable[[FloatArray, FloatArray], FloatArray]
POINTS, HALVINGS, STEP = 240, 44, 1e-3


def allowance_beside(ratio: float, confidence: float, bias: float, laplace: bool) -> float:
    """Return the least a, in deviations of the variance's noise, rounded up to 1e-3.

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
    """Return h with P(|c sqrt(v) + N(0, v) + noise| > h) = ``error`` for each v, by bisection.

    The noise has a variance of 1.
    """
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
