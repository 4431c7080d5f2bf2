"""Roots are SciPy's to the bit."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize

from causalveil.tasks.machine.roots import root_of

CURVES: tuple[Callable[[float, float], float], ...] = (
    lambda x, a: x**3 - a,
    lambda x, a: math.exp(-x) - a / 10,
    lambda x, a: math.atan(x - a) * 1e-200,
    lambda x, a: math.copysign(1.0, x - a),
    lambda x, a: (x - a) ** 9,
    lambda x, a: math.floor(8 * (x - a)) + 0.5,
)


def test_roots_are_scipys_to_the_bit() -> None:
    draw = np.random.default_rng(20)
    for curve in CURVES:
        for a, low, wide in zip(
            draw.uniform(0.1, 5, 60), draw.uniform(-20, 0, 60), draw.uniform(6, 90, 60), strict=True
        ):
            for xtol in (2e-12, 1e-6, math.ulp(0.0)):
                own, scipys = _both(curve, float(a), float(low), float(low + wide), xtol)
                assert own == scipys, (curve, a, low, wide, xtol)


def _both(
    curve: Callable[[float, float], float], a: float, low: float, high: float, xtol: float
) -> tuple[object, object]:
    asked: list[list[float]] = [[], []]

    def found(solve: Callable[..., float], seen: list[float]) -> object:
        def at(x: float) -> float:
            seen.append(x)
            return curve(x, a)

        try:
            return solve(at, low, high, xtol=xtol), seen
        except (ValueError, RuntimeError) as problem:
            return type(problem)

    return found(root_of, asked[0]), found(optimize.brentq, asked[1])


def test_ends_are_roots_and_what_has_none_is_refused() -> None:
    assert root_of(lambda x: x, 0.0, 1.0) == 0.0
    assert root_of(lambda x: x - 1, 0.0, 1.0) == 1.0
    for wrong in (lambda x: 1.0, lambda x: math.nan):
        with pytest.raises(ValueError, match=r"one sign|no number"):
            root_of(wrong, 0.0, 1.0)
    with pytest.raises(RuntimeError, match="after 3 steps"):
        root_of(lambda x: (x - math.pi) ** 9, 0.0, 100.0, steps=3)
