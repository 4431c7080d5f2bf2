"""Exact sums over rows of the five releases, each with its sensitivity (``docs/proofs/adjustment.md``).

1  (t u, (1-t) u, sqrt(2) t, u^2), and sqrt(2/q) the counts of q histograms        sqrt(8), in L1 6
2  (x rho, x tau, rho^2, x x', .49 s x rho, .5 s x x')       3; without the last two sqrt(8)
3  (c r, c a)                                                                   sqrt(8)
4  as 2, with curves
5  (v, v^2)                                                                     2, in L1 9/4
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from causalveil.tasks.adjustment.features import ArmScales, FeatureMap, Scores, Screen
from causalveil.tasks.adjustment.released import (
    CELLS,
    EDGES,
    ColumnKind,
    ReleasedMoments,
    ReleasedScales,
    ReleasedScores,
    ReleasedScreen,
)
from causalveil.tasks.adjustment.releases.rows import Encoding, curves_of, features_of, in_ball, lines_of, times
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.lattice_sums import on_lattice
from causalveil.tasks.models.triangles import symmetric, triangle_weights

ARM_NUMBERS = 4
# Sensitivities beside those of parts.py: in the L1 norm, and of moments that are not by arm.
SCALES_L1, MOMENTS_ALIKE, SCORES_L1 = 6.0, math.sqrt(8), 2.25
# By what differences of the arms' cross moments and Gram matrices are multiplied in releases 2 and 4.
ARM_CROSS, ARM_GRAM = 0.49, 0.5

# All edges of cells are multiples of one of so many steps; a number that a rounding moved off an edge lies on it.
STEPS, BELOW = 384, 1e-6
_CELL = np.maximum(np.searchsorted(EDGES + 1e-9, np.arange(2 * STEPS + 1) / STEPS - 1) - 1, 0)


def in_cells(z: FloatArray) -> FloatArray:
    """Return how many of z, in [-1, 1], lie in each cell: above its lower edge, up to its upper one."""
    places = np.ceil((z + 1) * STEPS - BELOW).astype(np.intp)
    found: FloatArray = np.bincount(_CELL[places], minlength=CELLS).astype(np.float64)
    return found


def treated(rows: Rows) -> FloatArray:
    """Return t of each row as 0 or 1, shape (rows,)."""
    found: FloatArray = (rows.t != 0).astype(np.float64)
    return found


def residuals(arms: ArmScales, rows: Rows) -> FloatArray:
    """Return y = (u - m_t)/spread of each row, shape (rows,), not cut."""
    found: FloatArray = (np.clip(rows.u, -1.0, 1.0) - np.where(rows.t != 0, *arms.means)) / arms.spread
    return found


@dataclass(frozen=True)
class ScaleSums:
    """Release 1. ``pure``: there is no delta, so that its sensitivity is in the L1 norm."""

    encoding: Encoding
    pure: bool

    @property
    def _covariates(self) -> int:
        return len({column.covariate for column in self.encoding.columns})

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many numbers each column has, and the outcome last."""
        return (*(CELLS if one.kind is ColumnKind.number else 1 for one in self.encoding.columns), CELLS)

    @property
    def numbers(self) -> int:
        """How many numbers the release has."""
        return ARM_NUMBERS + sum(self.widths)

    @cached_property
    def weights(self) -> FloatArray:
        """By what each sum is multiplied, shape (numbers,).

        A covariate that is one count of zeros and ones moves it by 1, where others move two counts.
        """
        q, owners = self._covariates + 1, [one.covariate for one in self.encoding.columns]
        # In the L1 norm one count may weigh twice as much.
        own, alone = (1.5 / q, 2.0) if self.pure else (math.sqrt(2 / q), math.sqrt(2))
        single = [one.kind is ColumnKind.flag and owners.count(one.covariate) == 1 for one in self.encoding.columns]
        of_columns = np.where([*single, False], alone * own, own)
        arms = np.array([1.0, 1.0, 0.75 if self.pure else math.sqrt(2), 1.0])
        return np.concatenate([arms, np.repeat(of_columns, self.widths)])

    def of(self, rows: Rows) -> FloatArray:
        """The sums of some rows, before their weights, shape (numbers,)."""
        u, t, columns = on_lattice(rows.u), treated(rows), self.encoding.columns
        found = [np.array([u @ t, u @ (1 - t), t.sum(), u @ u])]
        counts = [np.zeros(width) for width in self.widths]
        indicators = {one.covariate: at for at, one in enumerate(columns) if one.kind is ColumnKind.missing}
        for part, block in self.encoding.blocks(rows.x):
            z = block[:, : part.stop - part.start]
            for at, one in enumerate(columns):
                if one.kind is not ColumnKind.number:
                    counts[at] += z[at].sum()
                    continue
                gone = indicators.get(one.covariate)
                counts[at] += in_cells(z[at] if gone is None else z[at][z[gone] == 0])
        counts[-1] += in_cells(u)
        return np.concatenate(found + counts)

    def read(self, released: FloatArray, units: int, noise: Noise) -> ReleasedScales:
        """What noisy sums say. ``noise``: on each."""
        means, sd = released / units / self.weights, noise.deviation / units / self.weights
        ends = ARM_NUMBERS + np.cumsum([0, *self.widths])
        *columns, outcome = np.split(means[ARM_NUMBERS:], np.cumsum(self.widths)[:-1])
        return ReleasedScales(means[:ARM_NUMBERS], sd[:ARM_NUMBERS], outcome, tuple(columns), sd[ends[:-1]])


