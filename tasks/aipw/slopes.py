"""Slopes of the outcome model: a ridge regression within arms from noisy moments, shrunk by what the noise level says.

Where the arms' slopes differ, b leans towards those of the smaller arm (``tasks/aipw/outcome_model.py``). Nothing here
reads a row: all but :func:`release_model` is post-processing. Proofs: ``docs/proofs/aipw.md``, section 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from causalveil.tasks.aipw.leaning import SIGNS, ArmMoments, Distance, alike, arm_moments, moved_by, moved_by_centres
from causalveil.tasks.aipw.narrow import Narrow, narrow
from causalveil.tasks.aipw.outcome_model import ArmSummary, OutcomeModel, residual_limit, slope_sums, without_slopes
from causalveil.tasks.aipw.recipe import APART_WEIGHT, MEANS_WEIGHT, Recipe
from causalveil.tasks.aipw.shrinkage import (
    CAUTION,
    WIDE_CAUTION,
    mean_eigenvalue_noise,
    noise_reach,
    plausible_signal,
    positive_part,
    second_moment_matrix,
    second_moments,
    shrinkage_factor,
    signal_ratio,
    taken_off,
)
from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Budget

# g is cut to so many of its own standard deviations: the rest would only widen the range of the scores.
LIMIT_DEVIATIONS = 3.0


class Component(NamedTuple):
    """A combination of the two arms' cross moments, and the noise in it.

    ``cross``: shape (d - 1,), along eigenvectors of the second moments. ``deviation``: of the noise on each entry.
    """

    cross: FloatArray
    deviation: float


@dataclass(frozen=True)
class Moments:
    """What released sums say of covariates x and cut residuals r within arms, before slopes are shrunk.

    Attributes:
        units: m, in training.
        parts: of treated and controls among them, shape (2,).
        limit: r is in units of it.
        noise: deviation of the noise on every released number.
        difference: mean of x among treated less that among controls, as released, shape (d - 1,).
        difference_noise: deviation of the noise on each entry of it.
        shrunk_difference: the same, shrunk.
        centres: means of x of both arms, shrunk, shape (2, d - 1).
        residuals: sums of r by arm, shape (2,).
        within: sums of r x within arms along the eigenvectors, shape (2, d - 1).
        values: eigenvalues of the second moments within arms, above 0, shape (d - 1,).
        vectors: their eigenvectors, in columns.
        raised: by how much less slopes adjust along each than they would without a floor, shape (d - 1,).
        second_factor: shrinkage factor of the second moments but for their mean eigenvalue, in [0, 1].
        mean_eigenvalue_noise: deviation of the noise in that.
        loose: the part of an adjustment that they leave open, in [0, 1].
        arms: second moments of each arm, along the same eigenvectors.
        ranges: what those that are too narrow hide.
    """

    units: int
    parts: FloatArray
    limit: float
    noise: float
    difference: FloatArray
    difference_noise: float
    shrunk_difference: FloatArray
    centres: FloatArray
    residuals: FloatArray
    within: FloatArray
    values: FloatArray
    vectors: FloatArray
    raised: FloatArray
    second_factor: float
    mean_eigenvalue_noise: float
    loose: float
    arms: ArmMoments
    ranges: Narrow

    @property
    def mean_noise(self) -> float:
        """Deviation of the noise on a first moment, divided by the number of units."""
        return self.noise / MEANS_WEIGHT / self.units

    @cached_property
    def shared(self) -> FloatArray:
        """Slopes of both arms together along eigenvectors, in units of the limit, shape (d - 1,)."""
        slopes: FloatArray = self.within.sum(axis=0) / self.values
        return slopes

    @cached_property
    def own(self) -> FloatArray:
        """Slopes b_t of each arm along eigenvectors, in units of the limit, shape (2, d - 1)."""
        slopes: FloatArray = self.shared + np.einsum("tij,tj->ti", self.arms.inverses, self.left)
        return slopes

    @cached_property
    def left(self) -> FloatArray:
        """Cross moments of what slopes of both arms leave in each, shape (2, d - 1): 0 where the arms' are alike.

        So a floor below an arm's eigenvalues bends no more than by what its slopes differ.
        """
        moments: FloatArray = self.within - self.arms.matrices @ self.shared
        return moments

    @cached_property
    def adjusting(self) -> FloatArray:
        """By what an arm's cross moments enter (1 - p) b_1 + p b_0, shape (2, d - 1, d - 1)."""
        weighted: FloatArray = self.parts[::-1, None, None] * self.arms.inverses
        return weighted

    @property
    def common(self) -> Component:
        """Both arms together."""
        return Component(self.within.sum(axis=0), self.noise * math.sqrt(2))

    @cached_property
    def leaning(self) -> Component:
        """What leans the slopes towards those of the smaller arm: (1 - p) b_1 + p b_0 less those of both together.

        Its noise is that of the arms' cross moments, and of what sets their second moments apart.
        """
        slopes = self.parts[::-1] @ self.own - self.shared
        beyond = self.adjusting - np.diag(1 / self.values)
        added = self.noise**2 * float(np.einsum("tij,i->", beyond**2, self.values))
        levers = SIGNS[:, None, None] * self.adjusting
        products = (self.own @ self.own.T) * np.einsum("tij,i,sij->ts", levers, self.values, levers)
        added += self.arms.noise**2 * max(0.0, float(products.sum()))
        return Component(slopes * self.values, math.sqrt(added / float(np.sum(1 / self.values))))


