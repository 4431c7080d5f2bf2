"""Find the causal direction between two variables: draws, stages, answers.

Regressions of each variable on the other are fitted on the training half (Kusner et al. 2016, Algorithm 1, made
private). On the test half the residuals of a regression are compared with its predictor; the direction whose residuals
depend less on it wins. The exact scores stay in the enclave and are released by these draws, whose scores share epsilon
equally. A unit is in one half, so charges on the halves compose in parallel:

    protect   ranks                                       HSIC                        IQR
    test      Laplace, estimation                         Laplace, estimation         propose-test-release, estimation
    train     distance to instability, train (one draw)   Laplace (Theorem 7), train  propose-test-release, train
    both      noisy regressions, train;                   Laplace at the larger       propose-test-release by units of
              then Laplace, estimation                    sensitivity, all            either half, all

The papers' theorems give the probability that noise keeps the order of two scores that are a margin apart. The true
margin is not released, so they are evaluated at the released one. One minus that number is the largest probability,
over all true margins of the other sign, of a released margin at least as large.

A plan uses a stand-in pair, a public curve: x uniform on [-1, 1] and y = 0.35 (x + x^3) + 0.3 e with e uniform too, by
a low-discrepancy sequence instead of chance (Roberts's R2), so that results are close to expectations.

Both variables are scaled to [-1, 1] by declared bounds, in the order of keyed hashes. Beside ``h.npy`` a segment's
folder in scratch holds ``xy.npy``, float64 (rows, 2), rows ascending by hash; the leading rows that ``split`` counted
are training rows. Test rows are gathered in the order of their hashes over all segments, 32 bytes a row, since ranks
need them all.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import brentq

from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.estimators.direction import RANKS, DirectionStudy, Favours, Releases, Score, Variable
from causalveil.schemas.hints import Blank, option
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Half, Norm, PrivacyCost, Scope, add, subtract
from causalveil.schemas.release import ScoreRelease, Verdict
from causalveil.schemas.study import Study, Variant
from causalveil.tasks.data.enclave import Enclave
from causalveil.tasks.data.normalise import hashed_order, rescale
from causalveil.tasks.data.partitions import LoadedSegment
from causalveil.tasks.data.split import Halves, ascending
from causalveil.tasks.estimate.papers.direction import scores
from causalveil.tasks.estimate.papers.direction.scores import (
    Kernel,
    Pairs,
    QuartileRange,
    Regression,
    bin_distances,
    fit,
    order_distance,
    order_kept_four_draws,
    order_kept_one_draw,
    order_kept_two_draws,
    released_log,
    residual_movement,
    residuals,
    useful_distance,
)
from causalveil.tasks.machine.arrays import FloatArray, IntArray, save_array, values_of
from causalveil.tasks.privacy.gaussian import divide
from causalveil.tasks.privacy.mechanisms import (
    Budget,
    Laplace,
    Mechanism,
    ProposeTestRelease,
    Sensitivity,
    Slot,
    StableRelease,
    vector_mechanism,
)

# Digits of a share; the last share is the rest, so that shares add up exactly.
DIGITS = 9
# Charged for each vector: two logarithms of one bin are at most its width apart up to rounding.
ROUNDING = 1e-12
# Each vector of residuals and the variable it is compared with: x to y first, then y to x.
BESIDE = {"residual_y": "x", "residual_x": "y"}
VECTORS = (*BESIDE.values(), *BESIDE)
ScoreMechanism = Laplace | ProposeTestRelease | StableRelease
Bound = Callable[[int, int], float]
"""A sensitivity as a function of the numbers of training and test units."""

_TEST_FORMULAS = {
    Variant.ours: {Score.spearman: "6/(m + 1)", Score.kendall: "4/m", Score.hsic: "(3/2) m/(m - 1)^2"},
    Variant.paper: {Score.spearman: "30/m", Score.kendall: "4/m", Score.hsic: "(12 m - 11)/(m - 1)^2"},
}
_TRAIN_FORMULAS = {
    Variant.ours: "(m/(m - 1))^2 min(1/4, L D/2)",
    Variant.paper: "32 L sqrt(m) D",
}


@dataclass(frozen=True)
class Draw:
    """One draw: slot, scores, mechanism, and for IQR the vectors whose ranges it reads."""

    slot: Slot
    scores: tuple[Score, ...]
    mechanism: ScoreMechanism
    vectors: tuple[str, ...] = ()

    @property
    def bin(self) -> float:
        """Width of the bins of log IQR; the number of units must be known."""
        if self.mechanism.sensitivity.value is None or not self.vectors:
            raise ValueError("the width of the bins needs a draw of IQR and the number of units")
        return self.mechanism.sensitivity.value / len(self.vectors) - ROUNDING

    @property
    def cap(self) -> int:
        """The largest distance that a test uses; 0 without a test."""
        if isinstance(self.mechanism, Laplace):
            return 0
        return useful_distance(self.mechanism.threshold, self.mechanism.test_scale)


@dataclass(frozen=True)
class Fit:
    """The release of one regression's weights; ``cause`` is the column that predicts."""

    slot: Slot
    cause: int
    mechanism: Mechanism


