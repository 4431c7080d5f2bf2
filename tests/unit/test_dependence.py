"""Scores, kernels and regressions against scipy, scikit-learn and plain oracles."""

from __future__ import annotations

import numpy as np
import pytest

from causalveil.schemas.errors import ConvergenceError, StudyError
from causalveil.tasks.estimate.papers.direction.scores import (
    CHUNK,
    PRECISION,
    Kernel,
    QuartileRange,
    fit,
    hsic,
    kendall,
    ranks,
    released_log,
    residuals,
    spearman,
    sum_of_squares,
)
from tests.direction_help import cause_and_effect

BANDWIDTHS = (0.02, 0.05, 0.2, 1.0, 10.0)


def gaussian(values: np.ndarray, bandwidth: float) -> np.ndarray:
    return np.exp(-(np.subtract.outer(values, values) ** 2) / (2 * bandwidth**2))


@pytest.mark.parametrize("bandwidth", BANDWIDTHS)
@pytest.mark.parametrize("radius", [1.0, 2.0])
def test_features_are_the_gaussian_kernel(bandwidth: float, radius: float) -> None:
    """To a quarter of what is charged for, at random values, at the ends and where values coincide; norm one."""
    values = np.concatenate([np.random.default_rng(0).uniform(-radius, radius, 300), [-radius, radius, 0.0, 0.0]])
    features = Kernel(bandwidth, radius).features(values)
    assert features.shape == (304, Kernel(bandwidth, radius).dimension)
    assert np.abs(features @ features.T - gaussian(values, bandwidth)).max() < PRECISION / 4
    assert np.abs((features**2).sum(axis=1) - 1).max() < 1e-14


def test_values_beyond_the_radius_are_clipped() -> None:
    kernel = Kernel(0.2, 1.0)
    assert np.array_equal(kernel.features(np.array([7.0, -9.0])), kernel.features(np.array([1.0, -1.0])))


def test_slope_bounds_the_kernel() -> None:
    steps = np.linspace(-40, 40, 1_000_001)
    for bandwidth in BANDWIDTHS:
        slopes = np.abs(np.diff(np.exp(-(steps**2) / (2 * bandwidth**2)))) / np.diff(steps)
        assert slopes.max() <= Kernel(bandwidth, 2.0).lipschitz < slopes.max() * 1.01


@pytest.mark.parametrize("bandwidth", [0.01, 11.0])
def test_bandwidth_out_of_range(bandwidth: float) -> None:
    with pytest.raises(StudyError, match="bandwidth"):
        Kernel(bandwidth, 1.0)


@pytest.mark.parametrize("penalty", [1e-5, 1e-3, 0.1, 1.0])
@pytest.mark.parametrize("bandwidth", [0.05, 0.2, 2.0])
def test_regression_is_kernel_ridge(penalty: float, bandwidth: float) -> None:
    """scikit-learn's, whose alpha is n penalty/2: with alpha = penalty the residuals would differ by tenths."""
    from sklearn.kernel_ridge import KernelRidge

    pairs, new = cause_and_effect(400), np.linspace(-1, 1, 301)
    for cause in (0, 1):
        ours = fit(lambda _: pairs, 1, cause, penalty, bandwidth).predict(new)
        model = KernelRidge(alpha=len(pairs) * penalty / 2, kernel="rbf", gamma=1 / (2 * bandwidth**2))
        theirs = model.fit(pairs[:, [cause]], pairs[:, 1 - cause]).predict(new[:, None])
        assert np.abs(ours - np.clip(theirs, -1, 1)).max() < 1e-7


def test_regression_does_not_depend_on_partitions() -> None:
    pairs = cause_and_effect(3 * CHUNK)
    whole = fit(lambda _: pairs, 1, 0, 0.01, 0.2)
    parts = np.array_split(pairs, [10, 10, 9_000])
    cut = fit(lambda index: parts[index], len(parts), 0, 0.01, 0.2, workers=2)
    assert np.abs(whole.weights - cut.weights).max() < 1e-10


