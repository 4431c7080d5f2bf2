"""What is adjusted for: outcome slopes b and balancing weights h, from the moments of release 2 alone.

Both or neither, whichever makes the narrower interval, with where scores are cut and what is allowed for.
Post-processing: ``docs/proofs/regression.md``, sections 4 to 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from causalveil.schemas.estimators.regression import RegressionEstimator
from causalveil.schemas.study import Estimand
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.regression.fitted import FittedMoments, gram_bias, noise_variance
from causalveil.tasks.regression.moments import JointMoments
from causalveil.tasks.regression.scales import Scales, farthest_score

# What floored directions may hide is so many times the product of what they are seen to have.
FLOORED_TIMES = 3.5
# A column varies if its released variance is so many deviations of its noise above 0.
HIDDEN_DEVIATIONS = 1.0
# Scores are cut at k of their standard deviations: where the worst distribution of this kurtosis loses no more to the
# cut than a wider one would lose to noise (section 5).
KURTOSIS, CUT_FACTOR = 15.0, 0.182
LEAST_CUT, MOST_CUT = 4.0, 60.0
# Of an outcome of two values chances are taken to leave this part of the confounding that is taken off, for each
# deviation between the arms: they follow an S, and no line (section 8).
CHANCES_UNSEEN = 0.07


def leaning(estimand: Estimand, share: float) -> tuple[float, float]:
    """(k1, k0): how far treated and controls are moved, in units of the arms' distance, to stand for the estimand."""
    return {Estimand.ATE: (1 - share, share), Estimand.ATT: (0.0, 1.0), Estimand.ATC: (1.0, 0.0)}[estimand]


def score_cut(units: int, noise: float, share: float) -> float:
    """k: scores are cut at so many of their standard deviations.

    By Markov's inequality scores of kurtosis K lose at most 27/256 K/k^3 deviations to a cut at k; with noise of
    k ``noise``/n the sum of both squares is least at k^4 = .182 K n/``noise``. Weights of 1/p and 1/(1-p) make kurtosis
    (p^-3 + (1-p)^-3)/(p^-1 + (1-p)^-1)^2 times that of residuals.
    """
    of_weights = (share**-3 + (1 - share) ** -3) / (share**-1 + (1 - share) ** -1) ** 2
    best: float = (CUT_FACTOR * KURTOSIS * of_weights * units / noise) ** 0.25
    return min(max(best, LEAST_CUT), MOST_CUT)


@lru_cache(maxsize=4096)
def biased_quantile(bias: float, confidence: float) -> float:
    """The h with P(|bias + Z| <= h) = ``confidence``, Z standard normal (Armstrong and Kolesar 2018, equation 14)."""
    from scipy.special import chndtrix, gammaincinv, ndtri  # what scipy.stats.ncx2 calls, which takes .3 s to import

    if bias > 8:
        return bias + float(ndtri(confidence))
    shift = bias**2
    square = chndtrix(confidence, 1, shift) if shift != 0 else 2 * gammaincinv(0.5, confidence)
    return math.sqrt(float(square))


@dataclass(frozen=True)
class Adjustment:
    """What release 3 is to be made of and what is known of its error. Residuals in units of L.

    Attributes:
        slopes: b, shape (d,).
        weights: h, shape (d,).
        apart: D, shape (d,); its multiples (1-p) D and -p D are the arms' means of the features.
        index: by how much the arms' means of h'xs differ: h'D less the mean of what noise in D adds to it.
        correction: c_E, by which the Gram matrix's noise moves the estimate on average.
        leaning: (k1, k0) of :func:`leaning`.
        reach: V, at which scores are cut.
        cut: k, V in standard deviations.
        second_order: variance of the estimate by noise in both b and h.
        bias: largest bias that is allowed for.
        adjusted: whether b and h are in use.
    """

    slopes: FloatArray
    weights: FloatArray
    apart: FloatArray
    index: float
    correction: float
    leaning: tuple[float, float]
    reach: float
    cut: float
    second_order: float
    bias: float
    adjusted: bool

    def spread_over(self, places: IntArray, features: int) -> Adjustment:
        """The same among more features: those at other places have no slopes and no weights."""

        def wide(vector: FloatArray) -> FloatArray:
            found = np.zeros(features)
            found[places] = vector
            return found

        return replace(self, slopes=wide(self.slopes), weights=wide(self.weights), apart=wide(self.apart))


