"""Quantiles of every noise, and an interval that is never empty, negative or outside the declared range."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import gamma as gamma_function
from scipy.special import ndtri
from scipy.stats import beta as beta_distribution

from causalveil.schemas.limits import Code
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.interval import Estimate, Noise, allowance, assemble, least_coverage
from causalveil.tasks.estimate.papers.ipw import weights
from causalveil.tasks.estimate.papers.ipw.interval import FLOOR_DEVIATIONS, findings
from tests.ipw_help import ESTIMANDS, make_study, random_rows
from tests.limits import codes

W = np.array([1.0, -0.5, 0.5, 0.2])


def radial_tail(distance: float, d: int) -> float:
    """P(b_1 > distance) for density exp(-||b||), by radius ~ Gamma(d) and a uniform direction: another route."""

    def integrand(radius: float) -> float:
        share = beta_distribution.sf((distance / radius) ** 2, 0.5, (d - 1) / 2) / 2
        return float(share * radius ** (d - 1) * math.exp(-radius) / gamma_function(d))

    return quad(integrand, distance, 200 + distance, limit=500)[0]


@pytest.mark.parametrize("d", [2, 6, 10, 25])
@pytest.mark.parametrize("tail", [0.2, 0.025, 0.005, 0.0005])
def test_l2_laplace_quantiles_agree_with_radius_and_direction(d: int, tail: float) -> None:
    distance = Noise(1.0, (d + 1) / 2).quantile(tail)
    assert radial_tail(distance, d) == pytest.approx(tail, rel=2e-3)
    assert Noise(1.0, (d + 1) / 2).deviation == pytest.approx(math.sqrt(d + 1))


def test_one_dimension_is_the_laplace_distribution() -> None:
    for tail in (0.3, 0.05, 0.001):
        assert Noise(2.0, 1.0).quantile(tail) == pytest.approx(2 * math.log(1 / (2 * tail)), rel=2e-3)


@pytest.mark.parametrize("mixing", [None, 1.5, 5.5])
def test_sampling_error_and_noise_together(mixing: float | None) -> None:
    """Against 2e6 seeded draws; the Monte-Carlo error of a share of 0.025 is 1.1e-4."""
    random = np.random.default_rng(1)
    spread = 1.5 if mixing is None else np.sqrt(random.gamma(mixing, 2 * 1.5**2, 2_000_000))
    error = random.normal(0, 2, 2_000_000) + 0.7 * spread * random.normal(0, 1, 2_000_000)
    distance = Noise(1.5, mixing).quantile(0.025, 4.0, 0.7)
    assert np.mean(error > distance) == pytest.approx(0.025, abs=5e-4)


def test_gaussian_quantiles_are_exact() -> None:
    assert Noise(3.0).quantile(0.025, 16.0, 1.0) == pytest.approx(-5 * ndtri(0.025))
    assert Noise(0.0).quantile(0.025, 4.0) == pytest.approx(-2 * ndtri(0.025))
    assert Noise(0.0).quantile(0.025) == 0.0


@settings(max_examples=200, deadline=None)
@given(
    st.floats(-50, 50),
    st.floats(-5, 5),
    st.floats(0, 100),
    st.floats(0, 10),
    st.booleans(),
    st.sampled_from([Noise(0.0), Noise(2.0), Noise(0.5, 5.5)]),
    st.sampled_from([0.5, 0.9, 0.95, 0.9999]),
)
def test_assembled_intervals_are_sane(
    value: float,
    variance: float,
    noise_factor: float,
    variance_noise: float,
    drowned: bool,
    noise: Noise,
    confidence: float,
) -> None:
    estimate = Estimate(value, variance, noise_factor, variance_noise, drowned)
    point, interval, spread, upper = assemble(estimate, noise, confidence, (-10.0, 10.0))
    assert -10 <= interval.lower <= point <= interval.upper <= 10
    assert spread.sampling >= 0
    assert spread.noise >= 0
    assert upper >= spread.sampling
    assert interval.whole_range == ((interval.lower, interval.upper) == (-10, 10))
    assert interval.whole_range or not drowned
    free, open_interval, _, _ = assemble(estimate, noise, confidence, None)
    assert free == value
    assert not open_interval.whole_range
    # Without bounds the interval is the same around the same kind of centre.
    assert open_interval.upper - open_interval.lower >= interval.upper - interval.lower - 1e-9 or drowned


def test_the_noise_of_the_variance_widens_the_interval() -> None:
    plain = assemble(Estimate(0, 1.0, 1.0, 0.0), Noise(1.0), 0.95, None)[1]
    wider = assemble(Estimate(0, 1.0, 1.0, 1.0), Noise(1.0), 0.95, None)[1]
    assert plain.upper == pytest.approx(-ndtri(0.025) * math.sqrt(2))
    upper = 1 - ndtri(0.005)
    assert wider.upper == pytest.approx(-ndtri(0.0225) * math.sqrt(1 + upper))


def exact_findings(study: object, rows: Rows) -> tuple[object, np.ndarray]:
    sums = weights.exact_sums(study, lambda _: rows, 1, len(rows), W)
    sizes = sizes_of(study, len(rows)).model_copy(update={"estimation": len(rows)})
    return findings(study, sizes, sums), sums


def scores(rows: Rows) -> np.ndarray:
    return np.clip(1 / (1 + np.exp(-rows.x @ W)), 0.1, 0.9)


@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize("level", ["sample", "training_units"])
def test_without_noise_hajek_is_the_difference_of_weighted_means(estimand: str, level: str) -> None:
    study, rows = make_study(estimand=estimand, level=level), random_rows(20_000, 4, 1)
    found, _ = exact_findings(study, rows)
    weight = weights.weights(study.estimand, scores(rows), rows.t)
    y, treated = 5 + 5 * rows.u, rows.t == 1
    means = [np.average(y[arm], weights=weight[arm]) for arm in (treated, ~treated)]
    assert found.estimate == pytest.approx(means[0] - means[1], abs=1e-6)
    details = found.details
    assert [details["mean_treated"], details["mean_control"]] == pytest.approx(means, abs=1e-6)
    influence = sum(
        np.sum(weight[arm] ** 2 * (y[arm] - mean) ** 2) / weight[arm].sum() ** 2
        for arm, mean in zip((treated, ~treated), means, strict=True)
    )
    assert found.variance.sampling == pytest.approx(influence, rel=1e-4)


@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize("level", ["sample", "training_units"])
@pytest.mark.parametrize("lower", [0, -7, 3])
def test_without_noise_horvitz_thompson_is_the_mean_of_contributions(estimand: str, level: str, lower: float) -> None:
    outcome = {"lower": lower, "upper": lower + 10}
    study = make_study(estimand=estimand, level=level, weighting="horvitz_thompson", outcome=outcome)
    rows = random_rows(20_000, 4, 1)
    found, _ = exact_findings(study, rows)
    weight = weights.weights(study.estimand, scores(rows), rows.t)
    contribution = np.where(rows.t == 1, 1, -1) * weight * (lower + 5 + 5 * rows.u)
    expected = np.clip(contribution.mean(), -10, 10)
    assert found.estimate == pytest.approx(expected, abs=1e-5)
    assert found.variance.sampling == pytest.approx(contribution.var() / 20_000, rel=1e-4)


@pytest.mark.parametrize("weighting", ["hajek", "horvitz_thompson"])
def test_the_declared_noise_error_is_that_of_repeated_releases(weighting: str) -> None:
    """4000 seeded releases; the Monte-Carlo error of a standard deviation is 1.1%, the delta method's below 1%."""
    study, rows = make_study(weighting=weighting, delta="1e-6"), random_rows(60_000, 4, 2)
    found, sums = exact_findings(study, rows)
    sizes = sizes_of(study, len(rows)).model_copy(update={"estimation": len(rows)})
    mechanism = weights.mechanism(study, sizes)
    assert mechanism is not None
    random, estimates, uppers = np.random.default_rng(3), [], []
    for _ in range(4000):
        result = findings(study, sizes, sums + random.normal(0, mechanism.noise_scale, len(sums)))
        estimates.append(result.estimate)
        uppers.append(result.details["sampling_standard_error_upper"])
    error = found.details["noise_standard_error"]
    assert np.std(estimates) == pytest.approx(error, rel=0.05)
    # The bound on the sampling variance is to fail 0.5% of the time: 20 of 4000, standard deviation 4.5.
    failures = np.sum(np.array(uppers) < math.sqrt(found.variance.sampling))
    assert 4 <= failures <= 40


