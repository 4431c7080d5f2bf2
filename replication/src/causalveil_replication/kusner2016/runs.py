"""How often direction finding is right on pairs whose direction is known, without and with privacy.

The method is the production code's: regressions, scores, draws, theorems; noise is seeded and nothing is a release. For
each split of a pair the scores are exact and known here, so the papers' theorems give the probability that noise keeps
their order without drawing; one draw is made as well, and the tables show both. "No answer" counts as a coin's toss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from causalveil.schemas.estimators.direction import DirectionStudy, Favours, Score
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Half
from causalveil.schemas.study import Variant
from causalveil.tasks.estimate.papers.direction import scores
from causalveil.tasks.estimate.papers.direction.stages import (
    Draw,
    ReleasedDraw,
    TestRows,
    Vectors,
    draws,
    measure,
    regress,
    release,
    score_release,
    score_values,
    vectors,
)
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.mechanisms import Laplace
from causalveil_replication.kusner2016.pairs import CausePair, halves

Row = dict[str, Any]
PENALTY, BANDWIDTH, DELTA = 0.01, 0.2, "1e-6"
EPSILONS = ("0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10")


@cache
def study_of(
    score: Score,
    epsilon: str,
    variant: Variant,
    half: Half = Half.test,
    penalty: float = PENALTY,
    bandwidth: float = BANDWIDTH,
    delta: str = DELTA,
) -> DirectionStudy:
    """A study of one score that spends all of ``epsilon``, by our sensitivities or by the paper's."""
    document = {
        "kind": "direction",
        "name": "rehearsal",
        "data": {"path": ".", "unit": "unit"},
        "pair": {"x": {"name": "x", "lower": -1, "upper": 1}, "y": {"name": "y", "lower": -1, "upper": 1}},
        "estimator": {
            "name": "direction",
            "scores": [score],
            "protect": [half],
            "release": "difference" if variant is Variant.ours else "scores",
            "penalty": penalty,
            "bandwidth": bandwidth,
            "variant": variant,
        },
        "privacy": {"epsilon": epsilon, "delta": delta if score is Score.iqr else 0, "level": "sample"},
    }
    return DirectionStudy.model_validate(document)


def exact(
    pair: CausePair, split: int, penalty: float = PENALTY, bandwidth: float = BANDWIDTH
) -> tuple[Vectors, TestRows, Sizes]:
    """Variables and residuals of one split's test rows, and its sizes."""
    train, test = halves(pair, split)
    study = study_of(Score.hsic, "1", Variant.ours, penalty=penalty, bandwidth=bandwidth)
    sizes = Sizes(units=len(pair.rows), train=len(train), estimation=len(test.pairs))
    return vectors(test, regress(study, lambda _: train, 1)), test, sizes


def rehearse_scores(pair: CausePair, split: int, bandwidth: float, penalty: float) -> list[Row]:
    """Without privacy: is each score right?"""
    found, test, _ = exact(pair, split, penalty, bandwidth)
    studies = [study_of(score, "1", Variant.ours, penalty=penalty, bandwidth=bandwidth) for score in Score]
    return [
        {**about(pair, split), "score": str(score), "right": is_right(pair, score_values(study, score, found, test))}
        for score, study in zip(Score, studies, strict=True)
    ]


def rehearse_test(pair: CausePair, split: int, epsilons: Sequence[str] = EPSILONS, seed: int = 0) -> list[Row]:
    """Test-set privacy: every score at every epsilon, by our sensitivities and by the paper's."""
    found, test, sizes = exact(pair, split)
    budget, rows = RehearsalBudget(seed), []
    for score in Score:
        values = score_values(study_of(score, "1", Variant.ours), score, found, test)
        for epsilon in epsilons:
            for variant in Variant:
                study = study_of(score, epsilon, variant)
                result = _rehearse(pair, study, sizes, (found, test), values, budget)
                rows.append({**about(pair, split), "score": str(score), "epsilon": float(epsilon), **result})
    return rows


