"""Sensitivities of a protocol's joint releases: all pairs of extreme rows of every shape, pairs that attain, mutants.

`test_every_sensitivity.py` searches for pairs that break them in whole flows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from causalveil.schemas.privacy import Norm
from causalveil.tasks.adjustment import features as of_rows
from causalveil.tasks.adjustment import releases
from causalveil.tasks.adjustment.drawn import joined
from causalveil.tasks.adjustment.recipe import TableRecipe
from causalveil.tasks.adjustment.releases import by_block, numbers_of
from causalveil.tasks.enclave.cells import CellRows
from causalveil.tasks.enclave.split import Pieces
from tests.joint_help import SLOTS, Shape

KINDS: dict[str, Any] = {
    "age": {"lower": 0, "upper": 80, "nulls": "indicator"},
    "group": {"levels": ["a", "b", "c"]},
    "half": {"levels": ["a", "b"]},
    "smoker": {"lower": 0, "upper": 1, "codes": {"no": "no", "yes": "yes"}},
    "weight": {"lower": 0, "upper": 1},
}
FLAGS: dict[str, Any] = {f"f{place}": KINDS["smoker"] for place in range(3)}
NUMBERS: dict[str, Any] = {f"n{place}": KINDS["weight"] for place in range(2)}
SHAPES = [(q, groups, arms) for q in (1, 3) for groups in (1, 3) for arms in (2, 3)]


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is what it is in a block of any width, and narrow ones are quick."""
    monkeypatch.setattr(of_rows, "BLOCK", 4)


PURE = ("1", "0")
PRIVACY = {"with a delta": ("1", "1e-6"), "without a delta": PURE}


@lru_cache
def shape(outcomes: int, groups: int, arms: int, privacy: tuple[str, str] = PRIVACY["with a delta"]) -> Shape:
    return Shape(outcomes, groups, arms, KINDS, privacy=privacy)


def extreme_rows(made: Shape, count: int, seed: int) -> list[CellRows]:
    """Rows at corners of what a row may hold, and half of them with the outcomes of another; some not eligible."""
    random, found = np.random.default_rng(seed), []
    u = np.ones(made.outcomes)
    for _ in range(count):
        gone, level, ends = random.integers(2), random.integers(3), random.choice([-1.0, 1.0], 2)
        age = 0.0 if gone else ends[0] * random.choice([1.0, random.random()])
        z = [age, gone, *(np.arange(3) == level), *random.integers(2, size=2), ends[1]]
        if random.random() < 0.5:
            u = random.choice([-1.0, 0.0, 1.0], made.outcomes)
        elif random.random() < 0.7:
            u = -u
        found.append(made.row(z, int(random.integers(made.arms)), u, int(random.integers(made.groups + 1))))
    return found


def farthest(made: Shape, name: str, count: int = 160, recipe: TableRecipe | None = None) -> float:
    """The farthest of all pairs of extreme rows, over what is declared."""
    values = np.array([made.placed(name, row, recipe) for row in extreme_rows(made, count, seed=3)])
    declared = made.mechanism(name).sensitivity
    assert declared.value is not None
    return float(pdist(values, "cityblock" if declared.norm is Norm.l1 else "euclidean").max()) / declared.value


@pytest.mark.parametrize("privacy", PRIVACY.values(), ids=list(PRIVACY))
@pytest.mark.parametrize("name", SLOTS)
def test_no_pair_of_extreme_rows_moves_a_release_farther_than_declared(name: str, privacy: tuple[str, str]) -> None:
    """12,720 pairs of each of 8 shapes, seed 3: of one subgroup, of two, and with rows that are not eligible."""
    far = {sizes: farthest(shape(*sizes, privacy), name) for sizes in SHAPES}
    print(name, {sizes: round(ratio, 3) for sizes, ratio in far.items()})
    assert max(far.values()) <= 1 + 1e-9
    assert min(far.values()) > 0.7


def moved(made: Shape, name: str, *pair: CellRows) -> float:
    declared = made.mechanism(name).sensitivity
    assert declared.value is not None
    apart = np.subtract(*(made.placed(name, row) for row in pair))
    return float(np.linalg.norm(apart, 1 if declared.norm is Norm.l1 else 2)) / declared.value


@pytest.mark.parametrize("outcomes", [1, 3])
def test_bounds_are_attained(outcomes: int) -> None:
    one = Shape(outcomes, 1, 2, NUMBERS)
    assert moved(one, "scales", one.row([1, 1], 1, 1, 0), one.row([-1, -1], 0, -1, 0)) > 0.9999
    # Two subgroups: outcomes at an end and whatever covariates, in whatever arms.
    for arms in (2, 3):
        for covariates, z in ((NUMBERS, [1, 1]), (FLAGS, [1, 1, 1])):
            two = Shape(outcomes, 2, arms, covariates)
            assert moved(two, "scales", two.row(z, 1, 1, 0), two.row(z, 0, 1, 1)) > 0.9999
    # Lines so steep that the constant is nothing beside them; curves are in the ball too.
    steep = Shape(outcomes, 2, 2, NUMBERS, steep=1e6)
    assert moved(steep, "moments", steep.row([1, 1], 1, 1, 0), steep.row([1, 1], 0, -1, 0)) > 0.9999
    steep = Shape(outcomes, 2, 3, NUMBERS, steep=1e6)
    assert moved(steep, "moments", steep.row([1, 1], 1, 1, 0), steep.row([1, 1], 2, 1, 0)) > 0.9999
    # Scores of one arm turn around, and scores of two subgroups are as far apart.
    for arms, other in ((2, 0), (2, 1), (3, 0), (3, 1)):
        many = Shape(outcomes, 2, arms, NUMBERS)
        ends = (1, -1) if other == 0 else (1, 1)
        assert moved(many, "scores", many.row([1, 1], 1, ends[0], 0), many.row([1, 1], 1, ends[1], other)) > 0.9999


