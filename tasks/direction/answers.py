"""From released draws to directions: post-processing of released and public values alone.

The papers' theorems say how probably noise keeps the order of two scores that are a margin apart. The true margin is
not released, so they are evaluated at the released one. What that number means without a guess about the truth: one
minus it is the largest probability, over all true margins of the other sign, of a released margin at least as large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from causalveil.schemas.estimators.direction import RANKS, DirectionStudy, Favours, Releases, Score
from causalveil.schemas.plan import Sizes
from causalveil.schemas.release import ScoreRelease, Verdict
from causalveil.tasks.direction.draws import BESIDE, Draw
from causalveil.tasks.direction.sensitivity import (
    order_kept_four_draws,
    order_kept_one_draw,
    order_kept_two_draws,
    residual_movement,
)
from causalveil.tasks.machine.arrays import FloatArray
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
    """Above 0 x to y, below 0 y to x."""
    if margin is None or margin == 0:
        return None
    return Favours.x_to_y if margin > 0 else Favours.y_to_x


def verdict(scores: Sequence[ScoreRelease]) -> Verdict:
    """All scores that answered, weighted by how sure the theorems are of each."""
    votes = [
        (2 * score.order_kept - 1) * (1 if score.favours is Favours.x_to_y else -1)
        for score in scores
        if score.order_kept is not None and score.favours is not None
    ]
    answered = sum(score.answered for score in scores)
    weight = sum(votes) / answered if answered else 0.0
    return Verdict(favours=favoured(weight), weight=weight, rule=RULE)
