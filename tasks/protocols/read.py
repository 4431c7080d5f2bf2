"""Reading of a subgroup's noisy sums for one of its questions, in the terms of a study of one.

A side is a comparison of two arms; of more arms it is one with all others together, whose sums are theirs added up.
Means are over the units of the subgroup.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.tasks.adjustment.five_releases import FiveReleases
from causalveil.tasks.adjustment.released import ReleasedMoments, ReleasedScales, ReleasedScores, ReleasedScreen
from causalveil.tasks.adjustment.sums import ARM_CROSS, ARM_GRAM, ARM_NUMBERS
from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.lattice_sums import symmetric
from causalveil.tasks.protocols.recipe import TWO_ARMS, ProtocolRecipe
from causalveil.tasks.protocols.releases import JointMomentSums, JointScoreSums, JointScreenSums, Named


@dataclass(frozen=True)
class Said:
    """Noisy sums with their weights taken off, and the noise before that."""

    sums: Named
    noise: Noise


def scales_of(
    joint: ProtocolRecipe, said: Said, counts: tuple[FloatArray, float, int], outcome: int, side: int
) -> ReleasedScales:
    """Release 1 of a question.

    ``counts``: units by arm, the deviation of their noise, and units of all.
    """
    by_arm, count_sd, units = counts
    sums, own, weight = said.sums["sums"][:, outcome], side_arm(joint, side), joint.weights[outcome]
    noise, others, p = said.noise.deviation / units, joint.arms - 1, float(by_arm[own]) / units
    # A share of a noisy number of units is off by both.
    of_share = count_sd if joint.known_units else count_sd * math.sqrt((1 - p) ** 2 + others * p**2)
    one, ends = joint.scale_sums, np.cumsum(joint.scale_sums.widths)[:-1]
    weights = one.weights[ARM_NUMBERS + np.concatenate([[0], ends])]
    found = [sums[own], sums.sum() - sums[own], by_arm[own], said.sums["squares"][outcome]]
    return ReleasedScales(
        arms=np.array(found) / units,
        arms_sd=np.array([noise / weight, noise / weight * math.sqrt(others), of_share / units, noise / weight]),
        outcome=said.sums["outcomes"][outcome] / units,
        columns=tuple(np.split(said.sums["columns"] / units, ends)[:-1]),
        cells_sd=noise / weights / np.array([*[1.0] * len(joint.encoding.columns), weight]),
    )


def moments_of(
    joint: ProtocolRecipe, said: Said, block: JointMomentSums, question: FiveReleases, outcome: int, side: int
) -> ReleasedMoments:
    """Release 2 or 4 of a question."""
    if joint.arms > TWO_ARMS:
        return _of_an_arm(joint, said, block, question, outcome, side)
    sums, units, k = said.sums, question.public.units, block.features.count + 1
    sd = said.noise.deviation / units
    own = sd / joint.weights[outcome]
    return ReleasedMoments(
        cross=sums["cross"][outcome] / units,
        cross_sd=own,
        apart=sums["apart"] / units,
        apart_sd=sd,
        square=float(sums["squares"][outcome]) / units,
        square_sd=own,
        gram=symmetric(sums["gram"] / units, k),
        gram_sd=sd / math.sqrt(2),
        arm_cross=sums["arm_cross"][outcome] / units,
        arm_cross_sd=own / ARM_CROSS,
        arm_gram=symmetric(sums["arm_gram"] / units, k),
        arm_gram_sd=sd / math.sqrt(2) / ARM_GRAM,
    )


def _of_an_arm(
    joint: ProtocolRecipe, said: Said, block: JointMomentSums, question: FiveReleases, outcome: int, side: int
) -> ReleasedMoments:
    """Return the moments of one arm of several against all others.

    Residuals of each were cut at its own limit.
    """
    units, k, p = question.public.units, block.features.count + 1, question.found_scales.arms.share
    sums, sd = {name: one / units for name, one in said.sums.items()}, said.noise.deviation / units
    limits = block.residuals.limits[:, outcome] / block.residuals.limits[side, outcome]
    cross, grams = sums["cross"][:, outcome] * limits[:, None], sums["grams"]
    tau = np.where(np.arange(joint.arms) == side, 1 - p, -p) / max(p, 1 - p)
    own, of_arms = sd / joint.weights[outcome], math.sqrt(joint.arms)
    both, square = float(np.linalg.norm(limits)), limits**2
    return ReleasedMoments(
        cross=cross.sum(axis=0),
        cross_sd=own * both,
        apart=tau @ sums["own"],
        apart_sd=sd * float(np.linalg.norm(tau)),
        square=float(square @ sums["squares"][:, outcome]),
        square_sd=own * float(np.linalg.norm(square)),
        gram=symmetric(grams.sum(axis=0), k),
        gram_sd=sd * of_arms / math.sqrt(2),
        arm_cross=2 * cross[side] - cross.sum(axis=0),
        arm_cross_sd=own * both,
        arm_gram=symmetric(2 * grams[side] - grams.sum(axis=0), k),
        arm_gram_sd=sd * of_arms / math.sqrt(2),
    )


def screen_of(
    joint: ProtocolRecipe, said: Said, block: JointScreenSums, question: FiveReleases, outcome: int, side: int
) -> ReleasedScreen:
    """Release 3 of a question."""
    del block
    units = question.public.units
    sd = said.noise.deviation / units
    own, arm = said.sums["outcome"][outcome] / units, said.sums["treatment"][side] / units
    return ReleasedScreen(own, arm, sd / joint.side_weight, sd / joint.weights[outcome])


def scores_of(
    joint: ProtocolRecipe, said: Said, block: JointScoreSums, question: FiveReleases, outcome: int, side: int
) -> ReleasedScores:
    """Release 5 of a question."""
    del block
    units, weight = question.public.units, joint.weights[outcome]
    mean, square = (float(said.sums[name][outcome, side]) / units for name in ("mean", "square"))
    noise = said.noise
    return ReleasedScores(mean, square, noise.deviation / weight / units, noise.scale / weight / units, noise.mixing)


def side_arm(joint: ProtocolRecipe, side: int) -> int:
    """Return the arm that a side compares with the reference, or with all others.

    It is compared with all others if there are more than two arms.
    """
    return 1 if joint.sides == 1 else side
