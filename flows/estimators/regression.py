"""Covariate adjustment from noisy moments.

Five releases on all units, read by one posterior that knows their noise.

    1  arms' sums, histograms of covariates and outcome                                   scales
    2  cross moments of lines with outcome and treatment, and their Gram matrices by arm        lines
       slopes, balancing weights, candidates of curves                                     learn, public
    3  cross moments of candidates with what lines leave of outcome and treatment             screen
       which are kept                                                                  choose, public
    4  as 2, of lines and kept curves                                                    refit
       slopes, weights, and where scores are cut                                         learn again, public
    5  sums of scores and of their squares                                               scores
    6  with clusters: absolute totals of scores by cluster                               clusters
       estimate and interval                                                           interval, public

Where public facts say that no curve could be seen there are no releases 3 and 4. Proofs: ``docs/proofs/regression.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from causalveil.flows.estimators.estimator import ENTRY, NORMALISE, Estimator, Stages
from causalveil.flows.estimators.five_releases import clusters_stage, joint_stages
from causalveil.flows.estimators.rehearsal import Rehearsal, Rehearsed, summed
from causalveil.flows.estimators.stage import Stage, recalled
from causalveil.flows.estimators.words import stated_terms
from causalveil.schemas.estimators.protocols import table_of
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.adjustment.recipe import TableRecipe, candidates_of, joint_recipe
from causalveil.tasks.enclave.cells import everybody_of_one
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.people import PEOPLE
from causalveil.tasks.protocols.regression import one_regression

NO_CURVES = (
    "at this size and budget non-linear terms cannot be detected. The estimate is adjusted for linear terms alone, and "
    "its interval allows for little non-linear confounding."
)

NOT_LOOKED_FOR = (
    "no non-linear terms are looked for, as `curves: none` asks. The estimate is adjusted for linear terms alone, and "
    "its interval allows for little non-linear confounding."
)


def _recipe(study: RegressionStudy, sizes: Sizes | None) -> TableRecipe:
    return joint_recipe(table_of(study), sizes)


plan = recalled(_recipe)
FIVE = joint_stages(plan, lambda step: everybody_of_one(step.enclave), rows=(NORMALISE,))
CLUSTERS = clusters_stage(plan, lambda step: everybody_of_one(step.enclave), (NORMALISE,), FIVE)
INTERVAL = Stage[RegressionStudy, EffectFindings](
    "interval",
    lambda step: one_regression(
        *step.given[:2],
        step[FIVE.again],
        step[FIVE.scores],
        step[FIVE.scales],
        None if step.study.clusters is None else step[CLUSTERS],
    ),
    reads=(FIVE.scales, FIVE.again, FIVE.scores, CLUSTERS),
)


def _stages(study: RegressionStudy) -> Stages:
    return (*ENTRY, *FIVE.all, *([] if study.clusters is None else [CLUSTERS]), INTERVAL)


def warned(
    study: RegressionStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]
) -> list[str]:
    """Return the warnings of a plan: they need no rehearsal."""
    del stand_in, few
    if stated := stated_terms(study):
        return stated
    recipe = plan(study, sizes)
    # Where no covariate has a non-linear term nothing is lost.
    if "screen" in recipe.costs or study.estimator.trial or not candidates_of(recipe.everybody):
        return []
    return [NOT_LOOKED_FOR if study.estimator.curves == "none" else NO_CURVES]


REGRESSION = Estimator(
    RegressionStudy,
    _stages,
    rehearsal=lambda study: Rehearsal(PEOPLE, summed, study.estimator.trial),
    warned=warned,
)
