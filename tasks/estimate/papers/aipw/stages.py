"""Estimate by AIPW of a known chance: scores of all units by models of the other folds.

    Gamma = mu_1 - mu_0 + t (u - mu_1)/p - (1 - t)(u - mu_0)/(1 - p),

u in [-1, 1] the scaled outcome, p the known chance. Outside each fold there are two releases of the adjusting
estimator, scales and moments of lines; then one pair of numbers of all scores. mu_t(x) = m_t + spread g_t(x), g_t =
b_t'(f - middle) cut to [-limit, limit], is made of released numbers and so is public: the range of Gamma over all rows
is known in closed form, and no score is cut (``docs/proofs/aipw.md``). The mean of Gamma is the effect whatever m_t,
b_t and the limit are. The budget of each draw follows from public facts alone.

The interval without a normal approximation is the empirical Bernstein inequality's (Maurer and Pontil 2009, Theorem 4):
n independent numbers in [-1, 1] with sample variance V have a mean within sqrt(2 V L/n) + 14 L/(3 (n - 1)) of its
expectation, on one side with probability 1 - 2 exp(-L). It is used within each fold, where scores are independent given
the models; folds add up by the union bound. The exact sums that it asks for are bounded by the released ones and
quantiles of their noise. Derivation: ``docs/proofs/aipw.md``, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from causalveil.schemas.confounding import AdjustmentMethod, of_trial
from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.aipw import UNKNOWN_CHANCE, AipwStudy
from causalveil.schemas.limits import Code, limit
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Coverage, PrivacyCost, Scope
from causalveil.tasks.data.cells import CellRows
from causalveil.tasks.data.enclave import Enclave, Rows
from causalveil.tasks.data.split import Folds, Pieces, fold_sizes
from causalveil.tasks.estimate.adjust.features import Encoding, LineFeature, lines_of, times
from causalveil.tasks.estimate.adjust.five_releases import FiveReleases
from causalveil.tasks.estimate.adjust.questions import JointDraws
from causalveil.tasks.estimate.adjust.recipe import (
    LINES,
    RADIUS,
    SCALES,
    SCORES,
    SCORES_L2,
    UNKNOWN,
    Parts,
    TableRecipe,
    laplace_mechanism,
    made,
    moments_sd,
)
from causalveil.tasks.estimate.adjust.released import Prior, Public
from causalveil.tasks.estimate.interval import Estimate, Findings, Noise, allowance, around, assemble
from causalveil.tasks.estimate.models.lattice_sums import BITS, exact_sums, on_lattice, sums_sensitivity
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.privacy.gaussian import divide, mu_of
from causalveil.tasks.privacy.mechanisms import Budget, Laplace, Mechanism, Slot, vector_mechanism

# Limits of predictions that are tried, in deviations of what they predict; 0: arms' means alone.
LIMITS = np.arange(0, 3.01, 0.25)
# Sensitivity of a score in [-1, 1] and its square in the L1 norm.
SCORES_L1 = 2.25
# Ranges are widened by this part of their size, for rounding in the arithmetic that found them.
OUTWARD = 1e-9


class ScoreRange(NamedTuple):
    """Range [middle - half, middle + half] of all possible scores, ``half`` > 0.

    Both are in half ranges of the outcome.
    """

    middle: float
    half: float


class Precision(NamedTuple):
    """Precision of a mean of scores: its number of units, and its noise.

    The noise is that of scores in [-1, 1].
    """

    units: int
    noise: float


class ExpectedScores(NamedTuple):
    """A limit of predictions, and the expected variance of the estimate under it.

    The limit is in deviations of the outcome within arms.
    """

    limit: float
    variance: float


def ends(chance: float, means: tuple[float, float], reach: float) -> tuple[float, float]:
    """Return the least and the largest score.

    ``reach``: how far predictions go from the arms' means.

    Gamma is linear in u, g_1 and g_0: u/p - mu_1 (1 - p)/p - mu_0 of treated, mu_1 + mu_0 p/(1 - p) - u/(1 - p) of
    controls.
    """
    p, q = chance, 1 - chance
    treated, control = -means[0] * q / p - means[1], means[0] + means[1] * p / q
    own, other = (1 + reach) / p, (1 + reach) / q
    return min(treated - own, control - other), max(treated + own, control + other)


def common_range(found: Sequence[tuple[float, float]]) -> ScoreRange:
    """Return one range for the scores of all folds, so that they add up to one release."""
    low, high = min(one[0] for one in found), max(one[1] for one in found)
    return ScoreRange((low + high) / 2, (high - low) / 2 * (1 + OUTWARD))


def expected_variance(
    chance: float, means: tuple[float, float], spread: float, explained: float, deviation: float, known: Precision
) -> ExpectedScores:
    """Return the limit of predictions with the least expected variance, and this variance.

    Predictions explain less under a smaller limit, and scores reach further under a larger one. Cut at k of their
    deviations, normal predictions explain the part P(|z| < k) + 2 k phi(k) - 2 k^2 P(z > k) of what they explain uncut.

    Args:
        chance: p.
        means: m_t.
        spread: the outcome's deviation within arms.
        explained: of its variance, what predictions explain.
        deviation: of predictions, in spreads.
        known: how well the mean of scores is known.
    """
    density = np.exp(-(LIMITS**2) / 2) / np.sqrt(2 * np.pi)
    kept = 1 - 2 * ndtr(-LIMITS) + 2 * LIMITS * density - 2 * LIMITS**2 * ndtr(-LIMITS)
    reaches = LIMITS * deviation * spread
    halves = np.array([common_range([ends(chance, means, float(reach))]).half for reach in reaches])
    sampling = spread**2 * (1 - explained * kept) * (1 / chance + 1 / (1 - chance)) / known.units
    variance = sampling + (halves * known.noise) ** 2
    best = int(variance.argmin())
    return ExpectedScores(float(LIMITS[best] * deviation), float(variance[best]))


@dataclass(frozen=True)
class OutcomeModel:
    """The released model by which one fold is scored.

    Attributes:
        chance: the known chance of treatment.
        means: m_t, in half ranges.
        spread: the outcome's deviation within arms, in half ranges.
        lines: f.
        middle: of f, shape (lines,).
        slopes: b_t in spreads, shape (2, lines).
        limit: of predictions, in spreads; 0: arms' means alone.
        contradicted: whether the released treated share lies too far from the chance for that to be true.
    """

    chance: float
    means: tuple[float, float]
    spread: float
    lines: tuple[LineFeature, ...]
    middle: FloatArray
    slopes: FloatArray
    limit: float
    contradicted: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """Every score of any row lies between these."""
        return ends(self.chance, self.means, self.spread * self.limit)

    @cached_property
    def _at_middle(self) -> FloatArray:
        return times(self.slopes, self.middle[:, None])

    def predicted(self, z: FloatArray) -> FloatArray:
        """Return mu_t of rows whose columns are z, shape (2, rows)."""
        g = np.clip(times(self.slopes, lines_of(self.lines, z)) - self._at_middle, -self.limit, self.limit)
        found: FloatArray = np.array(self.means)[:, None] + self.spread * g
        return found


@dataclass(frozen=True)
class FoldScores:
    """The sums of a fold's scores, scaled to the common range, and of their squares."""

    encoding: Encoding
    model: OutcomeModel
    bound: ScoreRange

    def of(self, rows: Rows) -> FloatArray:
        """Return the sums of v and of v^2 of some rows, shape (2,)."""
        p, one, found = self.model.chance, rows.t != 0, np.zeros(2)
        u = np.clip(rows.u, -1.0, 1.0)
        for part, z in self.encoding.blocks(rows.x):
            treated, control = self.model.predicted(z)[:, : part.stop - part.start]
            off = np.where(one[part], (u[part] - treated) / p, (control - u[part]) / (1 - p))
            v = on_lattice((treated - control + off - self.bound.middle) / self.bound.half)
            found += np.array([v.sum(), v @ v])
        return found


