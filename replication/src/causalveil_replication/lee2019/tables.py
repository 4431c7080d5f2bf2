"""From draws to the tables of `replicate weighting`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray
from causalveil_replication.lee2019 import formulas
from causalveil_replication.lee2019.data import Design, Subjects, figure_1
from causalveil_replication.lee2019.estimates import declared_sensitivity, weighted
from causalveil_replication.lee2019.runs import (
    CLIP,
    DELTA,
    EFFECTS,
    EPSILONS,
    FIGURE_EPSILONS,
    FIGURE_TRAIN,
    LINE_EPSILONS,
    PENALTY,
    SIZES,
    FigureDraw,
    TableDraw,
    Trial,
)

Row = dict[str, Any]
# Figure 1: its own penalty and delta.
BIAS_EPSILONS, BIAS_UNITS, BIAS_TRAIN = (0.01, 0.1, 1.0, 10.0), (10, 100, 1000), (10, 100, 1000, 10_000, 100_000)
BIAS_REPEATS, BIAS_DELTA, BIAS_PENALTY = 30, 1e-5, 1.0
# The fully private estimate: what it rests on.
AUTHORS = "fully private, as the authors' code has it"
READ_OFF = "fully private, deviation as stated, sensitivity read off"
STATED = "fully private, deviation as stated, declared bounds"
PARTLY = "partly private"
FAILURE = 0.05
PENALTIES = (0.1, 0.01, 0.001)


def noise_factor(epsilon: float, delta: str) -> float:
    """sqrt(2 ln(1.25/delta))/epsilon: a deviation for sensitivity 1."""
    return math.sqrt(2 * math.log(1.25 / float(delta))) / epsilon


def table_rows(data: str, draws: Sequence[TableDraw], units: int, largest: float, delta: str = DELTA) -> list[Row]:
    """Rows of Tables 1 to 3: mean, and how often the sign is not that of the estimate without noise.

    Args:
        data: what the rows are called by.
        draws: every run at every epsilon.
        units: n.
        largest: the declared bound on the size of an outcome.
        delta: of either draw of noise.
    """
    declared = declared_sensitivity(units, largest, CLIP)
    estimates: dict[str, tuple[Callable[[TableDraw, float], float], Callable[[TableDraw], float]]] = {
        PARTLY: (lambda d, _: d.weighted, lambda d: d.plain_weighted),
        AUTHORS: (lambda d, k: d.weighted + math.sqrt(k * d.sensitivity) * d.normal, lambda d: d.plain_weighted),
        READ_OFF: (lambda d, k: d.weighted + k * d.sensitivity * d.normal, lambda d: d.plain_weighted),
        STATED: (lambda d, k: d.clipped + k * declared * d.normal, lambda d: d.plain_clipped),
        "partly private, clipped": (lambda d, _: d.clipped, lambda d: d.plain_clipped),
        "partly private, stratified": (lambda d, _: d.stratified, lambda d: d.plain_stratified),
        "partly private, matched": (lambda d, _: d.matched, lambda d: d.plain_matched),
    }
    first = [draw for draw in draws if draw.epsilon == float(EPSILONS[0])]
    rows = [_row(data, "non-private", math.inf, [d.plain_weighted for d in first], None)]
    for name, (private, plain) in estimates.items():
        for epsilon in map(float, EPSILONS):
            some = [draw for draw in draws if draw.epsilon == epsilon]
            factor = noise_factor(epsilon, delta)
            rows.append(_row(data, name, epsilon, [private(d, factor) for d in some], [plain(d) for d in some]))
    return rows


def level_rows(draws: Sequence[TableDraw], units: int, largest: float, delta: str = DELTA) -> list[Row]:
    """Return flips and the median error of the fully private estimate with a level for scores and one for the effect.

    Args:
        draws: every run at every epsilon; the coefficients' noise is that of the run's epsilon.
        units: n.
        largest: the declared bound on the size of an outcome.
        delta: of either draw of noise.
    """
    declared = declared_sensitivity(units, largest, CLIP)
    rows = []
    for scores in map(float, EPSILONS):
        some = [draw for draw in draws if draw.epsilon == scores]
        plain = np.array([draw.plain_clipped for draw in some])
        for effect in map(float, EPSILONS):
            noise = noise_factor(effect, delta) * declared
            found = np.array([draw.clipped + noise * draw.normal for draw in some])
            rows.append(
                {
                    "scores_epsilon": scores,
                    "effect_epsilon": effect,
                    "whole_epsilon": max(scores, effect),
                    "runs": len(some),
                    "flips": round(float(np.mean(np.sign(found) != np.sign(plain))), 5),
                    "median_error": round(float(np.median(np.abs(found - plain))), 2),
                }
            )
    return rows


def penalty_rows(draw: Callable[[int], tuple[Subjects, Subjects]], runs: int) -> list[Row]:
    """The estimate without noise, by the penalty of the fitted scores."""
    rows = []
    for penalty in PENALTIES:
        found = np.array(
            [
                weighted(effect, Trial.of(train, run, DELTA, penalty).w)
                for run in range(runs)
                for train, effect in (draw(run),)
            ]
        )
        rows.append(
            {"penalty": penalty, "runs": runs, "mean": round(float(found.mean()), 4)}
            | {"mean_error": round(float(found.std(ddof=1)) / math.sqrt(runs), 4)}
            | {"median": round(float(np.median(found)), 4)}
        )
    return rows


def _row(data: str, estimate: str, epsilon: float, values: Sequence[float], plain: Sequence[float] | None) -> Row:
    found = np.array(values)
    flips = None if plain is None else float(np.mean(np.sign(found) != np.sign(np.array(plain))))
    error = None if flips is None else round(math.sqrt(flips * (1 - flips) / len(found)), 5)
    return {
        "data": data,
        "estimate": estimate,
        "epsilon": epsilon,
        "runs": len(found),
        "mean": round(float(np.nanmean(found)), 4),
        "mean_error": round(float(np.nanstd(found, ddof=1)) / math.sqrt(len(found)), 4),
        "median": round(float(np.nanmedian(found)), 4),
        "flips": None if flips is None else round(flips, 5),
        "flips_error": error,
    }


def flip_rows(design: Design, draws: Sequence[FigureDraw]) -> list[Row]:
    """Figure 2a and b: flips of the partly private estimate, and the joint event with the fully private one.

    Mean over coefficient vectors, and the least and the largest of them: the papers have one vector.
    """
    rows = []
    for effect in EFFECTS:
        for epsilon in map(float, FIGURE_EPSILONS):
            some = [d for d in draws if (d.train, d.effect, d.epsilon) == (FIGURE_TRAIN, effect, epsilon)]
            partly = [(d.coefficients, _flipped(d.weighted, d)) for d in some]
            joint = [(d.coefficients, _flipped(d.weighted, d) and _flipped(_authors(d), d)) for d in some]
            for event, happened in (("partly private", partly), ("both", joint)):
                rows.append(
                    {"dimension": design.dimension, "effect": effect, "epsilon": epsilon, "event": event}
                    | _over_coefficients(happened)
                )
    return rows


def _flipped(value: float, draw: FigureDraw) -> bool:
    return bool(np.sign(value) != np.sign(draw.plain_weighted))


def _authors(draw: FigureDraw) -> float:
    """Noise with the deviation's square root for deviation, as in the authors' code."""
    return draw.weighted + math.sqrt(noise_factor(draw.epsilon, DELTA) * draw.sensitivity) * draw.normal


def _over_coefficients(values: Sequence[tuple[int, float]]) -> Row:
    """Mean over coefficient vectors of the mean over trials; their range; the error of the mean between vectors."""
    groups: dict[int, list[float]] = {}
    for vector, value in values:
        groups.setdefault(vector, []).append(value)
    means = np.array([np.mean(group) for group in groups.values()])
    return {
        "vectors": len(means),
        "trials": len(values) // len(means),
        "mean": round(float(means.mean()), 5),
        "least": round(float(means.min()), 5),
        "largest": round(float(means.max()), 5),
        # Of the mean over vectors; the papers have one vector, and so sqrt(vectors) times this.
        "error": round(float(means.std(ddof=1)) / math.sqrt(len(means)), 5) if len(means) > 1 else None,
    }


def estimate_rows(design: Design, draws: Sequence[FigureDraw]) -> list[Row]:
    """Figure 2c and d: estimates over m, one line with the true scores, one without noise, one an epsilon."""
    rows = []
    for effect in EFFECTS:
        for train in SIZES:
            some = [d for d in draws if (d.train, d.effect) == (train, effect)]
            once = [d for d in some if d.epsilon == float(LINE_EPSILONS[0])]
            lines = {
                "true scores": [(d.coefficients, d.true_scores) for d in once],
                "without noise": [(d.coefficients, d.plain_weighted) for d in once],
            }
            for epsilon in LINE_EPSILONS:
                at_epsilon = [d for d in some if d.epsilon == float(epsilon)]
                lines[f"epsilon {epsilon}"] = [(d.coefficients, d.weighted) for d in at_epsilon]
            for line, values in lines.items():
                rows.append(
                    {"dimension": design.dimension, "effect": effect, "m": train, "line": line}
                    | _over_coefficients(values)
                )
    return rows


def bias_rows() -> list[Row]:
    """Figure 1 of both papers: log10 |g| over m, n and epsilon; mean over repeats."""
    rows = []
    zero = np.zeros(5)
    for epsilon in BIAS_EPSILONS:
        for units in BIAS_UNITS:
            samples = [figure_1(units, repeat) for repeat in range(BIAS_REPEATS)]
            for train in BIAS_TRAIN:
                deviation = formulas.coefficient_deviation(epsilon, BIAS_DELTA, train, BIAS_PENALTY)
                sizes = [formulas.log10_bias(sample, zero, deviation) for sample in samples]
                rows.append(
                    {
                        "epsilon": epsilon,
                        "n": units,
                        "m": train,
                        "repeats": BIAS_REPEATS,
                        "log10_bias": round(float(np.mean(sizes)), 4),
                    }
                )
    return rows


def bound_rows(draws: int) -> list[Row]:
    """Lemmas 3 and 6, Theorems 4 and 5, Corollary 7 on one synthetic sample: as printed, as they hold, as measured."""
    return [row for epsilon in FIGURE_EPSILONS[3:] for row in _bounds(epsilon, draws)]


def _bounds(epsilon: str, draws: int) -> Iterator[Row]:
    design = Design("bounds", 5, 200, 1)
    train, effect = design.draw(FIGURE_TRAIN, 0)
    sample = Subjects(effect.x, effect.t, effect.y + 2.0 * effect.t)
    trial = Trial.of(train, 7, DELTA)
    deviation = formulas.coefficient_deviation(float(epsilon), float(DELTA), FIGURE_TRAIN, PENALTY)
    found: FloatArray = np.array([weighted(sample, trial.noisy(epsilon)) for _ in range(draws)])
    tau, distance = weighted(sample, trial.w), 0.25
    g, g_printed = (formulas.bias(sample, trial.w, deviation, printed) for printed in (False, True))
    eta, eta_printed = (formulas.difference_bound(sample, trial.w, deviation, FAILURE, p) for p in (False, True))
    apart = np.abs(found[::2] - found[1::2][: len(found[::2])])
    largest = float(np.abs(found).max())
    noise = noise_factor(float(epsilon), DELTA) * declared_sensitivity(len(sample.t), 5.0, CLIP)
    wrong = found[found <= 0]
    keeps = float(np.mean([formulas.kept_wrong(value, noise) for value in wrong])) if len(wrong) else math.nan
    mean_error = float(found.std(ddof=1)) / math.sqrt(draws)
    far = np.abs(found - tau) >= distance
    printed7, holds7 = (formulas.error_bound(sample, trial.w, deviation, distance, p) for p in (True, False))
    said = (
        ("Lemma 3: E tau_n", tau + g_printed, tau + g, float(found.mean()), mean_error),
        ("Lemma 6: largest difference but for 5%", eta_printed, eta, float(np.quantile(apart, 1 - FAILURE)), None),
        (
            "Theorem 4: P(tau_n <= 0), eta the largest seen",
            formulas.flip_bound(tau + g, largest, printed=True),
            formulas.flip_bound(tau + g, largest),
            *_share(found <= 0),
        ),
        (
            "Theorem 5: P(tau_n <= 0 and tau_n + e <= 0)",
            formulas.flip_bound(tau + g, largest, printed=True) * formulas.kept_wrong(largest, noise),
            formulas.joint_flip_bound(tau + g, largest, noise),
            float(np.mean(found <= 0)) * (keeps if len(wrong) else 0.0),
            None,
        ),
        ("Corollary 7: P(|tau_n - tau| >= 0.25)", printed7, holds7, *_share(far)),
    )
    for statement, printed, holds, measured, error in said:
        yield {
            "statement": statement,
            "epsilon": float(epsilon),
            "draws": draws,
            "printed": round(printed, 6),
            "holds": round(holds, 6),
            "measured": round(measured, 6),
            "measured_error": None if error is None else round(error, 6),
        }


def _share(events: Any) -> tuple[float, float]:
    share = float(np.mean(events))
    return share, math.sqrt(share * (1 - share) / len(events))
