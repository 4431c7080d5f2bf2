"""Differences of arm means, of a randomised trial or unadjusted.

One release and its own private intervals.
"""

from __future__ import annotations

from causalveil.flows.estimators import label, table_plan
from causalveil.flows.estimators.estimator import CELLS, VALIDATE, Estimator, Stages
from causalveil.flows.estimators.rehearsal import QUICK, Rehearsal, summed
from causalveil.flows.estimators.stage import Stage
from causalveil.flows.estimators.words import Words
from causalveil.schemas.estimators.difference import DifferenceStudy
from causalveil.schemas.privacy import Level
from causalveil.schemas.remarks import PlanCode, remark
from causalveil.tasks.estimate import difference
from causalveil.tasks.estimate.interval import Findings

DIFFERENCE = Stage[DifferenceStudy, Findings](
    "difference",
    lambda step: difference.difference_stage(*step.given, step.budget, step.times),
    charges=difference.draws,
    reads=(CELLS,),
)


def _stages(study: DifferenceStudy) -> Stages:
    return label.STAGES if study.privacy.level is Level.label else (VALIDATE, CELLS, DIFFERENCE)


def rehearsal(study: DifferenceStudy) -> Rehearsal:
    """Return how a plan rehearses a study: every subgroup has people."""
    if study.privacy.level is Level.label:
        return label.rehearsal(study)
    return table_plan.rehearsal_of(study, QUICK, summed, len(study.groups))


DIFFERENCE_IN_MEANS = Estimator(
    DifferenceStudy,
    _stages,
    rehearsal=rehearsal,
    words=lambda study, *told: Words() if study.asks_one else table_plan.words(study, *told),
    warned=lambda study, *told: [
        *([] if study.estimator.trial else [remark(PlanCode.unadjusted)]),
        *([] if study.asks_one else table_plan.warned(study, *told)),
    ],
    facts=("treated", "mean", "deviation", "eligible"),
)
