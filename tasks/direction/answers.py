"""From released draws to directions, and what a plan expects of them.

Released and public values alone.

The papers' theorems say how probably noise keeps the order of two scores that are a margin apart. The true margin is
not released, so they are evaluated at the released one. What that number means without a guess about the truth: one
minus it is the largest probability, over all true margins of the other sign, of a released margin at least as large.

A plan has a stand-in pair: a curve that everybody knows, not the data. x is spread evenly over [-1, 1] and y = 0.35 (x
+ x^3) + 0.3 e with e spread evenly too, by a low-discrepancy sequence instead of chance (Roberts's R2), so that what is
computed from it is close to an expectation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.direction import RANKS, DirectionStudy, Favours, Releases, Score
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Half
from causalveil.schemas.release import ScoreRelease, Verdict
from causalveil.tasks.direction import scores
from causalveil.tasks.direction.draws import BESIDE, Draw, draws
from causalveil.tasks.direction.scores import Kernel, residuals
from causalveil.tasks.direction.sensitivity import (
    QuartileRange,
    bin_distances,
    order_kept_four_draws,
    order_kept_one_draw,
    order_kept_two_draws,
    residual_movement,
)
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Laplace
from causalveil.tasks.privacy.special_mechanisms import StableRelease

RULE = (
    "each score that answered votes for the direction it favours with weight 2 p - 1, p its order_kept; "
    "the verdict is the direction of the votes' sum, its weight their mean over the scores that answered"
)


@dataclass(frozen=True)
class ReleasedDraw:
    """A draw and what it gave, shape (d,), or None for "no answer"."""

    draw: Draw
    value: FloatArray | None


@dataclass(frozen=True)
class DirectionFindings:
    """Findings of a direction study."""

    scores: tuple[ScoreRelease, ...]
    verdict: Verdict
    details: dict[str, float | int | str | bool]

    def fields(self, study: DirectionStudy) -> dict[str, Any]:
        """Return the fields that a ``DirectionRelease`` has beside those of every release."""
        return {
            "pair": study.pair,
            "scores": self.scores,
            "verdict": self.verdict,
            "unbounded_halves": study.unbounded,
            "details": self.details,
        }


def findings(study: DirectionStudy, sizes: Sizes, released: Sequence[ReleasedDraw]) -> DirectionFindings:
    """Return the answer of every score and the verdict.

    Args:
        study: the study.
        sizes: its sizes.
        released: every draw of ``tasks.direction.draws.draws``, made.
    """
    scores = tuple(score_release(study, score, released) for score in study.estimator.scores)
    estimator = study.estimator
    details: dict[str, float | int | str | bool] = {
        "training_units": sizes.train,
        "test_units": sizes.estimation,
        "residual_movement_bound": residual_movement(sizes.train, estimator.penalty, estimator.variant),
    }
    for part in released:
        if part.draw.vectors:
            details["iqr_bin"] = part.draw.bin
    return DirectionFindings(scores, verdict(scores), details)


def score_release(study: DirectionStudy, score: Score, released: Sequence[ReleasedDraw]) -> ScoreRelease:
    """Return one score's answer, from the draws that it takes part in."""
    parts = [part for part in released if score in part.draw.scores]
    theorem, kept = _theorem(study, parts)
    values = _values(score, parts)
    x_to_y, y_to_x = values if len(values) == 2 else (None, None)
    margin = None if not values else values[-1] - (values[0] if len(values) == 2 else 0.0)
    if score in RANKS and len(study.estimator.protect) == 2:
        theorem += "; the regressions' own noise is taken as given"
    return ScoreRelease(
        score=score,
        answered=margin is not None,
        x_to_y=x_to_y,
        y_to_x=y_to_x,
        margin=margin,
        favours=favoured(margin),
        order_kept=None if margin is None else kept(abs(margin), parts[0].draw.mechanism.known_scale),
        theorem=theorem,
        charges=tuple(part.draw.slot.name for part in parts),
    )


def _theorem(study: DirectionStudy, parts: Sequence[ReleasedDraw]) -> tuple[str, Callable[[float, float], float]]:
    """Return the theorem on the order's being kept, in words and as a function.

    The function is of margin and noise scale.
    """
    if isinstance(parts[0].draw.mechanism, StableRelease):
        return "released exactly, after a test", lambda _margin, _scale: 1.0
    if len(parts) == 4:
        return "Theorem 4: a Laplace draw on each of four logarithms", order_kept_four_draws
    if study.estimator.release is Releases.scores:
        return "Theorem 2: a Laplace draw on each score", order_kept_two_draws
    return "1 - exp(-margin/scale)/2: one Laplace draw on the margin", order_kept_one_draw


def _values(score: Score, parts: Sequence[ReleasedDraw]) -> list[float]:
    """Both released values of a score, x to y first, or their difference alone.

    There is none if a draw gave no answer.
    """
    if any(part.value is None for part in parts):
        return []
    found = [part.value.tolist() for part in parts if part.value is not None]
    if len(parts) == 1:
        draw = parts[0].draw
        width = len(found[0]) // len(draw.scores)
        first = draw.scores.index(score) * width
        return list(found[0][first : first + width])
    by_vector = {part.draw.vectors[0]: value for part, (value,) in zip(parts, found, strict=True)}
    return [by_vector.get(variable, 0.0) + by_vector[residual] for residual, variable in BESIDE.items()]


def favoured(margin: float | None) -> Favours | None:
    """Return a number above 0 for x to y, below 0 for y to x."""
    if margin is None or margin == 0:
        return None
    return Favours.x_to_y if margin > 0 else Favours.y_to_x


def verdict(scores: Sequence[ScoreRelease]) -> Verdict:
    """Return the verdict of all scores that answered, weighted by how sure the theorems are."""
    votes = [
        (2 * score.order_kept - 1) * (1 if score.favours is Favours.x_to_y else -1)
        for score in scores
        if score.order_kept is not None and score.favours is not None
    ]
    answered = sum(score.answered for score in scores)
    weight = sum(votes) / answered if answered else 0.0
    return Verdict(favours=favoured(weight), weight=weight, rule=RULE)


STAND_IN = "y = 0.35 (x + x^3) + 0.3 e, x and e uniform on [-1, 1]"
ROWS = 4_096
# The root of t^3 = t + 1, from which the sequence takes its steps.
PLASTIC = 1.32471795724474602596
PENALTIES = tuple(10 ** (-k / 2) for k in range(8, -1, -1))


def stand_in_pairs(rows: int, start: int = 0) -> FloatArray:
    """Return (x, y) of the stand-in, shape (rows, 2), in [-1, 1]; ``start`` chooses the rows."""
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
    """Compare every penalty of a grid: what it costs in noise and in fit, on the stand-in.

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