def draws(study: DirectionStudy, sizes: Sizes | None) -> tuple[Draw, ...]:
    """Return the draws in the order of scores; without sizes sensitivities are formulas."""
    plan = _Plan(study, sizes)
    result: list[Draw] = []
    ranks = [score for score in study.estimator.scores if score in RANKS]
    for score in study.estimator.scores:
        if score is Score.iqr:
            result += plan.iqr()
        elif score is Score.hsic or Half.test in study.estimator.protect:
            result.append(plan.laplace(score))
        elif score is ranks[0]:
            cost = PrivacyCost(epsilon=add(*(plan.epsilon[s] for s in ranks)), delta=plan.deltas[0])
            result.append(Draw(Slot("ranks", Scope.train), tuple(ranks), StableRelease(cost)))
    return tuple(result)


def fits(study: DirectionStudy, sizes: Sizes | None) -> tuple[Fit, ...]:
    """Return the releases of both regressions, if the study has ranks and protects both halves."""
    plan = _Plan(study, sizes)
    ranks = [score for score in study.estimator.scores if score in RANKS]
    if not ranks or len(study.estimator.protect) < 2:
        return ()
    request = PrivacyCost(epsilon=add(*(plan.epsilon[s] for s in ranks)), delta=plan.deltas[0])
    names = ("regression_of_y", "regression_of_x")
    # Every training unit is in both regressions. Without delta the two parts add up exactly.
    costs = (
        list(divide(request, dict.fromkeys(names, Decimal("0.5"))).values())
        if request.delta > 0
        else [PrivacyCost(epsilon=epsilon, delta=Decimal(0)) for epsilon in shares(request.epsilon, 2)]
    )
    bound = plan.sensitivity(
        lambda n, _: scores.weight_movement(n, study.estimator.penalty, study.estimator.variant),
        "4 (sqrt(p) + sqrt(1/2))/(n p^1.5)",
        Norm.l2,
    )
    return tuple(
        Fit(Slot(name, Scope.train), cause, vector_mechanism(bound, costs[cause])) for cause, name in enumerate(names)
    )


def shares(total: Decimal, parts: int) -> list[Decimal]:
    """Return ``total`` in nearly equal parts that add up to it exactly; zeros of zero.

    Raises:
        StudyError: ``total`` has too many digits to be divided exactly.
    """
    each = decimal.Context(prec=DIGITS, rounding=decimal.ROUND_DOWN).divide(total, Decimal(parts))
    try:
        return [each] * (parts - 1) + [subtract(total, add(*[each] * (parts - 1)))]
    except decimal.Inexact:
        raise StudyError("epsilon or delta has too many digits to be shared among the scores") from None


