"""Confounding left out: the bound on the bias, intervals that allow for it, and what it would take to undo one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri

from causalveil.flows.api import run_study
from causalveil.flows.sequence.estimators import estimator_of
from causalveil.flows.sequence.study import plan_study
from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.aipw import OmittedConfounding
from causalveil.schemas.plan import StandIn
from causalveil.schemas.release import load_release
from causalveil.tasks.inference.assemble import Estimate, Noise, assemble
from causalveil.tasks.inference.confounding import bias_ratio, robustness_value
from tests.aipw_help import analysed, confounded, make_aipw
from tests.studies import write_study

SHARES = {"outcome": 0.3, "treatment": 0.05}


def population(random: np.random.Generator, cells: int = 6) -> dict[str, np.ndarray]:
    """A population of finitely many kinds of people, and models that have nothing to do with it."""
    return {
        "weight": random.dirichlet(np.ones(cells)),
        "score": random.uniform(0.05, 0.95, cells),
        "means": random.normal(0, 1, (2, cells)),
        "spread": random.uniform(0, 1, (2, cells)),
        "used_score": random.uniform(0.1, 0.9, cells),
        "used_means": random.normal(0, 1, (2, cells)),
    }


def shares(kinds: dict[str, np.ndarray]) -> tuple[float, float, float, float]:
    """Bias of the mean score, the two shares, and the scores' variance, exactly, by arms and kinds."""
    p, pi = kinds["score"], kinds["used_score"]
    chance = kinds["weight"] * np.stack([1 - p, p])
    a, alpha = np.stack([-1 / (1 - pi), 1 / pi]), np.stack([-1 / (1 - p), 1 / p])
    gap, distance = kinds["means"] - kinds["used_means"], kinds["used_means"][1] - kinds["used_means"][0]
    mean = float((chance * (distance + a * gap)).sum())
    second = float((chance * ((distance + a * gap) ** 2 + (a * kinds["spread"]) ** 2)).sum())
    truth = float(kinds["weight"] @ (kinds["means"][1] - kinds["means"][0]))
    variance = second - mean**2
    outcome = float((chance * (a * gap) ** 2).sum()) / variance
    treatment = float((chance * (1 - alpha / a) ** 2).sum())
    assert treatment == pytest.approx(float(kinds["weight"] @ ((p - pi) ** 2 / (p * (1 - p)))))
    return mean - truth, outcome, treatment, variance


def test_no_population_is_biased_by_more() -> None:
    """10,000 populations, exactly; and one for which the bound is attained."""
    random = np.random.default_rng(1)
    closest = 0.0
    for _ in range(10_000):
        bias, outcome, treatment, variance = shares(population(random))
        bound = math.sqrt(outcome * treatment * variance)
        assert abs(bias) <= bound * (1 + 1e-9)
        closest = max(closest, abs(bias) / bound)
    assert closest > 0.9, "a bound that is far from everything was not tested"
    kinds = population(random)
    p, pi = kinds["score"], kinds["used_score"]
    a, alpha = np.stack([-1 / (1 - pi), 1 / pi]), np.stack([-1 / (1 - p), 1 / p])
    # Cauchy and Schwarz are equal where a (mu - m) is a multiple of 1 - alpha/a.
    kinds["used_means"] = kinds["means"] - 0.7 * (1 - alpha / a) / a
    bias, outcome, treatment, variance = shares(kinds)
    assert abs(bias) == pytest.approx(math.sqrt(outcome * treatment * variance))


@pytest.mark.parametrize("noise", [Noise(0.0), Noise(1.3), Noise(0.8, 1.0), Noise(0.6, 1.5), Noise(0.4, 5.5)])
@pytest.mark.parametrize("bias", [0.0, 0.3, 2.0, 50.0])
def test_critical_values_are_exceeded_as_often_as_they_say(noise: Noise, bias: float) -> None:
    """Against 2e6 seeded draws of a biased error: a Monte-Carlo error of 1.5e-4, six of them allowed."""
    random = np.random.default_rng(3)
    scale = noise.scale if noise.mixing is None else noise.scale * np.sqrt(random.gamma(noise.mixing, 2, 2_000_000))
    error = random.normal(0, 1.2, 2_000_000) + 0.7 * scale * random.normal(0, 1, 2_000_000)
    found = noise.critical(0.05, bias, 1.44, 0.7)
    assert np.mean(np.abs(bias + error) > found) == pytest.approx(0.05, abs=9e-4)
    assert noise.quantile(0.025, 1.44, 0.7) <= found <= noise.quantile(0.025, 1.44, 0.7) + bias
    if bias == 50.0:
        assert found == pytest.approx(bias + noise.quantile(0.05, 1.44, 0.7)), "one side is left"


