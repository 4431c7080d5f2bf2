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

from causalveil.flows.estimators import label, table_plan
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
from causalveil.flows.estimators.words import OF_A_PAPER, Words, say_imbalance
from causalveil.schemas.estimators.ipw import IpwStudy, Weighting
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.remarks import PlanCode, Remark, remark
from causalveil.schemas.study import Variant
from causalveil.tasks.data.covariates import dimension
from causalveil.tasks.estimate.interval import Findings, Noise
from causalveil.tasks.estimate.models import logistic
from causalveil.tasks.estimate.papers.ipw import interval, weights
from causalveil.tasks.machine.arrays import FloatArray
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
        return table_plan.words(study, sizes, stand_in, found)
    if study.privacy.level is Level.label:
        return Words(say_imbalance(found))
    settings = study.estimator
    noise = Noise.of(logistic.model(study, sizes).mechanism(), dimension(study)).deviation
    kept = interval.adjustment_share(study, stand_in.treated)
    allows = settings.bias() > 0
    sentences = [
        remark(PlanCode.propensity_noise, noise=noise),
        remark(
            PlanCode.shrinkage,
            penalty=settings.penalty,
            bound=logistic.coefficient_bound(settings.penalty),
            kept=kept,
        ),
        remark(PlanCode.prior_allowed if allows else PlanCode.models_uncovered),
    ]
    numbers: dict[str, Any] = {"propensity_noise": noise, "adjustment": kept}
    if settings.weighting is Weighting.horvitz_thompson:
        bias = interval.lemma3_bound(study, sizes, stand_in)
        numbers["propensity_bias_bound"] = bias if bias != float("inf") else None
        sentences.append(remark(PlanCode.lemma_3, bias=number(bias, 3)))
    return Words(sentences, numbers)


def warned(study: IpwStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]) -> list[Remark]:
    """Return warnings of a penalty that takes the adjustment, or of too much noise."""
    if not study.asks_one:
        return [*table_plan.warned(study, sizes, stand_in, few), OF_A_PAPER[study.privacy.level]]
    warnings, kept = list[Remark](), interval.adjustment_share(study, stand_in.treated)
    if study.privacy.level is not Level.label and kept < interval.ENOUGH:
        code = PlanCode.penalty_allowed if study.estimator.bias() > 0 else PlanCode.penalty
        warnings.append(remark(code, penalty=study.estimator.penalty, kept=kept))
    if mostly_whole(few()):
        warnings.append(remark(PlanCode.whole_range))
    # At level training_units nothing else answers.
    return [*warnings, OF_A_PAPER[study.privacy.level]] if study.privacy.level in OF_A_PAPER else warnings


def rehearsal(study: IpwStudy) -> Rehearsal:
    """Return how a plan rehearses a study.

    The paper's noise holds up to epsilon 1 alone, which stays.
    """
    randomised = study.estimator.trial
    if study.privacy.level is Level.label:
        return label.rehearsal(study, rows_weighed(study), rows_weighed(study), LASTING)
    if study.estimator.variant is Variant.paper:
        return Rehearsal(rows_weighed(study), as_it_is, randomised, columns=dimension(study))
    return Rehearsal(QUICK, as_noisy, randomised, columns=dimension(study))


IPW = Estimator(IpwStudy, _stages, rehearsal=rehearsal, words=words, warned=warned)
