"""Times to an event (``docs/proofs/survival.md``):

1  each person's cell: subgroup, arm, interval, kind of event or censored; square root of suffix sums    cells
2  with covariates: a table of outcomes of every question, subgroup and arm                           outcomes, public
       five joint releases of an adjustment on these outcomes                                       scales, ... scores
3  every question of every subgroup and arm: intervals one by one and all together, curves, tests        answers, public
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Any

from causalveil.flows.estimators.estimator import VALIDATE, Estimator, Stages, normalised_by
from causalveil.flows.estimators.regression import clustered_in, clusters_stage, joint_stages
from causalveil.flows.estimators.rehearsal import FEW, QUESTIONS, QUICK, Made, Rehearsal, summed
from causalveil.flows.estimators.stage import Stage, StageRun, recalled
from causalveil.flows.estimators.table import Rehearsed, middle_of
from causalveil.flows.estimators.table_plan import equal_arms
from causalveil.flows.estimators.words import Words, say_row, stated_terms
from causalveil.schemas.columns import Missing
from causalveil.schemas.estimators.survival import Beyond, SurvivalStudy, TimeToEvent
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.remarks import PlanCode, Remark, remark
from causalveil.tasks.data.covariates import dimension
from causalveil.tasks.data.enclave import MemoryEnclave
from causalveil.tasks.estimate.adjust import questions
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.people import PEOPLE, counted_units
from causalveil.tasks.estimate.times import answers, pseudo, releases
from causalveil.tasks.estimate.times.curves import SLOT
from causalveil.tasks.estimate.times.people import counted_kinds, noise_at_risk, people_of_times
from causalveil.tasks.estimate.times.pseudo import TimesOutcomes
from causalveil.tasks.estimate.times.releases import budget_of, grid_of, served
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.report.numbers import number

# A question is told to be hidden where this share of its answers is; and what part of the time of an adjustment one
# answer takes.
MOSTLY, ANSWER = 0.5, QUESTIONS / 2

Step = StageRun[SurvivalStudy]


NORMALISE = normalised_by(lambda: releases.normalise_times)
CELLS = Stage[SurvivalStudy, FloatArray](
    "cells",
    lambda step: releases.release_stage(*step.given, step.budget, step.times),
    charges=lambda study, sizes: [(SLOT, served(study, sizes))],
    reads=(NORMALISE,),
)


ANSWERS = Stage[SurvivalStudy, Findings](
    "answers", lambda step: answers.table_stage(step.study, step.sizes, step[CELLS]), reads=(CELLS,)
)
OUTCOMES = Stage[SurvivalStudy, TimesOutcomes](
    "outcomes",
    lambda step: pseudo.times_outcomes_stage(step.study, step.sizes, step[CELLS]),
    reads=(CELLS,),
)


plan = recalled(pseudo.times_recipe)


FIVE = joint_stages(
    plan,
    lambda step: pseudo.people_of(step.enclave, step[OUTCOMES]),
    rows=(NORMALISE, OUTCOMES),
    known=lambda step, scales: pseudo.known_scales(step[OUTCOMES], scales),
)


def _units_of(step: Step) -> FloatArray:
    return step[OUTCOMES].units_of(step.study)


CLUSTERS = clusters_stage(
    plan,
    lambda step: pseudo.people_of(step.enclave, step[OUTCOMES]),
    (NORMALISE, OUTCOMES),
    FIVE,
    _units_of,
)


def _adjusted(step: Step) -> Findings:
    """Return adjusted answers, beside curves of the arms as they are."""
    clustered = clustered_in(step, plan(step.study, step.sizes), FIVE, CLUSTERS, _units_of(step))
    asked = questions.with_scores(step[FIVE.again], step[FIVE.scores], clustered)
    five = step[CELLS], step[OUTCOMES], asked, step[FIVE.scales]
    return pseudo.times_findings(step.study, step.sizes, *five, clustered)


ADJUSTED = Stage[SurvivalStudy, Findings](
    "adjusted answers", _adjusted, reads=(CELLS, OUTCOMES, FIVE.scales, FIVE.again, FIVE.scores, CLUSTERS)
)


def stages_of(study: SurvivalStudy) -> Stages:
    """Return the stages of a study: with covariates those of the adjustment too."""
    if not study.covariates:
        return (VALIDATE, NORMALISE, CELLS, ANSWERS)
    clusters = () if study.clusters is None else (CLUSTERS,)
    return (VALIDATE, NORMALISE, CELLS, OUTCOMES, *FIVE.all, *clusters, ADJUSTED)


def words(study: SurvivalStudy, sizes: Sizes, stand_in: StandIn, found: Sequence[Rehearsed]) -> Words:
    """Return half-widths of every question, by itself and with all others, and the grid."""
    rows = middle_of(found)
    releases = "One budget" if study.covariates else "One release"
    sentences = [remark(PlanCode.asked, releases=releases, question=study.question)]
    for row in rows:
        group = None if study.subgroups is None else (row.group, row.group_together)
        how = row.adjustment if study.covariates else ""
        sentences.append(say_row(row.outcome, row.everybody, row.everybody_together, group, how))
    arms = f"a treated share of {stand_in.treated:g}" if len(study.arm_names) == 2 else "arms of one size"
    kinds = " of each kind of event" if len(counted_kinds(study)) > 1 else ""
    grid, at_risk = grid_of(study, sizes.units), noise_at_risk(study, sizes)
    length = number((grid.horizon - grid.start) / grid.intervals)
    sentences += [
        remark(
            PlanCode.assumed_times,
            arms=arms,
            kinds=kinds,
            risk=study.expect.risk,
            lost=study.expect.lost,
            horizon=study.horizons[-1],
        ),
        remark(
            PlanCode.grid,
            intervals=grid.intervals,
            length=f"{'about ' if len(study.horizons) > 1 else ''}{length}",
            unit=_unit(study),
            rule=_ruled(study, sizes),
        ),
        remark(PlanCode.at_risk, noise=float(at_risk)),
    ]
    if grid.entries:
        sentences.insert(-2, remark(PlanCode.assumed_entries, horizon=study.horizons[-1]))
    numbers = {"answers": [vars(row) for row in rows], "intervals": grid.intervals, "at_risk_noise": at_risk}
    return Words(sentences, numbers, name=f"the {rows[study.first].outcome}")


def _unit(study: SurvivalStudy) -> str:
    unit = study.outcomes[0].unit_of_measure
    return "" if unit is None else f" {unit}"


def _ruled(study: SurvivalStudy, sizes: Sizes) -> str:
    """Return n mu, which sized the grid; empty if intervals are declared or delta is 0."""
    if study.intervals is not None or study.privacy.delta == 0:
        return ""
    cells = len(study.groups) * study.censoring.groups * len(study.arm_names) / 2
    return f" (n mu = {sizes.units / cells * budget_of(study):.4g})"


def warned(
    study: SurvivalStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]
) -> list[Remark]:
    """Return warnings of no adjustment, missing times, pooled strata, and late horizons."""
    del sizes, stand_in
    draws = few()
    warnings = [] if study.estimator.trial or study.covariates else [remark(PlanCode.unadjusted_times)]
    warnings += [*stated_terms(study), *without_time(study.outcomes[0]), *_pooled(study, draws)]
    followed, horizon = 1 - study.expect.lost, study.horizons[-1]
    # A study that restricts its measures answers until an earlier time, and any other not at all.
    earlier = study.censoring.beyond is Beyond.restrict
    then = "measures would end earlier" if earlier else "the interval would be the whole range"
    short = sum(any(row.restricted_to is not None for row in draw.found.answers) for draw in draws) * 2 > len(draws)
    if study.covariates and followed < study.censoring.floor:
        warnings.append(remark(PlanCode.below_floor, followed=followed, horizon=horizon, then=then))
    elif short or any(row.hidden > MOSTLY for row in middle_of(draws)):
        where = "of a subgroup of average size " if study.subgroups is not None else ""
        fewer = ", fewer subgroups" if study.subgroups is not None else ""
        warnings.append(remark(PlanCode.few_at_risk, where=where, horizon=horizon, then=then, fewer=fewer))
    return warnings


def _pooled(study: SurvivalStudy, draws: Sequence[Rehearsed]) -> list[Remark]:
    """Return the warning of strata that the run would pool; empty if it would pool none."""
    many = study.censoring.groups
    told = round(median(_strata(draw.found) for draw in draws))
    if told == many:
        return []
    return [remark(PlanCode.pooled_strata, left=told, strata=many)]


def _strata(found: Findings) -> float:
    """Return how many strata of censoring a subgroup has after pooling."""
    return fmean([int(many) for key, many in found.details.items() if key.startswith("strata")] or [1])


def without_time(outcome: TimeToEvent) -> list[Remark]:
    """Return the warning of people without a time, who count as censored at once.

    Where people may enter late they are never at risk, as those who have no entry.
    """
    columns = [(outcome.time, outcome.time_nulls), (outcome.event, outcome.event_nulls)]
    columns += [] if outcome.entry is None else [(outcome.entry, outcome.entry_nulls)]
    missing = " or ".join(f"'{name}'" for name, nulls in columns if nulls is Missing.indicator)
    code = PlanCode.no_time if outcome.entry is None else PlanCode.never_at_risk
    return [remark(code, columns=missing)] if missing else []


def _people(study: Any, made: Made) -> MemoryEnclave:
    return people_of_times(study, made.stand_in, made.count, made.sample)


def rehearsal(study: SurvivalStudy) -> Rehearsal:
    """Return how a plan rehearses a study.

    Its people have events and losses at constant rates.
    """
    many = len(study.questions) * len(study.groups) * (len(study.arm_names) - 1)
    return Rehearsal(
        min(PEOPLE * many, QUICK) if study.covariates else QUICK,
        summed,
        randomised=study.estimator.trial,
        told=equal_arms(study),
        make=_people,
        units=counted_units,
        # Of cells alone draws differ little: one is a point of a curve.
        point=FEW if study.covariates else 1,
        columns=dimension(study.bounded.questions[0]) if study.covariates else 0,
        questions=many if study.covariates else many * ANSWER,
    )


def facts(study: SurvivalStudy) -> tuple[str, ...]:
    """Return the facts that the width of a study depends on."""
    adjusted = ("explained", "correlation", "distance") if study.covariates else ()
    return ("treated", "risk", "lost", "eligible", *adjusted)


SURVIVAL = Estimator(SurvivalStudy, stages_of, rehearsal=rehearsal, words=words, warned=warned, facts=facts)
"""Time to event: curves, risks and restricted mean survival times of the arms, as they are or adjusted."""
