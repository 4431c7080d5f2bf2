"""Exact noise on a public lattice, from random bytes alone.

Arrays of a million records, and short vectors.

Every sampler here returns the ideal law exactly, not to within some distance, provided that the bytes are uniform.
Two devices give that. A coin of irrational bias compares as many random bits with the binary digits of the bias as
it takes to differ, and the digits come from interval arithmetic. A continuous draw is refined, bit by bit, until
rounding it to the lattice has only one possible answer. Nothing is left over to charge to delta.

The vectorised discrete Laplace rests on one identity: written in two's complement, its bits are independent
(``discrete_laplace``). Proofs: ``docs/privacy.md``.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from causalveil.schemas.errors import CausalveilError
from causalveil.tasks.machine.arrays import BoolArray, ByteArray, FloatArray, IntArray

RandomBytes = Callable[[int], bytes]
Digits = Callable[[int], int]
"""``digits(k)`` is floor(p * 2^k), exactly: the first k binary digits of a probability p in [0, 1)."""

CHUNK = 1 << 16
SMALLEST_RATE = Fraction(1, 1 << 44)
LARGEST_RATE = Fraction(1 << 10)
LARGEST_STEPS = float(1 << 50)
# The binary digits are cut where exp(-rate 2^K) < 7e-6: what lies above is a geometric, nearly always 0.
TAIL = 12
L2_LATTICE = 40

_local = threading.local()


def discrete_laplace(count: int, rate: Fraction, random_bytes: RandomBytes) -> IntArray:
    """Draw integers with P(k) = tanh(rate/2) exp(-rate |k|), exactly.

    Let G be geometric, P(G = j) = (1 - q) q^j with q = exp(-rate). Its binary digits are independent, digit k being
    1 with probability 1/(1 + exp(rate 2^k)); and X = G with probability 1/(1 + q), else -(G + 1), is discrete
    Laplace. Since -(G + 1) is the bitwise complement of G, the whole of X is independent coins. The digits from K
    on are drawn together: G = L + 2^K H with H geometric of ratio exp(-rate 2^K), independent of L.

    Args:
        count: number of draws, >= 0.
        rate: granularity / scale of the lattice, in [2^-44, 2^10].
        random_bytes: a source of uniform bytes.

    Returns:
        shape (count,).

    Raises:
        CausalveilError: ``rate`` out of range.
    """
    if not SMALLEST_RATE <= rate <= LARGEST_RATE:
        raise CausalveilError("the lattice is too fine or too coarse for this noise scale")
    width = 0
    while rate * (1 << width) < TAIL:
        width += 1
    digits = [logistic(rate * (1 << k)) for k in range(width)]
    tail, sign = decay(rate * (1 << width)), logistic(rate)
    result = np.empty(count, dtype=np.int64)
    for start in range(0, count, CHUNK):
        size = min(CHUNK, count - start)
        magnitude = _geometric(tail, size, random_bytes) << width
        for low in range(0, width, 8):
            packed = np.zeros(size, dtype=np.uint8)
            for k, coin in enumerate(digits[low : low + 8]):
                packed |= flip(coin, size, random_bytes).view(np.uint8) << np.uint8(k)
            magnitude |= packed.astype(np.int64) << low
        complement = flip(sign, size, random_bytes).astype(np.int64)
        np.bitwise_xor(magnitude, -complement, out=result[start : start + size])
    return result


def add_lattice_laplace(values: FloatArray, scale: float, granularity: float, random_bytes: RandomBytes) -> FloatArray:
    """Round to the lattice ``granularity * Z`` and add discrete Laplace noise there, exactly.

    Args:
        values: shape (n,), finite, |value| <= 2^50 granularity. Two values closer than S round to lattice points at
            most floor(S/granularity) + 1 steps apart, and that many steps is what the caller's scale must cover.
        scale: noise scale, in units of the values.
        granularity: a power of two, in units of the values.
        random_bytes: a source of uniform bytes.

    Returns:
        shape (n,): multiples of ``granularity``.

    Raises:
        CausalveilError: a value is not finite or too far out, or the lattice does not suit the scale.
    """
    if math.frexp(granularity)[0] != 0.5:
        raise CausalveilError("the granularity of a lattice must be a power of two")
    if not np.all(np.abs(values) <= granularity * LARGEST_STEPS):  # also false for NaN
        raise CausalveilError("a value to be noised is not finite, or too large for its lattice")
    noise = discrete_laplace(values.size, Fraction(granularity) / Fraction(scale), random_bytes)
    result = np.empty(values.size, dtype=np.float64)
    for start in range(0, values.size, CHUNK):
        part = slice(start, start + CHUNK)
        noise[part] += np.rint(values[part] / granularity).astype(np.int64)
        np.multiply(noise[part], granularity, out=result[part])
    return result


def flip_bits(bits: ByteArray, keep: float, random_bytes: RandomBytes) -> ByteArray:
    """Apply randomised response: keep each bit with probability exactly ``keep``, else flip it.

    Args:
        bits: shape (n,), zeros and ones.
        keep: in [0, 1); a float is a dyadic number, so no digit of it is lost.
        random_bytes: a source of uniform bytes.

    Raises:
        CausalveilError: a value that is neither 0 nor 1.
    """
    if bits.size and bits.max() > 1:
        raise CausalveilError("randomised response takes zeros and ones")
    result = np.empty(bits.size, dtype=np.uint8)
    coin = dyadic(keep)
    for start in range(0, bits.size, CHUNK):
        part = bits[start : start + CHUNK]
        unchanged = flip(coin, part.size, random_bytes).view(np.uint8)
        result[start : start + CHUNK] = part ^ unchanged ^ np.uint8(1)
    return result


def add_l2_laplace(value: FloatArray, scale: float, random_bytes: RandomBytes) -> FloatArray:
    """Add b with density proportional to exp(-||b||_2 / scale), rounded exactly to a lattice.

    The lattice is public.

    The direction of b is uniform (normalised Box-Muller normals), its norm Gamma(d, scale) (minus the log of a
    product of d uniforms). Each uniform is known to 256 bits, hence as an interval; if the intervals leave some
    coordinate two lattice points to round to, every uniform gets 256 bits more. So the output is the rounding of
    the ideal real-valued mechanism, which is post-processing (Chaudhuri, Monteleoni and Sarwate 2011, section 3).

    Args:
        value: shape (d,), finite.
        scale: S2/epsilon, in units of the value, in [1e-200, 1e200].
        random_bytes: a source of uniform bytes.

    Returns:
        shape (d,): multiples of 2^(e-40), where 2^e <= scale < 2^(e+1), each rounded to the nearest float.
    """
    dimension = value.size
    exponent = math.frexp(scale)[1] - 1 - L2_LATTICE
    uniforms = [0] * (dimension + 2 * ((dimension + 1) // 2))
    bits = 0
    while True:
        bits += 256
        uniforms = [(u << 256) | int.from_bytes(random_bytes(32), "big") for u in uniforms]
        steps = _l2_steps(value, scale, exponent, uniforms, bits)
        if steps is not None:
            return np.array([float(Fraction(step) * Fraction(2) ** exponent) for step in steps])


def flip(coin: Digits, count: int, random_bytes: RandomBytes) -> BoolArray:
    """Flip a coin ``count`` times: True with probability exactly p.

    ``coin`` gives the binary digits of p.

    U < p is decided by the first binary digit in which they differ: eight digits settle all but 1 in 256, and those
    read on. Returns shape (count,).
    """
    first = np.frombuffer(random_bytes(count), dtype=np.uint8)
    head = np.uint8(coin(8))
    heads = first < head
    undecided = np.flatnonzero(first == head)
    if undecided.size:
        heads[undecided] = _read_on(coin, 8, undecided.size, random_bytes)
    return heads


def _read_on(coin: Digits, position: int, count: int, random_bytes: RandomBytes) -> BoolArray:
    """Flips whose first ``position`` digits equal the coin's: compare the next 64, and so on."""
    drawn_digits = np.frombuffer(random_bytes(8 * count), dtype=np.uint64)
    coin_digits = np.uint64(coin(position + 64) & ((1 << 64) - 1))
    heads = drawn_digits < coin_digits
    undecided = np.flatnonzero(drawn_digits == coin_digits)
    if undecided.size:
        heads[undecided] = _read_on(coin, position + 64, undecided.size, random_bytes)
    return heads


