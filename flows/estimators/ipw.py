"""Inverse probability weighting with two private steps.

PP-IPW of Lee et al. 2019a, Algorithm 1.

    1  split D into D_m and D_n
    A  2  minimise J(w, D_m)                  propensity
       3  w_eps = w + z                       propensity, charged to the units of D_m
    B  5  tau_n from D_n with pi_{w_eps}      weigh
       6  tau_eps = tau_n + e                 perturb, charged to the units of D_n

With ``level: training_units`` step 6 adds nothing (Lee et al. 2019b); with ``level: label`` step 3 adds nothing, and
the noise of step 6 is that of the largest weight that is used, since weights are public.
The corrections are listed in ``docs/privacy.md``.
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.estimators.estimator import Estimator, Stages
from causalveil.flows.estimators.foreseen import foreseen, most_read, rows_weighed
from causalveil.flows.estimators.rehearsed import most_public, rehearsed, weighed_once
from causalveil.flows.estimators.shared import ENTRY, HALVES
from causalveil.flows.estimators.stage import Stage
from causalveil.flows.planning import ipw as planning
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.people import PublicPeople
from causalveil.tasks.ipw import interval, public_scores, weights
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models import logistic
from causalveil.tasks.weighting import imbalance
from causalveil.tasks.weighting import weighted_means as weighted
from causalveil.tasks.weighting.imbalance import Balance

PROPENSITY = Stage[IpwStudy, FloatArray](
    "propensity",
    lambda step: logistic.propensity_stage(*step.given, step.budget),
    charges=lambda study, sizes: [(logistic.SLOT, logistic.model(study, sizes).mechanism())],
    reads=(HALVES,),
)
WEIGH = Stage[IpwStudy, weights.Largest](
    "weigh", lambda step: weights.weigh_stage(*step.given, step[PROPENSITY]), reads=(HALVES, PROPENSITY)
)
PERTURB = Stage[IpwStudy, FloatArray](
    "perturb",
    lambda step: weights.perturb_stage(*step.given, step.budget),
    charges=lambda study, sizes: [(weights.slot(study), weights.mechanism(study, sizes))],
    reads=(WEIGH,),
)
INTERVAL = Stage[IpwStudy, EffectFindings](
    "interval",
    lambda step: interval.interval_stage(step.study, step.sizes, step[PROPENSITY], step[PERTURB], step[WEIGH]),
    reads=(PROPENSITY, WEIGH, PERTURB),
)
# Where scores are public, so are weights: one draw is left, of the sums of outcomes.
PUBLIC_WEIGHTS = Stage[IpwStudy, Balance](
    "public_weights",
    lambda step: public_scores.public_weights_stage(step.study, step.enclave, step[PROPENSITY]),
    reads=(HALVES, PROPENSITY),
)
PUBLIC_SUMS = Stage[IpwStudy, FloatArray](
    "public_sums",
    lambda step: imbalance.perturb_stage(step.study, step.enclave, step[PUBLIC_WEIGHTS], step.budget),
    charges=lambda study, _: [(weighted.SLOT, weighted.mechanism(study.privacy.cost))],
    reads=(PUBLIC_WEIGHTS,),
)
PUBLIC_INTERVAL = Stage[IpwStudy, EffectFindings](
    "public_interval",
    lambda step: public_scores.public_interval_stage(step.study, step[PUBLIC_WEIGHTS], step[PUBLIC_SUMS]),
    reads=(PUBLIC_WEIGHTS, PUBLIC_SUMS),
)


def _stages(study: IpwStudy) -> Stages:
    if public_scores.has_public_scores(study):
        return (*ENTRY, HALVES, PROPENSITY, PUBLIC_WEIGHTS, PUBLIC_SUMS, PUBLIC_INTERVAL)
    return (*ENTRY, HALVES, PROPENSITY, WEIGH, PERTURB, INTERVAL)


def expected(
    study: IpwStudy, sizes: Sizes, stand_in: StandIn, effect: float | None, people: PublicPeople | None = None
) -> dict[str, Any]:
    """Return the numbers, sentences and warnings that ``plan`` gives of a study.

    At label level a rehearsal, where it has an answer, gives half-width and standard errors; formulas give the rest.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
        people: whom the run has, where their covariates and treatments are public.
    """
    # Elsewhere scores and noise on them are what the formulas say.
    if study.privacy.level is not Level.label:
        return planning.expected(study, sizes, stand_in, effect, None)
    stages = _stages(study)
    again = weighed_once(stages, PUBLIC_SUMS) if PUBLIC_SUMS in stages else IPW.estimate
    randomised = study.estimator.confounding_prior.outcome_r2 == 0
    if people is not None and public_scores.has_public_scores(study):
        own = foreseen(again, study, sizes, stand_in, people, rows_weighed(study), randomised, bias_stays=True)
        return planning.expected(study, sizes, stand_in, effect, own)
    most = most_public(study)
    found = rehearsed(again, study, sizes, stand_in, randomised, most, bias_stays=True, by_chance=True)
    return planning.expected(study, sizes, stand_in, effect, found)


def reads(study: IpwStudy) -> int:
    """Return how many people's public covariates and treatments :func:`expected` reads at most."""
    return most_read(study) if public_scores.has_public_scores(study) else 0


def warned(study: IpwStudy, sizes: Sizes, stand_in: StandIn) -> list[str]:
    """Return the warnings of :func:`expected` without an effect: they need no rehearsal."""
    return list(planning.expected(study, sizes, stand_in, None, alternatives=False)["warnings"])


def formula(study: IpwStudy, sizes: Sizes, stand_in: StandIn) -> float | None:
    """Return the expected half-width without a rehearsal.

    Returns None where the stand-in population cannot be analysed.
    """
    found: float | None = planning.expected(study, sizes, stand_in, None).get("half_width")
    return found


IPW = Estimator(IpwStudy, _stages, expected, formula, warned, reads)
