"""Zero-concentrated differential privacy (Bun and Steinke 2016): rho of draws and caps.

Over runs budgets may be chosen after looking at earlier answers. Sums of rho stay valid then (Whitehouse, Ramdas,
Rogers and Wu 2023, Theorem 1); sums of epsilons of privacy loss distributions do not. Proofs:
``docs/proofs/accounting.md``, sections 4 to 6. All rounding is outward: rho of a draw up, rho of a cap down, epsilon of
an account up.
"""

from __future__ import annotations

import decimal
import math
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache

from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.privacy import SMALLEST, Charge, PrivacyCost
from causalveil.tasks.privacy.gaussian import DIGITS, EPSILON_DIGITS, SLACK, bisect, exact_arithmetic, rounded_up

# Mechanisms whose loss on one shift is that of Laplace noise on a lattice of at least 2^20 steps per shift.
LAPLACE = ("laplace", "lattice laplace")
# Relative increase of Laplace noise's rho by a lattice of that many steps, with room (section 4).
LATTICE_SHARE = 1e-9
# Below, the two terms of Laplace noise's rho cancel to the last digit and epsilon^2/2 is as good.
TINY = Decimal("1e-9")


def rho_of_mu(mu: Decimal) -> Decimal:
    """Return mu^2/2, rounded up: the rho of Gaussian noise of mu.

    It is (mu^2/2)-zCDP and no less (Bun and Steinke 2016, Proposition 1.6).
    """
    wide = decimal.Context(prec=60)
    return rounded_up(wide.multiply(wide.multiply(mu, mu), Decimal("0.5")))


@lru_cache(maxsize=1024)
def rho_of_epsilon(epsilon: Decimal, mechanism: str = "") -> Decimal:
    """Return the rho, rounded up, of a draw that is (epsilon, 0)-DP.

    Of an (epsilon, delta)-DP draw rho holds except with probability delta.

    Any draw has at most epsilon tanh(epsilon/2), that of randomised response (section 4), which is below epsilon^2/2.
    Laplace noise has at most epsilon + exp(-epsilon) - 1.
    """
    if epsilon == 0:
        return Decimal(0)
    mp = exact_arithmetic()
    e = mp.mpf(str(epsilon))
    rho = e * mp.tanh(e / 2)
    if mechanism in LAPLACE and epsilon > TINY:
        rho = min(rho, (e + mp.expm1(-e)) * (1 + LATTICE_SHARE))
    return rounded_up(Decimal(mp.nstr(rho * (1 + SLACK), 80)))


def epsilon_of_laplace(rho: Decimal) -> Decimal:
    """Return the largest epsilon of four digits whose Laplace noise costs at most ``rho``.

    It is 0 if there is none.
    """
    down = decimal.Context(prec=4, rounding=ROUND_FLOOR)
    low, high = math.log(float(SMALLEST)), math.log(float(rho) + 2 * math.sqrt(float(rho)) + 1)
    # By the exact function: in floats its terms cancel where rho is tiny.
    low, _ = bisect(lambda log: rho_of_epsilon(Decimal(math.exp(log)), LAPLACE[0]) <= rho, low, high, 60)
    epsilon = down.plus(Decimal(math.exp(low)))
    while epsilon > SMALLEST and rho_of_epsilon(epsilon, LAPLACE[0]) > rho:
        epsilon = down.next_minus(epsilon)
    return epsilon if epsilon > SMALLEST else Decimal(0)


def rho_of(charge: Charge) -> Decimal:
    """Return the rho that a charge costs an account.

    Where it states none, rho follows from mu, or in a charge of an older version without mu from epsilon.
    """
    if charge.rho is not None:
        return charge.rho
    return rho_of_epsilon(charge.epsilon) if charge.mu is None else rho_of_mu(charge.mu)


def tested_delta(charge: Charge) -> Decimal:
    """Return the chance with which a charge's rho may fail.

    Gaussian noise spends no delta until a cap is converted.
    """
    return Decimal(0) if charge.mu is not None else charge.delta