def test_an_interval_allows_for_a_bias_in_standard_errors_of_its_own_upper_variance() -> None:
    plain, wide = (Estimate(1.0, 0.04, 0.0, 0.0, bias=bias) for bias in (0.0, 2.0))
    _, narrow, _, _ = assemble(plain, Noise(1.0), 0.95, None)
    _, interval, _, upper = assemble(wide, Noise(1.0), 0.95, None)
    assert (narrow.bias, interval.bias) == (0.0, pytest.approx(2 * math.sqrt(upper)))
    assert interval.upper - 1 == pytest.approx(0.4 - 0.2 * ndtri(0.05), rel=1e-3)
    assert (interval.lower + interval.upper) / 2 == pytest.approx(1.0)


@pytest.mark.parametrize("delta", ["1e-6", "0"])
def test_at_the_robustness_value_the_interval_reaches_zero(delta: str) -> None:
    rows, _ = confounded(20_000, seed=4)
    value = analysed(make_aipw(delta=delta), rows).details["robustness_value"]
    assert 0.01 < value < 0.99
    for factor, inside in ((0.999, False), (1.001, True)):
        share = {"outcome": value * factor, "treatment": value * factor}
        found = analysed(make_aipw(delta=delta, omitted_confounding=share), rows)
        assert found.details["robustness_value"] == pytest.approx(value, rel=1e-6), "what is declared does not enter"
        assert (found.interval.lower <= 0 <= found.interval.upper) is inside


def test_robustness_of_what_is_not_there_or_beyond_doubt() -> None:
    drowned = Estimate(0.1, 0.04, 0.0, 0.0)
    assert robustness_value(drowned, Noise(1.0), 0.95, 0.04, 100) == 0.0
    certain = Estimate(1e6, 0.04, 0.0, 0.0)
    assert robustness_value(certain, Noise(1.0), 0.95, 0.04, 100) == 1.0


def test_without_declared_shares_nothing_changes_and_with_them_only_the_interval() -> None:
    rows, _ = confounded(4_000, seed=2)
    plain, wide = (analysed(make_aipw(**changes), rows) for changes in ({}, {"omitted_confounding": SHARES}))
    assert (plain.estimate, plain.variance) == (wide.estimate, wide.variance)
    upper = plain.details["sampling_standard_error_upper"]
    assert wide.interval.bias == pytest.approx(bias_ratio(OmittedConfounding(**SHARES), 4_000) * upper)
    assert wide.interval.upper - wide.interval.lower > plain.interval.upper - plain.interval.lower
    assert plain.interval.bias < wide.interval.bias
    assert "confounding left out, up to the declared shares" in set(wide.interval.covers) - set(plain.interval.covers)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"propensity": {"known": 0.5}, "omitted_confounding": SHARES}, "a known propensity leaves none"),
        (
            {"guarantee": "asymptotic", "outcome_model": {"model": "kernel_ridge"}, "omitted_confounding": SHARES},
            "belongs to guarantee 'finite_sample'",
        ),
        ({"omitted_confounding": {"outcome": 0, "treatment": 0.1}}, "greater than 0"),
        ({"omitted_confounding": {"outcome": 0.1, "treatment": 1.5}}, "less than or equal to 1"),
        ({"omitted_confounding": {"outcome": 0.1}}, "treatment"),
    ],
    ids=["known", "asymptotic", "zero", "above one", "half of it"],
)
def test_shares_that_make_no_sense(changes: dict[str, object], told: str) -> None:
    with pytest.raises(StudyError, match=told):
        make_aipw(**changes)


def test_plan_and_release_say_what_is_allowed_for(tmp_path: object, capfd: pytest.CaptureFixture[str]) -> None:
    from causalveil.flows.cli.main import main

    estimator = {"name": "aipw", "penalty": ..., "omitted_confounding": SHARES}
    path = write_study(tmp_path / "study", study={"estimator": estimator}, contract={"estimators": ["aipw"]})
    study, plan = plan_study(path)
    told = estimator_of(study).expected(study, plan.sizes, StandIn(), None)
    assert told["bias"] > 0
    assert any("declared omitted confounding" in sentence for sentence in told["sentences"])
    assert not any("omitted_confounding: ..." in warning for warning in told["warnings"])
    release = load_release(run_study(path, out=tmp_path / "out", engine="direct").path)
    assert release.interval.bias > 0
    assert "declared shares" in release.details["not_covered"]
    assert release.specification["estimator"]["omitted_confounding"] == SHARES
    with pytest.raises(SystemExit) as ended:
        main(["run", str(path), "--engine", "direct", "--out", str(tmp_path / "again"), "--run-id", "again"])
    assert ended.value.code == 0
    again = load_release(tmp_path / "again" / "release.json")
    assert ("would reach 0" in capfd.readouterr().out) is (again.details["robustness_value"] > 0)
