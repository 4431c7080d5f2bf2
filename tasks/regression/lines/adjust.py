"""What is adjusted for: outcome slopes b and balancing weights h, from the moments of release 2 alone.

Both or neither, whichever makes the narrower interval, with where scores are cut and what is allowed for.
Post-processing: ``docs/proofs/regression.md``, sections 4 to 6.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from causalveil.schemas.protocols.regression import RegressionEstimator
from causalveil.schemas.study import Estimand
from causalveil.tasks.covariates.columns import Columns
from causalveil.tasks.regression.lines.adjustment import (
    Adjustment,
    ArmLine,
    Seen,
    expected_width,
    leaning,
)
from causalveil.tasks.regression.lines.apart import towards_own
from causalveil.tasks.regression.lines.fits import Fits, noise_variance, over_arms
from causalveil.tasks.regression.lines.hidden import Hidden
from causalveil.tasks.regression.lines.joint import JointMoments
from causalveil.tasks.regression.scales import Scales, farthest_score

# Beside products that serve both arms, lines of each arm are used where the smaller one has this share: what these
# products leave of the arms' differences meets noise in their slopes to first order, by 1 - 2p. Where an arm is scored
# alone no other takes it off again.
LEAST_BESIDE = 0.25
# What floored directions may hide is so many times the product of what they are seen to have.
FLOORED_TIMES = 3.5
# Scores are cut at k of their standard deviations: where the worst distribution of their kurtosis loses no more to the
# cut than a wider one would lose to noise (section 5). The most is that of two arms of one size.
CUT_FACTOR = 0.182
LEAST_CUT, MOST_CUT = 4.0, 60.0
# Those of a trial are cut no sooner than where noise is this part of a sampling deviation: kurtosis of costs has no
# bound, and nothing else biases a trial.
SMALL_NOISE = 0.3
# Of an outcome of two values chances are taken to leave this part of the confounding that is taken off, for each
# deviation between the arms: they follow an S, and no line (section 8).
CHANCES_UNSEEN = 0.07
# An arm is taken to vary along the weights by this part more than both arms together, times the other arm's share.
UNEVEN = 0.5
# Terms of higher order make what noise moves the estimate by on average larger by this part of it, times noise in the
# arms' covariances of lines with features that serve both, as a correlation: of 17 simulated ways (section 4).
HIGHER = 2.5


def score_cut(units: int, noise: float, scales: Scales, trial: bool = False) -> float:
    """k: scores are cut at so many of their standard deviations.

    By Markov's inequality scores of kurtosis K lose at most 27/256 K/k^3 deviations to a cut at k; with noise of
    k ``noise``/n the sum of both squares is least at k^4 = .182 K n/``noise``. In a trial noise may be SMALL_NOISE of
    a sampling deviation: nothing else biases it. Weights of 1/p and 1/(1-p) make kurtosis
    (p^-3 + (1-p)^-3)/(p^-1 + (1-p)^-1)^2 times that of residuals.
    """
    share = scales.share
    # Scores of a small arm lie so many more of their deviations out than its residuals do.
    most = MOST_CUT / (2 * math.sqrt(scales.between))
    of_weights = (share**-3 + (1 - share) ** -3) / (share**-1 + (1 - share) ** -1) ** 2
    best: float = (CUT_FACTOR * scales.kurtosis * of_weights * units / noise) ** 0.25
    best = max(best, SMALL_NOISE * math.sqrt(units) / noise) if trial else best
    return min(max(best, LEAST_CUT), most)


def beside(scales: Scales) -> bool:
    """Whether lines of each arm may stand beside products that serve both."""
    return min(scales.share, 1 - scales.share) >= LEAST_BESIDE


def unadjusted(
    estimator: RegressionEstimator,
    scales: Scales,
    estimand: Estimand,
    units: int,
    noise: float,
    alone: bool = False,
) -> Adjustment:
    """Weights 1/p and -1/(1-p) alone; the allowance is for the declared confounding.

    Args:
        estimator: what it declares of confounding.
        scales: of release 1.
        estimand: whose effect.
        units: n.
        noise: standard deviation of the noise on the sum of scores.
        alone: whether treated units alone are scored, to stand for everybody.
    """
    lean = leaning(estimand, scales.share, alone)
    square = (scales.spread / scales.limit) ** 2
    return _plain(estimator, scales, lean, 0, score_cut(units, noise, scales, estimator.trial), square)


def _plain(
    estimator: RegressionEstimator,
    scales: Scales,
    lean: tuple[float, float],
    features: int,
    cut: float,
    square: float,
) -> Adjustment:
    """No slopes, no weights, and an allowance. Scores are cut no further out than they can lie.

    ``square``: mean square of residuals, in units of L squared.
    """
    nothing = np.zeros(features)
    blurs = zip(scales.mean_noises, (scales.share, 1 - scales.share), strict=True)
    deviation = math.sqrt(square / scales.between + sum((noise / scales.limit) ** 2 / part for noise, part in blurs))
    cut = min(cut, farthest_score(scales, (0.0, 0.0), [(0.0,) * 4] * 2) / deviation)
    declared = estimator.confounding_prior
    relative = scales.spread / scales.limit
    bias = 0.0 if estimator.trial else relative * declared.bias() * sum(lean)
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
    columns: Columns | None = None,
    length: float = 1.0,
    alone: bool = False,
    curved: bool = False,
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
        columns: whose the first features are; None: noise hides none of them.
        length: no row of features is longer.
        alone: whether treated units alone are scored, to stand for everybody.
        curved: whether squares, products or cubes are among the features.
    """
    if constant:
        centred, coefficients = moments.centred()
        # Of a row in the unit ball, its features less their projection on the constant.
        length = math.sqrt(1 + float(coefficients @ coefficients))
        found, seen = adjust(
            estimator, scales, centred, estimand, units, noise, possible,
            columns=columns, length=length, alone=alone, curved=curved,
        )  # fmt: skip
        return found.with_constant(coefficients), seen
    lean, wide = leaning(estimand, scales.share, alone), score_cut(units, noise, scales, estimator.trial)
    if scales.at_ends:
        # Chances bend in every column, which weights that balance products in each arm would carry further out.
        moments = replace(moments, across=None)
    fits = Fits.alike(moments, scales.share)
    by = partial(_by_lines, estimator, scales, lean=lean, wide=wide, length=length)
    found = by(fits)
    whole = len(moments.arm_places) == len(moments.cross)
    if moments.arms is not None and (whole or (beside(scales) and not alone)) and not estimator.trial:
        found, fits = towards_own(found, fits, scales.share, units, noise, by, curved)
    plain = _plain(estimator, scales, lean, len(found.slopes), wide, moments.square)
    # Of hidden columns of a trial nothing confounds.
    hidden = Hidden() if columns is None or estimator.trial else Hidden.of(scales, moments, columns)
    if not possible or hidden.part >= 1 or expected_width(found, units, noise) > expected_width(plain, units, noise):
        found = plain
    elif not estimator.trial:
        # What lines leave is no more than all that is declared, and no reason to leave everything. Nor are columns that
        # noise hides, while others are seen: the estimate is better for these.
        unseen = min(_left(scales, fits, found), plain.bias)
        found = replace(found, bias=found.bias + unseen + hidden.part * plain.bias)
    return found, _seen(moments, fits, found, hidden)


