"""A protocol of many questions: joint releases, one table (``docs/proofs/questions.md``).

By regression:

    1  by subgroup: arm counts, sums and squares of every outcome, sums of covariates     scales
    2  by subgroup: cross moments of every outcome, arms' distances, Gram matrix         moments
    3  slopes and weights of every outcome in every subgroup, or neither                 adjustment, public
    4  by subgroup: sums of scores of every outcome                                      scores
    5  the table: estimates, intervals one by one and all together                      answers, public

By differences of arm means one release of sums has everything. At label level, by balancing or matching, weights of
each comparison are public, and one release has an estimate and a sampling variance of every outcome in each.
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.engine.engine import Engine
from causalveil.flows.planning.sentences import UNADJUSTED
from causalveil.flows.sequence.run import Run, enter
from causalveil.schemas.estimators.protocols import (
    BalancingProtocol,
    DifferenceProtocol,
    MatchingProtocol,
    RegressionProtocol,
)
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Charge, Level
from causalveil.schemas.protocols.study import OutcomeRole, ProtocolStudy
from causalveil.tasks.enclave.cells import normalise_protocol_stage
from causalveil.tasks.label_protocols import answers, comparisons, draw, weights
from causalveil.tasks.protocols import difference, stages
from causalveil.tasks.protocols.calibration import ENOUGH
from causalveil.tasks.protocols.expected import expected_answers
from causalveil.tasks.protocols.findings import ProtocolFindings


def declare_regression(study: RegressionProtocol, sizes: Sizes | None) -> tuple[Charge, ...]:
    """Every charge of the protocol, from public facts alone."""
    return stages.declare(study, sizes)


def declare_difference(study: DifferenceProtocol, sizes: Sizes | None) -> tuple[Charge, ...]:
    """The one charge of the protocol, from public facts alone."""
    return difference.declare(study, sizes)


def declare_label(study: BalancingProtocol | MatchingProtocol, sizes: Sizes | None) -> tuple[Charge, ...]:
    """The one charge of the protocol, from public facts alone: the same whatever its size."""
    return draw.declare(study, sizes)


def estimate_regression(run: Run[RegressionProtocol], stage: Engine) -> ProtocolFindings:
    """The order of the stages by regression."""
    study, sizes, enclave, budget = run.study, run.sizes, run.enclave, run.budget
    enter(run, stage, normalise_protocol_stage)
    scales = stage(stages.scales_stage, study, sizes, enclave, budget)
    moments = stage(stages.moments_stage, study, sizes, enclave, scales, budget)
    groups = stage(stages.adjustment_stage, study, sizes, scales, moments)
    scores = stage(stages.scores_stage, study, sizes, enclave, groups, budget)
    return stage(stages.answers_stage, study, sizes, groups, scores)


def estimate_difference(run: Run[DifferenceProtocol], stage: Engine) -> ProtocolFindings:
    """The order of the stages by differences of arm means."""
    enter(run, stage, normalise_protocol_stage)
    return stage(difference.difference_stage, run.study, run.sizes, run.enclave, run.budget)


def estimate_label(run: Run[BalancingProtocol] | Run[MatchingProtocol], stage: Engine) -> ProtocolFindings:
    """The order of the stages at label level: all but one read public columns alone."""
    study, enclave, budget = run.study, run.enclave, run.budget
    enter(run, stage, normalise_protocol_stage)
    compared = stage(comparisons.compare_stage, study, enclave)
    weighed = stage(weights.weigh_stage, study, enclave, compared, draw.JointDraw.of(study).louder(study.first))
    released = stage(draw.perturb_stage, study, enclave, compared, weighed, budget)
    return stage(answers.answers_stage, study, compared, weighed, released)


def expected_regression(
    study: RegressionProtocol, sizes: Sizes, stand_in: StandIn, effect: float | None
) -> dict[str, Any]:
    """Expected half-widths of every outcome by regression; arguments as of :func:`expected`."""
    return expected(study, sizes, stand_in, effect)


def expected_difference(
    study: DifferenceProtocol, sizes: Sizes, stand_in: StandIn, effect: float | None
) -> dict[str, Any]:
    """The same by differences of arm means."""
    warnings = [] if study.estimator.trial else [UNADJUSTED]
    found = expected(study, sizes, stand_in, effect)
    return {**found, "warnings": [*warnings, *found["warnings"]]}


def expected(study: ProtocolStudy, sizes: Sizes, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """Expected half-widths of every outcome, its part of the noise, and what leaving it out would buy.

    Args:
        study: the protocol.
        sizes: its sizes.
        stand_in: the population that the reader assumes; its deviation is taken for every outcome.
        effect: an effect of the first primary outcome that the reader hopes to see.
    """
    rows = expected_answers(study, sizes, stand_in)
    first = rows[study.first]
    numbers: dict[str, Any] = {
        "treated": stand_in.treated,
        "half_width": first.everybody,
        "noise_standard_error": first.noise_error,
        "sampling_standard_error": first.sampling_error,
        "answers": [vars(row) for row in rows],
    }
    sentences = [f"One budget for all: {study.question}."]
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
        half = f"expected half-width {first.everybody:.3g}"
        if drowned:
            warnings.append(f"noise and sampling will drown an effect of {effect:g} on {first.outcome}: {half}.")
        else:
            sentences.append(f"An effect of {effect:g} on {first.outcome} stands out: {half}.")
    return {**numbers, "sentences": sentences, "warnings": warnings}