# Parts of a unit's budget that are tried, in hundredths: scales, lines, scores. The last is that of the adjusting
# estimator without curves, the first buys no slopes, and the others lie between.
TRIED = ((10, 0, 90), (10, 10, 80), (12, 23, 65), (12, 46, 42))
# Of what a study gives to the outcome model, scales take a fifth, as they do of the last of these.
OF_MODEL = Decimal("0.2")
# Residuals are taken to be cut at so many deviations, as in the adjusting estimator's formula.
CUT = 3.0


@dataclass(frozen=True)
class KnownRecipe:
    """Every draw of a study.

    Attributes:
        folds: what is learnt outside each fold.
        scores: cost of the release of everybody's scores.
        sizes: units of each fold; None while the number of units is unknown.
        chance: of treatment, which is known.
    """

    folds: tuple[TableRecipe, ...]
    scores: PrivacyCost
    sizes: tuple[int, ...] | None
    chance: float

    @property
    def known_sizes(self) -> tuple[int, ...]:
        """Units of each fold of a run.

        Raises:
            ValueError: the number of units is unknown.
        """
        if self.sizes is None:
            raise ValueError("this needs the number of units")
        return self.sizes

    @property
    def slopes(self) -> bool:
        """True if slopes are learnt; otherwise only arms' means are."""
        return LINES.name in self.folds[0].costs

    def model_draws(self, fold: int) -> Iterator[tuple[Slot, Mechanism | None]]:
        """Yield slot and mechanism of each draw of the outcome model by which a fold is scored."""
        for slot in (SCALES, LINES):
            yield self.folds[fold].slot(slot), self.folds[fold].mechanism(slot)

    @property
    def effect(self) -> Mechanism:
        """The mechanism of the scores."""
        units = None if self.sizes is None else sum(self.sizes)
        if self.folds[0].pure:
            return laplace_mechanism(2, units, SCORES_L1, self.scores)
        return vector_mechanism(sums_sensitivity(2, units, SCORES_L2), self.scores)

    @property
    def precision(self) -> Precision:
        """Precision with which the mean of scores is known."""
        scale = self.effect.known_scale / sum(self.known_sizes)
        return Precision(sum(self.known_sizes), scale * (math.sqrt(2) if isinstance(self.effect, Laplace) else 1.0))


