"""What public weights leave of the arms' differences is measured, said and allowed for, whoever made the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.limits import Code
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.enclave import MemoryEnclave, Rows
from causalveil.tasks.estimate.interval import (
    Estimate,
    Findings,
    Noise,
    allowance,
    allowance_beside,
    assemble,
    effect_in_twins,
    laplace_allowance,
)
from causalveil.tasks.estimate.label.weighings import weigh_matched
from causalveil.tasks.estimate.weights.features import learn_features
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil_replication.accuracy.cells import rows_of
from causalveil_replication.accuracy.later import LATER
from causalveil_replication.accuracy.measure import study_of
from causalveil_replication.accuracy.methods import Method
from causalveil_replication.accuracy.populations import POPULATIONS
from tests.limits import codes

KNOWN = POPULATIONS | LATER
TRIAL: dict[str, Any] = {"trial": True}


def asked(population: str, estimator: dict[str, Any], epsilon: str, units: int = 3_000) -> tuple[EffectStudy, Rows]:
    """A study at label level of people of run 0, and their rows."""
    method = Method("label", "0", lambda _: estimator)
    study = study_of(KNOWN[population], method, epsilon)
    return study, rows_of(study, KNOWN[population], units, 0)


def analysed(population: str, estimator: dict[str, Any], epsilon: str) -> Findings:
    study, rows = asked(population, estimator, epsilon)
    return rehearse_effect(study, rows, RehearsalBudget(1))


@pytest.mark.parametrize("population", ["curved8", "interaction6", "skewed6", "mixed14"])
def test_matching_is_not_narrow_where_no_line_says_who_is_treated(population: str) -> None:
    """Off by .13 to .73 beside a sampling error of .05: one seed, and the noise of epsilon 8 is below .05."""
    found = analysed(population, {"name": "matching"}, "8")
    assert found.interval.lower <= 1 <= found.interval.upper
    assert found.estimate - 1 > 0.1
    assert str(found.headline.adjustment).startswith("partly adjusted, by matching")
    assert Code.imbalance in codes(found.interval.covers)
    assert 0 < found.details["largest_difference_after"] < found.details["largest_difference_before"]


def test_matching_that_leaves_little_allows_for_little() -> None:
    found = analysed("normals2", {"name": "matching"}, "8")
    assert str(found.headline.adjustment).startswith("adjusted")
    assert 0 < found.interval.bias < 0.1


@pytest.mark.parametrize("name", ["matching", "ipw"])
def test_a_declared_trial_allows_for_nothing(name: str) -> None:
    found = analysed("trial6", {"name": name, **TRIAL}, "4")
    assert found.interval.bias == 0
    assert str(found.headline.adjustment).startswith("adjusted")


@pytest.mark.parametrize(("epsilon", "width"), [("1", 0.45), ("8", 0.2)])
def test_weighting_adjusts_whatever_ranges_were_declared(epsilon: str, width: float) -> None:
    """Ranges a hundred times too wide left .83 of .85 of the confounding, by a penalty that nothing asks for."""
    found = analysed("wide6", {"name": "ipw"}, epsilon)
    assert abs(found.estimate - 1) < width
    assert found.interval.lower <= 1 <= found.interval.upper
    assert found.interval.upper - found.interval.lower < 2 * width


def test_a_penalty_that_shrinks_all_adjustment_is_told_and_allowed_for() -> None:
    found = analysed("normals2", {"name": "ipw", "penalty": 10}, "8")
    assert found.interval.lower <= 1 <= found.interval.upper
    assert found.estimate - 1 > 0.5
    assert str(found.headline.adjustment).startswith("partly adjusted, by inverse probability weights")


def test_the_imbalance_is_that_of_the_weighted_means() -> None:
    study, rows = asked("interaction6", {"name": "matching"}, "1", units=800)
    assert isinstance(study, MatchingStudy)
    enclave = MemoryEnclave.of(rows)
    found, units = weigh_matched(study, enclave)
    features, _ = learn_features(study, enclave, len(rows.t))
    values, _ = features(rows.x)
    shares = [units.weights * (rows.t == arm) / units.weights[rows.t == arm].sum() for arm in (0, 1)]
    off = np.array([share @ values - values.mean(axis=0) for share in shares])[:, 1:]
    precisions = 1 / features.penalties[1:]
    alike = np.square(off[1] - off[0]) @ precisions
    left = np.sqrt(max(alike, (np.square(off) @ precisions).sum()))
    assert found.bias == pytest.approx(left / np.sqrt(sum(float(np.square(one).sum()) for one in shares)), rel=1e-5)
    assert found.details["largest_difference_after"] == pytest.approx(np.abs(off[1] - off[0]).max(), rel=1e-5)


def test_an_estimate_that_may_be_off_takes_less_off_the_variance() -> None:
    assert effect_in_twins(0.5, 0.0, 0.01) == pytest.approx(0.25)
    assert effect_in_twins(-0.5, 3.0, 0.01) == pytest.approx(0.04)
    assert effect_in_twins(0.5, 30.0, 0.01) == 0
    assert effect_in_twins(7.0, 0.0, -1.0) == 4


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("ratio", [0.1, 1.0, 30.0])
def test_without_a_bias_it_is_the_plain_allowance_and_with_one_more(ratio: float, laplace: bool) -> None:
    plain = laplace_allowance(ratio, 0.95) if laplace else allowance(ratio, 0.95)
    found = [allowance_beside(ratio, 0.95, bias, laplace) for bias in (0.0, 1e-3, 0.3, 1.0, 3.0, 10.0, 100.0)]
    assert found[0] == plain
    assert found[1] == pytest.approx(plain, abs=0.02)
    assert found[1:] == sorted(found[1:])
    # The largest is where a noisy variance is too small in one of twenty: the bias alone decides then.
    assert found[-1] <= 1.66


@pytest.mark.parametrize(("laplace", "bias"), [(True, 1.0), (True, 30.0), (False, 3.0)])
def test_an_interval_with_a_bias_covers_what_it_says(laplace: bool, bias: float) -> None:
    """200,000 draws a place, seed 0: a coverage of .95 has a standard error of .0005; false alarms below 1e-6."""
    random, confidence, ratio = np.random.default_rng(0), 0.95, 3.0
    a = allowance_beside(ratio, confidence, bias, laplace)
    noise = Noise(np.sqrt(0.5), 1.0) if laplace else Noise(1.0)
    draw = (lambda: random.laplace(size=200_000) / np.sqrt(2)) if laplace else (lambda: random.normal(size=200_000))
    # Of one deviation of the variance's noise: so is an Estimate's variance_noise in its own units.
    read = np.linspace(-9, 9, 300)
    for place in (0.5, 2.0, 10.0):
        halves = []
        for m in read:
            estimate = Estimate(0.0, ratio * (place + m), 1.0, ratio, allowance=a, bias=bias)
            interval = assemble(estimate, noise, confidence, None)[1]
            halves.append((interval.upper - interval.lower) / 2)
        off = bias * np.sqrt(ratio * place)
        error = off + draw() + random.normal(size=200_000) * np.sqrt(ratio * place)
        assert np.mean(np.abs(error) <= np.interp(draw(), read, halves)) > confidence - 0.004
