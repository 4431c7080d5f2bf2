"""Compute minimal-noise balancing weights on public covariates and treatments.

With v_i = n_a w_i the weights of an arm's n_a units, m the largest that is allowed and F the features,

    min mean(v^2)/2 + sum_j (mean(F_j v) - target_j)^2/(2 delta_j)   subject to 0 <= v <= m,

whose dual is smooth: v = clip(lambda'F, 0, m) and lambda minimises mean(phi(lambda'F)) + lambda'diag(delta) lambda/2
- target'lambda, phi' = clip(., 0, m). Hessian: F_A'F_A/n_a + diag(delta), A the units strictly between 0 and m. It is
minimised by Newton's method on sums over segments of rows. m is chosen from a grid by what noise, sampling and
imbalance cost together, all of it public, so free:

    sum_j C_j^2 imbalance_j^2 + s^2 sum w^2 + 2 (B max w/epsilon)^2,   C_j^2 = s^2 R_j/q_j,   s = B/10.

The imbalance that the weights of both arms leave is measured and allowed for (``weights/features.py``). Derivation:
``docs/proofs/balancing.md``, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from causalveil.schemas.confounding import AdjustmentMethod
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.limits import Code, limit
from causalveil.schemas.privacy import PrivacyCost
from causalveil.tasks.data.enclave import Enclave, Rows
from causalveil.tasks.estimate.interval import covers_imbalance, open_to, partly_if_left
from causalveil.tasks.estimate.weights.features import Aim, Balancer, Weighing, imbalance
from causalveil.tasks.estimate.weights.weighted_means import WeightedUnits, count_arms, mechanism, weigh_units
from causalveil.tasks.machine.arrays import BoolArray, FloatArray

Sums = tuple[float, FloatArray, FloatArray]
ITERATIONS = 60
# Of the imbalance, in deviations of a feature.
TOLERANCE = 1e-7
# Sufficient decrease, and the smallest share of a step.
DECREASE = 1e-4
SMALLEST_STEP = 2.0**-8


def weights_of(features: FloatArray, multipliers: FloatArray, cap: float) -> FloatArray:
    """Return v, shape (rows,)."""
    return np.clip(features @ multipliers, 0.0, cap)


def arm_sums_of(features: FloatArray, multipliers: FloatArray, cap: float) -> Sums:
    """Return sums over rows of phi, of F v, and of F F'.

    The last is over the units strictly between 0 and the cap.
    """
    score = features @ multipliers
    v = np.clip(score, 0.0, cap)
    # phi(z) is 0 below 0, z^2/2 up to m, and a straight line beyond.
    beyond = score > cap
    value = float(v @ v) / 2 + (cap * float(np.sum(score[beyond] - cap)) if beyond.any() else 0.0)
    active = features[(score > 0) & (score < cap)]
    return value, v @ features, active.T @ active


def solve(
    evaluate: Callable[[FloatArray], Sums], target: FloatArray, delta: FloatArray, units: int, start: FloatArray
) -> FloatArray:
    """Return the multipliers.

    If ITERATIONS do not reach TOLERANCE they are the last ones, whose imbalance is measured as any other.

    Args:
        evaluate: of multipliers, the sums of :func:`arm_sums_of` over all rows of the arm.
        target: shape (features,).
        delta: shape (features,), > 0.
        units: n_a.
        start: where to start, shape (features,).
    """

    def at(multipliers: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        value, first, second = evaluate(multipliers)
        objective = value / units + float(delta @ multipliers**2) / 2 - float(target @ multipliers)
        return objective, first / units + delta * multipliers - target, second

    found = start
    value, gradient, hessian = at(found)
    for _ in range(ITERATIONS):
        if float(np.abs(gradient).max()) <= TOLERANCE:
            break
        step = np.linalg.solve(hessian / units + np.diag(delta), gradient)
        slope, share = float(gradient @ step), 1.0
        # What a step could gain is lost in rounding.
        if slope <= 1e-13 * (1 + abs(value)):
            break
        while True:
            trial = found - share * step
            new_value, new_gradient, new_hessian = at(trial)
            if new_value <= value - DECREASE * share * slope:
                break
            share /= 2
            if share < SMALLEST_STEP:
                return found
        found, value, gradient, hessian = trial, new_value, new_gradient, new_hessian
    return found


# m, in mean weights of an arm, from the largest down, so that each solution starts the next.
CAPS = (30.0, 20.0, 15.0, 10.0, 7.0, 5.0, 4.0, 3.0, 2.5, 2.0, 1.75, 1.5, 1.35, 1.2, 1.1, 1.05, 1.02)
# The outcome's deviation within an arm in declared widths: what noise is weighed against.
DEVIATION = 0.1
# The estimate's part of the draw, for the choice alone.
ESTIMATE_SHARE = 0.93


@dataclass(frozen=True)
class Solution:
    """An arm's weights at one cap, with their error and the largest of them.

    ``error`` is bias^2 + variance in s^2; weights follow from ``cap`` and ``multipliers``.
    """

    error: float
    largest: float
    cap: float
    multipliers: FloatArray


def deviation_of_noise(cost: PrivacyCost) -> float:
    """Return the standard deviation of the estimate's noise over B max w, about."""
    release_by = mechanism(cost)
    return (1.0 if cost.delta > 0 else math.sqrt(2)) * release_by.known_scale / ESTIMATE_SHARE