def test_no_training_rows() -> None:
    with pytest.raises(ConvergenceError, match="no training units"):
        fit(lambda _: np.zeros((0, 2)), 1, 0, 0.1, 0.2)


def test_residuals_stay_in_range() -> None:
    train = np.array([[-1.0, 1.0], [1.0, -1.0]] * 50)
    found = residuals(train, -train, 1e-5, 0.02)
    assert all(np.abs(side).max() <= 2 for side in found)


@pytest.mark.parametrize("m", [3, 4, 5, 17, 200])
def test_ranks_against_scipy(m: int) -> None:
    from scipy.stats import kendalltau, spearmanr

    random = np.random.default_rng(m)
    for _ in range(20):
        a, b = random.normal(size=(2, m))
        assert spearman(a, b) == pytest.approx(abs(spearmanr(a, b).statistic), abs=1e-12)
        assert kendall(a, b) == pytest.approx(abs(kendalltau(a, b, method="exact").statistic), abs=1e-12)


def test_two_rows_have_one_pair() -> None:
    assert spearman(np.array([0.0, 1.0]), np.array([5.0, 3.0])) == 1
    assert kendall(np.array([0.0, 1.0]), np.array([5.0, 3.0])) == 1


def test_ties_are_broken_by_the_order_that_is_given() -> None:
    values = np.array([1.0, 0.0, 1.0, 0.0])
    assert ranks(values).tolist() == [2, 0, 3, 1]
    assert ranks(values, np.array([3, 2, 1, 0])).tolist() == [3, 1, 2, 0]
    a, b = np.zeros(500), np.zeros(500)
    order = np.random.default_rng(0).permutation(500)
    assert spearman(a, b) == 1, "one order for both looks like dependence"
    assert spearman(a, b, (None, order)) < 0.2


def test_spearman_is_exact_beyond_floats() -> None:
    """3e5 reversed rows: the sum of squares is 9e15, and the score is 1, not nearly 1."""
    rising = np.arange(300_000.0)
    assert spearman(rising, rising[::-1]) == 1.0


@pytest.mark.parametrize("m", [2, 33_000_000, 60_000_000, 10**9, 2**31])
def test_squares_of_ranks_that_differ_add_up_at_any_size(m: int) -> None:
    """A chunk's squares exceed 63 bits from 3.4e7 test rows on; a sum that wraps moves by 2^64 for one row."""
    assert sum_of_squares(np.full(CHUNK + 3, m - 1), m) == (CHUNK + 3) * (m - 1) ** 2


@pytest.mark.parametrize("m", [2, 3, 50, 400])
@pytest.mark.parametrize("bandwidths", [(0.2, 0.2), (0.05, 1.0)])
def test_hsic_against_the_trace(m: int, bandwidths: tuple[float, float]) -> None:
    random = np.random.default_rng(m)
    a, b = random.uniform(-1, 1, m), random.uniform(-2, 2, m)
    k, el, centre = gaussian(a, bandwidths[0]), gaussian(b, bandwidths[1]), np.eye(m) - 1 / m
    expected = np.trace(k @ centre @ el @ centre) / (m - 1) ** 2
    assert hsic(a, b, Kernel(bandwidths[0], 1.0), Kernel(bandwidths[1], 2.0)) == pytest.approx(expected, abs=1e-11)


def test_hsic_over_chunks_of_rows() -> None:
    """More rows than a chunk: the same as from the halves' own sums, here by repeating rows (means do not change)."""
    random = np.random.default_rng(5)
    a, b = random.uniform(-1, 1, (2, 900))
    kernels = Kernel(0.2, 1.0), Kernel(0.2, 2.0)
    copies = 20
    assert copies * 900 > 2 * CHUNK
    once, often = hsic(a, b, *kernels), hsic(np.tile(a, copies), np.tile(b, copies), *kernels)
    assert often * ((copies * 900 - 1) / (copies * 900)) ** 2 == pytest.approx(once * (899 / 900) ** 2, abs=1e-12)


def test_quartile_range() -> None:
    found = QuartileRange(np.arange(8.0))
    assert found.places == (1, 5)
    assert released_log(found.now) == pytest.approx(np.log(4))
