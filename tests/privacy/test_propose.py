"""Mechanisms that may answer "no answer": promised probabilities, privacy from outside, value and charge together."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.tasks.privacy.accountant import compose
from causalveil.tasks.privacy.budget import FlowBudget
from causalveil.tasks.privacy.ledger.ledger import Ledger
from causalveil.tasks.privacy.mechanisms import ProposeTestRelease, Sensitivity, Slot, StableRelease
from causalveil.tasks.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from tests.audit import OpenBudget, epsilon_lower_bound
from tests.ledger_help import contract, reservation

SLOT = Slot(name="iqr", scope=Scope.estimation)
UNIT = Sensitivity(1.0, Norm.l1, "1")
RUNS = 3_000


class HalfNoise(SeededNoise):
    """The mutant: seeded noise of half the scale."""

    def laplace(self, value: np.ndarray, scale: float) -> np.ndarray:
        return super().laplace(value, scale / 2)


# Chance of a false alarm of a whole test below 1e-5.
CONFIDENCE = 1 - 1e-6


def cost(epsilon: str, delta: str) -> PrivacyCost:
    return PrivacyCost(epsilon=Decimal(epsilon), delta=Decimal(delta))


def propose(epsilon: str = "2", delta: str = "0.05", tests: int = 1) -> ProposeTestRelease:
    return ProposeTestRelease(UNIT, cost(epsilon, delta), tests=tests)


def stable(epsilon: str = "2", delta: str = "0.05") -> StableRelease:
    return StableRelease(cost(epsilon, delta))


MECHANISMS: dict[str, Callable[..., Any]] = {
    "one test": propose,
    "two tests": lambda **more: propose(tests=2, **more),
    "stable": stable,
}


def answers(mechanism: Any, distance: float, noise: NoiseSource, runs: int = RUNS) -> float:
    """Share of runs with an answer."""
    distances = np.full(mechanism.tests, float(distance))
    budget = OpenBudget(noise)
    return float(np.mean([mechanism.release(np.zeros(1), distances, SLOT, budget) is not None for _ in range(runs)]))


def near(share: float, probability: float, runs: int = RUNS) -> bool:
    """Within five standard errors: a false alarm in one of 1.7 million, for one test of this file."""
    return abs(share - probability) <= 5 * math.sqrt(probability * (1 - probability) / runs) + 1e-9


@pytest.mark.parametrize("name", MECHANISMS)
def test_adversarial_data_get_an_answer_with_probability_delta(name: str) -> None:
    """At distance 1, where a neighbour may break the promise: delta exactly, or just below it for two tests."""
    mechanism = MECHANISMS[name]()
    share = answers(mechanism, 1, SeededNoise(1))
    delta = 0.05
    assert near(share, delta if mechanism.tests == 1 else 1 - (1 - delta / 2) ** 2)
    assert answers(mechanism, 0, SeededNoise(2)) <= delta


@pytest.mark.parametrize("name", MECHANISMS)
def test_mutants_of_the_test_would_be_seen(name: str) -> None:
    """With half the noise, or a threshold that forgets the one, those shares are far off."""
    mechanism = MECHANISMS[name]()
    assert not near(answers(mechanism, 1, HalfNoise(9)), 0.05 if mechanism.tests == 1 else 0.049375)
    assert not near(answers(mechanism, 2, SeededNoise(3)), 0.05 if mechanism.tests == 1 else 0.049375)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("beta", [0.3, 0.02])
def test_stable_data_get_an_answer(name: str, beta: float) -> None:
    """At a distance of threshold + scale ln(1/(2 beta)) with probability 1 - beta (Theorem 6, Algorithm 13)."""
    mechanism = MECHANISMS[name]()
    distance = mechanism.threshold + mechanism.test_scale * math.log(1 / (2 * beta))
    assert mechanism.answer_probability(distance) == pytest.approx(1 - beta)
    share = answers(mechanism, distance, SeededNoise(4))
    assert near(share, 1 - beta) if mechanism.tests == 1 else share >= 1 - beta


def test_papers_threshold_and_shares() -> None:
    """Two tests of a third each: 1 + ln(1/delta)/epsilon' and Laplace(1/epsilon') with epsilon = 3 epsilon'."""
    mechanism = propose("3", "1e-6", tests=2)
    assert mechanism.test_scale == pytest.approx(1.0, rel=1e-9)
    assert mechanism.noise_scale == pytest.approx(1.0, rel=1e-9)
    assert mechanism.threshold == pytest.approx(1 + math.log(1e6), rel=1e-6)


def test_shares_never_exceed_epsilon() -> None:
    from fractions import Fraction

    random = np.random.default_rng(0)
    for _ in range(200):
        amount = Decimal(str(round(float(random.uniform(0.01, 5)), 6)))
        for tests in (1, 2):
            mechanism = ProposeTestRelease(UNIT, PrivacyCost(epsilon=amount, delta=Decimal("1e-6")), tests=tests)
            parts = tests / Fraction(mechanism.test_scale) + 1 / Fraction(mechanism.noise_scale or 0)
            assert parts <= Fraction(amount)


