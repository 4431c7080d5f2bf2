"""Treatments of several values: every sensitivity by brute force, generalised randomised response by its chances."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from causalveil.schemas.privacy import PrivacyCost, Scope
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.mechanisms import Slot
from causalveil_replication.competitors import several_valued as several

SLOT = Slot(name="treatment", scope=Scope.all)


def test_the_model_is_the_minimiser_and_with_two_values_the_logistic_one() -> None:
    random = np.random.default_rng(1)
    x = random.normal(size=(200, 3))
    x /= np.linalg.norm(x, axis=1).max()
    t = random.integers(0, 2, 200).astype(np.uint8)
    w = several.fit(x, t, 2, 0.05)
    # The two rows are opposite, and their difference has half the penalty.
    assert w[0] == pytest.approx(-w[1], abs=1e-9)
    slope = w[1] - w[0]
    gradient = x.T @ (1 / (1 + np.exp(-x @ slope)) - t) / 200 + 0.05 * slope / 2
    assert np.linalg.norm(gradient) < 1e-9


def test_no_neighbour_moves_coefficients_further_and_one_comes_near() -> None:
    """Random neighbours, and a row that is turned across all others, where the penalty alone holds coefficients."""
    random, penalty = np.random.default_rng(2), 0.02
    largest = 0.0
    for n in (5, 20, 2_000):
        bound = several.coefficient_sensitivity(n, penalty).value
        assert bound is not None
        for trial in range(30 if n < 100 else 4):
            x = random.normal(size=(n, 6))
            x /= np.linalg.norm(x, axis=1)[:, None]
            t = random.integers(0, 3, n).astype(np.uint8)
            if trial % 2:
                x[:, 5] = 0
                x[0] = np.eye(6)[5]
            other, values = x.copy(), t.copy()
            other[0] = -x[0] if trial % 2 else random.normal(size=6)
            other[0] /= np.linalg.norm(other[0])
            values[0] = t[0] if trial % 2 else random.integers(0, 3)
            moved = np.linalg.norm(several.fit(x, t, 3, penalty) - several.fit(other, values, 3, penalty))
            largest = max(largest, float(moved) / bound)
    assert largest <= 1
    # A row of weight 0 has all values equally likely: sqrt(2/3) for sqrt(2).
    assert largest == pytest.approx(math.sqrt(1 / 3), rel=0.05)


def test_vectors_are_two_apart_and_lattice_steps_are_covered() -> None:
    random = np.random.default_rng(3)
    for values in (3, 5):
        sensitivity = several.vector_sensitivity(values)
        assert sensitivity.value is not None
        release_by = several.LatticeLaplace(sensitivity, PrivacyCost(epsilon=Decimal(1), delta=Decimal(0)))
        step = release_by.granularity
        assert step is not None
        vectors = random.dirichlet(np.full(values, 0.1), (500, 2))
        vectors[0] = np.eye(values)[:2]
        steps = np.abs(np.rint(vectors / step)[:, 0] - np.rint(vectors / step)[:, 1]).sum(axis=1) * step
        assert steps.max() <= sensitivity.value
        assert steps.max() >= 2 - values * step
        assert sensitivity.value / release_by.known_scale <= 1


@pytest.mark.parametrize("values", [2, 3, 5])
@pytest.mark.parametrize("epsilon", ["0.1", "0.7", "3"])
def test_generalised_response_keeps_its_epsilon(values: int, epsilon: str) -> None:
    """Chances by the coins that are thrown; 60,000 seeded draws a value, beyond 5 errors once in 10^6 cells."""
    mechanism = several.GeneralisedResponse(PrivacyCost(epsilon=Decimal(epsilon), delta=Decimal(0)), values=values)
    keep = mechanism.known_scale
    left, chances = 1 - keep, []
    for remaining in range(values - 1, 1, -1):
        chances.append(left / remaining)
        left -= left / remaining
    chances.append(left)
    assert keep / min(chances) <= math.exp(float(epsilon))
    assert max(chances) / min(chances) <= math.exp(float(epsilon))
    assert keep >= max(chances)
    count = 60_000
    for value in range(values):
        answers = mechanism.release(np.full(count, value, dtype=np.uint8), SLOT, RehearsalBudget(value))
        shares = np.bincount(answers, minlength=values) / count
        expected = np.full(values, (1 - keep) / (values - 1))
        expected[value] = keep
        assert np.all(np.abs(shares - expected) <= 5 * np.sqrt(expected * (1 - expected) / count))


def test_one_outcome_moves_the_pairs_of_its_value_alone_and_each_by_one() -> None:
    units = several.simulated(0)
    units = replace(units, x=units.x[:300], t=units.t[:300], u=units.u[:300])
    vectors = np.random.default_rng(4).dirichlet(np.ones(3), 300)
    largest = 0.0
    for pair in units.pairs:
        places, weights = several.weighed(vectors, units.t, pair, 5, 0.5, 0.01)
        second = units.t[places] == pair[1]
        for place in range(0, 300, 7):
            ends = []
            for value in (-1.0, 1.0):
                u = units.u.copy()
                u[place] = value
                ends.append(several.normalised(u[places], second, weights))
            moved = abs(ends[1] - ends[0])
            assert moved <= 1 + 1e-12
            assert (moved > 0) == (units.t[place] in pair)
            largest = max(largest, moved)
        top = places[int(np.argmax(weights))]
        u = units.u.copy()
        ends = []
        for value in (-1.0, 1.0):
            u[top] = value
            ends.append(several.normalised(u[places], second, weights))
        assert abs(ends[1] - ends[0]) == pytest.approx(1)
    assert largest > 0.2


@pytest.mark.parametrize("level", several.LEVELS)
def test_a_unit_pays_epsilon_in_all(level: str) -> None:
    """Every pair has a draw of its own; a unit is in K - 1 of them, and in every other draw."""
    budget = RehearsalBudget(0)
    several.release(several.simulated(0), "1.7", level, 5, budget)
    charged = {charge.name: charge.epsilon for charge in budget.charges}
    effects = [epsilon for name, epsilon in charged.items() if name.startswith("effect")]
    assert len(effects) == 3
    others = sum((epsilon for name, epsilon in charged.items() if not name.startswith("effect")), Decimal(0))
    assert others + 2 * max(effects) == Decimal("1.7")


def test_much_epsilon_gives_the_estimate_without_privacy_and_little_shrinks_it() -> None:
    units = several.simulated(0)
    exact = {pair: several.without_privacy(units, pair, 5) for pair in units.pairs}
    assert exact[0, 1] + exact[1, 2] == pytest.approx(exact[0, 2], abs=0.1)
    assert exact[0, 2] == pytest.approx(1.0, abs=0.1)
    found = several.release(units, "900", "label", 5, RehearsalBudget(1))
    assert all(found[pair] == pytest.approx(exact[pair], abs=0.02) for pair in exact)
    noisy = [several.release(units, "1", "sample", 5, RehearsalBudget(seed))[0, 2] for seed in range(10)]
    assert abs(np.mean(noisy)) < 0.5
