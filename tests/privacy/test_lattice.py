"""The lattice samplers: exact by oracle, right in law on production randomness.

Statistical checks fail by chance with probability at most ALARM each; sizes stand with them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath.ctx_mp import MPContext
from scipy import stats

from causalveil.schemas.errors import CausalveilError
from causalveil.tasks.privacy import lattice

ALARM = 1e-10


def scripted(*pieces: bytes) -> Callable[[int], bytes]:
    """A source that returns the given pieces, each asked for at its exact length."""
    queue = list(pieces)

    def read(count: int) -> bytes:
        piece = queue.pop(0)
        assert len(piece) == count
        return piece

    return read


# --- Coins: exact ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 8, 72, 136, 1000])
@pytest.mark.parametrize("x", [Fraction(1, 1 << 44), Fraction(3, 7), Fraction(12), Fraction(1024)])
def test_digits_are_those_of_the_number(x: Fraction, bits: int) -> None:
    """Against mpmath's ordinary arithmetic at 6,000 bits."""
    mp = MPContext()
    mp.prec = 6_000
    ratio = mp.mpf(x.numerator) / x.denominator
    assert lattice.logistic(x)(bits) == int(mp.floor(mp.ldexp(1 / (1 + mp.exp(ratio)), bits)))
    assert lattice.decay(x)(bits) == int(mp.floor(mp.ldexp(mp.exp(-ratio), bits)))


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.731, 1 - 2.0**-53])
def test_digits_of_a_float_end(keep: float) -> None:
    assert lattice.dyadic(keep)(8) == int(keep * 256)
    assert Fraction(lattice.dyadic(keep)(200), 1 << 200) == Fraction(keep)


@given(level=st.integers(0, 3), offset=st.integers(-3, 3), x=st.fractions(Fraction(1, 1000), 5))
@settings(max_examples=200, deadline=None)
def test_a_flip_compares_as_many_digits_as_it_takes(level: int, offset: int, x: Fraction) -> None:
    """Bytes that agree with the coin's own digits up to ``level`` and then differ by ``offset``: U < p decides."""
    coin = lattice.logistic(x)
    known = 8 + 64 * level
    uniform = coin(known) + offset
    if not 0 <= uniform < 1 << known:
        return
    tie = bytes(1 << 10)  # zeros: what follows when all known digits agree; the coin's next 64 are not all zero
    words = [(uniform >> (known - 8 - 64 * (k + 1))) & ((1 << 64) - 1) for k in range(level)]
    pieces = [bytes([uniform >> (known - 8)]), *(np.array([w], np.uint64).tobytes() for w in words), tie[:8]]
    result = lattice.flip(coin, 1, scripted(*pieces))
    assert result.tolist() == [uniform <= coin(known)]


def test_ties_of_many_flips_go_to_their_own_places() -> None:
    coin = lattice.dyadic(0.5 + 2.0**-20)  # 1000 0000 | 0000 0000 0001 ...
    first = bytes([128, 0, 128, 255, 128, 127, 129])
    words = np.array([0, 1 << 63, 1 << 51], np.uint64).tobytes()  # the coin's next word is 2^52
    expected = [True, True, False, False, True, True, False]
    assert lattice.flip(coin, 7, scripted(first, words)).tolist() == expected


# --- Discrete Laplace --------------------------------------------------------------------------------------------


def chi_square_p(sample: np.ndarray, rate: float) -> float:
    """Against P(k) = tanh(rate/2) exp(-rate |k|), cells of expected count 20 or more, tails pooled."""
    n, reach = sample.size, 0
    while n * np.tanh(rate / 2) * np.exp(-rate * (reach + 1)) > 20:
        reach += 1
    k = np.arange(-reach, reach + 1)
    pmf = np.tanh(rate / 2) * np.exp(-rate * np.abs(k))
    tail = np.exp(-rate * (reach + 1)) / (1 + np.exp(-rate))  # P(X > reach)
    counts = [np.sum(sample < -reach), *np.bincount((sample[np.abs(sample) <= reach] + reach), minlength=k.size)]
    counts.append(np.sum(sample > reach))
    return float(stats.chisquare(counts, n * np.array([tail, *pmf, tail]), sum_check=False).pvalue)


