"""A protocol of times to an event (``docs/proofs/survival.md``, section 10):

1  each person's cell: subgroup, arm, interval, kind of event or censored; square root of suffix sums    cells
2  every question of every subgroup and arm: intervals one by one and all together, curves, tests        answers, public
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from causalveil.flows.estimators.estimator import VALIDATE, Estimator, normalised_by
from causalveil.flows.estimators.rehearsal import Rehearsed
from causalveil.flows.estimators.stage import Stage
from causalveil.flows.estimators.words import ELIGIBLE_NOT_TOLD, UNADJUSTED, Words
from causalveil.schemas.estimators.survival_protocol import SurvivalProtocol
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import Missing
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.survival import joint_answers as answers
from causalveil.tasks.survival.expected import expected_rows, served
from causalveil.tasks.survival.strategy import SLOT

NORMALISE = normalised_by(lambda: answers.normalise_joint_times)
CELLS = Stage[SurvivalProtocol, FloatArray](
    "cells",
    lambda step: answers.release_joint_stage(*step.given, step.budget),
    charges=lambda study, sizes: [(SLOT, served(study, sizes))],
    reads=(NORMALISE,),
)
ANSWERS = Stage[SurvivalProtocol, answers.TimesTable](
    "answers",
    lambda step: answers.table_stage(step.study, step.sizes, step[CELLS]),
    reads=(CELLS,),
)


def drawn(study: SurvivalProtocol, sizes: Sizes, stand_in: StandIn, many: int) -> list[Rehearsed]:
    """Return the first question, and with it all rows: computed, without a draw."""
    del many
    rows = expected_rows(study, sizes, stand_in)
    first = rows[0]
    whole = first.everybody >= study.questions[0].span
    return [Rehearsed(first.everybody, first.noise_error, first.sampling_error, whole_range=whole, found=rows)]


def words(study: SurvivalProtocol, sizes: Sizes, stand_in: StandIn, found: Sequence[Rehearsed]) -> Words:
    """Return half-widths of every question, by itself and with all others."""
    del sizes
    sentences = [f"One release for all: {study.question}."]
    if study.where and stand_in.eligible is None:
        sentences.append(ELIGIBLE_NOT_TOLD)
    for row in found[0].found:
        said = f"{row.outcome}: ± {row.everybody:.4g}, all answers together ± {row.everybody_together:.4g}"
        if study.subgroups is not None:
            said += f"; {row.group:.4g} ({row.group_together:.4g}) in a subgroup of average size"
        sentences.append(f"{said}.")
    arms = f"a treated share of {stand_in.treated:g}" if len(study.arm_names) == 2 else "arms of one size"
    sentences.append(
        f"That is for {arms}, a risk of {study.expect.risk:.0%} and {study.expect.lost:.0%} lost until "
        f"{study.horizons[-1]:g} in all arms: state others under 'expect'."
    )
    return Words(sentences, {"answers": [vars(row) for row in found[0].found]})


def warned(study: SurvivalProtocol, sizes: Sizes, stand_in: StandIn, whole_range: Callable[[], bool]) -> list[str]:
    """Return warnings of subgroups that noise would hide, and those of all times."""
    del whole_range
    return _warnings(study, any(row.whole_range for row in expected_rows(study, sizes, stand_in)))


def _warnings(study: SurvivalProtocol, hidden: bool) -> list[str]:
    """Return warnings of no adjustment, people without a time, and subgroups that noise would hide."""
    outcome = study.outcomes[0]
    warnings = [] if study.estimator.trial else [UNADJUSTED]
    missing = [
        name
        for name, nulls in ((outcome.time, outcome.time_nulls), (outcome.event, outcome.event_nulls))
        if nulls is Missing.indicator
    ]
    if missing:
        warnings.append(f"who has no value of {' or '.join(map(repr, missing))} counts as censored at once.")
    if hidden:
        where = "of a subgroup of average size " if study.subgroups is not None else ""
        warnings.append(
            f"too few people {where}would be seen at risk at {study.horizons[-1]:g} through the noise: intervals would "
            "be the whole range. Ask for an earlier horizon, fewer subgroups, or for more epsilon."
        )
    return warnings


SURVIVAL_PROTOCOL = Estimator(
    SurvivalProtocol,
    (VALIDATE, NORMALISE, CELLS, ANSWERS),
    drawn=drawn,
    words=words,
    warned=warned,
    facts=("treated", "mean", "deviation"),
)
"""Many questions of times to an event, of the arms as they are."""