class Shrunk(NamedTuple):
    """Slopes, shape (d - 1,), in scaled outcomes, and the factors in [0, 1] by which their components were shrunk.

    ``missing``: what the floor below the second moments takes off the adjustment, in scaled outcomes.
    """

    slopes: FloatArray
    common_factor: float
    leaning_factor: float
    missing: float


def moments_from(released: FloatArray, summary: ArmSummary, units: int, recipe: Recipe, fold: int) -> Moments:
    """What the released sums say: means around the arms' centres, shrunk by what the public noise level says.

    Args:
        released: :func:`slope_sums` and noise, shape (recipe.slope_numbers,).
        summary: of the arms, by which residuals were taken.
        units: in training.
        recipe: of the study.
        fold: which is left out of training.
    """
    d, parts = recipe.columns - 1, summary.parts
    noise = Noise.of(recipe.slopes_mechanism(fold), recipe.slope_numbers).deviation
    raw = released[2 * d : 4 * d].reshape(2, d) / MEANS_WEIGHT / (units * parts)[:, None]
    mean_noise = noise / MEANS_WEIGHT / units
    difference, difference_noise = raw[0] - raw[1], mean_noise * math.sqrt(float(np.sum(parts**-2)))
    centre = positive_part(parts @ raw, mean_noise * math.sqrt(2))
    apart = positive_part(difference, difference_noise)
    centres = np.array([centre + parts[1] * apart, centre - parts[0] * apart])
    residuals = released[4 * d : 4 * d + 2] / MEANS_WEIGHT
    between = apart * math.sqrt(parts[0] * parts[1])
    entries = d * (d + 1) // 2 if recipe.gram else 1
    both, difference_of_arms, within_ranges = np.split(released[4 * d + 2 :], [entries, 2 * entries])
    second = second_moments(both, d, noise, units, centre, between, recipe.constant)
    arms, squares = alike(second.values, parts), both / units
    if recipe.gram:
        middle = np.outer(centre, centre) + np.outer(between, between)
        total = second_moment_matrix(both, d)
        treated = (total + second_moment_matrix(difference_of_arms, d) / APART_WEIGHT) / 2
        treated -= units * parts[0] * np.outer(centres[0], centres[0])
        sets_apart = treated - parts[0] * (total - units * middle)
        along = second.vectors.T @ sets_apart @ second.vectors
        own = noise * math.hypot(0.5 / APART_WEIGHT, parts[0] - 0.5)
        arms = arm_moments(along, second.values, parts, noise, own, recipe.constant)
        squares = np.diagonal(total) / units
    return Moments(
        units=units,
        parts=parts,
        limit=residual_limit(summary, recipe),
        noise=noise,
        difference=difference,
        difference_noise=difference_noise,
        shrunk_difference=apart,
        centres=centres,
        residuals=residuals,
        within=(released[: 2 * d].reshape(2, d) - residuals[:, None] * centres) @ second.vectors,
        values=second.values,
        vectors=second.vectors,
        raised=second.raised,
        second_factor=second.factor,
        mean_eigenvalue_noise=mean_eigenvalue_noise(noise, d, recipe.gram),
        loose=second.loose,
        arms=arms,
        ranges=narrow(within_ranges, noise, units, recipe, centre, squares, apart, float(parts[0])),
    )


