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

By differences of arm means one release of sums has everything. At label level, by balancing or matching, weights of
each comparison are public, and one release has an estimate and a sampling variance of every outcome in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from causalveil.flows.estimators.estimator import VALIDATE, Estimator, normalised_by
from causalveil.flows.estimators.five_releases import FiveStages, Steps
from causalveil.flows.estimators.rehearsal import SLOW, Rehearsed, in_step
from causalveil.flows.estimators.stage import Stage, StageRun, recalled
from causalveil.flows.estimators.words import ELIGIBLE_NOT_TOLD, UNADJUSTED, Words
from causalveil.schemas.estimators.protocols import (
    BalancingProtocol,
    DifferenceProtocol,
    MatchingProtocol,
    RegressionProtocol,
)
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.protocols.study import OutcomeRole, ProtocolStudy
from causalveil.tasks.enclave import cells
from causalveil.tasks.enclave.enclave import MemoryEnclave, ranks
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil.tasks.protocols import difference, questions
from causalveil.tasks.protocols.calibration import ENOUGH
from causalveil.tasks.protocols.drawn import Asked, JointDraws, JointScales
from causalveil.tasks.protocols.expected import ExpectedAnswer, answers_of, expected_answers, subgroup, width
from causalveil.tasks.protocols.findings import ProtocolFindings, findings
from causalveil.tasks.protocols.label import answers, draw, weights
from causalveil.tasks.protocols.label.weights import Comparison, Weighing
from causalveil.tasks.protocols.recipe import joint_recipe

NORMALISE = normalised_by(lambda: cells.normalise_cells)

plan = recalled(joint_recipe)
Step = StageRun[RegressionProtocol]


def _drawn(step: Step) -> JointDraws:
    joint, workers = plan(step.study, step.sizes), step.study.execution.workers
    return JointDraws(joint, cells.everybody(step.enclave), step.budget, workers)


FIVE = FiveStages[RegressionProtocol, JointScales, Asked].of(
    Steps(
        plan,
        _drawn,
        lambda step: _drawn(step).scales(),
        lambda step, scales: questions.begun(plan(step.study, step.sizes), scales),
        lambda step, asked, lines: questions.with_lines(step.study.first, asked, lines),
        questions.with_screen,
        questions.with_refit,
    ),
    rows=(NORMALISE,),
)
ANSWERS = Stage[RegressionProtocol, ProtocolFindings](
    "answers",
    lambda step: findings(
        step.study, questions.with_scores(step[FIVE.again], step[FIVE.scores]), step[FIVE.scales], step.sizes
    ),
    reads=(FIVE.scales, FIVE.again, FIVE.scores),
)

DIFFERENCE = Stage[DifferenceProtocol, ProtocolFindings](
    "difference",
    lambda step: difference.difference_stage(*step.given, step.budget),
    charges=lambda study, sizes: [(difference.SLOT, difference.mechanism(study, sizes))],
    reads=(NORMALISE,),
)

# At label level all stages but one read public columns alone.
COMPARE = Stage[ProtocolStudy, tuple[Comparison, ...]](
    "compare", lambda step: weights.compare_stage(step.study, step.enclave), reads=(NORMALISE,)
)
WEIGH = Stage[ProtocolStudy, tuple[Weighing | None, ...]](
    "weigh",
    lambda step: weights.weigh_stage(
        step.study, step.enclave, step[COMPARE], draw.JointDraw.of(step.study).louder(step.study.first)
    ),
    reads=(COMPARE,),
)
PERTURB = Stage[ProtocolStudy, FloatArray](
    "perturb",
    lambda step: draw.perturb_stage(step.study, step.enclave, step[COMPARE], step[WEIGH], step.budget),
    charges=lambda study, sizes: [(draw.SLOT, draw.mechanism(study, sizes))],
    reads=(COMPARE, WEIGH),
)
LABEL_ANSWERS = Stage[ProtocolStudy, ProtocolFindings](
    "answers",
    lambda step: answers.answers_stage(step.study, step[COMPARE], step[WEIGH], step[PERTURB]),
    reads=(COMPARE, WEIGH, PERTURB),
)


def drawn(study: ProtocolStudy, sizes: Sizes, stand_in: StandIn, many: int) -> list[Rehearsed]:
    """Return the first outcome over everybody, and with it those of all outcomes."""
    answers_at = label_answers if study.LEVEL is Level.label else expected_answers
    rows = answers_at(study, sizes, stand_in, many)
    first = rows[study.first]
    return [Rehearsed(first.everybody, first.noise_error, first.sampling_error, found=rows)]


