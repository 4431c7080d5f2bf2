"""Add-remove neighbours beside replace-one, as a computed comparison: how far one unit can move each score.

The paper's definition lets a unit be added, removed or substituted, its proofs substitute, as do ours. The worst case
is searched, not bounded: rank scores over all permutations of few units; HSIC over all data in two clusters a variable,
where it is (2 (n_11 - n_1. n_.1/m)/(m - 1))^2 with n_11 the units in the second cluster of both. A substitution is a
removal and an addition, so a guarantee against either one is half as strong against a substitution: the last column
doubles add-remove's distance, which is what a study pays that means to protect a person whose number is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import numpy as np

from causalveil.schemas.estimators.direction import Score
from causalveil.schemas.study import Variant
from causalveil.tasks.estimate.papers.direction.scores import kendall, score_sensitivity, spearman

RANK_UNITS, CLUSTER_UNITS = (4, 5, 6), (10, 20, 40)
Ranking = tuple[int, ...]


def neighbour_rows() -> list[dict[str, Any]]:
    """One row a score and size: the farthest that one unit moves the score, by either kind of neighbour."""
    rows = []
    for score, units in [(s, m) for s in (Score.spearman, Score.kendall) for m in RANK_UNITS]:
        rows.append(_row(score, units, *rank_distances(score, units)))
    rows += [_row(Score.hsic, units, *cluster_distances(units)) for units in CLUSTER_UNITS]
    return rows


def _row(score: Score, units: int, replaced: float, added: float) -> dict[str, Any]:
    return {
        "score": str(score),
        "m": units,
        "replace_one": replaced,
        "bound": score_sensitivity(score, units, Variant.ours),
        "add_remove": added,
        "add_remove_for_a_replacement": 2 * added,
    }


def rank_distances(score: Score, units: int) -> tuple[float, float]:
    """The farthest that replacing one of ``units``, and removing one of them or adding one, moves a rank score.

    A sample without ties is a permutation: the rank of b for each rank of a.
    """
    values = {m: {p: _rank_score(score, p) for p in permutations(range(m))} for m in (units - 1, units)}
    replaced = added = 0.0
    for shorter, value in values[units - 1].items():
        longer = [values[units][one] for one in _insertions(shorter)]
        # Whoever has this remainder in common differs by a replacement.
        replaced = max(replaced, max(longer) - min(longer))
        added = max(added, max(abs(one - value) for one in longer))
    return replaced, added


def _rank_score(score: Score, ranking: Ranking) -> float:
    a, b = np.arange(len(ranking), dtype=float), np.array(ranking, dtype=float)
    if len(ranking) < 2:
        return 1.0
    return spearman(a, b) if score is Score.spearman else kendall(a, b)


def _insertions(ranking: Ranking) -> Iterator[Ranking]:
    for place, rank in product(range(len(ranking) + 1), repeat=2):
        moved = [one + (one >= rank) for one in ranking]
        yield (*moved[:place], rank, *moved[place:])


def cluster_distances(units: int) -> tuple[float, float]:
    """Return the largest changes of HSIC with kernels of 1 within a cluster and 0 between two.

    By replacing one of ``units``, and by removing one of them or adding one.
    """
    replaced = added = 0.0
    for n_11, n_10, n_01 in product(range(units), repeat=3):
        rest = units - 1 - n_11 - n_10 - n_01
        if rest < 0:
            continue
        shorter = cluster_hsic(n_11, n_10, n_01, units - 1)
        grown = ((n_11 + 1, n_10, n_01), (n_11, n_10 + 1, n_01), (n_11, n_10, n_01 + 1), (n_11, n_10, n_01))
        longer = [cluster_hsic(*counts, units) for counts in grown]
        replaced = max(replaced, max(longer) - min(longer))
        added = max(added, max(abs(one - shorter) for one in longer))
    return replaced, added


def cluster_hsic(n_11: int, n_10: int, n_01: int, units: int) -> float:
    """trace(KHLH)/(m - 1)^2 of two-cluster data by the counts of units in the second cluster of both, of one."""
    covariance = n_11 - (n_11 + n_10) * (n_11 + n_01) / units
    return (2 * covariance / (units - 1)) ** 2
