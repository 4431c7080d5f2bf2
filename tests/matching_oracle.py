"""The paper's matching as it stands there: every distance, every sort, one loop over the units (Yuan et al. 2026).

Slow and plain on purpose: the production matcher must give the same neighbours. Distances are exact (fractions) where
``exact`` is set, so that two candidates tie exactly when they are equally far, whatever floats round.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tasks.arrays import FloatArray, IntArray


def sorted_candidates(
    scores: FloatArray, place: IntArray, unit: int, candidates: IntArray, exact: bool = True
) -> list[int]:
    """A row of the paper's matrices H: the candidates by distance from ``unit``, ties by traversal ``place``."""
    if not exact:
        distance = np.abs(scores[candidates] - scores[unit])
        return candidates[np.lexsort((place[candidates], distance))].tolist()
    own = Fraction(float(scores[unit]))
    return sorted(candidates.tolist(), key=lambda j: (abs(Fraction(float(scores[j])) - own), place[j]))


def match(
    scores: FloatArray,
    treated: IntArray,
    place: IntArray,
    ratio: int,
    most: tuple[float, float] = (math.inf, math.inf),
    caliper: float = math.inf,
    exact: bool = True,
) -> list[list[int]]:
    """The neighbours of every unit in the other arm, nearest first; fewer than ``ratio`` where too few are left.

    Args:
        scores: shape (n,).
        treated: 0 or 1, shape (n,).
        place: position of each unit in the traversal, a permutation of 0 .. n-1.
        ratio: N.
        most: times that a control and a treated unit may be used at most.
        caliper: no neighbour is further away.
        exact: exact distances; else those of float64, good for scores that do not tie.
    """
    arms = [np.flatnonzero(treated == arm) for arm in (0, 1)]
    used = np.zeros(len(scores), dtype=np.int64)
    neighbours: list[list[int]] = [[] for _ in range(len(scores))]
    for unit in np.argsort(place).tolist():
        other = 1 - int(treated[unit])
        for candidate in sorted_candidates(scores, place, unit, arms[other], exact):
            if len(neighbours[unit]) == ratio or abs(scores[candidate] - scores[unit]) > caliper:
                break
            if used[candidate] < most[other]:
                neighbours[unit].append(candidate)
                used[candidate] += 1
    return neighbours


def times_used(neighbours: list[list[int]]) -> IntArray:
    """K: how often each unit serves as a neighbour, shape (n,)."""
    return np.bincount([j for row in neighbours for j in row], minlength=len(neighbours)).astype(np.int64)


def most_used(scores: FloatArray, treated: IntArray, place: IntArray, ratio: int, exact: bool = True) -> int:
    """M: the most times any unit appears among the first ``ratio`` of a row of the paper's matrices, caps aside."""
    return int(times_used(match(scores, treated, place, ratio, exact=exact)).max())


def reuse_limits(treated: IntArray, most: int, ratio: int, budget: float, ceiling: bool) -> tuple[float, float]:
    """k of controls and treated: equations 9 to 12, then the floor that keeps every unit's N neighbours to be had.

    Args:
        treated: 0 or 1, shape (n,).
        most: M of :func:`most_used`.
        ratio: N.
        budget: epsilon times the error coefficient (eps c at label level, eps3 h at sample level).
        ceiling: apply the ceiling M/N (label level).
    """
    count = [int(np.sum(treated == arm)) for arm in (0, 1)]
    small, large = (1, 0) if count[1] <= count[0] else (0, 1)
    mean = most / ratio
    k = max(round_half_up(math.sqrt(budget * count[large] * mean / 2)), 1)
    limits = [0.0, 0.0]
    limits[small] = min(k, mean) if ceiling else k
    limits[large] = max(1, round_half_up(limits[small] * count[small] / count[large]))
    for arm in (0, 1):
        limits[arm] = max(limits[arm], math.ceil(count[1 - arm] / (count[arm] - ratio + 1)))
    return limits[0], limits[1]


def round_half_up(value: float) -> int:
    return math.floor(value + 0.5)


def effect(outcome: FloatArray, treated: IntArray, neighbours: list[list[int]], ratio: int) -> float:
    """(S1 - S0)/n of algorithm 3, always dividing by N."""
    imputed = np.array([math.fsum(outcome[row]) / ratio for row in neighbours])
    one = np.where(treated == 1, outcome, imputed)
    zero = np.where(treated == 1, imputed, outcome)
    return float((math.fsum(one) - math.fsum(zero)) / len(outcome))
