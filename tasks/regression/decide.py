"""Whether a study adjusts at all: by public rules before a row is read, and by the first two releases.

A study whose expected interval is narrower without slopes and weights, allowances in it, does not pay for them. What is
expected is that of a stand-in population, stated here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.regression.adjustment import Adjustment, Seen, adjust, expected_width, unadjusted
from causalveil.tasks.regression.columns import Basis, Columns
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.moments import JointMoments, of_arm
from causalveil.tasks.regression.recipe import PARTLY, Judged, RegressionRecipe, arms_recipe, full_recipe, itself
from causalveil.tasks.regression.scales import Scales, scales_from
from causalveil.tasks.regression.skewed import drowned

# Of the stand-in population: the share of an arm's variance that covariates explain, and the arms' distance in their
# metric. In a trial the distance is 0, and covariates are declared for nothing but what they explain.
EXPLAINED, EXPLAINED_IN_TRIAL, DISTANCE = 0.3, 0.5, 1.0
# Its outcomes' deviation, of the declared range: ranges leave room for the few that lie far out.
SPREAD = 1 / 16
# A richer basis is taken where it makes the expected interval at most this much wider.
PAIRS_WIDTH = 1.05
# Products are seen to confound from so many deviations of noise and sampling.
SURE = 3.0
# Cosine between what explains the outcome and what parts the arms.
ALIKE = 0.5


def recipe(study: RegressionStudy, sizes: Sizes | None, judged: Judged = itself) -> RegressionRecipe:
    """What the study does with its budget.

    Args:
        study: the study.
        sizes: its sizes; None: unknown.
        judged: by what a recipe is judged: itself, or the part of it that one question of a protocol has.

    Raises:
        StudyError: a budget of so many digits that it cannot be divided exactly.
    """
    return _recipe(_Asked(study, sizes, judged))


@dataclass(frozen=True)
class _Asked:
    """Arguments of :func:`recipe`, which every stage asks for anew; a study holds mappings and has no hash itself."""

    study: RegressionStudy
    sizes: Sizes | None
    judged: Judged

    def __hash__(self) -> int:
        return hash((self.sizes, self.judged))


@lru_cache(maxsize=32)
def _recipe(asked: _Asked) -> RegressionRecipe:
    study, sizes, judged = asked.study, asked.sizes, asked.judged
    full = full_recipe(study, sizes, judged)
    if sizes is None:
        return full
    arms = arms_recipe(study, sizes, judged)
    # A protocol's subgroups are counted by release 1, whatever it has.
    ways = [full, full_recipe(study, sizes, judged, few=True)] if judged is itself else [full]
    possible = [way for way in ways if judged(way).noise_ratio(way.columns.features(Basis.linear)) <= PARTLY]
    if not possible:
        return arms
    # By lines alone, which any basis has.
    full = min(possible, key=lambda way: _expected_choice(study, judged(replace(way, basis=Basis.linear)))[1])
    # Judged as if products stay: where they would be left out again, their noise is not worth it.
    bases = full.columns.bases(full.basis) if study.estimator.basis == "auto" else [full.basis]
    found = [_expected_choice(study, judged(replace(full, basis=basis)), keep=True) for basis in bases]
    place = _richest([width for _, width in found])
    full, (choice, width) = replace(full, basis=bases[place]), found[place]
    if not choice.adjusted:
        return arms
    # In a trial the arms' covariates are alike, and their slopes need not differ.
    if judged is itself and not study.estimator.trial:
        own = replace(full, by_arm=True)
        chosen, _ = _expected_choice(study, replace(own, basis=Basis.linear))
        _, wide = _expected_choice(study, own, keep=True)
        if chosen.controls is not None and wide <= PAIRS_WIDTH * width:
            full, width = own, wide
    # The scores of a study that adjusts have less than half of the budget that they would have alone.
    _, alone = _expected_choice(study, judged(arms))
    return full if width <= alone else arms


def _expected_choice(study: RegressionStudy, plan: RegressionRecipe, keep: bool = False) -> tuple[Adjustment, float]:
    """What a recipe would come to in the stand-in population, and how wide its interval would be; outcomes in [-1, 1].

    ``keep``: squares and products stay even if the interval is narrower without.
    """
    units = plan.units or 1
    scales = expected_scales(study, plan, units, StandIn(deviation=SPREAD * study.outcome.width))
    noise = plan.effect_noise().deviation
    if plan.moments is None:
        choice = unadjusted(study.estimator, scales, study.estimand, units, noise)
    else:
        choice = _expected_adjustment(study, plan, scales, plan.features(scales), keep)
    return choice, scales.limit * expected_width(choice, units, noise)


def choose(
    study: RegressionStudy,
    plan: RegressionRecipe,
    scales: Scales,
    moments: JointMoments | None,
    drawn: int | None = None,
) -> tuple[Features | None, Adjustment, Seen | None]:
    """What is adjusted for: post-processing of the first two releases.

    ``drawn``: of how many people the moments are, where these stand for more.

    Raises:
        ValueError: the number of units is not known.
    """
    if plan.units is None:
        raise ValueError("an adjustment needs the number of units")
    noise = plan.effect_noise().deviation
    if moments is None:
        plain = unadjusted(study.estimator, scales, study.estimand, plan.units, noise)
        return None, plain, None
    features = features_of(study, plan, scales)
    return features, *adjusted_by(study, plan, scales, features, moments, drawn=drawn)


def features_of(study: RegressionStudy, plan: RegressionRecipe, scales: Scales) -> Features:
    """What release 2 is of: a richer basis only where what release 1 says still makes it worth its noise.

    Few treated, or rare levels whose products hardly vary, make them dearer than the stand-in population of the recipe
    says. No charge depends on it, and no row but by release 1.

    Raises:
        ValueError: the number of units is not known.
    """
    features = _basis_of(study, plan, scales)
    return replace(features, by_arm=plan.by_arm and _bears_arms(study, plan, scales, features))


def _basis_of(study: RegressionStudy, plan: RegressionRecipe, scales: Scales) -> Features:
    """Of both arms together: whether these bear slopes of their own is no reason to have more features."""

    def by(basis: Basis) -> Features:
        return replace(replace(plan, basis=basis).features(scales), by_arm=False)

    features = by(plan.basis)
    if features.basis is Basis.linear or study.estimator.basis != "auto":
        return features
    if drowned(scales, plan.columns).any():
        # Of a number whose deviation noise hides, the square is a constant, which moves the arms' means.
        return by(Basis.linear)
    found = [by(basis) for basis in plan.columns.bases(features.basis)]
    return found[_richest([_width_by(study, plan, scales, one) for one in found])]


def _bears_arms(study: RegressionStudy, plan: RegressionRecipe, scales: Scales, features: Features) -> bool:
    """Whether lines of each arm would be in use, and their numbers do not blur what both arms share.

    Few treated make them dear, and without delta noise grows with the number of numbers.
    """
    lines = replace(plan, basis=Basis.linear).features(scales)
    if _expected_adjustment(study, plan, scales, lines, keep=True).controls is None:
        return False
    widths = [_width_by(study, plan, scales, replace(features, by_arm=by_arm)) for by_arm in (True, False)]
    return widths[0] <= PAIRS_WIDTH * widths[1]


def _richest(widths: Sequence[float]) -> int:
    """The first whose expected interval is little wider than those after it, the plainer ones."""
    return next(place for place in range(len(widths)) if widths[place] <= PAIRS_WIDTH * min(widths[place:]))


def _width_by(study: RegressionStudy, plan: RegressionRecipe, scales: Scales, features: Features) -> float:
    """Expected half-width, in units of L, by features that stay, of people who are else as the stand-in says."""
    choice = _expected_adjustment(study, plan, scales, features, keep=True)
    return expected_width(choice, plan.units or 1, plan.effect_noise().deviation)


def _expected_adjustment(
    study: RegressionStudy, plan: RegressionRecipe, scales: Scales, features: Features, keep: bool
) -> Adjustment:
    """What these features would do if release 2 were that of the stand-in population."""
    moments = expected_moments(study, plan, plan.units or 1, scales, features)
    return adjusted_by(study, plan, scales, features, moments, keep)[0]


def adjusted_by(
    study: RegressionStudy,
    plan: RegressionRecipe,
    scales: Scales,
    features: Features,
    moments: JointMoments,
    keep: bool = False,
    drawn: int | None = None,
) -> tuple[Adjustment, Seen]:
    """Slopes and weights for these features, or neither.

    Squares and products that turn out to widen the interval are left out: where covariates are correlated their moments
    have small eigenvalues that noise hides. Where they are seen to confound, what they would move the estimate by
    beyond noise is allowed for, so that they stay wherever they matter, or wherever ``keep`` says so. Both are
    held against lines first: of correlated columns squares show so much of what products confound that the rest is not
    seen, and is not small. Where products go, squares that cost next to nothing stay.

    Raises:
        ValueError: the number of units is not known.
    """
    if plan.units is None:
        raise ValueError("an adjustment needs the number of units")
    units, linear, noise = plan.units, plan.columns.features(Basis.linear), plan.effect_noise().deviation
    possible = plan.bears(scales, linear, plan.cut(linear))

    def of(some: JointMoments, basis: Basis) -> tuple[Adjustment, Seen]:
        # Means of squares and products are known where a constant takes them up, and slopes by arm need them.
        centred = features.constant or basis is Basis.linear
        return adjust(
            study.estimator,
            scales,
            some if centred else some.without_arms(),
            study.estimand,
            units,
            noise,
            possible,
            constant=features.constant,
            columns=len(plan.columns.kept),
        )

    choice, seen = of(moments, features.basis)
    if features.basis is Basis.linear or study.estimator.basis != "auto" or keep:
        return choice, seen

    def plainer(basis: Basis) -> tuple[Adjustment, Seen]:
        places = features.places(basis)
        plain, shown = of(moments.of(places), basis)
        wide = plain.spread_over(places, features.count)
        if choice.adjusted and plain.adjusted and not study.estimator.trial:
            alike = moments.left_alike(places, *wide.both, scales.between, drawn or units)
            if abs(alike) > SURE:
                # What is left out is seen to confound: what it took off beyond its noise, this basis leaves.
                left = choice.taken_off - plain.taken_off
                beyond = math.sqrt(max(left**2 - choice.second_order - plain.second_order, 0.0))
                wide = replace(wide, bias=wide.bias + beyond)
        return wide, shown

    lines, *squares = [plainer(basis) for basis in reversed(plan.columns.bases(features.basis)[1:])]
    # Noise is smallest in lines alone: what these see of effects that differ, richer bases miss as well.
    choice, squares = (
        choice.off_by(lines[0].differing),
        [(one.off_by(lines[0].differing), shown) for one, shown in squares],
    )
    if expected_width(choice, units, noise) <= PAIRS_WIDTH * expected_width(lines[0], units, noise):
        return choice, seen
    found = [*squares, lines]
    return found[_richest([expected_width(one, units, noise) for one, _ in found])]


def expected_scales(study: RegressionStudy, plan: RegressionRecipe, units: int, stand_in: StandIn) -> Scales:
    """What release 1 says of the stand-in population."""
    half = study.outcome.width / 2
    deviation = min(1.0, (stand_in.deviation if stand_in.deviation is not None else half / 2) / half)
    arms = np.array([0.0, 0.0, math.sqrt(2) * stand_in.treated, deviation**2])
    columns = None if plan.moments is None else plan.columns
    released = np.concatenate([arms, _expected_columns(columns)]) if columns is not None else arms
    return scales_from(released * units, units, plan.scales_noise(), columns)


def _expected_columns(columns: Columns) -> FloatArray:
    """Released means of columns that have a standard deviation of a quarter of their declared width."""
    first = np.array(columns.weights) * columns.span / 2
    first[list(columns.numbers)] = 0.0
    square = columns.span**2 / 4 * math.sqrt(columns.covariates + 1)
    return np.concatenate([first, np.full(len(columns.numbers), square)])


def expected_moments(
    study: RegressionStudy, plan: RegressionRecipe, units: int, scales: Scales, features: Features
) -> JointMoments:
    """What release 2 says of it: lengths with their noise, so that what is taken off later is there."""
    d, noise = features.count, plan.moments_noise(features.count, features.by_arm)
    variance = 1 / (features.cut**2 * d)
    square = (scales.spread / scales.limit) ** 2
    cross_error = plan.own_noise(noise) / units
    apart_error = noise / units * scales.larger / scales.between
    trial = study.estimator.trial
    distance, explained = (0.0, EXPLAINED_IN_TRIAL) if trial else (DISTANCE**2, EXPLAINED)
    # In the metric of all units, which the arms' distance widens.
    apart = math.sqrt(variance * distance / (1 + scales.between * distance) + d * apart_error**2)
    cross = math.sqrt(variance * explained * square + d * cross_error**2)
    one, other = np.zeros(d), np.zeros(d)
    one[0] = 1.0
    other[:2] = (ALIKE, math.sqrt(1 - ALIKE**2)) if d > 1 else 1.0
    found = JointMoments(
        cross=cross * other,
        apart=apart * one,
        square=square,
        gram=variance * np.diag(features.variances),
        cross_error=cross_error,
        apart_error=apart_error,
        gram_error=noise / units * math.sqrt(0.5),
        shifts=features.shifts,
        unseen=features.unseen,
    )
    if not features.by_arm:
        return found

    def alone(share: float) -> JointMoments:
        """An arm whose covariances and slopes are those of the other."""
        own = of_arm(found, share)
        noisy = math.sqrt(variance * explained * square + d * own.cross_error**2)
        apart_square = variance * distance / (1 + scales.between * distance)
        means = ((1 - share) ** 2 - scales.between) * apart_square * np.outer(one, one)
        return replace(own, cross=noisy * other, gram=found.gram + means)

    return replace(found, arms=(alone(scales.share), alone(1 - scales.share)))
