"""Draw noise, and compute the scale of noise that a privacy cost needs.

A real release draws from the operating system and is safe in floating point.

Scalars and short vectors go through OpenDP (discrete samplers on a lattice of step 2^-1074, exact arithmetic, one final
rounding). What OpenDP does not have, L2-Laplace noise and record-level arrays by the million, comes from
``tasks.privacy.lattice``. numpy's floats are for simulations only: their low bits give the input away (Mironov 2012).

Mechanisms reach a source through a budget and in no other way.

Each function that returns a scale rounds it up, so that the theorem certainly holds.
"""

from __future__ import annotations

import math
import os
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal, Protocol

import numpy as np

from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.privacy import lattice
from causalveil.tasks.privacy.gaussian import WIDENING, exact_arithmetic, unit_sigma

SMALLEST_SCALE, LARGEST_SCALE = 1e-200, 1e200
LARGEST_VALUE = 1e300
# Every float is a multiple of 2^-1074, so moving a value to that lattice changes nothing.
FINEST = -1074


class NoiseSource(Protocol):
    """Adds noise of a given scale. All methods return new arrays of the shape of their input.

    Raises (every method): CausalveilError, before anything is drawn, if a value is not finite or a scale is not a
    number in [1e-200, 1e200]; the value is not quoted.
    """

    @property
    def name(self) -> Literal["operating_system", "seeded"]:
        """Name of the noise source in the release."""

    def laplace(self, value: FloatArray, scale: float) -> FloatArray:
        """Add iid Laplace noise, density exp(-|b|/scale)/(2 scale); shape (d,)."""

    def gaussian(self, value: FloatArray, scale: float) -> FloatArray:
        """Add iid N(0, scale^2) noise; shape (d,)."""

    def l2_laplace(self, value: FloatArray, scale: float) -> FloatArray:
        """Add b with density proportional to exp(-||b||_2 / scale); shape (d,)."""

    def lattice_laplace(self, values: FloatArray, scale: float, granularity: float) -> FloatArray:
        """Round each value to ``granularity * Z`` and add discrete Laplace noise there; shape (n,)."""

    def randomised_response(self, bits: ByteArray, keep: float) -> ByteArray:
        """Keep each bit with probability ``keep``, else flip it; shape (n,)."""


class SecureNoise:
    """The operating system's generator; safe in floating point. The only source for a release."""

    name: Final = "operating_system"

    def laplace(self, value: FloatArray, scale: float) -> FloatArray:
        """Add iid Laplace noise to a vector, shape (d,), by OpenDP's ``make_laplace``.

        It takes about 0.03 ms a coordinate.
        """
        check_input(value, scale)
        return np.array(_opendp_measurement("laplace", value.size, scale)(value.tolist()))

    def gaussian(self, value: FloatArray, scale: float) -> FloatArray:
        """Add iid Gaussian noise to a vector, shape (d,), by OpenDP's ``make_gaussian``.

        It takes about 0.07 ms a coordinate.
        """
        check_input(value, scale)
        return np.array(_opendp_measurement("gaussian", value.size, scale)(value.tolist()))

    def l2_laplace(self, value: FloatArray, scale: float) -> FloatArray:
        """Add L2-Laplace noise to a vector, shape (d,), by ``lattice.add_l2_laplace``.

        It takes about 0.2 ms a coordinate.
        """
        check_input(value, scale)
        return lattice.add_l2_laplace(value, scale, os.urandom)

    def lattice_laplace(self, values: FloatArray, scale: float, granularity: float) -> FloatArray:
        """Add noise to a vector, shape (n,), by ``lattice.add_lattice_laplace``.

        It takes about 0.15 s per million.
        """
        check_input(values, scale)
        return lattice.add_lattice_laplace(values, scale, granularity, os.urandom)

    def randomised_response(self, bits: ByteArray, keep: float) -> ByteArray:
        """Flip bits, shape (n,), by ``lattice.flip_bits``; about 5 ms per million."""
        return lattice.flip_bits(bits, keep, os.urandom)


class SeededNoise:
    """Noise of numpy's generator from a seed, for ``--simulate`` and tests.

    It protects no data: whoever has the seed can draw it again.
    """

    name: Final = "seeded"

    def __init__(self, seed: int) -> None:
        """Start from ``seed``, any integer >= 0."""
        self._generator = np.random.default_rng(seed)

    def laplace(self, value: FloatArray, scale: float) -> FloatArray:
        """Add iid Laplace noise in plain floats, shape (d,)."""
        check_input(value, scale)
        return value + self._generator.laplace(scale=scale, size=value.shape)

    def gaussian(self, value: FloatArray, scale: float) -> FloatArray:
        """Add iid Gaussian noise in plain floats, shape (d,)."""
        check_input(value, scale)
        return value + self._generator.normal(scale=scale, size=value.shape)

    def l2_laplace(self, value: FloatArray, scale: float) -> FloatArray:
        """Add L2-Laplace noise in plain floats, shape (d,)."""
        check_input(value, scale)
        direction = self._generator.normal(size=value.shape)
        norm = self._generator.gamma(value.size, scale)
        return np.asarray(value + direction * (norm / np.linalg.norm(direction)), dtype=np.float64)

    def lattice_laplace(self, values: FloatArray, scale: float, granularity: float) -> FloatArray:
        """Draw by the secure sampler's steps, shape (n,), fed with seeded bytes."""
        check_input(values, scale)
        return lattice.add_lattice_laplace(values, scale, granularity, self._generator.bytes)

    def randomised_response(self, bits: ByteArray, keep: float) -> ByteArray:
        """Draw by the secure sampler's steps, shape (n,), fed with seeded bytes."""
        return lattice.flip_bits(bits, keep, self._generator.bytes)


