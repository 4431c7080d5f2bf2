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

from typing import Any

from causalveil.flows.estimators.estimator import Estimator
from causalveil.flows.estimators.five_releases import FiveStages, Steps
from causalveil.flows.estimators.shared import VALIDATE, normalised_by
from causalveil.flows.estimators.stage import Stage, StageRun, recalled
from causalveil.flows.planning.medians import DRAWS
from causalveil.flows.planning.sentences import ELIGIBLE_NOT_TOLD, UNADJUSTED
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
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.protocols import difference, questions
from causalveil.tasks.protocols.calibration import ENOUGH
from causalveil.tasks.protocols.drawn import Asked, JointDraws, JointScales
from causalveil.tasks.protocols.expected import expected_answers
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


def expected_difference(
    study: DifferenceProtocol, sizes: Sizes, stand_in: StandIn, effect: float | None
) -> dict[str, Any]:
    """Return the expected half-widths of every outcome by differences of arm means.

    The arguments are those of :func:`expected`.
    """
    warnings = [] if study.estimator.trial else [UNADJUSTED]
    found = expected(study, sizes, stand_in, effect)
    return {**found, "warnings": [*warnings, *found["warnings"]]}


def expected(study: ProtocolStudy, sizes: Sizes, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """Return the expected half-widths of every outcome, and its part of the noise.

    Also says what leaving an outcome out would buy.

    Args:
        study: the protocol.
        sizes: its sizes.
        stand_in: the population that the reader assumes; its deviation is taken for every outcome.
        effect: an effect of the first primary outcome that the reader hopes to see.
    """
    rows = expected_answers(study, sizes, stand_in, DRAWS)
    first = rows[study.first]
    numbers: dict[str, Any] = {
        "treated": stand_in.treated,
        "half_width": first.everybody,
        "noise_standard_error": first.noise_error,
        "sampling_standard_error": first.sampling_error,
        "answers": [vars(row) for row in rows],
    }
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
    warnings = []
    controls = sum(outcome.role is OutcomeRole.negative_control for outcome in study.outcomes)
    if 0 < controls < ENOUGH:
        warnings.append(
            f"{controls} negative control{'s are' if controls > 1 else ' is'} shown beside the answers, but too few to "
            f"calibrate intervals by, which takes {ENOUGH}."
        )
    if study.LEVEL is Level.label and study.privacy.delta > 0:
        ratio = draw.without_delta(study)
        if ratio < 1:
            warnings.append(
                f"without a delta the noise on {first.outcome} would be {ratio:.2f} times as large: declare 'delta: 0'."
            )
    if effect is not None:
        drowned = first.everybody >= abs(effect)
        numbers["effect"], numbers["drowned"] = effect, drowned
        half = f"the expected half-width, {first.everybody:.3g}"
        if drowned:
            warnings.append(f"{half}, is larger than an effect of {effect:g} on {first.outcome}.")
        else:
            sentences.append(f"An effect of {effect:g} on {first.outcome} is larger than {half}.")
    return {**numbers, "sentences": sentences, "warnings": warnings}


def drawn(study: ProtocolStudy, sizes: Sizes, stand_in: StandIn, many: int) -> float:
    """Return the half-width of the first outcome over everybody, the median of so many draws."""
    return expected_answers(study, sizes, stand_in, many)[study.first].everybody


ENTRY = (VALIDATE, NORMALISE)
AT_LABEL_LEVEL = (*ENTRY, COMPARE, WEIGH, PERTURB, LABEL_ANSWERS)

REGRESSION = Estimator(RegressionProtocol, (*ENTRY, *FIVE.all, ANSWERS), expected, drawn=drawn)
DIFFERENCE_IN_MEANS = Estimator(DifferenceProtocol, (*ENTRY, DIFFERENCE), expected_difference)
BALANCING = Estimator(BalancingProtocol, AT_LABEL_LEVEL, expected)
MATCHING = Estimator(MatchingProtocol, AT_LABEL_LEVEL, expected)
