"""Estimates on private scores, as the papers define or name them: weighting, stratification, matching.

Scores come from coefficients with noise, and so what is computed from them keeps the training units' guarantee. The
estimation units have none, but for the noise that the first paper adds to the weighted estimate.
"""

from __future__ import annotations

import numpy as np

from causalveil.tasks.estimate.models.nearest import NO_CAP, match_capped
from causalveil.tasks.machine.arrays import FloatArray
from causalveil_replication.lee2019.data import Subjects

STRATA = 5


def weighted(sample: Subjects, w: FloatArray) -> float:
    """The Horvitz-Thompson estimate with scores sigmoid(x'w), not clipped (Equations 5 to 7)."""
    sign = np.where(sample.t != 0, 1.0, -1.0)
    with np.errstate(over="ignore"):
        return float(np.mean(sign * sample.y * (1 + np.exp(-sign * (sample.x @ w)))))


def clipped(sample: Subjects, w: FloatArray, clip: float) -> float:
    """Return the Horvitz-Thompson estimate with clipped scores (the papers' trimmed estimate).

    No score is nearer to 0 or 1 than ``clip``.
    """
    score = np.clip(1 / (1 + np.exp(-np.clip(sample.x @ w, -50, 50))), clip, 1 - clip)
    return float(np.mean(np.where(sample.t != 0, sample.y / score, -sample.y / (1 - score))))


def declared_sensitivity(units: int, largest: float, clip: float) -> float:
    """S(tau_n) from declared bounds: 2 C/(n clip) for outcomes in [-C, C] and scores in [clip, 1 - clip]."""
    return 2 * largest / (units * clip)


def read_off_sensitivity(sample: Subjects, w: FloatArray) -> float:
    """The authors' S(tau_n): 2 C max(1/low, 1/(1 - high))/n, all three read off the units it should protect."""
    with np.errstate(over="ignore"):
        # 1/score and 1/(1 - score) without the division.
        inverse = 1 + np.exp(-(sample.x @ w)), 1 + np.exp(sample.x @ w)
    return 2 / len(sample.t) * float(np.abs(sample.y).max()) * max(float(part.max()) for part in inverse)


def stratified(sample: Subjects, w: FloatArray, strata: int = STRATA) -> float:
    """Mean over quantile strata of the score of the arms' difference of means; strata without an arm are left out.

    NaN if every stratum lacks an arm.
    """
    order = np.argsort(sample.x @ w, kind="stable")
    parts = [sample.at(part) for part in np.array_split(order, strata)]
    both = [part for part in parts if 0 < part.t.sum() < len(part.t)]
    if not both:
        return float("nan")
    differences = [part.y[part.t != 0].mean() - part.y[part.t == 0].mean() for part in both]
    return float(np.average(differences, weights=[len(part.t) for part in both]))


def matched(sample: Subjects, w: FloatArray) -> float:
    """Every unit against its nearest of the other arm by score, with replacement."""
    # Centred and scaled to what match_capped calls a lattice of exact differences.
    scores = np.round(np.clip(sample.x @ w, -30, 30) * 2**20) / 2**20
    found = match_capped(scores, sample.t, 1, (NO_CAP, NO_CAP), keep=True)
    neighbours = np.empty(0, dtype=np.int32) if found.neighbours is None else found.neighbours[:, 0]
    sign = np.where(sample.t != 0, 1.0, -1.0)
    return float(np.mean(sign * (sample.y - sample.y[neighbours])))
