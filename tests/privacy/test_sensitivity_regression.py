"""Sensitivities of adjustment: constructed pairs of rows attain them, and what their proofs rest on.

`test_every_sensitivity.py` searches for pairs that break them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from causalveil.tasks.adjustment import recipe, sums
from causalveil.tasks.adjustment.features import (
    BLOCK,
    ArmScales,
    Curve,
    FeatureMap,
    Scores,
    Screen,
    Shape,
    features_of,
    lines_of,
    score_features,
)
from causalveil.tasks.adjustment.released import Prior, Public
from causalveil.tasks.adjustment.screen import beside
from causalveil.tasks.adjustment.sums import MomentSums, ScaleSums, ScoreSums, ScreenSums
from causalveil.tasks.enclave.enclave import Rows
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.lattice_sums import exact_sums
from replication.benchmarks.adjust_in_memory import feature_values
from tests.aipw_help import in_memory
from tests.regression_help import Design, make_regression

KINDS: dict[str, Any] = {
    "age": {"lower": 0, "upper": 80, "nulls": "indicator"},
    "group": {"levels": ["a", "b", "c"]},
    "half": {"levels": ["a", "b"]},
    "smoker": {"lower": 0, "upper": 1, "codes": {"no": "no", "yes": "yes"}},
    "weight": {"lower": 0, "upper": 1},
}


def design(**changes: Any) -> Design:
    return Design(make_regression(0, covariates=KINDS, **changes))


def row(made: Design, z: list[float], t: int, u: float) -> Rows:
    """A row of x by the columns z: age, missing, three levels, the second of two, a flag, weight."""
    x = np.zeros(10)
    x[list(made.encoding.places)] = z
    # Flags and numbers are -1 to 1 in x.
    x[made.encoding.places[6]] = 2 * z[6] - 1
    return Rows((x * made.encoding.span)[None], np.array([t], np.uint8), np.array([u]))


def moved(one: Any, *pair: Rows) -> FloatArray:
    values = [exact_sums(in_memory([rows]), one.of, one.numbers, 1) * one.weights for rows in pair]
    found: FloatArray = values[0] - values[1]
    return found


def test_scales_attain_their_bounds() -> None:
    for delta, order, bound in (("1e-6", 2, recipe.SCALES_L2), ("0", 1, sums.SCALES_L1)):
        made = design(delta=delta)
        one = ScaleSums(made.encoding, pure=delta == "0")
        here = row(made, [1.0, 0, 1, 0, 0, 0, 0, 1.0], 1, 1.0)
        # In L1 the other arm's outcome is half way.
        there = row(made, [0.0, 1, 0, 0, 1, 1, 1, -1.0], 0, -1.0 if order == 2 else -0.5)
        assert np.linalg.norm(moved(one, here, there), order) == pytest.approx(bound, abs=1e-4)
        assert one.numbers == len(one.weights) == len(one.of(here))


def test_every_row_is_in_one_cell_of_each_histogram() -> None:
    """Whatever it holds: 4,000 rows, a quarter of them at the corners, seed 1."""
    made, random = design(), np.random.default_rng(1)
    one = ScaleSums(made.encoding, pure=False)
    for _ in range(40):
        z = random.choice([-1.0, 0.0, 1.0, random.uniform(-1, 1)], size=2)
        level = random.integers(3)
        gone = int(random.integers(2))
        levels = [int(level == place) for place in range(3)]
        u = float(random.uniform(-1, 1))
        rows = row(made, [0.0 if gone else z[0], gone, *levels, *random.integers(2, size=2), z[1]], 1, u)
        counts = np.split(one.of(rows)[sums.ARM_NUMBERS :], np.cumsum(one.widths)[:-1])
        age, missing, *of_group, _, _, weight, outcome = (float(part.sum()) for part in counts)
        assert (age + missing, sum(of_group), weight, outcome) == (1, 1, 1, 1)


@pytest.mark.parametrize("by_arm", [True, False])
def test_moments_attain_their_bounds(by_arm: bool) -> None:
    # One steep line, beside which the constant is nothing: rows turn around.
    steep = Design(make_regression(1), steep=1e6)
    features = FeatureMap(steep.lines, (), 1.0)
    ends = [
        Rows(np.array([[z, 1.0]]) * steep.encoding.span, np.array([t], np.uint8), np.array([u]))
        for z, t, u in (((1.0, 1, 1.0), (1.0, 0, -1.0)) if by_arm else ((1.0, 1, 1.0), (-1.0, 1, 1.0)))
    ]
    # An arm's share of one half makes tau as long in either.
    one = MomentSums(steep.encoding, features, ArmScales(0.5, (0.0, 0.0), 0.2, 0.6), by_arm)
    bound = recipe.MOMENTS_L2 if by_arm else sums.MOMENTS_ALIKE
    assert np.linalg.norm(moved(one, *ends)) == pytest.approx(bound, abs=1e-4)


def test_the_screen_and_scores_attain_their_bounds() -> None:
    made = Design(make_regression(2))
    arms, none = ArmScales(0.5, (0.0, 0.0), 0.1, 0.2), np.zeros(2)
    second = Curve(Shape.bend, 1, 1, np.array([-1.0, 1.0]), np.array([-2.0, 2.0]), 0.0, none, 1.0)
    # The first line leaves as much of treatment as there can be, the second turns the curve around.
    screen = Screen(arms, made.lines, (second,), 1.0, none, none, np.zeros((2, 2)), np.array([-0.5, 0.0]), 1.0)
    one, treated = ScreenSums(made.encoding, screen), np.array([1], np.uint8)
    here, there = (Rows(np.array([[1, z, 1.0]]) * made.encoding.span, treated, np.ones(1)) for z in (1.0, -1.0))
    assert np.linalg.norm(moved(one, here, there)) == pytest.approx(recipe.SCREEN_L2, abs=1e-4)
    scores = Scores(
        arms, FeatureMap(made.lines, (), 10.0), (0.5, 0.5), none, none, np.zeros((2, 2)), np.zeros((2, 2)), none, 1.0
    )
    for pure, order, bound in ((False, 2, recipe.SCORES_L2), (True, 1, sums.SCORES_L1)):
        scored = ScoreSums(made.encoding, scores, pure)
        far = moved(scored, here, Rows(here.x, here.t, -here.u))
        assert np.linalg.norm(far, order) == pytest.approx(bound, abs=1e-4)


def test_a_row_has_the_same_features_wherever_it_stands() -> None:
    """To the last bit, alone and at 40 places of blocks of other rows; seed 2."""
    made, random = design(), np.random.default_rng(2)
    x = random.uniform(-1, 1, size=(BLOCK + 300, 10)) * made.encoding.span
    values = [features_of(made.features, block)[:, : part.stop - part.start] for part, block in made.encoding.blocks(x)]
    whole = np.concatenate([np.array(part) for part in values], axis=1)
    for place in random.integers(len(x), size=40):
        (_, alone), *_ = made.encoding.blocks(x[place : place + 1])
        assert (features_of(made.features, alone)[:, 0] == whole[:, place]).all()


def test_rows_are_as_their_descriptions_say() -> None:
    """The two readings of a design, this on rows and that of the posterior, differ by the lattice alone; seed 3."""
    made, random = design(), np.random.default_rng(3)
    x = random.uniform(-1, 1, size=(500, 10)) * made.encoding.span
    (_, z), *_ = made.encoding.blocks(x)
    mine = features_of(made.features, z)[:, :500] * made.features.radius
    assert np.abs(mine - feature_values(made.features, z[:, :500].T).T).max() < 2.0**-16 * made.features.radius


def test_releases_of_one_row_are_of_the_same_numbers() -> None:
    """Lines beside curves are those alone, and weights of scores see what moments were of; heavy tails, seed 4.

    Slopes of scores go on along lines, and every row of moments is within its ball.
    """
    made, random = design(), np.random.default_rng(4)
    x = np.clip(random.standard_t(1.5, size=(500, 10)) / 3, -1, 1) * made.encoding.span
    (_, z), *_ = made.encoding.blocks(x)
    alone = FeatureMap(made.lines, (), 7.5)
    public = Public(10_000, made.encoding.columns, "ATE", False, Prior(), 0.2, False)
    both = beside(public, alone, made.curves)
    lines, every = (features_of(one, z)[:, :500] * one.radius for one in (alone, both))
    cut = np.linalg.norm(np.concatenate([np.ones((1, 500)), lines_of(made.lines, z)[:, :500]]), axis=0) > 7.5
    assert 50 < cut.sum() < 450
    assert np.abs(every[: len(lines)] - lines).max() < 2.0**-16 * both.radius
    assert (np.linalg.norm(every, axis=0) <= both.radius).all()
    slopes, weights = (part[:, :500] for part in score_features(both, z))
    assert np.abs(weights - every[1:]).max() < 2.0**-16 * both.radius
    assert (slopes[: len(made.lines)] == lines_of(made.lines, z)[:, :500]).all()
    assert (slopes[len(made.lines) :] == weights[len(made.lines) :]).all()
    assert np.abs(feature_values(both, z[:, :500].T).T - every).max() < 2.0**-16 * both.radius