@dataclass(frozen=True)
class MomentSums:
    """Releases 2 and 4. ``by_arm``: what differs between the arms is released as well."""

    encoding: Encoding
    features: FeatureMap
    arms: ArmScales
    by_arm: bool

    @property
    def size(self) -> int:
        """k: features with the constant."""
        return self.features.count + 1

    @property
    def numbers(self) -> int:
        """How many numbers the release has."""
        return moment_numbers(self.features.count, self.by_arm)

    @cached_property
    def weights(self) -> FloatArray:
        """By what each sum is multiplied; off the diagonal an entry stands for two, as in the Frobenius norm."""
        k, triangle = self.size, triangle_weights(self.size)
        found = np.concatenate([np.ones(2 * k + 1), triangle])
        return np.concatenate([found, np.full(k, ARM_CROSS), ARM_GRAM * triangle]) if self.by_arm else found

    @property
    def _larger(self) -> float:
        return max(self.arms.share, 1 - self.arms.share)

    def of(self, rows: Rows) -> FloatArray:
        """The sums of some rows, before their weights, shape (numbers,)."""
        k, upper, one = self.size, np.triu_indices(self.size), rows.t != 0
        rho = on_lattice(residuals(self.arms, rows) * (self.arms.spread / self.arms.limit))
        tau = on_lattice(np.array([-self.arms.share, 1 - self.arms.share]) / self._larger)[one.astype(np.intp)]
        cross, grams, apart = np.zeros((2, k)), np.zeros((2, k, k)), np.zeros(k)
        for part, z in self.encoding.blocks(rows.x):
            x = features_of(self.features, z)[:, : part.stop - part.start]
            apart += x @ tau[part]
            for arm, chosen in enumerate((one[part], ~one[part])):
                own = np.ascontiguousarray(x[:, chosen])
                cross[arm] += own @ rho[part][chosen]
                grams[arm] += own @ own.T
        sums = [cross[0] + cross[1], apart, [rho @ rho], (grams[0] + grams[1])[upper]]
        differ = [cross[0] - cross[1], (grams[0] - grams[1])[upper]] if self.by_arm else []
        return np.concatenate([*sums, *differ])

    def read(self, released: FloatArray, units: int, noise: Noise) -> ReleasedMoments:
        """What noisy sums say. ``noise``: on each."""
        k, means, sd = self.size, released / units / self.weights, noise.deviation / units
        size = k * (k + 1) // 2
        cross, apart, square, gram, *own = np.split(means, np.cumsum([k, k, 1, size, k])[: 5 if self.by_arm else 3])
        arm_cross, arm_gram = (own[0], symmetric(own[1], k)) if self.by_arm else (np.zeros(k), np.zeros((k, k)))
        half, own_sd = sd / math.sqrt(2), sd if self.by_arm else math.inf
        return ReleasedMoments(
            cross=cross,
            cross_sd=sd,
            apart=apart,
            apart_sd=sd,
            square=float(square[0]),
            square_sd=sd,
            gram=symmetric(gram, k),
            gram_sd=half,
            arm_cross=arm_cross,
            arm_cross_sd=own_sd / ARM_CROSS,
            arm_gram=arm_gram,
            arm_gram_sd=own_sd / math.sqrt(2) / ARM_GRAM,
        )


