"""From two released numbers to an interval: the noise's exact law, the variance's target, bounds and corrections."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, norm

from causalveil.flows.estimators.matching import MATCHING
from causalveil.flows.estimators.words import OF_A_PAPER
from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.errors import DataError
from causalveil.schemas.limits import Code
from causalveil.schemas.plan import StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.remarks import PlanCode
from causalveil.schemas.study import Estimand
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.interval import Noise, laplace_tail
from causalveil.tasks.estimate.models.nearest import match_capped, most_used
from causalveil.tasks.estimate.papers.matching import weights
from causalveil.tasks.estimate.papers.matching.interval import Contrast, findings
from causalveil.tasks.estimate.papers.matching.weights import Reuse
from causalveil.tasks.estimate.weights.weighted_means import PublicWeights
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests import matching_oracle as oracle
from tests.limits import codes
from tests.matching_help import CONTRACT, matching_changes, population, two_covariates
from tests.studies import command, write_study

REUSE = Reuse(
    ratio=5,
    treated=400,
    controls=600,
    queries=1000,
    unmatched=0,
    caps=(15, 10),
    most=15,
    weights=PublicWeights(
        arms=(400, 600),
        queries=1000,
        totals=(5000, 5000),
        largest=(20, 20),
        squares=(400 * 7 * 25, 600 * 3 * 25),
        pairs=(200, 300, 267),
        share=Fraction(0.15),
    ),
)


def with_weights(**changes: Any) -> Reuse:
    return replace(REUSE, weights=replace(REUSE.weights, **changes))


def test_laplace_noise_is_exact() -> None:
    noise = Noise(2.0, 1.0)
    assert noise.deviation == pytest.approx(2 * np.sqrt(2))
    for distance in (0.0, 0.5, 2.0, 9.0, 60.0):
        assert noise.tail(distance) == pytest.approx(np.exp(-distance / 2) / 2, rel=1e-12)
    assert noise.quantile(0.025) == pytest.approx(2 * np.log(1 / 0.05), rel=1e-9)


def convolution(y: float, deviation: float) -> float:
    """P(N(0, deviation^2) + Laplace(1) > y) by quadrature over the Laplace variable's quantiles."""
    return float(
        quad(lambda u: norm.sf((y - laplace.isf(u)) / deviation), 0, 1, points=[0.01, 0.5, 0.99], limit=500)[0]
    )


@pytest.mark.parametrize("deviation", [1e-6, 0.3, 1.0, 30.0, 1e5])
def test_a_normal_plus_laplace_noise_against_quadrature(deviation: float) -> None:
    for distance in (-1.0, 0.0, 0.5, 3.0, 8.0):
        y = distance * max(1.0, deviation)
        assert laplace_tail(y, deviation, 1.0) == pytest.approx(convolution(y, deviation), rel=1e-5, abs=1e-9)
    for wide in (1e8, 1e12):
        assert laplace_tail(1.96 * wide, wide, 1.0) == pytest.approx(norm.sf(1.96), rel=1e-6)


@pytest.mark.parametrize("ratio", [1.0, 0.9999999, 0.9, 0.3, 0.01])
def test_the_contrast_of_two_laplace_draws(ratio: float) -> None:
    """Against 400,000 draws with sampling error added; four binomial standard errors (seed 1)."""
    random = np.random.default_rng(1)
    noise = Contrast(1.5, 1.0, ratio=ratio)
    draws = random.laplace(0, 3.0, 400_000) - random.laplace(0, 3.0 * ratio, 400_000) + random.normal(0, 2, 400_000)
    assert noise.deviation * 2 == pytest.approx(np.sqrt(draws.var() - 4), rel=0.02)
    for distance in (1.0, 5.0, 12.0):
        tail = noise.tail(distance, 4.0, 2.0)
        assert abs(np.mean(draws > distance) - tail) < 4 * np.sqrt(tail / 400_000)
    assert noise.tail(noise.quantile(0.025, 4.0, 2.0), 4.0, 2.0) == pytest.approx(0.025, rel=1e-6)


def test_equal_and_nearly_equal_draws_agree() -> None:
    equal, nearly = Contrast(1.0, 1.0, ratio=1.0), Contrast(1.0, 1.0, ratio=1 - 1e-5)
    assert nearly.tail(3.0) == pytest.approx(equal.tail(3.0), rel=1e-4)


