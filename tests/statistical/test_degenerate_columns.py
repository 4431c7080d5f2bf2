"""Columns that hold nothing, or nothing new: every estimator answers honestly and wide, or refuses by public facts.

At sample level neither whether a run ends with an answer nor with which error may depend on rows: there the only
refusals are by sizes and declared values. Rows are in memory and noise is seeded, so that nothing here is by chance:
a true effect of 0 is held by the 95% interval of each seed below.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.confounding import AdjustmentState
from causalveil.schemas.errors import CausalveilError, DataError, StudyError
from causalveil.schemas.studies import parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.limits import words
from tests.regression_help import in_rows, make_regression
from tests.sensitivity_cases import in_full

# Noise has a seed apart from that of the rows: the same one would draw what the rows were made of.
UNITS, HALF, SEED = 300, 5.0, 1_005
ESTIMATORS: dict[str, dict[str, Any]] = {
    "regression": {"estimator": {"name": "regression"}},
    "regression pure": {"estimator": {"name": "regression"}, "privacy": {"epsilon": 1, "delta": 0}},
    "regression ATT": {"estimator": {"name": "regression"}, "estimand": "ATT", "privacy": {"epsilon": 8}},
    "regression terms": {
        "estimator": {"name": "regression", "curves": "none"},
        "terms": in_full("x000^2", "x000^3", "ns(x000, 3)", "x000 > 0.4"),
        "privacy": {"epsilon": 8},
    },
    "ipw": {"estimator": {"name": "ipw"}},
    "ipw training units": {"estimator": {"name": "ipw"}, "privacy": {"level": "training_units"}},
    "difference": {"estimator": {"name": "difference_in_means"}},
    "matching": {"estimator": {"name": "matching"}, "privacy": {"delta": 0}},
    "balancing label": {"estimator": {"name": "balancing"}, "privacy": {"delta": 0, "level": "label"}},
    "balancing label ATC": {
        "estimator": {"name": "balancing"},
        "estimand": "ATC",
        "privacy": {"delta": 0, "level": "label"},
    },
    "ipw label": {"estimator": {"name": "ipw"}, "privacy": {"delta": 0, "level": "label"}},
    "difference label": {"estimator": {"name": "difference_in_means"}, "privacy": {"delta": 0, "level": "label"}},
    "matching label": {"estimator": {"name": "matching"}, "privacy": {"delta": 0, "level": "label"}},
}


def asked(estimator: str, columns: int) -> EffectStudy:
    """The estimator's study of so many numbers in [-1, 1], outcome from 0 to 10."""
    changes = ESTIMATORS[estimator]
    study = parse_study(
        {
            "kind": "effect",
            "name": "degenerate",
            "data": {"path": ".", "unit": "unit"},
            "treatment": "t",
            "outcome": {"name": "y", "lower": 0, "upper": 10},
            "covariates": {f"x{place:03d}": {"lower": -1, "upper": 1} for place in range(columns)},
            "estimand": "ATE",
            "execution": {"engine": "direct", "workers": 1},
            **changes,
            "privacy": {"epsilon": 1, "delta": "1e-6", **changes.get("privacy", {})},
        }
    )
    assert isinstance(study, EffectStudy)
    return study


def table(case: str) -> Rows:
    """People without an effect whose treatment and outcome depend on the first column, but for what the case says."""
    random = np.random.default_rng(5)
    n = {"ten people": 10, "more columns than people": 40}.get(case, UNITS)
    z = random.uniform(-1, 1, (n, 50 if case == "more columns than people" else 3))
    if case == "constant":
        z[:, 1] = 0.5
    elif case == "all constant":
        z[:] = 0.5
    elif case == "duplicated":
        z[:, 1] = z[:, 0]
    elif case == "sum to one":
        z = np.abs(z) / np.abs(z).sum(axis=1, keepdims=True)
    elif case == "ranges too wide":
        z = z / 1000
    elif case == "ranges too narrow":
        z = np.sign(z)
    first = z[:, 0] / max(float(np.abs(z[:, 0]).max()), 1e-9)
    t = (random.random(n) < 1 / (1 + np.exp(-first))).astype(np.uint8)
    u = np.clip(0.2 * first + 0.2 * random.normal(size=n), -1, 1)
    if case == "ten people":
        t[:4] = [0, 1, 0, 1]
    if case in ("all treated", "all controls"):
        t[:] = case == "all treated"
    elif case == "one treated":
        t[:] = 0
        t[7] = 1
    elif case == "outcome constant":
        u[:] = 0.3
    elif case == "outcome is treatment":
        u[:] = 2.0 * t - 1
    elif case == "covariate is treatment":
        z[:, 1] = 2.0 * t - 1
    elif case == "ranges too wide":
        u = u / 1000
    elif case == "ranges too narrow":
        u = np.sign(u)
    return in_rows(z, t, u)