def rehearse_training(
    pair: CausePair, split: int, penalties: Sequence[float], epsilons: Sequence[str], seed: int = 0
) -> list[Row]:
    """Training-set privacy of HSIC over penalties (Theorem 7)."""
    budget, rows = RehearsalBudget(seed), []
    for penalty in penalties:
        found, test, sizes = exact(pair, split, penalty)
        values = score_values(study_of(Score.hsic, "1", Variant.ours, penalty=penalty), Score.hsic, found, test)
        for epsilon in epsilons:
            for variant in Variant:
                study = study_of(Score.hsic, epsilon, variant, Half.train, penalty)
                result = _rehearse(pair, study, sizes, (found, test), values, budget)
                rows.append({**about(pair, split), "penalty": penalty, "epsilon": float(epsilon), **result})
    return rows


def about(pair: CausePair, split: int) -> Row:
    """The columns that say which pair and which split."""
    return {"pair": pair.name, "units": len(pair.rows), "size": pair.size, "weight": pair.weight, "split": split}


def is_right(pair: CausePair, values: tuple[float, float]) -> float:
    """1 if the smaller value names the true direction, 0 if the larger does, a half if they are equal."""
    return 0.5 if values[0] == values[1] else float((values[0] < values[1]) == pair.x_causes_y)


def _rehearse(
    pair: CausePair,
    study: DirectionStudy,
    sizes: Sizes,
    data: tuple[Vectors, TestRows],
    values: tuple[float, float],
    budget: RehearsalBudget,
) -> Row:
    """One score of one split at one epsilon.

    Returns:
        ``right`` without privacy; ``answered``, P(answer); ``kept``, P(noise keeps the order | answer); ``correct``,
        P(the true direction); ``drawn``: 1, 0 or, for no answer, a half, by one draw.
    """
    score, declared = study.estimator.scores[0], draws(study, sizes)
    measured = [_measured(study, sizes, draw, data, values) for draw in declared]
    answered = math.prod(_answer_probability(draw, part) for draw, part in zip(declared, measured, strict=True))
    kept = order_kept(study, declared)(abs(values[1] - values[0]), declared[0].mechanism.known_scale)
    right = is_right(pair, values)
    released = [ReleasedDraw(draw, release(draw, part, budget)) for draw, part in zip(declared, measured, strict=True)]
    favours = score_release(study, score, released).favours
    return {
        "variant": str(study.estimator.variant),
        "right": right,
        "answered": answered,
        "kept": kept,
        "correct": 0.5 + answered * (kept - 0.5) * (2 * right - 1),
        "drawn": 0.5 if favours is None else float((favours is Favours.x_to_y) == pair.x_causes_y),
    }


def order_kept(study: DirectionStudy, declared: Sequence[Draw]) -> Callable[[float, float], float]:
    """The theorem for the number of draws that decide: one on the difference, one a score, one a quartile range."""
    if len(declared) == 4:
        return scores.order_kept_four_draws
    return scores.order_kept_one_draw if study.estimator.variant is Variant.ours else scores.order_kept_two_draws


def _measured(
    study: DirectionStudy, sizes: Sizes, draw: Draw, data: tuple[Vectors, TestRows], values: tuple[float, float]
) -> FloatArray:
    """Return what ``direction.measure`` gives; known values are not computed again."""
    if not isinstance(draw.mechanism, Laplace):
        return measure(study, sizes, draw, *data)
    return np.array([values[1] - values[0]] if study.estimator.variant is Variant.ours else values)


def answer_rate(study: DirectionStudy, sizes: Sizes, found: Vectors, test: TestRows) -> float:
    """P(all of a study's draws answer), given the exact distances of its tests."""
    declared = draws(study, sizes)
    return math.prod(_answer_probability(draw, measure(study, sizes, draw, found, test)) for draw in declared)


def _answer_probability(draw: Draw, measured: FloatArray) -> float:
    if isinstance(draw.mechanism, Laplace):
        return 1.0
    distances = measured[-draw.mechanism.tests :].tolist()
    return 1 - math.prod(1 - draw.mechanism.answer_probability(distance) for distance in distances)