def test_an_empty_or_drowned_arm_gives_the_whole_range() -> None:
    for level in ("sample", "training_units"):
        study = make_study(level=level)
        rows = random_rows(300, 4, 3)
        empty = Rows(rows.x, np.zeros(300, np.uint8), rows.u)
        found, _ = exact_findings(study, empty)
        interval = found.interval
        assert (interval.lower, interval.upper) == (-10, 10)
        assert interval.whole_range
        assert found.details["denominator_clamped"]
        assert found.variance.noise >= 100


def test_negative_noisy_numbers_do_no_harm() -> None:
    for changes in ({}, {"weighting": "horvitz_thompson"}, {"delta": 0}):
        study = make_study(**changes)
        sizes = sizes_of(study, 4000)
        count = len(weights.statistic_names(study))
        for statistics in (np.full(count, -1e6), np.full(count, 1e6), np.zeros(count), np.arange(count) - 3e3):
            found = findings(study, sizes, statistics)
            assert -10 <= found.interval.lower <= found.estimate <= found.interval.upper <= 10
            assert found.variance.sampling >= 0
            assert all(math.isfinite(v) for v in found.details.values() if isinstance(v, float))


def test_the_papers_estimate_is_not_projected() -> None:
    study = make_study(variant="paper", weighting="horvitz_thompson", epsilon="0.5")
    found = findings(study, sizes_of(study, 100), np.array([40.0, 30.0]))
    assert found.estimate == pytest.approx(40 * 100 / 50)
    assert found.interval.lower < found.estimate < found.interval.upper
    assert not found.interval.whole_range


