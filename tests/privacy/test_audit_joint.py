"""A protocol's joint releases audited from outside on neighbouring tables, with mutants that must be caught.

As for adjustment's (``test_audit_regression.py``): each release is drawn thousands of times on two tables that differ
in one extreme unit, which may change its subgroup; its likelihood ratio bounds epsilon from below, wrong with
probability at most 1e-6 a case. Noise is seeded.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from causalveil.tasks.enclave.cells import CellRows
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Mechanism
from causalveil.tasks.privacy.noise import SeededNoise
from causalveil.tasks.protocols.drawn import joined
from causalveil.tasks.protocols.recipe import ProtocolRecipe
from causalveil.tasks.protocols.releases import by_block, numbers_of
from tests.audit import OpenBudget, epsilon_lower_bound
from tests.joint_help import SLOTS, Shape

RUNS, EPSILON, DELTA, OUTCOMES, GROUPS = 2_500, "3", "0.01", 4, 2
NUMBERS = {f"n{place}": {"lower": 0, "upper": 1} for place in range(2)}


def made(arms: int, name: str) -> Shape:
    """Lines so steep that the constant is nothing beside them; in scores outcomes alone turn around."""
    steep = 4.0 if name == "scores" else 1e6
    return Shape(OUTCOMES, GROUPS, arms, NUMBERS, steep=steep, privacy=(EPSILON, DELTA))


def exact(one: Shape, name: str, recipe: ProtocolRecipe | None = None) -> list[FloatArray]:
    """The exact values on twenty ordinary people and an extreme one, and with another one in that one's place."""
    # What is farthest apart: lines that stay and arms that change, or candidates that turn around, or subgroups.
    last = {
        "scales": (one.row([1, 1], 1, 1, 0), one.row([-1, -1], 0, 1, 1)),
        "moments": (one.row([1, 1], 1, 1, 0), one.row([1, 1], 0, -1, 0)),
        "screen": (one.row([1, 1], 1, 1, 0), one.row([-1, 1], 1, 1, 0)),
        "scores": (one.row([1, 1], 1, 1, 0), one.row([1, 1], 1, -1, 0)),
    }[name]
    block, found = one.block(name, recipe), []
    others = [one.row([0.1, 0.1], at % one.arms, 0, at % GROUPS) for at in range(20)]
    for row in last:
        table = [*others, row]
        rows = CellRows(*(np.concatenate([getattr(each, part) for each in table]) for part in ("x", "t", "u", "g")))
        of = [lambda some: joined(block.of(some))] * GROUPS
        sums = by_block(Pieces([rows].__getitem__, 1, len(rows)), of, [numbers_of(block)] * GROUPS, 1)
        found.append(np.concatenate([each * joined(block.weights) for each in sums]))
    return found


def audited(mechanism: Mechanism, values: list[FloatArray], *kept: float) -> list[float]:
    """Lower bounds on epsilon with these parts of the noise."""
    budget, way, slot = OpenBudget(SeededNoise(7)), values[0] - values[1], SLOTS["scores"]
    drawn = [np.array([mechanism.release(value, slot, budget) @ way for _ in range(RUNS)]) for value in values]
    middle = [value @ way for value in values]
    pairs = [[at + part * (own - at) for at, own in zip(middle, drawn, strict=True)] for part in kept]
    return [epsilon_lower_bound(one, other, float(mechanism.cost.delta), 1 - 1e-6) for one, other in pairs]


@pytest.mark.parametrize("arms", [2, 3])
@pytest.mark.parametrize("name", SLOTS)
def test_joint_releases_stay_below_the_declared_epsilon_and_less_noise_is_caught(name: str, arms: int) -> None:
    one = made(arms, name)
    mechanism, values = one.mechanism(name), exact(one, name)
    whole, quarter = audited(mechanism, values, 1.0, 1 / 4)
    assert whole <= float(mechanism.cost.epsilon) < quarter


@pytest.mark.parametrize("name", SLOTS)
def test_outcomes_that_are_not_weighted_are_caught(name: str) -> None:
    """A mutant that releases every outcome at the noise of one."""
    one = made(2, name)
    values = exact(one, name, replace(one.recipe, weights=(2.0,) * OUTCOMES))
    assert audited(one.mechanism(name), values, 1.0)[0] > float(EPSILON)


def test_subgroups_whose_noise_is_divided_are_caught() -> None:
    """A mutant that holds each of two subgroups to have a budget of its own, of four times the cost."""
    one = made(2, "scales")
    values = [4 * value for value in exact(one, "scales")]
    assert audited(one.mechanism("scales"), values, 1.0)[0] > float(EPSILON)


def test_arms_that_each_have_the_noise_of_none_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant of eight times the sides' numbers of treatment in the screen."""
    one = made(3, "screen")
    monkeypatch.setattr(ProtocolRecipe, "side_weight", 8.0)
    assert audited(one.mechanism("screen"), exact(one, "screen"), 1.0)[0] > float(EPSILON)