def understated(charge: Charge) -> bool:
    """Check whether a charge states less mu or rho than its mechanism proves.

    A mu must be at least sensitivity over noise scale, and a rho at least what mu or epsilon stands for.
    """
    if charge.mu is not None and charge.sensitivity is not None and charge.noise_scale is not None:
        mp = exact_arithmetic()
        if charge.noise_scale <= 0 or mp.mpf(charge.sensitivity) / mp.mpf(charge.noise_scale) > mp.mpf(str(charge.mu)):
            return True
    if charge.rho is None:
        return False
    least = rho_of_epsilon(charge.epsilon, charge.mechanism) if charge.mu is None else rho_of_mu(charge.mu)
    return charge.rho < least


@lru_cache(maxsize=256)
def rho_of_cap(epsilon: Decimal, delta: Decimal) -> Decimal:
    """Return the largest rho, to twelve digits, for which rho-zCDP implies (epsilon, delta)-DP.

    It is 0 if there is none.
    """
    if epsilon <= 0 or delta <= 0:
        return Decimal(0)

    def is_within(log_rho: float) -> bool:
        return _log_delta(math.exp(log_rho), float(epsilon))[0] <= math.log(float(delta))

    low = high = math.log(float(SMALLEST))
    while is_within(high):
        low, high = high, high + 8
    low, _ = bisect(is_within, low, high, 60)
    down = decimal.Context(prec=DIGITS, rounding=ROUND_FLOOR)
    rho = down.plus(Decimal(math.exp(low)))
    for _ in range(64):
        if implies(rho, PrivacyCost(epsilon=epsilon, delta=delta)):
            return rho
        rho = down.multiply(rho, Decimal("0.99999999999"))
    return Decimal(0)


@lru_cache(maxsize=256)
def epsilon_of_rho(rho: Decimal, delta: Decimal) -> Decimal:
    """Return the least epsilon of six digits for which rho-zCDP implies (epsilon, delta)-DP.

    Reports state it as the spent part of an account.

    Raises:
        CausalveilError: delta is not above 0.
    """
    if rho == 0:
        return Decimal(0)
    if delta <= 0:
        raise CausalveilError("a concentrated account has no epsilon at delta 0")
    low, high = 0.0, float(rho) + 2 * math.sqrt(float(rho) * math.log(1 / float(delta)))
    _, high = bisect(lambda e: _log_delta(float(rho), e)[0] > math.log(float(delta)), low, high, 100)
    epsilon = Decimal(high)
    for _ in range(64):
        up = rounded_up(epsilon, EPSILON_DIGITS)
        if implies(rho, PrivacyCost(epsilon=up, delta=delta)):
            return up
        epsilon = up * Decimal("1.00001")
    raise CausalveilError("a concentrated account's epsilon could not be computed")


def implies(rho: Decimal, cost: PrivacyCost) -> bool:
    """Check whether rho-zCDP implies (epsilon, delta)-DP.

    Canonne, Kamath and Steinke 2020, Corollary 13:
    delta = inf over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha/(alpha - 1). Any alpha
    gives a sound delta: it is searched in floats, and the bound taken in 400-bit arithmetic.
    """
    mp = exact_arithmetic()
    alpha = mp.mpf(_log_delta(float(rho), float(cost.epsilon))[1])
    r, e = mp.mpf(str(rho)), mp.mpf(str(cost.epsilon))
    exact = mp.exp((alpha - 1) * (alpha * r - e) + alpha * mp.log1p(-1 / alpha)) / (alpha - 1)
    return bool(min(exact, 1) * (1 + SLACK) <= mp.mpf(str(cost.delta)))


def _log_delta(rho: float, epsilon: float) -> tuple[float, float]:
    """The logarithm of the least delta, and its alpha, by ternary search: it falls and then rises."""

    def value(log: float) -> float:
        above = math.exp(log)
        # (1 - 1/alpha)^alpha/(alpha - 1) with 1 - 1/alpha = above/(1 + above)
        return above * ((1 + above) * rho - epsilon) - (1 + above) * math.log1p(1 / above) - log

    low, high = math.log(1e-12), math.log(1e12)
    for _ in range(100):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if value(left) < value(right):
            high = right
        else:
            low = left
    best = (low + high) / 2
    return value(best), 1 + math.exp(best)
