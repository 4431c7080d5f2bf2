"""Covariate adjustment from noisy moments.

Five releases on all units, by subgroup, read by one posterior that knows their noise.

    1  arms' sums of every outcome, histograms of covariates and outcomes                   scales
    2  cross moments of lines with every outcome and the arms, Gram matrices by arm               lines
       slopes and balancing weights of every outcome, candidates of curves                 learn, public
    3  cross moments of candidates with what lines leave of outcomes and arms                 screen
       which are kept                                                                  choose, public
    4  as 2, of lines and kept curves                                                    refit
       slopes, weights, and where scores are cut                                         learn again, public
    5  sums of every outcome's scores and of their squares                               scores
    6  with clusters: absolute totals of scores by cluster                               clusters
       the table: estimates, intervals one by one and all together                      answers, public

Where public facts say that no curve could be seen there are no releases 3 and 4. Proofs: ``docs/proofs/regression.md``
and ``docs/proofs/questions.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from causalveil.flows.estimators import protocol as of_several
from causalveil.flows.estimators.estimator import CELLS, VALIDATE, Estimator, Stages
from causalveil.flows.estimators.five_releases import clusters_stage, joint_stages
from causalveil.flows.estimators.rehearsal import QUESTIONS, Rehearsal, Results, summed
from causalveil.flows.estimators.stage import Stage, StageRun, recalled
from causalveil.flows.estimators.table import Rehearsed
from causalveil.flows.estimators.words import Words, stated_terms
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.remarks import PlanCode, Remark, remark
from causalveil.tasks.adjustment import questions
from causalveil.tasks.adjustment.recipe import candidates_of, joint_recipe
from causalveil.tasks.enclave.cells import everybody
from causalveil.tasks.inference.assemble import Findings
from causalveil.tasks.inference.people import PEOPLE
from causalveil.tasks.protocols.regression import regression_findings

plan = recalled(joint_recipe)
FIVE = joint_stages(plan, lambda step: everybody(step.enclave), rows=(CELLS,))
CLUSTERS = clusters_stage(plan, lambda step: everybody(step.enclave), (CELLS,), FIVE)


def _answers(step: StageRun[RegressionStudy]) -> Findings:
    totals = None if step.study.clusters is None else step[CLUSTERS]
    asked = questions.with_scores(step[FIVE.again], step[FIVE.scores], totals)
    return regression_findings(*step.given[:2], asked, step[FIVE.scales])


ANSWERS = Stage[RegressionStudy, Findings]("answers", _answers, reads=(FIVE.scales, FIVE.again, FIVE.scores, CLUSTERS))


def _stages(study: RegressionStudy) -> Stages:
    return (VALIDATE, CELLS, *FIVE.all, *([] if study.clusters is None else [CLUSTERS]), ANSWERS)


def warned(
    study: RegressionStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]
) -> list[Remark]:
    """Return the warnings of a plan."""
    if not study.asks_one:
        return of_several.warned(study, sizes, stand_in, few)
    if stated := stated_terms(study):
        return stated
    recipe = plan(study, sizes)
    # Where no covariate has a non-linear term nothing is lost.
    if "screen" in recipe.costs or study.estimator.trial or not candidates_of(recipe.everybody):
        return []
    return [remark(PlanCode.curves_not_asked if study.estimator.curves == "none" else PlanCode.no_curves)]


def _alike(study: RegressionStudy, results: Results) -> Results:
    """Let the one subgroup that has people stand for all of them."""
    many, scales = len(study.groups), results[FIVE.scales]
    counts = np.repeat(scales.counts[:1], many, axis=0)
    of_all = replace(scales, counts=counts, units=scales.units[:1] * many, questions=scales.questions[:1] * many)
    same = {stage: results[stage][:1] * many for stage in (FIVE.again, FIVE.scores)}
    return {**results, **same, FIVE.scales: of_all}


def rehearsal(study: RegressionStudy) -> Rehearsal:
    """Return how a plan rehearses a study: one subgroup has people, and stands for all."""
    arms = len(study.arm_names)
    many = QUESTIONS if study.asks_one else len(study.outcomes) * (1 if arms == 2 else arms)
    return of_several.rehearsal_of(study, PEOPLE, summed, alike=_alike, questions=many)


REGRESSION = Estimator(
    RegressionStudy,
    _stages,
    rehearsal=rehearsal,
    words=lambda study, *told: Words() if study.asks_one else of_several.words(study, *told),
    warned=warned,
)
