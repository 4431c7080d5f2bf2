"""Slopes, balancing weights, cuts of scores and the law of the error.

All follow from draws of the posterior.

For any slopes b_t and weights h_t the estimate of estimand k (k_1 = 1 - p, k_0 = p for the ATE; 0, 1 for the ATT; 1, 0
for the ATC) is off by sum_t k_t (beta_t - b_t)'(D - G_t h_t) beside second-order terms of noise in means: a product of
two errors in each arm (Robins, Rotnitzky and Zhao 1994, with weights linear in the features).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.tasks.adjustment.features import FeatureMap, Scores
from causalveil.tasks.adjustment.moments import SeenMoments
from causalveil.tasks.adjustment.posterior import Draws
from causalveil.tasks.adjustment.recipe import scores_sd
from causalveil.tasks.adjustment.released import Public, RandomDraws
from causalveil.tasks.adjustment.scales import MIDDLE, FoundScales
from causalveil.tasks.machine.arrays import FloatArray

# Slopes are off by so much of the residual variance in ways that moments do not show: curves of no candidate, cut
# residuals (0 to .1 held alike on tables 64 to 199).
DISCREPANCY = 0.02
# Residuals keep this part of their variance.
LEAST_RESIDUAL = 0.05
# Cuts of scores that are tried, in deviations; tails fall off as exp(-c/TAIL) beyond what the histogram shows
# (chosen on random tables 0 to 199: normal tails cut too much of costs and rare outcomes).
CUTS, TAIL = np.arange(1.5, 15.1, 0.25), 0.8
# Nodes and weights of a standard normal, by which weights of balance vary.
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(5)


@dataclass(frozen=True)
class Learnt:
    """Estimates by released moments, in deviations of features and of the outcome within arms.

    Attributes:
        features, moments, draws: what was seen, and what it leaves possible.
        lean: (k_1, k_0).
        counts: 1 for an arm that has scores, else 0, shape (2,).
        slopes, weights, index: b_t and h_t, shape (2, d), and h_t'D, shape (2,).
        residual: the outcome's variance that slopes leave.
        distances: h_t'G h_t, shape (2,).
        tilt: by how much h_t'x is larger where the outcome is larger by a deviation, if that counts; shape (2,).
        error: of the estimate before release 5, by draw, shape (K,).
    """

    features: FeatureMap
    moments: SeenMoments
    draws: Draws
    lean: tuple[float, float]
    counts: FloatArray
    slopes: FloatArray
    weights: FloatArray
    index: FloatArray
    residual: float
    distances: FloatArray
    tilt: FloatArray
    error: FloatArray


def leaning(estimand: str, share: float) -> tuple[float, float]:
    """Return (k_1, k_0), the part of the arms' distance by which each is moved for the estimand."""
    return {"ATE": (1 - share, share), "ATT": (0.0, 1.0), "ATC": (1.0, 0.0), "ARM": (1 - share, 0.0)}[estimand]


def learn(
    public: Public,
    scales: FoundScales,
    features: FeatureMap,
    moments: SeenMoments,
    draws: Draws,
    random: RandomDraws,
) -> Learnt:
    """Decide slopes and weights from draws."""
    shares, lean = np.array([scales.arms.share, 1 - scales.arms.share]), leaning(public.estimand, scales.arms.share)
    gram, slopes = draws.grams.mean(axis=0), slopes_of(draws)
    # An arm that stands for itself has the other's line: its own would not be moved.
    slopes = slopes[[1, 1]] if lean[0] == 0 else slopes[[0, 0]] if lean[1] == 0 else slopes
    fitted = 2 * (draws.grams @ draws.slopes[..., None]).mean(axis=0)[..., 0] - (gram @ slopes[..., None])[..., 0]
    residual = max(1 - float(shares @ (slopes * fitted).sum(axis=1)), LEAST_RESIDUAL)
    discrepancy = DISCREPANCY * residual / max(features.count, 1)
    weights = weights_of(draws, slopes, discrepancy)
    index = (weights * draws.apart.mean(axis=0)).sum(axis=1)
    error = errors_of(draws, moments, scales.arms.share, (slopes, weights, index), lean, discrepancy, random)
    distances = np.einsum("td,tde,te->t", weights, gram, weights)
    counts = np.array([1.0, float(public.estimand != "ARM")])
    tilt = tilt_of(draws, gram, slopes, weights) if public.tilted else np.zeros(2)
    return Learnt(features, moments, draws, lean, counts, slopes, weights, index, residual, distances, tilt, error)


def tilt_of(draws: Draws, gram: FloatArray, slopes: FloatArray, weights: FloatArray) -> FloatArray:
    """Return b_t'G_t h_t as far as it stands out of what draws leave possible, shape (2,).

    Slopes that are noise would put scores beyond cuts where no events are: twice their variance is taken off, as far as
    there is any (a positive part of James and Stein's, which is 0 in five of six draws of noise alone).
    """
    along = np.einsum("ktd,tde,te->kt", draws.slopes, gram, weights)
    seen = np.einsum("td,tde,te->t", slopes, gram, weights)
    kept: FloatArray = seen * np.maximum(1 - 2 * along.var(axis=0) / np.maximum(seen**2, 1e-12), 0)
    return kept


