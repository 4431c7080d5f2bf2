"""The exact sums of a protocol's joint releases, block by block of the subgroups, and how they are cut up again.

Numbers of one outcome are multiplied by its w_k after summing, so that all of a release has one noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.tasks.enclave.cells import CellRows
from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.lattice_sums import on_lattice
from causalveil.tasks.models.triangles import symmetric, triangle_weights
from causalveil.tasks.protocols.blocks import by_block, cut, one_hot
from causalveil.tasks.protocols.joint import JointRecipe
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.moments import across_factor, arm_factors
from causalveil.tasks.regression.scales import column_numbers, column_sums, column_weights


@dataclass(frozen=True)
class ScaleBlock:
    """A subgroup's part of release 1, weights taken off, as sums over its rows.

    Attributes:
        sums: of u by arm and outcome, shape (arms, outcomes).
        counts: of rows by arm, shape (arms,).
        squares: of u^2 by outcome, shape (outcomes,).
        covariates: of covariates, still weighted; empty if nothing is adjusted for.
    """

    sums: FloatArray
    counts: FloatArray
    squares: FloatArray
    covariates: FloatArray


def _scale_weights(joint: JointRecipe) -> FloatArray:
    w = np.array(joint.weights)
    columns = np.zeros(0) if joint.one.moments is None else column_weights(joint.one.columns)
    return np.concatenate([np.tile(w, joint.arms), np.ones(joint.arms), w, columns])


def scale_sums(pieces: Pieces, joint: JointRecipe, workers: int = 1) -> FloatArray:
    """Release 1 before its noise, shape (groups * scale_numbers,)."""

    def of(rows: CellRows) -> FloatArray:
        u, arms = on_lattice(rows.u), one_hot(rows.t, joint.arms)
        squares = np.einsum("ij,ij->j", u, u)
        covariates = np.zeros(0) if joint.one.moments is None else column_sums(rows.x, joint.one.columns)
        return np.concatenate([(arms.T @ u).ravel(), arms.sum(axis=0), squares, covariates])

    blocks = by_block(pieces, [of] * joint.groups, [joint.scale_numbers] * joint.groups, workers)
    weights = _scale_weights(joint)
    return np.concatenate([block * weights for block in blocks])


def scale_blocks(released: FloatArray, joint: JointRecipe) -> list[ScaleBlock]:
    """The subgroups' parts of release 1."""
    q, arms, found = len(joint.weights), joint.arms, []
    covariates = 0 if joint.one.moments is None else column_numbers(joint.one.columns)
    own = _scale_weights(joint)
    own[len(own) - covariates :] = 1.0
    for block in cut(released, [joint.scale_numbers] * joint.groups):
        sums, counts, squares, rest = cut(block / own, [arms * q, arms, q, covariates])
        found.append(ScaleBlock(sums.reshape(arms, q), counts, squares, rest))
    return found


@dataclass(frozen=True)
class MomentBlock:
    """A subgroup's part of release 2, weights taken off, as sums over its rows.

    Attributes:
        cross: of xs rho, shape (outcomes, d).
        apart: of xs tau where there are two arms, shape (1, d); of xs by arm where there are more, shape (arms, d).
        squares: of rho^2, shape (outcomes,).
        gram: of xs xs', shape (d, d), symmetric.
        arm_cross, arm_gram, arm_across: of the k features that are told apart by arm, of shapes (sides, outcomes, k),
            (sides, k, k) and, with all other features, (sides, k, d - k): treated's sums less controls' where there are
            two arms, each arm's where there are more.
    """

    cross: FloatArray
    apart: FloatArray
    squares: FloatArray
    gram: FloatArray
    arm_cross: FloatArray
    arm_gram: FloatArray
    arm_across: FloatArray


def _moment_weights(joint: JointRecipe, features: Features) -> FloatArray:
    w, d, own = np.array(joint.weights), features.count, len(features.arm_places)
    of_cross, of_gram = arm_factors(features) if own else (1.0, 1.0)
    both = [np.repeat(w, d), np.ones(joint.sides * d), w, triangle_weights(d)]
    by_arm = [of_cross * np.repeat(w, own)] * joint.sides + [of_gram * triangle_weights(own)] * joint.sides
    return np.concatenate([*both, *by_arm, np.full(joint.sides * own * (d - own), across_factor(features))])


def _sizes(joint: JointRecipe, contrasts: Sequence[GroupContrast]) -> list[int]:
    return [joint.moment_numbers(one.features.count, len(one.features.arm_places)) for one in contrasts]


