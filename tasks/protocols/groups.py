"""A subgroup as a study of its own: what its block of each release says, in the terms of one regression.

A subgroup's number of units is released with noise. It enters every mean alike, and the estimate is orthogonal to each,
so its error enters to second order; where an arm's count is not clear of its noise, nothing is said
(``docs/proofs/questions.md``, section 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from causalveil.tasks.inference.arms import everybody
from causalveil.tasks.inference.confounding import sure_spread
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.protocols.joint import CellRecipe, JointRecipe
from causalveil.tasks.protocols.sums import GroupContrast, MomentBlock, ScaleBlock
from causalveil.tasks.regression.lines.joint import JointMoments
from causalveil.tasks.regression.moments import LEAST_SQUARE, across_factor, told_apart
from causalveil.tasks.regression.scales import NO_COLUMNS, KnownColumns, Scales, arm_mean, columns_from, sure_share

# An arm's noisy number of units below so many noise deviations carries no answer.
FLOOR_DEVIATIONS = 8.0


@dataclass(frozen=True)
class GroupScales:
    """What release 1 says of a subgroup. Outcomes are scaled to u in [-1, 1].

    Attributes:
        units: its number of units: exact where there is one subgroup of everybody, else noisy, at least 1.
        count_error: standard deviation of the noise on each arm's number of units.
        counts: noisy number of units of each arm, at least 1, shape (arms,).
        clear: which arms' counts are clear of their noise, shape (arms,).
        shares: of the arms, away from 0 and 1, shape (arms,).
        means: of u, shrunk, shape (arms, outcomes).
        mean_errors: standard deviations by which they may be off, shape (arms, outcomes).
        mean_noises: of the noise alone that is left in them, shape (arms, outcomes).
        noises: of the noise on a sum of u over the units, shape (outcomes,).
        spreads: standard deviation of u within arms, shape (outcomes,).
        covariates: what it says of their columns.
    """

    units: float
    count_error: float
    counts: FloatArray
    clear: tuple[bool, ...]
    shares: FloatArray
    means: FloatArray
    mean_errors: FloatArray
    mean_noises: FloatArray
    noises: FloatArray
    spreads: FloatArray
    covariates: KnownColumns

    @property
    def answers(self) -> bool:
        """Whether every arm's count is clear of its noise."""
        return all(self.clear)

    def of(self, outcome: int, side: int) -> Scales:
        """One outcome as a comparison of two arms; of several, of arm ``side`` with all others together."""
        arms = len(self.shares)
        treated, others = (1, [0]) if arms == 2 else (side, [arm for arm in range(arms) if arm != side])
        parts = self.shares[others] / self.shares[others].sum()
        rest = float(parts @ self.means[others, outcome])
        # Where the treated alone are scored, errors of the others' means do not enter.
        own, two = self.mean_errors[:, outcome], arms == 2
        noises = self.mean_noises[:, outcome]
        return Scales(
            share=float(self.shares[treated]),
            share_error=self.count_error / self.units,
            means=(float(self.means[treated, outcome]), rest),
            mean_errors=(float(own[treated]), float(own[0]) if two else 0.0),
            mean_noises=(float(noises[treated]), float(noises[0]) if two else 0.0),
            noise=float(self.noises[outcome]) if two else 0.0,
            spread=float(self.spreads[outcome]),
            **vars(self.covariates),
        )


