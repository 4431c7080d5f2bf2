"""What is said before a row is read: against simulation, and against the papers' formulas as corrected."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from causalveil.tasks.enclave.sizes import sizes_of
from causalveil.tasks.ipw import expected as ipw_expected
from causalveil.tasks.ipw import perturb, weights
from causalveil.tasks.ipw.interval import adjustment_share, findings
from causalveil.tasks.models import logistic
from tests.ipw_help import ESTIMANDS, make_study

PAPER = {"variant": "paper", "weighting": "horvitz_thompson", "epsilon": "0.5"}
VARIANTS = (
    {},
    {"estimand": "ATT"},
    {"estimand": "ATC"},
    {"weighting": "horvitz_thompson"},
    {"weighting": "horvitz_thompson", "estimand": "ATT"},
    {"weighting": "horvitz_thompson", "outcome": {"lower": -3, "upper": 9}},
    {"level": "label"},
    {"level": "label", "weighting": "horvitz_thompson", "estimand": "ATC"},
    {"level": "training_units"},
    {"delta": 0},
    PAPER,
)


@pytest.mark.parametrize("changes", VARIANTS)
def test_expected_sums_are_those_of_the_stand_in_population(changes: dict[str, object]) -> None:
    """A population of four kinds of unit whose arms have the declared middle and deviation, all scores 0.3."""
    study = make_study(**changes)
    stand_in = ipw_expected.StandIn(treated=0.3, deviation=2.0)
    n, half = 1000, study.outcome.width / 2
    sizes = sizes_of(study, n).model_copy(update={"estimation": n})
    t = np.repeat([1, 1, 0, 0], [150, 150, 350, 350]).astype(np.uint8)
    u = np.where(np.arange(n) % 2 == 0, 2.0, -2.0) / half
    rows = weights.Rows(np.full((n, 1), 1.0), t, u)
    w = np.array([math.log(0.3 / 0.7)])
    exact = weights.exact_sums(study, lambda _: rows, 1, n, w)
    np.testing.assert_allclose(ipw_expected.expected_statistics(study, sizes, stand_in), exact, atol=1e-5)


@pytest.mark.parametrize("changes", VARIANTS)
def test_wider_with_less_budget_and_fewer_units(changes: dict[str, object]) -> None:
    study = make_study(**changes)
    half = [ipw_expected.expected(study, sizes_of(study, n)).half_width for n in (2_000, 20_000, 200_000)]
    assert half[0] > half[1] > half[2]
    if changes.get("level") != "training_units":
        frugal = make_study(**{**changes, "epsilon": "0.1"})
        assert ipw_expected.expected(frugal, sizes_of(frugal, 20_000)).half_width > half[1]


def test_the_expected_half_width_is_that_of_releases() -> None:
    """The mean of 2000 seeded releases of the stand-in population; its Monte-Carlo error is below 0.5 %."""
    study = make_study()
    sizes = sizes_of(study, 20_000)
    mechanism, sums = perturb.mechanism(study, sizes), ipw_expected.expected_statistics(study, sizes)
    assert mechanism is not None
    random = np.random.default_rng(0)
    widths = []
    for _ in range(2000):
        found = findings(study, sizes, sums + random.normal(0, mechanism.noise_scale, 10))
        widths.append(found.interval.upper - found.interval.lower)
    assert ipw_expected.expected(study, sizes).half_width == pytest.approx(np.mean(widths) / 2, rel=0.02)


def test_the_wrong_sign_is_as_frequent_as_said() -> None:
    study, effect = make_study(), 0.5
    sizes = sizes_of(study, 3_000)
    found, mechanism = ipw_expected.expected_findings(study, sizes), perturb.mechanism(study, sizes)
    assert mechanism is not None
    sums = ipw_expected.expected_statistics(study, sizes)
    sums[0] += effect / (study.outcome.width / 2) * sums[1]
    random = np.random.default_rng(1)
    estimates = [
        findings(study, sizes, sums + random.normal(0, mechanism.noise_scale, 10)).estimate
        + random.normal(0, math.sqrt(found.variance.sampling))
        for _ in range(4000)
    ]
    # Monte-Carlo error of the share: 0.7 %.
    assert np.mean(np.array(estimates) < 0) == pytest.approx(ipw_expected.sign_wrong(study, sizes, effect), abs=0.025)


def test_a_drowned_effect_is_said_to_be_and_how_many_units_would_do() -> None:
    study = make_study(outcome={"lower": 0, "upper": 60_000})
    verdict = ipw_expected.drowned(study, sizes_of(study, 445), 1800)
    assert verdict.drowned
    assert verdict.sign_wrong > 0.4
    assert verdict.units_needed is not None
    assert f"{verdict.units_needed:,} units" in verdict.message
    assert "drown" in verdict.message
    enough = ipw_expected.drowned(study, sizes_of(study, verdict.units_needed), 1800)
    assert not enough.drowned
    assert ipw_expected.drowned(study, sizes_of(study, int(verdict.units_needed * 0.97)), 1800).drowned
    assert ipw_expected.units_needed(study, 0.0) is None


def test_the_penalty_takes_most_of_the_adjustment_at_the_default() -> None:
    study = make_study()
    shares = [adjustment_share(make_study(penalty=penalty)) for penalty in (1e-4, 1e-2, 0.1, 1)]
    assert shares == sorted(shares, reverse=True)
    # Ridge regression on covariates uniform over their ranges, fitted: the same share within a tenth.
    random = np.random.default_rng(2)
    columns = len(study.covariates)
    x = np.column_stack([random.uniform(-1, 1, (100_000, columns)), np.ones(100_000)]) / math.sqrt(columns + 1)
    truth = np.array([0.5, -0.5, 0.0])
    t = (random.random(100_000) < 1 / (1 + np.exp(-x @ truth))).astype(np.uint8)
    rows = logistic.Rows(x, t, np.zeros(100_000))
    for penalty in (1e-2, 0.1):
        w = logistic.fit(lambda _: rows, 1, 100_000, penalty)
        expected = adjustment_share(make_study(penalty=penalty))
        assert (w[0] - w[1]) == pytest.approx(expected, rel=0.1)


def stand_in_table(n: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(4)
    x = random.uniform(-1, 1, (n, 3)) / math.sqrt(3)
    return x, (random.random(n) < 0.5).astype(np.uint8), random.uniform(-2, 5, n), np.array([1.0, -0.5, 0.3])


def raw_ipw(x: np.ndarray, t: np.ndarray, y: np.ndarray, w: np.ndarray, estimand: str) -> np.ndarray:
    """Unclipped estimates for each row of w, shape (draws,), as the paper writes them."""
    odds_against = np.exp(-(w @ x.T))
    treated = {"ATE": 1 + odds_against, "ATT": np.ones_like(odds_against), "ATC": odds_against}[estimand]
    control = {"ATE": 1 + 1 / odds_against, "ATT": 1 / odds_against, "ATC": np.ones_like(odds_against)}[estimand]
    return np.mean(np.where(t == 1, treated, -control) * y, axis=1)


@pytest.mark.parametrize("estimand", ESTIMANDS)
def test_lemma_3_in_corrected_form_is_the_bias_of_simulated_noise(estimand: str) -> None:
    """400,000 draws at s = 1; the printed formula, with (-1)^t in the exponential, is off by many errors."""
    x, t, y, w = stand_in_table()
    s, draws = 1.0, 400_000
    random = np.random.default_rng(5)
    noisy = raw_ipw(x, t, y, w + random.normal(0, s, (draws, 3)), estimand)
    bias = float(np.mean(noisy)) - float(raw_ipw(x, t, y, w[None], estimand)[0])
    error = float(np.std(noisy)) / math.sqrt(draws)
    found = ipw_expected.lemma3_bias(x, t, y, w, s, make_study(estimand=estimand).estimand)
    assert abs(found - bias) <= 4 * error
    sign = np.where(t == 1, 1.0, -1.0)
    counted = {"ATE": np.ones(40), "ATT": 1.0 - t, "ATC": 1.0 * t}[estimand]
    alpha = counted * sign * y * np.exp(-sign * (x @ w))
    printed = float(np.mean(alpha * np.expm1(-sign * s**2 * np.sum(x**2, axis=1) / 2)))
    if estimand != "ATT":  # for ATT only controls count, where (-1)^t is 1 and the print is right
        assert abs(printed - bias) > 8 * error


def test_lemma_3_bound_is_above_the_bias_of_any_table_with_that_share() -> None:
    study = make_study(epsilon="0.1", outcome={"lower": -2, "upper": 5})
    sizes = sizes_of(study, 2_000)
    model = logistic.model(study, sizes).mechanism()
    assert model is not None
    x = np.tile([1.0, 0.0], (100, 1))
    t = np.repeat([1, 0], 50).astype(np.uint8)
    y = np.where(t == 1, 5.0, -5.0)
    bias = ipw_expected.lemma3_bias(x, t, y, np.zeros(2), float(model.noise_scale or 0))
    assert bias == pytest.approx(ipw_expected.lemma3_bound(study, sizes), rel=1e-9)
    assert ipw_expected.lemma3_bound(make_study(level="label"), sizes) == 0
    pure = make_study(delta=0, penalty=1e-6)
    assert ipw_expected.lemma3_bound(pure, sizes_of(pure, 100)) == math.inf


def test_pure_epsilon_bias_is_that_of_l2_laplace_noise() -> None:
    study = make_study(delta=0, outcome={"lower": -1, "upper": 1})
    sizes = sizes_of(study, 100)
    model = logistic.model(study, sizes).mechanism()
    assert model is not None
    d, s = logistic.dimension(study), float(model.noise_scale or 0)
    random = np.random.default_rng(6)
    z = random.normal(size=(2_000_000, d))
    z *= (random.gamma(d, s, 2_000_000) / np.linalg.norm(z, axis=1))[:, None]
    assert ipw_expected.lemma3_bound(study, sizes) == pytest.approx(float(np.mean(np.expm1(z[:, 0]))), rel=0.05)


def test_lemma_6_holds_for_all_units_at_once() -> None:
    x, t, y, w = stand_in_table()
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    random = np.random.default_rng(7)
    eta = ipw_expected.lemma6_width(x, t, y, w, 0.5, 0.1)
    one, two = (raw_ipw(x, t, y, w + random.normal(0, 0.5, (20_000, 3)), "ATE") for _ in range(2))
    assert np.mean(np.abs(one - two) <= eta) >= 0.9


def test_sign_bounds_in_corrected_form() -> None:
    # Of all tau_n in [-eta, eta] with mean m the one on {0, eta} is most often not above 0.
    for mean in (0.1, 0.5, 0.9):
        assert ipw_expected.sign_flip_bound(mean, 0.0, 1.0) >= 1 - mean
    # Hoeffding's width is 2 eta: the printed bound is the corrected one to the fourth power.
    assert ipw_expected.sign_flip_bound(0.5, 0.2, 1.0) ** 4 == pytest.approx(math.exp(-2 * 0.49))
    assert ipw_expected.sign_flip_bound(1.0, -1.5, 3.0) == 1.0
    joint = ipw_expected.joint_sign_bound(0.5, 0.1, 2.0, 0.4, 0.3)
    assert joint == pytest.approx(math.exp(-0.36 / 8) * norm.cdf(0.4 / 0.3))
    wrong = ipw_expected.sign_wrong_probability(0.5, 0.1, 2.0, 0.4, 0.3)
    flipped = math.exp(-0.36 / 8)
    assert wrong == pytest.approx((1 - flipped) * norm.sf(0.4 / 0.3) + flipped * norm.cdf(0.4 / 0.3))
    assert wrong >= joint


def test_support_bound_is_the_papers() -> None:
    assert ipw_expected.support_bound(make_study(outcome={"lower": -20, "upper": 10})) == pytest.approx(200)


def test_a_release_says_what_the_penalty_leaves() -> None:
    """At any number of people: more of them do not bring back what a penalty takes off."""
    for penalty, words in ((0.1, "partly adjusted"), (1e-4, "adjusted by inverse probability weights")):
        study = make_study(penalty=penalty)
        found = ipw_expected.expected_findings(study, sizes_of(study, 1_000_000))
        assert str(found.details["adjustment"]).startswith(words)