def shrink(moments: Moments) -> Shrunk:
    """Slopes of a regression within arms, each of their two components shrunk as far as noise drowns it."""
    common, leaning = moments.common, moments.leaning
    common_factor = shrinkage_factor(common.cross, moments.values, common.deviation)
    leaning_factor = shrinkage_factor(leaning.cross, moments.values, leaning.deviation)
    cross = common_factor * common.cross + leaning_factor * leaning.cross
    slopes = moments.limit * (moments.vectors @ (cross / moments.values))
    adjusted = moments.vectors.T @ moments.shrunk_difference
    floors = np.einsum("t,tij,tj->i", moments.parts[::-1], moments.arms.raised, moments.left)
    missing = common_factor * common.cross * moments.raised + leaning_factor * floors
    return Shrunk(slopes, common_factor, leaning_factor, moments.limit * abs(float(missing @ adjusted)))


def error_variance(moments: Moments, shrunk: Shrunk) -> float:
    """Mean square that noise and shrinkage of the slopes give the mean score of the fold, to first order.

    An error e in the slopes moves the mean score by e'(difference of the arms' means of x). Errors come from the noise
    of cross moments, of the residuals' means, of second moments and of the arms' means that are taken off these, and
    from what shrinkage took off. Scaled outcomes, squared (``docs/proofs/aipw.md``, section 3).
    """
    values, vectors, noise = moments.values, moments.vectors, moments.noise
    apart, inverse = vectors.T @ moments.shrunk_difference, np.diag(1 / values)
    distance = Distance(vectors.T @ moments.difference, moments.difference_noise, CAUTION)
    both, leaning = shrunk.common_factor - shrunk.leaning_factor, shrunk.leaning_factor
    variance, centres = 0.0, moments.centres @ vectors
    for adjusting, centre in zip(moments.adjusting, centres, strict=True):
        # What this arm's cross moments enter the slopes by; its means of residuals by the centre of x besides.
        lever = both * inverse + leaning * adjusting
        variance += noise**2 * (distance.square(lever @ lever) + float(centre @ lever @ apart / MEANS_WEIGHT) ** 2)
    slopes = np.vstack([moments.shared, moments.own])
    levers = np.concatenate([both * inverse[None], leaning * moments.parts[:, None, None] * moments.adjusting])
    # What shrinkage by f leaves of the noise and takes off the signal is f of the noise's square on average; the mean
    # eigenvalue is not shrunk.
    rest = math.sqrt(moments.second_factor) * noise
    variance += moved_by(slopes, levers, apart, distance, rest, moments.mean_eigenvalue_noise)
    levers = leaning * SIGNS[:, None, None] * moments.adjusting
    variance += moved_by(moments.own, levers, apart, distance, moments.arms.noise)
    # The second moments of an arm lose what its own mean takes off, and what shrinkage leaves alike the other's too.
    apart_by = moments.arms.factor
    shares = np.vstack([np.ones((1, 2)), (1 - apart_by) * moments.parts[:, None] + apart_by * np.eye(2)])
    levers = np.concatenate([both * inverse[None], leaning * moments.adjusting])
    # Cross moments of arm t move its own slopes and, with the other's, those of both.
    added = noise * np.stack([np.stack([inverse, inverse]), *(np.eye(2)[:, :, None, None] * moments.arms.inverses)])
    variance += moved_by_centres(slopes, levers, apart, centres, noise / MEANS_WEIGHT, shares, added)
    along, reach = apart / values, distance.square(inverse @ inverse)
    for factor, part in ((shrunk.common_factor, moments.common), (shrunk.leaning_factor, moments.leaning)):
        ratio = signal_ratio(part.cross, values, part.deviation)
        variance += taken_off(factor, ratio, float(part.cross @ along), part.deviation**2 * reach)
    return moments.limit**2 * variance


