"""Account for Gaussian draws exactly, and divide a request among several.

The Gaussian mechanism exactly: its delta, the least noise for a budget, and the epsilon of many draws.

Searches run in floats; their result is checked, and rounded outward, in 400-bit arithmetic.

Gaussian differential privacy (Dong, Roth and Su 2022): how a request is divided into Gaussian draws, exactly.

A draw of L2 sensitivity S and deviation sigma is mu-GDP, mu = S/sigma. Draws of fixed mu_i compose to
sqrt(sum mu_i^2) with nothing lost (Corollary 3.3), so a request (epsilon, delta) owns the mu^2 at which its curve
passes through (epsilon, delta), and its draws take shares of that. Shares of epsilon would make the same noise 1.2 to
2.9 times larger.

    parts = divide(study.privacy.cost, {"model": Decimal("0.3"), "effect": Decimal("0.7")})
    vector_mechanism(Sensitivity(S, Norm.l2, "2/n"), parts["effect"]).release(value, slot, budget)

Proofs: ``docs/proofs/accounting.md``. All rounding is outward: mu of a request down, epsilon and delta of a mu up.
"""

from __future__ import annotations

import decimal
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.privacy import SMALLEST, GaussianCost, PrivacyCost, add, float_below, parse_amount, subtract

SMALLEST_EPSILON = 1e-10
WIDENING = 1e-9
TOLERANCE = 1e-12
MOST_STEPS = 1000
# Bisections of the epsilon of many draws: the answer is then at most 1e-12 of itself too large.
HALVINGS = 48


def gaussian_delta(sigma: float, epsilon: float) -> float:
    """Return delta at ``epsilon`` of Gaussian noise on L2 sensitivity 1, rounded up.

    Balle and Wang 2018, Theorem 8: Phi(1/2s - epsilon s) - exp(epsilon) Phi(-1/2s - epsilon s).
    """
    mp = exact_arithmetic()
    return math.nextafter(float(_exact_delta(1 / mp.mpf(sigma), mp.mpf(epsilon))), math.inf)


