"""The law of the secure noise, on production randomness. No seed: nothing here can be made again.

Each check fails by chance with probability at most ALARM = 1e-10; there are about 20 of them. Each is shown to be
able to fail: it must reject a scale that is 30% too small or too large.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from causalveil.schemas.errors import CausalveilError
from causalveil.tasks.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from tests.audit import epsilon_lower_bound

ALARM = 1e-10
SCALE = 0.37
WRONG = (0.7, 1.3)
SECURE = SecureNoise()
SOURCES = [SecureNoise(), SeededNoise(20261121)]


def ks(sample: np.ndarray, law: stats.rv_continuous) -> float:
    return float(stats.kstest(sample, law.cdf).pvalue)


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.name)
@pytest.mark.parametrize(("draw", "law"), [("laplace", stats.laplace), ("gaussian", stats.norm)])
def test_scalar_noise_has_its_law_and_no_other(source: NoiseSource, draw: str, law) -> None:
    noise = getattr(source, draw)(np.full(20_000, 5.0), SCALE) - 5.0
    assert ks(noise, law(scale=SCALE)) > ALARM
    for factor in WRONG:
        assert ks(noise, law(scale=SCALE * factor)) < ALARM
    # iid: neighbouring coordinates of one vector draw, 20,000 pairs, |r| < 6.5/sqrt(n) but once in 1e10.
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 6.5 / np.sqrt(20_000)


@pytest.fixture(scope="module", params=SOURCES, ids=lambda s: s.name)
def l2_noise(request: pytest.FixtureRequest) -> np.ndarray:
    """5,000 draws in three dimensions around a fixed centre."""
    centre = np.array([1.0, -2.0, 0.5])
    return np.array([request.param.l2_laplace(centre, SCALE) - centre for _ in range(5_000)])


def test_l2_laplace_norm_is_gamma_and_no_other(l2_noise: np.ndarray) -> None:
    norms = np.linalg.norm(l2_noise, axis=1)
    assert ks(norms, stats.gamma(3, scale=SCALE)) > ALARM
    for factor in WRONG:
        assert ks(norms, stats.gamma(3, scale=SCALE * factor)) < ALARM
    assert ks(norms, stats.gamma(2, scale=SCALE)) < ALARM


def directions_p_value(noise: np.ndarray) -> float:
    """Smallest p of 8: on the sphere of R^3 a projection is uniform on [-1, 1] (Archimedes), caps have their area."""
    unit = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    axes = [np.array(a, dtype=float) for a in itertools.product([0, 1], repeat=3) if any(a)]
    projections = [ks(unit @ (a / np.linalg.norm(a)), stats.uniform(-1, 2)) for a in axes]
    near_axis = int((np.abs(unit).max(axis=1) > 0.9).sum())  # six disjoint caps: 3 (1 - 0.9)
    return min(*projections, stats.binomtest(near_axis, unit.shape[0], 0.3).pvalue)


def test_l2_laplace_direction_is_uniform(l2_noise: np.ndarray) -> None:
    assert directions_p_value(l2_noise) > ALARM
    norms = np.linalg.norm(l2_noise, axis=1)
    assert abs(stats.spearmanr(norms, l2_noise[:, 0] / norms).statistic) < 6.5 / np.sqrt(5_000)


def test_direction_check_rejects_coordinatewise_laplace() -> None:
    """What a careless implementation adds: an l1 ball's noise, which hugs the axes."""
    assert directions_p_value(np.random.default_rng(1).laplace(size=(5_000, 3))) < ALARM


@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_l2_laplace_in_other_dimensions(dimension: int) -> None:
    noise = np.array([SECURE.l2_laplace(np.zeros(dimension), SCALE) for _ in range(2_000)])
    assert ks(np.linalg.norm(noise, axis=1), stats.gamma(dimension, scale=SCALE)) > ALARM
    assert stats.binomtest(int((noise[:, -1] > 0).sum()), 2_000).pvalue > ALARM


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.name)
def test_randomised_response_keeps_at_its_rate(source: NoiseSource) -> None:
    n, keep = 200_000, 0.731
    for bit in (0, 1):
        kept = int((source.randomised_response(np.full(n, bit, np.uint8), keep) == bit).sum())
        assert stats.binomtest(kept, n, keep).pvalue > ALARM
        for factor in WRONG:
            assert stats.binomtest(kept, n, 1 - (1 - keep) * factor).pvalue < ALARM


# --- The precision attack (Mironov 2012) ---------------------------------------------------

LEVELS = range(20, 64)
RUNS, MANY_RUNS = 6_000, 30_000


def low_bits_attack(at_zero: np.ndarray, at_one: np.ndarray) -> float:
    """Largest epsilon shown by the events 'the output is no multiple of 2^-k'; false alarm 1e-9 over all k.

    Mantissas alone are looked at: a privacy of epsilon = 1 must hold for these events as for any other.
    """
    confidence = 1 - 1e-9 / len(LEVELS)

    def finer(x: np.ndarray, k: int) -> np.ndarray:
        return (np.ldexp(x, k) % 1 != 0).astype(float)

    return max(epsilon_lower_bound(finer(at_zero, k), finer(at_one, k), 0.0, confidence) for k in LEVELS)


