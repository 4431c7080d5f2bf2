"""What is said before a row is read: against simulation, and against the papers' formulas as corrected."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from causalveil.flows.planning import ipw as planned
from causalveil.schemas.plan import StandIn
from causalveil.tasks.enclave.split import sizes_of
from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.ipw import expected as ipw_expected
from causalveil.tasks.ipw import interval, weights
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
    """A population of four kinds of unit whose arms have the declared middle and deviation, all of one score."""
    study = make_study(**changes)
    stand_in = ipw_expected.StandIn(treated=0.3, deviation=2.0)
    n, half = 1000, study.outcome.width / 2
    sizes = sizes_of(study, n).model_copy(update={"estimation": n})
    t = np.repeat([1, 1, 0, 0], [150, 150, 350, 350]).astype(np.uint8)
    u = np.where(np.arange(n) % 2 == 0, 2.0, -2.0) / half
    rows = weights.Rows(np.full((n, 1), 1.0), t, u)
    score = ipw_expected.penalised_share(study, 0.3)
    assert 0.3 < score < 0.5
    w = np.array([math.log(score / (1 - score))])
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
    mechanism, sums = weights.mechanism(study, sizes), ipw_expected.expected_statistics(study, sizes)
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
    found, mechanism = ipw_expected.expected_findings(study, sizes), weights.mechanism(study, sizes)
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
    study = make_study(outcome={"lower": 0, "upper": 60_000}, confounding_prior={"outcome_r2": 0})
    verdict = ipw_expected.drowned(study, sizes_of(study, 445), 1800)
    assert verdict.drowned
    assert verdict.sign_wrong > 0.4
    assert verdict.units_needed is not None
    assert f"{verdict.units_needed:,} units" in verdict.message
    assert "is larger than an effect of 1800" in verdict.message
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


@pytest.mark.parametrize("estimand", ESTIMANDS)
def test_lemma_3_bound_is_above_the_bias_of_any_scores_that_are_right(estimand: str) -> None:
    """On average over who is treated: 200 tables of random scores, outcomes at their worst, all of which attain it."""
    study = make_study(
        estimand=estimand, weighting="horvitz_thompson", epsilon="0.1", outcome={"lower": -2, "upper": 5}
    )
    sizes = sizes_of(study, 2_000)
    model = logistic.model(study, sizes).mechanism()
    assert model is not None
    growth = math.expm1(float(model.noise_scale or 0) ** 2 / 2)
    random, ratios = np.random.default_rng(5), []
    for spread in np.linspace(0, 4, 200):
        score = 1 / (1 + np.exp(-random.normal(-1, spread, 50)))
        # 1/score - 1 for the treated, score/(1 - score) for the others, each as often as it occurs; rows of norm 1.
        treated, others = score * (1 / score - 1), (1 - score) * score / (1 - score)
        counted = {"ATE": treated + others, "ATT": others, "ATC": treated}[estimand]
        bias = 5 * growth * float(np.mean(counted))
        ratios.append(bias / ipw_expected.lemma3_bound(study, sizes, StandIn(treated=float(score.mean()))))
    assert max(ratios) <= 1 + 1e-9
    assert min(ratios) >= 1 - 1e-9
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


@pytest.mark.parametrize("weighting", ["hajek", "horvitz_thompson"])
def test_a_plan_calls_nothing_a_bound_that_a_distribution_of_the_estimate_breaks(weighting: str) -> None:
    """The estimate is 3 noise deviations below 0 or at the end of its range, with the hoped-for effect as its mean."""
    study = make_study(weighting=weighting, clip=(0.1, 0.9), outcome={"lower": -10, "upper": 10})
    said = planned.expected(study, sizes_of(study, 20_000), StandIn(), 0.1)
    eta, low = 100.0, -3 * said["noise_standard_error"]
    share = (eta - 0.1) / (eta - low)
    wrong = share * norm.cdf(3.0) + (1 - share) * norm.sf(eta / said["noise_standard_error"])
    assert wrong > 0.9
    assert [name for name, value in said.items() if "sign" in name and "bound" in name and value < wrong] == []
    assert not any("bounds" in sentence for sentence in said["sentences"])
    # Lemma 3 is of weights that do not add up to one.
    assert ("propensity_bias_bound" in said) == (weighting == "horvitz_thompson")
    assert any("Lemma 3" in sentence for sentence in said["sentences"]) == (weighting == "horvitz_thompson")


def test_a_release_says_what_the_penalty_leaves() -> None:
    """At any number of people: more of them do not bring back what a penalty takes off."""
    clean = "adjusted by inverse probability weights"
    for penalty, level, words in ((0.1, "sample", "partly"), (1e-4, "sample", "partly"), (1e-4, "label", clean)):
        study = make_study(penalty=penalty, level=level)
        found = ipw_expected.expected_findings(study, sizes_of(study, 1_000_000))
        assert str(found.details["adjustment"]).startswith(words)


@pytest.mark.parametrize("level", ["sample", "training_units"])
@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize("penalty", [0.1, 0.001])
def test_more_people_or_epsilon_never_widen_what_is_expected(level: str, delta: str, penalty: float) -> None:
    """From 100 to 10^7 people and epsilon .05 to 16, the allowance for what the propensity model leaves in it."""
    epsilons = ("0.05", "0.1", "0.25", "0.5", "1", "2", "4", "8", "16")
    sizes, widths = [round(100 * 10 ** (step / 2)) for step in range(11)], {}
    for i, epsilon in enumerate(epsilons):
        study = make_study(
            epsilon=epsilon, delta=delta, level=level, penalty=penalty, outcome={"lower": 0, "upper": 10}
        )
        for j, n in enumerate(sizes):
            widths[i, j] = ipw_expected.expected(study, sizes_of(study, n)).half_width
    for (i, j), width in widths.items():
        for more in ((i + 1, j), (i, j + 1)):
            assert widths.get(more, 0.0) <= width * (1 + 1e-6), (epsilons[i], sizes[j], more)


def test_what_noisy_or_penalised_scores_leave_is_allowed_for() -> None:
    """The declared bias of the spread within arms, and no more than nothing where treatment was randomised."""
    study = make_study(epsilon="1e6", delta="0", outcome={"lower": 0, "upper": 10})
    found = ipw_expected.expected_findings(study, sizes_of(study, 1_000_000), StandIn(deviation=2.0))
    assert found.interval.bias == pytest.approx(math.sqrt(0.5) * 2.0, rel=1e-3)
    assert "confounding up to the size that `confounding_prior` assumes" in found.interval.covers
    trial = make_study(confounding_prior={"outcome_r2": 0})
    randomised = ipw_expected.expected_findings(trial, sizes_of(trial, 1_000))
    assert randomised.interval.bias == 0
    assert "confounding up to the size that `confounding_prior` assumes" not in randomised.interval.covers


def test_noise_of_scores_moves_arms_no_further_than_weights_within_the_clip() -> None:
    """Distance declared, plus noise, up to (r - 1)/(2 sqrt(r)) an arm, which two values attain."""
    study = make_study(epsilon="0.001", delta="0", clip=(0.1, 0.9))
    assert interval.most_moved(study) == pytest.approx(2 * (9 - 1) / (2 * 3))
    assert interval.distance_left(study, sizes_of(study, 100)) == pytest.approx(1 + 8 / 3)
    random = np.random.default_rng(5)
    largest = 0.0
    for share in np.linspace(0.01, 0.99, 99):
        f = np.array([-math.sqrt(share / (1 - share)), math.sqrt((1 - share) / share)])
        chance = np.array([1 - share, share])
        largest = max(largest, float((chance * [1, 9]) @ f / ((chance * [1, 9]) @ [1, 1])))
    assert largest == pytest.approx(8 / 6, rel=1e-3)
    for _ in range(500):
        f, weight = random.normal(size=20), random.uniform(1, 9, 20)
        moved = abs(float(weight @ f / weight.sum() - f.mean())) / float(f.std())
        assert moved <= 8 / 6


def test_the_bound_on_the_spread_within_arms() -> None:
    """It holds but for a quarter of 1 - confidence, and is never above the declared range: 4,000 seeded draws.

    False alarm: the count of misses is above 90 of 4,000 at .0125 with a chance below 1e-7.
    """
    noise, random = Noise(3.0), np.random.default_rng(6)
    missed = 0
    for _ in range(4_000):
        arms = [(20.0 + 3 * random.normal(), 100 + 3 * random.normal(), 0.0) for _ in range(2)]
        bound = interval.weighted_spread(arms, noise, 0.95)
        missed += bound < math.sqrt(0.2)
        assert bound <= 1
    assert missed <= 90
    assert interval.weighted_spread([(5.0, 1.0, 0.0)], noise, 0.95) == 1.0