def test_what_an_interval_covers_is_said() -> None:
    rows = random_rows(5000, 4, 1)
    noisy, _ = exact_findings(make_study(), rows)
    exact, _ = exact_findings(make_study(level="training_units"), rows)
    left = Code.confounding_of_prior
    assert codes(noisy.interval.covers) == ["sampling", "noise_of_estimate", "noise_of_variance", left]
    assert codes(exact.interval.covers) == ["sampling", left]
    assert exact.variance.noise == 0
    assert codes(noisy.not_covered) == [Code.beyond_prior]
    assert FLOOR_DEVIATIONS >= 3


# The computed allowance against simulation, and against the union bound that it replaces.
@pytest.mark.parametrize("ratio", [0.03, 0.3, 3.0])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_simulated_coverage_is_nominal_where_it_is_least(ratio: float, confidence: float) -> None:
    """200,000 runs at 4 sampling variances: Monte-Carlo error 0.09%; seed 1; alarm at 4 of its deviations."""
    random, z = np.random.default_rng(1), -ndtri((1 - confidence) / 2)
    a, least = allowance(ratio, confidence), 1.0
    for true in (0.0, 0.5, 1.0, 3.0):
        noisy = np.maximum(true + random.normal(size=200_000), 0)
        error = random.normal(size=200_000) * math.sqrt(1 / ratio + true)
        covered = np.mean(np.abs(error) <= z * np.sqrt(1 / ratio + noisy + a))
        least = min(least, covered)
    assert least >= confidence - 4 * 0.0009
    assert least <= confidence + 0.03


def test_less_would_not_do_and_none_is_needed_without_noise() -> None:
    for ratio in (0.03, 1.0):
        quantile = -ndtri(0.025)
        assert least_coverage(allowance(ratio, 0.95), ratio, quantile) >= 0.95
        assert least_coverage(0.5 * allowance(ratio, 0.95), ratio, quantile) < 0.95
    assert allowance(0.0, 0.95) == 0


def test_the_allowance_is_narrower_than_the_union_bound() -> None:
    noise = Noise(1.0)
    for variance_noise in (0.02, 0.5, 5.0):
        common = {"value": 0.0, "variance": 0.5, "noise": 1.0, "variance_noise": variance_noise}
        union = assemble(Estimate(**common), noise, 0.95, None)[1]
        computed = assemble(Estimate(**common, allowance=allowance(variance_noise, 0.95)), noise, 0.95, None)[1]
        plain = assemble(Estimate(**common | {"variance_noise": 0.0}), noise, 0.95, None)[1]
        assert plain.upper <= computed.upper < union.upper