def known_recipe(study: AipwStudy, sizes: Sizes | None) -> KnownRecipe:
    """Return every draw of a study: as asked, or by the parts of the least expected error.

    Raises:
        StudyError: too few units for the folds, or a budget of so many digits that it cannot be divided exactly.
    """
    asked = study.estimator.budget_shares
    if asked != "auto":
        scales = asked.outcome_model * OF_MODEL
        return _recipe(study, sizes, (scales, asked.outcome_model - scales, asked.effect))
    tried = [_recipe(study, sizes, tuple(Decimal(part) / 100 for part in parts)) for parts in TRIED]
    if sizes is None:
        return tried[-1]
    return min(tried, key=lambda one: expected_of(study, one, StandIn()))


def expected_of(study: AipwStudy, recipe: KnownRecipe, stand_in: StandIn) -> float:
    """Return the expected variance of the estimate, in squared half ranges of the outcome.

    Of d lines slopes are N(0, R^2/d), seen with the noise of the second release: so much of R^2 is explained.
    """
    half, public = study.outcome.width / 2, recipe.folds[0].everybody
    spread = 0.5 if stand_in.deviation is None else min(stand_in.deviation / half, 1.0)
    middle = 0.0 if stand_in.mean is None else (stand_in.mean - study.outcome.middle) / half
    explained = 0.0
    if recipe.slopes and stand_in.explained > 0:
        d = len(public.columns)
        radius = RADIUS * math.sqrt(d + 1)
        moments = moments_sd(public) * radius
        noise = (CUT * moments) ** 2 + (moments * radius) ** 2 * stand_in.explained
        explained = stand_in.explained**2 / (stand_in.explained + d * noise)
    return expected_variance(
        recipe.chance, (middle, middle), spread, explained, math.sqrt(explained), recipe.precision
    ).variance


def _recipe(study: AipwStudy, sizes: Sizes | None, parts: tuple[Decimal, ...]) -> KnownRecipe:
    """Return the draws of a study whose unit's budget is divided like this: scales, lines, scores.

    Raises:
        StudyError: the chance of treatment is not known, too few units, or a budget that cannot be divided exactly.
    """
    chance = study.estimator.propensity.known
    if chance is None:
        raise StudyError(UNKNOWN_CHANCE)
    total, encoding, folds = study.privacy.cost, Encoding.of(study), study.estimator.folds
    pure, each = total.delta == 0, folds - 1
    costs: dict[str, PrivacyCost] = divide(
        total,
        dict(zip((SCALES.name, LINES.name, SCORES.name), parts, strict=True)),
        {SCALES.name: each, LINES.name: each},
    )
    units = None if sizes is None else fold_sizes(sizes.units, folds)
    # Where no lines are released nothing reads what their part would be; it must not be 0.
    asked = (parts[0] / each, (parts[1] or parts[2]) / each, Decimal(0), Decimal(0), parts[2])

    def public(count: int | None) -> Public:
        return Public(
            units=UNKNOWN if count is None else count,
            columns=encoding.columns,
            trial=True,
            prior=Prior(),
            mu=float(total.epsilon if pure else mu_of(total)),
            pure=pure,
            asked=asked,
        )

    learnt = tuple(
        TableRecipe(
            public(None if units is None else sum(units) - units[fold]),
            encoding,
            units is not None,
            Parts(*asked),
            {name: cost for name, cost in costs.items() if name != SCORES.name},
            ending=f"-{fold + 1}",
            scope=Scope.without_fold(fold + 1, folds),
        )
        for fold in range(folds)
    )
    return KnownRecipe(learnt, costs[SCORES.name], units, chance)