def test_the_released_variance_is_that_of_abadie_and_imbens() -> None:
    """W - m tau^2 over 120 tables against the variance of the estimate itself, which they know to 13% (seeds fixed).

    The effect varies with the score, so that all three parts of the variance count.
    """
    study = two_covariates(level="label", epsilon="1", cap=50)
    estimates, variances = [], []
    for seed in range(120):
        rows = population(1_500, np.random.default_rng(seed), varying=0.3)
        reuse, units = weights.weigh(study, np.rint(rows.x[:, 0] * 2**30) / 2**30, rows.t)
        exact = weights.sums(study, reuse, units, rows.t, rows.u)
        found = findings(study, sizes_of(study, 1_500), reuse, exact)
        estimates.append(found.estimate)
        variances.append(found.variance.sampling)
    assert np.mean(variances) == pytest.approx(np.var(estimates), rel=0.3)


def test_noise_of_the_estimate_is_the_largest_weight_over_epsilon() -> None:
    study = two_covariates(level="label", epsilon="2", variance_share=0.2)
    found = findings(study, sizes_of(study, 1000), with_weights(share=Fraction(0.2)), np.array([0.8, 5.0]))
    scale = 4 * 2 / 1000 / 2 / 0.8
    assert found.details["noise_standard_error"] == pytest.approx(np.sqrt(2) * scale, rel=1e-5)
    assert found.estimate == pytest.approx(1.0 * 4 * 2 / 1000)
    paper = two_covariates(level="label", epsilon="2", variant="paper")
    found = findings(paper, sizes_of(paper, 1000), with_weights(pairs=(0, 0, 0)), np.array([0.5, 0.25]))
    assert found.estimate == pytest.approx((0.5 * 4 - 0.25 * 3) * 2 / 1000)
    assert found.details["noise_standard_error"] == pytest.approx(np.sqrt(2 * (4**2 + 3**2)) * 2 / 1000 / 2, rel=1e-5)


def test_the_variance_is_never_above_what_any_population_has() -> None:
    study = two_covariates(level="label", epsilon="0.01")
    for second in (-1e9, 0.0, 1e9):
        found = findings(study, sizes_of(study, 1000), REUSE, np.array([0.1, second]))
        assert 0 <= found.variance.sampling <= REUSE.weights.largest_variance
        upper = found.details["sampling_standard_error_upper"] ** 2
        assert upper <= REUSE.weights.largest_variance * (1 + 1e-12)
    assert REUSE.weights.largest_variance == pytest.approx((2800 + 1800) / 1000**2)


@pytest.mark.parametrize("queries", [600, 1000])
def test_no_population_has_a_larger_variance(queries: int) -> None:
    """m V_tau + sum A_t sigma_t^2 over populations with outcomes in [-1, 1], by search over standard deviations."""
    weights = with_weights(queries=queries, totals=(5 * queries, 5 * queries)).weights
    squares = [float(square) * queries**2 for square in weights.weight_squares]
    grid = np.linspace(0, 1, 51)
    one, other = np.meshgrid(grid, grid)
    worst = queries * (one + other) ** 2 + squares[0] * (1 - one**2) + squares[1] * (1 - other**2)
    assert worst.max() / queries**2 <= weights.largest_variance * (1 + 1e-12)


def test_without_pairs_the_largest_variance_is_used() -> None:
    study = two_covariates(level="label")
    found = findings(study, sizes_of(study, 1000), with_weights(pairs=(0, 300, 0)), np.array([0.1, 0.0]))
    assert found.variance.sampling == pytest.approx(REUSE.weights.largest_variance)


def test_correction_divides_and_widens() -> None:
    shares = {"weights": 0.1, "scores": 0.1, "treatment": 0.5, "outcome": 0.3}
    pair = []
    for correct in (False, True):
        study = two_covariates(epsilon="4", budget_shares=shares, correct_attenuation=correct)
        pair.append(findings(study, sizes_of(study, 1000), REUSE, np.array([12.0, 5.0])))
    plain, corrected = pair
    factor = plain.details["attenuation_factor"]
    assert 0 < factor < 1
    assert corrected.estimate == pytest.approx(plain.estimate / factor)
    assert corrected.variance.noise == pytest.approx(plain.variance.noise / factor**2)
    assert corrected.interval.lower < plain.interval.lower / factor
    assert corrected.interval.upper > plain.interval.upper / factor
    assert corrected.interval.confidence == 0.95
    assert Code.attenuation_factor in codes(corrected.interval.covers)
    assert Code.attenuation in codes(plain.not_covered)
    assert Code.attenuation not in codes(corrected.not_covered)


