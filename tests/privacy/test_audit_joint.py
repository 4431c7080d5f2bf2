"""A protocol's joint releases audited from outside on neighbouring tables, with mutants that must be caught.

Each release is drawn thousands of times on two tables that differ in one extreme unit, which may change its subgroup;
its likelihood ratio bounds epsilon from below, wrong with probability at most 1e-6 a case. Noise is seeded. A shape of
one outcome and one subgroup is a study of one effect.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from causalveil.schemas.privacy import Norm
from causalveil.tasks.adjustment.drawn import joined
from causalveil.tasks.adjustment.recipe import TWO_ARMS, TableRecipe
from causalveil.tasks.adjustment.releases import by_block, numbers_of
from causalveil.tasks.enclave.cells import CellRows
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import L2Laplace, Mechanism
from causalveil.tasks.privacy.noise import SeededNoise
from tests.audit import OpenBudget, epsilon_lower_bound
from tests.joint_help import SLOTS, Shape

RUNS, EPSILON, DELTA, OUTCOMES, GROUPS = 2_500, "3", "0.01", 4, 2
NUMBERS = {f"n{place}": {"lower": 0, "upper": 1} for place in range(2)}


def made(arms: int, name: str, delta: str = DELTA, outcomes: int = OUTCOMES, groups: int = GROUPS) -> Shape:
    """Lines so steep that the constant is nothing beside them; in scores outcomes alone turn around."""
    steep = 4.0 if name == "scores" else 1e6
    return Shape(outcomes, groups, arms, NUMBERS, steep=steep, privacy=(EPSILON, delta))


def exact(one: Shape, name: str, recipe: TableRecipe | None = None) -> list[FloatArray]:
    """The exact values on twenty ordinary people and an extreme one, and with another one in that one's place."""
    several, pure = int(one.groups > 1), one.recipe.pure
    alike = pure and one.arms == TWO_ARMS
    # What is farthest apart: lines that stay and arms that change, or candidates that turn around, or subgroups.
    last = {
        "scales": (one.row([1, 1], 1, 1, 0), one.row([-1, -1], 0, 1 if several else -0.5 if pure else -1, several)),
        "moments": (one.row([1, 1], 1, 1, 0), one.row([-1, -1], 1, 1, 0) if alike else one.row([1, 1], 0, -1, 0)),
        "screen": (one.row([1, 1], 1, 1, 0), one.row([-1, 1], 1, 1, 0)),
        "scores": (one.row([1, 1], 1, 1, 0), one.row([1, 1], 1, -1, 0)),
    }[name]
    block, found = one.block(name, recipe), []
    others = [one.row([0.1, 0.1], at % one.arms, 0, at % one.groups) for at in range(20)]
    for row in last:
        table = [*others, row]
        rows = CellRows(*(np.concatenate([getattr(each, part) for each in table]) for part in ("x", "t", "u", "g")))
        of = [lambda some: joined(block.of(some))] * one.groups
        sums = by_block(Pieces([rows].__getitem__, 1, len(rows)), of, [numbers_of(block)] * one.groups, 1)
        found.append(np.concatenate([each * joined(block.weights) for each in sums]))
    return found


def audited(mechanism: Mechanism, values: list[FloatArray], *kept: float) -> list[float]:
    """Lower bounds on epsilon with these parts of the noise, by the likelihood ratio of what is drawn."""
    budget, way, slot = OpenBudget(SeededNoise(7)), values[0] - values[1], SLOTS["scores"]
    order = None if mechanism.cost.delta > 0 else 1 if mechanism.sensitivity.norm is Norm.l1 else 2

    def likelihood(drawn: FloatArray, part: float) -> float:
        """Of normal noise along what differs; of Laplace noise by the lengths of what was added."""
        if order is None:
            return float(drawn @ way)
        lengths = [float(np.linalg.norm(drawn - value, order)) for value in values]
        return (lengths[1] - lengths[0]) / (mechanism.known_scale * part)

    noise = [[mechanism.release(value, slot, budget) - value for _ in range(RUNS)] for value in values]
    found = []
    for part in kept:
        one, other = (
            np.array([likelihood(value + part * own, part) for own in drawn])
            for value, drawn in zip(values, noise, strict=True)
        )
        found.append(epsilon_lower_bound(one, other, float(mechanism.cost.delta), 1 - 1e-6))
    return found


@pytest.mark.parametrize("delta", [DELTA, "0"])
@pytest.mark.parametrize(("outcomes", "groups", "arms"), [(1, 1, 2), (OUTCOMES, GROUPS, 2), (OUTCOMES, GROUPS, 3)])
@pytest.mark.parametrize("name", SLOTS)
def test_joint_releases_stay_below_the_declared_epsilon_and_less_noise_is_caught(
    name: str, outcomes: int, groups: int, arms: int, delta: str
) -> None:
    one = made(arms, name, delta, outcomes, groups)
    mechanism, values = one.mechanism(name), exact(one, name)
    # Laplace noise on many numbers hides a pair far better than its epsilon says.
    little = 1 / 4 if delta == DELTA or (outcomes == 1 and not isinstance(mechanism, L2Laplace)) else 1 / 64
    whole, less = audited(mechanism, values, 1.0, little)
    assert whole <= float(mechanism.cost.epsilon) < less


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
    monkeypatch.setattr(TableRecipe, "side_weight", 8.0)
    assert audited(one.mechanism("screen"), exact(one, "screen"), 1.0)[0] > float(EPSILON)


def test_moments_that_weigh_the_arms_more_are_caught() -> None:
    """A mutant that weighs eight times what differs between the arms at the noise of 3."""
    one = made(2, "moments", outcomes=1, groups=1)
    sizes = {part: weight.size for part, weight in one.block("moments").weights.items()}
    own = np.repeat([8.0 if part.startswith("arm") else 1.0 for part in sizes], list(sizes.values()))
    values = [own * value for value in exact(one, "moments")]
    assert audited(one.mechanism("moments"), values, 1.0)[0] > float(EPSILON)
