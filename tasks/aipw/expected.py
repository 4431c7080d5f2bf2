"""What a planner can say of AIPW before a row is read: the expected half-width, and what the budget can learn."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.aipw.interval import findings
from causalveil.tasks.aipw.outcome_model import OutcomeModel, residual_limit, summary_from
from causalveil.tasks.aipw.recipe import Recipe, recipe
from causalveil.tasks.aipw.scores import Nuisances, score_range
from causalveil.tasks.inference.assemble import EffectFindings

# An outcome model is expected to reach so far: as if a fifth of an arm's variance were explained (see the recipe).
EXPECTED_REACH = 0.67


@dataclass(frozen=True)
class Expected:
    """The findings that a stand-in population would give if no noise happened to be drawn, and the decisions."""

    recipe: Recipe
    findings: EffectFindings

    @property
    def half_width(self) -> float:
        """Expected half-width of the interval, in outcome units."""
        return (self.findings.interval.upper - self.findings.interval.lower) / 2


def expected(study: AipwStudy, sizes: Sizes, stand_in: StandIn = StandIn()) -> Expected:
    """Both arms centred in the declared range, everybody's score the treated share, clipped.

    A fitted outcome model is expected to reach EXPECTED_REACH cuts to both sides; a fitted propensity
    model leaves the share's neighbourhood by as much as a log odds of standard deviation 1/2 does.
    """
    plan = recipe(study, sizes)
    clip = study.estimator.propensity.bounds
    share = min(max(stand_in.treated, clip[0]), clip[1])
    half = study.outcome.width / 2
    deviation = min(1.0, (stand_in.deviation if stand_in.deviation is not None else half / 2) / half)
    summaries, models = [], []
    for fold in range(plan.folds):
        units = plan.trained_on(fold)
        exact = np.array([0.0, 0.0, math.sqrt(2) * share * units, units * deviation**2])
        known = summary_from(exact, units, plan, fold, (share, share))
        reach = 0.0 if plan.slopes_cost is None else EXPECTED_REACH * residual_limit(known, plan)
        slopes = np.full(plan.columns - 1, reach)
        odds = np.zeros(plan.columns)
        odds[:-1] = 0.0 if plan.penalty is None else math.sqrt(0.25 * 3 / (plan.columns - 1))
        odds *= math.sqrt(plan.columns)
        odds[-1] = math.log(share / (1 - share)) * math.sqrt(plan.columns)
        model = OutcomeModel((0.0, 0.0), slopes, reach, plan.radius, 1.0 if reach else 0.0)
        summaries.append(known)
        models.append(Nuisances(model, share, None if plan.penalty is None else odds))
    bound = score_range(study, models)
    square = deviation**2 * (1 / share + 1 / (1 - share)) / bound.half**2
    middle = -bound.middle / bound.half
    sums = np.array([middle, square + middle**2]) * sizes.units
    return Expected(plan, findings(study, plan, summaries, models, bound, sums))