@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(13)])
def test_discrete_laplace_has_its_law_and_no_other(rate: Fraction) -> None:
    """400,000 draws; from a hundred cells wide to nearly always 0 (no binary digits, the tail alone)."""
    sample = lattice.discrete_laplace(400_000, rate, os.urandom)
    assert chi_square_p(sample, float(rate)) > ALARM
    if rate < 10:
        for factor in (0.7, 1.3):
            assert chi_square_p(sample, float(rate) / factor) < ALARM


def test_fine_lattice_looks_continuous_and_its_low_digits_fair() -> None:
    """1,000,000 draws at step 2^-20: KS on the whole, chi-square on the lowest eight digits of each sign."""
    noise = lattice.add_lattice_laplace(np.zeros(1_000_000), 1.0, 2.0**-20, os.urandom)
    assert stats.kstest(noise, stats.laplace.cdf).pvalue > ALARM
    for factor in (0.7, 1.3):
        assert stats.kstest(noise, stats.laplace(scale=factor).cdf).pvalue < ALARM
    steps = np.ldexp(noise, 20).astype(np.int64)
    for half in (steps[steps > 0], -steps[steps < 0]):
        assert stats.chisquare(np.bincount(half & 255, minlength=256)).pvalue > ALARM


def test_the_tail_above_the_digits_is_reached() -> None:
    """Bytes that make the first ``above`` coin come up heads twice: X = 2 * 2^K, no digit set, sign +."""
    rate = Fraction(1)  # K = 4 digits, tail exp(-16) = 0.000...
    zero, ones = bytes(8), bytes([255])
    one_word = b"\xff" * 8
    bytes_ = [b"\0", zero, b"\0", zero, b"\0", one_word]  # tail: heads, heads, tails
    bytes_ += [ones] * 4 + [ones]  # digits and sign: all tails
    assert lattice.discrete_laplace(1, rate, scripted(*bytes_)).tolist() == [32]
    bytes_[-1] = b"\0"  # sign: heads, the complement
    assert lattice.discrete_laplace(1, rate, scripted(*bytes_)).tolist() == [-33]


def test_chunks_are_independent_and_the_length_is_kept() -> None:
    for count in (0, 1, lattice.CHUNK - 1, lattice.CHUNK, 2 * lattice.CHUNK + 3):
        assert lattice.discrete_laplace(count, Fraction(1, 4), os.urandom).shape == (count,)
    sample = lattice.discrete_laplace(2 * lattice.CHUNK, Fraction(1, 1 << 20), os.urandom)
    assert np.mean(sample[: lattice.CHUNK] == sample[lattice.CHUNK :]) < 0.001


@given(
    sensitivity=st.floats(1e-6, 1e6),
    exponent=st.integers(-30, 3),
    centre=st.floats(-100, 100),
    share=st.floats(-1, 1),
)
@settings(max_examples=500, deadline=None)
def test_rounding_parts_two_values_by_one_step_more_at_most(sensitivity, exponent, centre, share) -> None:
    """The integer sensitivity that ``LatticeLaplace`` calibrates to; the noise is taken away by a scripted source."""
    step = 2.0 ** (np.frexp(sensitivity)[1] - 1 + exponent)
    left = sensitivity * centre
    right = left + sensitivity * share
    moved = Fraction(right) - Fraction(left)
    if abs(moved) > Fraction(sensitivity):
        return  # the float sum overshot: no neighbouring pair
    steps = np.rint(np.array([left, right]) / step)
    assert abs(int(steps[1]) - int(steps[0])) <= Fraction(sensitivity) // Fraction(step) + 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, 2.0**50 * 1.01])
def test_values_off_the_lattice_are_refused(bad: float) -> None:
    with pytest.raises(CausalveilError):
        lattice.add_lattice_laplace(np.array([0.0, bad]), 8.0, 1.0, os.urandom)