@dataclass(frozen=True)
class _Plan:
    """A study, its sizes, and the shares of its budget."""

    study: DirectionStudy
    sizes: Sizes | None

    def __post_init__(self) -> None:
        """Refuse a test half that has no pairs of units."""
        if self.sizes is not None and self.sizes.estimation < 2:
            raise StudyError("a direction study needs at least two test units; lower 'train_fraction' or bring more")

    @property
    def epsilon(self) -> dict[Score, Decimal]:
        scores = self.study.estimator.scores
        return dict(zip(scores, shares(self.study.privacy.epsilon, len(scores)), strict=True))

    @property
    def deltas(self) -> tuple[Decimal, Decimal]:
        """Delta for the test or the regressions of ranks, and for the IQR's test."""
        delta, estimator = self.study.privacy.delta, self.study.estimator
        ranks = bool(set(estimator.scores) & set(RANKS)) and Half.train in estimator.protect
        iqr = Score.iqr in estimator.scores
        if ranks and iqr:
            first, second = shares(delta, 2)
            return first, second
        return (delta, Decimal(0)) if ranks else (Decimal(0), delta)

    @property
    def scope(self) -> Scope:
        protect = set(self.study.estimator.protect)
        return Scope.all if len(protect) == 2 else (Scope.train if Half.train in protect else Scope.estimation)

    def sensitivity(self, bound: Bound, formula: str, norm: Norm = Norm.l1) -> Sensitivity:
        value = None if self.sizes is None else bound(self.sizes.train, self.sizes.estimation)
        return Sensitivity(value=value, norm=norm, formula=formula)

    def laplace(self, score: Score) -> Draw:
        """Return the draw of a rank score or of HSIC, with twice the sensitivity of one value."""
        estimator = self.study.estimator
        halves = {Half.test} if score in RANKS else set(estimator.protect)
        formulas = {
            Half.test: _TEST_FORMULAS[estimator.variant][score],
            Half.train: _TRAIN_FORMULAS[estimator.variant],
        }

        def bound(n: int, m: int) -> float:
            variant, bounds = estimator.variant, list[float]()
            if Half.test in halves:
                bounds.append(scores.score_sensitivity(score, m, variant))
            if Half.train in halves:
                bandwidth = estimator.kernel_of_residuals
                bounds.append(scores.hsic_training_sensitivity(n, m, estimator.penalty, bandwidth, variant))
            return 2 * max(bounds)

        text = ", ".join(formulas[half] for half in Half if half in halves)
        text = f"max({text})" if len(halves) > 1 else text
        # Of ranks with both halves protected the regressions are noisy, so the draw is on test units alone.
        scope = Scope.estimation if score in RANKS else self.scope
        cost = PrivacyCost(epsilon=self.epsilon[score], delta=Decimal(0))
        return Draw(Slot(str(score), scope), (score,), Laplace(self.sensitivity(bound, f"2 {text}"), cost))

    def iqr(self) -> list[Draw]:
        """Return the draws of IQR: one of all vectors, or by the paper one for each."""
        estimator, cost = self.study.estimator, PrivacyCost(epsilon=self.epsilon[Score.iqr], delta=self.deltas[1])
        moving = [name for name in VECTORS if Half.test in estimator.protect or name.startswith("residual")]
        if estimator.variant is Variant.ours:
            bare = ProposeTestRelease(Sensitivity(1.0, Norm.l1, "1"), cost)
            bound = self.sensitivity(
                lambda _, m: len(moving) * ((estimator.bin or scores.default_bin(m, bare.threshold)) + ROUNDING),
                f"{len(moving)} bins of log IQR",
            )
            mechanism = ProposeTestRelease(bound, cost)
            return [Draw(Slot("iqr", self.scope), (Score.iqr,), mechanism, tuple(moving))]
        epsilons, deltas = shares(cost.epsilon, len(moving)), shares(cost.delta, len(moving))
        bound = Sensitivity(1.0 + ROUNDING, Norm.l1, "1 bin of log IQR")
        return [
            Draw(
                Slot(f"iqr_{name}", self.scope),
                (Score.iqr,),
                ProposeTestRelease(bound, PrivacyCost(epsilon=epsilon, delta=delta), tests=2),
                (name,),
            )
            for name, epsilon, delta in zip(moving, epsilons, deltas, strict=True)
        ]


RULE = (
    "each score that answered votes for the direction it favours with weight 2 p - 1, p its order_kept; "
    "the verdict is the direction of the votes' sum, its weight their mean over the scores that answered"
)


@dataclass(frozen=True)
class ReleasedDraw:
    """A draw and its released value, shape (d,), or None for "no answer"."""

    draw: Draw
    value: FloatArray | None


@dataclass(frozen=True)
class DirectionFindings:
    """Findings of a direction study."""

    scores: tuple[ScoreRelease, ...]
    verdict: Verdict
    details: dict[str, float | int | str | bool]

    def fields(self, study: DirectionStudy) -> dict[str, Any]:
        """Return the fields of a ``DirectionRelease`` that other releases lack."""
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
        sizes: numbers of units.
        released: every draw of :func:`draws` with its value.
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
    """Return one score's answer, from its draws."""
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
    """Return the theorem on keeping the order, in words and as a function of margin and noise scale."""
    if isinstance(parts[0].draw.mechanism, StableRelease):
        return "released exactly, after a test", lambda _margin, _scale: 1.0
    if len(parts) == 4:
        return "Theorem 4: a Laplace draw on each of four logarithms", order_kept_four_draws
    if study.estimator.release is Releases.scores:
        return "Theorem 2: a Laplace draw on each score", order_kept_two_draws
    return "1 - exp(-margin/scale)/2: one Laplace draw on the margin", order_kept_one_draw


