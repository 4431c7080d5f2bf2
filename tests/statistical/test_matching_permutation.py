"""A label-level release does not depend on where units stand or what they are called.

Units are shuffled, or given each other's ids, together with their covariates, treatment and outcome; the estimate over
250 run keys has the same distribution (Kolmogorov-Smirnov, seeds fixed; a false alarm below 1e-4 each). An estimator
that traversed the file in its own order fails the same test.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from scipy.stats import ks_2samp

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.split import ascending, keyed_hash
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.matching_help import population, two_covariates

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
