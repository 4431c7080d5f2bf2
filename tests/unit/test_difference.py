"""The difference in means against the textbook, and its noise against repeated releases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from causalveil.flows.estimators.difference import DIFFERENCE_IN_MEANS
from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.limits import Code
from causalveil.schemas.plan import StandIn
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate import difference
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.difference_help import confounded, difference_mechanism, difference_sums, make_difference
from tests.limits import codes


def test_without_noise_it_is_the_textbooks() -> None:
    study, (rows, _) = make_difference(), confounded(20_000, seed=1)
    found = difference.findings(study, sizes_of(study, 20_000), difference_sums(study, rows))
    arms = [5 * rows.u[rows.t == arm] for arm in (1, 0)]
    assert found.estimate == pytest.approx(arms[0].mean() - arms[1].mean(), abs=1e-4)
    # A deviation of the noise that second moments would have is added.
    exact = sum(arm.var() / len(arm) for arm in arms)
    assert exact * (1 - 1e-3) <= found.variance.sampling <= 1.1 * exact
    assert found.details["mean_treated"] == pytest.approx(5 + arms[0].mean(), abs=1e-4)


def test_the_declared_noise_error_is_that_of_repeated_releases() -> None:
    """2000 seeded releases; the Monte-Carlo error of a standard deviation is 1.6%; alarm at 5%."""
    study, (rows, _) = make_difference(), confounded(5_000, seed=2)
    sizes, exact = sizes_of(study, 5_000), difference_sums(study, rows)
    scale = difference_mechanism(study, sizes).noise_scale
    random, estimates = np.random.default_rng(3), []
    for _ in range(2000):
        noisy = exact + random.normal(0, scale, len(exact))
        estimates.append(difference.findings(study, sizes, noisy).estimate)
    declared = difference.findings(study, sizes, exact).details["noise_standard_error"]
    assert np.std(estimates) == pytest.approx(declared, rel=0.05)


def test_an_empty_arm_gives_the_whole_range() -> None:
    study, (rows, _) = make_difference(), confounded(300, seed=4)
    found = rehearse_effect(study, Rows(rows.x, np.zeros(300, np.uint8), rows.u), RehearsalBudget(0))
    assert found.interval.whole_range
    assert math.isfinite(found.estimate)


def test_where_arms_are_public_noise_is_that_of_the_smaller_arm() -> None:
    """Laplace noise of at most 1/.85 of B/(n_1 epsilon), the textbook's sampling variance; plan foresees both."""
    study, (rows, _) = make_difference(level="label", delta="0"), confounded(20_000, seed=1)
    found = rehearse_effect(study, rows, RehearsalBudget(7))
    arms = [5 * rows.u[rows.t == arm] for arm in (1, 0)]
    smaller = min(len(arm) for arm in arms)
    least = math.sqrt(2) * 10 / smaller / float(study.privacy.epsilon)
    assert least <= found.details["noise_standard_error"] <= least / 0.849
    variance = sum(arm.var() / len(arm) for arm in arms)
    # By as much more as the noise in it asks for.
    assert 0.9 * variance <= found.variance.sampling <= 1.3 * variance
    assert found.estimate == pytest.approx(arms[0].mean() - arms[1].mean(), abs=12 * least)
    deviation = math.sqrt(np.mean([arm.var() for arm in arms]))
    stand_in = StandIn(treated=rows.t.mean(), deviation=deviation)
    planned = DIFFERENCE_IN_MEANS.width(study, sizes_of(study, 20_000), stand_in)
    assert planned == pytest.approx((found.interval.upper - found.interval.lower) / 2, rel=0.15)


@pytest.mark.parametrize("level", ["sample", "label"])
def test_people_who_were_not_randomised_are_compared_unadjusted_with_an_allowance(level: str) -> None:
    """Off by .45, in outcome units, where sampling and noise alone reach .04."""
    study = make_difference(level=level, delta="0" if level == "label" else "1e-6", epsilon="8")
    rows, effect = confounded(20_000, seed=1)
    found = rehearse_effect(study, rows, RehearsalBudget(3))
    assert found.estimate > 5 * effect + 0.4
    assert found.interval.lower <= 5 * effect <= found.interval.upper
    assert found.headline.adjustment == "unadjusted"
    assert Code.confounding_of_prior in codes(found.interval.covers)
    deviation = 5 * math.sqrt(np.mean([np.var(rows.u[rows.t == arm]) for arm in (0, 1)]))
    assert found.interval.bias == pytest.approx(math.sqrt(0.5) * deviation, rel=0.05)


@pytest.mark.parametrize("level", ["sample", "label"])
def test_a_declared_trial_is_not_called_unadjusted(level: str) -> None:
    changes = {"level": level, "delta": "0" if level == "label" else "1e-6"}
    study = make_difference(estimator={"name": "difference_in_means", "trial": True}, **changes)
    found = rehearse_effect(study, confounded(20_000, seed=1)[0], RehearsalBudget(3))
    assert found.headline.adjustment == "not adjusted: treatment was randomised"
    assert found.interval.bias == 0
