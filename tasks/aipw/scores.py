"""Doubly robust scores, and a proved bound on how far they reach (Schroeder et al. 2025, equation 6).

Gamma = mu_1 - mu_0 + t (u - mu_1)/pi - (1-t)(u - mu_0)/(1-pi), u in [-1, 1] the scaled outcome, from nuisances that
were released and so are public. A new row anywhere in the declared domain has a score in a known interval
(``score_range``, in closed form, never an optimiser's answer); scaled to it, a unit adds v in [-1, 1] and v^2 to two
sums. Computed scores are cut to the interval, so the bound holds for floats. Proofs: ``docs/proofs/aipw.md``, sections
4 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.study import CategoricalCovariate, EffectStudy
from causalveil.tasks.aipw.outcome_model import OutcomeModel
from causalveil.tasks.covariates.encoding import blocks, scale
from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.ipw.weights import CHUNK
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import distribute
from causalveil.tasks.models.bounded import bounded
from causalveil.tasks.models.lattice_sums import lattice_exponent
from causalveil.tasks.models.logistic import clipped_scores

# Ranges are widened by this part of their size, for rounding in the arithmetic that found them.
OUTWARD = 1e-9


@dataclass(frozen=True)
class Range:
    """A closed interval."""

    low: float
    high: float

    def __post_init__(self) -> None:
        """Refuse what is none.

        Raises:
            ValueError: not ordered or not finite.
        """
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise ValueError("not an interval")

    def cut(self, low: float, high: float) -> Range:
        """The nearest points of [low, high] to its ends: the image under clipping."""
        return Range(min(max(self.low, low), high), min(max(self.high, low), high))

    def wider(self) -> Range:
        """A little wider on both sides."""
        slack = OUTWARD * max(1.0, abs(self.low), abs(self.high))
        return Range(self.low - slack, self.high + slack)


@dataclass(frozen=True)
class Nuisances:
    """The released models by which one fold is scored.

    Attributes:
        outcome: the outcome model.
        constant_score: everybody's propensity score, where ``coefficients`` are None; else ignored.
        coefficients: of the logistic model, shape (d,), or None.
    """

    outcome: OutcomeModel
    constant_score: float
    coefficients: FloatArray | None = None

    def propensity(self, x: FloatArray, clip: tuple[float, float]) -> FloatArray:
        """pi(x), shape (rows,), within ``clip``."""
        if self.coefficients is None:
            return np.full(len(x), min(max(self.constant_score, clip[0]), clip[1]))
        return clipped_scores(x, self.coefficients, clip)


@dataclass(frozen=True)
class ScoreRange:
    """Where every possible score lies, in scaled outcomes. ``half`` is above 0."""

    middle: float
    half: float


def linear_range(study: EffectStudy, weights: FloatArray) -> Range:
    """The exact range of weights'x over every row that normalisation can make, without intercept; rounded outwards.

    A number's entry is anywhere in [-s, s] (or, missing, the pair (0, s)); of a category one level's entry is s.

    Args:
        study: declares the domain.
        weights: shape (d - 1,) or longer; what is behind the covariates is not read.
    """
    s, low, high = scale(study), 0.0, 0.0
    for block in blocks(study):
        part = weights[block.start : block.start + len(block.features)] * s
        if isinstance(block.covariate, CategoricalCovariate):
            ends = part.tolist()
        else:
            ends = [-part[0], part[0]] + ([part[1]] if study.indicated(block.name) else [])
        low, high = low + float(min(ends)), high + float(max(ends))
    return Range(low, high).wider()


def propensity_range(study: AipwStudy, nuisances: Nuisances) -> Range:
    """Where the propensity score lies for every row of the domain."""
    low, high = study.estimator.propensity.bounds
    if nuisances.coefficients is None:
        return Range(nuisances.constant_score, nuisances.constant_score).cut(low, high)
    logits = linear_range(study, nuisances.coefficients)
    constant = float(nuisances.coefficients[-1]) * scale(study)
    with np.errstate(over="ignore"):
        ends = 1 / (1 + np.exp(-(np.array([logits.low, logits.high]) + constant)))
    return Range(float(ends[0]), float(ends[1])).wider().cut(low, high)


def common_range(study: AipwStudy, model: OutcomeModel) -> Range:
    """Where g(x) lies for every row of the domain.

    A row is x/radius, or shorter by some factor: b'x/radius times a factor in [0, 1], so 0 belongs to its range; it is
    no more than ||b||. From it the middle is taken off, and what is left is cut to the limit.
    """
    if model.limit == 0:
        return Range(0.0, 0.0)
    ends = linear_range(study, model.slopes)
    # Rounding a row towards 0 takes up to 2^-18 off each entry.
    loose = float(np.abs(model.slopes).sum()) * 2.0**-18
    norm = float(np.linalg.norm(model.slopes)) * (1 + OUTWARD)
    low = max(min(ends.low, 0.0) / model.radius - loose, -norm) - model.middle
    high = min(max(ends.high, 0.0) / model.radius + loose, norm) - model.middle
    return Range(low, high).wider().cut(-model.limit, model.limit).wider()


def fold_range(study: AipwStudy, nuisances: Nuisances) -> Range:
    """Every score of a fold lies here (section 5).

    For the treated Gamma falls in both mu's and is furthest out at the smallest pi; for controls it rises in both mu's
    and is furthest out at the largest pi. So each end is taken at a corner.
    """
    g, pi = common_range(study, nuisances.outcome), propensity_range(study, nuisances)
    treated, control = (Range(m + g.low, m + g.high).cut(-1.0, 1.0) for m in nuisances.outcome.constants)
    return Range(
        min(
            treated.high - control.high - (1 + treated.high) / pi.low,
            treated.low - control.low - (1 - control.low) / (1 - pi.high),
        ),
        max(
            treated.low - control.low + (1 - treated.low) / pi.low,
            treated.high - control.high + (1 + control.high) / (1 - pi.high),
        ),
    ).wider()


def score_range(study: AipwStudy, nuisances: Sequence[Nuisances]) -> ScoreRange:
    """One interval for the scores of all folds, so that they add up to one release."""
    ranges = [fold_range(study, fold) for fold in nuisances]
    low, high = min(part.low for part in ranges), max(part.high for part in ranges)
    return ScoreRange((low + high) / 2, (high - low) / 2 * (1 + OUTWARD))


def scores(rows: Rows, nuisances: Nuisances, clip: tuple[float, float]) -> FloatArray:
    """Gamma of each row, shape (rows,), in scaled outcomes; a row's score depends on that row alone."""
    pi = nuisances.propensity(rows.x, clip)
    common = nuisances.outcome.common(rows.x)
    treated, control = (np.clip(m + common, -1.0, 1.0) for m in nuisances.outcome.constants)
    u = np.clip(rows.u, -1.0, 1.0)
    result: FloatArray = treated - control
    return result + np.where(rows.t != 0, (u - treated) / pi, (control - u) / (1 - pi))


