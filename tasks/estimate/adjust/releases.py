"""The exact sums of a table's five releases: what a subgroup's block of each holds.

A release has a block of numbers for each subgroup, and a row fills one of them. A block is a study's release
(``tasks/estimate/adjust/sums.py``) of several outcomes and arms. Its sums have names; ``weights`` say by what each is
multiplied before noise is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from causalveil.tasks.data.cells import CellRows
from causalveil.tasks.data.split import Pieces
from causalveil.tasks.estimate.adjust.features import (
    PART,
    ArmScales,
    FeatureMap,
    Scores,
    Screen,
    in_steps,
    lines_in_ball,
    score_features,
)
from causalveil.tasks.estimate.adjust.recipe import SCALES, SCORES, SQUARED_WEIGHT, TWO_ARMS, TableRecipe
from causalveil.tasks.estimate.adjust.released import CELLS
from causalveil.tasks.estimate.adjust.sums import (
    ARM_CROSS,
    ARM_GRAM,
    SQUARE_L1,
    arm_moments,
    codes,
    in_cells,
    left_of_arm,
    left_of_outcome,
    score_values,
)
from causalveil.tasks.estimate.models.lattice_sums import (
    BITS,
    bounded,
    exact_sums,
    on_lattice,
    triangle_weights,
    weighed,
)
from causalveil.tasks.machine.arrays import BoolArray, FloatArray


def one_hot(arms: FloatArray | np.ndarray, count: int) -> FloatArray:
    """Return 1 in the column of each row's arm, shape (rows, count)."""
    return np.asarray(arms[:, None] == np.arange(count)[None, :], dtype=np.float64)


def by_block(
    pieces: Pieces, of: Sequence[Callable[[CellRows], FloatArray]], numbers: Sequence[int], workers: int
) -> list[FloatArray]:
    """Return exact sums of each subgroup's rows by a function of its own.

    Args:
        pieces: all units.
        of: from some rows of a subgroup to their sums, by subgroup.
        numbers: number of sums of each subgroup.
        workers: threads; the sums do not depend on it.

    Returns:
        By subgroup, shape (its numbers,).
    """

    def together(index: int) -> CellRows:
        """Return a piece with the rows of each subgroup beside each other, so chunks are of few."""
        rows = cast(CellRows, pieces.rows(index))
        if not rows.g.any():
            return rows
        order = np.argsort(rows.g, kind="stable")
        return rows[order]

    def sums(rows: CellRows) -> FloatArray:
        parts = zip(of, numbers, rows.by_group(len(of)), strict=True)
        return np.concatenate([sum_up(part) if len(part) else np.zeros(count) for sum_up, count, part in parts])

    return cut(exact_sums(Pieces(together, pieces.count, pieces.units), sums, sum(numbers), workers), numbers)


def cut(vector: FloatArray, sizes: Sequence[int]) -> list[FloatArray]:
    """Return a vector in parts of these sizes."""
    return np.split(vector, np.cumsum(sizes)[:-1].tolist())


Named = dict[str, FloatArray]


class JointSums(Protocol):
    """A subgroup's part of a release."""

    @property
    def weights(self) -> Named:
        """Factor of each sum, in the order of the release."""

    def of(self, rows: CellRows) -> Named:
        """Return the sums of some rows of the subgroup, before their weights."""


@dataclass(frozen=True)
class JointScaleSums:
    """Release 1: sums and counts by arm, histograms of outcomes and of covariates.

    Sums are those of u by arm and of u^2; counts are units by arm. Of survey weights it has the sum of squares too.
    """

    joint: TableRecipe

    @property
    def weights(self) -> Named:
        """Factor of each sum."""
        w, scale_weights = self.joint.outcome_weights(SCALES), self.joint.scale_sums.weights
        return {
            "sums": np.tile(w, (self.joint.arms, 1)),
            "counts": np.full(self.joint.counts, self.joint.count_weight),
            "squares": w,
            "outcomes": np.outer(w, scale_weights[-CELLS:]),
            "columns": scale_weights[:-CELLS],
            **({"weights": np.full(1, SQUARED_WEIGHT)} if self.joint.weighted else {}),
        }

    def of(self, rows: CellRows) -> Named:
        """Return the sums of some rows."""
        u, in_arm = on_lattice(rows.u), one_hot(rows.t, self.joint.arms)
        weights, root = None if rows.w is None else on_lattice(rows.w), weighed(u.T, rows.roots)
        in_arm = in_arm if weights is None else in_arm * weights[:, None]
        return {
            "sums": in_arm.T @ u,
            "counts": in_arm.sum(axis=0)[-self.joint.counts :],
            "squares": np.einsum("ij,ij->i", root, root),
            "outcomes": np.stack([in_cells(column, weights) for column in u.T]),
            "columns": self.joint.scale_sums.of_columns(rows.x, weights),
            **({} if weights is None else {"weights": np.array([weights @ weights])}),
        }


