"""Find where a function passes zero.

Every command solves for a noise scale; SciPy's own, which this equals to the bit, takes a fifth of a second to import.
"""

from __future__ import annotations

import math
from collections.abc import Callable

# As SciPy's: four roundings of a float.
_RELATIVE = 4 * math.ulp(1.0)


def root_of(
    function: Callable[[float], float], low: float, high: float, xtol: float = 2e-12, steps: int = 100
) -> float:
    """Return where a function passes zero between two points, by Brent's method.

    R. P. Brent, Algorithms for Minimization Without Derivatives, 1973, chapter 4, with hyperbolic extrapolation, as
    ``scipy.optimize.brentq``: the same points in the same order, so the same floats.

    Args:
        function: continuous, of different signs at the two ends.
        low, high: the ends, in any order.
        xtol: the root is within ``xtol`` + 4 roundings of it.
        steps: no more steps than these.

    Raises:
        ValueError: the signs are the same, or a value is no number.
        RuntimeError: so many steps were not enough.
    """

    def at(x: float) -> float:
        found = float(function(x))
        if math.isnan(found):
            raise ValueError(f"the function is no number at {x:g}")
        return found

    before, now, block = float(low), float(high), 0.0
    at_before, at_now, at_block = at(before), at(now), 0.0
    last = step = 0.0
    if at_before == 0 or at_now == 0:
        return before if at_before == 0 else now
    if (at_before < 0) == (at_now < 0):
        raise ValueError(f"the function has one sign at {before:g} and at {now:g}")
    for _ in range(steps):
        if at_before != 0 and at_now != 0 and (at_before < 0) != (at_now < 0):
            block, at_block = before, at_before
            last = step = now - before
        if abs(at_block) < abs(at_now):
            before, now, block = now, block, now
            at_before, at_now, at_block = at_now, at_block, at_now
        near, half = (xtol + _RELATIVE * abs(now)) / 2, (block - now) / 2
        if at_now == 0 or abs(half) < near:
            return now
        last, step = _step(before, now, block, at_before, at_now, at_block, last, step, near, half)
        before, at_before = now, at_now
        now += step if abs(step) > near else math.copysign(near, half)
        at_now = at(now)
    raise RuntimeError(f"no root after {steps} steps")


def _step(
    before: float, now: float, block: float, at_before: float, at_now: float, at_block: float,
    last: float, step: float, near: float, half: float,
) -> tuple[float, float]:  # fmt: skip
    """Return the steps before and next: an interpolated one where it is short enough, else to the middle."""
    if abs(last) > near and abs(at_now) < abs(at_before):
        if before == block:
            top, bottom = -at_now * (now - before), at_now - at_before
        else:
            by_before, by_block = (at_before - at_now) / (before - now), (at_block - at_now) / (block - now)
            top = -at_now * (at_block * by_block - at_before * by_before)
            bottom = by_block * by_before * (at_block - at_before)
        # A product that vanishes leaves no step to try.
        if bottom and 2 * abs(top / bottom) < min(abs(last), 3 * abs(half) - near):
            return step, top / bottom
    return half, half