def _values(score: Score, parts: Sequence[ReleasedDraw]) -> list[float]:
    """Return both released values of a score, x to y first, or their difference; empty without an answer."""
    if any(part.value is None for part in parts):
        return []
    numbers = [part.value.tolist() for part in parts if part.value is not None]
    if len(parts) == 1:
        draw = parts[0].draw
        width = len(numbers[0]) // len(draw.scores)
        first = draw.scores.index(score) * width
        return list(numbers[0][first : first + width])
    by_vector = {part.draw.vectors[0]: value for part, (value,) in zip(parts, numbers, strict=True)}
    return [by_vector.get(variable, 0.0) + by_vector[residual] for residual, variable in BESIDE.items()]


def favoured(margin: float | None) -> Favours | None:
    """Return the direction that a margin favours: x to y above 0, y to x below 0."""
    if margin is None or margin == 0:
        return None
    return Favours.x_to_y if margin > 0 else Favours.y_to_x


def verdict(scores: Sequence[ScoreRelease]) -> Verdict:
    """Return the verdict of all scores that answered, weighted by the theorems' probabilities."""
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
    """Return (x, y) of the stand-in, shape (rows, 2), in [-1, 1], from row ``start`` on."""
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
    """Return the probability that draws keep the order of two scores ``margin`` >= 0 apart."""
    one_draw = study.estimator.release is Releases.difference
    return (order_kept_one_draw if one_draw else order_kept_two_draws)(margin, scale)


def sure_margin(study: DirectionStudy, draw: Draw, sure: float) -> float:
    """Return the margin whose order Laplace noise keeps with probability ``sure`` in [0.5, 1)."""
    return float(brentq(lambda ratio: order_kept(study, ratio, 1.0) - sure, 0.0, 100.0)) * draw.mechanism.known_scale


def expected_distance(study: DirectionStudy, sizes: Sizes, draw: Draw) -> int:
    """Return the expected distance of a test.

    It is the distance of evenly spread values to another bin, or of random ones to another order. The smallest of m - 1
    gaps between random values in an interval of width 2 is about 2/m^2.
    """
    estimator, m = study.estimator, sizes.estimation
    movement = residual_movement(sizes.train, estimator.penalty, estimator.variant)
    if isinstance(draw.mechanism, StableRelease):
        return math.ceil(2 / m**2 / (2 * movement))
    values = QuartileRange(np.linspace(-1.0, 1.0, m))
    trained = movement if Half.train in estimator.protect else None
    return max(bin_distances(values, draw.bin, draw.cap, replace=Half.test in estimator.protect, movement=trained))


def expected_order_kept(study: DirectionStudy, sizes: Sizes) -> tuple[float, float, float] | None:
    """Return HSIC's margin on the stand-in, its noise scale and P(right direction).

    The result is None without HSIC.
    """
    for draw in draws(study, sizes):
        if Score.hsic in draw.scores and isinstance(draw.mechanism, Laplace):
            scale = draw.mechanism.known_scale
            estimator = study.estimator
            margin = hsic_margin(estimator.penalty, estimator.bandwidth, estimator.kernel_of_residuals)
            right = order_kept(study, abs(margin), scale)
            return margin, scale, right if margin > 0 else 1 - right
    return None


def sweep(study: Study, sizes: Sizes) -> list[dict[str, float]]:
    """Compare penalties by noise and fit on the stand-in; no data is read.

    A small penalty lets one training unit move the residuals far, a large one fits no curve: under training-set
    privacy the probability of the right direction rises and falls between (Kusner et al. 2016, Figure 2).

    Raises:
        StudyError: the study asks for no direction, or has no HSIC.
    """
    if not isinstance(study, DirectionStudy) or Score.hsic not in study.estimator.scores:
        raise StudyError(f"{option(sweep=Blank('penalty'))} is for direction studies with the score 'hsic'")
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


@dataclass(frozen=True)
class TestRows:
    """Test rows in the order of their keyed hashes.

    ``pairs``: (x', y'), shape (m, 2), in [-1, 1]. ``ties``: another keyed order, shape (m,), a permutation. A unit's
    place in either is random and independent of its values, and replacing a unit moves no other.
    """

    __test__ = False

    pairs: FloatArray
    ties: IntArray