def rehearse_theorems(ratios: Sequence[float], count: int, seed: int = 0) -> list[Row]:
    """P(correct) measured over ``count`` draws of the production mechanisms, beside what the theorems say.

    Args:
        ratios: margins between the scores, in units of the scale of the noise.
        count: draws for each.
        seed: of the noise.
    """
    budget, rows = RehearsalBudget(seed), []
    for name, study in THEOREMS.items():
        declared = draws(study, Sizes(units=2000, train=1000, estimation=1000))
        scale = declared[0].mechanism.known_scale
        for ratio in ratios:
            expected = order_kept(study, declared)(ratio * scale, scale)
            measured = [_margin(study, draw, ratio * scale) for draw in declared]
            right = 0
            for _ in range(count):
                made = [
                    ReleasedDraw(draw, release(draw, part, budget))
                    for draw, part in zip(declared, measured, strict=True)
                ]
                right += score_release(study, study.estimator.scores[0], made).favours is Favours.x_to_y
            budget.charges.clear()
            error = math.sqrt(expected * (1 - expected) / count)
            rows.append(
                {
                    "draws": name,
                    "margin_over_scale": ratio,
                    "theorem": expected,
                    "measured": right / count,
                    "standard_error": error,
                    "errors_apart": (right / count - expected) / error,
                }
            )
    return rows


THEOREMS = {
    "one, on the difference": study_of(Score.spearman, "1", Variant.ours),
    "one for each score (Theorem 2)": study_of(Score.spearman, "1", Variant.paper),
    "one for each quartile range (Theorem 4)": study_of(Score.iqr, "1", Variant.paper),
}


def _margin(study: DirectionStudy, draw: Draw, margin: float) -> FloatArray:
    """Values whose order is x to y by ``margin``; a test's distances so large that it passes."""
    if not isinstance(draw.mechanism, Laplace):
        # The quartile range of y alone is above the others'.
        return np.array([margin if draw.vectors == ("y",) else 0.0] + [float(draw.cap)] * draw.mechanism.tests)
    return np.array([margin] if study.estimator.variant is Variant.ours else [0.0, margin])


def summarise(rows: Sequence[Row], by: Sequence[str], shown: str = "correct") -> list[Row]:
    """Means over splits, then over pairs, for each combination of the columns ``by``, in the order of first occurrence.

    Args:
        rows: of ``rehearse_test``, ``rehearse_training`` or ``rehearse_scores``.
        by: columns.
        shown: the accuracy in question: ``correct``, with noise, by the theorems, or ``right``, without.

    Returns:
        The columns ``by``; ``pairs``, how many; ``accuracy``, every pair counting as one; ``by_source``, pairs of one
        source sharing a vote, and its standard error over sources, ``error``; and with noise ``drawn``, the accuracy
        of the draws that were made, every pair as one, ``answered`` and ``kept``.
    """
    import polars as pl

    values = [shown, *(("drawn", "answered", "kept") if shown == "correct" else ())]
    table = pl.DataFrame(rows, infer_schema_length=None)
    pairs = table.group_by(list(dict.fromkeys([*by, "pair"])), maintain_order=True).agg(
        pl.col("weight").first(), *(pl.col(name).mean() for name in values)
    )
    weight, total = pl.col("weight"), pl.col("weight").sum()
    mean = (pl.col(shown) * weight).sum() / total
    result = pairs.group_by(list(by), maintain_order=True).agg(
        pl.len().alias("pairs"),
        pl.col(shown).mean().alias("accuracy"),
        mean.alias("by_source"),
        (((pl.col(shown) - mean) ** 2 * weight).sum().sqrt() / total).alias("error"),
        *(pl.col(name).mean() for name in values[1:]),
    )
    return result.to_dicts()


def less_often_right(rows: Sequence[Row]) -> tuple[int, int, list[str]]:
    """At how many of how many (pair, split, score, epsilon) our noise keeps the order less often than the paper's.

    The order is that of the exact scores. No answer keeps nothing: it counts as a coin's toss. Last, the scores
    concerned.
    """
    keeps: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows:
        place = tuple(row[name] for name in ("pair", "split", "score", "epsilon"))
        keeps.setdefault(place, {})[row["variant"]] = 0.5 + row["answered"] * (row["kept"] - 0.5)
    worse = [place for place, pair in keeps.items() if pair[Variant.ours] < pair[Variant.paper] - 1e-12]
    return len(worse), len(keeps), sorted({place[2] for place in worse})


def always_right(rows: Sequence[Row], score: str) -> set[str]:
    """The pairs for which the score is right without privacy in every split: those the paper shows in its figures."""
    wrong = {row["pair"] for row in rows if row["score"] == score and row["right"] < 1}
    return {row["pair"] for row in rows} - wrong
