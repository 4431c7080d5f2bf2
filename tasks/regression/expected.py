"""What a planner can say of a regression before a row is read: the expected interval, and what can be adjusted for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.covariates.columns import Basis
from causalveil.tasks.inference.arms import chance_of_empty
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.regression.basis import features_of
from causalveil.tasks.regression.decide import choose, recipe
from causalveil.tasks.regression.interval import ThreeReleases, findings
from causalveil.tasks.regression.recipe import RegressionRecipe
from causalveil.tasks.regression.stand_in import expected_moments, expected_scales


@dataclass(frozen=True)
class ExpectedRegression:
    """The findings of a stand-in population if no noise happened to be drawn, and the decisions."""

    recipe: RegressionRecipe
    findings: EffectFindings

    @property
    def half_width(self) -> float:
        """Expected half-width of the interval, in outcome units."""
        return (self.findings.interval.upper - self.findings.interval.lower) / 2


def expected(study: RegressionStudy, sizes: Sizes, stand_in: StandIn = StandIn()) -> ExpectedRegression:
    """Uncorrelated features, both arms centred in the declared range.

    Released lengths are what they are on average with their noise, so that what is taken off later is there.

    Raises:
        ValueError: the number of units is not known.
    """
    plan = recipe(study, sizes)
    if plan.units is None:
        raise ValueError("what is expected needs the number of units")
    scales = expected_scales(study, plan, plan.units, stand_in)
    moments = None
    if plan.moments is not None:
        moments = expected_moments(study, plan, plan.units, scales, features_of(study, plan, scales))
    features, choice, seen = choose(study, plan, scales, moments)
    # Scores have one deviation, which is 1/k of where they are cut.
    scores = np.array([0.0, plan.units / choice.cut**2])
    return ExpectedRegression(plan, findings(study, plan, ThreeReleases(scales, features, choice, seen, scores)))


def chance_of_whole_range(study: RegressionStudy, sizes: Sizes, stand_in: StandIn) -> float:
    """The chance that an arm may be empty by what is released: the interval is then the declared range.

    Raises:
        ValueError: the number of units is not known.
    """
    plan = recipe(study, sizes)
    if plan.units is None:
        raise ValueError("what is expected needs the number of units")
    error = expected_scales(study, plan, plan.units, stand_in).share_error
    return chance_of_empty(stand_in.treated, error, study.confidence)


def least_share(study: RegressionStudy, sizes: Sizes) -> float | None:
    """The smallest treated share, to 1 %, that bears an adjustment; None if none does, or nothing is adjusted for."""
    plan = recipe(study, sizes)
    if plan.units is None or plan.moments is None:
        return None
    features = plan.columns.features(Basis.linear)
    low, high = 0.0, 0.5
    if not plan.bears(expected_scales(study, plan, plan.units, StandIn(treated=high)), features, plan.cut(features)):
        return None
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        scales = expected_scales(study, plan, plan.units, StandIn(treated=middle))
        # Scales keep shares away from 0; a share that they would not believe bears nothing.
        bears = scales.share <= middle * 1.001 and plan.bears(scales, features, plan.cut(features))
        low, high = (low, middle) if bears else (middle, high)
    return high
