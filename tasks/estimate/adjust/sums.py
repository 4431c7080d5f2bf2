"""Exact sums over rows of the five releases.

Each has its sensitivity (``docs/proofs/regression.md``).

1  (t u, (1-t) u, sqrt(2) t, u^2), and sqrt(2/q) the counts of q histograms        sqrt(8), in L1 6
2  (x rho, x tau, rho^2, x x', .49 s x rho, .5 s x x')       3; without the last two sqrt(8)
3  (c r, c a)                                                                   sqrt(8)
4  as 2, with curves
5  (v, v^2), in L1 (v, v^2/2)                                                   2, in L1 2
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from causalveil.tasks.data.cells import CellRows
from causalveil.tasks.estimate.adjust.features import Encoding, FeatureMap, Scores, Screen, features_of, times
from causalveil.tasks.estimate.adjust.released import CELLS, EDGES, ColumnKind
from causalveil.tasks.estimate.models.lattice_sums import on_lattice, weighed
from causalveil.tasks.machine.arrays import BoolArray, FloatArray, IntArray

ARM_NUMBERS = 4
# Sensitivities beside those of recipe.py: in the L1 norm, and of moments that are not by arm.
SCALES_L1, MOMENTS_ALIKE, SCORES_L1 = 6.0, math.sqrt(8), 2.0
# In the L1 norm: factors of a count of units and of a squared score.
COUNT_L1, SQUARE_L1 = 0.75, 0.5
# Factors of differences of the arms' cross moments and Gram matrices in releases 2 and 4.
ARM_CROSS, ARM_GRAM = 0.49, 0.5

# All edges of cells are multiples of 1/STEPS; a number that a rounding moved off an edge lies on it.
STEPS, BELOW = 384, 1e-6
_CELL = np.maximum(np.searchsorted(EDGES + 1e-9, np.arange(2 * STEPS + 1) / STEPS - 1) - 1, 0)


def in_cells(z: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the number, or sum of weights, of entries of z that lie in each cell.

    They are in [-1, 1]. A cell goes from above its lower edge up to its upper one.
    """
    return of_steps(np.bincount(steps_of(z), weights, minlength=len(_CELL)))


def steps_of(z: FloatArray) -> IntArray:
    """Return the step of each entry of z, whole numbers."""
    steps = z + 1
    steps *= STEPS
    steps -= BELOW
    return np.ceil(steps, out=steps).astype(np.intp)


def of_steps(counts: np.ndarray) -> FloatArray:
    """Return counts of cells from those of steps."""
    return np.asarray(np.bincount(_CELL, counts, CELLS), dtype=np.float64)


@dataclass(frozen=True)
class ArmSums:
    """Exact sums by arm over rows x of features, of one outcome or several.

    Attributes:
        cross: of x rho, shape (arms, outcomes, k).
        own: of x, shape (arms, k).
        squares: of rho^2, shape (arms, outcomes).
        grams: of x x', shape (arms, k, k).
    """

    cross: FloatArray
    own: FloatArray
    squares: FloatArray
    grams: FloatArray


def arm_moments(encoding: Encoding, features: FeatureMap, rows: CellRows, rho: FloatArray, arms: int) -> ArmSums:
    """Return the sums by arm of which releases 2 and 4 are made.

    Args:
        encoding: of the rows.
        features: of the rows.
        rows: encoded, with the arm of each, from 0.
        rho: residuals on the lattice, shape (outcomes, rows).
        arms: number of arms.
    """
    k, q = features.count + 1, len(rho)
    sums = ArmSums(np.zeros((arms, q, k)), np.zeros((arms, k)), np.zeros((arms, q)), np.zeros((arms, k, k)))
    for part, z in encoding.blocks(rows.x):
        by = None if rows.roots is None else rows.roots[part]
        plain = features_of(features, z)[:, : part.stop - part.start]
        plain_weighed, r = weighed(plain, by), weighed(rho[:, part], by)
        # Features that release 2 multiplies by a code of the arm are on the lattice themselves.
        whole = plain if rows.w is None else weighed(plain, rows.w[part])
        for arm in range(arms):
            chosen = np.flatnonzero(rows.t[part] == arm)
            mine, left = plain_weighed.take(chosen, axis=1), r.take(chosen, axis=1)
            sums.cross[arm] += left @ mine.T
            sums.own[arm] += whole.take(chosen, axis=1).sum(axis=1)
            sums.squares[arm] += np.einsum("ij,ij->i", left, left)
            sums.grams[arm] += mine @ mine.T
    return sums


