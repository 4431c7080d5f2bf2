"""The time to an event in two arms (``docs/proofs/survival.md``):

1  each person's cell: arm, interval, kind of event or censored; square root of suffix sums    cells
2  with covariates, of each measure: a table of outcomes                                      outcomes, public
       five releases of an adjustment on these outcomes                                       scales, ... scores
3  curves with bands, risks, restricted mean survival times, log-rank test                     answer, public
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from causalveil.flows.estimators.estimator import VALIDATE, Estimator, Stages, normalised_by
from causalveil.flows.estimators.five_releases import FiveStages, Steps
from causalveil.flows.estimators.rehearsal import Rehearsed
from causalveil.flows.estimators.stage import Stage, StageRun, recalled
from causalveil.flows.estimators.words import ELIGIBLE_NOT_TOLD, UNADJUSTED, Words
from causalveil.schemas.estimators.survival import Beyond, Measure, SurvivalStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import Missing
from causalveil.tasks.adjustment import five_releases
from causalveil.tasks.adjustment.five_releases import Drawn, FiveReleases
from causalveil.tasks.adjustment.recipe import AdjustmentRecipe
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.report.numbers import confidence_level
from causalveil.tasks.survival import stages
from causalveil.tasks.survival.adjusted import (
    ScalesOfPeople,
    adjusted_recipe,
    adjusted_stage,
    outcomes_stage,
    people,
    read_of,
)
from causalveil.tasks.survival.curves import budget_of
from causalveil.tasks.survival.expected import expected_adjusted, expected_contrasts
from causalveil.tasks.survival.findings import SurvivalFindings
from causalveil.tasks.survival.pseudo import PseudoOutcomes
from causalveil.tasks.survival.strategy import SLOT, mechanism

NORMALISE = normalised_by(lambda: stages.normalise_times)
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
plan = recalled(adjusted_recipe)
Step = StageRun[SurvivalStudy]


@dataclass(frozen=True)
class MeasureStages:
    """The stages by which one measure is adjusted.

    They are a public table of outcomes, and five releases on these.
    """

    outcomes: Stage[SurvivalStudy, PseudoOutcomes]
    five: FiveStages[SurvivalStudy, ScalesOfPeople, FiveReleases]

    @property
    def all(self) -> tuple[Stage[SurvivalStudy, Any], ...]:
        """In order."""
        return (self.outcomes, *self.five.all)


def _stages_of(measure: Measure) -> MeasureStages:
    """Return the stages of one measure; each release's name says of which."""

    def own(study: SurvivalStudy, sizes: Sizes | None) -> AdjustmentRecipe:
        return plan(study, sizes)[measure]

    def drawn(step: Step) -> Drawn:
        pieces = people(step.study, step.sizes, step.enclave, step[outcomes])
        recipe = read_of(own(step.study, step.sizes), step[outcomes].units)
        return Drawn(recipe, pieces, step.budget, step.study.execution.workers)

    def scales(step: Step) -> ScalesOfPeople:
        own_draws = drawn(step)
        return ScalesOfPeople(step[outcomes].known(own_draws.scales()), own_draws.recipe.public)

    outcomes = Stage[SurvivalStudy, PseudoOutcomes](
        f"outcomes of {measure}",
        lambda step: outcomes_stage(step.study, step.sizes, step[CELLS], measure),
        reads=(CELLS,),
    )
    five = FiveStages[SurvivalStudy, ScalesOfPeople, FiveReleases].of(
        Steps(
            own,
            drawn,
            scales,
            lambda _, found: found.begun,
            lambda _, asked, lines: five_releases.with_lines(asked, lines),
            five_releases.with_screen,
            five_releases.with_refit,
        ),
        rows=(NORMALISE, outcomes),
        ending=f" of {measure}",
    )
    return MeasureStages(outcomes, five)


OF_MEASURE = {measure: _stages_of(measure) for measure in Measure}


def _adjusted(step: Step) -> SurvivalFindings:
    """Return every measure of the study, adjusted, beside the curves of the arms as they are."""
    found = {
        measure: (step[own.outcomes], step[own.five.again], step[own.five.scores])
        for measure, own in OF_MEASURE.items()
        if measure in step.study.measure
    }
    return adjusted_stage(step.study, step.sizes, step[CELLS], found)


ADJUSTED = Stage[SurvivalStudy, SurvivalFindings](
    "adjusted answer",
    _adjusted,
    reads=(CELLS, *(stage for own in OF_MEASURE.values() for stage in (own.outcomes, own.five.again, own.five.scores))),
)


def stages_of(study: SurvivalStudy) -> Stages:
    """Return the stages of a study: with covariates those of each measure beside the cells."""
    if not study.covariates:
        return (VALIDATE, NORMALISE, CELLS, ANSWER)
    own = (stage for measure in study.measure for stage in OF_MEASURE[measure].all)
    return (VALIDATE, NORMALISE, CELLS, *own, ADJUSTED)


