"""The time to an event in two arms (``docs/proofs/survival.md``):

1  each person's cell: arm, interval, kind of event or censored; square root of suffix sums    cells
2  with covariates, of each measure: a table of outcomes                                      outcomes, public
       five releases of an adjustment on these outcomes                                       scales, ... scores
3  curves with bands, risks, restricted mean survival times, log-rank test                     answer, public
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from causalveil.flows.estimators.estimator import VALIDATE, Estimator, Stages, normalised_by
from causalveil.flows.estimators.five_releases import FiveStages, Steps
from causalveil.flows.estimators.rehearsal import FEW, QUESTIONS, QUICK, Made, Rehearsal, Rehearsed, Smaller, summed
from causalveil.flows.estimators.stage import Stage, StageRun, recalled
from causalveil.flows.estimators.words import OTHERWISE, UNADJUSTED_TIMES, Importance, Sentence, Words
from causalveil.schemas.estimators.survival import Beyond, Measure, SurvivalStudy, TimeToEvent
from causalveil.schemas.estimators.survival_protocol import times_table
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import Missing
from causalveil.tasks.adjustment import five_releases
from causalveil.tasks.adjustment.five_releases import Drawn, FiveReleases
from causalveil.tasks.adjustment.recipe import AdjustmentRecipe
from causalveil.tasks.covariates import dimension
from causalveil.tasks.enclave.enclave import MemoryEnclave
from causalveil.tasks.inference.people import PEOPLE, counted_units
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.report.numbers import confidence_level, number
from causalveil.tasks.survival import joint_answers as answers
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
from causalveil.tasks.survival.findings import SurvivalFindings
from causalveil.tasks.survival.people import people_of_many_times, people_of_times
from causalveil.tasks.survival.pseudo import PseudoOutcomes
from causalveil.tasks.survival.strategy import SLOT, mechanism

Step = StageRun[SurvivalStudy]


def _normalise(study: SurvivalStudy, *where: Any) -> None:
    if study.covariates:
        stages.normalise_times(study, *where)
    else:
        answers.normalise_joint_times(times_table(study), *where)


def _release(step: Step) -> FloatArray:
    if step.study.covariates:
        return stages.release_stage(*step.given, step.budget, step.times)
    study, sizes, enclave = step.given
    return answers.release_joint_stage(times_table(study), sizes, enclave, step.budget, step.times)


NORMALISE = normalised_by(lambda: _normalise)
CELLS = Stage[SurvivalStudy, FloatArray](
    "cells", _release, charges=lambda study, _: [(SLOT, mechanism(study))], reads=(NORMALISE,)
)
ANSWER = Stage[SurvivalStudy, SurvivalFindings](
    "answer",
    lambda step: answers.one_row(step.study, answers.table_stage(times_table(step.study), step.sizes, step[CELLS])),
    reads=(CELLS,),
)
plan = recalled(adjusted_recipe)


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
        return Drawn(recipe, pieces, step.budget, step.study.execution.workers, step.times)

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


def read(smaller: Smaller[SurvivalStudy], found: SurvivalFindings) -> Rehearsed:
    """Return the first measure; the others are in what it was read from."""
    first, interval = found.measures[0], found.interval
    half, errors = (interval.upper - interval.lower) / 2, first.variance
    whole = interval.whole_range
    own = smaller.of_all(half, math.sqrt(errors.noise), math.sqrt(errors.sampling), interval.bias)
    return replace(own, half_width=half if whole else own.half_width, whole_range=whole, found=found)


def words(study: SurvivalStudy, sizes: Sizes, stand_in: StandIn, found: Sequence[Rehearsed]) -> Words:
    """Return the half-widths of every measure, and what they are made of."""
    outcome, first = study.outcome, found[0].found
    unit = "" if outcome.unit_of_measure is None else f" {outcome.unit_of_measure}"
    halves, sentences, intervals = dict[str, float](), list[str](), len(first.curves.times)
    for place, measure in enumerate(study.measure):
        own = [one.found.measures[place] for one in found]
        half = median((one.interval.upper - one.interval.lower) / 2 for one in own)
        sampling, noise = (median(math.sqrt(getattr(one.variance, of)) for one in own) for of in ("sampling", "noise"))
        halves[str(measure)] = half
        sentences.append(
            Sentence(
                Importance.expected,
                f"Expected {confidence_level(study.confidence)} interval of the {WORDS[measure]}: estimate "
                f"± {number(half, 3)} (standard error {number(sampling, 3)} from sampling, {number(noise, 3)} from "
                "noise).",
            )
        )
    at_risk = max(one.at_risk_error[-1] for one in first.curves.arms)
    sentences += [
        Sentence(
            Importance.expected,
            f"That is for a treated share of {stand_in.treated:g}, a risk of {study.expect.risk:.0%} and "
            f"{study.expect.lost:.0%} lost in both arms. {OTHERWISE}",
        ),
        f"{intervals} intervals of {number(outcome.horizon / intervals)}{unit}{_ruled(study, sizes)}.",
        f"Numbers at risk have noise of {number(at_risk, 3)} people in the last interval.",
    ]
    name = f"the {WORDS[study.measure[0]]}"
    return Words(sentences, {"half_widths": halves, "intervals": intervals, "at_risk_noise": at_risk}, name=name)


def warned(study: SurvivalStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]) -> list[str]:
    """Return warnings of no adjustment, missing times, or a horizon that too few reach."""
    del sizes, stand_in
    outcome, draws = study.outcome, few()
    # A study that restricts its measures answers until an earlier time, and any other not at all.
    short = sum(one.whole_range or one.found.restricted_to is not None for one in draws) * 2 > len(draws)
    warnings = [] if study.estimator.trial or study.covariates else [UNADJUSTED_TIMES]
    warnings += [*without_time(outcome), *_pooled(study, draws)]
    earlier, followed = study.censoring.beyond is Beyond.restrict, 1 - study.expect.lost
    then = "measures would end earlier" if earlier else "the interval would be the whole range"
    if study.covariates and followed < study.censoring.floor:
        warnings.append(
            Sentence(
                Importance.hidden,
                f"{followed:.0%} are expected to be followed to {outcome.horizon:g}, below 'censoring.floor': {then}. "
                "Ask for an earlier horizon.",
            )
        )
    elif short:
        warnings.append(
            Sentence(
                Importance.hidden,
                f"too few would be seen at risk at {outcome.horizon:g} through the noise: {then}. Ask for an earlier "
                "horizon, or for more epsilon.",
            )
        )
    return warnings


def _pooled(study: SurvivalStudy, draws: Sequence[Rehearsed]) -> list[str]:
    """Return the warning of strata that the run would pool; empty if it would pool none."""
    many = study.censoring.groups
    told = round(median(int(one.found.details.get("strata", 1)) for one in draws))
    if told == many:
        return []
    return [
        f"noise would leave about {told} of {many} strata of 'censoring.by': others are pooled with neighbours, and "
        "losses that follow pooled levels are not covered. Name fewer columns or levels, or ask for more epsilon."
    ]


def without_time(outcome: TimeToEvent) -> list[str]:
    """Return the warning of people without a time, who count as censored at once."""
    columns = ((outcome.time, outcome.time_nulls), (outcome.event, outcome.event_nulls))
    missing = [name for name, nulls in columns if nulls is Missing.indicator]
    return [f"who has no value of {' or '.join(map(repr, missing))} counts as censored at once."] if missing else []


def _ruled(study: SurvivalStudy, sizes: Sizes) -> str:
    """Return n mu, which sized the grid; empty if intervals are declared or delta is 0."""
    if study.intervals is not None or study.privacy.delta == 0:
        return ""
    return f" (n mu = {sizes.units / study.censoring.groups * budget_of(study):.4g})"


def _people(study: SurvivalStudy, made: Made) -> MemoryEnclave:
    if study.covariates:
        return people_of_times(study, made.stand_in, made.count, made.randomised, made.sample)
    return people_of_many_times(times_table(study), made.stand_in, made.count, made.sample)


def rehearsal(study: SurvivalStudy) -> Rehearsal:
    """Return how a plan rehearses a study.

    Its people have events and losses at constant rates.
    """
    return Rehearsal(
        PEOPLE if study.covariates else QUICK,
        summed,
        randomised=study.estimator.trial,
        make=_people,
        units=counted_units,
        # Of cells alone draws differ little: one is a point of a curve.
        point=FEW if study.covariates else 1,
        read=read,
        columns=dimension(study.bounded) if study.covariates else 0,
        questions=len(study.measure) if study.covariates else QUESTIONS,
    )


def facts(study: SurvivalStudy) -> tuple[str, ...]:
    """Return the facts that the width of a study depends on."""
    return (
        "treated",
        "risk",
        "lost",
        "eligible",
        *(("explained", "correlation", "distance") if study.covariates else ()),
    )


SURVIVAL = Estimator(SurvivalStudy, stages_of, rehearsal=rehearsal, words=words, warned=warned, facts=facts)
"""Time to event: curves, risks and restricted mean survival times of the arms, as they are or adjusted."""