@pytest.mark.parametrize("runs", [RUNS, pytest.param(MANY_RUNS, marks=pytest.mark.long)])
def test_low_bits_tell_nothing(runs: int) -> None:
    """Input 0 against input 1 at scale 1: Laplace and its lattice relatives are 1-DP down to the last bit.

    With 6,000 runs an event that only one input can cause is seen if it has one in twenty of that input's runs; with
    30,000, one in ninety. NumPy's has a quarter.
    """
    zeros, ones = np.zeros(runs), np.ones(runs)
    assert low_bits_attack(SECURE.laplace(zeros, 1.0), SECURE.laplace(ones, 1.0)) <= 1
    step = 2.0**-20
    pair = SECURE.lattice_laplace(zeros, 1.0, step), SECURE.lattice_laplace(ones, 1.0, step)
    assert low_bits_attack(*pair) <= 1
    few = [np.concatenate([SECURE.l2_laplace(np.array([v]), 1.0) for _ in range(2_000)]) for v in (0.0, 1.0)]
    assert low_bits_attack(*few) <= 1
    # Gaussian, sigma 4.23 at (1, 1e-6): delta is far below what so many runs resolve, so none is given away here.
    assert low_bits_attack(SECURE.gaussian(zeros, 4.23), SECURE.gaussian(ones, 4.23)) <= 1


@pytest.mark.parametrize(("runs", "shown"), [(RUNS, 2), (MANY_RUNS, 4)])
@pytest.mark.parametrize("draw", ["laplace", "gaussian"])
def test_low_bits_attack_breaks_numpy(draw: str, runs: int, shown: float) -> None:
    """The test of the test: in plain floats no output for input 1 is finer than 2^-53, a quarter for input 0 is."""
    naive = SeededNoise(3)
    pair = [getattr(naive, draw)(np.full(runs, v), 1.0) for v in (0.0, 1.0)]
    assert low_bits_attack(*pair) > shown


def test_outputs_of_lattice_samplers_lie_on_their_lattice() -> None:
    out = SECURE.lattice_laplace(np.linspace(-1, 1, 1000), 0.3, 2.0**-10)
    assert np.all(np.ldexp(out, 10) % 1 == 0)
    out = SECURE.l2_laplace(np.array([1 / 3, -2 / 7]), 0.3)  # 2^-2 <= 0.3 < 2^-1
    assert np.all(np.ldexp(out, 42) % 1 == 0)


# --- Refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.name)
@pytest.mark.parametrize("draw", ["laplace", "gaussian", "l2_laplace", "lattice_laplace"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1.7e308, 1.23456e301])
def test_bad_values_are_refused_and_not_quoted(source: NoiseSource, draw: str, bad: float) -> None:
    extra = (2.0**-20,) if draw == "lattice_laplace" else ()
    with pytest.raises(CausalveilError) as refusal:
        getattr(source, draw)(np.array([0.5, bad]), 1.0, *extra)
    assert "23456" not in str(refusal.value)
    assert "nan" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.name)
@pytest.mark.parametrize("draw", ["laplace", "gaussian", "l2_laplace", "lattice_laplace"])
@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, 1e-300, 1e300])
def test_bad_scales_are_refused(source: NoiseSource, draw: str, scale: float) -> None:
    extra = (2.0**-20,) if draw == "lattice_laplace" else ()
    with pytest.raises(CausalveilError):
        getattr(source, draw)(np.array([0.5]), scale, *extra)


@pytest.mark.parametrize("shape", [(), (0,), (2, 2)])
def test_only_vectors_are_noised(shape: tuple[int, ...]) -> None:
    for draw in (SECURE.laplace, SECURE.gaussian, SECURE.l2_laplace):
        with pytest.raises(CausalveilError):
            draw(np.zeros(shape), 1.0)


@pytest.mark.parametrize("draw", ["laplace", "gaussian", "l2_laplace"])
def test_seed_decides_seeded_noise_and_nothing_decides_secure_noise(draw: str) -> None:
    value = np.zeros(3)
    again = [getattr(SeededNoise(7), draw)(value, 1.0) for _ in range(2)]
    assert np.array_equal(*again)
    secure = [getattr(SECURE, draw)(value, 1.0) for _ in range(2)]
    assert not np.array_equal(*secure)
    assert np.array_equal(value, np.zeros(3))


def test_one_draw_for_each_coordinate() -> None:
    """A peer's bug: one scalar draw shared by all coefficients."""
    for draw in (SECURE.laplace, SECURE.gaussian, SECURE.l2_laplace):
        assert np.unique(draw(np.zeros(8), 1.0)).size == 8