# A released treated share so many deviations of chance and noise from a true chance is seen once in two million times.
CONTRADICTS = 5.0


def learnt(recipe: KnownRecipe, drawn: JointDraws) -> OutcomeModel:
    """Make the releases on units outside a fold and return the model that scores the fold."""
    everybody, scales = drawn.recipe.everybody, drawn.scales().questions[0][0][0]
    asked = FiveReleases(everybody, scales)
    found, chance = asked.found_scales, recipe.chance
    arms = found.arms
    doubt = math.sqrt(found.share_sd**2 + chance * (1 - chance) / everybody.units)
    contradicted = abs(found.observed_share - chance) > CONTRADICTS * doubt
    plain = OutcomeModel(chance, arms.means, arms.spread, (), np.zeros(0), np.zeros((2, 0)), 0.0, contradicted)
    if not recipe.slopes:
        return plain
    (released,) = drawn.lines((((asked,),),))
    asked.lines = made(released)[0][0]
    with one_thread():
        first = asked.first
    grams = first.draws.grams.mean(axis=0)
    # The larger of the arms' deviations of predictions.
    deviation = math.sqrt(max(float(np.einsum("td,tde,te->t", first.slopes, grams, first.slopes).max()), 0.0))
    best = expected_variance(chance, arms.means, arms.spread, 1 - first.residual, deviation, recipe.precision)
    if best.limit == 0:
        return plain
    return replace(
        plain, lines=first.features.lines, middle=first.moments.middle, slopes=first.slopes, limit=best.limit
    )


def summed(recipe: KnownRecipe, folds: Sequence[Pieces], models: Sequence[OutcomeModel], workers: int) -> FloatArray:
    """Return the sums of all units' scores in the common range and of their squares.

    The shape is (2,). Each fold's sums are rounded once, and their exact sum once more: both are in the release's
    sensitivity.
    """
    bound = common_range([model.ends for model in models])
    parts = [
        exact_sums(pieces, FoldScores(recipe.folds[0].encoding, model, bound).of, 2, workers)
        for pieces, model in zip(folds, models, strict=True)
    ]
    return np.array([math.fsum(part[place] for part in parts) for place in (0, 1)])


