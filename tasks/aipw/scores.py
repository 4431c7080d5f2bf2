"""Doubly robust scores with a known chance of treatment, and where every possible one of them lies.

Gamma = mu_1 - mu_0 + t (u - mu_1)/p - (1 - t)(u - mu_0)/(1 - p), u in [-1, 1] the scaled outcome, p the known chance.
mu_t(x) = m_t + spread g_t(x), g_t = b_t'(f - middle) cut to [-limit, limit], is made of released numbers and so is
public: the range of Gamma over all rows is known in closed form, and no score is cut (``docs/proofs/aipw.md``). The
mean of Gamma is the effect whatever m_t, b_t and the limit are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from causalveil.tasks.adjustment.features import Encoding, LineFeature, lines_of, times
from causalveil.tasks.enclave.enclave import Rows
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.lattice_sums import on_lattice

# Limits of predictions that are tried, in deviations of what they predict; 0: arms' means alone.
LIMITS = np.arange(0, 3.01, 0.25)
# Ranges are widened by this part of their size, for rounding in the arithmetic that found them.
OUTWARD = 1e-9


class ScoreRange(NamedTuple):
    """Range [middle - half, middle + half] of all possible scores, ``half`` > 0.

    Both are in half ranges of the outcome.
    """

    middle: float
    half: float


class Precision(NamedTuple):
    """Precision of a mean of scores: its number of units, and its noise.

    The noise is that of scores in [-1, 1].
    """

    units: int
    noise: float


class ExpectedScores(NamedTuple):
    """A limit of predictions, and the expected variance of the estimate under it.

    The limit is in deviations of the outcome within arms.
    """

    limit: float
    variance: float


def ends(chance: float, means: tuple[float, float], reach: float) -> tuple[float, float]:
    """Return the least and the largest score.

    ``reach``: how far predictions go from the arms' means.

    Gamma is linear in u, g_1 and g_0: u/p - mu_1 (1 - p)/p - mu_0 of treated, mu_1 + mu_0 p/(1 - p) - u/(1 - p) of
    controls.
    """
    p, q = chance, 1 - chance
    treated, control = -means[0] * q / p - means[1], means[0] + means[1] * p / q
    own, other = (1 + reach) / p, (1 + reach) / q
    return min(treated - own, control - other), max(treated + own, control + other)


def common_range(found: Sequence[tuple[float, float]]) -> ScoreRange:
    """Return one range for the scores of all folds, so that they add up to one release."""
    low, high = min(one[0] for one in found), max(one[1] for one in found)
    return ScoreRange((low + high) / 2, (high - low) / 2 * (1 + OUTWARD))


def expected_variance(
    chance: float, means: tuple[float, float], spread: float, explained: float, deviation: float, known: Precision
) -> ExpectedScores:
    """Return the limit of predictions with the least expected variance, and this variance.

    Predictions explain less under a smaller limit, and scores reach further under a larger one. Cut at k of their
    deviations, normal predictions explain the part P(|z| < k) + 2 k phi(k) - 2 k^2 P(z > k) of what they explain uncut.

    Args:
        chance: p.
        means: m_t.
        spread: the outcome's deviation within arms.
        explained: of its variance, what predictions explain.
        deviation: of predictions, in spreads.
        known: how well the mean of scores is known.
    """
    density = np.exp(-(LIMITS**2) / 2) / np.sqrt(2 * np.pi)
    kept = 1 - 2 * ndtr(-LIMITS) + 2 * LIMITS * density - 2 * LIMITS**2 * ndtr(-LIMITS)
    reaches = LIMITS * deviation * spread
    halves = np.array([common_range([ends(chance, means, float(reach))]).half for reach in reaches])
    sampling = spread**2 * (1 - explained * kept) * (1 / chance + 1 / (1 - chance)) / known.units
    variance = sampling + (halves * known.noise) ** 2
    best = int(variance.argmin())
    return ExpectedScores(float(LIMITS[best] * deviation), float(variance[best]))


@dataclass(frozen=True)
class OutcomeModel:
    """The released model by which one fold is scored.

    Attributes:
        chance: the known chance of treatment.
        means: m_t, in half ranges.
        spread: the outcome's deviation within arms, in half ranges.
        lines: f.
        middle: of f, shape (lines,).
        slopes: b_t in spreads, shape (2, lines).
        limit: of predictions, in spreads; 0: arms' means alone.
        contradicted: whether the released treated share lies too far from the chance for that to be true.
    """

    chance: float
    means: tuple[float, float]
    spread: float
    lines: tuple[LineFeature, ...]
    middle: FloatArray
    slopes: FloatArray
    limit: float
    contradicted: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """Every score of any row lies between these."""
        return ends(self.chance, self.means, self.spread * self.limit)

    @cached_property
    def _at_middle(self) -> FloatArray:
        return times(self.slopes, self.middle[:, None])

    def predicted(self, z: FloatArray) -> FloatArray:
        """Return mu_t of rows whose columns are z, shape (2, rows)."""
        g = np.clip(times(self.slopes, lines_of(self.lines, z)) - self._at_middle, -self.limit, self.limit)
        found: FloatArray = np.array(self.means)[:, None] + self.spread * g
        return found


@dataclass(frozen=True)
class FoldScores:
    """The sums of a fold's scores, scaled to the common range, and of their squares."""

    encoding: Encoding
    model: OutcomeModel
    bound: ScoreRange

    def of(self, rows: Rows) -> FloatArray:
        """The sums of v and of v^2 of some rows, shape (2,)."""
        p, one, found = self.model.chance, rows.t != 0, np.zeros(2)
        u = np.clip(rows.u, -1.0, 1.0)
        for part, z in self.encoding.blocks(rows.x):
            treated, control = self.model.predicted(z)[:, : part.stop - part.start]
            off = np.where(one[part], (u[part] - treated) / p, (control - u[part]) / (1 - p))
            v = on_lattice((treated - control + off - self.bound.middle) / self.bound.half)
            found += np.array([v.sum(), v @ v])
        return found
