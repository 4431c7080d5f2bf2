"""References without privacy, and the search for the farthest neighbour, against slow second implementations."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from causalveil.schemas.estimators.direction import Score
from causalveil.tasks.estimate.papers.direction.scores import kendall
from causalveil_replication.kusner2016.neighbours import (
    cluster_distances,
    cluster_hsic,
    neighbour_rows,
    rank_distances,
)
from causalveil_replication.kusner2016.pairs import CausePair
from causalveil_replication.kusner2016.references import (
    NULL_DELTAS,
    hsic_p_value,
    igci,
    rehearse_nulls,
    rehearse_references,
    rehearse_whole,
    variance_score,
)


def test_p_values_are_those_of_permutations() -> None:
    """Seed 1, 300 permutations of 60 units: the gamma law is within 0.1 of the share that is at least as large."""
    random = np.random.default_rng(1)
    a, b = random.normal(size=60), random.normal(size=60)

    def statistic(a: np.ndarray, b: np.ndarray) -> float:
        k, m = [np.exp(-((v[:, None] - v[None, :]) ** 2) / (2 * 0.5**2)) for v in (a, b)], len(a)
        h = np.eye(m) - 1 / m
        return float(np.trace(k[0] @ h @ k[1] @ h))

    here = statistic(a, b)
    share = np.mean([statistic(a, random.permutation(b)) >= here for _ in range(300)])
    assert math.exp(hsic_p_value(a, b, 0.5)) == pytest.approx(share, abs=0.1)
    assert hsic_p_value(a, a + 0.1 * b, 0.5) < math.log(1e-6)


def test_references_by_hand() -> None:
    x = np.linspace(-1, 1, 201)
    assert variance_score(2 * x, x) == pytest.approx(variance_score(x, x) + math.log(4))
    assert variance_score(np.ones(3), x) == -math.inf
    for reference in ("uniform", "gaussian"):
        forwards = igci(x, x**3 + 0.1 * x, reference)
        assert forwards < 0, "the slopes of a curve over an even spread are small in the mean"
        assert igci(x**3 + 0.1 * x, x, reference) == pytest.approx(-forwards)
    assert igci(np.array([0.0, 0, 0, 1]), np.array([0.0, 1, 0, 0]), "uniform") == 0


def test_rows_of_a_pair_and_nulls_that_fall_with_delta() -> None:
    random = np.random.default_rng(2)
    cause = random.uniform(-1, 1, 600)
    rows = np.column_stack([cause, np.clip(0.5 * cause**3 + 0.3 * random.uniform(-1, 1, 600), -1, 1)])
    pair = CausePair("pair", rows, True, 1.0)
    assert {row["reference"] for row in rehearse_references(pair, 0)} >= {"variance", "hsic p-value"}
    assert len(rehearse_whole(pair)) == 4 + 1 + 2
    assert all(row["right"] in (0, 0.5, 1) for row in rehearse_references(pair, 0) + rehearse_whole(pair))
    for variant in ("ours", "paper"):
        for epsilon in (0.1, 1.0, 10.0):
            found = [
                row["null"] for row in rehearse_nulls(pair, 0) if (row["variant"], row["epsilon"]) == (variant, epsilon)
            ]
            assert len(found) == len(NULL_DELTAS)
            assert variant == "ours" or found == sorted(found, reverse=True), "our bins narrow as delta grows"
            assert all(0 <= one <= 1 for one in found)


def test_the_farthest_neighbours_are_those_of_every_pair_of_tables() -> None:
    """Four units: every two rankings that have three units' order in common."""

    def order(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(np.argsort(np.argsort(values)).tolist())

    everything = {p: kendall(np.arange(4.0), np.array(p, dtype=float)) for p in permutations(range(4))}
    remainders = {p: {order(p[:k] + p[k + 1 :]) for k in range(4)} for p in everything}
    farthest = max(
        abs(everything[p] - everything[q]) for p in everything for q in everything if remainders[p] & remainders[q]
    )
    assert rank_distances(Score.kendall, 4)[0] == pytest.approx(farthest)
    for row in neighbour_rows():
        assert row["replace_one"] <= row["bound"] * (1 + 1e-9)
        assert row["replace_one"] <= row["add_remove_for_a_replacement"]


def test_hsic_of_clusters_is_the_trace() -> None:
    a, b = np.array([1, 1, 1, 0, 0, 0, 0]), np.array([1, 1, 0, 1, 0, 0, 0])
    k, m = [(v[:, None] == v[None, :]).astype(float) for v in (a, b)], 7
    h = np.eye(m) - 1 / m
    assert cluster_hsic(2, 1, 1, 7) == pytest.approx(np.trace(k[0] @ h @ k[1] @ h) / 36)
    replaced, added = cluster_distances(10)
    assert 0 < added <= replaced <= 2 * added
