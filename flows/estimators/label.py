"""The stages at level label: weights are public, outcomes private.

1  rows of each subgroup's arm and the reference                                compare, public
2  weights: equal, or by balancing, inverse probability or matching             weigh, public
3  of each outcome, sum of w_i y_i over the arm minus that over the reference,
   and its sampling variance, + noise                                           perturb, charged to everybody, once
4  the answers, one by one and all together                                     answers, public

Proofs: ``docs/proofs/balancing.md`` and section 7 of ``docs/proofs/questions.md``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from causalveil.flows.estimators.estimator import CELLS, VALIDATE, Stages
from causalveil.flows.estimators.rehearsal import QUESTIONS, SLOW, Rehearsal, Results, in_step
from causalveil.flows.estimators.stage import Stage, StageRun
from causalveil.flows.estimators.table_plan import rehearsal_of
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.label import comparisons
from causalveil.tasks.estimate.label.comparisons import Comparison
from causalveil.tasks.estimate.weights.features import Weighing
from causalveil.tasks.estimate.weights.weighted_means import SLOT
from causalveil.tasks.machine.arrays import FloatArray


def _weigh(step: StageRun[Any]) -> tuple[Weighing | None, ...]:
    study = step.study
    return comparisons.weigh_stage(
        study, step.enclave, step[COMPARE], comparisons.JointDraw.of(study).louder(study.first)
    )


COMPARE = Stage[Any, tuple[Comparison, ...]](
    "compare", lambda step: comparisons.compare_stage(step.study, step.enclave), reads=(CELLS,)
)
WEIGH = Stage[Any, tuple[Weighing | None, ...]]("weigh", _weigh, reads=(COMPARE,))
PERTURB = Stage[Any, FloatArray](
    "perturb",
    lambda step: comparisons.perturb_stage(step.study, step.enclave, step[COMPARE], step[WEIGH], step.budget),
    charges=lambda study, sizes: [(SLOT, comparisons.mechanism(study, sizes))],
    reads=(COMPARE, WEIGH),
)
ANSWERS = Stage[Any, Findings](
    "answers",
    lambda step: comparisons.answers_stage(step.study, step[COMPARE], step[WEIGH], step[PERTURB]),
    reads=(COMPARE, WEIGH, PERTURB),
)
STAGES: Stages = (VALIDATE, CELLS, COMPARE, WEIGH, PERTURB, ANSWERS)


def _alike(study: EffectStudy, results: Results) -> Results:
    """Let the comparisons of the one subgroup that has people stand for those of all."""
    own, many = len(study.arm_names) - 1, len(study.groups)
    compared = tuple(replace(comparison, group=name) for name in study.groups for comparison in results[COMPARE][:own])
    weighed, numbers = results[WEIGH][:own] * many, np.concatenate([results[PERTURB][:own]] * many)
    return {**results, COMPARE: compared, WEIGH: weighed, PERTURB: numbers}


def rehearsal(study: EffectStudy, most: int = SLOW, own: int = 0, anew: int = 0, bias_stays: bool = True) -> Rehearsal:
    """Return how a plan rehearses a study: people are weighed once for several draws.

    Args:
        study: the study.
        most, own, anew: as of a ``Rehearsal``, of one question; of several people are few, and made up.
        bias_stays: whether imbalance of fewer people is that of all.
    """
    single, arms = study.asks_one, len(study.arm_names) - 1
    return rehearsal_of(
        study,
        most if single else SLOW,
        partial(in_step, bias_stays=bias_stays, all_units=True),
        by_chance=True,
        first=PERTURB,
        anew=anew if single else 0,
        own=own if single else 0,
        alike=_alike,
        questions=QUESTIONS if single else arms,
    )
