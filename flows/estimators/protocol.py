"""A protocol of many questions: joint releases, one table (``docs/proofs/questions.md``).

By regression, each question as in ``regression.py``, seen through joint releases:

    1  by subgroup: arms' sums of every outcome, histograms of covariates and outcomes       scales
    2  by subgroup: cross moments of lines with every outcome and the arms, Gram matrices        lines
       slopes and weights of every outcome, candidates of curves                               learn, public
    3  by subgroup: cross moments of candidates with what lines leave                         screen
       which are kept                                                                      choose, public
    4  as 2, of lines and kept curves                                                        refit
       slopes, weights, and where scores are cut                                      learn again, public
    5  by subgroup: sums of every outcome's scores and of their squares                     scores
       the table: estimates, intervals one by one and all together                        answers, public

By differences of arm means one release of sums has everything. At label level weights are public (``label.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from causalveil.flows.estimators import label
from causalveil.flows.estimators.estimator import CELLS, VALIDATE, Estimator, Stages
from causalveil.flows.estimators.five_releases import clusters_stage, joint_stages
from causalveil.flows.estimators.rehearsal import (
    QUICK,
    SLOW,
    Made,
    Rehearsal,
    Rehearsed,
    Results,
    Smaller,
    in_step,
    mostly_whole,
    summed,
)
from causalveil.flows.estimators.stage import Stage, StageRun, recalled
from causalveil.flows.estimators.table import middle_of, of_table
from causalveil.flows.estimators.words import (
    OF_A_PAPER,
    UNADJUSTED,
    WHOLE_RANGE,
    Importance,
    Sentence,
    Words,
    say_row,
    stated_terms,
)
from causalveil.schemas.confounding import declares_randomised
from causalveil.schemas.estimators.protocols import (
    BalancingProtocol,
    DifferenceProtocol,
    IpwProtocol,
    MatchingProtocol,
    RegressionProtocol,
)
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.protocols.study import OutcomeRole, ProtocolStudy
from causalveil.tasks.adjustment import questions
from causalveil.tasks.adjustment.recipe import joint_recipe
from causalveil.tasks.covariates import dimension
from causalveil.tasks.enclave import cells
from causalveil.tasks.enclave.enclave import MemoryEnclave
from causalveil.tasks.inference.people import PEOPLE, counted_units
from causalveil.tasks.protocols import difference
from causalveil.tasks.protocols.calibration import ENOUGH
from causalveil.tasks.protocols.findings import ProtocolFindings, findings
from causalveil.tasks.protocols.label import draw
from causalveil.tasks.protocols.people import people_of

plan = recalled(joint_recipe)
FIVE = joint_stages(plan, lambda step: cells.everybody(step.enclave), rows=(CELLS,))
CLUSTERS = clusters_stage(plan, lambda step: cells.everybody(step.enclave), (CELLS,), FIVE)


def _answers(step: StageRun[RegressionProtocol]) -> ProtocolFindings:
    totals = None if step.study.clusters is None else step[CLUSTERS]
    return findings(
        step.study, questions.with_scores(step[FIVE.again], step[FIVE.scores], totals), step[FIVE.scales], step.sizes
    )


ANSWERS = Stage[RegressionProtocol, ProtocolFindings](
    "answers", _answers, reads=(FIVE.scales, FIVE.again, FIVE.scores, CLUSTERS)
)


def _stages(study: RegressionProtocol) -> Stages:
    return (*ENTRY, *FIVE.all, *([] if study.clusters is None else [CLUSTERS]), ANSWERS)


DIFFERENCE = Stage[DifferenceProtocol, ProtocolFindings](
    "difference",
    lambda step: difference.difference_stage(*step.given, step.budget, step.times),
    charges=lambda study, sizes: difference.draws(study, sizes),
    reads=(CELLS,),
)


def words(study: ProtocolStudy, sizes: Sizes, stand_in: StandIn, found: Sequence[Rehearsed]) -> Words:
    """Return half-widths of all outcomes, and what leaving one out would buy."""
    rows, numbers = middle_of(found), list[dict[str, Any]]()
    sentences: list[str] = [Sentence(Importance.expected, f"One budget for all: {study.question}.")]
    if len(study.arm_names) > 2:
        each = f"{sizes.units / len(study.arm_names):,.0f} units each"
        text = f"That is for arms of one size, {each}. The answer of a smaller arm has a wider interval."
        sentences.append(Sentence(Importance.expected, text))
    if stand_in.deviation is None:
        sentences.append("Assumed: each outcome's standard deviation is a quarter of its range, of 0 and 1 half.")
    grouped = study.subgroups is not None
    for row, weight in zip(rows, study.weights, strict=True):
        # How much louder its noise is than that of asking for it alone, and by what the others' falls without it.
        factor, without = 1 / weight, 1 - weight if study.in_l1 else math.sqrt(1 - weight**2)
        numbers.append({**vars(row), "noise_factor": factor, "without": without})
        said = say_row(
            row.outcome,
            row.everybody,
            row.everybody_together,
            (row.group, row.group_together) if grouped else None,
        )
        said += f" {row.adjustment[:1].upper()}{row.adjustment[1:]}."
        if len(rows) > 1:
            said += f" Its noise is {factor:.2f} times that of asking for it alone; without it the others would have "
            said += f"{1 - without:.0%} less."
        sentences.append(Sentence(Importance.expected, said))
    return Words(sentences, {"answers": numbers}, name=rows[study.first].outcome)


def warned(study: ProtocolStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]) -> list[str]:
    """Return warnings of no adjustment, too few controls, or a delta that widens."""
    del sizes, stand_in
    warnings = [UNADJUSTED] if isinstance(study, DifferenceProtocol) and not study.estimator.trial else []
    warnings += stated_terms(study)
    if isinstance(study, MatchingProtocol | IpwProtocol):
        warnings.append(OF_A_PAPER[study.privacy.level])
    if study.privacy.level is Level.sample and mostly_whole(few()):
        warnings.append(WHOLE_RANGE)
    controls = sum(outcome.role is OutcomeRole.negative_control for outcome in study.outcomes)
    if 0 < controls < ENOUGH:
        warnings.append(
            Sentence(
                Importance.declare,
                f"{controls} negative control{'s are' if controls > 1 else ' is'} too few to calibrate intervals, "
                f"which takes at least {ENOUGH}.",
            )
        )
    if study.privacy.level is Level.label and study.privacy.delta > 0 and (ratio := draw.without_delta(study)) < 1:
        warnings.append(
            Sentence(
                Importance.declare,
                f"without a delta the noise on {study.outcomes[study.first].name} would be {ratio:.2f} times as large: "
                "declare 'delta: 0'.",
            )
        )
    return warnings


def _alike(study: RegressionProtocol, results: Results) -> Results:
    """Let the one subgroup that has people stand for all of them."""
    many, scales = len(study.groups), results[FIVE.scales]
    counts = np.repeat(scales.counts[:1], many, axis=0)
    of_all = replace(scales, counts=counts, units=scales.units[:1] * many, questions=scales.questions[:1] * many)
    same = {stage: results[stage][:1] * many for stage in (FIVE.again, FIVE.scores)}
    return {**results, **same, FIVE.scales: of_all}


def _alike_at_label(study: ProtocolStudy, results: Results) -> Results:
    """Let the comparisons of the one subgroup that has people stand for those of all."""
    own, many = len(study.arm_names) - 1, len(study.groups)
    compared = tuple(replace(one, group=name) for name in study.groups for one in results[label.COMPARE][:own])
    weighed, numbers = results[label.WEIGH][:own] * many, np.concatenate([results[label.PERTURB][:own]] * many)
    return {**results, label.COMPARE: compared, label.WEIGH: weighed, label.PERTURB: numbers}


def _rehearsal(
    study: ProtocolStudy, groups: int, most: int, smaller: Callable[[Any, float], Smaller[Any]]
) -> Rehearsal:
    """Return how any protocol is rehearsed, of which so many subgroups have people."""
    arms = len(study.arm_names)

    def told(stand_in: StandIn) -> StandIn:
        return stand_in if arms == 2 else stand_in.model_copy(update={"treated": 1 - 1 / arms})

    return Rehearsal(
        most,
        smaller,
        randomised=getattr(study.estimator, "trial", False),
        told=told,
        make=partial(_people, groups),
        units=lambda study, sizes, stand_in: counted_units(study, sizes, stand_in) * groups / len(study.groups),
        read=lambda smaller, found: of_table(smaller, found.answers, study.first),
        columns=dimension(study.questions[0]),
    )


def _people(groups: int, study: ProtocolStudy, made: Made) -> MemoryEnclave:
    return people_of(study, made.stand_in, made.count, made.randomised, made.sample, groups)


def rehearsal(study: ProtocolStudy) -> Rehearsal:
    """Return how a plan rehearses a protocol by regression.

    One subgroup has people, and stands for all.
    """
    arms = len(study.arm_names)
    many = len(study.outcomes) * (1 if arms == 2 else arms)
    return replace(_rehearsal(study, 1, PEOPLE, summed), alike=_alike, questions=many)


def rehearsal_of_means(study: ProtocolStudy) -> Rehearsal:
    """Return how a plan rehearses a protocol by differences in means."""
    if study.privacy.level is Level.label:
        return rehearsal_at_label(study)
    return _rehearsal(study, len(study.groups), QUICK, summed)


def rehearsal_at_label(study: ProtocolStudy) -> Rehearsal:
    """Return how a plan rehearses a protocol at level label.

    People are weighed once for several draws.
    """
    smaller = partial(in_step, bias_stays=not isinstance(study, BalancingProtocol), all_units=True)
    return replace(
        _rehearsal(study, 1, SLOW, smaller),
        randomised=declares_randomised(study.estimator.model_dump()),
        by_chance=True,
        first=label.PERTURB,
        anew=0,
        alike=_alike_at_label,
        questions=len(study.arm_names) - 1,
    )


ENTRY = (VALIDATE, CELLS)

FEWER_FACTS = ("treated", "mean", "deviation", "eligible")

REGRESSION = Estimator(RegressionProtocol, _stages, rehearsal=rehearsal, words=words, warned=warned)
DIFFERENCE_IN_MEANS = Estimator(
    DifferenceProtocol,
    lambda study: label.TABLE if study.privacy.level is Level.label else (*ENTRY, DIFFERENCE),
    rehearsal=rehearsal_of_means,
    words=words,
    warned=warned,
    facts=FEWER_FACTS,
)
BALANCING = Estimator(BalancingProtocol, label.TABLE, rehearsal=rehearsal_at_label, words=words, warned=warned)
IPW = Estimator(IpwProtocol, label.TABLE, rehearsal=rehearsal_at_label, words=words, warned=warned)
MATCHING = Estimator(MatchingProtocol, label.TABLE, rehearsal=rehearsal_at_label, words=words, warned=warned)
