"""Inverse probability weighting with two private steps.

PP-IPW of Lee et al. 2019a, Algorithm 1.

    1  split D into D_m and D_n
    A  2  minimise J(w, D_m)                  propensity
       3  w_eps = w + z                       propensity, charged to the units of D_m
    B  5  tau_n from D_n with pi_{w_eps}      weigh
       6  tau_eps = tau_n + e                 perturb, charged to the units of D_n

With ``level: training_units`` step 6 adds nothing (Lee et al. 2019b). With ``level: label`` weights are public
(``label.py``), and the noise of step 6 is that of the largest weight that is used.
The corrections are listed in ``docs/privacy.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from causalveil.flows.estimators import label
from causalveil.flows.estimators import protocol as of_several
from causalveil.flows.estimators.estimator import ENTRY, HALVES, Estimator, Stages
from causalveil.flows.estimators.rehearsal import (
    LASTING,
    QUICK,
    Rehearsal,
    as_it_is,
    as_noisy,
    mostly_whole,
    rows_weighed,
)
from causalveil.flows.estimators.stage import Stage
from causalveil.flows.estimators.table import Rehearsed
from causalveil.flows.estimators.words import OF_A_PAPER, WHOLE_RANGE, Importance, Sentence, Words, say_imbalance
from causalveil.schemas.estimators.ipw import IpwStudy, Weighting
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.study import Variant
from causalveil.tasks.covariates import dimension
from causalveil.tasks.inference.assemble import Findings, Noise
from causalveil.tasks.ipw import interval, weights
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models import logistic
from causalveil.tasks.report.numbers import number

PROPENSITY = Stage[IpwStudy, FloatArray](
    "propensity",
    lambda step: logistic.propensity_stage(*step.given, step.budget),
    charges=lambda study, sizes: [(logistic.SLOT, logistic.model(study, sizes).mechanism())],
    reads=(HALVES,),
)
WEIGH = Stage[IpwStudy, None](
    "weigh", lambda step: weights.weigh_stage(*step.given, step[PROPENSITY]), reads=(HALVES, PROPENSITY)
)
PERTURB = Stage[IpwStudy, FloatArray](
    "perturb",
    lambda step: weights.perturb_stage(*step.given, step.budget),
    charges=lambda study, sizes: [(weights.SLOT, weights.mechanism(study, sizes))],
    reads=(WEIGH,),
)
INTERVAL = Stage[IpwStudy, Findings](
    "interval",
    lambda step: interval.interval_stage(step.study, step.sizes, step[PROPENSITY], step[PERTURB]),
    reads=(PROPENSITY, PERTURB),
)


def _stages(study: IpwStudy) -> Stages:
    if study.privacy.level is Level.label:
        # Where scores are public, so are weights.
        return label.STAGES
    return (*ENTRY, HALVES, PROPENSITY, WEIGH, PERTURB, INTERVAL)


def words(study: IpwStudy, sizes: Sizes, stand_in: StandIn, found: Sequence[Rehearsed]) -> Words:
    """Return what noise, the penalty and the clip do to the adjustment."""
    if not study.asks_one:
        return of_several.words(study, sizes, stand_in, found)
    if study.privacy.level is Level.label:
        return Words(say_imbalance(found))
    settings = study.estimator
    noise = Noise.of(logistic.model(study, sizes).mechanism(), dimension(study)).deviation
    kept = interval.adjustment_share(study, stand_in.treated)
    allows = settings.confounding_prior.outcome_r2 > 0
    sentences = [
        f"Propensity model: noise of standard deviation {noise:.3g} on each coefficient.",
        f"The penalty, {settings.penalty:g}, keeps the norm of the coefficients below "
        f"{logistic.coefficient_bound(settings.penalty):.3g} and shrinks each to about {kept:.0%}.",
        "For what noise and penalty leave, the interval allows for the confounding that `confounding_prior` assumes."
        if allows
        else Sentence(
            Importance.wrong,
            "The interval covers neither the noise on the propensity model's coefficients nor their shrinkage.",
        ),
    ]
    numbers: dict[str, Any] = {"propensity_noise": noise, "adjustment": kept}
    if settings.weighting is Weighting.horvitz_thompson:
        bias = interval.lemma3_bound(study, sizes, stand_in)
        numbers["propensity_bias_bound"] = bias if bias != float("inf") else None
        sentences.append(
            f"Bias from the propensity noise: at most {number(bias, 3)}, if fitted scores are right and none is "
            "clipped (Lemma 3, corrected)."
        )
    return Words(sentences, numbers)


def warned(study: IpwStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]) -> list[str]:
    """Return warnings of a penalty that takes the adjustment, or of too much noise."""
    if not study.asks_one:
        return [*of_several.warned(study, sizes, stand_in, few), OF_A_PAPER[study.privacy.level]]
    warnings, kept = list[str](), interval.adjustment_share(study, stand_in.treated)
    if study.privacy.level is not Level.label and kept < interval.ENOUGH:
        said = "Unless treatment was randomised, lower it as far as the noise on the coefficients allows."
        if study.estimator.confounding_prior.outcome_r2 > 0:
            said = "The interval allows for the confounding that `confounding_prior` assumes. Estimator 'auto' adjusts "
            said += "for more of it, if size and budget allow."
        warnings.append(
            f"the penalty, {study.estimator.penalty:g}, shrinks the propensity model: about {kept:.0%} of each "
            f"coefficient is left, and as much of the adjustment. {said}"
        )
    if mostly_whole(few()):
        warnings.append(WHOLE_RANGE)
    # At level training_units nothing else answers.
    return [*warnings, OF_A_PAPER[study.privacy.level]] if study.privacy.level in OF_A_PAPER else warnings


def rehearsal(study: IpwStudy) -> Rehearsal:
    """Return how a plan rehearses a study.

    The paper's noise holds up to epsilon 1 alone, which stays.
    """
    randomised = study.estimator.confounding_prior.outcome_r2 == 0
    if study.privacy.level is Level.label:
        return label.rehearsal(study, rows_weighed(study), rows_weighed(study), LASTING)
    if study.estimator.variant is Variant.paper:
        return Rehearsal(rows_weighed(study), as_it_is, randomised, columns=dimension(study))
    return Rehearsal(QUICK, as_noisy, randomised, columns=dimension(study))


IPW = Estimator(IpwStudy, _stages, rehearsal=rehearsal, words=words, warned=warned)