def group_scales(block: ScaleBlock, joint: JointRecipe, units: int) -> GroupScales:
    """What a block of release 1 says; every denominator is kept away from 0.

    Args:
        block: the subgroup's noisy sums.
        joint: the releases.
        units: of all subgroups together.
    """
    noise, arms = joint.scales_mechanism().known_scale, joint.arms
    counts, count_error = block.counts, noise
    if joint.groups == 1 and joint.all_counted:
        # The arms add up to what is public; spreading the difference leaves a part (A - 1)/A of the noise.
        counts, count_error = counts + (units - counts.sum()) / arms, noise * math.sqrt((arms - 1) / arms)
        size = float(units)
    else:
        size = max(float(counts.sum()), 1.0)
    clear = tuple(bool(count >= FLOOR_DEVIATIONS * count_error) for count in counts)
    shares = np.array([sure_share(float(count) / size, count_error / size) for count in counts])
    means, errors, left = (np.zeros_like(block.sums) for _ in range(3))
    spreads, noises = np.zeros(len(joint.weights)), noise / np.array(joint.weights) / size
    for outcome, error in enumerate(noises.tolist()):
        sums = block.sums[:, outcome] / size
        middle = everybody(float(sums.sum()), error * math.sqrt(arms))
        around = sure_spread(float(block.squares[outcome]) / size - middle**2, error)
        for arm, total in enumerate(sums.tolist()):
            mean, deviation, left[arm, outcome] = arm_mean(
                total, float(counts[arm]) / size, float(shares[arm]), error, middle, around
            )
            # Noise in the count moves a mean as well.
            means[arm, outcome] = mean
            errors[arm, outcome] = math.hypot(deviation, mean * count_error / size / float(shares[arm]))
        within = float(block.squares[outcome]) / size - float(shares @ means[:, outcome] ** 2)
        spreads[outcome] = sure_spread(within, error)
    known = NO_COLUMNS
    if joint.one.moments is not None:
        known = columns_from(block.covariates / size, noise / size, joint.one.columns)
    return GroupScales(
        units=size,
        count_error=count_error,
        counts=np.maximum(counts, 1.0),
        clear=clear,
        shares=shares,
        means=means,
        mean_errors=errors,
        mean_noises=left,
        noises=noises,
        spreads=spreads,
        covariates=known,
    )


def contrast_of(joint: JointRecipe, scales: GroupScales) -> GroupContrast:
    """What release 2 takes of a subgroup."""
    if joint.arms == 2:
        one = scales.of(0, 0)
        codes = np.array([[-one.share], [1 - one.share]]) / one.larger
    else:
        one, codes = scales.of(0, int(np.argmin(scales.shares))), np.eye(joint.arms)
    features = joint.cell(0, scales.units).features(one)
    limits = np.array([scales.of(outcome, 0).limit for outcome in range(len(joint.weights))])
    return GroupContrast(features, scales.means, limits, codes)


def moments_of(
    joint: JointRecipe, scales: GroupScales, contrast: GroupContrast, block: MomentBlock, outcome: int, side: int
) -> JointMoments:
    """A subgroup's moments as those of one outcome and one comparison.

    Args:
        joint: the releases.
        scales: of the subgroup.
        contrast: what the moments are of.
        block: its noisy sums.
        outcome: which.
        side: of several arms, the one that is compared with all others; 0 of two arms.
    """
    mechanism = joint.moments_mechanism()
    noise = 0.0 if mechanism is None else mechanism.known_scale
    units, one, weight = scales.units, scales.of(outcome, side), joint.weights[outcome]
    if joint.arms == 2:
        per_tau = one.larger / one.between
        apart, apart_error = block.apart[0] / units * per_tau, noise / units * per_tau
    else:
        # x_a - x over all units is (1 - p_a) times the distance from all others; x has noise of all arms.
        everybody = block.apart.sum(axis=0) / units
        own = block.apart[side] / (one.share * units)
        apart = (own - everybody) / (1 - one.share)
        others = (joint.arms - 1) / (1 - one.share) ** 2
        apart_error = noise / units * math.sqrt(1 / one.share**2 + others)
    square = float(block.squares[outcome]) / units
    found = JointMoments(
        cross=block.cross[outcome] / units,
        apart=apart,
        square=max(square, noise / weight / units / 2 + LEAST_SQUARE),
        gram=block.gram / units,
        cross_error=noise / weight / units,
        apart_error=apart_error,
        gram_error=noise / units * math.sqrt(0.5),
        shifts=contrast.features.shifts,
        unseen=contrast.features.unseen(apart),
    )
    own = contrast.features.arm_places
    if not len(own):
        return found
    factors = joint.cell(outcome, units).arm_factors(contrast.features)
    cross, gram = block.arm_cross[side, outcome] / units, block.arm_gram[side] / units
    across, differences = block.arm_across[side] / units, 1
    if joint.arms > 2:
        # Twice an arm's own sums less all others' with them is what they differ by.
        both, rest = found.of(own), contrast.features.other_places
        cross, gram = 2 * cross - both.cross, 2 * gram - both.gram
        across, differences = 2 * across - found.gram[np.ix_(own, rest)], 2
    apart_by_arm = told_apart(found, own, cross, gram, one.share, factors)
    if not across.size:
        return apart_by_arm
    error = differences * noise / units / across_factor(contrast.features)
    return apart_by_arm.with_across(across, one.share, error)


def recipe_of(joint: JointRecipe, scales: GroupScales, outcome: int) -> CellRecipe:
    """One outcome in a subgroup as the code of one question sees it."""
    return replace(joint.cell(outcome, scales.units))
