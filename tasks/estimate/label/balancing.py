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
from collections.abc import Callable, Sequence
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
    """Return sums of phi and of F v over rows, and of F F' over those between 0 and the cap."""
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

    If ITERATIONS do not reach TOLERANCE they are the last ones, whose imbalance is measured like any other.

    Args:
        evaluate: from multipliers to the sums of :func:`arm_sums_of` over all rows of the arm.
        target: shape (features,).
        delta: shape (features,), > 0.
        units: n_a.
        start: first multipliers, shape (features,).
    """

    def at(multipliers: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        value, first, second = evaluate(multipliers)
        objective = value / units + float(delta @ multipliers**2) / 2 - float(target @ multipliers)
        return objective, first / units + delta * multipliers - target, second

    multipliers = start
    value, gradient, hessian = at(multipliers)
    for _ in range(ITERATIONS):
        if float(np.abs(gradient).max()) <= TOLERANCE:
            break
        step = np.linalg.solve(hessian / units + np.diag(delta), gradient)
        slope, share = float(gradient @ step), 1.0
        # The gain of a step would be lost in rounding.
        if slope <= 1e-13 * (1 + abs(value)):
            break
        while True:
            trial = multipliers - share * step
            new_value, new_gradient, new_hessian = at(trial)
            if new_value <= value - DECREASE * share * slope:
                break
            share /= 2
            if share < SMALLEST_STEP:
                return multipliers
        multipliers, value, gradient, hessian = trial, new_value, new_gradient, new_hessian
    return multipliers


# m, in mean weights of an arm, from the largest down: each solution is the start of the next.
CAPS = (30.0, 20.0, 15.0, 10.0, 7.0, 5.0, 4.0, 3.0, 2.5, 2.0, 1.75, 1.5, 1.35, 1.2, 1.1, 1.05, 1.02)
# The outcome's deviation within an arm in declared widths, with which noise is compared.
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
    """Return the approximate standard deviation of the estimate's noise over B max w."""
    release_by = mechanism(cost)
    return (1.0 if cost.delta > 0 else math.sqrt(2)) * release_by.known_scale / ESTIMATE_SHARE


def solutions(features: FloatArray, target: FloatArray, penalties: FloatArray, units: int) -> list[Solution]:
    """Return the weights of one arm at every cap.

    Args:
        features: of the arm's rows in the sample, shape (rows, features).
        target: shape (features,).
        penalties: q_j/R_j, shape (features,).
        units: n_a, all units of the arm, to which errors and weights are scaled.
    """
    by_cap, rows = [], len(features)
    delta = penalties / units
    multipliers = np.zeros(len(target))
    multipliers[0] = 1.0
    highest = math.inf
    for cap in (math.inf, *CAPS):
        # A cap that the last solution does not touch changes nothing.
        if cap >= highest:
            continue
        multipliers = solve(partial(arm_sums_of, features, cap=cap), target, delta, rows, multipliers)
        v = weights_of(features, multipliers, cap)
        highest = float(v.max())
        total = float(v.sum())
        if total <= 0:
            continue
        w = v / total
        off = w @ features - target
        bias = float(np.sum((off**2 / penalties)[1:]))
        error, largest = bias + float(w @ w) * rows / units, float(w.max()) * rows / units
        by_cap.append(Solution(error, largest, cap, multipliers))
    return by_cap


def choose(arms: Sequence[Sequence[Solution]], least: float, noise: float) -> list[Solution]:
    """Return the best solution of each weighted arm.

    Args:
        arms: solutions of each weighted arm.
        least: the largest weight of unweighted arms.
        noise: of :func:`deviation_of_noise`.
    """
    best: tuple[float, list[Solution]] | None = None
    for largest in sorted({max(solution.largest, least) for arm in arms for solution in arm}):
        fitting = [[solution for solution in arm if solution.largest <= largest * (1 + 1e-9)] for arm in arms]
        if not all(fitting):
            continue
        chosen = [min(arm, key=lambda solution: solution.error) for arm in fitting]
        actual = max([least, *(solution.largest for solution in chosen)])
        cost = sum(solution.error for solution in chosen) + (noise * actual / DEVIATION) ** 2
        if best is None or cost < best[0]:
            best = cost, chosen
    if best is None:
        raise ValueError("every arm has a solution at some cap")
    return best[1]


NOT_COVERED = (limit(Code.unmeasured), limit(Code.curves_beyond_cells))