@pytest.mark.parametrize("outcomes", [1, 3])
def test_bounds_without_a_delta_are_attained(outcomes: int) -> None:
    one = Shape(outcomes, 1, 2, NUMBERS, privacy=PURE)
    # The other arm's outcome is half way; of one subgroup the flags weigh twice.
    for covariates, ends in ((NUMBERS, ([1, 1], [-1, -1])), (FLAGS, ([1, 1, 1], [0, 0, 0]))):
        for arms in (2, 3):
            many = Shape(outcomes, 1, arms, covariates, privacy=PURE)
            assert moved(many, "scales", many.row(ends[0], 1, 1, 0), many.row(ends[1], 0, -0.5, 0)) > 0.9999
            two = Shape(outcomes, 2, arms, covariates, privacy=PURE)
            assert moved(two, "scales", two.row(ends[0], 1, 1, 0), two.row(ends[0], 0, 1, 1)) > 0.9999
    steep = replace(one, steep=1e6)
    assert moved(steep, "moments", steep.row([1, 1], 1, 1, 0), steep.row([-1, -1], 1, 1, 0)) > 0.9999
    assert moved(one, "scores", one.row([1, 1], 1, 1, 0), one.row([1, 1], 1, -1, 0)) > 0.9999
    for groups, arms in ((2, 2), (2, 3)):
        many = Shape(outcomes, groups, arms, NUMBERS, privacy=PURE)
        assert moved(many, "scores", many.row([1, 1], 1, 1, 0), many.row([1, 1], 1, 1, 1)) > 0.9999
    three = Shape(outcomes, 1, 3, NUMBERS, privacy=PURE)
    assert moved(three, "scores", three.row([1, 1], 1, 1, 0), three.row([1, 1], 2, 1, 0)) > 0.9999


def test_what_would_be_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes that are not weighted, sides neither; flags that count twice; a sensitivity for one subgroup alone."""
    made = shape(3, 3, 3)
    for name in SLOTS:
        assert farthest(made, name, recipe=replace(made.recipe, weights=(1.0,) * 3)) > 1.1
    monkeypatch.setattr(TableRecipe, "side_weight", 1.0)
    assert farthest(made, "screen") > 1.1
    monkeypatch.setattr(releases, "ARM_GRAM", 1.5)
    assert farthest(Shape(1, 1, 2, KINDS, steep=1e6), "moments") > 1.05
    # Without a delta: weights that only their squares add up to 1, and squares of scores in full.
    pure = shape(3, 3, 3, PURE)
    monkeypatch.setattr(releases, "SQUARE_L1", 1.0)
    assert farthest(pure, "scores") > 1.1
    monkeypatch.setattr(TableRecipe, "outcome_weights", lambda self, _: np.array(self.weights))
    assert farthest(pure, "scales") > 1.1
    two = Shape(1, 2, 2, FLAGS)
    pair = two.row([1, 1, 1], 1, 1, 0), two.row([1, 1, 1], 0, 1, 1)
    monkeypatch.setattr(type(two.recipe.scale_sums), "blocks", False, raising=False)
    monkeypatch.setattr(TableRecipe, "scale_sums", replace(two.recipe.scale_sums, blocks=False))
    assert moved(two, "scales", *pair) > 1.1


def test_sums_are_those_of_rows_whatever_their_order_and_pieces() -> None:
    """2,000 rows of three subgroups and some of none, seed 5: to the last bit, and every block is its rows' own."""
    made = shape(3, 3, 3)
    rows = extreme_rows(made, 100, seed=5)
    x, t, u, g = (np.concatenate([getattr(row, name) for row in rows] * 20) for name in ("x", "t", "u", "g"))
    order = np.random.default_rng(5).permutation(len(t))
    whole, mixed = CellRows(x, t, u, g), CellRows(x[order], t[order], u[order], g[order])
    for name in SLOTS:
        block = made.block(name)
        numbers = [numbers_of(block)] * made.groups

        def sums(pieces: list[CellRows]) -> np.ndarray:
            found = by_block(
                Pieces(pieces.__getitem__, len(pieces), len(t)),
                [lambda some: joined(block.of(some))] * made.groups,  # noqa: B023
                numbers,  # noqa: B023
                1,
            )
            return np.concatenate(found)

        one = sums([whole])
        assert (one == sums([mixed[:700], mixed[700:1300], mixed[1300:]])).all()
        weights = np.tile(joined(block.weights), made.groups)
        alone = sum(made.placed(name, row) for row in rows)
        np.testing.assert_allclose(one * weights, 20 * np.asarray(alone), rtol=1e-12, atol=1e-9)
