"""Whether a study adjusts at all: by public rules before a row is read, and by the first two releases.

A study whose expected interval is narrower without slopes and weights, allowances in it, does not pay for them. What is
expected is that of a stand-in population, stated here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.regression.columns import Basis, Columns
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.lines.adjust import adjust, beside, unadjusted
from causalveil.tasks.regression.lines.adjustment import ALIKE_WIDTH, Adjustment, Seen, expected_width, judged_width
from causalveil.tasks.regression.lines.apart import left_by
from causalveil.tasks.regression.moments import JointMoments, of_arm
from causalveil.tasks.regression.recipe import PARTLY, Judged, RegressionRecipe, arms_recipe, full_recipe, itself
from causalveil.tasks.regression.scales import Scales, scales_from
from causalveil.tasks.regression.skewed import drowned

# Of the stand-in population: the share of an arm's variance that covariates explain, and the arms' distance in their
# metric. In a trial the distance is 0, and covariates are declared for nothing but what they explain, which is little
# of an outcome of two values.
EXPLAINED, EXPLAINED_IN_TRIAL, EXPLAINED_OF_EVENTS, DISTANCE = 0.3, 0.5, 0.1, 1.0
# Its outcomes' deviation, of the declared range: ranges leave room for the few that lie far out.
SPREAD = 1 / 16
# A richer basis is taken where it makes the expected interval at most this much wider.
PAIRS_WIDTH = 1.05
# Where one arm is small, a richer basis with slopes of each arm is taken where it is at most this much wider than
# plainer ones, and where slopes are expected to go so far of the way to each arm's own.
WHOLE_WIDTH, LEAST_OWN = 1.2, 0.7
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
    if not study.estimator.trial and not full.partly:
        own = replace(full, by_arm=True)
        apart, wide = _expected_choice(study, judged(own), keep=True)
        units, noise = judged(own).units or 1, judged(own).effect_noise().deviation
        if judged_width(apart, units, noise) < judged_width(choice, units, noise):
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
        features = _told_apart(study, plan, scales, plan.features(scales))
        choice = _expected_adjustment(study, plan, scales, features, keep)
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
    small = plan.by_arm and not beside(scales) and study.estimator.basis == "auto"
    whole = _whole(study, plan, scales) if small else None
    return whole or _told_apart(study, plan, scales, _basis_of(study, plan, scales))


def _whole(study: RegressionStudy, plan: RegressionRecipe, scales: Scales) -> Features | None:
    """The richest basis of which each arm bears slopes of its own, where one is small; None where only lines are borne.

    What serves both arms is off there where they differ in more than lines, and no lines of each stand beside it.
    """
    units, noise, richest, narrowest = plan.units or 1, plan.effect_noise().deviation, None, math.inf
    for basis in reversed(plan.seen_in(scales).bases(plan.basis)):
        features = replace(replace(plan, basis=basis).features(scales), by_arm=basis)
        if features.basis is not basis or (basis > Basis.linear and drowned(scales, features.columns).any()):
            break
        choice = _expected_adjustment(study, plan, scales, features, keep=True)
        width = judged_width(choice, units, noise)
        if choice.own < LEAST_OWN or width > WHOLE_WIDTH * narrowest:
            break
        richest, narrowest = features, min(width, narrowest)
    return None if richest is None or richest.basis is Basis.linear else richest


def _basis_of(study: RegressionStudy, plan: RegressionRecipe, scales: Scales) -> Features:
    """Of both arms together: whether these bear slopes of their own is no reason to have more features."""

    def by(basis: Basis) -> Features:
        return replace(plan, basis=basis).features(scales)

    features = by(plan.basis)
    if features.basis is Basis.linear or study.estimator.basis != "auto":
        return features
    if drowned(scales, features.columns).any():
        # Of a number whose deviation noise hides, the square is a constant, which moves the arms' means.
        return by(Basis.linear)
    found = [by(basis) for basis in features.columns.bases(features.basis)]
    return found[_richest([_width_by(study, plan, scales, one) for one in found])]


def _told_apart(study: RegressionStudy, plan: RegressionRecipe, scales: Scales, features: Features) -> Features:
    """The same with moments by arm of all features, or of lines alone, where that pays.

    Slopes of each arm are in use, and their numbers do not blur what both arms share: few treated make them dear, and
    without delta noise grows with the number of numbers. Those of squares and products need the means of these, which a
    constant takes up.
    """
    if not plan.by_arm or features.by_arm is not None:
        return features

    def judged(basis: Basis | None) -> float:
        return _width_by(study, plan, scales, replace(features, by_arm=basis), judged_width)

    bases: list[Basis | None] = [Basis.linear, None]
    widths = [judged(basis) for basis in bases]
    if features.constant and features.basis > Basis.linear:
        whole = judged(features.basis)
        # Where no lines of each arm may stand beside products all are told apart if that costs next to nothing.
        if beside(scales) or whole <= PAIRS_WIDTH * widths[1] / (1 + ALIKE_WIDTH):
            bases, widths = [features.basis, *bases], [whole, *widths]
    return replace(features, by_arm=bases[_richest(widths)])


def _richest(widths: Sequence[float], wider: float = PAIRS_WIDTH) -> int:
    """The first whose expected interval is little wider than those after it, the plainer ones."""
    return next(place for place in range(len(widths)) if widths[place] <= wider * min(widths[place:]))


def _width_by(
    study: RegressionStudy,
    plan: RegressionRecipe,
    scales: Scales,
    features: Features,
    width: Callable[[Adjustment, int, float], float] = expected_width,
) -> float:
    """Expected half-width, in units of L, by features that stay, of people who are else as the stand-in says."""
    choice = _expected_adjustment(study, plan, scales, features, keep=True)
    return width(choice, plan.units or 1, plan.effect_noise().deviation)


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
    alone: bool = False,
) -> tuple[Adjustment, Seen]:
    """Slopes and weights for these features, or neither.

    Squares and products that turn out to widen the interval are left out: where covariates are correlated their moments
    have small eigenvalues that noise hides. Where they are seen to confound, what they would move the estimate by
    beyond noise is allowed for, so that they stay wherever they matter, or wherever ``keep`` says so. Both are
    held against lines first: of correlated columns squares show so much of what products confound that the rest is not
    seen, and is not small. Where products go, squares that cost next to nothing stay. ``alone``: treated units alone
    are scored, to stand for everybody.

    Raises:
        ValueError: the number of units is not known.
    """
    if plan.units is None:
        raise ValueError("an adjustment needs the number of units")
    units, noise, columns = plan.units, plan.effect_noise().deviation, features.columns
    linear = columns.features(Basis.linear)
    possible = plan.bears(scales, linear, plan.cut(linear))

    def of(some: JointMoments) -> tuple[Adjustment, Seen]:
        return adjust(
            study.estimator,
            scales,
            some,
            study.estimand,
            units,
            noise,
            possible,
            constant=features.constant,
            columns=columns,
            alone=alone,
        )

    choice, seen = of(moments)
    # Slopes of each arm for all features show what plainer ways leave of effects that differ. What chances leave, which
    # no basis follows, is allowed for in all.
    whole, furthest = features.by_arm is not None and features.by_arm > Basis.linear, choice

    def held(plainer_way: Adjustment) -> Adjustment:
        left = left_by(plainer_way, furthest) if whole and not scales.at_ends else 0.0
        return plainer_way.off_by(max(left - plainer_way.bias, 0.0))

    if whole:
        # Lines of each arm may be borne where products are not.
        by_lines, shown = of(moments.with_arms_of(features.lines))
        by_lines = held(by_lines)
        if judged_width(choice, units, noise) > PAIRS_WIDTH * judged_width(by_lines, units, noise):
            choice, seen = by_lines, shown
    if features.basis is Basis.linear or study.estimator.basis != "auto" or keep:
        return choice, seen

    def plainer(basis: Basis) -> tuple[Adjustment, Seen]:
        places = features.places(basis)
        plain, shown = of(moments.of(places))
        wide = plain.spread_over(places, features.count)
        if choice.adjusted and plain.adjusted and not study.estimator.trial:
            # Lines of both arms together: each arm's own would leave what effects that differ do as well.
            shared = plain if plain.own == 0 else of(moments.of(places).without_arms())[0]
            both = shared.spread_over(places, features.count).both
            alike = moments.left_alike(places, *both, scales.between, drawn or units)
            if abs(alike) > SURE:
                # What is left out is seen to confound: what it took off beyond its noise, this basis leaves.
                plainer_way = plain if choice.own > 0 else shared
                left = choice.taken_off - plainer_way.taken_off
                beyond = math.sqrt(max(left**2 - choice.second_order - plainer_way.second_order, 0.0))
                wide = replace(wide, bias=wide.bias + beyond)
        return held(wide), shown

    lines, *squares = [plainer(basis) for basis in reversed(columns.bases(features.basis)[1:])]
    # Noise is smallest in lines alone: what these see of effects that differ, richer bases that serve both arms miss.
    off = lines[0].seen_off
    choice = choice.off_by(off) if choice.own == 0 else choice
    squares = [(one.off_by(off) if one.own == 0 else one, shown) for one, shown in squares]
    if judged_width(choice, units, noise) <= PAIRS_WIDTH * judged_width(lines[0], units, noise):
        return choice, seen
    found = [*squares, lines]
    return found[_richest([judged_width(one, units, noise) for one, _ in found])]


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
    d, noise = features.count, plan.moments_noise(features.count, len(features.arm_places))
    variance = 1 / (features.cut**2 * d)
    square = (scales.spread / scales.limit) ** 2
    cross_error = plan.own_noise(noise) / units
    apart_error = noise / units * scales.larger / scales.between
    trial = study.estimator.trial
    distance, explained = DISTANCE**2, EXPLAINED
    if trial:
        distance, explained = 0.0, EXPLAINED_OF_EVENTS if study.outcome.two_valued else EXPLAINED_IN_TRIAL
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
    own = features.arm_places
    if not len(own):
        return found

    def alone(share: float) -> JointMoments:
        """An arm whose covariances and slopes are those of the other."""
        arm = of_arm(found.of(own), share, plan.arm_factors(features))
        noisy = math.sqrt(variance * explained * square + d * arm.cross_error**2)
        apart_square = variance * distance / (1 + scales.between * distance)
        means = ((1 - share) ** 2 - scales.between) * apart_square * np.outer(one, one)
        return replace(arm, cross=(noisy * other)[own], gram=(found.gram + means)[np.ix_(own, own)])

    return replace(found, arms=(alone(scales.share), alone(1 - scales.share)), arm_places=own)