@dataclass(frozen=True)
class Seen:
    """What the moments show of the arms and of the outcome, whether or not it is adjusted for.

    Attributes:
        distance: D'W D, the arms' squared distance in the metric within arms, its noise taken off; >= 0.
        distance_error: standard deviation of the noise in it, by the noise on D.
        explained: share of the residuals' mean square that covariates explain, in [0, 1].
        before: the arms' standardised differences by feature, shape (d,).
        after: the same, of what the weights leave of them.
        error: standard deviation of the noise of each, shape (d,).
        floored: number of directions that noise hides.
        floor: least variance of a direction that is told from 0, over the mean one.
        hidden: number of columns whose own variance is not told from 0.
    """

    distance: float
    distance_error: float
    explained: float
    before: FloatArray
    after: FloatArray
    error: FloatArray
    floored: int
    floor: float
    hidden: int = 0


def unadjusted(
    estimator: RegressionEstimator, scales: Scales, estimand: Estimand, units: int, noise: float
) -> Adjustment:
    """Weights 1/p and -1/(1-p) alone; the allowance is for the declared confounding.

    Args:
        estimator: what it declares of confounding.
        scales: of release 1.
        estimand: whose effect.
        units: n.
        noise: standard deviation of the noise on the sum of scores.
    """
    deviation = math.sqrt(1 / scales.between) * scales.spread / scales.limit
    return _plain(estimator, scales, estimand, 0, score_cut(units, noise, scales.share), deviation)


def _plain(
    estimator: RegressionEstimator, scales: Scales, estimand: Estimand, features: int, cut: float, deviation: float
) -> Adjustment:
    """No slopes, no weights, and an allowance. Scores are cut no further out than they can lie."""
    nothing = np.zeros(features)
    cut = min(cut, farthest_score(scales, (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)) / deviation)
    declared = estimator.unadjusted
    relative = scales.spread / scales.limit
    bias = 0.0 if estimator.trial else relative * declared.bias()
    lean = leaning(estimand, scales.share)
    return Adjustment(nothing, nothing, nothing, 0.0, 0.0, lean, cut * deviation, cut, 0.0, bias, False)


