"""What a planner can say of AIPW before a row is read: the expected half-width, and what the budget can learn."""

from __future__ import annotations

from dataclasses import dataclass

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.aipw.decide import expected_models, foreseen_sums, recipe
from causalveil.tasks.aipw.interval import findings
from causalveil.tasks.aipw.recipe import Recipe
from causalveil.tasks.inference.assemble import EffectFindings


@dataclass(frozen=True)
class Expected:
    """The findings that a stand-in population would give if no noise happened to be drawn, and the decisions.

    ``slopes_kept``: how much of slopes noise would leave, in [0, 1]; 0 where none are learnt.
    """

    recipe: Recipe
    findings: EffectFindings
    slopes_kept: float

    @property
    def half_width(self) -> float:
        """Expected half-width of the interval, in outcome units."""
        return (self.findings.interval.upper - self.findings.interval.lower) / 2


def expected(study: AipwStudy, sizes: Sizes, stand_in: StandIn = StandIn()) -> Expected:
    """What the study would do, and find in the population that the reader assumes."""
    plan = recipe(study, sizes)
    summaries, models = expected_models(study, plan, stand_in)
    bound, sums = foreseen_sums(study, plan, summaries, models)
    found = findings(study, plan, summaries, models, bound, sums)
    kept = [one.outcome.common_factor for one in models]
    return Expected(plan, found, min(kept) if plan.slopes_cost is not None else 0.0)
