"""Direction finding audited from outside: what it releases on two neighbouring tables, thousands of times.

What a draw is made on is measured once per table and drawn again and again, on seeded noise (the scale of production
noise is tested in ``test_noise.py``). Neighbours differ in one test unit or in one training unit. Rank scores attain
their sensitivities, so there a mutant with half of the noise must be caught; an unprotected half must show.
A false alarm of any case has probability below 1e-6, 12 cases.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from causalveil.schemas.estimators.direction import DirectionStudy
from causalveil.schemas.plan import Sizes
from causalveil.tasks.direction.draws import Draw, draws
from causalveil.tasks.direction.stages import TestRows, measure, regress, release, release_regressions, vectors
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.noise import SeededNoise
from tests.audit import OpenBudget, epsilon_lower_bound
from tests.direction_help import answered, make_direction, rows

CONFIDENCE = 1 - 1e-6
RUNS = 3_000
TEST = 41
NO_ANSWER = -1e6


class HalfNoise(SeededNoise):
    """The mutant: half of the noise."""

    def laplace(self, value: FloatArray, scale: float) -> FloatArray:
        return super().laplace(value, scale / 2)


def flat(count: int = 30) -> FloatArray:
    """Training rows on which both regressions are zero, so that residuals are the variables themselves."""
    return np.zeros((count, 2))


def sorted_rows() -> FloatArray:
    """x and y rise together: both rank scores are 1 in both directions."""
    steps = np.linspace(-0.9, 0.9, TEST)
    return np.column_stack([steps, steps])


def replaced(pairs: FloatArray, place: int, *pair: float) -> FloatArray:
    """One row is another one."""
    result = pairs.copy()
    result[place] = pair
    return result


def the_draw(study: DirectionStudy, sizes: Sizes, name: str) -> Draw:
    (draw,) = (draw for draw in draws(study, sizes) if draw.slot.name == name)
    return draw


def exact(study: DirectionStudy, name: str, train: FloatArray, test: FloatArray) -> tuple[Draw, FloatArray]:
    """A draw and what it is made on."""
    sizes = Sizes(units=len(train) + len(test), train=len(train), estimation=len(test))
    table = TestRows(test, np.arange(len(test))[::-1].copy())
    draw = the_draw(study, sizes, name)
    return draw, measure(study, sizes, draw, vectors(table, regress(study, lambda _: train, 1)), table)


def audit(
    study: DirectionStudy, name: str, one: tuple, other: tuple, mutant: bool = False, delta: float = 0.0
) -> float:
    """A lower bound on epsilon from samples on two tables, each (train, test).

    Released values are clipped between what the two tables say exactly and added up with the sign of the change: for
    Laplace noise that is the log-likelihood ratio but for a factor. No answer is a number of its own.
    """
    source = HalfNoise if mutant else SeededNoise
    measured = [exact(study, name, *side) for side in (one, other)]
    change = measured[1][1] - measured[0][1]
    low, high = (bound(measured[0][1], measured[1][1]) for bound in (np.minimum, np.maximum))
    samples = []
    for seed, (draw, numbers) in enumerate(measured):
        budget = OpenBudget(source(seed))
        found = [release(draw, numbers, budget) for _ in range(RUNS)]
        samples.append(
            np.array(
                [
                    NO_ANSWER
                    if value is None
                    else float(
                        np.sum(np.sign(change[: len(value)]) * np.clip(value, low[: len(value)], high[: len(value)]))
                    )
                    for value in found
                ]
            )
        )
    return epsilon_lower_bound(*samples, delta, CONFIDENCE)


def ranked(score: str, **changes: Any) -> DirectionStudy:
    return make_direction(
        **{"scores": [score], "release": "scores", "epsilon": "2", "delta": "0", "protect": ["test"]} | changes
    )


RANK_NEIGHBOURS = (flat(), sorted_rows()), (flat(), replaced(sorted_rows(), 0, 0.95, -0.95))


@pytest.mark.parametrize("score", ["spearman", "kendall"])
def test_rank_scores(score: str) -> None:
    """The corner-to-corner move that attains 6/(m + 1) and 4/m, in both directions at once."""
    study = ranked(score)
    bound = audit(study, score, *RANK_NEIGHBOURS)
    assert 1.2 < bound <= 2, "the bound is attained, so the audit must come near"
    assert audit(study, score, *RANK_NEIGHBOURS, mutant=True) > 2


def test_one_sensitivity_for_two_scores_would_be_caught() -> None:
    """The mutant that forgets that both scores are released: half of the declared noise."""
    assert audit(ranked("kendall", epsilon="4"), "kendall", *RANK_NEIGHBOURS) > 2


def test_hsic_test_half() -> None:
    clusters = np.array([[-0.9, -0.9]] * 27 + [[0.9, 0.9]] * 14)
    one, other = (flat(), clusters), (flat(), replaced(clusters, 40, -0.9, 0.9))
    assert audit(ranked("hsic", penalty=1.0), "hsic", one, other) <= 2


@pytest.mark.parametrize("protect", [["train"], ["train", "test"]])
def test_hsic_training_half(protect: list[str]) -> None:
    """A training unit at the other end of the range moves both regressions."""
    study = ranked("hsic", protect=protect, penalty=1.0, bandwidth=1.0)
    train = np.array([[-1.0, 1.0], [1.0, 1.0]] * 10)
    test = np.random.default_rng(0).uniform(-1, 1, (TEST, 2))
    assert audit(study, "hsic", (train, test), (replaced(train, 0, -1.0, -1.0), test)) <= 2


def test_the_unprotected_half_shows() -> None:
    """Under `protect: [test]` a training unit may be seen: that is what the contract's line allows."""
    study = ranked("kendall", epsilon="0.5", penalty=1e-4)
    test = np.random.default_rng(1).uniform(-1, 1, (TEST, 2)) * [1.0, 0.05]
    _, one = exact(study, "kendall", np.array([[0.5, 1.0]]), test)
    _, other = exact(study, "kendall", np.array([[-0.2, -1.0]]), test)
    assert np.abs(one - other).max() > 4 / TEST