def solutions(features: FloatArray, target: FloatArray, penalties: FloatArray, units: int) -> list[Solution]:
    """Return the weights of one arm at every cap.

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
    """Return the best solution of each arm that is weighed.

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


NOT_COVERED = (limit(Code.unmeasured), limit(Code.curves_beyond_cells))


def weigh(
    study: BalancingStudy, rows: Enclave, louder: float = 1.0, everybody: Enclave | None = None
) -> tuple[Weighing, WeightedUnits]:
    """Weigh every unit.

    Args:
        study: the study.
        rows: of the arms that are compared.
        louder: by how much the noise is larger than that of a draw of its own.
        everybody: the units whom an average over everybody is of, where they are more than these two arms.

    Raises:
        DataError: an arm has no unit; nothing was drawn.
    """
    settings, t = study.estimator, rows.gather("t")
    arms = count_arms(t)
    balancer, sample = Balancer.of(study, rows, len(t))
    features, aim = balancer.features, Aim.of(balancer, study.estimand, everybody)
    values, _ = features(sample.x)
    active = [arm for arm in (1, 0) if arm in study.estimand.weighted]
    least = max([1 / arms[arm] for arm in (0, 1) if arm not in active], default=0.0)
    paths = [_path(values[(sample.t != 0) == (arm == 1)], aim.target, features.penalties, arms[arm]) for arm in active]
    chosen = choose(paths, least, louder * deviation_of_noise(study.privacy.cost))
    multipliers: list[FloatArray | None] = [None, None]
    caps = [1.0, 1.0]
    for arm, one in zip(active, chosen, strict=True):
        delta = features.penalties / arms[arm]
        evaluate = partial(_arm_sums, balancer, arm, one.cap)
        multipliers[arm] = solve(evaluate, aim.target, delta, arms[arm], one.multipliers)
        caps[arm] = one.cap
    v, index = _weigh(balancer, multipliers, caps)
    for arm in (0, 1):
        _make_whole(v, (t != 0) == (arm == 1))
    units = weigh_units(v, t, aim.queries, index)
    found = imbalance(balancer, units, aim)
    details = {
        **found.details,
        "features": features.count,
        "cells": features.cells.count,
        "alone_in_cell": balancer.alone(),
        "cap_treated": caps[1],
        "cap_control": caps[0],
    }
    bias = settings.bias() * found.bias
    weighing = Weighing(
        weights=units.summary,
        bias=bias,
        confounding=partly_if_left(
            settings, AdjustmentMethod.balancing, found.left if features.narrow.clipped else 0.0
        ),
        covers=(covers_imbalance(settings.allowance),) if bias > 0 else (),
        not_covered=open_to(settings, *NOT_COVERED, *features.narrow.limits),
        details=details,
    )
    return weighing, units


def _arm_sums(balancer: Balancer, arm: int, cap: float, multipliers: FloatArray) -> Sums:
    """Return the sums over an arm's rows that the dual needs."""

    def of(rows: Rows) -> Sums:
        values, _ = balancer.features(rows.x[(rows.t != 0) == (arm == 1)])
        return arm_sums_of(values, multipliers, cap)

    parts = balancer.over_chunks(of)
    return (
        math.fsum(part[0] for part in parts),
        np.sum([part[1] for part in parts], axis=0),
        np.sum([part[2] for part in parts], axis=0),
    )


def _weigh(
    balancer: Balancer, multipliers: list[FloatArray | None], caps: list[float]
) -> tuple[FloatArray, FloatArray]:
    """Every unit's v and index, shape (n,), segment by segment; None: v = 1. Controls first."""

    def of(rows: Rows) -> FloatArray:
        values, index = balancer.features(rows.x)
        v = np.ones(len(values))
        for arm, own in enumerate(multipliers):
            if own is not None:
                chosen: BoolArray = (rows.t != 0) == (arm == 1)
                v[chosen] = weights_of(values[chosen], own, caps[arm])
        return np.stack([v, index])

    both = np.concatenate(balancer.over_chunks(of), axis=1)
    return both[0], both[1]


def _path(features: FloatArray, target: FloatArray, penalties: FloatArray, units: int) -> list[Solution]:
    """Return the solutions of an arm; units of an arm that the sample missed have equal weights."""
    if len(features):
        found = solutions(features, target, penalties, units)
        if found:
            return found
    alike = np.zeros(len(target))
    alike[0] = 1.0
    return [Solution(1.0, 1 / units, 1.0, alike)]


def _make_whole(v: FloatArray, chosen: BoolArray) -> None:
    """Scale weights to mean 1; if all are 0, which no solution should give, make them equal."""
    mean = float(v[chosen].mean())
    v[chosen] = v[chosen] / mean if mean > 0 else 1.0