def score_sums(
    study: AipwStudy, folds: Sequence[Pieces], nuisances: Sequence[Nuisances], bound: ScoreRange, workers: int = 1
) -> FloatArray:
    """(sum v, sum v^2) over all units, v = (Gamma - middle)/half, shape (2,): exact on a lattice, as in ``weigh``.

    Args:
        study: its clip is used.
        folds: the units of each fold.
        nuisances: the models by which each fold is scored, learnt on the other folds.
        bound: of ``score_range``.
        workers: threads; the result does not depend on it.
    """
    units = sum(part.units for part in folds)
    step, clip = 2.0 ** lattice_exponent(units), study.estimator.propensity.bounds
    pieces = [
        (part, index, models) for part, models in zip(folds, nuisances, strict=True) for index in range(part.count)
    ]

    def piece(place: int) -> tuple[int, int]:
        part, index, models = pieces[place]
        rows, total = part.rows(index), np.zeros(2)
        for first in range(0, len(rows), CHUNK):
            window = slice(first, first + CHUNK)
            found = scores(Rows(rows.x[window], rows.t[window], rows.u[window]), models, clip)
            v = bounded((found - bound.middle) / bound.half)
            # Whole numbers whose absolute values add up to at most 2^52: every partial sum is exact.
            total += np.rint(np.stack([v, v * v]) * step).sum(axis=1)
        return int(total[0]), int(total[1])

    parts = distribute(piece, len(pieces), workers)
    return np.array([sum(part[0] for part in parts) / step, sum(part[1] for part in parts) / step])