def sample(mechanism: Any, value: float, distance: float, noise: NoiseSource, seed: int) -> np.ndarray:
    """What an observer sees, as one number: no answer lies far below every value."""
    budget, random = OpenBudget(noise), np.random.default_rng(seed)
    result = np.empty(RUNS)
    for run in range(RUNS):
        found = mechanism.release(np.array([value]), np.full(mechanism.tests, distance), SLOT, budget)
        result[run] = -1e6 if found is None else found[0]
    return random.permutation(result)


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        # Near: the value moves by what was proposed, far from any test.
        ("one test", (0.0, 60.0), (1.0, 60.0)),
        ("two tests", (0.0, 60.0), (1.0, 60.0)),
        # At the edge of the test, where the distance moves too.
        ("one test", (0.0, 3.0), (1.0, 2.0)),
        ("stable", (0.0, 3.0), (0.0, 2.0)),
        # The promise is broken: only delta separates them.
        ("one test", (0.0, 1.0), (1e3, 1.0)),
        ("two tests", (0.0, 1.0), (1e3, 1.0)),
        ("stable", (0.0, 1.0), (7.0, 1.0)),
    ],
)
def test_audit(name: str, one: tuple[float, float], other: tuple[float, float]) -> None:
    """Epsilon from outside never exceeds the declared one, at the declared delta."""
    mechanism = MECHANISMS[name]()
    p, q = (sample(mechanism, *side, SeededNoise(seed), seed) for seed, side in enumerate((one, other)))
    assert epsilon_lower_bound(p, q, 0.05, CONFIDENCE) <= 2


def test_audit_catches_mutants() -> None:
    """Half the noise on the value; a test that is skipped where the promise is broken."""
    mechanism = propose("1", "0.01")
    p, q = (sample(mechanism, value, 60.0, HalfNoise(seed), seed) for seed, value in enumerate((0.0, 4.0)))
    assert epsilon_lower_bound(p, q, 0.01, CONFIDENCE) > 1
    p, q = (sample(mechanism, value, 60.0, SeededNoise(seed), seed) for seed, value in enumerate((0.0, 1e3)))
    assert epsilon_lower_bound(p, q, 0.01, CONFIDENCE) > 1


@pytest.mark.parametrize(("name", "distance"), [("one test", 0.0), ("one test", 100.0), ("stable", 0.0)])
def test_no_answer_is_charged_and_stored(name: str, distance: float) -> None:
    """The same charge with or without an answer, in one call of the budget; a second call draws again nowhere."""
    mechanism = MECHANISMS[name](delta="1e-9")
    budget = OpenBudget(SeededNoise(0))
    found = mechanism.release(np.array([3.5]), np.array([distance]), SLOT, budget)
    assert (found is None) == (distance == 0)
    assert len(budget.charges) == 1
    assert budget.charges[0] == mechanism.charge(SLOT)
    assert compose(budget.charges) == mechanism.cost


@pytest.mark.parametrize("distance", [0.0, 200.0])
def test_an_answer_or_none_survives_the_ledger(ledger: Ledger, tmp_path: Path, distance: float) -> None:
    """The ledger gives the stored answer back, bit for bit, though by now the data would say otherwise."""
    mechanism = propose("1", "1e-9")
    owner = contract("10", "1e-4")
    ledger.grant(owner, "opening")
    request = reservation(charges=(mechanism.charge(SLOT),), contract=owner)
    ledger.reserve(request, owner)
    budget = FlowBudget(ledger, request, SecureNoise(), tmp_path)
    first = mechanism.release(np.array([3.5]), np.array([distance]), SLOT, budget)
    again = mechanism.release(np.array([99.0]), np.array([200.0 - distance]), SLOT, budget)
    assert (first is None) == (distance == 0)
    assert (first is None and again is None) or np.array_equal(first, again)
    (block,) = ledger.account(owner.dataset).blocks
    assert (block.spent.epsilon, block.spent.delta) == (1, Decimal("1e-9"))


def test_a_stable_value_is_released_exactly() -> None:
    value = np.array([0.1, -7.25, 1e-9])
    assert np.array_equal(stable().release(value, np.array([1e6]), SLOT, OpenBudget()), value)


def test_refusals() -> None:
    with pytest.raises(StudyError, match="delta"):
        propose(delta="0.5")
    with pytest.raises(StudyError, match="delta"):
        stable(delta="0")
    with pytest.raises(CausalveilError, match="test"):
        propose(tests=2).release(np.zeros(1), np.zeros(1), SLOT, OpenBudget())
    with pytest.raises(CausalveilError, match="finite"):
        propose().release(np.array([math.nan]), np.zeros(1), SLOT, OpenBudget())
    with pytest.raises(CausalveilError, match="finite"):
        propose().release(np.zeros(1), np.array([math.inf]), SLOT, OpenBudget())