def moment_numbers(features: int, by_arm: bool) -> int:
    """Return how many numbers releases 2 and 4 have with so many features beside the constant."""
    k = features + 1
    own = k + k * (k + 1) // 2
    return own + k + 1 + (own if by_arm else 0)


@dataclass(frozen=True)
class ScreenSums:
    """Release 3."""

    encoding: Encoding
    screen: Screen

    @property
    def numbers(self) -> int:
        """How many numbers the release has."""
        return 2 * len(self.screen.curves)

    @property
    def weights(self) -> FloatArray:
        """By what each sum is multiplied."""
        return np.ones(self.numbers)

    def of(self, rows: Rows) -> FloatArray:
        """The sums of some rows, shape (numbers,)."""
        screen, p, one = self.screen, self.screen.arms.share, rows.t != 0
        y, t, found = residuals(screen.arms, rows), treated(rows), np.zeros((2, len(screen.curves)))
        vectors = np.stack([*screen.slopes, screen.weights])
        at_middle = times(vectors, screen.middle[:, None])
        shifts = times(vectors, screen.apart[:, None])
        for part, z in self.encoding.blocks(rows.x):
            count, chosen = part.stop - part.start, one[part]
            f = lines_of(screen.lines, z)
            c = in_ball(curves_of(screen.curves, f), screen.radius)[:, :count]
            of_treated, of_controls, by_weights = (times(vectors, f) - at_middle)[:, :count]
            fitted = np.where(chosen, of_treated - (1 - p) * shifts[0], of_controls + p * shifts[1])
            r = on_lattice((y[part] - fitted) * (screen.arms.spread / screen.arms.limit))
            a = on_lattice((t[part] - p - p * (1 - p) * by_weights) / screen.reach)
            found += np.stack([c @ r, c @ a])
        return found.ravel()

    def read(self, released: FloatArray, units: int, noise: Noise) -> ReleasedScreen:
        """What noisy sums say. ``noise``: on each."""
        outcome, treatment = np.split(released / units, 2)
        return ReleasedScreen(outcome, treatment, noise.deviation / units)


@dataclass(frozen=True)
class ScoreSums:
    """Release 5."""

    encoding: Encoding
    scores: Scores
    numbers: int = 2

    @property
    def weights(self) -> FloatArray:
        """By what each sum is multiplied."""
        return np.ones(self.numbers)

    def of(self, rows: Rows) -> FloatArray:
        """The sums of v and of v^2 of some rows, shape (2,)."""
        scores, p, one, found = self.scores, self.scores.arms.share, rows.t != 0, np.zeros(2)
        y = residuals(scores.arms, rows)
        vectors = np.concatenate([scores.slopes, scores.weights])
        at_middle = times(vectors, scores.middle[:, None])
        shifts = times(scores.slopes, scores.apart[:, None])[:, 0]
        (of_treated, of_controls), (lean_treated, lean_controls) = scores.index, scores.lean
        for part, z in self.encoding.blocks(rows.x):
            f = lines_of(scores.features.lines, z)
            x = np.concatenate([f, curves_of(scores.features.curves, f)])
            b1, b0, h1, h0 = (times(vectors, x) - at_middle)[:, : part.stop - part.start]
            residual = y[part] - np.where(one[part], b1 - (1 - p) * shifts[0], b0 + p * shifts[1])
            weight = np.where(
                one[part],
                (1 - lean_treated * (h1 - (1 - p) * of_treated)) / p,
                -(1 + lean_controls * (h0 + p * of_controls)) / (1 - p),
            )
            v = on_lattice((b1 - b0 + weight * residual) / scores.cut)
            found += np.array([v.sum(), v @ v])
        return found

    def read(self, released: FloatArray, units: int, noise: Noise) -> ReleasedScores:
        """What noisy sums say. ``noise``: on each."""
        mean, square = (released / units).tolist()
        return ReleasedScores(mean, square, noise.deviation / units, noise.scale / units, noise.mixing)