def dyadic(p: float) -> Digits:
    """Return the binary digits of a float in [0, 1), which end: ``digits(k)`` is floor(2^k p).

    Raises:
        CausalveilError: p lies outside.
    """
    ratio = Fraction(p)
    if not 0 <= ratio < 1:
        raise CausalveilError("a probability must lie in [0, 1)")
    return lambda bits: (ratio.numerator << bits) // ratio.denominator


def logistic(x: Fraction) -> Digits:
    """Return the digits of 1/(1 + exp(x)), x > 0."""
    return lambda bits: _digits(x, False, bits)


def decay(x: Fraction) -> Digits:
    """Return the digits of exp(-x), x > 0."""
    return lambda bits: _digits(x, True, bits)


@lru_cache(maxsize=4096)
def _digits(x: Fraction, tail: bool, bits: int) -> int:
    # Both numbers are transcendental for rational x != 0 (Lindemann), never on a digit boundary: the loop ends.
    precision = bits + 64
    while True:
        iv = _intervals(precision)
        ratio = iv.mpf(x.numerator) / iv.mpf(x.denominator)
        p = iv.exp(-ratio) if tail else 1 / (1 + iv.exp(ratio))
        digits = _floor(p, bits)
        if digits is not None:
            return digits
        precision *= 2


