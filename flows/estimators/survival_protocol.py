"""A protocol of times to an event (``docs/proofs/survival.md``, sections 10 and 12):

1  each person's cell: subgroup, arm, interval, kind of event or censored; square root of suffix sums    cells
2  with covariates: a table of outcomes of every question, subgroup and arm                           outcomes, public
       five joint releases of an adjustment on these outcomes                                       scales, ... scores
3  every question of every subgroup and arm: intervals one by one and all together, curves, tests        answers, public
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from causalveil.flows.estimators.estimator import VALIDATE, Estimator, Stages, normalised_by
from causalveil.flows.estimators.five_releases import joint_stages
from causalveil.flows.estimators.rehearsal import FEW, QUICK, Rehearsal, Rehearsed, summed
from causalveil.flows.estimators.stage import Stage, StageRun, recalled
from causalveil.flows.estimators.survival import without_time
from causalveil.flows.estimators.table import middle_of, of_table
from causalveil.flows.estimators.words import OTHERWISE, UNADJUSTED_TIMES, Importance, Sentence, Words, say_row
from causalveil.schemas.estimators.survival_protocol import SurvivalProtocol
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.covariates import dimension
from causalveil.tasks.inference.people import counted_units
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.protocols import questions, times
from causalveil.tasks.survival import joint_answers as answers
from causalveil.tasks.survival.joint import served
from causalveil.tasks.survival.people import counted_kinds, people_of_many_times
from causalveil.tasks.survival.strategy import SLOT

# A question is told to be hidden where this share of its answers is; and what part of the time of an adjustment one
# answer takes.
MOSTLY, ANSWER = 0.5, 0.5

NORMALISE = normalised_by(lambda: answers.normalise_joint_times)
CELLS = Stage[SurvivalProtocol, FloatArray](
    "cells",
    lambda step: answers.release_joint_stage(*step.given, step.budget, step.times),
    charges=lambda study, sizes: [(SLOT, served(study, sizes))],
    reads=(NORMALISE,),
)
ANSWERS = Stage[SurvivalProtocol, answers.TimesTable](
    "answers",
    lambda step: answers.table_stage(step.study, step.sizes, step[CELLS]),
    reads=(CELLS,),
)


OUTCOMES = Stage[SurvivalProtocol, times.TimesOutcomes](
    "outcomes",
    lambda step: times.times_outcomes_stage(step.study, step.sizes, step[CELLS]),
    reads=(CELLS,),
)

plan = recalled(times.times_recipe)
FIVE = joint_stages(
    plan,
    lambda step: times.people_of(step.enclave, step[OUTCOMES]),
    rows=(NORMALISE, OUTCOMES),
    known=lambda step, scales: step[OUTCOMES].known(scales),
)


def _adjusted(step: StageRun[SurvivalProtocol]) -> answers.TimesTable:
    """Return the table of adjusted answers, beside curves of the arms as they are or adjusted."""
    asked = questions.with_scores(step[FIVE.again], step[FIVE.scores])
    return times.times_findings(step.study, step.sizes, step[CELLS], step[OUTCOMES], asked, step[FIVE.scales])


ADJUSTED = Stage[SurvivalProtocol, answers.TimesTable](
    "adjusted answers", _adjusted, reads=(CELLS, OUTCOMES, FIVE.scales, FIVE.again, FIVE.scores)
)


def stages_of(study: SurvivalProtocol) -> Stages:
    """Return the stages of a protocol: with covariates those of the adjustment too."""
    if not study.covariates:
        return (VALIDATE, NORMALISE, CELLS, ANSWERS)
    return (VALIDATE, NORMALISE, CELLS, OUTCOMES, *FIVE.all, ADJUSTED)


def words(study: SurvivalProtocol, sizes: Sizes, stand_in: StandIn, found: Sequence[Rehearsed]) -> Words:
    """Return half-widths of every question, by itself and with all others."""
    del sizes
    one = "One budget" if study.covariates else "One release"
    rows, sentences = middle_of(found), [Sentence(Importance.expected, f"{one} for all: {study.question}.")]
    for row in rows:
        group = None if study.subgroups is None else (row.group, row.group_together)
        said = say_row(row.outcome, row.everybody, row.everybody_together, group)
        how = f" {row.adjustment[:1].upper()}{row.adjustment[1:]}." if study.covariates else ""
        sentences.append(Sentence(Importance.expected, f"{said}{how}"))
    arms = f"a treated share of {stand_in.treated:g}" if len(study.arm_names) == 2 else "arms of one size"
    kinds = " of each kind of event" if len(counted_kinds(study)) > 1 else ""
    sentences.append(
        Sentence(
            Importance.expected,
            f"That is for {arms}, a risk of {study.expect.risk:.0%}{kinds} and {study.expect.lost:.0%} lost until "
            f"{study.horizons[-1]:g} in all arms. {OTHERWISE}",
        )
    )
    return Words(sentences, {"answers": [vars(row) for row in rows]}, name=f"the {rows[study.first].outcome}")


def warned(
    study: SurvivalProtocol, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]
) -> list[str]:
    """Return warnings of no adjustment, missing times, and subgroups that noise hides."""
    del sizes, stand_in
    warnings = [] if study.estimator.trial or study.covariates else [UNADJUSTED_TIMES]
    warnings += without_time(study.outcomes[0])
    if study.covariates and 1 - study.expect.lost < study.censoring.floor:
        warnings.append(
            Sentence(
                Importance.hidden,
                f"{1 - study.expect.lost:.0%} are expected to be followed to {study.horizons[-1]:g}, below "
                "'censoring.floor': the interval would be the whole range. Ask for an earlier horizon.",
            )
        )
    elif any(row.hidden > MOSTLY for row in middle_of(few())):
        where = "of a subgroup of average size " if study.subgroups is not None else ""
        warnings.append(
            Sentence(
                Importance.hidden,
                f"too few people {where}would be seen at risk at {study.horizons[-1]:g} through the noise: intervals "
                "would be the whole range. Ask for an earlier horizon, fewer subgroups, or for more epsilon.",
            )
        )
    return warnings


def rehearsal(study: SurvivalProtocol) -> Rehearsal:
    """Return how a plan rehearses a protocol.

    Its people have events and losses at constant rates.
    """
    arms, answers = len(study.arm_names), len(study.questions) * len(study.groups) * (len(study.arm_names) - 1)

    def told(stand_in: StandIn) -> StandIn:
        return stand_in if arms == 2 else stand_in.model_copy(update={"treated": 1 - 1 / arms})

    return Rehearsal(
        QUICK,
        summed,
        randomised=study.estimator.trial,
        told=told,
        make=lambda study, made: people_of_many_times(study, made.stand_in, made.count, made.sample),
        units=counted_units,
        point=FEW if study.covariates else 1,
        read=lambda smaller, found: of_table(smaller, found.answers, study.first),
        columns=dimension(study.bounded.questions[0]) if study.covariates else 0,
        questions=answers if study.covariates else answers * ANSWER,
    )


def facts(study: SurvivalProtocol) -> tuple[str, ...]:
    """Return the facts that the width of a protocol depends on."""
    adjusted = ("explained", "correlation", "distance") if study.covariates else ()
    return ("treated", "risk", "lost", "eligible", *adjusted)


SURVIVAL_PROTOCOL = Estimator(
    SurvivalProtocol,
    stages_of,
    rehearsal=rehearsal,
    words=words,
    warned=warned,
    facts=facts,
)
"""Many questions of times to an event, of the arms as they are."""
