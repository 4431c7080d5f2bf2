"""AIPW with cross-fitting, by the equations of Schröder, Hartenstein and Feuerriegel (2025).

    1  cut D into K folds by the rank of a keyed hash                 folds
    2  fit models of each fold on the units of all others, score every unit, add noise to the effect and its
       variance, each in units of the largest sensitivity             asymptotic

The guarantee is asymptotic: ``docs/asymptotic.md``.
"""

from __future__ import annotations

from causalveil.flows.estimators.estimator import ENTRY, NORMALISE, Estimator
from causalveil.flows.estimators.rehearsal import SLOW, Rehearsal, as_it_is
from causalveil.flows.estimators.stage import Stage
from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.remarks import PlanCode, remark
from causalveil.tasks.data import split
from causalveil.tasks.data.covariates import dimension
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.papers.aipw_asymptotic import stages

FOLDS = Stage[AipwStudy, None](
    "folds", lambda step: split.folds_stage(step.enclave, step.study.estimator.folds), reads=(NORMALISE,)
)
ASYMPTOTIC = Stage[AipwStudy, Findings](
    "asymptotic",
    lambda step: stages.asymptotic_stage(step.study, step.enclave, step.seed_for(stages.SEED_LABEL), step.budget),
    charges=stages.draws,
    reads=(FOLDS,),
)


def rehearsal(study: AipwStudy) -> Rehearsal:
    """Return how a plan rehearses a study.

    Noise is on two numbers alone, so models are fitted once for all draws.
    """
    known = study.estimator.propensity.known
    return Rehearsal(SLOW, as_it_is, known is not None, anew=0, columns=dimension(study))


AIPW = Estimator(
    AipwStudy,
    (*ENTRY, FOLDS, ASYMPTOTIC),
    rehearsal=rehearsal,
    warned=lambda study, *_: [remark(PlanCode.unprotected, what=what) for what in study.unprotected],
)
