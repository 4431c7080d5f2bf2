"""The largest weight: from a grid, by what noise, sampling and imbalance cost together. Public, so free.

    sum_j C_j^2 imbalance_j^2 + s^2 sum w^2 + 2 (B max w/epsilon)^2,   C_j^2 = s^2 R_j/q_j,   s = B/10.

Derivation: ``docs/proofs/balancing.md``, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from causalveil.schemas.privacy import PrivacyCost
from causalveil.schemas.study import Estimand
from causalveil.tasks.balancing.dual import arm_sums_of, solve, weights_of
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.weighted.perturb import mechanism

# m, in mean weights of an arm, from the largest down, so that each solution starts the next.
CAPS = (30.0, 20.0, 15.0, 10.0, 7.0, 5.0, 4.0, 3.0, 2.5, 2.0, 1.75, 1.5, 1.35, 1.2, 1.1, 1.05, 1.02)
# The outcome's deviation within an arm in declared widths: what noise is weighed against.
DEVIATION = 0.1
# The estimate's part of the draw, for the choice alone.
ESTIMATE_SHARE = 0.93


@dataclass(frozen=True)
class Solution:
    """An arm's weights at one cap: bias^2 + variance in s^2, the largest weight, and what it came from."""

    error: float
    largest: float
    cap: float
    multipliers: FloatArray


def weighed(estimand: Estimand) -> tuple[bool, bool]:
    """Return whether the treated and whether the controls are weighted for an estimand."""
    return estimand is not Estimand.ATT, estimand is not Estimand.ATC


def deviation_of_noise(cost: PrivacyCost) -> float:
    """Standard deviation of the estimate's noise over B max w, about."""
    release_by = mechanism(cost)
    return (1.0 if cost.delta > 0 else math.sqrt(2)) * release_by.known_scale / ESTIMATE_SHARE


def solutions(features: FloatArray, target: FloatArray, penalties: FloatArray, units: int) -> list[Solution]:
    """Weights of one arm at every cap.

    Args:
        features: of the arm's rows in the sample, shape (rows, features).
        target: shape (features,).
        penalties: q_j/R_j, shape (features,).
        units: n_a, of the arm in all; weights are those of so many units.
    """
    found, rows = [], len(features)
    delta = penalties / units
    multipliers = np.zeros(len(target))
    multipliers[0] = 1.0
    highest = math.inf
    for cap in (math.inf, *CAPS):
        # A cap that the last solution does not touch changes nothing.
        if cap >= highest:
            continue
        multipliers = solve(partial(_sums, features, cap), target, delta, rows, multipliers)
        v = weights_of(features, multipliers, cap)
        highest = float(v.max())
        total = float(v.sum())
        if total <= 0:
            continue
        w = v / total
        off = w @ features - target
        bias = float(np.sum((off**2 / penalties)[1:]))
        found.append(Solution(bias + float(w @ w) * rows / units, float(w.max()) * rows / units, cap, multipliers))
    return found


def _sums(features: FloatArray, cap: float, multipliers: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    return arm_sums_of(features, multipliers, cap)


def choose(arms: Sequence[Sequence[Solution]], least: float, noise: float) -> list[Solution]:
    """The best solution of each arm that is weighed.

    Args:
        arms: solutions of each arm that is weighed.
        least: the largest weight of arms that are not.
        noise: of :func:`deviation_of_noise`.
    """
    best: tuple[float, list[Solution]] | None = None
    for largest in sorted({max(one.largest, least) for arm in arms for one in arm}):
        picked = [_best(arm, largest * (1 + 1e-9)) for arm in arms]
        chosen = [one for one in picked if one is not None]
        if len(chosen) < len(arms):
            continue
        actual = max([least, *(one.largest for one in chosen)])
        cost = sum(one.error for one in chosen) + (noise * actual / DEVIATION) ** 2
        if best is None or cost < best[0]:
            best = cost, chosen
    if best is None:
        raise ValueError("every arm has a solution at some cap")
    return best[1]


def _best(arm: Iterable[Solution], largest: float) -> Solution | None:
    fitting = [one for one in arm if one.largest <= largest]
    return min(fitting, key=lambda one: one.error, default=None)
