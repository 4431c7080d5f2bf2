"""The time to an event in two arms (``docs/proofs/survival.md``):

1  each person's cell: arm, interval, kind of event or censored; square root of suffix sums    cells
2  curves with bands, risks, restricted mean survival times, log-rank test                     answer, public
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.estimators.estimator import Estimator
from causalveil.flows.estimators.shared import VALIDATE, normalised_by
from causalveil.flows.estimators.stage import Stage
from causalveil.flows.planning.sentences import UNADJUSTED, say_effect
from causalveil.schemas.estimators.survival import Measure, SurvivalStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import Missing
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.survival import stages
from causalveil.tasks.survival.expected import expected_contrasts
from causalveil.tasks.survival.findings import SurvivalFindings
from causalveil.tasks.survival.grid import budget_of
from causalveil.tasks.survival.strategy import SLOT, mechanism

NORMALISE = normalised_by(lambda: stages.normalise_survival_stage)
CELLS = Stage[SurvivalStudy, FloatArray](
    "cells",
    lambda step: stages.release_stage(*step.given, step.budget),
    charges=lambda study, _: [(SLOT, mechanism(study))],
    reads=(NORMALISE,),
)
ANSWER = Stage[SurvivalStudy, SurvivalFindings](
    "answer",
    lambda step: stages.answer_stage(step.study, step.sizes, step[CELLS]),
    reads=(CELLS,),
)
WORDS = {Measure.risk: "risk difference", Measure.rmst: "difference of restricted mean survival times"}


def expected(study: SurvivalStudy, sizes: Sizes, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """Expected half-widths of every measure, and what they are made of.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the share of the treated that the reader assumes.
        effect: an effect in units of the first measure that the reader hopes to see.
    """
    both, contrasts = expected_contrasts(study, sizes, stand_in)
    halves = [(one.upper - one.lower) / 2 for one in contrasts]
    first, grid, outcome = contrasts[0], both.grid, study.outcome
    numbers: dict[str, Any] = {
        "treated": stand_in.treated,
        "half_width": halves[0],
        "noise_standard_error": first.noise**0.5,
        "sampling_standard_error": first.sampling**0.5,
        "whole_range": first.whole_range,
        "half_widths": {str(measure): half for measure, half in zip(study.measure, halves, strict=True)},
        "intervals": grid.intervals,
        "at_risk_noise": float(both.at_risk_error[:, -1].max()),
    }
    unit = "" if outcome.unit_of_measure is None else f" {outcome.unit_of_measure}"
    sentences = [
        f"Expected {study.confidence:.0%} interval of the {WORDS[measure]}: estimate ± {half:.4g} (standard error "
        f"{one.sampling**0.5:.3g} from sampling, {one.noise**0.5:.3g} from noise)."
        for measure, half, one in zip(study.measure, halves, contrasts, strict=True)
    ]
    sentences += [
        f"That is for a treated share of {stand_in.treated:g}, a risk of {study.expect.risk:.0%} and "
        f"{study.expect.lost:.0%} lost in both arms: state others under 'expect'.",
        f"{grid.intervals} intervals of {grid.horizon / grid.intervals:.4g}{unit}{_ruled(study, sizes)}.",
        f"Numbers at risk have noise of {numbers['at_risk_noise']:.3g} people in the last interval.",
    ]
    warnings = [] if study.estimator.trial else [UNADJUSTED]
    missing = [
        name
        for name, nulls in ((outcome.time, outcome.time_nulls), (outcome.event, outcome.event_nulls))
        if nulls is Missing.indicator
    ]
    if missing:
        warnings.append(f"who has no value of {' or '.join(map(repr, missing))} counts as censored at once.")
    if first.whole_range:
        warnings.append(
            f"too few would be seen at risk at {outcome.horizon:g} through the noise: the interval would be the whole "
            "range. Ask for an earlier horizon, or for more epsilon."
        )
    if effect is not None:
        say_effect(effect, numbers, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}


def _ruled(study: SurvivalStudy, sizes: Sizes) -> str:
    """By which public numbers the grid was chosen."""
    if study.intervals is not None or study.privacy.delta == 0:
        return ""
    return f" (n mu = {sizes.units * budget_of(study):.4g})"


SURVIVAL = Estimator(SurvivalStudy, (VALIDATE, NORMALISE, CELLS, ANSWER), expected)
"""Time to event: curves, risks and restricted mean survival times of the arms as they are."""