def _by_lines(
    estimator: RegressionEstimator, scales: Scales, fits: Fits, lean: tuple[float, float], wide: float, length: float
) -> Adjustment:
    """Slopes and weights of treated and controls in use; ``wide``: scores are cut at no more of their deviations."""
    parts = scales.share, 1 - scales.share
    squares, squares_alike, lines, farthest = 0.0, 0.0, [], []
    arms = zip(fits, (fits.control, fits.treated), lean, parts, scales.mean_noises, strict=True)
    for fitted, other, k, part, noise in arms:
        # An arm that stays where it is needs the other's line, which tells how that one moves.
        slopes, weights = (fitted if k > 0 else other).slopes, fitted.weights
        # H of the noisy weights: what balancing costs in variance.
        cost = fitted.distance + fitted.weight_noise * fitted.trace
        # Residuals lie around what noise made of the arm's mean.
        blur = fitted.slopes_blur + (noise / scales.limit) ** 2
        squares += (1 + k**2 * cost) / part * (fitted.residual + blur)
        squares_alike += (1 + k**2 * cost) / part * (fits.both.residual + blur)
        index = fitted.moved - fitted.weight_noise * fitted.trace
        lines.append(ArmLine(slopes, weights, index))
        # Both are in use: of a study the latter, of a protocol the former.
        longest = length * float(np.linalg.norm(weights)), max(abs(fitted.moved), abs(index))
        farthest.append((length * float(np.linalg.norm(slopes)), abs(float(slopes @ fitted.moments.apart)), *longest))
    treated, control = lines
    reached = farthest_score(scales, lean, farthest)
    if fits.own > 0:
        differ = treated.slopes - control.slopes
        reached += length * float(np.linalg.norm(differ))
        squares += sum(
            part * max(float(differ @ fitted.moments.gram @ differ), 0.0)
            for part, fitted in zip(parts, fits, strict=True)
        )
    cut = min(wide, reached / math.sqrt(squares))
    correction = over_arms(lean, (fitted.gram_bias for fitted in fits))
    higher = HIGHER * fits.across_floor * correction
    drowned = over_arms(lean, (fitted.drowned for fitted in fits))
    return Adjustment(
        slopes=treated.slopes,
        weights=treated.weights,
        apart=fits.both.moments.apart,
        index=treated.index,
        correction=correction + higher,
        leaning=lean,
        reach=cut * math.sqrt(squares),
        cut=cut,
        second_order=noise_variance(fits, scales, lean) + higher**2,
        bias=0.0 if estimator.trial else FLOORED_TIMES * abs(drowned),
        adjusted=True,
        controls=None if fits.own == 0 else control,
        # What sets the arms apart has the other sign in the other arm; of a trial's nothing does.
        uneven=0.0 if estimator.trial else UNEVEN * (1 - fits.own) * abs(lean[0] * parts[1] - lean[1] * parts[0]),
        made_good=fits.both.made_good,
        own=fits.own,
        deviation_alike=math.sqrt(squares_alike),
        higher=higher,
    )