@dataclass(frozen=True)
class ScaleSums:
    """Histograms of release 1.

    ``pure``: there is no delta, so that its sensitivity is in the L1 norm. ``blocks``: of a protocol's subgroups, of
    which two rows may stand in two.
    """

    encoding: Encoding
    pure: bool
    blocks: bool = False

    @property
    def _covariates(self) -> int:
        return len({column.covariate for column in self.encoding.encoded})

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of entries of each column, and of the outcome last."""
        return (*(CELLS if column.kind is ColumnKind.number else 1 for column in self.encoding.encoded), CELLS)

    @property
    def numbers(self) -> int:
        """Number of sums that one question has in the release, those by arm among them."""
        return ARM_NUMBERS + sum(self.widths)

    @cached_property
    def weights(self) -> FloatArray:
        """Factor of each sum, shape (numbers,).

        A covariate that is one count of zeros and ones moves it by 1, where others move two counts, unless two rows
        stand in two blocks.
        """
        q, owners = self._covariates + 1, [column.covariate for column in self.encoding.encoded]
        # In the L1 norm one count may weigh twice as much.
        usual, alone = (1.5 / q, 2.0) if self.pure else (math.sqrt(2 / q), math.sqrt(2))
        alone = 1.0 if self.blocks else alone
        single = [
            column.kind is ColumnKind.flag and owners.count(column.covariate) == 1 for column in self.encoding.encoded
        ]
        of_columns = np.where([*single, False], alone * usual, usual)
        return np.repeat(of_columns, self.widths)

    def of_columns(self, x: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Return histograms of all columns of some rows, one after the other.

        ``weights``: of the rows, on the lattice.
        """
        columns = self.encoding.encoded
        counts = [np.zeros(len(_CELL) if column.kind is ColumnKind.number else 1) for column in columns]
        indicators = {column.covariate: at for at, column in enumerate(columns) if column.kind is ColumnKind.missing}
        for part, block in self.encoding.blocks(x):
            z, row_weights = block[:, : part.stop - part.start], None if weights is None else weights[part]
            for at, column in enumerate(columns):
                if column.kind is not ColumnKind.number:
                    counts[at] += z[at].sum() if row_weights is None else z[at] @ row_weights
                    continue
                gone = indicators.get(column.covariate)
                here = slice(None) if gone is None else z[gone] == 0
                counts[at] += np.bincount(
                    steps_of(z[at][here]), None if row_weights is None else row_weights[here], len(_CELL)
                )
        counts = [of_steps(cells) if len(cells) > 1 else cells for cells in counts]
        return np.concatenate([*counts, np.zeros(0)])


def codes(share: float) -> FloatArray:
    """Return tau = (t - p)/max(p, 1 - p) of controls and of treated, on the lattice."""
    return on_lattice(np.array([-share, 1 - share]) / max(share, 1 - share))


def moment_numbers(features: int) -> int:
    """Return the number of moments of all units in releases 2 and 4, by number of features."""
    k = features + 1
    return 2 * k + 1 + k * (k + 1) // 2


def left_of_outcome(screen: Screen, f: FloatArray, y: FloatArray, treated: BoolArray) -> FloatArray:
    """Return r of the rows of a block, shape of ``y``.

    ``f`` has shape (lines, BLOCK); its first columns belong to the rows.
    """
    p = screen.arms.share
    of_treated, of_controls = _less_middle(screen.slopes, f, screen.middle)[:, : len(y)]
    shifts = times(screen.slopes, screen.apart[:, None])[:, 0]
    fitted = np.where(treated, of_treated - (1 - p) * shifts[0], of_controls + p * shifts[1])
    return on_lattice((y - fitted) * (screen.arms.spread / screen.arms.limit))


def left_of_arm(screen: Screen, f: FloatArray, treated: BoolArray) -> FloatArray:
    """Return a of the rows of a block, shape of ``treated``.

    ``f`` has shape (lines, BLOCK); its first columns belong to the rows.
    """
    p = screen.arms.share
    by_weights = _less_middle(screen.weights[None], f, screen.middle)[0, : len(treated)]
    return on_lattice((treated - p - p * (1 - p) * by_weights) / screen.reach)


def score_values(scores: Scores, x: tuple[FloatArray, FloatArray], y: FloatArray, treated: BoolArray) -> FloatArray:
    """Return v of the rows of a block, shape of ``y``.

    ``x``: as slopes and as weights see it, each of shape (count, BLOCK); its first columns belong to the rows.
    """
    p = scores.arms.share
    b1, b0 = _less_middle(scores.slopes, x[0], scores.middle)[:, : len(y)]
    h1, h0 = _less_middle(scores.weights, x[1], scores.middle)[:, : len(y)]
    shifts = times(scores.slopes, scores.apart[:, None])[:, 0]
    (of_treated, of_controls), (lean_treated, lean_controls) = scores.index, scores.lean
    residual = y - np.where(treated, b1 - (1 - p) * shifts[0], b0 + p * shifts[1])
    weight = np.where(
        treated,
        (1 - lean_treated * (h1 - (1 - p) * of_treated)) / p,
        -(1 + lean_controls * (h0 + p * of_controls)) / (1 - p),
    )
    return on_lattice((b1 - b0 + weight * residual) / scores.cut)


def _less_middle(vectors: FloatArray, x: FloatArray, middle: FloatArray) -> FloatArray:
    """Return vectors' (x - middle), shape (vectors, BLOCK)."""
    return times(vectors, x) - times(vectors, middle[:, None])
