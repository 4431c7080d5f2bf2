"""PP-IPW: inverse probability weighting with two private steps (Lee et al. 2019a, Algorithm 1).

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

from causalveil.flows.engine.engine import Engine
from causalveil.flows.estimators.foreseen import foreseen, most_read, rows_weighed
from causalveil.flows.estimators.rehearsed import most_public, rehearsed, weighed_once
from causalveil.flows.planning import ipw as planning
from causalveil.flows.sequence.run import Run, enter
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Charge, Level
from causalveil.tasks.balancing.weights import Balance
from causalveil.tasks.enclave import split
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.public_people import PublicPeople
from causalveil.tasks.ipw import interval, perturb, public_scores, weights
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models import logistic


def declare(study: IpwStudy, sizes: Sizes | None) -> tuple[Charge, ...]:
    """Every charge of the study, from public facts alone."""
    if public_scores.has_public_scores(study):
        return public_scores.declare(study)
    steps = (
        (logistic.SLOT, logistic.model(study, sizes).mechanism()),
        (perturb.slot(study), perturb.mechanism(study, sizes)),
    )
    return tuple(mechanism.charge(slot) for slot, mechanism in steps if mechanism is not None)


def estimate(run: Run[IpwStudy], stage: Engine) -> EffectFindings:
    """The order of the stages."""
    study, sizes, enclave = run.study, run.sizes, run.enclave
    if public_scores.has_public_scores(study):
        return _answer(run, stage, _weigh(run, stage))
    coefficients = _coefficients(run, stage)
    largest = stage(weights.weigh_stage, study, sizes, enclave, coefficients)
    statistics = stage(perturb.perturb_stage, study, sizes, enclave, run.budget)
    return stage(interval.interval_stage, study, sizes, coefficients, statistics, largest)


def _coefficients(run: Run[IpwStudy], stage: Engine) -> FloatArray:
    enter(run, stage)
    stage(split.split_stage, run.study, run.enclave)
    return stage(logistic.propensity_stage, run.study, run.sizes, run.enclave, run.budget)


def _weigh(run: Run[IpwStudy], stage: Engine) -> Balance:
    return stage(public_scores.public_weights_stage, run.study, run.enclave, _coefficients(run, stage))


def _answer(run: Run[IpwStudy], stage: Engine, found: Balance) -> EffectFindings:
    statistics = stage(public_scores.public_sums_stage, run.study, run.enclave, found, run.budget)
    return stage(public_scores.public_interval_stage, run.study, found, statistics)


def expected(
    study: IpwStudy, sizes: Sizes, stand_in: StandIn, effect: float | None, people: PublicPeople | None = None
) -> dict[str, Any]:
    """What ``plan`` says: formulas tell what is done, a rehearsal how wide it gets.

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
    again = weighed_once(_weigh, _answer) if public_scores.has_public_scores(study) else estimate
    randomised = study.estimator.unadjusted.outcome == 0
    if people is not None and public_scores.has_public_scores(study):
        own = foreseen(again, study, sizes, stand_in, people, rows_weighed(study), randomised, bias_stays=True)
        return planning.expected(study, sizes, stand_in, effect, own)
    most = most_public(study)
    found = rehearsed(again, study, sizes, stand_in, randomised, most, bias_stays=True, by_chance=True)
    return planning.expected(study, sizes, stand_in, effect, found)


def reads(study: IpwStudy) -> int:
    """How many people's public covariates and treatments :func:`expected` wants at most."""
    return most_read(study) if public_scores.has_public_scores(study) else 0


def warned(study: IpwStudy, sizes: Sizes, stand_in: StandIn) -> list[str]:
    """The warnings of :func:`expected` without an effect: they need no rehearsal."""
    return list(planning.expected(study, sizes, stand_in, None, alternatives=False)["warnings"])


def formula(study: IpwStudy, sizes: Sizes, stand_in: StandIn) -> float | None:
    """Expected half-width without a rehearsal; None where the stand-in population cannot be analysed."""
    found: float | None = planning.expected(study, sizes, stand_in, None).get("half_width")
    return found