def slopes_of(draws: Draws) -> FloatArray:
    """Return b_t with the least mean of (beta_t - b_t)'G_t (beta_t - b_t), shape (2, d).

    They are E[G_t]^-1 E[G_t beta_t].
    """
    right = (draws.grams @ draws.slopes[..., None]).mean(axis=0)
    found: FloatArray = np.linalg.solve(draws.grams.mean(axis=0), right)[..., 0]
    return found


def weights_of(draws: Draws, slopes: FloatArray, discrepancy: float) -> FloatArray:
    """Return h_t with the least mean of ((beta_t + delta - b_t)'(D - G_t h_t))^2.

    Both factors are taken to be independent. The shape is (2, d).

    E[G_t W G_t] h_t = E[G_t W D], W = Cov(beta_t) + discrepancy I: slopes that moments know well are balanced too.
    """
    found, (count, d) = [], draws.apart.shape
    for arm, b in enumerate(slopes):
        off = draws.slopes[:, arm] - b
        covariance, known = off.T @ off / count, count / (count + d)
        # So few draws do not show a covariance of many features.
        loss = known * covariance + (1 - known) * np.diag(np.diagonal(covariance)) + discrepancy * np.eye(d)
        weighed = draws.grams[:, arm] @ loss
        right = (weighed @ draws.apart[..., None]).sum(axis=0)
        found.append(np.linalg.solve(np.tensordot(weighed, draws.grams[:, arm], ([0, 2], [0, 2])), right)[:, 0])
    return np.array(found)


def errors_of(
    draws: Draws,
    moments: SeenMoments,
    share: float,
    lines: tuple[FloatArray, FloatArray, FloatArray],
    lean: tuple[float, float],
    discrepancy: float,
    random: RandomDraws,
) -> FloatArray:
    """Return the estimate's error in each draw, with slopes beta_t + delta.

    It is, with delta ~ N(0, discrepancy I),

    sum_t k_t (beta_t + delta - b_t)'(D - G_t h_t) + sum_t k_t I_t (P_t - e_t), c the noise in the centres,
    I_t = h_t'c + s_t (h_t'D - index_t), P_t = b_t'c + s_t b_t'(D - D_released), s_1 = 1 - p, s_0 = -p.
    """
    centre = moments.middle_sd * random.standard_normal(draws.apart.shape)
    delta = math.sqrt(discrepancy) * random.standard_normal(draws.apart.shape)
    error, apart = np.zeros(len(delta)), draws.apart
    for t, side in enumerate((1 - share, -share)):
        b, h, index = (one[t] for one in lines)
        error += lean[t] * ((draws.slopes[:, t] + delta - b) * (apart - draws.grams[:, t] @ h)).sum(axis=1)
        meets = centre @ h + side * (apart @ h - index)
        moved = centre @ b + side * (apart - apart.mean(axis=0)) @ b
        error += lean[t] * meets * (moved - draws.errors[:, t])
    return error


def scores_of(public: Public, scales: FoundScales, learnt: Learnt) -> Scores:
    """Decide what release 5 sums: its noise grows with the cut, and what is cut away falls."""
    cuts = CUTS * unit(scales, learnt)
    lost = np.array([np.abs(losses(scales, learnt, float(cut))).sum() for cut in cuts])
    loss = (scores_sd(public) * cuts) ** 2 + lost**2 + (0.5 * TAIL * np.exp(-CUTS / TAIL) * unit(scales, learnt)) ** 2
    return Scores(
        scales.arms,
        learnt.features,
        learnt.lean,
        learnt.moments.middle,
        learnt.draws.apart.mean(axis=0),
        learnt.slopes,
        learnt.weights,
        learnt.index,
        float(cuts[loss.argmin()]),
    )


def unit(scales: FoundScales, learnt: Learnt) -> float:
    """Return the larger deviation of a score in an arm: residual times its weight."""
    arms = (scales.arms.share, 1 - scales.arms.share)
    wide = np.sqrt(1 + np.array(learnt.lean) ** 2 * learnt.distances) / arms
    return math.sqrt(learnt.residual) * float((learnt.counts * wide).max())


def losses(scales: FoundScales, learnt: Learnt, cut: float) -> FloatArray:
    """Return what a cut of scores takes off each arm's mean, shape (2,).

    It is computed from the outcome's released histogram. Residuals are taken to have the outcome's shape, and an arm's
    weights to be normal, around 1/p_t or around a line in the outcome: whoever has a rare event is where events are
    more likely, and so are the weights of the arm that has few people there.
    """
    away = (MIDDLE - scales.outcome.mean) / scales.outcome.deviation
    y, found = away * math.sqrt(learnt.residual), []
    shares, signs = (scales.arms.share, 1 - scales.arms.share), (-1, 1)
    for part, sign, k, distance, tilt in zip(shares, signs, learnt.lean, learnt.distances, learnt.tilt, strict=True):
        spread = math.sqrt(max(distance - tilt**2, 0.0))
        weight = (1 + k * spread * NODES)[:, None] + sign * k * tilt * away
        score = weight * y / part
        beyond = np.sign(score) * np.maximum(np.abs(score) - cut, 0)
        found.append(part * float(NODE_WEIGHTS @ beyond @ scales.outcome.shares) / float(NODE_WEIGHTS.sum()))
    taken: FloatArray = learnt.counts * np.array(found)
    return taken
