"""The stages of a protocol by regression: three joint releases, what is learnt between them, and the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from causalveil.schemas.estimators.protocols import RegressionProtocol
from causalveil.schemas.plan import Sizes
from causalveil.schemas.protocols.regression import RegressionStudy
from causalveil.tasks.enclave.cells import everybody
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Budget
from causalveil.tasks.protocols.adjusted import GroupAdjustment, adjust_group, parts_of
from causalveil.tasks.protocols.cells import check_cells
from causalveil.tasks.protocols.findings import ProtocolFindings, findings
from causalveil.tasks.protocols.groups import FLOOR_DEVIATIONS, GroupScales, contrast_of, group_scales
from causalveil.tasks.protocols.joint import JointRecipe
from causalveil.tasks.protocols.sums import (
    MomentBlock,
    moment_blocks,
    moment_sums,
    scale_blocks,
    scale_sums,
    score_blocks,
    score_sums,
)
from causalveil.tasks.regression.decide import recipe
from causalveil.tasks.regression.recipe import EFFECT, MOMENTS, SCALES, RegressionRecipe


def joint_recipe(study: RegressionProtocol, sizes: Sizes | None) -> JointRecipe:
    """What the protocol does with its budget: decided as the first primary outcome needs it, in equal subgroups.

    Raises:
        StudyError: a budget that cannot be divided exactly, or more cells than it can serve.
    """
    question = cast(RegressionStudy, study.questions[study.first])

    def judged(one: RegressionRecipe) -> RegressionRecipe:
        joint = JointRecipe.of(study, one)
        return one if sizes is None else joint.cell(study.first, sizes.units / joint.groups)

    joint = JointRecipe.of(study, recipe(question, sizes, judged))
    if sizes is not None:
        check_cells(sizes.units, joint.groups, joint.arms, FLOOR_DEVIATIONS * joint.count_noise)
    return joint


def scales_stage(study: RegressionProtocol, sizes: Sizes, enclave: Enclave, budget: Budget) -> tuple[GroupScales, ...]:
    """Release where covariates and outcomes of each subgroup lie, from all units."""
    joint, pieces = joint_recipe(study, sizes), everybody(enclave)
    released = joint.scales_mechanism().release(scale_sums(pieces, joint, study.execution.workers), SCALES, budget)
    return tuple(group_scales(block, joint, sizes.units) for block in scale_blocks(released, joint))


def moments_stage(
    study: RegressionProtocol, sizes: Sizes, enclave: Enclave, scales: Sequence[GroupScales], budget: Budget
) -> tuple[MomentBlock, ...] | None:
    """Release the moments, from all units; None where nothing is adjusted for."""
    joint = joint_recipe(study, sizes)
    mechanism = joint.moments_mechanism()
    if mechanism is None:
        return None
    contrasts = [contrast_of(joint, one) for one in scales]
    sums = moment_sums(everybody(enclave), joint, contrasts, study.execution.workers)
    return tuple(moment_blocks(mechanism.release(sums, MOMENTS, budget), joint, contrasts))


def adjustment_stage(
    study: RegressionProtocol, sizes: Sizes, scales: Sequence[GroupScales], moments: Sequence[MomentBlock] | None
) -> tuple[GroupAdjustment, ...]:
    """Decide what each subgroup is adjusted for; reads nothing but released and public values."""
    joint = joint_recipe(study, sizes)
    if moments is None:
        return tuple(adjust_group(study, joint, one, None, None) for one in scales)
    return tuple(
        adjust_group(study, joint, one, contrast_of(joint, one), block)
        for one, block in zip(scales, moments, strict=True)
    )


def scores_stage(
    study: RegressionProtocol, sizes: Sizes, enclave: Enclave, groups: Sequence[GroupAdjustment], budget: Budget
) -> FloatArray:
    """Release the sums of scores, from all units; shape (groups, 2, sides, outcomes)."""
    joint = joint_recipe(study, sizes)
    sums = score_sums(everybody(enclave), joint, [group.scores for group in groups], study.execution.workers)
    return score_blocks(joint.effect_mechanism().release(sums, EFFECT, budget), joint)


def answers_stage(
    study: RegressionProtocol, sizes: Sizes, groups: Sequence[GroupAdjustment], scores: FloatArray
) -> ProtocolFindings:
    """The last stage: reads nothing but released and public values."""
    joint = joint_recipe(study, sizes)
    return findings(study, joint, groups, parts_of(study, joint, groups, scores, sizes.units))