def _geometric(tail: Digits, count: int, random_bytes: RandomBytes) -> IntArray:
    """Number of heads before the first tails; nearly every element is 0."""
    result = np.zeros(count, dtype=np.int64)
    alive = np.flatnonzero(flip(tail, count, random_bytes))
    while alive.size:
        result[alive] += 1
        alive = alive[flip(tail, alive.size, random_bytes)]
    return result


def _l2_steps(value: FloatArray, scale: float, exponent: int, uniforms: list[int], bits: int) -> list[int] | None:
    """Lattice points that the noisy value rounds to, or None while the known bits leave a choice."""
    last = (1 << bits) - 1
    if any(u in (0, last) for u in uniforms):
        return None  # the logarithm of an interval that touches 0, or the root of one that touches 0
    iv = _intervals(bits + 64)
    dimension = value.size
    unit = [iv.ldexp(iv.mpf([u, u + 1]), -bits) for u in uniforms]
    product = iv.mpf(1)
    for u in unit[:dimension]:
        product *= u
    normals = []
    for radius, angle in zip(unit[dimension::2], unit[dimension + 1 :: 2], strict=True):
        length, turn = iv.sqrt(-2 * iv.log(radius)), 2 * iv.pi * angle
        normals += [length * iv.cos(turn), length * iv.sin(turn)]
    squares = sum((z**2 for z in normals[:dimension]), iv.mpf(0))
    factor = -iv.log(product) * iv.mpf(scale) / iv.sqrt(squares)
    steps = []
    for centre, z in zip(value.tolist(), normals, strict=False):
        step = _floor(iv.ldexp(iv.mpf(centre) + factor * z, -exponent) + iv.mpf(0.5), 0)
        if step is None:
            return None
        steps.append(step)
    return steps


def _intervals(precision: int) -> Any:
    """Interval arithmetic with outward rounding: a context of this thread's own, never mpmath's global one."""
    from mpmath.ctx_iv import MPIntervalContext

    if not hasattr(_local, "iv"):
        _local.iv = MPIntervalContext()
    _local.iv.prec = precision
    return _local.iv


def _floor(interval: Any, bits: int) -> int | None:
    """floor(x * 2^bits) if it is the same for every x of the interval, else None."""
    ends = set()
    for sign, mantissa, exponent, _ in interval._mpi_:
        if mantissa == 0 and exponent != 0:
            return None  # infinite or undefined
        integer, shift = int(-mantissa if sign else mantissa), int(exponent) + bits
        ends.add(integer << shift if shift >= 0 else integer >> -shift)
    return ends.pop() if len(ends) == 1 else None