@lru_cache(maxsize=256)
def unit_sigma(epsilon: float, delta: float) -> float:
    """Return the standard deviation of the analytic Gaussian on L2 sensitivity 1.

    ``gaussian_delta`` of it is at most ``delta``.

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
    """Return the epsilon at ``delta`` of Gaussian draws together, rounded up.

    It is infinite where no epsilon is enough.

    Draws of noise ``s_i`` per unit of sensitivity compose to exactly one draw whose 1/s^2 is the sum of the
    1/s_i^2 (Dong, Roth and Su 2022, Corollary 3.3).

    Args:
        ratios: noise scale per unit of sensitivity of each draw, above 0 and rounded down.
        delta: rounded down.
    """
    if not delta > 0:
        return math.inf
    sigma = _composed_sigma(ratios)
    if gaussian_delta(sigma, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(sigma, high) > delta:
        low, high = high, 2 * high
    return bisect(lambda epsilon: gaussian_delta(sigma, epsilon) > delta, low, high, HALVINGS)[1]


def bisect(is_below: Callable[[float], bool], low: float, high: float, halvings: int) -> tuple[float, float]:
    """Return ends of a narrower interval around the point up to which ``is_below`` holds."""
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low, high


def _composed_sigma(ratios: Iterable[float]) -> float:
    """Noise per unit of sensitivity of the draw that all are together, rounded down."""
    square = 1 / sum((1 / Fraction(ratio) ** 2 for ratio in ratios), Fraction(0))
    nearest = math.sqrt(float(square))
    while Fraction(nearest) ** 2 > square:
        nearest = math.nextafter(nearest, 0.0)
    return nearest


def _sigma_near(epsilon: float, delta: float) -> float:
    """The root in sigma of the logarithm of delta, in floats; delta falls as sigma grows.

    Step for step what ``dp_accounting.get_sigma_gaussian`` does, whose import takes longer than a small study. The
    bits of the root are noise scales in releases, so they must not change (``tests/privacy/test_mechanisms.py``).
    """
    # Commands that calibrate nothing, such as admit, do not wait for it.
    from scipy.optimize import brentq

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
    from scipy.special import log_ndtr

    middle = epsilon * sigma + 1 / (2 * sigma)
    first, second = log_ndtr(1 / sigma - middle), epsilon + log_ndtr(-middle)
    return float(first + np.log1p(-np.exp(second - first))) if second <= first else -math.inf


# Digits of a mu or a rho; of the epsilon that a draw keeps alone, which people read; of a share of a pure epsilon.
DIGITS, EPSILON_DIGITS, PURE_DIGITS = 12, 6, 6
# Far above the error of 400-bit arithmetic, and far below any delta.
SLACK = 1e-60
_DOWN = decimal.Context(prec=DIGITS, rounding=ROUND_FLOOR)
_WIDE_DOWN = decimal.Context(prec=60, rounding=ROUND_FLOOR)
_WIDE_UP = decimal.Context(prec=60, rounding=ROUND_CEILING)


def rounded_up(number: Decimal, digits: int = DIGITS) -> Decimal:
    """Round a number up to ``digits`` significant digits; above 0 it is at least ``SMALLEST``."""
    up = decimal.Context(prec=digits, rounding=ROUND_CEILING).plus(number)
    return up if up == 0 else max(up, SMALLEST)


_LOCAL = threading.local()


def exact_arithmetic() -> Any:
    """Return this thread's own 400-bit arithmetic.

    mpmath's functions change the precision of their context while they run, and all threads share the global one.
    """
    if not hasattr(_LOCAL, "mp"):
        from mpmath.ctx_mp import MPContext

        _LOCAL.mp = MPContext()
        _LOCAL.mp.prec = 400
    return _LOCAL.mp


def _exact_delta(mu: Any, epsilon: Any) -> Any:
    """Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu), whose two terms nearly cancel, in 400 bits."""
    mp = exact_arithmetic()
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@lru_cache(maxsize=4096)
def keeps(mu: Decimal, cost: PrivacyCost) -> bool:
    """Check whether mu-GDP implies (epsilon, delta)-DP, in 400-bit arithmetic.

    Dong, Roth and Su 2022, Corollary 2.13.
    """
    if mu == 0:
        return True
    mp = exact_arithmetic()
    delta = _exact_delta(mp.mpf(str(mu)), mp.mpf(str(cost.epsilon)))
    return bool(delta * (1 + SLACK) + mp.mpf(2) ** -380 <= mp.mpf(str(cost.delta)))


@lru_cache(maxsize=256)
def mu_of(request: PrivacyCost) -> Decimal:
    """Return the largest mu, to twelve digits, for which mu-GDP implies a request.

    Raises:
        StudyError: delta is 0 or above 1, or epsilon below 1e-10.
    """
    if not 0 < request.delta < 1:
        raise StudyError("Gaussian noise needs delta between 0 and 1")
    sigma = unit_sigma(float_below(request.epsilon), float_below(request.delta))
    mu = _DOWN.divide(Decimal(1), Decimal(sigma))
    while not keeps(mu, request):
        mu = _DOWN.next_minus(mu)
    return mu


def composed(mus: Iterable[Decimal]) -> Decimal:
    """Return sqrt(sum mu_i^2) in sixty digits, rounded up; 0 of nothing."""
    total = Decimal(0)
    for mu in mus:
        total = _WIDE_UP.add(total, _WIDE_UP.multiply(mu, mu))
    # A decimal square root rounds to the nearest, whatever the context says.
    return Decimal(0) if total == 0 else _WIDE_UP.next_plus(_WIDE_UP.sqrt(total))


@lru_cache(maxsize=1024)
def epsilon_of(mu: Decimal, delta: Decimal) -> Decimal:
    """Return the least epsilon of six digits for which mu-GDP implies (epsilon, delta)-DP.

    It is 0 where delta alone covers it.

    Raises:
        CausalveilError: delta is not above 0.
    """
    if delta <= 0:
        raise CausalveilError("Gaussian noise has no epsilon at delta 0")
    if keeps(mu, PrivacyCost(epsilon=Decimal(0), delta=delta)):
        return Decimal(0)
    step = decimal.Context(prec=EPSILON_DIGITS, rounding=ROUND_CEILING)
    # Start just below in floats, then go up in exact comparisons, by steps that double.
    epsilon, grain = step.plus(Decimal(_float_epsilon(float(mu), float(delta)) * (1 - 1e-9))), 1
    epsilon = max(epsilon, SMALLEST)
    while not keeps(mu, PrivacyCost(epsilon=epsilon, delta=delta)):
        for _ in range(grain):
            epsilon = step.next_plus(epsilon)
        grain = min(2 * grain, 1000)
    return epsilon


def _float_epsilon(mu: float, delta: float) -> float:
    """Return ``epsilon_of`` approximately, in floats.

    By phi(u) (R(u) - R(u + mu)) with u = epsilon/mu - mu/2 and Mills' ratio R, without cancellation.
    """
    from scipy.special import erfcx

    def log_delta(epsilon: float) -> float:
        u = epsilon / mu - mu / 2
        if u < -5:
            return 0.0
        gap = math.sqrt(math.pi / 2) * float(erfcx(u / math.sqrt(2)) - erfcx((u + mu) / math.sqrt(2)))
        return math.log(gap) - u * u / 2 - math.log(2 * math.pi) / 2 if gap > 0 else -math.inf

    low, high = 0.0, mu * mu / 2 + mu * (math.sqrt(-2 * math.log(delta)) + 2)
    return bisect(lambda epsilon: log_delta(epsilon) > math.log(delta), low, high, 100)[0]


def portion(request: PrivacyCost, share: Decimal) -> PrivacyCost:
    """Return the cost that one draw may have by its share of a request.

    The share is of mu^2 where there is a delta (the cost is a ``GaussianCost``), else of epsilon.

    Args:
        request: the cost that the whole run may have.
        share: in (0, 1]; the shares of the draws that one unit meets must not add up to more than 1.

    Raises:
        StudyError: the share is out of range, or the part is too small to be an amount.
    """
    if not 0 < share <= 1:
        raise StudyError("a share of the budget must be above 0 and at most 1")
    try:
        if request.delta == 0:
            exact = _WIDE_DOWN.multiply(request.epsilon, share)
            step = Decimal(1).scaleb(exact.adjusted() - PURE_DIGITS + 1)
            return PrivacyCost(epsilon=exact.quantize(step, ROUND_DOWN, _WIDE_DOWN), delta=Decimal(0))
        root = _WIDE_DOWN.next_minus(_WIDE_DOWN.sqrt(share))
        mu = _DOWN.plus(_WIDE_DOWN.multiply(mu_of(request), root))
        # Alone it keeps the request's delta at an epsilon that is never above the request's.
        alone = min(epsilon_of(mu, request.delta), request.epsilon)
        return GaussianCost(epsilon=alone, delta=request.delta, mu=mu)
    except (ValueError, decimal.DecimalException):
        raise StudyError("privacy: a share of this budget is too small to be an amount; ask for more") from None


def divide(request: PrivacyCost, shares: Mapping[str, Decimal]) -> dict[str, PrivacyCost]:
    """Divide a run's budget among its draws, so that together they keep the request.

    Args:
        request: the cost that the whole run may have.
        shares: of mu^2, or at delta = 0 of epsilon; they add up to 1. A share of 0 is left out of the answer.

    Returns:
        Costs of draws by name. At delta = 0 parts are rounded down to six digits, and the last takes the exact rest.

    Raises:
        StudyError: shares that do not add up to 1, or a budget with too many digits to be divided exactly.
    """
    if not shares or min(shares.values()) < 0 or add(*shares.values()) != 1:
        raise StudyError("shares of a budget must not be negative and must add up to 1")
    parts = {name: portion(request, share) for name, share in shares.items() if share > 0}
    if request.delta > 0:
        return parts
    last = list(parts)[-1]
    try:
        spent = add(*(part.epsilon for name, part in parts.items() if name != last))
        rest = parse_amount(subtract(request.epsilon, spent))
    except (ValueError, ArithmeticError):
        raise StudyError("privacy: this budget cannot be divided exactly; write it with fewer digits") from None
    return {**parts, last: PrivacyCost(epsilon=rest, delta=Decimal(0))}