def _left(scales: Scales, fits: Fits, found: Adjustment) -> float:
    """What lines leave of confounding that they see: of skewed columns, and of an outcome of two values."""
    lines = fits.both.moments.unseen * found.both[0] * found.apart
    unseen = max(float(lines[lines > 0].sum()), -float(lines[lines < 0].sum()))
    if scales.at_ends:
        distance = over_arms(found.leaning, (fitted.distance for fitted in fits))
        unseen += CHANCES_UNSEEN * math.sqrt(distance) * abs(found.taken_off)
    return unseen


def _seen(moments: JointMoments, fits: Fits, found: Adjustment, hidden: Hidden) -> Seen:
    lines = list(zip(found.leaning, fits, found.lines, strict=True))
    mean = partial(over_arms, found.leaning)
    worst, noise = max(fits, key=lambda fitted: fitted.floor), fits.both.weight_noise
    covariance = sum((k * fitted.covariance for k, fitted, _ in lines), np.zeros_like(moments.gram))
    own = np.sqrt(np.maximum(np.diagonal(covariance), worst.resolved))
    after = moments.apart - sum(
        (k * (fitted.covariance @ line.weights) for k, fitted, line in lines), np.zeros_like(moments.apart)
    )
    return Seen(
        distance=mean(fitted.distance for fitted in fits),
        # The variance of D'W D with normal noise on D: 4 s^2 |W D|^2 + 2 s^4 tr W^2.
        distance_error=math.sqrt(
            mean(4 * noise * fitted.weight_size + 2 * noise**2 * fitted.trace_square for fitted in fits)
        ),
        explained=min(mean(fitted.explained for fitted in fits) / moments.square, 1.0),
        before=moments.apart / own,
        after=after / own,
        error=moments.apart_error / own,
        floored=worst.floored,
        floor=worst.floor,
        hidden=hidden.columns,
    )