def scaled(variable: Variable, values: pl.Series) -> FloatArray:
    """Return the values clipped to the variable's bounds and mapped to [-1, 1], shape (n,).

    Raises:
        DataError: there are nulls, NaN, or other values than numbers.
    """
    numbers = values.cast(pl.Float64, strict=False)
    if numbers.null_count():
        raise DataError(f"column '{variable.name}' holds nulls")
    result = numbers.to_numpy().copy()
    rescale(result, variable, 1.0, out=result)
    return result


def normalise_segment(study: DirectionStudy, segment: LoadedSegment, place: Path, key: bytes) -> None:
    """Write xy.npy and h.npy of one segment, rows ascending by keyed hash.

    Raises:
        DataError: a value that admission refuses.
    """
    order = hashed_order(values_of(segment.frame, study.data.unit), place, key)
    pair = study.pair
    columns = [scaled(variable, values_of(segment.frame, variable.name))[order] for variable in (pair.x, pair.y)]
    save_array(place / "xy.npy", np.column_stack(columns))


def training_sizes(enclave: Enclave) -> IntArray:
    """Return the number of leading training rows of each segment, shape (segments,)."""
    return np.asarray(Halves.open(enclave).edges[0])


def training_rows(enclave: Enclave) -> Callable[[int], FloatArray]:
    """Return the training rows of a segment, shape (rows, 2), by its number."""
    sizes = training_sizes(enclave)
    return lambda index: np.asarray(enclave.load("xy", index)[: sizes[index]])


def test_rows(enclave: Enclave) -> TestRows:
    """Return the test rows of all segments."""
    sizes = training_sizes(enclave)
    hashes, pairs = (enclave.gather(name, sizes) for name in ("h", "xy"))
    order = ascending(hashes)
    # The low word is as random as the high one, and independent of the order by the whole hash.
    ties = np.empty(len(order), dtype=np.int64)
    ties[np.lexsort((hashes[order, 0], hashes[order, 1]))] = np.arange(len(order))
    return TestRows(pairs[order], ties)


Vectors = Mapping[str, FloatArray]
"""``x``, ``y``, ``residual_y`` and ``residual_x`` on the test rows, shape (m,) each, in the order of their hashes."""

WEIGHTS = "weights"


def regress(study: DirectionStudy, pairs: Pairs, segments: int) -> tuple[Regression, Regression]:
    """Return the regression of y on x and that of x on y, exactly.

    Raises:
        ConvergenceError: see ``residuals.fit``.
    """
    estimator, workers = study.estimator, study.execution.workers
    f, g = (fit(pairs, segments, cause, estimator.penalty, estimator.bandwidth, workers) for cause in (0, 1))
    return f, g


def release_regressions(
    study: DirectionStudy, sizes: Sizes, exact: tuple[Regression, Regression], budget: Budget
) -> tuple[Regression, Regression] | None:
    """Release both regressions with noise on their weights; None where no draw needs them."""
    declared = fits(study, sizes)
    if not declared:
        return None
    f, g = (
        Regression(exact[draw.cause].kernel, draw.mechanism.release(exact[draw.cause].weights, draw.slot, budget))
        for draw in declared
    )
    return f, g


def vectors(test: TestRows, regressions: tuple[Regression, Regression]) -> Vectors:
    """Return the two variables on the test rows, and the residuals of their regressions."""
    x, y = np.ascontiguousarray(test.pairs.T)
    return {"x": x, "y": y, "residual_y": y - regressions[0].predict(x), "residual_x": x - regressions[1].predict(y)}


def score_values(study: DirectionStudy, score: Score, series: Vectors, test: TestRows) -> tuple[float, float]:
    """Return a score's exact values of x to y and y to x, of which the smaller is the direction."""
    sides = ((series["x"], series["residual_y"]), (series["y"], series["residual_x"]))
    if score is Score.hsic:
        variable = Kernel(study.estimator.bandwidth, 1.0)
        residual = Kernel(study.estimator.kernel_of_residuals, 2.0)
        forwards, backwards = (scores.hsic(a, b, variable, residual) for a, b in sides)
    elif score is Score.iqr:
        logs = {name: released_log(_quartile_range(series[name]).now) for name in VECTORS}
        forwards, backwards = logs["x"] + logs["residual_y"], logs["y"] + logs["residual_x"]
    else:
        # Ties of the two variables are broken by independent orders: one common order would create dependence.
        measure = scores.spearman if score is Score.spearman else scores.kendall
        forwards, backwards = (measure(a, b, (None, test.ties)) for a, b in sides)
    return forwards, backwards


