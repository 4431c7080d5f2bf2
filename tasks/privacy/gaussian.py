"""The Gaussian mechanism exactly: its delta, the least noise for a budget, and the epsilon of many draws.

Searches run in floats; what they find is checked, and rounded outward, by ``gaussian_delta`` in 400-bit arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from mpmath.ctx_mp import MPContext
from scipy.optimize import brentq
from scipy.special import log_ndtr

from causalveil.schemas.errors import StudyError

SMALLEST_EPSILON = 1e-10
WIDENING = 1e-9
TOLERANCE = 1e-12
MOST_STEPS = 1000
# Bisections of the epsilon of many draws: the answer is then at most 1e-12 of itself too large.
HALVINGS = 48


def gaussian_delta(sigma: float, epsilon: float) -> float:
    """Delta at ``epsilon`` of Gaussian noise on L2 sensitivity 1, rounded up (Balle and Wang 2018, Theorem 8).

    Phi(1/2s - epsilon s) - exp(epsilon) Phi(-1/2s - epsilon s), in 400-bit arithmetic since the terms nearly cancel.
    """
    mp = MPContext()  # of its own: the global one is shared by all threads
    mp.prec = 400
    s, e = mp.mpf(sigma), mp.mpf(epsilon)
    exact = mp.ncdf(1 / (2 * s) - e * s) - mp.exp(e) * mp.ncdf(-1 / (2 * s) - e * s)
    return math.nextafter(float(exact), math.inf)


@lru_cache(maxsize=256)
def unit_sigma(epsilon: float, delta: float) -> float:
    """Standard deviation of the analytic Gaussian on L2 sensitivity 1; ``gaussian_delta`` of it is at most ``delta``.

    The root is widened by a billionth, and further until the exact formula agrees: the search's tolerance is absolute,
    so at large epsilon the first widening may not be enough.

    Raises:
        StudyError: epsilon is below 1e-10.
    """
    if epsilon < SMALLEST_EPSILON:
        raise StudyError(f"the analytic Gaussian needs epsilon of at least {SMALLEST_EPSILON}")
    sigma, widening = _sigma_near(epsilon, delta), WIDENING
    while gaussian_delta(wide := sigma * (1 + widening), epsilon) > delta:
        widening *= 2
    return wide


@lru_cache(maxsize=256)
def composed_epsilon(ratios: tuple[float, ...], delta: float) -> float:
    """Epsilon at ``delta`` of Gaussian draws together, rounded up; infinite where no epsilon is enough.

    Draws of noise ``s_i`` per unit of sensitivity compose to exactly one draw whose 1/s^2 is the sum of the
    1/s_i^2 (Dong, Roth and Su 2022, Corollary 3.3).

    Args:
        ratios: noise scale per unit of sensitivity of each draw, above 0 and rounded down.
        delta: rounded down.
    """
    if not delta > 0:
        return math.inf
    sigma = _together(ratios)
    if gaussian_delta(sigma, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(sigma, high) > delta:
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(sigma, middle) <= delta else (middle, high)
    return high


def _together(ratios: Iterable[float]) -> float:
    """The one draw's noise per unit of sensitivity, rounded down."""
    square = 1 / sum((1 / Fraction(ratio) ** 2 for ratio in ratios), Fraction(0))
    nearest = math.sqrt(float(square))
    while Fraction(nearest) ** 2 > square:
        nearest = math.nextafter(nearest, 0.0)
    return nearest


def _sigma_near(epsilon: float, delta: float) -> float:
    """The root in sigma of the logarithm of delta, in floats; delta falls as sigma grows.

    Step for step what ``dp_accounting.get_sigma_gaussian`` does, whose import takes longer than a small study. The
    bits of the root are noise scales in releases, so they must not change (``tests/privacy/test_gaussian.py``).
    """
    aim = np.log(delta)

    def excess(sigma: float) -> float:
        return float(_log_delta(sigma, epsilon) - aim)

    low, high = 0.1, 1.0
    while excess(low) < 0:
        high, low = low, low / 10
    while excess(high) > 0:
        low, high = high, high * 10
    return float(brentq(excess, low, high, xtol=TOLERANCE, maxiter=MOST_STEPS))


def _log_delta(sigma: float, epsilon: float) -> float:
    """Logarithm of delta, Balle and Wang 2018, equation 6, without cancellation of small numbers."""
    middle = epsilon * sigma + 1 / (2 * sigma)
    first, second = log_ndtr(1 / sigma - middle), epsilon + log_ndtr(-middle)
    return float(first + np.log1p(-np.exp(second - first))) if second <= first else -math.inf