def findings(study: AipwStudy, recipe: KnownRecipe, models: Sequence[OutcomeModel], released: FloatArray) -> Findings:
    """Return estimate and interval from the released sums of scores, in outcome units.

    Given the models of other folds scores are independent and their mean is the effect: sampling and noise are all.
    Where a released treated share contradicts the chance that is declared nothing is known of the effect.
    """
    contradicted = any(model.contradicted for model in models)
    bound, units, width = common_range([model.ends for model in models]), sum(recipe.known_sizes), study.outcome.width
    effect = recipe.effect
    noise = Noise(effect.known_scale, 1.0 if isinstance(effect, Laplace) else None)
    unit, (first, square) = bound.half * width / 2, (released / units).tolist()
    mean = min(max(first, -1.0), 1.0)
    estimate = Estimate(
        value=bound.middle * width / 2 + unit * first,
        variance=unit**2 * (square - mean**2) / units,
        noise=unit / units,
        variance_noise=unit**2 / units**2 * math.hypot(1.0, 2 * mean),
        # Of numbers in [-1, 1].
        largest_variance=unit**2 / units,
        drowned=contradicted,
        excess=width**2 if contradicted else 0.0,
    )
    if noise.mixing is None:
        # Normal noise on the two sums is independent: the union bound would be a little wider.
        ratio = noise.deviation * estimate.variance_noise / (noise.deviation * estimate.noise) ** 2
        estimate = replace(estimate, allowance=allowance(ratio, study.confidence))
    value, interval, variance, upper = assemble(estimate, noise, study.confidence, (-width, width))
    if study.estimator.coverage is Coverage.finite_sample and not contradicted:
        # Rounding towards 0 moves a score by up to 2^-BITS, and its square by twice that.
        rounding = units * 2.0 ** (1 - BITS)
        half = bernstein_half_width(released, noise, recipe.known_sizes, study.confidence, rounding)
        value, interval = around(estimate.value, half * unit, study.confidence, (-width, width))
        interval = interval.model_copy(update={"coverage": Coverage.finite_sample})
    adjusts = any(model.limit > 0 for model in models)
    details: dict[str, float | int | str | bool] = {
        "noise_standard_error": math.sqrt(variance.noise),
        "sampling_standard_error": math.sqrt(variance.sampling),
        "sampling_standard_error_upper": math.sqrt(upper),
        "score_range": 2 * unit,
        "folds": len(models),
        "outcome_model": "slopes of each arm" if adjusts else "arm means",
        "chance_contradicted": contradicted,
    }
    for fold, model in enumerate(models, start=1):
        details[f"mean_treated[{fold}]"] = study.outcome.middle + width / 2 * model.means[0]
        details[f"mean_control[{fold}]"] = study.outcome.middle + width / 2 * model.means[1]
        details[f"spread[{fold}]"] = width / 2 * model.spread
    done = of_trial(AdjustmentMethod.doubly_robust if adjusts else None)
    return Findings.of_one(study, value, interval, variance, details, done, not_covered=(limit(Code.not_randomised),))


def outcome_model_stage(
    study: AipwStudy, recipe: KnownRecipe, enclave: Enclave, fold: int, budget: Budget, times: float = 1.0
) -> OutcomeModel:
    """Release the outcome model by which ``fold`` is scored, from all other folds.

    ``times``: of rehearsals, how many units each row stands for.
    """
    trained = Folds.open(enclave).without(fold)
    pieces = Pieces(lambda index: CellRows.of(trained.rows(index)), trained.count, trained.units)
    return learnt(recipe, JointDraws(recipe.folds[fold], pieces, budget, study.execution.workers, times))


def scores_stage(
    study: AipwStudy,
    recipe: KnownRecipe,
    enclave: Enclave,
    models: Sequence[OutcomeModel],
    budget: Budget,
    times: float = 1.0,
) -> FloatArray:
    """Release the sums of everybody's scores and of their squares.

    ``times``: of rehearsals, how many units each row stands for.
    """
    folds = Folds.open(enclave)
    units = [folds.fold(fold) for fold in range(folds.count)]
    exact = summed(recipe, units, models, study.execution.workers) * times
    return recipe.effect.release(exact, SCORES, budget)


# How 1 - confidence is divided: the inequality, the noise on the sum, the noise on the sum of squares.
BERNSTEIN_SAMPLING, BERNSTEIN_EFFECT, BERNSTEIN_SQUARES = 0.5, 0.4, 0.1


def bernstein_half_width(
    released: FloatArray, noise: Noise, sizes: Sequence[int], confidence: float, rounding: float = 0.0
) -> float:
    """Return the half-width around (sum v)/n for the mean of expectations of v in [-1, 1].

    Args:
        released: (sum v, sum v^2), noisy, shape (2,).
        noise: on each of them; the two may depend on each other.
        sizes: units of each fold, n in all.
        confidence: the level, in [0.5, 1).
        rounding: how far either sum may be off before noise.
    """
    units, alpha = sum(sizes), 1 - confidence
    if min(sizes) < 2:
        return 2.0
    effect = noise.quantile(alpha * BERNSTEIN_EFFECT / 2) + rounding
    squares = noise.quantile(alpha * BERNSTEIN_SQUARES) + rounding
    first, second = released.tolist()
    # Sum of squared deviations from the folds' means, at most that from the common mean.
    most = min(second + squares, float(units)) - max(abs(first) - effect, 0.0) ** 2 / units
    smallest = min(sizes)
    variance = max(most, 0.0) * smallest / (smallest - 1)
    bound = math.log(4 * len(sizes) / (alpha * BERNSTEIN_SAMPLING))
    linear = sum(size * 14 * bound / (3 * (size - 1)) for size in sizes)
    return min(2.0, (effect + math.sqrt(2 * bound * len(sizes) * variance) + linear) / units)