@dataclass(frozen=True)
class Residuals:
    """Means of arms, deviations within arms, and cuts of residuals.

    Each is of shape (arms, outcomes).
    """

    means: FloatArray
    spreads: FloatArray
    limits: FloatArray

    @classmethod
    def of(cls, found: Sequence[Sequence[ArmScales]]) -> Residuals:
        """Return means, deviations and limits of a subgroup, by outcome and side.

        With two arms the one side has both; with more arms each side has its own.
        """

        def by_arm(sides: Sequence[ArmScales]) -> Sequence[tuple[float, float, float]]:
            ends = [(sides[0], 1), (sides[0], 0)] if len(sides) == 1 else [(side, 0) for side in sides]
            return [(side.means[place], side.spread, side.limit) for side, place in ends]

        means, spreads, limits = np.array([by_arm(sides) for sides in found]).transpose(2, 1, 0)
        return cls(means, spreads, limits)

    def in_deviations(self, rows: CellRows) -> FloatArray:
        """Return y of each outcome and row, not cut, shape (outcomes, rows)."""
        return np.ascontiguousarray(((np.clip(rows.u, -1.0, 1.0) - self.means[rows.t]) / self.spreads[rows.t]).T)

    def cut(self, rows: CellRows) -> FloatArray:
        """Return rho of each outcome and row, on the lattice, shape (outcomes, rows)."""
        return on_lattice(self.in_deviations(rows) * (self.spreads / self.limits)[rows.t].T)


@dataclass(frozen=True)
class JointMomentSums:
    """Releases 2 and 4: moments of two arms together, or of each of more arms.

    Of two arms they are the moments of both and, with a delta, differences between them. ``share``: of the arm that is
    not the reference, where there are two.
    """

    joint: TableRecipe
    features: FeatureMap
    residuals: Residuals
    share: float

    @property
    def weights(self) -> Named:
        """Factor of each sum; off the diagonal an entry stands for two, as in the Frobenius norm."""
        k, w, arms = self.features.count + 1, np.array(self.joint.weights), self.joint.arms
        triangle = triangle_weights(k)
        if arms > TWO_ARMS:
            cross, squares = np.broadcast_to(w[:, None], (arms, len(w), k)), np.tile(w, (arms, 1))
            return {
                "cross": cross,
                "own": np.ones((arms, k)),
                "squares": squares,
                "grams": np.tile(triangle, (arms, 1)),
            }
        cross = np.tile(w[:, None], k)
        both = {"cross": cross, "apart": np.ones(k), "squares": w, "gram": triangle}
        if not self.joint.by_arm:
            return both
        return {**both, "arm_cross": ARM_CROSS * cross, "arm_gram": ARM_GRAM * triangle}

    def of(self, rows: CellRows) -> Named:
        """Return the sums of some rows."""
        sums = arm_moments(self.joint.encoding, self.features, rows, self.residuals.cut(rows), self.joint.arms)
        upper = np.triu_indices(self.features.count + 1)
        cross, totals, squares, grams = sums.cross, sums.own, sums.squares, sums.grams[:, *upper]
        if self.joint.arms > TWO_ARMS:
            return {"cross": cross, "own": totals, "squares": squares, "grams": grams}
        of_controls, of_treated = codes(self.share)
        both = {
            "cross": cross[0] + cross[1],
            "apart": of_controls * totals[0] + of_treated * totals[1],
            "squares": squares[0] + squares[1],
            "gram": grams[0] + grams[1],
        }
        if not self.joint.by_arm:
            return both
        return {**both, "arm_cross": cross[1] - cross[0], "arm_gram": grams[1] - grams[0]}