def test_private_scores_allow_for_all_that_is_declared() -> None:
    """The deviation of outcomes is read off the bound on the sampling variance, in the estimate's own units."""
    randomised = two_covariates(epsilon="4")
    study = two_covariates(epsilon="4", trial=False, confounding_prior={"outcome_r2": 0.5, "distance": 1})
    numbers = np.array([12.0, 5.0])
    none, found = (findings(one, sizes_of(one, 1000), REUSE, numbers) for one in (randomised, study))
    assert none.interval.bias == 0.0
    deviation = none.details["sampling_standard_error_upper"] * none.details["attenuation_factor"]
    deviation /= np.sqrt(REUSE.weights.largest_variance)
    assert found.interval.bias == pytest.approx(np.sqrt(0.5) * min(deviation, 1.0), rel=0.05)
    assert found.interval.upper - found.interval.lower > none.interval.upper - none.interval.lower
    assert Code.confounding_of_prior in codes(found.interval.covers)
    assert str(found.headline.adjustment).startswith("partly adjusted")
    assert found.estimate == none.estimate
    public = two_covariates(level="label", trial=False, confounding_prior={"outcome_r2": 1, "distance": 10})
    assert findings(public, sizes_of(public, 1000), REUSE, numbers).interval.bias == 0.0


def test_a_share_that_may_be_nought_gives_the_whole_range() -> None:
    study = two_covariates(epsilon="0.1", correct_attenuation=True)
    found = findings(study, sizes_of(study, 1000), replace(REUSE, treated=5, controls=995), np.array([1.0, 1.0]))
    assert found.interval.whole_range
    assert (found.interval.lower, found.interval.upper) == (-2.0, 2.0)


# What `plan` says of a matching: near what a run then finds, with warnings where they belong.
def expected_at(study: Any, n: int, effect: float | None = None, **stand_in: Any) -> dict[str, Any]:
    return MATCHING.expected(study, sizes_of(study, n), StandIn(**stand_in), effect)


@pytest.mark.parametrize(
    "changes",
    [
        {"level": "label", "epsilon": "1"},
        {"level": "label", "epsilon": "8", "estimand": "ATT"},
        {"level": "label", "epsilon": "2", "variant": "paper"},
        {"level": "sample", "epsilon": "8", "correct_attenuation": False},
        {"level": "sample", "epsilon": "8", "correct_attenuation": True},
    ],
    ids=str,
)
def test_the_expected_width_is_near_the_width_of_runs(changes: dict[str, Any]) -> None:
    """Mean of 12 runs of 2,000 units whose scores have nothing to do with treatment: within 40%."""
    study = two_covariates(**changes)
    widths = []
    for seed in range(12):
        rows = population(2_000, np.random.default_rng(seed), slope=0.1, effect=0.0, outcome=0.0)
        found = rehearse_effect(study, rows, RehearsalBudget(seed))
        widths.append((found.interval.upper - found.interval.lower) / 2)
    assert expected_at(study, 2_000, deviation=0.15)["half_width"] == pytest.approx(np.mean(widths), rel=0.4)


def test_warnings_where_they_belong() -> None:
    label = expected_at(two_covariates(level="label", epsilon="10"), 100_000, effect=0.1)
    assert label["warnings"] == [OF_A_PAPER[Level.label]]
    assert not label["hidden_by_noise"]
    sample = expected_at(two_covariates(epsilon="1", correct_attenuation=False), 445, effect=0.1)
    assert {PlanCode.attenuated, PlanCode.noisy_scores, PlanCode.effect_hidden} <= set(codes(sample["warnings"]))
    assert sample["hidden_by_noise"]
    assert sample["units_needed"] > 445
    assert sample["attenuation_factor"] == pytest.approx(0.336, abs=1e-3)
    assert sample["budget_shares"] == {"weights": 0.05, "scores": 0.05, "treatment": 0.7, "outcome": 0.2}
    corrected = expected_at(two_covariates(epsilon="1"), 445)
    assert PlanCode.attenuated not in codes(corrected["warnings"])


def test_units_needed_are_enough() -> None:
    study = two_covariates(level="label", epsilon="0.5")
    needed = expected_at(study, 300, effect=0.05)["units_needed"]
    assert expected_at(study, needed)["half_width"] == pytest.approx(0.05, rel=0.1)


def test_an_arm_that_would_be_too_small_is_said_and_no_error() -> None:
    found = expected_at(two_covariates(level="label", ratio=20), 60, treated=0.1)
    assert "half_width" not in found
    (told,) = found["warnings"]
    assert told.code is PlanCode.cannot_plan
    assert "fewer than 20 units" in told.facts["problem"]


