"""How much noise a cost asks for: each function returns a float that is certainly large enough for its theorem."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from mpmath.ctx_mp import MPContext

from causalveil.schemas.errors import StudyError
from causalveil.tasks.privacy.gaussian import WIDENING, unit_sigma
from causalveil.tasks.privacy.noise import opendp_laplace_loss

LATTICE_EPSILON = (1e-6, 1e3)
# Below S by this power of two: ties are rare and calibration is wider than S/epsilon by a part in a million.
LATTICE_BITS = 20


def quotient_above(sensitivity: Fraction, epsilon: float | Decimal) -> float:
    """The least float b with ``sensitivity / b <= epsilon``, exactly.

    Raises:
        StudyError: no float is so large.
    """
    exact = sensitivity / Fraction(epsilon)
    try:
        nearest = float(exact)
    except OverflowError:
        raise StudyError("epsilon is too small for this sensitivity: the noise would be infinite") from None
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


@lru_cache(maxsize=256)
def laplace_scale(sensitivity: float, epsilon: float) -> float:
    """Scale of Laplace noise: S/epsilon rounded up, and on until OpenDP's own privacy map agrees."""
    scale = quotient_above(Fraction(sensitivity), epsilon)
    while opendp_laplace_loss(scale, sensitivity) > epsilon:
        scale = math.nextafter(scale, math.inf)
    return scale


def analytic_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Standard deviation of the analytic Gaussian, rounded up; ``gaussian_delta`` of it is at most ``delta``."""
    return product_above(unit_sigma(epsilon, delta), sensitivity)


def classic_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """sqrt(2 ln(1.25/delta)) S/epsilon, rounded up (Dwork and Roth 2014, Theorem A.1)."""
    multiplier = math.sqrt(2 * math.log(1.25 / delta)) * (1 + WIDENING)
    return product_above(multiplier, quotient_above(Fraction(sensitivity), epsilon))


def granularity(sensitivity: float) -> float:
    """Step of the record-level lattice: the power of two in (S 2^-21, S 2^-20]."""
    return math.ldexp(1.0, math.frexp(sensitivity)[1] - 1 - LATTICE_BITS)


def lattice_scale(sensitivity: float, epsilon: float) -> float:
    """Scale of lattice Laplace noise: rounding to the lattice may part two values by one step more."""
    step = Fraction(granularity(sensitivity))
    steps = Fraction(sensitivity) // step + 1
    return quotient_above(steps * step, epsilon)


@lru_cache(maxsize=256)
def keep_probability(epsilon: float) -> float:
    """The largest float p with p/(1 - p) <= exp(epsilon), and below 1."""
    mp = MPContext()
    mp.prec = 400
    odds = mp.exp(mp.mpf(epsilon))
    keep = min(float(odds / (1 + odds)), math.nextafter(1.0, 0.0))
    while mp.mpf(keep) > odds * (1 - mp.mpf(keep)):
        keep = math.nextafter(keep, 0.0)
    return keep


def product_above(left: float, right: float) -> float:
    """The least float that is not below the exact product."""
    exact = Fraction(left) * Fraction(right)
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