WORDS = {Measure.risk: "risk difference", Measure.rmst: "difference of restricted mean survival times"}


def drawn(study: SurvivalStudy, sizes: Sizes, stand_in: StandIn, many: int) -> list[Rehearsed]:
    """Return the first measure by so many draws, each with arms and all measures.

    Where nothing is adjusted there is one, without a draw.
    """
    if study.covariates:
        both, found = expected_adjusted(study, sizes, stand_in, many)
    else:
        both, contrasts = expected_contrasts(study, sizes, stand_in)
        found = [[one] for one in contrasts]
    return [
        Rehearsed(
            (first.upper - first.lower) / 2,
            math.sqrt(first.noise),
            math.sqrt(first.sampling),
            whole_range=first.whole_range,
            found=(both, [measure[place] for measure in found]),
        )
        for place, first in enumerate(found[0])
    ]


def words(study: SurvivalStudy, sizes: Sizes, stand_in: StandIn, found: Sequence[Rehearsed]) -> Words:
    """Return the half-widths of every measure, and what they are made of."""
    both, outcome = found[0].found[0], study.outcome
    by_measure = list(zip(*(one.found[1] for one in found), strict=True))
    halves = [median((one.upper - one.lower) / 2 for one in own) for own in by_measure]
    parts = [(median(one.sampling**0.5 for one in own), median(one.noise**0.5 for one in own)) for own in by_measure]
    grid, at_risk = both.grid, float(both.at_risk_error[:, -1].max())
    unit = "" if outcome.unit_of_measure is None else f" {outcome.unit_of_measure}"
    sentences = [
        f"Expected {confidence_level(study.confidence)} interval of the {WORDS[measure]}: estimate ± {half:.4g} "
        f"(standard error {sampling:.3g} from sampling, {noise:.3g} from noise)."
        for measure, half, (sampling, noise) in zip(study.measure, halves, parts, strict=True)
    ]
    sentences += [
        f"That is for a treated share of {stand_in.treated:g}, a risk of {study.expect.risk:.0%} and "
        f"{study.expect.lost:.0%} lost in both arms: state others under 'expect'.",
        f"{grid.intervals} intervals of {grid.horizon / grid.intervals:.4g}{unit}{_ruled(study, sizes)}.",
        f"Numbers at risk have noise of {at_risk:.3g} people in the last interval.",
    ]
    if study.where and stand_in.eligible is None:
        sentences.append(ELIGIBLE_NOT_TOLD)
    if study.covariates:
        sentences.append(
            f"Median of {len(found)} draws of noise. Assumed is a correlation of {stand_in.correlation:g}, and that "
            f"covariates explain {stand_in.explained:.0%} of the outcome."
        )
    numbers = {
        "half_widths": {str(measure): half for measure, half in zip(study.measure, halves, strict=True)},
        "intervals": grid.intervals,
        "at_risk_noise": at_risk,
    }
    return Words(sentences, numbers)


def warned(study: SurvivalStudy, sizes: Sizes, stand_in: StandIn, whole_range: Callable[[], bool]) -> list[str]:
    """Return warnings of no adjustment, people without a time, or too few of them."""
    both, _ = expected_contrasts(study, sizes, stand_in)
    return _warnings(study, both.seen < both.grid.intervals or whole_range(), 1 - study.expect.lost)


def _warnings(study: SurvivalStudy, unseen: bool, followed: float) -> list[str]:
    """Return warnings of no adjustment, people without a time, or a horizon that too few reach."""
    outcome = study.outcome
    warnings = [] if study.estimator.trial or study.covariates else [UNADJUSTED]
    missing = [
        name
        for name, nulls in ((outcome.time, outcome.time_nulls), (outcome.event, outcome.event_nulls))
        if nulls is Missing.indicator
    ]
    if missing:
        warnings.append(f"who has no value of {' or '.join(map(repr, missing))} counts as censored at once.")
    earlier = study.censoring.beyond is Beyond.restrict
    then = "measures would end earlier" if earlier else "the interval would be the whole range"
    if study.covariates and followed < study.censoring.floor:
        warnings.append(
            f"{followed:.0%} are expected to be followed to {outcome.horizon:g}, below 'censoring.floor': {then}. Ask "
            "for an earlier horizon."
        )
    elif unseen:
        warnings.append(
            f"too few would be seen at risk at {outcome.horizon:g} through the noise: {then}. Ask for an earlier "
            "horizon, or for more epsilon."
        )
    return warnings


def _ruled(study: SurvivalStudy, sizes: Sizes) -> str:
    """Return n mu, which sized the grid; empty if intervals are declared or delta is 0."""
    if study.intervals is not None or study.privacy.delta == 0:
        return ""
    return f" (n mu = {sizes.units / study.censoring.groups * budget_of(study):.4g})"


SURVIVAL = Estimator(SurvivalStudy, stages_of, drawn=drawn, words=words, warned=warned, facts=("treated",))
"""Time to event: curves, risks and restricted mean survival times of the arms, as they are or adjusted."""
