"""Slopes and weights by released moments, and whether squares, products and cubes stay: post-processing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from causalveil.schemas.protocols.regression import RegressionStudy
from causalveil.tasks.covariates.columns import Basis
from causalveil.tasks.machine.arrays import IntArray
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.lines.adjust import adjust, beside
from causalveil.tasks.regression.lines.adjustment import Adjustment, Seen, judged_width
from causalveil.tasks.regression.lines.apart import left_by
from causalveil.tasks.regression.lines.joint import JointMoments
from causalveil.tasks.regression.recipe import RegressionRecipe
from causalveil.tasks.regression.scales import Scales

# A richer basis enters release 2 where it makes the expected interval at most this much wider, and stays where it makes
# the judged one at most so much wider: its noise is drawn by then, and what it confounds may hide in noise.
ENTER_WIDTH, STAY_WIDTH = 1.05, 1.3
# Products are seen to confound from so many deviations of noise and sampling.
SURE = 4.0
# All features have slopes of each arm, and cubes stay, where these go so far of the way. Where one arm is small they
# enter, and stay, where they make the judged interval at most so much wider than plainer ones.
LEAST_OWN, WHOLE_WIDTH = 0.7, 1.2
# Cubes stay where noise hides no direction of the matrix and is at most this part of its mean eigenvalue, or the second
# number where one feature alone sets the arms more than the third of its deviations apart: noise does more there.
CUBES_FLOOR, CUBES_FLOOR_APART, APART = 0.09, 0.04, 0.75


def richest(widths: Sequence[float], wider: float) -> int:
    """The first whose expected interval is little wider than those after it, the plainer ones."""
    return next(place for place in range(len(widths)) if widths[place] <= wider * min(widths[place:]))


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
    seen, and is not small. Where products go, squares that cost next to nothing stay. Cubes are left out where noise
    hides them, or where they widen the interval. ``alone``: treated units alone are scored, to stand for everybody.

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
            curved=len(some.cross) > len(features.lines),
        )

    choice, seen = of(moments)

    def confounding(places: IntArray, shared: Adjustment) -> bool:
        """Whether other features are seen to confound beyond these, whose slopes serve both arms."""
        both = shared.spread_over(places, features.count).both
        return abs(moments.left_alike(places, *both, scales.between, drawn or units)) > SURE

    if features.basis is Basis.cubes and study.estimator.basis == "auto" and not keep:
        # Noise hides cubes of correlated columns, and of those that are spread evenly, before it hides products.
        rest, places = replace(features, basis=Basis.pairs), features.places(Basis.pairs)
        plain, shown = adjusted_by(study, plan, scales, rest, moments.of(places), drawn=drawn, alone=alone)
        clear = seen.floored == 0 and choice.own >= LEAST_OWN
        most = CUBES_FLOOR if np.abs(seen.before).max(initial=0.0) <= APART else CUBES_FLOOR_APART
        if clear and seen.floor > most:
            clear = plain.adjusted and confounding(places, of(moments.of(places).without_arms())[0])
        if clear and judged_width(choice, units, noise) <= STAY_WIDTH * judged_width(plain, units, noise):
            return choice, seen
        return plain.spread_over(places, features.count), shown
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
        if judged_width(choice, units, noise) > ENTER_WIDTH * judged_width(by_lines, units, noise):
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
            if confounding(places, shared):
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
    # Where one arm is small richer features hold less of what effects that differ do, unless all have slopes by arm;
    # squares alone are then no better than lines where products confound.
    own = whole and choice.own >= LEAST_OWN and features.basis >= Basis.pairs
    wider = STAY_WIDTH if moments.arms is not None and beside(scales) else WHOLE_WIDTH if own else ENTER_WIDTH
    if judged_width(choice, units, noise) <= wider * judged_width(lines[0], units, noise):
        return choice, seen
    found = [*squares, lines]
    return found[richest([judged_width(one, units, noise) for one, _ in found], wider)]