def measure(study: DirectionStudy, sizes: Sizes, draw: Draw, series: Vectors, test: TestRows) -> FloatArray:
    """Return a draw's exact numbers, for the enclave alone: values, then its test's distances."""
    if not draw.vectors:
        values = [_as_released(study, score_values(study, score, series, test)) for score in draw.scores]
        return np.concatenate([*values, _order_distances(study, sizes, draw, series)])
    distances = np.array([_bin_distances(study, sizes, draw, name, series[name]) for name in draw.vectors], np.float64)
    if len(draw.vectors) > 1:
        # One test for all: the better bin of each vector, the worst vector.
        value = _as_released(study, score_values(study, Score.iqr, series, test))
        return np.append(value, distances.max(axis=1).min())
    name = draw.vectors[0]
    # Where test units are not protected the variable beside a residual is added exactly.
    names = [name] if Half.test in study.estimator.protect else [name, BESIDE[name]]
    return np.append(sum(released_log(_quartile_range(series[part]).now) for part in names), distances[0])


def release(draw: Draw, measured: FloatArray, budget: Budget) -> FloatArray | None:
    """Release a draw's measured numbers with noise; None is "no answer"."""
    if isinstance(draw.mechanism, Laplace):
        return draw.mechanism.release(measured, draw.slot, budget)
    tests = draw.mechanism.tests
    return draw.mechanism.release(measured[:-tests], measured[-tests:], draw.slot, budget)


def regress_stage(study: DirectionStudy, sizes: Sizes, enclave: Enclave, budget: Budget) -> None:
    """Fit both regressions on the training rows; release them if the study needs them noisy.

    Raises:
        ConvergenceError: before anything is drawn.
    """
    exact = regress(study, training_rows(enclave), enclave.segments)
    noisy = release_regressions(study, sizes, exact, budget) or exact
    enclave.save(WEIGHTS, np.array([[side.weights for side in pair] for pair in (exact, noisy)]))


def score_stage(study: DirectionStudy, sizes: Sizes, enclave: Enclave) -> None:
    """Measure every draw on the test rows and store the numbers in the enclave."""
    kernel, weights = Kernel(study.estimator.bandwidth, 1.0), enclave.load(WEIGHTS)
    test = test_rows(enclave)
    exact, noisy = (vectors(test, (Regression(kernel, f), Regression(kernel, g))) for f, g in weights)
    for draw in draws(study, sizes):
        measured = measure(study, sizes, draw, noisy if draw.scores[0] in RANKS else exact, test)
        enclave.save(_name(draw), measured)


def answer_stage(study: DirectionStudy, sizes: Sizes, enclave: Enclave, budget: Budget) -> DirectionFindings:
    """Draw once for each declared charge, and return the findings."""
    declared = draws(study, sizes)
    measured = [enclave.load(_name(draw)) for draw in declared]
    released = [ReleasedDraw(draw, release(draw, part, budget)) for draw, part in zip(declared, measured, strict=True)]
    return findings(study, sizes, released)


def _name(draw: Draw) -> str:
    return f"score-{draw.slot.name}"


def _as_released(study: DirectionStudy, values: tuple[float, float]) -> FloatArray:
    """Return both values of a score, or y to x minus x to y if the study releases differences."""
    both = np.array(values)
    return both if study.estimator.release is Releases.scores else both[1:] - both[:1]


def _quartile_range(values: FloatArray) -> QuartileRange:
    return QuartileRange(np.sort(values))


def _movement(study: DirectionStudy, sizes: Sizes) -> float:
    return scores.residual_movement(sizes.train, study.estimator.penalty, study.estimator.variant)


def _bin_distances(study: DirectionStudy, sizes: Sizes, draw: Draw, name: str, values: FloatArray) -> tuple[int, int]:
    protect, trained = study.estimator.protect, name in BESIDE and Half.train in study.estimator.protect
    return bin_distances(
        _quartile_range(values),
        draw.bin,
        draw.cap,
        replace=Half.test in protect,
        movement=_movement(study, sizes) if trained else None,
    )


def _order_distances(study: DirectionStudy, sizes: Sizes, draw: Draw, series: Vectors) -> FloatArray:
    """Return the distance to another order of the residuals on either side; empty without a test."""
    if isinstance(draw.mechanism, Laplace):
        return np.zeros(0)
    movement = _movement(study, sizes)
    return np.array([float(min(order_distance(series[name], movement, draw.cap) for name in BESIDE))])