@dataclass(frozen=True)
class JointScreenSums:
    """Release 3: products of candidates with residuals of each outcome and of each side's arm.

    ``screens``: by outcome and side; all have the candidates of the first primary outcome, whose
    screens give the residuals of the arms.
    """

    joint: TableRecipe
    screens: Sequence[Sequence[Screen]]
    residuals: Residuals

    @property
    def weights(self) -> Named:
        """Factor of each sum."""
        count = len(self.screens[0][0].curves)
        outcome = np.tile(np.array(self.joint.weights)[:, None], count)
        return {"outcome": outcome, "treatment": np.full((self.joint.sides, count), self.joint.side_weight)}

    def of(self, rows: CellRows) -> Named:
        """Return the sums of some rows."""
        first, y = self.screens[self.joint.first], self.residuals.in_deviations(rows)
        screen, curves = first[0], len(first[0].curves)
        sums, memory = np.zeros((len(self.screens) + len(first), curves)), screen.made.memory()
        for part, z in self.joint.encoding.blocks(rows.x):
            (whole, f), t = lines_in_ball(screen.alone, z), rows.t[part]
            row_weights = None if rows.w is None else rows.w[part]
            of_sides = [left_of_arm(side, f, of_side(t, s, self.joint)) for s, side in enumerate(first)]
            left = weighed(np.concatenate([self._outcomes(f, y[:, part], t), of_sides]), row_weights)
            for begin, c, squares in screen.made.parts(whole[:, : -(-len(t) // PART) * PART], memory):
                some = left[:, begin : begin + PART]
                sums += some @ in_steps(c, screen.radius, squares)[:, : some.shape[1]].T
        in_order = np.empty_like(sums)
        in_order[:, screen.made.order] = sums * 2.0**-BITS
        return {"outcome": in_order[: len(self.screens)], "treatment": in_order[len(self.screens) :]}

    def _outcomes(self, f: FloatArray, y: FloatArray, t: np.ndarray) -> FloatArray:
        """Return r of each outcome, by the lines of a row's own arm."""
        if self.joint.sides == 1:
            return np.stack(
                [
                    left_of_outcome(sides[0], f, y_outcome, t != 0)
                    for sides, y_outcome in zip(self.screens, y, strict=True)
                ]
            )
        residuals = np.zeros_like(y)
        for outcome, sides in enumerate(self.screens):
            for s, side in enumerate(sides):
                residual = left_of_outcome(side, f, y[outcome], np.ones(len(t), dtype=np.bool_))
                residuals[outcome] = np.where(t == s, residual, residuals[outcome])
        return residuals


UPPER = np.triu_indices


def score_weights(joint: TableRecipe) -> Named:
    """Return the factor of each sum of release 5."""
    w = joint.outcome_weights(SCORES)
    of_side = np.tile(w[:, None], joint.sides)
    if joint.products:
        # v v'/sqrt 2, in which an entry off the diagonal stands for two.
        return {"mean": of_side, "products": (np.outer(w, w) / math.sqrt(2))[UPPER(len(w))] * triangle_weights(len(w))}
    return {"mean": of_side, "square": of_side * (SQUARE_L1 if joint.pure else 1.0)}


def with_products(v: FloatArray) -> Named:
    """Return sums of scores v of two arms, shape (outcomes, rows), and of their products."""
    return {"mean": v.sum(axis=1)[:, None], "products": (v @ v.T)[UPPER(len(v))]}


@dataclass(frozen=True)
class JointScoreSums:
    """Release 5: scores and their squares, by outcome and side, as ``scores`` are.

    Of contrasts of two outcomes it has products of scores, squares among them.

    Of more than two arms a side's scores are those of its own arm's rows.
    """

    joint: TableRecipe
    scores: Sequence[Sequence[Scores]]
    residuals: Residuals

    @property
    def weights(self) -> Named:
        """Factor of each sum."""
        return score_weights(self.joint)

    def of(self, rows: CellRows) -> Named:
        """Return the sums of some rows."""
        if self.joint.products:
            together = np.zeros((len(self.scores), len(rows)))
            for part, outcome, _, v in self.each(rows):
                together[outcome, part] = v
            return with_products(together)
        sums = {name: np.zeros_like(weight) for name, weight in self.weights.items()}
        for _, outcome, s, v in self.each(rows):
            sums["mean"][outcome, s] += v.sum()
            sums["square"][outcome, s] += v @ v
        return sums

    def each(self, rows: CellRows) -> Iterator[tuple[slice, int, int, FloatArray]]:
        """Yield a block of rows, an outcome and a side, with v of those rows that count there."""
        y, sides = self.residuals.in_deviations(rows), self.joint.sides
        for part, z in self.joint.encoding.blocks(rows.x):
            made: dict[int, tuple[FloatArray, FloatArray]] = {}
            for outcome, row in enumerate(self.scores):
                for s, scores in enumerate(row):
                    if id(scores.features) not in made:
                        made[id(scores.features)] = score_features(scores.features, z)
                    in_side = of_side(rows.t[part], s, self.joint)
                    v = score_values(scores, made[id(scores.features)], y[outcome, part], in_side)
                    v = weighed(v, None if rows.w is None else rows.w[part])
                    yield part, outcome, s, v if sides == 1 else v[in_side]


@dataclass(frozen=True)
class ScoresOfClasses:
    """Release 5 with products over outcomes that have rows of their own.

    v is 0 where a row lacks the outcome.

    Attributes:
        joint: the table.
        blocks: scores of each class of outcomes; None of a class that noise hides.
    """

    joint: TableRecipe
    blocks: Sequence[JointScoreSums | None]

    @property
    def weights(self) -> Named:
        """Factor of each sum."""
        return score_weights(self.joint)

    def of(self, rows: CellRows) -> Named:
        """Return the sums of some rows."""
        v = np.zeros((len(self.joint.weights), len(rows)))
        for chosen, block in zip(self.joint.classes, self.blocks, strict=True):
            with_outcomes = np.flatnonzero(np.isfinite(rows.u[:, list(chosen)]).all(axis=1))
            if block is None or not len(with_outcomes):
                continue
            for part, outcome, _, values in block.each(rows.with_outcomes(chosen)):
                v[chosen[outcome], with_outcomes[part]] = values
        return with_products(v)


@dataclass(frozen=True)
class ClusterScores:
    """Scores of release 5 about their means, cut to [-1, 1] and signed by arm.

    Release 6 has totals of them.

    Attributes:
        scores: those of each subgroup; None of a subgroup that noise hides.
        centres: the released mean of v in each arm, shape (outcomes, groups, arms).
    """

    scores: Sequence[JointScoreSums | None]
    centres: FloatArray

    def of(self, rows: CellRows) -> FloatArray:
        """Return r of each outcome, shape (outcomes, rows)."""
        residuals = np.zeros((len(self.centres), len(rows)))
        for group, scores in enumerate(self.scores):
            here = np.flatnonzero(rows.g == group)
            if scores is None or not len(here):
                continue
            rows_here = rows[here]
            for part, outcome, side, v in scores.each(rows_here):
                of_side_here = of_side(rows_here.t[part], side, scores.joint)
                place = here[part] if scores.joint.sides == 1 else here[part][of_side_here]
                # Of two arms a score is signed by its weight; of more each is about the mean of its own arm.
                sign = -1.0 if scores.joint.sides > 1 and side == 0 else 1.0
                residuals[outcome, place] = sign * bounded(v - self.centres[outcome, group, rows.t[place]])
        return residuals


def of_side(t: np.ndarray, side: int, joint: TableRecipe) -> BoolArray:
    """Return which rows are of the arm that a side compares with all others."""
    in_side: BoolArray = t != 0 if joint.sides == 1 else t == side
    return in_side


def numbers_of(block: JointSums) -> int:
    """Return the number of sums of a block."""
    return sum(math.prod(weight.shape) for weight in block.weights.values())