def adjust(
    estimator: RegressionEstimator,
    scales: Scales,
    moments: JointMoments,
    estimand: Estimand,
    units: int,
    noise: float,
    possible: bool = True,
    constant: bool = False,
    columns: int = 0,
    length: float = 1.0,
) -> tuple[Adjustment, Seen]:
    """Slopes and weights from released moments, or neither where the interval would be wider for them.

    Args:
        estimator: what it declares of confounding.
        scales: of release 1.
        moments: of release 2.
        estimand: whose effect.
        units: n.
        noise: standard deviation of the noise on the sum of scores of release 3.
        possible: whether the smaller arm bears an adjustment.
        constant: whether the last feature is a constant, which takes up the others' means.
        columns: how many of the first features are columns of covariates.
        length: no row of features is longer.
    """
    if constant:
        centred, coefficients = moments.centred()
        # Of a row in the unit ball, its features less their projection on the constant.
        length = math.sqrt(1 + float(coefficients @ coefficients))
        found, seen = adjust(
            estimator, scales, centred, estimand, units, noise, possible, columns=columns, length=length
        )
        slopes, weights = (np.append(vector, -float(coefficients @ vector)) for vector in (found.slopes, found.weights))
        return replace(found, slopes=slopes, weights=weights, apart=np.append(found.apart, 0.0)), seen
    p, fitted, lean = scales.share, FittedMoments.of(moments, scales.between), leaning(estimand, scales.share)
    slopes, weights, spectrum = fitted.slopes, fitted.weights, fitted.spectrum
    # H of the noisy weights: what balancing costs in variance.
    cost = fitted.distance + fitted.weight_noise * fitted.trace
    squares = (1 + lean[0] ** 2 * cost) / p + (1 + lean[1] ** 2 * cost) / (1 - p)
    squares *= fitted.residual + fitted.slope_noise * fitted.trace
    wide = score_cut(units, noise, p)
    index = fitted.moved - fitted.weight_noise * fitted.trace
    # Both are in use: of a study the latter, of a protocol the former.
    farthest = farthest_score(
        scales,
        lean,
        (length * float(np.linalg.norm(slopes)), abs(float(slopes @ moments.apart))),
        (length * float(np.linalg.norm(weights)), max(abs(fitted.moved), abs(index))),
    )
    cut = min(wide, farthest / math.sqrt(squares))
    correction = gram_bias(fitted, moments)
    drowned = spectrum.along(moments.cross) * spectrum.along(moments.apart) / spectrum.values * spectrum.floored
    bias = 0.0 if estimator.trial else FLOORED_TIMES * abs(float(drowned.sum()))
    found = Adjustment(
        slopes=slopes,
        weights=weights,
        apart=moments.apart,
        index=index,
        correction=correction,
        leaning=lean,
        reach=cut * math.sqrt(squares),
        cut=cut,
        second_order=noise_variance(fitted, moments, scales, lean, correction),
        bias=bias,
        adjusted=True,
    )
    plain = _plain(estimator, scales, estimand, len(slopes), wide, math.sqrt(moments.square / scales.between))
    # A column whose variance noise hides is not adjusted for, and shows nothing of what it confounds.
    own_variances = np.diagonal(moments.gram)[:columns]
    least = 0.0 if estimator.trial else HIDDEN_DEVIATIONS * math.sqrt(2) * moments.gram_error
    hidden = int(np.count_nonzero(own_variances < least))
    # Noise shows some of them by chance: where most are hidden all are taken to be.
    share = 1.0 if hidden and 2 * hidden >= columns else math.sqrt(hidden / max(columns, 1))
    if not possible or share == 1.0 or expected_width(found, units, noise) > expected_width(plain, units, noise):
        found = plain
    elif not estimator.trial:
        # What lines leave is no more than all that is declared, and no reason to leave everything. Nor are columns that
        # noise hides, while others are seen: the estimate is better for these.
        unseen = min(_left(scales, moments, fitted, correction), plain.bias)
        found = replace(found, bias=found.bias + unseen + share * plain.bias)
    return found, _seen(scales, moments, fitted, found.weights, hidden)


def _left(scales: Scales, moments: JointMoments, fitted: FittedMoments, correction: float) -> float:
    """What lines leave of confounding that they see: of skewed columns, and of an outcome of two values."""
    lines = moments.unseen * fitted.slopes * moments.apart
    unseen = max(float(lines[lines > 0].sum()), -float(lines[lines < 0].sum()))
    if scales.at_ends:
        taken_off = abs(float(fitted.slopes @ moments.apart) + correction)
        unseen += CHANCES_UNSEEN * math.sqrt(fitted.distance) * taken_off
    return unseen


def _seen(scales: Scales, moments: JointMoments, fitted: FittedMoments, weights: FloatArray, hidden: int) -> Seen:
    """``weights``: those in use; ``hidden``: number of columns whose own variance is not told from 0."""
    spectrum, noise = fitted.spectrum, fitted.weight_noise
    total = moments.gram - scales.between * np.outer(moments.apart, moments.apart)
    own = np.sqrt(np.maximum(np.diagonal(total), spectrum.floor * float(spectrum.values.mean())))
    after = moments.apart - total @ weights
    return Seen(
        distance=fitted.distance,
        # The variance of D'W D with normal noise on D: 4 s^2 |W D|^2 + 2 s^4 tr W^2.
        distance_error=math.sqrt(4 * noise * fitted.weight_size + 2 * noise**2 * fitted.trace_square),
        explained=min(fitted.explained / moments.square, 1.0),
        before=moments.apart / own,
        after=after / own,
        error=moments.apart_error / own,
        floored=int(spectrum.floored.sum()),
        floor=spectrum.floor,
        hidden=hidden,
    )


def expected_width(choice: Adjustment, units: int, noise: float) -> float:
    """Expected half-width of a 95 % interval, in units of L, by which a choice is made."""
    deviation = choice.reach / choice.cut
    variance = deviation**2 / units + (choice.reach * noise / units) ** 2 + choice.second_order
    error = math.sqrt(variance)
    return biased_quantile(round(choice.bias / error, 2), 0.95) * error