def label_answers(study: ProtocolStudy, sizes: Sizes, stand_in: StandIn, many: int) -> tuple[ExpectedAnswer, ...]:
    """Return the expected answer of every outcome at level label.

    The stages of one subgroup stand for all. People are weighed once; of so many draws it is that of the median width.

    Raises:
        StudyError: more cells than the budget can serve.
        DataError: an arm would be too small to be compared.
    """
    draw.mechanism(study, sizes)
    people, units = subgroup(study, sizes, stand_in, randomised(study), SLOW, sample=0)
    fewer, groups = in_step(study, units / len(people)), len(study.groups)
    enclave = MemoryEnclave([{**vars(people), "h": ranks(len(people))}])
    own = weights.compare_stage(study, enclave)[: len(study.arm_names) - 1]
    louder = draw.JointDraw.of(fewer.study).louder(study.first)
    weighed = weights.weigh_stage(fewer.study, enclave, own, louder)
    everybody, tables = [replace(one, group=label) for label in study.groups for one in own], []
    for seed in range(many):
        numbers = draw.perturb_stage(fewer.study, enclave, own, weighed, RehearsalBudget(seed))
        numbers = np.concatenate([numbers] * groups)
        tables.append(answers.answers_stage(fewer.study, everybody, weighed * groups, numbers).answers)
    middle = sorted(tables, key=lambda rows: width(rows[0].interval))[many // 2]
    return answers_of(study, middle, fewer.noise)


def randomised(study: ProtocolStudy) -> bool:
    """Return whether a protocol at level label declares that treatment follows nothing."""
    if isinstance(study, BalancingProtocol):
        return study.estimator.allowance == 0
    return isinstance(study, MatchingProtocol) and study.estimator.confounding_prior.outcome_r2 == 0


def words(study: ProtocolStudy, sizes: Sizes, stand_in: StandIn, found: Sequence[Rehearsed]) -> Words:
    """Return half-widths of all outcomes, and what leaving one out would buy."""
    del sizes
    rows = found[0].found
    sentences = [f"One budget for all: {study.question}."]
    if study.where and stand_in.eligible is None:
        sentences.append(ELIGIBLE_NOT_TOLD)
    if stand_in.deviation is None:
        sentences.append("Assumed: each outcome's standard deviation is a quarter of its range, of 0 and 1 half.")
    grouped = study.subgroups is not None
    for row in rows:
        inside = f", {row.group:.4g} ({row.group_together:.4g}) in a subgroup of average size" if grouped else ""
        said = f"{row.outcome}: ± {row.everybody:.4g}, all answers together ± {row.everybody_together:.4g}{inside}; "
        said += row.adjustment
        if len(rows) > 1:
            said += f"; its noise is {row.noise_factor:.2f} times that of asking for it alone, and without it the "
            said += f"others would have {1 - row.without:.0%} less"
        sentences.append(f"{said}.")
    return Words(sentences, {"answers": [vars(row) for row in rows]}, of=f" on {rows[study.first].outcome}")


def warned(study: ProtocolStudy, sizes: Sizes, stand_in: StandIn, whole_range: Callable[[], bool]) -> list[str]:
    """Return warnings of no adjustment, too few controls, or a delta that widens."""
    del sizes, stand_in, whole_range
    warnings = [UNADJUSTED] if isinstance(study, DifferenceProtocol) and not study.estimator.trial else []
    controls = sum(outcome.role is OutcomeRole.negative_control for outcome in study.outcomes)
    if 0 < controls < ENOUGH:
        warnings.append(
            f"{controls} negative control{'s are' if controls > 1 else ' is'} shown beside the answers, but too few to "
            f"calibrate intervals by, which takes {ENOUGH}."
        )
    if study.LEVEL is Level.label and study.privacy.delta > 0 and (ratio := draw.without_delta(study)) < 1:
        warnings.append(
            f"without a delta the noise on {study.outcomes[study.first].name} would be {ratio:.2f} times as large: "
            "declare 'delta: 0'."
        )
    return warnings


ENTRY = (VALIDATE, NORMALISE)
AT_LABEL_LEVEL = (*ENTRY, COMPARE, WEIGH, PERTURB, LABEL_ANSWERS)

FEWER_FACTS = ("treated", "mean", "deviation")

REGRESSION = Estimator(RegressionProtocol, (*ENTRY, *FIVE.all, ANSWERS), drawn=drawn, words=words, warned=warned)
DIFFERENCE_IN_MEANS = Estimator(
    DifferenceProtocol, (*ENTRY, DIFFERENCE), drawn=drawn, words=words, warned=warned, facts=FEWER_FACTS
)
BALANCING = Estimator(BalancingProtocol, AT_LABEL_LEVEL, drawn=drawn, words=words, warned=warned, facts=FEWER_FACTS)
MATCHING = Estimator(MatchingProtocol, AT_LABEL_LEVEL, drawn=drawn, words=words, warned=warned, facts=FEWER_FACTS)
