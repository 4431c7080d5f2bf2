"""Recipe of AIPW: the budget of each draw, from public facts alone.

Scores are doubly robust, and their chance of treatment is known.

Outside each fold two releases of the adjusting estimator, scales and moments of lines; then one pair of scores of all:

Gamma = mu_1 - mu_0 + t (u - mu_1)/p - (1 - t)(u - mu_0)/(1 - p), u in [-1, 1] the scaled outcome, p the known chance.
mu_t(x) = m_t + spread g_t(x), g_t = b_t'(f - middle) cut to [-limit, limit], is made of released numbers and so is
public: the range of Gamma over all rows is known in closed form, and no score is cut (``docs/proofs/aipw.md``). The
mean of Gamma is the effect whatever m_t, b_t and the limit are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.aipw import UNKNOWN_CHANCE, AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import PrivacyCost, Scope
from causalveil.tasks.adjustment.features import Encoding, LineFeature, lines_of, times
from causalveil.tasks.adjustment.recipe import (
    LINES,
    RADIUS,
    SCALES,
    SCORES,
    SCORES_L2,
    UNKNOWN,
    Parts,
    TableRecipe,
    laplace_mechanism,
    moments_sd,
)
from causalveil.tasks.adjustment.released import Prior, Public
from causalveil.tasks.enclave.enclave import Rows
from causalveil.tasks.enclave.split import fold_sizes
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.lattice_sums import on_lattice, sums_sensitivity
from causalveil.tasks.privacy.gaussian import divide, mu_of
from causalveil.tasks.privacy.mechanisms import Laplace, Mechanism, Slot, vector_mechanism

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
