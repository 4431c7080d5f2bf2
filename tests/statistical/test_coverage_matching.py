"""Intervals of a matching cover as often as they say, at both levels and for every estimand.

100 tables a case, seeds 0 to 99, nominal 95%: a true coverage of 95% misses the bound of 0.87 once in 2,000
(binomial); so over eleven cases a false alarm has probability 0.5%. An interval that leaves out the noise of the
release is caught.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import ks_2samp

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.split import ascending, keyed_hash
from causalveil.tasks.estimate import answers
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.matching_help import population, two_covariates

TABLES = 100
LEAST = 0.87


@dataclass(frozen=True)
class Case:
    study: dict[str, Any]
    rows: dict[str, Any]
    n: int = 1_000
    truth: float = 0.2
    widest: float = 3.0  # half-width over 1.96 standard deviations of the estimate


LABEL, SAMPLE = {"level": "label"}, {"level": "sample"}
RANDOMISED = {"slope": 0.0, "outcome": 0.0}
CASES = {
    "label": Case(LABEL | {"epsilon": "2"}, {}),
    "label, large epsilon": Case(LABEL | {"epsilon": "100"}, {}, widest=1.4),
    "label, effect varies": Case(LABEL | {"epsilon": "100"}, {"varying": 0.4}, widest=1.5),
    "label, confounded": Case(LABEL | {"epsilon": "20"}, {"slope": 2.0}, n=2_000, widest=1.6),
    "label, few": Case(LABEL | {"epsilon": "1"}, {}, n=200, widest=4.0),
    "label, ATT": Case(LABEL | {"epsilon": "20", "estimand": "ATT", "cap": 20}, {"base": -1.0}, widest=1.8),
    "label, ATC": Case(LABEL | {"epsilon": "20", "estimand": "ATC", "cap": 20}, {"base": -1.0}, widest=1.8),
    "label, caliper": Case(LABEL | {"epsilon": "20", "caliper": 0.02}, {}, widest=1.6),
    "label, paper": Case(LABEL | {"epsilon": "2", "variant": "paper"}, {}, widest=6.0),
    "sample": Case(SAMPLE | {"epsilon": "2", "correct_attenuation": False}, RANDOMISED),
    "sample, corrected": Case(SAMPLE | {"epsilon": "8", "correct_attenuation": True}, RANDOMISED),
}


def run(case: Case, tables: int = TABLES) -> list[Findings]:
    found = []
    study = two_covariates(**case.study)
    for seed in range(tables):
        rows = population(case.n, np.random.default_rng(seed), **case.rows)
        found.append(rehearse_effect(study, rows, RehearsalBudget(seed)))
    return found


def share_covered(case: Case, found: list[Findings]) -> float:
    hits = 0
    for one in found:
        corrected = case.study.get("correct_attenuation", False)
        left = 1.0 if corrected else one.details.get("attenuation_factor", 1.0)
        hits += one.interval.lower <= case.truth * left <= one.interval.upper
    return hits / len(found)


SHORT = ("label", "label, confounded", "sample")


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.long] * (one not in SHORT)) for one in CASES])
def test_intervals_cover_and_are_not_idle(name: str) -> None:
    case = CASES[name]
    found = run(case)
    estimates = np.array([one.estimate for one in found])
    half = np.mean([(one.interval.upper - one.interval.lower) / 2 for one in found])
    covered = share_covered(case, found)
    print(f"{name}: covered {covered:.3f}, half-width over 1.96 deviations {half / 1.96 / estimates.std():.2f}")
    assert covered >= LEAST
    assert half < case.widest * 1.96 * estimates.std()


def test_an_interval_without_the_noise_does_not_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test of the test."""
    honest = answers.limits

    def naive(part: Any, *others: Any) -> Any:
        return honest(replace(part, noise=0.0), *others)

    monkeypatch.setattr(answers, "limits", naive)
    case = Case(LABEL | {"epsilon": "0.5"}, {})
    assert share_covered(case, run(case, 60)) < 0.75


# A label-level release does not depend on where units stand or what they are called.
KEYS, N = 250, 300
STUDY = two_covariates(level="label", epsilon="1000", ratio=3, cap=2)
ROWS = population(N, np.random.default_rng(11), slope=2.0)
Order = Callable[[IntArray, int], IntArray]


def by_hash(units: IntArray, seed: int) -> IntArray:
    return ascending(keyed_hash(pl.Series(units), seed.to_bytes(16, "little")))


def by_file(units: IntArray, seed: int) -> IntArray:
    return np.arange(len(units))


def estimates(places: IntArray, units: IntArray, first: int, order: Order) -> FloatArray:
    """Estimates of one file, row i of which is unit ``places[i]`` under the id ``units[i]``, over many keys."""
    found = []
    for seed in range(first, first + KEYS):
        chosen = places[order(units, seed)]
        rows = Rows(ROWS.x[chosen], ROWS.t[chosen], ROWS.u[chosen])
        found.append(rehearse_effect(STUDY, rows, RehearsalBudget(seed)).estimate)
    return np.array(found)


CHANGES = {
    "shuffled": (np.random.default_rng(1).permutation(N), False),
    "sorted by outcome": (np.argsort(ROWS.u), False),
    "sorted by treatment": (np.argsort(ROWS.t, kind="stable"), False),
    "each other's ids": (np.arange(N), True),
}


@pytest.fixture(scope="module")
def original() -> FloatArray:
    return estimates(np.arange(N), np.arange(N) + 1000, 0, by_hash)


@pytest.mark.parametrize("change", CHANGES)
def test_the_release_keeps_its_distribution(change: str, original: FloatArray) -> None:
    places, renamed = CHANGES[change]
    units = np.random.default_rng(2).permutation(N) + 1000 if renamed else places + 1000
    found = estimates(places, units, 10_000, by_hash)
    assert original.std() > 0, "the order does matter for the estimate"
    assert ks_2samp(original, found).pvalue > 1e-4


def test_with_the_same_key_it_is_the_same_to_the_last_digit(original: FloatArray) -> None:
    places, _ = CHANGES["sorted by outcome"]
    np.testing.assert_array_equal(original, estimates(places, places + 1000, 0, by_hash))


def test_an_estimator_that_follows_the_file_is_caught(original: FloatArray) -> None:
    places, _ = CHANGES["sorted by outcome"]
    assert ks_2samp(original, estimates(places, places + 1000, 10_000, by_file)).pvalue < 1e-4
