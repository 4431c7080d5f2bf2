"""Newton's method for a strongly convex function that is a sum over a table, and few passes over that.

Where it ends is judged by the gradient of the whole table alone, so that no shortcut is in what a proof rests on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from causalveil.schemas.errors import ConvergenceError
from causalveil.tasks.machine.arrays import FloatArray

MAX_ITERATIONS = 200
# A step is taken for the last where the gradient's square is at most this share of the tolerance.
FORESEEN = 0.01
MAX_HALVINGS = 60
# How many passes over the table a sample may serve.
MAX_BY_SAMPLE = 6

# Gradient, shape (d,), and Hessian, shape (d, d), which is asked for by the second argument.
Derivatives = tuple[FloatArray, FloatArray]
Evaluate = Callable[[FloatArray, bool], Derivatives]


def newton(evaluate: Evaluate, start: FloatArray, tolerance: float, largest: float) -> FloatArray:
    """Newton's method, each step halved until the gradient shrinks as it must for a small enough step.

    The Newton step s descends on ||grad J||: its derivative along s is -||grad J||; J is strongly convex, so
    the only stationary point of ||grad J|| is the minimiser. Two thirds of an evaluation are its Hessian, which the
    last one does without: near the minimiser a step squares the gradient, so that the last can be foreseen.

    Args:
        evaluate: gradient and, where asked for, Hessian at a point.
        start: the first point.
        tolerance: of the gradient's norm.
        largest: of the solution's norm.

    Raises:
        ConvergenceError: the tolerance was not reached.
    """
    w = start
    gradient, hessian = evaluate(w, True)
    for _ in range(MAX_ITERATIONS):
        size = float(np.linalg.norm(gradient))
        if _done(w, gradient, tolerance, largest):
            return w
        step = np.linalg.solve(hessian, gradient)
        for halving in range(MAX_HALVINGS):
            share = 0.5**halving
            trial = w - share * step
            last = halving == 0 and size * size <= FORESEEN * tolerance
            gradient, hessian = evaluate(trial, not last)
            if last and not _done(trial, gradient, tolerance, largest):
                gradient, hessian = evaluate(trial, True)
            if float(np.linalg.norm(gradient)) <= max((1 - share / 4) * size, tolerance):
                break
        w = trial
    raise ConvergenceError("the propensity model did not reach its declared tolerance; raise 'penalty'")


def newton_by_sample(
    evaluate: Evaluate,
    sampled: Evaluate,
    start: FloatArray,
    tolerance: float,
    largest: float,
) -> FloatArray | None:
    """Newton's method with one Hessian of the whole table: how it changes from there on is what a sample says.

    Most of a pass over the table is its Hessian. The sample stands in for changes only, which are small, so that each
    step divides the gradient by hundreds or more. Where it does not, the answer is None.

    Args:
        evaluate: gradient and, where asked for, Hessian of the whole table at a point.
        sampled: the same of the sample.
        start: the first point.
        tolerance: of the gradient's norm.
        largest: of the solution's norm.
    """
    gradient, hessian = evaluate(start, True)
    before, curve = sampled(start, True)
    apart, w = hessian - curve, start
    for _ in range(MAX_BY_SAMPLE):
        size = float(np.linalg.norm(gradient))
        try:
            trial = w - np.linalg.solve(curve + apart, gradient)
            slope, curve = sampled(trial, True)
            expected = gradient + slope - before + apart @ (trial - w)
            w = np.asarray(trial - np.linalg.solve(curve + apart, expected), dtype=np.float64)
        except np.linalg.LinAlgError:
            # A sample's change may make the Hessian singular, which that of the whole table never is.
            break
        gradient, _ = evaluate(w, False)
        if _done(w, gradient, tolerance, largest):
            return w
        # What is not a number is not smaller either.
        if not float(np.linalg.norm(gradient)) <= size / 4:
            break
        before, curve = sampled(w, True)
    return None


def _done(w: FloatArray, gradient: FloatArray, tolerance: float, largest: float) -> bool:
    return float(np.linalg.norm(gradient)) <= tolerance and float(np.linalg.norm(w)) <= largest
