"""The difference of arm means, of a randomised trial or unadjusted.

One release and its own private interval.
"""

from __future__ import annotations

from causalveil.flows.estimators import label
from causalveil.flows.estimators.estimator import ENTRY, NORMALISE, Estimator, Stages
from causalveil.flows.estimators.rehearsal import Rehearsal, as_noisy, summed
from causalveil.flows.estimators.stage import Stage
from causalveil.flows.estimators.words import UNADJUSTED
from causalveil.schemas.estimators.difference import DifferenceStudy
from causalveil.schemas.estimators.protocols import table_of
from causalveil.schemas.privacy import Level
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.people import PEOPLE
from causalveil.tasks.protocols import difference as protocol

DIFFERENCE = Stage[DifferenceStudy, EffectFindings](
    "difference",
    lambda step: protocol.one_difference_stage(*step.given, step.budget, step.times),
    charges=lambda study, sizes: protocol.draws(table_of(study), sizes),
    reads=(NORMALISE,),
)


def _stages(study: DifferenceStudy) -> Stages:
    return label.ONE if study.privacy.level is Level.label else (*ENTRY, DIFFERENCE)


def rehearsal(study: DifferenceStudy) -> Rehearsal:
    """Return how a plan rehearses a study.

    What is allowed for is in deviations, which more units leave as they are. Where arms are public the variance is that
    of pairs in a row, which differ by more than chance among quasi-random people. Clusters have all of their people.
    """
    smaller = as_noisy if study.clusters is None else summed
    return Rehearsal(PEOPLE, smaller, study.estimator.trial, by_chance=study.privacy.level is Level.label)


DIFFERENCE_IN_MEANS = Estimator(
    DifferenceStudy,
    _stages,
    rehearsal=rehearsal,
    warned=lambda study, *_: [] if study.estimator.trial else [UNADJUSTED],
    facts=("treated", "mean", "deviation"),
)