@pytest.mark.parametrize(("scale", "step"), [(1.0, 0.3), (1.0, 2.0**-45), (1.0, 2.0**11), (1.0, 0.0), (1.0, -0.5)])
def test_lattices_that_do_not_suit_are_refused(scale: float, step: float) -> None:
    with pytest.raises(CausalveilError):
        lattice.add_lattice_laplace(np.zeros(2), scale, step, os.urandom)


def test_randomised_response_takes_bits_only() -> None:
    with pytest.raises(CausalveilError):
        lattice.flip_bits(np.array([0, 2], np.uint8), 0.7, os.urandom)
    with pytest.raises(CausalveilError):
        lattice.flip_bits(np.array([0, 1], np.uint8), 1.0, os.urandom)


# --- L2-Laplace: the oracle --------------------------------------------------------------------------------------


def plain_l2_laplace(value: np.ndarray, scale: float, stream: list[int], bits: int) -> list[Fraction]:
    """The textbook in 4,000-bit floats: same uniforms, no intervals, one rounding."""
    with mpmath.workprec(4_000):
        d = value.size
        u = [mpmath.ldexp(mpmath.mpf(2 * word + 1), -bits - 1) for word in stream]
        norm = sum(-mpmath.log(x) for x in u[:d]) * mpmath.mpf(scale)
        z = []
        for radius, angle in zip(u[d::2], u[d + 1 :: 2], strict=True):
            r, turn = mpmath.sqrt(-2 * mpmath.log(radius)), 2 * mpmath.pi * angle
            z += [r * mpmath.cos(turn), r * mpmath.sin(turn)]
        length = mpmath.sqrt(sum(x * x for x in z[:d]))
        step = mpmath.mpf(2) ** (mpmath.floor(mpmath.log(mpmath.mpf(scale), 2)) - 40)
        points = [
            mpmath.floor((mpmath.mpf(v) + norm * x / length) / step + 0.5) for v, x in zip(value, z, strict=False)
        ]
        exponent = int(mpmath.log(step, 2))
        return [Fraction(int(p)) * Fraction(2) ** exponent for p in points]


@pytest.mark.parametrize("dimension", [1, 2, 3, 7])
@pytest.mark.parametrize("scale", [1.0, 0.3, 1e-9, 12345.678])
def test_l2_laplace_equals_the_textbook_on_the_same_bits(dimension: int, scale: float) -> None:
    rng = np.random.default_rng([dimension, int(scale)])
    for _ in range(5):
        value = rng.normal(size=dimension) * 10
        pieces = [rng.bytes(32) for _ in range(dimension + 2 * ((dimension + 1) // 2))]
        got = lattice.add_l2_laplace(value, scale, scripted(*pieces))
        words = [int.from_bytes(piece, "big") for piece in pieces]
        assert got.tolist() == [float(x) for x in plain_l2_laplace(value, scale, words, 256)]


def test_l2_laplace_reads_on_when_its_bits_leave_a_choice() -> None:
    """A first uniform of 256 zeros may be anything below 2^-256: the sampler must ask for more bits of each."""
    rng = np.random.default_rng(8)
    first = [bytes(32), *(rng.bytes(32) for _ in range(3))]
    second = [rng.bytes(32) for _ in range(4)]
    got = lattice.add_l2_laplace(np.zeros(2), 1.0, scripted(*first, *second))
    words = [int.from_bytes(a + b, "big") for a, b in zip(first, second, strict=True)]
    assert got.tolist() == [float(x) for x in plain_l2_laplace(np.zeros(2), 1.0, words, 512)]


def test_l2_laplace_works_far_from_the_origin() -> None:
    """A value 2^330 lattice steps out: the result is still the nearest float of an exact lattice point."""
    got = lattice.add_l2_laplace(np.array([1e90, -1e90]), 1e-9, os.urandom)
    assert got.tolist() == [1e90, -1e90]
