"""The paper's matching as it stands there: every distance, every sort, one loop over the units (Yuan et al. 2026).

Slow and plain on purpose: the production matcher must find the same neighbours. Units come in traversal order, so that
a stable sort breaks ties by it. Scores are multiples of 2^-40 below 2^12, as the production hands them in, so that a
distance in float64 is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from causalveil.schemas.study import Estimand
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray

UNBOUNDED = (2**31 - 1, 2**31 - 1)


class Exhausted(Exception):
    """A unit found fewer than N candidates that may still be used."""


@dataclass(frozen=True)
class OracleMatching:
    """Neighbours of each unit, nearest first, an empty list where it is no query or found none within the caliper."""

    neighbours: list[list[int]]

    @property
    def uses(self) -> IntArray:
        """K: how often each unit serves as a neighbour, shape (n,)."""
        used = [unit for row in self.neighbours for unit in row]
        return np.bincount(np.array(used, dtype=np.int64), minlength=len(self.neighbours))

    @property
    def matched(self) -> list[bool]:
        """Which queries have neighbours."""
        return [bool(row) for row in self.neighbours]


def sorted_matrix(scores: FloatArray, queries: IntArray, candidates: IntArray) -> IntArray:
    """The paper's H (algorithm 2): row by row the candidates by distance, equally far ones in traversal order."""
    distance = np.abs(scores[queries][:, None] - scores[candidates][None, :])
    return candidates[np.argsort(distance, axis=1, kind="stable")]


def match(
    scores: FloatArray,
    treated: ByteArray,
    ratio: int,
    caps: tuple[int, int] = UNBOUNDED,
    estimand: Estimand = Estimand.ATE,
    caliper: float | None = None,
) -> OracleMatching:
    """Algorithm 3, lines 17 to 20, with a whole number of uses as the limit.

    Args:
        scores: shape (n,), units in traversal order.
        treated: 0 or 1, shape (n,).
        ratio: N.
        caps: uses that a treated and a control candidate allow.
        estimand: ATE: everybody looks for neighbours; ATT: the treated; ATC: the controls.
        caliper: a unit whose N-th available candidate is further away finds nobody and uses nobody up.

    Raises:
        Exhausted: without a caliper, fewer than N candidates are left.
    """
    arms = {arm: np.flatnonzero(treated == arm) for arm in (0, 1)}
    asking = {Estimand.ATE: (0, 1), Estimand.ATT: (1,), Estimand.ATC: (0,)}[estimand]
    used = np.zeros(len(scores), dtype=np.int64)
    neighbours: list[list[int]] = [[] for _ in range(len(scores))]
    for arm in asking:
        cap = caps[0] if arm == 0 else caps[1]
        for query, row in zip(arms[arm].tolist(), sorted_matrix(scores, arms[arm], arms[1 - arm]), strict=True):
            chosen = [candidate for candidate in row.tolist() if used[candidate] < cap][:ratio]
            if caliper is not None and (len(chosen) < ratio or abs(scores[chosen[-1]] - scores[query]) > caliper):
                continue
            if len(chosen) < ratio:
                raise Exhausted
            neighbours[query] = chosen
            used[chosen] += 1
    return OracleMatching(neighbours)


def most_used(scores: FloatArray, treated: ByteArray, ratio: int, estimand: Estimand = Estimand.ATE) -> int:
    """M: the most times any unit stands in the first N columns of the matrices."""
    return int(match(scores, treated, ratio, estimand=estimand).uses.max())


def reuse_limits(
    sizes: tuple[int, int], most: int, ratio: int, budget: float, ceiling: bool
) -> tuple[Fraction, Fraction]:
    """k of treated and controls: equations 9 to 12, then the floor that the paper lacks (every unit finds N).

    Args:
        sizes: number of treated and of controls, each at least N.
        most: M of :func:`most_used`.
        ratio: N.
        budget: epsilon times the error coefficient (eps c at label level, eps3 h at sample level).
        ceiling: apply the ceiling M/N (label level).
    """
    small = 0 if sizes[0] <= sizes[1] else 1
    large, mean = 1 - small, Fraction(most, ratio)
    k = [Fraction(0), Fraction(0)]
    k[small] = Fraction(max(round(math.sqrt(budget * sizes[large] * most / ratio / 2)), 1))
    if ceiling:
        k[small] = min(k[small], mean)
    k[large] = Fraction(max(1, round(k[small] * sizes[small] / sizes[large])))
    for arm in (0, 1):
        k[arm] = max(k[arm], Fraction(math.ceil(sizes[1 - arm] / (sizes[arm] - ratio + 1))))
    return k[0], k[1]


def effect(outcome: FloatArray, treated: ByteArray, found: OracleMatching, ratio: int) -> float:
    """The mean over matched units of own minus imputed outcome, signed by arm; always divided by N."""
    sign = np.where(treated == 1, 1.0, -1.0)
    differences = [
        sign[unit] * (outcome[unit] - math.fsum(outcome[row]) / ratio)
        for unit, row in enumerate(found.neighbours)
        if row
    ]
    return math.fsum(differences) / len(differences)
