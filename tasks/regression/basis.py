"""Which features release 2 is of, and of which each arm has moments of its own, by what release 1 says.

Each way is judged by the interval that it would have in the stand-in population. No charge depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from causalveil.schemas.protocols.regression import RegressionStudy
from causalveil.tasks.covariates.columns import Basis
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.lines.adjust import beside
from causalveil.tasks.regression.lines.adjustment import ALIKE_WIDTH, Adjustment, expected_width, judged_width
from causalveil.tasks.regression.lines.kept import ENTER_WIDTH, LEAST_OWN, WHOLE_WIDTH, adjusted_by, richest
from causalveil.tasks.regression.recipe import RegressionRecipe
from causalveil.tasks.regression.scales import Scales
from causalveil.tasks.regression.stand_in import expected_moments

# Beside lines of each arm a constant stands with products where rho is below this and the interval hardly wider.
CONSTANT_BESIDE, CONSTANT_WIDTH = 0.1, 1.01


def features_of(study: RegressionStudy, plan: RegressionRecipe, scales: Scales) -> Features:
    """What release 2 is of: a richer basis only where what release 1 says still makes it worth its noise.

    Few treated, or rare levels whose products hardly vary, make them dearer than the stand-in population of the recipe
    says. No charge depends on it, and no row but by release 1.

    Raises:
        ValueError: the number of units is not known.
    """
    small = plan.by_arm and not beside(scales) and study.estimator.basis == "auto"
    whole = _whole(study, plan, scales) if small else None
    return whole or told_apart(study, plan, scales, _basis_of(study, plan, scales))


def _whole(study: RegressionStudy, plan: RegressionRecipe, scales: Scales) -> Features | None:
    """The richest basis of which each arm bears slopes of its own, where one is small; None where only lines are borne.

    What serves both arms is off there where they differ in more than lines, and no lines of each stand beside it.
    """
    units, noise, richest, narrowest = plan.units or 1, plan.effect_noise().deviation, None, math.inf
    for basis in reversed(plan.seen_in(scales).bases(plan.basis)):
        features = replace(replace(plan, basis=basis).features(scales), by_arm=basis)
        if features.basis is not basis:
            break
        choice = expected_adjustment(study, plan, scales, features, keep=True)
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
    found = [by(basis) for basis in features.columns.bases(features.basis)]
    return found[richest([_width_by(study, plan, scales, one) for one in found], ENTER_WIDTH)]


def told_apart(study: RegressionStudy, plan: RegressionRecipe, scales: Scales, features: Features) -> Features:
    """The same with moments by arm of all features, or of lines alone, where that pays.

    Slopes of each arm are in use, and their numbers do not blur what both arms share: few treated make them dear, and
    without delta noise grows with the number of numbers. Those of squares and products need the means of these, which a
    constant takes up.
    """
    if not plan.by_arm or features.by_arm is not None:
        return features

    def judged(some: Features) -> float:
        return _width_by(study, plan, scales, some, judged_width)

    found = [replace(features, by_arm=Basis.linear), features]
    widths = [judged(some) for some in found]
    if not features.constant and features.basis > Basis.linear and plan.noise_ratio(features.count) <= CONSTANT_BESIDE:
        # Beside lines of each arm means of products enter what sets the arms apart.
        centred = replace(found[0], constant=True)
        width = judged(centred)
        if width <= CONSTANT_WIDTH * widths[0]:
            found[0], widths[0] = centred, width
    if features.constant and features.basis > Basis.linear:
        whole = replace(features, by_arm=features.basis)
        width = judged(whole)
        # Where no lines of each arm may stand beside products all are told apart if that costs next to nothing.
        if beside(scales) or width <= ENTER_WIDTH * widths[1] / (1 + ALIKE_WIDTH):
            found, widths = [whole, *found], [width, *widths]
    return found[richest(widths, ENTER_WIDTH)]


def _width_by(
    study: RegressionStudy,
    plan: RegressionRecipe,
    scales: Scales,
    features: Features,
    width: Callable[[Adjustment, int, float], float] = expected_width,
) -> float:
    """Expected half-width, in units of L, by features that stay, of people who are else as the stand-in says."""
    choice = expected_adjustment(study, plan, scales, features, keep=True)
    return width(choice, plan.units or 1, plan.effect_noise().deviation)


def expected_adjustment(
    study: RegressionStudy, plan: RegressionRecipe, scales: Scales, features: Features, keep: bool
) -> Adjustment:
    """What these features would do if release 2 were that of the stand-in population."""
    moments = expected_moments(study, plan, plan.units or 1, scales, features)
    return adjusted_by(study, plan, scales, features, moments, keep)[0]
