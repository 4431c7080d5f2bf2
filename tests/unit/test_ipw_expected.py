"""What is said before a row is read: against simulation, and against the papers' formulas as corrected."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from causalveil.flows.estimators import ipw
from causalveil.flows.estimators.ipw import IPW
from causalveil.flows.estimators.rehearsal import FEW, summary
from causalveil.schemas.confounding import AdjustmentMethod, Shortfall, by
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.limits import Code
from causalveil.schemas.plan import StandIn
from causalveil.schemas.remarks import PlanCode
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.interval import Findings, Noise
from causalveil.tasks.estimate.models import logistic
from causalveil.tasks.estimate.papers.ipw import interval
from causalveil.tasks.estimate.papers.ipw.interval import adjustment_share
from tests.ipw_help import ESTIMANDS, make_study
from tests.limits import codes


def width(study: IpwStudy, units: int) -> float:
    """What a plan says by few draws, as many at every size."""
    found = IPW.draws(study, sizes_of(study, units), StandIn(), many=FEW)
    return float(summary(found)["half_width"])


def drawn(study: IpwStudy, units: int, **stand_in: Any) -> Findings:
    """Return the findings of the first draw."""
    found: Findings = IPW.draws(study, sizes_of(study, units), StandIn(**stand_in), many=1)[0].found
    return found


PAPER = {"variant": "paper", "weighting": "horvitz_thompson", "epsilon": "0.5"}


@pytest.mark.parametrize(
    ("changes", "room"),
    [({}, 0.03), ({"delta": 0}, 0.03), ({"weighting": "horvitz_thompson"}, 0.03), (PAPER, 0.2)],
    ids=str,
)
def test_fewer_people_in_memory_say_what_all_units_say(
    changes: dict[str, object], room: float, monkeypatch: Any
) -> None:
    """Noise and sampling error of 20,000 units, by 2,000 people in their place.

    Within 3% of all of them; of the paper's estimator, whose scores vary with the people, within 20%.
    """
    study = make_study(**changes)
    whole = width(study, 20_000)
    monkeypatch.setattr(ipw, "QUICK", 2_000)
    monkeypatch.setattr(ipw, "rows_weighed", lambda _: 2_000)
    assert width(study, 20_000) == pytest.approx(whole, rel=room)


def test_an_effect_that_noise_hides_is_said_to_be_and_how_many_units_would_do() -> None:
    study = make_study(outcome={"lower": 0, "upper": 60_000}, confounding_prior={"outcome_r2": 0})
    said = IPW.expected(study, sizes_of(study, 445), StandIn(), 1800)
    assert said["hidden_by_noise"]
    assert said["sign_wrong"] > 0.4
    (hidden,) = (one for one in said["warnings"] if one.code is PlanCode.effect_hidden)
    assert hidden.facts["effect"] == 1800
    assert f"{said['units_needed']:,} units" in str(hidden)
    assert width(study, said["units_needed"]) == pytest.approx(1800, rel=0.05)
    unseen = make_study(outcome={"lower": 0, "upper": 60_000})
    assert IPW.expected(unseen, sizes_of(unseen, 445), StandIn(), 1800)["units_needed"] is None


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
        ratios.append(bias / interval.lemma3_bound(study, sizes, StandIn(treated=float(score.mean()))))
    assert max(ratios) <= 1 + 1e-9
    assert min(ratios) >= 1 - 1e-9
    pure = make_study(delta=0, penalty=1e-6)
    assert interval.lemma3_bound(pure, sizes_of(pure, 100), StandIn()) == math.inf


def test_pure_epsilon_bias_is_that_of_l2_laplace_noise() -> None:
    study = make_study(delta=0, outcome={"lower": -1, "upper": 1})
    sizes = sizes_of(study, 100)
    model = logistic.model(study, sizes).mechanism()
    assert model is not None
    d, s = logistic.dimension(study), float(model.noise_scale or 0)
    random = np.random.default_rng(6)
    z = random.normal(size=(2_000_000, d))
    z *= (random.gamma(d, s, 2_000_000) / np.linalg.norm(z, axis=1))[:, None]
    assert interval.lemma3_bound(study, sizes, StandIn()) == pytest.approx(float(np.mean(np.expm1(z[:, 0]))), rel=0.05)


@pytest.mark.parametrize("weighting", ["hajek", "horvitz_thompson"])
def test_a_plan_calls_nothing_a_bound_that_a_distribution_of_the_estimate_breaks(weighting: str) -> None:
    """The estimate is 3 noise deviations below 0 or at the end of its range, with the hoped-for effect as its mean."""
    study = make_study(weighting=weighting, clip=(0.1, 0.9), outcome={"lower": -10, "upper": 10})
    said = IPW.expected(study, sizes_of(study, 20_000), StandIn(), 0.1)
    eta, low = 100.0, -3 * said["noise_standard_error"]
    share = (eta - 0.1) / (eta - low)
    wrong = share * norm.cdf(3.0) + (1 - share) * norm.sf(eta / said["noise_standard_error"])
    assert wrong > 0.9
    assert [name for name, value in said.items() if "sign" in name and "bound" in name and value < wrong] == []
    assert not any("bounds" in str(one) for one in said["sentences"])
    # Lemma 3 is of weights that do not add up to one.
    assert ("propensity_bias_bound" in said) == (weighting == "horvitz_thompson")
    assert (PlanCode.lemma_3 in codes(said["sentences"])) == (weighting == "horvitz_thompson")


def test_a_release_says_what_the_penalty_leaves() -> None:
    """At any number of people: more of them do not bring back what a penalty takes off."""
    partly, clean = by(AdjustmentMethod.weighting, Shortfall.penalty), by(AdjustmentMethod.weighting)
    for penalty, level, told in ((0.1, "sample", partly), (1e-4, "sample", partly), (1e-4, "label", clean)):
        study = make_study(penalty=penalty, level=level)
        assert drawn(study, 1_000_000).headline.confounding == told


@pytest.mark.parametrize(("level", "delta", "penalty"), [("sample", "1e-6", 0.1), ("training_units", "0", 0.001)])
def test_more_people_or_epsilon_never_widen_what_is_expected(level: str, delta: str, penalty: float) -> None:
    """From 100 to 10^7 people and epsilon .05 to 16, the allowance for what the propensity model leaves in it.

    The same noise is scaled. 3% of room: who is rehearsed changes with the number of people, and of 1,000 the weights
    differ a little more where less noise on coefficients meets the clip.
    """
    epsilons, sizes, widths = ("0.05", "0.5", "2", "16"), (100, 1_000, 10_000, 10**5, 10**7), {}
    for i, epsilon in enumerate(epsilons):
        study = make_study(
            epsilon=epsilon, delta=delta, level=level, penalty=penalty, outcome={"lower": 0, "upper": 10}
        )
        for j, n in enumerate(sizes):
            widths[i, j] = width(study, n)
    for (i, j), wide in widths.items():
        for more in ((i + 1, j), (i, j + 1)):
            assert widths.get(more, 0.0) <= wide * 1.03, (epsilons[i], sizes[j], more)


def test_what_noisy_or_penalised_scores_leave_is_allowed_for() -> None:
    """The declared bias of the spread within arms, and no more than nothing where treatment was randomised."""
    study = make_study(epsilon="1e6", delta="0", outcome={"lower": 0, "upper": 10})
    found = drawn(study, 30_000, deviation=2.0)
    assert found.interval.bias == pytest.approx(math.sqrt(0.5) * 2.0, rel=0.02)
    assert Code.confounding_of_prior in codes(found.interval.covers)
    trial = make_study(trial=True)
    randomised = drawn(trial, 1_000)
    assert randomised.interval.bias == 0
    assert Code.confounding_of_prior not in codes(randomised.interval.covers)


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


@pytest.mark.parametrize("units", [2, 3])
def test_units_that_vary_within_no_arm_are_foreseen_too(units: int) -> None:
    """One unit in each arm: a run of so few ended in a division by zero."""
    study = make_study()
    expected = IPW.expected(study, sizes_of(study, units), StandIn())
    assert expected["sentences"] or expected["warnings"]