def check_input(value: FloatArray, scale: float) -> None:
    """Refuse input that samplers misread: OpenDP takes NaN for 0 and infinity for 1.8e308.

    Raises:
        CausalveilError: not a non-empty vector of finite numbers below 1e300, or the scale is out of range.
    """
    if value.ndim != 1 or value.size == 0:
        raise CausalveilError("noise is added to a non-empty vector")
    if not np.all(np.abs(value) <= LARGEST_VALUE):  # also false for NaN
        raise CausalveilError("a value to be noised is not finite; nothing was drawn")
    if not (math.isfinite(scale) and SMALLEST_SCALE <= scale <= LARGEST_SCALE):
        raise CausalveilError(f"a noise scale must lie between {SMALLEST_SCALE} and {LARGEST_SCALE}")


def opendp_laplace_loss(scale: float, sensitivity: float) -> float:
    """Return the epsilon of OpenDP's own Laplace measurement at a distance of ``sensitivity``.

    OpenDP rounds it up.
    """
    return float(_opendp_measurement("laplace", 1, scale).map(sensitivity))


@lru_cache(maxsize=64)
def _opendp_measurement(kind: Literal["laplace", "gaussian"], size: int, scale: float) -> Any:
    # ``opendp.prelude`` takes 2 s to import, these four modules 0.3 s.
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    domain = domains.vector_domain(domains.atom_domain(T=float, nan=False), size=size)
    if kind == "laplace":
        return measurements.make_laplace(domain, metrics.l1_distance(T=float), scale=scale, k=FINEST)
    return measurements.make_gaussian(domain, metrics.l2_distance(T=float), scale=scale, k=FINEST)


LATTICE_EPSILON = (1e-6, 1e3)
# Below S by this power of two: ties are rare and calibration is wider than S/epsilon by a part in a million.
LATTICE_BITS = 20


def quotient_above(sensitivity: Fraction, epsilon: float | Decimal) -> float:
    """Return the least float b with ``sensitivity / b <= epsilon``, exactly.

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
    """Return the scale of Laplace noise: S/epsilon rounded up until OpenDP's own map agrees."""
    scale = quotient_above(Fraction(sensitivity), epsilon)
    while opendp_laplace_loss(scale, sensitivity) > epsilon:
        scale = math.nextafter(scale, math.inf)
    return scale


def analytic_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the standard deviation of the analytic Gaussian, rounded up.

    ``gaussian_delta`` of it is at most ``delta``.
    """
    return product_above(unit_sigma(epsilon, delta), sensitivity)


def classic_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return sqrt(2 ln(1.25/delta)) S/epsilon, rounded up.

    Dwork and Roth 2014, Theorem A.1.
    """
    multiplier = math.sqrt(2 * math.log(1.25 / delta)) * (1 + WIDENING)
    return product_above(multiplier, quotient_above(Fraction(sensitivity), epsilon))


def granularity(sensitivity: float) -> float:
    """Step of the record-level lattice: the power of two in (S 2^-21, S 2^-20]."""
    return math.ldexp(1.0, math.frexp(sensitivity)[1] - 1 - LATTICE_BITS)


def lattice_scale(sensitivity: float, epsilon: float) -> float:
    """Return the scale of lattice Laplace noise.

    Rounding to the lattice may move two values one step further apart.
    """
    step = Fraction(granularity(sensitivity))
    steps = Fraction(sensitivity) // step + 1
    return quotient_above(steps * step, epsilon)


@lru_cache(maxsize=256)
def keep_probability(epsilon: float) -> float:
    """Return the largest float p with p/(1 - p) <= exp(epsilon), and below 1."""
    mp = exact_arithmetic()
    odds = mp.exp(mp.mpf(epsilon))
    keep = min(float(odds / (1 + odds)), math.nextafter(1.0, 0.0))
    while mp.mpf(keep) > odds * (1 - mp.mpf(keep)):
        keep = math.nextafter(keep, 0.0)
    return keep


def product_above(left: float, right: float) -> float:
    """Return the least float that is not below the exact product."""
    exact = Fraction(left) * Fraction(right)
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
