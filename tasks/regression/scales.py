"""Release 1: where covariates and outcomes lie and how far they spread, and how many are treated.

All later releases are scaled by what is released here, so that declared ranges need not be tight. The vector is
(sum t u, sum (1-t) u, sqrt(2) sum t, sum u^2), and for each number (sum x_j, sqrt(p + 1) sum x_j^2) and, where there
is a delta, .6 c sum (x_j/c)^8, which tells how many people lie at the ends of its range; for each column that is 0 or c
a weighted sum. Entries of p covariates are at most c = 1/sqrt(p + 1): its sensitivity is sqrt(4 + 4 p/(p + 1)), and 2
without the covariates (``docs/proofs/regression.md``, section 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from causalveil.tasks.covariates.columns import Columns
from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.inference.arms import believed, everybody, from_everybody
from causalveil.tasks.inference.confounding import sure_spread
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.lattice_sums import exact_sums, on_lattice
from causalveil.tasks.regression.rare import mostly_undeclared, rare_places

# Numbers of the release that do not depend on covariates.
ARM_NUMBERS = 4
# By what their exact sums are multiplied.
ARM_WEIGHTS = (1.0, 1.0, math.sqrt(2), 1.0)
# An arm's mean is half believed beside noise of this standard deviation, or of that of outcomes if that is less. One
# that is not is taken to lie as far from everybody's as its noise, at most the second number, or as it is seen to.
HIDDEN_MEAN_NOISE, MEAN_DEVIATION = 0.2, 0.5
# Outcomes whose mean square, in half ranges, is less than this below 1 lie at both ends of their range, as 0 and 1 do;
# of costs near one end it is a little smaller. Noise is given so many of its deviations, up to the second number.
AT_ENDS, AT_ENDS_DEVIATIONS, MOST_AT_ENDS = 0.02, 3.0, 0.1
# Kurtosis that residuals are taken to have, and the least chance of an event.
KURTOSIS, LEAST_CHANCE = 15.0, 1e-3
# An event's residual is cut where noise in the slopes of d columns reaches about this part of the residuals' deviation;
# noise of release 2 is so much of that of release 1.
EVENT_NOISE, QUIETER, TINY = 0.36, 0.55, 1e-12
# Residuals are cut at so many of their standard deviations while moments are taken.
CUT_DEVIATIONS = 3.0
# The treated share is taken to be at least so many noise deviations from 0 and from 1, and never 0 or 1. A least share
# of its own would count people whom a rare treatment does not have, and divide an arm's sums by them.
SHARE_DEVIATIONS = 2.0
LEAST_SHARE, MOST_LEAST_SHARE = 1e-9, 0.4
# A covariate's variance is taken to be at least so many deviations of its noise.
VARIANCE_DEVIATIONS = 1.5
# Of eighth powers, in units of a number's own sum.
POWER_WEIGHT = 0.6


@dataclass(frozen=True)
class KnownColumns:
    """What release 1 says of covariates.

    Attributes:
        centre: mean of each kept column of x, shape (columns,); those that noise hides are 0.
        deviation: standard deviation of each kept column, shape (columns,), above 0.
        centre_error: standard deviation of the noise in each centre, shape (columns,).
        rare: places within the columns of the release of those that are left out of the first three, since hardly
            anybody has the rarer of their two values.
        rare_share: at most so many units have one of these, as a share of all.
        undeclared: places within the columns of the release of levels for values that nobody declared, but most have.
        powers: mean of (x/c)^8, shape (columns,); 0 of columns of which it is not released.
    """

    centre: FloatArray
    deviation: FloatArray
    centre_error: FloatArray
    rare: tuple[int, ...] = ()
    rare_share: float = 0.0
    undeclared: tuple[int, ...] = ()
    powers: FloatArray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, kw_only=True)
class Scales(KnownColumns):
    """What release 1 says of covariates, and of arms. Outcomes are scaled to u in [-1, 1].

    Attributes:
        share: p, the treated share, away from 0 and 1.
        share_error: standard deviation of its noise.
        observed_share: p as released, anywhere; None in a protocol, which asks more of an arm's number of units.
        means: of u among treated and controls, shrunk to everybody's, in [-1, 1].
        mean_errors: standard deviations by which they may be off.
        mean_noises: of the noise alone that is left in them.
        noise: of the noise on a sum of u over n.
        spread: standard deviation of u within an arm.
    """

    share: float
    share_error: float
    means: tuple[float, float]
    mean_errors: tuple[float, float]
    mean_noises: tuple[float, float]
    noise: float
    spread: float
    observed_share: float | None = None

    @property
    def larger(self) -> float:
        """max(p, 1 - p)."""
        return max(self.share, 1 - self.share)

    @property
    def between(self) -> float:
        """p (1 - p)."""
        return self.share * (1 - self.share)

    @property
    def at_ends(self) -> bool:
        """Whether outcomes have two values, the ends of their declared range, or nearly."""
        one, other = self.means
        below = min(max(AT_ENDS, AT_ENDS_DEVIATIONS * self.noise), MOST_AT_ENDS)
        return self.spread**2 + self.share * one**2 + (1 - self.share) * other**2 > 1 - below

    @property
    def limit(self) -> float:
        """L: residuals are divided by it, and cut at it while moments are taken.

        A rare event lies many deviations out, and is all that an outcome of two values has: it is cut no further than
        noise in the slopes asks for.
        """
        usual = CUT_DEVIATIONS * self.spread
        if not self.at_ends:
            return min(2.0, usual)
        # Of release 2, which has about twice the budget that release 1 has.
        noise = max(QUIETER * self.noise, TINY)
        borne = EVENT_NOISE * self.spread / (noise * max(len(self.centre), 1))
        return min(2.0, max(usual, min(borne, 1 + max(map(abs, self.means)))))

    @property
    def kurtosis(self) -> float:
        """Of residuals: what is assumed of them, or that of an outcome of two values, if larger."""
        if not self.at_ends:
            return KURTOSIS
        mean = self.share * self.means[0] + (1 - self.share) * self.means[1]
        rarer = max((1 - abs(mean)) / 2, LEAST_CHANCE)
        return max(KURTOSIS, 1 / (rarer * (1 - rarer)) - 3)

    def residuals(self, rows: Rows) -> FloatArray:
        """(u - m_t)/L of each row, shape (rows,), not cut."""
        found: FloatArray = (np.clip(rows.u, -1.0, 1.0) - np.where(rows.t != 0, *self.means)) / self.limit
        return found


def column_numbers(columns: Columns) -> int:
    """How many numbers of release 1 are of covariates."""
    return len(columns.kept) + len(columns.numbers) + len(columns.eighth)


def column_sums(x: FloatArray, columns: Columns) -> FloatArray:
    """Those of rows x, shape (column_numbers(columns),): sums of lattice products, before their weights."""
    kept = on_lattice(x[:, list(columns.kept)])
    numbers, squares = kept[:, list(columns.numbers)], (kept[:, list(columns.eighth)] / columns.span) ** 2
    # Squared twice more, and not by a power of floats, which may round otherwise elsewhere in an array.
    powers = on_lattice((squares * squares) * (squares * squares))
    return np.concatenate([kept.sum(axis=0), np.einsum("ij,ij->j", numbers, numbers), powers.sum(axis=0)])


def scale_sums(pieces: Pieces, columns: Columns | None, workers: int = 1) -> FloatArray:
    """The exact sums of release 1, shape (4 + column_numbers(columns),), or (4,) without columns.

    Args:
        pieces: all units.
        columns: whose sums and squares are taken; None: the arms' alone.
        workers: threads; the sums do not depend on it.
    """

    def of(rows: Rows) -> FloatArray:
        u, t = on_lattice(rows.u), (rows.t != 0).astype(np.float64)
        arms = np.array([u @ t, u @ (1 - t), t.sum(), u @ u])
        return arms if columns is None else np.concatenate([arms, column_sums(rows.x, columns)])

    weights: FloatArray = np.array([*ARM_WEIGHTS, *([] if columns is None else column_weights(columns))])
    return exact_sums(pieces, of, len(weights), workers) * weights


def column_weights(columns: Columns) -> FloatArray:
    """By what each exact sum of covariates is multiplied."""
    squares = [math.sqrt(columns.covariates + 1)] * len(columns.numbers)
    return np.array([*columns.weights, *squares, *[POWER_WEIGHT * columns.span] * len(columns.eighth)])


def scales_from(released: FloatArray, units: int, noise: float, columns: Columns | None) -> Scales:
    """What the released sums say; every denominator is kept away from 0.

    Args:
        released: of :func:`scale_sums`, noisy.
        units: n.
        noise: standard deviation of the noise on each number.
        columns: whose sums they are; None: the arms' alone.
    """
    error = noise / units
    treated, controls, count, squares = (released[:ARM_NUMBERS] / units).tolist()
    count /= math.sqrt(2)
    share = sure_share(count, error / math.sqrt(2))
    middle = everybody(treated + controls, math.sqrt(2) * error)
    around = sure_spread(squares - middle**2, error)
    sums = (treated, count, share), (controls, 1 - count, 1 - share)
    arms = [arm_mean(*arm, error, middle, around) for arm in sums]
    means, errors, noises = zip(*arms, strict=True)
    within = squares - share * means[0] ** 2 - (1 - share) * means[1] ** 2
    known = NO_COLUMNS if columns is None else columns_from(released[ARM_NUMBERS:] / units, error, columns)
    return Scales(
        share=share,
        share_error=error / math.sqrt(2),
        means=means,
        mean_errors=errors,
        mean_noises=noises,
        noise=error,
        spread=sure_spread(within, error),
        observed_share=count,
        **vars(known),
    )


def sure_share(share: float, error: float) -> float:
    """A noisy share of the units, kept away from 0 and 1 by its noise."""
    least = min(max(LEAST_SHARE, SHARE_DEVIATIONS * error), MOST_LEAST_SHARE)
    return min(max(share, least), 1 - least)


def arm_mean(
    total: float, count: float, share: float, error: float, middle: float, spread: float
) -> tuple[float, float, float]:
    """The mean of u in an arm, shrunk to that of everybody, by how much it may be off, and the noise alone in it.

    Args:
        total: noisy sum of u in the arm, over n.
        count: its share as released, anywhere.
        share: the same, away from 0.
        error: standard deviation of the noise on ``total``.
        middle: of everybody, in [-1, 1].
        spread: standard deviation of u around it.
    """
    noise, away = error / share, from_everybody(total, count, share, middle)
    kept = believed(noise, min(HIDDEN_MEAN_NOISE, spread))
    # What is not believed may be true.
    off = math.hypot(kept * noise, (1 - kept) * max(abs(away), min(noise, MEAN_DEVIATION)))
    return middle + kept * away, off, kept * noise


NO_COLUMNS = KnownColumns(np.zeros(0), np.zeros(0), np.zeros(0))


def columns_from(means: FloatArray, error: float, columns: Columns) -> KnownColumns:
    """Mean, standard deviation and error of the mean of each column, from the noisy means of release 1."""
    parts, places = means / column_weights(columns), list(columns.numbers)
    first, second, eighth = np.split(parts, [len(columns.kept), len(columns.kept) + len(columns.numbers)])
    errors = error / np.array(columns.weights)
    # What noise may have made of 0 is moved there; a mean that is clear of its noise hardly moves, for shifts of many
    # columns to one side would add up.
    kept = np.maximum(0.0, 1 - errors**2 / np.maximum(first**2, errors**2 / 2))
    centre = np.clip(kept * first, -1.0, 1.0)
    # A column that is 0 or c has the variance m (c - m).
    variances = np.clip(centre, 0.0, columns.span) * (columns.span - np.clip(centre, 0.0, columns.span))
    variances[places] = second - centre[places] ** 2
    floors = errors * columns.span
    floors[places] = error / math.sqrt(columns.covariates + 1)
    deviation = np.minimum(np.sqrt(np.maximum(variances, VARIANCE_DEVIATIONS * floors)), 1.0)
    powers = np.zeros(len(columns.kept))
    powers[list(columns.eighth)] = eighth
    rare, most = rare_places(centre, errors, columns)
    return KnownColumns(
        centre=np.delete(centre, rare),
        deviation=np.delete(deviation, rare),
        centre_error=np.delete(errors, rare),
        rare=rare,
        rare_share=most,
        undeclared=mostly_undeclared(centre, errors, columns),
        powers=np.delete(powers, rare),
    )


def farthest_score(
    scales: Scales, lean: tuple[float, float], lines: Sequence[tuple[float, float, float, float]]
) -> float:
    """No |w r_b| of a unit is larger, in units of L: outcomes lie in [-1, 1], features in the unit ball.

    Args:
        scales: of release 1.
        lean: (k1, k0).
        lines: of treated and of controls: at most how much b'xs is, b'D, h'xs and h'D.
    """
    p = scales.share
    arms = zip(lean, (p, 1 - p), scales.means, lines, strict=True)
    return max(
        (1 + k * (index + (1 - part) * moved)) / part * ((1 + abs(mean)) / scales.limit + slope + (1 - part) * shifted)
        for k, part, mean, (slope, shifted, index, moved) in arms
    )
