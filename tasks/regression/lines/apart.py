"""How far slopes and weights go from those of both arms to each arm's own: as far as noise allows.

Of what effects that differ with covariates do to lines that serve both arms, the square of the way that is left stays
(of squares, products and cubes about the way itself), and of what the noise of an arm's own moments does about the
square of the way that was taken (``docs/proofs/regression.md``, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from causalveil.tasks.regression.lines.adjustment import LEFT, Adjustment, judged_width
from causalveil.tasks.regression.lines.fits import Fits, over_arms

# What lines that serve both arms are seen to be off by is what its square exceeds so many variances of its noise
# by, and no more than this part of what they take off.
CLEAR, MOST_OFF = 2.0, 0.3
# What a part of the way is seen to leave of what the furthest takes off is what its square exceeds so many variances of
# the furthest's noise by, which is least well known.
CLEAR_PART = 4.0
# The parts of the way that are tried, from the end on while each makes this of the interval.
NARROWER = 0.98
OWN = (1.0, 0.85, 0.7, 0.55, 0.4, 0.25, 0.1)
# As LEFT, which is of lines: of what balances squares and products in each arm.
LEFT_OF_PRODUCTS = 1.0


def towards_own(
    alike: Adjustment,
    fits: Fits,
    share: float,
    units: int,
    noise: float,
    by: Callable[[Fits], Adjustment],
    curved: bool = False,
) -> tuple[Adjustment, Fits]:
    """By lines of each arm, or as far on the way to them from lines that serve both as noise allows.

    Args:
        alike: by lines that serve both.
        fits: of both.
        share: p.
        units: n.
        noise: standard deviation of the noise on the sum of scores of release 3.
        by: what an adjustment by fits is.
        curved: whether squares, products or cubes are among the features, of which as much is left as of the way.
    """
    ways = (way for way in (fits.apart(share, own) for own in OWN) if way.own == OWN[-1] or way.resolved)
    best = next(ways)
    furthest = by(best)
    clear = _off(alike, furthest, best)
    left = LEFT_OF_PRODUCTS if fits.both.told_across else LEFT

    def allowing(one: Adjustment) -> Adjustment:
        left = left_by_part(one, furthest) if curved else 0.0
        return replace(one.off_by(max(clear * (1 - one.own) ** 2, left)), seen_off=clear)

    found = allowing(furthest)
    for way in ways:
        nearer = allowing(by(way))
        if judged_width(nearer, units, noise, left) > NARROWER * judged_width(found, units, noise, left):
            break
        found, best = nearer, way
    return found, best


def left_by(plainer: Adjustment, richer: Adjustment) -> float:
    """What a plainer way to adjust is seen to leave of what a richer one takes off, so far as it is clear of noise.

    A richer one that has gone a part of the way to slopes of each arm's own takes off less, which scores make good.
    """
    if not (plainer.adjusted and richer.adjusted) or richer.own < 1:
        return 0.0
    # Of what noise adds on average as much again may be left.
    left = max(abs(richer.taken_off - plainer.taken_off) - abs(richer.correction - plainer.correction), 0.0)
    return math.sqrt(max(left**2 - CLEAR * (richer.second_order + plainer.second_order), 0.0))


def left_by_part(nearer: Adjustment, furthest: Adjustment) -> float:
    """What a part of the way is seen to leave of what the furthest takes off, so far as it is clear of noise.

    Of effects that differ with squares and products as much is left as of the way, and not its square.
    """
    left = abs(nearer.taken_off - furthest.taken_off) - abs(nearer.correction - furthest.correction)
    return math.sqrt(max(max(left, 0.0) ** 2 - CLEAR_PART * furthest.second_order, 0.0))


def _off(alike: Adjustment, apart: Adjustment, fits: Fits) -> float:
    """By how much lines that serve both arms are seen to be off, so far as it is clear of noise.

    Args:
        alike: by these lines.
        apart: by lines of ``fits``.
        fits: the furthest on the way to each arm's own that noise resolves; what they show is its square of the whole.
    """
    # By formulas to second order, by which what is left is clear or not.
    by_noise, second_order = apart.correction - apart.higher - alike.correction, apart.second_order - apart.higher**2
    noisy = second_order / fits.own**4 + alike.second_order
    off, by_noise = (_differing(fits, alike.leaning) - by_noise) / fits.own**2, by_noise / fits.own**2
    # Of what noise adds on average as much again may be left.
    clear = max(abs(off) - max(math.copysign(by_noise, by_noise * off), 0.0), 0.0)
    return min(math.sqrt(max(clear**2 - CLEAR * noisy, 0.0)), MOST_OFF * abs(alike.taken_off))


def _differing(fits: Fits, lean: tuple[float, float]) -> float:
    """By how much lines that serve both arms are off if each arm follows its own (section 8)."""
    both = fits.both
    left = (both.moments.apart - fitted.covariance @ both.weights for fitted in fits)
    return over_arms(
        lean, (float((fitted.slopes - both.slopes) @ vector) for fitted, vector in zip(fits, left, strict=True))
    )
