"""How an AIPW study may divide its budget: decided before a row is read, from public sizes alone.

How much can be learnt of a nuisance depends on n, the number of columns and the budget, all public. Where noise would
drown a model it is not released at all, and its budget goes where it helps: the propensity score is then the treated
share, the outcome model the arm means.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Norm, PrivacyCost
from causalveil.schemas.study import CategoricalCovariate, EffectStudy
from causalveil.tasks.aipw.recipe import Recipe
from causalveil.tasks.aipw.shrinkage import LEAST_DEVIATION
from causalveil.tasks.covariates.columns import Columns
from causalveil.tasks.covariates.encoding import dimension
from causalveil.tasks.enclave.folds import fold_sizes
from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.privacy.division import divide, portion
from causalveil.tasks.privacy.mechanisms import Sensitivity, vector_mechanism

# What ``budget_shares: auto`` stands for: propensity, outcome model, effect.
BOTH_MODELS = (Decimal("0.3"), Decimal("0.3"), Decimal("0.4"))
OUTCOME_MODEL = (Decimal(0), Decimal("0.6"), Decimal("0.4"))
# Where slopes are clear of their noise even so: the effect's own noise is then what counts.
CLEAR_SLOPES = (Decimal(0), Decimal("0.4"), Decimal("0.6"))
CLEAR_SIGNAL = 4.0
ARM_MEANS = (Decimal(0), Decimal("0.3"), Decimal("0.7"))
# A known propensity needs no outcome model against bias: a good one narrows the scores' own distribution, and
# little else.
KNOWN_MEANS = (Decimal(0), Decimal("0.1"), Decimal("0.9"))
# Slopes are released where their expected signal is at least their noise, if covariates explain a fifth of the
# outcome's variance within an arm.
EXPLAINED = 0.2
LEAST_SIGNAL = 1.0
# A logistic model is released where noise and shrinkage leave three quarters of a log odds' variance, if that is 1/4.
ODDS_VARIANCE = 0.25
LEAST_ODDS = 0.75
PENALTIES = tuple(10 ** (exponent / 4) for exponent in range(-24, 5))
# The arm means get the least of these parts of the outcome model's budget that keeps their noise below so much of the
# outcome's half range; slopes get the rest.
ARM_PARTS = (Decimal("0.1"), Decimal("0.2"), Decimal("0.3"), Decimal("0.4"))
ARM_NOISE = 0.02
# Slopes that no interval counts are learnt where they cost it nothing: noise in the mean square is then, at half of
# this, a quarter of the least variance that is taken for one.
FREE_NOISE = LEAST_DEVIATION**2 / 2


class Cut(NamedTuple):
    """Where residuals and rows are cut while slopes are learnt: a tighter cut means less noise, and smaller slopes.

    Attributes:
        residual_sds: residuals are cut at so many of their standard deviations.
        row_sds: rows are cut at the mean of their squared length and so many standard deviations of it.
        residual_bias: part of the slopes that is lost by cutting residuals.
        row_bias: part that is lost by cutting rows, times sqrt(p) for p covariates: the more there are, the less the
            rows' lengths vary.
    """

    residual_sds: float
    row_sds: float
    residual_bias: float
    row_bias: float


TIGHTEST = Cut(2.0, 0.0, 0.0455, 0.25)
CUTS = (TIGHTEST, Cut(2.5, 2.5, 0.0124, 0.005), Cut(3.0, 2.5, 0.0027, 0.005))


def candidates(study: AipwStudy, sizes: Sizes | None) -> tuple[Recipe, ...]:
    """What a study may do with its budget, the most that can be learnt first; for unknown sizes that alone.

    Raises:
        StudyError: too few units for the folds, or a budget of so many digits that it cannot be divided exactly.
    """
    estimator, columns = study.estimator, Columns.of(study)
    blank = Recipe(
        folds=estimator.folds,
        sizes=None if sizes is None else fold_sizes(sizes.units, estimator.folds),
        columns=dimension(study),
        radius=_radius(study, TIGHTEST.row_sds),
        residuals=TIGHTEST.residual_sds,
        arms_cost=study.privacy.cost,
        slopes_cost=None,
        propensity_cost=None,
        penalty=None,
        effect_cost=study.privacy.cost,
        constant=sum(isinstance(covariate, CategoricalCovariate) for covariate in study.covariates.values()),
        ranges=columns.ranges.moved(dict(enumerate(columns.kept))),
    )
    counted = _slopes_count(study)
    if estimator.budget_shares != "auto":
        declared = estimator.budget_shares
        shares = (declared.propensity, declared.outcome_model, declared.effect)
        found = [_divide(study, blank, shares, slopes=slopes) for slopes in (True, False)]
    elif estimator.propensity.penalty != "auto":
        found = [_divide(study, blank, BOTH_MODELS, slopes=slopes) for slopes in (True, False)]
    elif estimator.propensity.known is not None:
        found = [*_with_slopes(study, blank), _divide(study, blank, KNOWN_MEANS, slopes=False)]
    else:
        both = _divide(study, blank, BOTH_MODELS)
        found = [both] if both.penalty is not None and (both.slopes_cost is not None or not counted) else []
        found += _with_slopes(study, blank) if counted else [_divide(study, blank, OUTCOME_MODEL, slopes=False)]
        found.append(_divide(study, blank, ARM_MEANS, slopes=False))
    return tuple(found) if sizes is not None else (found[0],)


def _slopes_count(study: AipwStudy) -> bool:
    """Whether slopes can narrow an interval.

    Without delta only the trace of several columns' second moments is released, by which no slopes are believed: all of
    the declared size is allowed for beside them, in deviations of the outcome, and these are known the worse for what
    slopes cost (``docs/proofs/aipw.md``, section 11).
    """
    believed = study.privacy.delta > 0 or dimension(study) == 2
    return believed or study.estimator.propensity.known is not None or study.estimator.confounding_prior.bias() == 0


def _with_slopes(study: AipwStudy, blank: Recipe) -> list[Recipe]:
    """Slopes and arm means, with less for them where they are clear of their noise even so."""
    clear, found = (_divide(study, blank, shares) for shares in (CLEAR_SLOPES, OUTCOME_MODEL))
    return [clear, found] if _signal(clear) >= CLEAR_SIGNAL else [found]


def _radius(study: AipwStudy, deviations: float) -> float:
    """To what length rows of covariates are cut, before they are stretched to the unit ball again.

    ``auto``: if numbers are uniform within their bounds, the root of the mean of a row's squared length and so many
    standard deviations of it (4/45 is the variance of the square of a uniform number in [-1, 1]).
    """
    if study.estimator.outcome_model.radius != "auto":
        return study.estimator.outcome_model.radius
    numbers = sum(not isinstance(covariate, CategoricalCovariate) for covariate in study.covariates.values())
    deviation = math.sqrt(4 * numbers / 45) / (len(study.covariates) + 1)
    return min(1.0, math.sqrt(_squared_length(study) + deviations * deviation))


def _squared_length(study: EffectStudy) -> float:
    """Expected squared length of a row without its intercept: a third for a number, 1 for a category."""
    categories = sum(isinstance(covariate, CategoricalCovariate) for covariate in study.covariates.values())
    numbers = len(study.covariates) - categories
    return (numbers / 3 + categories) / (len(study.covariates) + 1)


def _divide(
    study: AipwStudy, blank: Recipe, shares: tuple[Decimal, Decimal, Decimal], *, slopes: bool = True
) -> Recipe:
    """The recipe of given shares: which models are worth their noise, and what each draw costs."""
    propensity, outcome, effect = shares
    # A unit trains the models of all folds but its own, so these divide a model's share.
    meets = dict.fromkeys(("propensity", "arms", "slopes"), blank.folds - 1)
    rest = {"propensity": propensity, "effect": effect}
    costs = divide(study.privacy.cost, {"arms": outcome, **rest}, meets)
    chosen = replace(
        blank, arms_cost=costs["arms"], propensity_cost=costs.get("propensity"), effect_cost=costs["effect"]
    )
    counted, units = _slopes_count(study), chosen.trained_or_unknown(0)
    noise = ARM_NOISE if counted else FREE_NOISE
    part = _arm_part(study.privacy.cost, outcome / meets["arms"], units, noise)
    costs = divide(study.privacy.cost, {"arms": outcome * part, "slopes": outcome * (1 - part), **rest}, meets)
    split = replace(chosen, arms_cost=costs["arms"], slopes_cost=costs["slopes"], effect_cost=costs["effect"])
    signal = _signal(split)
    free = counted or units is None or _deviation(4, split.arms_cost) / (units / 2) <= noise
    if slopes and free and signal >= LEAST_SIGNAL:
        best = min(CUTS, key=lambda cut: _cut_error(study, cut, signal, chosen.columns - 1))
        chosen = replace(split, residuals=best.residual_sds, radius=_radius(study, best.row_sds))
    if chosen.propensity_cost is not None:
        chosen = replace(chosen, penalty=_penalty(study, chosen))
    return chosen


def _arm_part(request: PrivacyCost, outcome: Decimal, units: int | None, noise: float) -> Decimal:
    """The least part of a fold's share for outcomes that keeps arm means' ``noise`` small; at most 0.4."""
    for part in ARM_PARTS:
        if units is None or _deviation(4, portion(request, outcome * part)) / (units / 2) <= noise:
            return part
    return ARM_PARTS[-1]


def _signal(chosen: Recipe) -> float:
    """Expected signal of the slopes over their noise, both as root mean squares of a prediction, at the tightest cut.

    A residual over its cut has variance 1/residuals^2; cross moments G b have the signal m b'Gb, and noise of deviation
    s on each of both arms' adds 2 s^2 tr(G^-1)/m.
    """
    units = chosen.trained_or_unknown(0)
    if units is None or chosen.slopes_cost is None:
        return math.inf if units is None else 0.0
    d = chosen.columns - 1
    signal = units * EXPLAINED / chosen.residuals**2
    noise = 2 * (_deviation(chosen.slope_numbers, chosen.slopes_cost) * d) ** 2 / units
    return math.sqrt(signal / noise)


def _cut_error(study: AipwStudy, cut: Cut, signal: float, slopes: int) -> float:
    """Squared error that a cut leaves in what slopes adjust for, as a part of it.

    A cut loses the same part of the slopes in every direction. Noise is equal in all directions, of which one
    confounds, so its square counts by one over the number of slopes.
    """
    lost = cut.residual_bias + cut.row_bias / math.sqrt(slopes)
    wider = cut.residual_sds / TIGHTEST.residual_sds * _radius(study, cut.row_sds) / _radius(study, TIGHTEST.row_sds)
    return lost**2 + (wider / signal) ** 2 / slopes


def _penalty(study: AipwStudy, chosen: Recipe) -> float | None:
    """The declared penalty, or the one for which noise and shrinkage of a log odds are least; None: too much of both.

    Curvature k = 0.2/(3 (p + 1)) of a coefficient: k/(k + penalty) of it survives (``docs/proofs/ipw.md``, section 6).
    """
    if study.estimator.propensity.penalty != "auto":
        return study.estimator.propensity.penalty
    if chosen.sizes is None:
        return PENALTIES[0]
    length = _squared_length(study) + 1 / (len(study.covariates) + 1)
    curvature = 0.2 / (3 * (len(study.covariates) + 1))

    # Of sensitivity 2/(m penalty), which the model's own is never above but for rounding.
    noise = 0.0 if chosen.propensity_cost is None else _deviation(chosen.columns, chosen.propensity_cost)
    units = sum(chosen.sizes) - chosen.sizes[0]

    def error(penalty: float) -> float:
        shrunk = penalty / (curvature + penalty)
        return (noise / (units * penalty)) ** 2 * length + ODDS_VARIANCE * shrunk**2

    best = min(PENALTIES, key=error)
    return best if error(best) <= (1 - LEAST_ODDS) * ODDS_VARIANCE else None


@lru_cache(maxsize=256)
def _deviation(numbers: int, cost: PrivacyCost) -> float:
    """Standard deviation of the noise on each of ``numbers`` numbers of sensitivity 2."""
    bound = Sensitivity(2.0, Norm.l2, "2")
    return Noise.of(vector_mechanism(bound, cost), numbers).deviation