CASES = (
    "constant",
    "all constant",
    "duplicated",
    "sum to one",
    "all treated",
    "all controls",
    "one treated",
    "outcome constant",
    "outcome is treatment",
    "covariate is treatment",
    "ranges too wide",
    "ranges too narrow",
    "more columns than people",
    "ten people",
)
# Cases in which covariates and treatment, public at label level, allow no comparison.
NO_ARMS = ("all treated", "all controls", "one treated")
# There the effect that units have is not identified, or is cut away.
NO_TRUTH = (*NO_ARMS, "ranges too narrow", "all constant", "outcome is treatment", "covariate is treatment")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_honest_answer_or_a_refusal_by_public_facts(estimator: str, case: str) -> None:
    rows = table(case)
    study = asked(estimator, rows.x.shape[1] - 1)
    label = study.privacy.level == "label"
    found: Findings | CausalveilError
    try:
        found = rehearse_effect(study, rows, RehearsalBudget(SEED))
    except CausalveilError as error:
        found = error
    if isinstance(found, CausalveilError):
        # By n and what is declared; at label level also by covariates and treatments.
        assert isinstance(found, DataError if label else StudyError), found
        few = ("more columns than people",) if estimator == "regression terms" else ()
        assert case in ("ten people", *few, *(NO_ARMS if label else ())), found
        return
    numbers = [value for value in found.details.values() if isinstance(value, float)]
    assert all(map(math.isfinite, numbers)), found.details
    assert -2 * HALF <= found.interval.lower <= found.estimate <= found.interval.upper <= 2 * HALF
    if case not in NO_TRUTH and "difference" not in estimator:
        assert found.interval.lower <= 0 <= found.interval.upper
    if "training" not in estimator and (case == "ten people" or (case in NO_ARMS and not label)):
        assert found.interval.upper - found.interval.lower > HALF


def test_everybody_in_one_arm_is_not_seen_by_whether_a_run_ends() -> None:
    """Neighbours at sample level: the one treated person is replaced by a control."""
    for estimator in ESTIMATORS:
        if "label" not in estimator:
            for case in ("one treated", "all controls"):
                rehearse_effect(asked(estimator, 3), table(case), RehearsalBudget(3))


@pytest.mark.parametrize("everybody", [0, 1])
@pytest.mark.parametrize("trial", [False, True])
def test_no_number_of_people_in_one_arm_tells_of_the_other(everybody: int, trial: bool) -> None:
    """20,000 in one arm: noise in their number is small, and the other's mean may lie anywhere in its range."""
    random = np.random.default_rng(7)
    z = random.uniform(-1, 1, (20_000, 3))
    u = np.clip(0.3 + 0.2 * z[:, 0] + 0.2 * random.normal(size=len(z)), -1, 1)
    study = asked("regression", 3)
    study = study.model_copy(update={"estimator": study.estimator.model_copy(update={"trial": trial})})
    found = rehearse_effect(study, in_rows(z, np.full(len(z), everybody, np.uint8), u), RehearsalBudget(3))
    assert found.interval.upper - found.interval.lower > 2 * 0.8 * HALF