def test_charges_need_no_number_of_units_but_for_the_model() -> None:
    study = two_covariates(epsilon="1")
    charges = MATCHING.declare(study, None)
    assert [charge.name for charge in charges if charge.noise_scale is None] == ["propensity"]
    assert "at most (1/n + 1/5) B" in charges[-1].formula
    assert "max_i b_i B/m" in charges[-1].formula


@pytest.mark.parametrize("level", ["label", "sample"])
def test_plan_prints(level: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "study", study=matching_changes(level=level), contract=CONTRACT)
    assert command("plan", path, "--effect", "2", "--json") == 0
    assert "half_width" in json.dumps(json.loads(capfd.readouterr().out))


# The matcher against the oracle: the paper's sorted distance matrices, on thousands of small cases.
CASES = 6000


def case(random: np.random.Generator) -> dict:
    """A small table: from all scores equal to none, arms of any sizes that can be matched at all."""
    ratio = int(random.integers(1, 5))
    arms = random.integers(ratio, 14, 2)
    n = int(arms.sum())
    treated = random.permutation(np.repeat([0, 1], arms)).astype(np.uint8)
    scores = random.integers(0, random.choice([1, 2, 5, 30, 2**20]) + 1, n) / 2.0**20
    floors = [-(-int(arms[1 - arm]) * ratio // int(arms[arm] - ratio + 1)) for arm in (1, 0)]
    tight = [max(1, int(random.integers(1, floor + 3))) for floor in floors]
    return {
        "scores": scores - random.choice([0.0, 0.5 / 2.0**20 * n]),
        "treated": treated,
        "ratio": ratio,
        "caps": (tight[0], tight[1]),
        "estimand": list(Estimand)[int(random.integers(0, 3))],
        "caliper": random.choice([None, 0.0, 1 / 2.0**20, 4 / 2.0**20]),
    }


def test_neighbours_are_those_of_the_sorted_matrices() -> None:
    """6,000 cases, seed 0; some are infeasible, and then both say so."""
    random = np.random.default_rng(0)
    seen = {"feasible": 0, "exhausted": 0, "capped": 0, "out of caliper": 0}
    for _ in range(CASES):
        arguments = case(random)
        try:
            expected = oracle.match(**arguments)
        except oracle.Exhausted:
            with pytest.raises(DataError):
                match_capped(**arguments)
            seen["exhausted"] += 1
            continue
        found = match_capped(**arguments, keep=True)
        assert found.neighbours is not None
        rows = [row if found.matched[unit] else [] for unit, row in enumerate(found.neighbours.tolist())]
        assert rows == expected.neighbours, arguments
        assert found.uses.tolist() == expected.uses.tolist()
        assert found.matched.tolist() == expected.matched
        seen["feasible"] += 1
        seen["capped"] += expected.uses.max() in arguments["caps"]
        seen["out of caliper"] += arguments["caliper"] is not None and not all(expected.matched)
    assert min(seen.values()) > CASES // 20, seen


def test_without_keeping_neighbours_uses_are_the_same() -> None:
    """2,000 cases, seed 1."""
    random = np.random.default_rng(1)
    for _ in range(2000):
        arguments = case(random) | {"caliper": 4 / 2.0**20}
        kept, dropped = match_capped(**arguments, keep=True), match_capped(**arguments)
        assert dropped.neighbours is None
        assert kept.uses.tolist() == dropped.uses.tolist()
        assert kept.matched.tolist() == dropped.matched.tolist()


def test_most_used_is_the_matrices_own_count() -> None:
    """2,000 cases, seed 2."""
    random = np.random.default_rng(2)
    for _ in range(2000):
        arguments = case(random)
        chosen = {name: arguments[name] for name in ("scores", "treated", "ratio", "estimand")}
        assert most_used(**chosen) == oracle.most_used(**chosen)


def test_a_larger_case_at_full_resolution() -> None:
    """1,200 units, N = 5, scores with 40 bits, tight caps; seed 3."""
    random = np.random.default_rng(3)
    n, ratio = 1200, 5
    treated = (random.random(n) < 0.25).astype(np.uint8)
    scores = np.round(random.beta(2, 4, n) * 2**40) / 2**40
    count = int(treated.sum())
    caps = (-(-(n - count) * ratio // (count - ratio + 1)), -(-count * ratio // (n - count - ratio + 1)))
    found = match_capped(scores, treated, ratio, caps, keep=True)
    expected = oracle.match(scores, treated, ratio, caps)
    assert found.neighbours is not None
    assert found.neighbours.tolist() == expected.neighbours
    assert found.uses.max() == max(caps)