def bias_without(moments: Moments, caution: float) -> float:
    """What arm means alone may be off by, scaled outcomes: at most |b|_G |D|_1/G, of the slopes and the arms' distance.

    The bias is b'D (Cauchy and Schwarz in the metric of the second moments). Both lengths are taken so many deviations
    above what is seen of them, or below it where ``caution`` is negative: then in the metric of second moments that are
    larger by as much as their noise reaches, in which both are shorter.
    """
    common, units, values = moments.common, moments.units, moments.values
    if caution < 0:
        values = values + noise_reach(moments.noise, len(values))
    slopes = plausible_signal(common.cross, values, common.deviation, caution)
    along = moments.vectors.T @ moments.difference * units
    apart = plausible_signal(along, values, moments.difference_noise * units, caution)
    return moments.limit * math.sqrt(slopes * apart) / units


def slopes_from(moments: Moments, summary: ArmSummary, recipe: Recipe) -> tuple[ArmSummary, OutcomeModel]:
    """The outcome model of ``moments``, and the summary with means that the residuals' means sharpened."""
    shrunk, parts = shrink(moments), moments.parts
    size = math.sqrt(float(moments.values @ (moments.vectors.T @ shrunk.slopes) ** 2) / moments.units)
    shifts = moments.limit * moments.residuals / (moments.units * parts)
    sharper = _sharper(summary, shifts, (moments.limit * moments.mean_noise / parts) ** 2)
    # Where units are, not where 0 is: levels of categories have columns of 0 and a positive number.
    middle = float(parts @ moments.centres @ shrunk.slopes)
    hidden = moments.ranges.unseen * shrunk.slopes * moments.shrunk_difference
    metric = (moments.vectors * moments.values / moments.units) @ moments.vectors.T
    implied = np.asarray(np.linalg.solve(metric, moments.shrunk_difference), dtype=np.float64)
    constants = np.array(sharper.means) - (moments.centres @ shrunk.slopes - middle)
    return sharper, OutcomeModel(
        constants=(float(constants[0]), float(constants[1])),
        slopes=shrunk.slopes,
        limit=min(2.0, LIMIT_DEVIATIONS * size),
        radius=recipe.radius,
        common_factor=shrunk.common_factor,
        # Of no slopes the bias is allowed for, and nothing else is left to vary.
        variance=error_variance(moments, shrunk) if size > 0 else 0.0,
        leaning_factor=shrunk.leaning_factor,
        seen=bias_without(moments, -CAUTION),
        hidden=bias_without(moments, WIDE_CAUTION if shrunk.common_factor > 0 else CAUTION),
        middle=middle,
        loose=moments.loose,
        missing=shrunk.missing,
        narrow=moments.ranges.numbers,
        implied_odds=implied,
        metric=metric,
        beyond=max(float(hidden[hidden > 0].sum()), -float(hidden[hidden < 0].sum())),
    )


def _sharper(summary: ArmSummary, shifts: FloatArray, variances: FloatArray) -> ArmSummary:
    """Means moved by ``shifts`` as far as these are surer than the means themselves: by inverse variances."""
    means, left, off = [], [], []
    arms = zip(summary.means, summary.mean_variances, summary.mean_shifts, strict=True)
    for (mean, old, moved), shift, new in zip(arms, shifts.tolist(), variances.tolist(), strict=True):
        square = old + moved**2
        weight = square / (square + new) if square > 0 else 0.0
        means.append(min(max(mean + weight * shift, -1.0), 1.0))
        left.append((1 - weight) ** 2 * old + weight**2 * new)
        off.append((1 - weight) * moved)
    return replace(summary, means=(means[0], means[1]), mean_variances=(left[0], left[1]), mean_shifts=(off[0], off[1]))


def release_model(
    pieces: Pieces, summary: ArmSummary, recipe: Recipe, fold: int, budget: Budget, workers: int = 1
) -> tuple[ArmSummary, OutcomeModel]:
    """Release the slopes of a fold's training units, where they are worth their noise."""
    mechanism = recipe.slopes_mechanism(fold)
    if mechanism is None:
        return summary, without_slopes(summary, recipe)
    sums = slope_sums(pieces, summary, recipe, workers)
    released = mechanism.release(sums, recipe.slot("slopes", fold), budget)
    return slopes_from(moments_from(released, summary, pieces.units, recipe, fold), summary, recipe)