@dataclass(frozen=True)
class GroupContrast:
    """What release 2 needs of a subgroup: its features, each arm's means and residuals' cut, and what parts the arms.

    Attributes:
        features: of its rows.
        means: of u, shape (arms, outcomes).
        limits: L of each outcome, shape (outcomes,).
        codes: what a row's features are multiplied by, shape (arms, sides), in [-1, 1]; one entry of a row at most is
            not 0 where there are several sides.
    """

    features: Features
    means: FloatArray
    limits: FloatArray
    codes: FloatArray

    def residuals(self, rows: CellRows) -> FloatArray:
        """(u - m_t)/L, shape (rows, outcomes), not cut."""
        found: FloatArray = (np.clip(rows.u, -1.0, 1.0) - self.means[rows.t]) / self.limits
        return found


def moment_sums(pieces: Pieces, joint: JointRecipe, contrasts: Sequence[GroupContrast], workers: int = 1) -> FloatArray:
    """Release 2 before its noise: the subgroups' blocks one after the other."""

    def made(contrast: GroupContrast) -> Callable[[CellRows], FloatArray]:
        features, codes = contrast.features, on_lattice(contrast.codes)
        upper, own = np.triu_indices(features.count), features.arm_places
        of_own, rest = np.triu_indices(len(own)), features.other_places

        def of(rows: CellRows) -> FloatArray:
            xs, rho = features.of(rows.x), on_lattice(contrast.residuals(rows))
            squares = np.einsum("ij,ij->j", rho, rho)
            parts = [(rho.T @ xs).ravel(), (codes[rows.t].T @ xs).ravel(), squares, (xs.T @ xs)[upper]]
            zs = xs[:, own]
            signs = np.where(rows.t != 0, 1.0, -1.0)[:, None] if joint.arms == 2 else one_hot(rows.t, joint.arms)
            told = [zs * sign[:, None] for sign in signs.T]
            parts += [(rho.T @ one).ravel() for one in told] + [(one.T @ zs)[of_own] for one in told]
            parts += [(one.T @ xs[:, rest]).ravel() for one in told]
            return np.concatenate(parts)

        return of

    blocks = by_block(pieces, [made(contrast) for contrast in contrasts], _sizes(joint, contrasts), workers)
    weights = [_moment_weights(joint, contrast.features) for contrast in contrasts]
    return np.concatenate([block * weight for block, weight in zip(blocks, weights, strict=True)])


def moment_blocks(released: FloatArray, joint: JointRecipe, contrasts: Sequence[GroupContrast]) -> list[MomentBlock]:
    """The subgroups' parts of release 2."""
    found, q = [], len(joint.weights)
    for contrast, block in zip(contrasts, cut(released, _sizes(joint, contrasts)), strict=True):
        d, own = contrast.features.count, len(contrast.features.arm_places)
        triangle, sides = own * (own + 1) // 2, joint.sides
        beside = sides * own * (d - own)
        sizes = [q * d, sides * d, q, d * (d + 1) // 2, sides * q * own, sides * triangle, beside]
        parts = cut(block / _moment_weights(joint, contrast.features), sizes)
        cross, apart, squares, gram, arm_cross, arm_gram, arm_across = parts
        found.append(
            MomentBlock(
                cross.reshape(q, d),
                apart.reshape(sides, d),
                squares,
                symmetric(gram, d),
                arm_cross.reshape(sides, q, own),
                np.stack([symmetric(one, own) for one in arm_gram.reshape(sides, triangle)]),
                arm_across.reshape(sides, own, d - own),
            )
        )
    return found


def score_sums(
    pieces: Pieces, joint: JointRecipe, scores: Sequence[Callable[[CellRows], FloatArray]], workers: int = 1
) -> FloatArray:
    """Release 3 before its noise: of each subgroup sum v and sum v^2 by side and outcome.

    Args:
        pieces: all units.
        joint: the releases.
        scores: by subgroup, v of some rows, shape (rows, outcomes).
        workers: threads; the sums do not depend on it.
    """

    def made(score: Callable[[CellRows], FloatArray]) -> Callable[[CellRows], FloatArray]:
        def of(rows: CellRows) -> FloatArray:
            v = on_lattice(score(rows))
            sides = np.ones((len(rows), 1)) if joint.sides == 1 else one_hot(rows.t, joint.arms)
            return np.concatenate([(sides.T @ v).ravel(), (sides.T @ (v * v)).ravel()])

        return of

    numbers = [joint.score_numbers] * joint.groups
    blocks = by_block(pieces, [made(score) for score in scores], numbers, workers)
    weights = np.tile(np.array(joint.weights), 2 * joint.sides)
    return np.concatenate([block * weights for block in blocks])


def score_blocks(released: FloatArray, joint: JointRecipe) -> FloatArray:
    """Sums of v and of v^2, weights taken off, shape (groups, 2, sides, outcomes)."""
    shaped = released.reshape(joint.groups, 2, joint.sides, len(joint.weights))
    found: FloatArray = shaped / np.array(joint.weights)
    return found
