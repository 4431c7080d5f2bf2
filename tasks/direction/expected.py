"""A stand-in pair for planning: a curve that everybody knows, not the data.

x is spread evenly over [-1, 1] and y = 0.35 (x + x^3) + 0.3 e with e spread evenly too, by a low-discrepancy sequence
instead of chance (Roberts's R2), so that what is computed from it is close to an expectation.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.direction import DirectionStudy, Releases, Score
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Half
from causalveil.tasks.direction import scores
from causalveil.tasks.direction.draws import Draw, draws
from causalveil.tasks.direction.scores import Kernel, residuals
from causalveil.tasks.direction.sensitivity import (
    QuartileRange,
    bin_distances,
    order_kept_one_draw,
    order_kept_two_draws,
    residual_movement,
)
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Laplace
from causalveil.tasks.privacy.special_mechanisms import StableRelease

STAND_IN = "y = 0.35 (x + x^3) + 0.3 e, x and e uniform on [-1, 1]"
ROWS = 4_096
# The root of t^3 = t + 1, from which the sequence takes its steps.
PLASTIC = 1.32471795724474602596
PENALTIES = tuple(10 ** (-k / 2) for k in range(8, -1, -1))


def stand_in_pairs(rows: int, start: int = 0) -> FloatArray:
    """(x, y) of the stand-in, shape (rows, 2), in [-1, 1]; another ``start`` gives other rows."""
    place = np.arange(start + 1, start + rows + 1)
    x, noise = (2 * np.modf(0.5 + place / PLASTIC**power)[0] - 1 for power in (1, 2))
    return np.column_stack([x, 0.35 * (x + x**3) + 0.3 * noise])


@lru_cache(maxsize=64)
def hsic_margin(penalty: float, bandwidth: float, residual_bandwidth: float) -> float:
    """Return HSIC of y to x minus HSIC of x to y on the stand-in, where x is the cause."""
    train, test = stand_in_pairs(ROWS), stand_in_pairs(ROWS, ROWS)
    residual_y, residual_x = residuals(train, test, penalty, bandwidth)
    kernels = Kernel(bandwidth, 1.0), Kernel(residual_bandwidth, 2.0)
    return scores.hsic(test[:, 1], residual_x, *kernels) - scores.hsic(test[:, 0], residual_y, *kernels)


def order_kept(study: DirectionStudy, margin: float, scale: float) -> float:
    """Return the probability that the study's draws keep the order of two scores.

    The scores are ``margin`` >= 0 apart.
    """
    one = study.estimator.release is Releases.difference
    return (order_kept_one_draw if one else order_kept_two_draws)(margin, scale)


def sure_margin(study: DirectionStudy, draw: Draw, sure: float) -> float:
    """Return the margin whose order a draw of Laplace noise keeps with probability ``sure``.

    ``sure`` is in [0.5, 1).
    """
    return float(brentq(lambda ratio: order_kept(study, ratio, 1.0) - sure, 0.0, 100.0)) * draw.mechanism.known_scale


def expected_distance(study: DirectionStudy, sizes: Sizes, draw: Draw) -> int:
    """Return the distance that a test is expected to find.

    It is that of evenly spread values to another bin, or of random ones to another order. The smallest of m - 1 gaps
    between random values of an interval of width 2 is about 2/m^2.
    """
    estimator, m = study.estimator, sizes.estimation
    movement = residual_movement(sizes.train, estimator.penalty, estimator.variant)
    if isinstance(draw.mechanism, StableRelease):
        return math.ceil(2 / m**2 / (2 * movement))
    values = QuartileRange(np.linspace(-1.0, 1.0, m))
    trained = movement if Half.train in estimator.protect else None
    return max(bin_distances(values, draw.bin, draw.cap, replace=Half.test in estimator.protect, movement=trained))


def expected_order_kept(study: DirectionStudy, sizes: Sizes) -> tuple[float, float, float] | None:
    """Return HSIC's margin, its noise scale and the probability of the right direction.

    The margin is that on the stand-in. The result is None without HSIC.
    """
    for draw in draws(study, sizes):
        if Score.hsic in draw.scores and isinstance(draw.mechanism, Laplace):
            scale = draw.mechanism.known_scale
            estimator = study.estimator
            margin = hsic_margin(estimator.penalty, estimator.bandwidth, estimator.kernel_of_residuals)
            kept = order_kept(study, abs(margin), scale)
            return margin, scale, kept if margin > 0 else 1 - kept
    return None


def sweep(study: DirectionStudy, sizes: Sizes) -> list[dict[str, float]]:
    """Every penalty of a grid: what it costs in noise and in fit, on the stand-in.

    No data is read.

    A small penalty lets one training unit move the residuals far, a large one fits no curve: under training-set
    privacy the probability of the right direction rises and falls between (Kusner et al. 2016, Figure 2).

    Raises:
        StudyError: the study has no HSIC.
    """
    if Score.hsic not in study.estimator.scores:
        raise StudyError("--sweep penalty is for direction studies with the score 'hsic'")
    rows = []
    for penalty in PENALTIES:
        estimator = study.estimator.model_copy(update={"penalty": penalty})
        expected = expected_order_kept(study.model_copy(update={"estimator": estimator}), sizes)
        if expected is not None:
            margin, scale, right = expected
            movement = residual_movement(sizes.train, penalty, estimator.variant)
            rows.append(
                {
                    "penalty": penalty,
                    "residual_movement_bound": movement,
                    "noise_scale": scale,
                    "margin": margin,
                    "right_direction": right,
                }
            )
    return rows
