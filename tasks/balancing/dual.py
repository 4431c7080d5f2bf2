"""Balancing weights of one arm: the dual of a quadratic programme, by Newton's method on sums over segments of rows.

With v_i = n_a w_i the weights of an arm's n_a units,

    min mean(v^2)/2 + sum_j (mean(F_j v) - target_j)^2/(2 delta_j)   subject to 0 <= v <= m,

whose dual is smooth: v = clip(lambda'F, 0, m) and lambda minimises mean(phi(lambda'F)) + lambda'diag(delta) lambda/2
- target'lambda, phi' = clip(., 0, m). Hessian: F_A'F_A/n_a + diag(delta), A the units strictly between 0 and m.
Derivation: ``docs/proofs/balancing.md``, section 5.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray

Sums = tuple[float, FloatArray, FloatArray]
ITERATIONS = 60
# Of the imbalance, in deviations of a feature.
TOLERANCE = 1e-7
# Sufficient decrease, and the smallest share of a step.
DECREASE = 1e-4
SMALLEST_STEP = 2.0**-8


def weights_of(features: FloatArray, multipliers: FloatArray, cap: float) -> FloatArray:
    """v, shape (rows,)."""
    return np.clip(features @ multipliers, 0.0, cap)


def arm_sums_of(features: FloatArray, multipliers: FloatArray, cap: float) -> Sums:
    """Sums over rows of phi, of F v, and of F F' over the units strictly between 0 and the cap."""
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
    """The multipliers; if ITERATIONS do not reach TOLERANCE the last ones, whose imbalance is measured as any other.

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