@pytest.mark.parametrize("place", [0, 20])
def test_interquartile_range(place: int) -> None:
    """A replaced row widens every range; whether the test passes and what is released tell no more than declared."""
    study = make_direction(scores=["iqr"], release="difference", epsilon="2", delta="0.05", protect=["test"], bin=1.0)
    test = np.random.default_rng(2).uniform(-1, 1, (TEST, 2))
    one, other = (flat(), test), (flat(), replaced(test, place, 1.0, -1.0))
    assert audit(study, "iqr", one, other, delta=0.05) <= 2


def test_interquartile_range_on_the_edge_of_zero() -> None:
    """Ranges that one row makes or breaks: the adversary's table. Only the chance delta of an answer tells."""
    study = make_direction(scores=["iqr"], release="difference", epsilon="2", delta="0.05", protect=["test"], bin=1.0)
    test = np.array([[0.0, 0.0]] * 11 + [[0.5, 0.5]] * 30)
    one, other = (flat(), test), (flat(), replaced(test, 0, 0.5, 0.5))
    assert audit(study, "iqr", one, other, delta=0.05) <= 2


@pytest.mark.parametrize("score", ["spearman", "iqr"])
def test_training_half_by_tests(score: str) -> None:
    """Ranks by distance to instability and IQR by training units' distance, on a table where an order is near."""
    study = make_direction(
        scores=[score], protect=["train"], epsilon="2", delta="0.05", penalty=1.0, bin=1.0 if score == "iqr" else None
    )
    name = {"spearman": "ranks", "iqr": "iqr"}[score]
    train = np.array([[-1.0, 1.0], [1.0, 1.0]] * 2_000)
    test = np.column_stack([np.linspace(-1, 1, 5), np.linspace(-0.5, 0.5, 5) ** 2])
    one, other = (train, test), (replaced(train, 0, -1.0, -1.0), test)
    assert audit(study, name, one, other, delta=0.05) <= 2


def test_noisy_regressions_carry_the_training_half() -> None:
    """Both halves: what ranks see of the training rows is the released weights, and those alone."""
    study = make_direction(scores=["kendall"], protect=["train", "test"], epsilon="2", delta="0", penalty=1.0)
    train = flat(40)
    sizes = Sizes(units=81, train=40, estimation=41)
    fitted = regress(study, lambda _: train, 1)
    noisy = release_regressions(study, sizes, fitted, OpenBudget(SeededNoise(0)))
    assert noisy is not None
    assert all(not np.array_equal(a.weights, b.weights) for a, b in zip(fitted, noisy, strict=True))
    budget = OpenBudget(SeededNoise(0))
    answered(study, train, rows(sorted_rows()), budget)
    assert [charge.scope for charge in budget.charges] == ["train", "train", "estimation"]