def weigh(
    study: BalancingStudy, rows: Enclave, times_noise: float = 1.0, all_arms: Enclave | None = None
) -> tuple[Weighing, WeightedUnits]:
    """Weigh every unit, and measure the imbalance that is left.

    Args:
        study: the study.
        rows: of the arms that are compared.
        times_noise: factor of the noise over that of a draw of this question alone.
        all_arms: units of all arms, over whom an average over all units is taken, where these are more than two arms.

    Raises:
        DataError: an arm has no unit; nothing was drawn.
    """
    settings, t = study.estimator, rows.gather("t")
    arms = count_arms(t)
    balancer, sample = Balancer.of(study, rows, len(t))
    features, aim = balancer.features, Aim.of(balancer, study.estimand, all_arms)
    values, _ = features(sample.x)
    active = [arm for arm in (1, 0) if arm in study.estimand.weighted]
    least = max([1 / arms[arm] for arm in (0, 1) if arm not in active], default=0.0)
    paths = [_path(values[(sample.t != 0) == (arm == 1)], aim.target, features.penalties, arms[arm]) for arm in active]
    chosen = choose(paths, least, times_noise * deviation_of_noise(study.privacy.cost))
    multipliers: list[FloatArray | None] = [None, None]
    caps = [1.0, 1.0]
    for arm, solution in zip(active, chosen, strict=True):
        delta = features.penalties / arms[arm]
        evaluate = partial(_arm_sums, balancer, arm, solution.cap)
        multipliers[arm] = solve(evaluate, aim.target, delta, arms[arm], solution.multipliers)
        caps[arm] = solution.cap
    v, index = _weigh(balancer, multipliers, caps)
    for arm in (0, 1):
        _scale_to_one(v, (t != 0) == (arm == 1))
    units = weigh_units(v, t, aim.queries, index)
    left = imbalance(balancer, units, aim)
    details = {
        **left.details,
        "features": features.count,
        "cells": features.cells.count,
        "alone_in_cell": balancer.alone(),
        "cap_treated": caps[1],
        "cap_control": caps[0],
    }
    bias = settings.bias() * left.bias
    weighing = Weighing(
        weights=units.summary,
        bias=bias,
        confounding=partly_if_left(settings, AdjustmentMethod.balancing, left.left if features.narrow.clipped else 0.0),
        covers=(covers_imbalance(settings.allowance),) if bias > 0 else (),
        not_covered=open_to(settings, *NOT_COVERED, *features.narrow.limits),
        details=details,
    )
    return weighing, units


def _arm_sums(balancer: Balancer, arm: int, cap: float, multipliers: FloatArray) -> Sums:
    """Return the sums of :func:`arm_sums_of` over all rows of an arm."""

    def arm_sums(rows: Rows) -> Sums:
        values, _ = balancer.features(rows.x[(rows.t != 0) == (arm == 1)])
        return arm_sums_of(values, multipliers, cap)

    parts = balancer.over_chunks(arm_sums)
    return (
        math.fsum(part[0] for part in parts),
        np.sum([part[1] for part in parts], axis=0),
        np.sum([part[2] for part in parts], axis=0),
    )


def _weigh(
    balancer: Balancer, multipliers: list[FloatArray | None], caps: list[float]
) -> tuple[FloatArray, FloatArray]:
    """Return v and index of all units, shape (n,). Multipliers: controls first; None: v = 1."""

    def weights_and_index(rows: Rows) -> FloatArray:
        values, index = balancer.features(rows.x)
        v = np.ones(len(values))
        for arm, own in enumerate(multipliers):
            if own is not None:
                chosen: BoolArray = (rows.t != 0) == (arm == 1)
                v[chosen] = weights_of(values[chosen], own, caps[arm])
        return np.stack([v, index])

    both = np.concatenate(balancer.over_chunks(weights_and_index), axis=1)
    return both[0], both[1]


def _path(features: FloatArray, target: FloatArray, penalties: FloatArray, units: int) -> list[Solution]:
    """Return the solutions of an arm; equal weights where the sample has no unit of it."""
    if len(features) and (path := solutions(features, target, penalties, units)):
        return path
    equal = np.zeros(len(target))
    equal[0] = 1.0
    return [Solution(1.0, 1 / units, 1.0, equal)]


def _scale_to_one(v: FloatArray, chosen: BoolArray) -> None:
    """Scale weights to mean 1; make them equal if all are 0, which no solution should give."""
    mean = float(v[chosen].mean())
    v[chosen] = v[chosen] / mean if mean > 0 else 1.0