@pytest.mark.parametrize("disagree", [0.01, pytest.param(0.03, marks=pytest.mark.long)])
def test_a_column_that_is_nearly_the_treatment_is_not_taken_to_be_adjusted_for(disagree: float) -> None:
    """A covariate says who is treated but for 1 % of the people, and moves the outcome.

    20,000 people, epsilon 1, straight lines, seeds 0 to 9: each 95 % interval holds the effect of .75. Where the share
    of a column's variance that lies between the arms was held to seven tenths, each missed it and said that it was
    adjusted.
    """
    study = make_regression(3, curves="none")
    for seed in range(10):
        random, n = np.random.default_rng([7, seed]), 20_000
        t = random.random(n) < 0.5
        z = np.column_stack([np.where(random.random(n) < disagree, ~t, t) * 2.0 - 1, random.uniform(-1, 1, (n, 2))])
        u = np.clip(0.15 * t + 0.2 * z[:, 0] + 0.3 * z[:, 1] + random.normal(-0.1, 0.2, n), -1, 1)
        found = rehearse_effect(study, in_rows(z, t, u), RehearsalBudget(seed), seed)
        assert found.interval.lower <= 0.75 <= found.interval.upper, seed


@pytest.mark.parametrize("prior", [{"outcome_r2": 0}, {"distance": 0}, {"outcome_r2": 0, "distance": 0}])
def test_a_prior_of_no_confounding_is_answered(prior: dict[str, float]) -> None:
    """Slopes of variance 0 made a singular matrix behind the first release, whose charge stood: the run never ended."""
    z, t, u = np.zeros((300, 2)), np.arange(300) % 2, np.linspace(-1, 1, 300)
    z[:, 0] = np.cos(np.arange(300))
    found = rehearse_effect(make_regression(2, confounding_prior=prior), in_rows(z, t, u), RehearsalBudget(SEED))
    assert np.isfinite([found.estimate, found.interval.lower, found.interval.upper]).all()


@pytest.mark.parametrize(("never", "told"), [(0.3, True), (0.0, False)])
def test_people_whom_one_arm_lacks_are_named(never: float, told: bool) -> None:
    """Effects on a third of the people, of whom none is treated, are an extrapolation, and the release says so.

    The outcome follows the same steps: else no curve confounds, and lines alone are balanced.
    """
    random = np.random.default_rng(11)
    z = random.uniform(-1, 1, (50_000, 1))
    chance = np.where(z[:, 0] > 1 - 2 * never, 0.0, 0.8 - 0.6 * (z[:, 0] > 0)) if never else np.full(len(z), 0.5)
    t = random.random(len(z)) < chance
    study = make_regression(1)
    u = random.uniform(-0.5, 0.5, len(z)) + 0.5 * chance
    found = rehearse_effect(study, in_rows(z, t, u), RehearsalBudget(SEED), SEED)
    assert ("one arm lacks" in words(found.not_covered)) is told, found.details


def test_nothing_is_taken_to_be_adjusted_for_where_noise_hides_every_column() -> None:
    random = np.random.default_rng(3)
    x, t = random.uniform(-1, 1, (300, 3)), (random.random(300) < 0.5).astype(float)
    study = make_regression(3, epsilon="0.03")
    found = rehearse_effect(study, in_rows(x, t, np.clip(x[:, 0] / 2, -1, 1)), RehearsalBudget(1))
    assert found.details["features"] == 0
    assert found.details["confounding_adjusted_for"] == 0
    assert found.confounding.state is AdjustmentState.unadjusted
    assert len(found.confounding.left_out) == 3


def test_a_trial_that_is_out_of_balance_is_told_so_and_one_by_lot_is_not() -> None:
    """5,000 people, 6 columns, epsilon 1, seeds 0 to 9.

    A chance that follows x00 by .2 is seen in each; by lot one of a thousand studies is told: ten of ten are not.
    """
    told = dict[float, list[str]]()
    for shift in (0.0, 0.2):
        for seed in range(10):
            random = np.random.default_rng([21, seed])
            z = np.clip(random.normal(0, 0.4, (5_000, 6)), -1, 1)
            t = random.random(5_000) < 0.5 + shift * z[:, 0]
            u = np.clip(0.2 * z[:, 0] + 0.1 * t + random.normal(0, 0.2, 5_000), -1, 1)
            study = make_regression(6, trial=True)
            found = rehearse_effect(study, in_rows(z, t, u), RehearsalBudget(seed), seed)
            told.setdefault(shift, []).append(str(found.details.get("unlike", "")))
    assert told == {0.0: [""] * 10, 0.2: ["x00"] * 10}
