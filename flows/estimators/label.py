"""The stages at level label, of one effect or a table: weights are public, outcomes private.

1  rows of each subgroup's arm and the reference                                compare, public
2  weights: equal, or by balancing, inverse probability or matching             weigh, public
3  of each outcome, sum of w_i y_i over the arm minus that over the reference,
   and its sampling variance, + noise                                           perturb, charged to everybody, once
4  the answers, one by one and all together                                     answers, public

One effect is a table of one row. Proofs: ``docs/proofs/balancing.md`` and section 7 of ``docs/proofs/questions.md``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from causalveil.flows.estimators.estimator import CELLS, ENTRY, NORMALISE, VALIDATE, Stages
from causalveil.flows.estimators.rehearsal import Rehearsal, in_step, rows_weighed
from causalveil.flows.estimators.stage import Stage, StageRun
from causalveil.schemas.estimators.protocols import table_of
from causalveil.schemas.study import EffectStudy
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.protocols.findings import ProtocolFindings
from causalveil.tasks.protocols.label import answers, draw, weights
from causalveil.tasks.protocols.label.weights import Comparison
from causalveil.tasks.weighting.imbalance import Weighing
from causalveil.tasks.weighting.weighted_means import SLOT


def _weigh(step: StageRun[Any]) -> tuple[Weighing | None, ...]:
    table = table_of(step.study)
    return weights.weigh_stage(table, step.enclave, step[COMPARE], draw.JointDraw.of(table).louder(table.first))


COMPARE = Stage[Any, tuple[Comparison, ...]](
    "compare", lambda step: weights.compare_stage(table_of(step.study), step.enclave), reads=(NORMALISE, CELLS)
)
WEIGH = Stage[Any, tuple[Weighing | None, ...]]("weigh", _weigh, reads=(COMPARE,))
PERTURB = Stage[Any, FloatArray](
    "perturb",
    lambda step: draw.perturb_stage(table_of(step.study), step.enclave, step[COMPARE], step[WEIGH], step.budget),
    charges=lambda study, sizes: [(SLOT, draw.mechanism(table_of(study), sizes))],
    reads=(COMPARE, WEIGH),
)
EFFECT = Stage[Any, EffectFindings](
    "interval", lambda step: answers.effect_stage(step.study, step[WEIGH], step[PERTURB]), reads=(WEIGH, PERTURB)
)
ANSWERS = Stage[Any, ProtocolFindings](
    "answers",
    lambda step: answers.answers_stage(step.study, step[COMPARE], step[WEIGH], step[PERTURB]),
    reads=(COMPARE, WEIGH, PERTURB),
)
ONE: Stages = (*ENTRY, COMPARE, WEIGH, PERTURB, EFFECT)
TABLE: Stages = (VALIDATE, CELLS, COMPARE, WEIGH, PERTURB, ANSWERS)


def rehearsal(study: EffectStudy, randomised: bool) -> Rehearsal:
    """Return how a plan rehearses an effect by quick weights, made once for several draws."""
    most = rows_weighed(study)
    smaller = partial(in_step, bias_stays=True)
    return Rehearsal(most, smaller, randomised, by_chance=True, first=PERTURB, own=most)
