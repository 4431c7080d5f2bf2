"""What is adjusted for: outcome slopes b and balancing weights h, from the moments of release 2 alone.

Both or neither, whichever makes the narrower interval, with where scores are cut and what is allowed for.
Post-processing: ``docs/proofs/regression.md``, sections 4 to 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from causalveil.schemas.estimators.regression import RegressionEstimator
from causalveil.schemas.study import Estimand
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.regression.fitted import Fits, FittedMoments, fits_of, noise_variance, over_arms
from causalveil.tasks.regression.moments import JointMoments
from causalveil.tasks.regression.scales import Scales, farthest_score

# What floored directions may hide is so many times the product of what they are seen to have.
FLOORED_TIMES = 3.5
# A column varies if its released variance is so many deviations of its noise above 0.
HIDDEN_DEVIATIONS = 1.0
# Scores are cut at k of their standard deviations: where the worst distribution of their kurtosis loses no more to the
# cut than a wider one would lose to noise (section 5).
CUT_FACTOR = 0.182
LEAST_CUT, MOST_CUT = 4.0, 60.0
# Of an outcome of two values chances are taken to leave this part of the confounding that is taken off, for each
# deviation between the arms: they follow an S, and no line (section 8).
CHANCES_UNSEEN = 0.07
# An arm's own slopes and weights are used where they make the expected interval at most this much wider.
BY_ARM_WIDTH = 1.05
# Lines that serve both arms are seen to be off from so many deviations of noise.
DIFFERING_DEVIATIONS = 3.0
# Beyond so many times what the Gram matrices' noise adds on average, of which the size is hardly known.
GRAM_BIASES = 2.0


def leaning(estimand: Estimand, share: float) -> tuple[float, float]:
    """(k1, k0): how far treated and controls are moved, in units of the arms' distance, to stand for the estimand."""
    return {Estimand.ATE: (1 - share, share), Estimand.ATT: (0.0, 1.0), Estimand.ATC: (1.0, 0.0)}[estimand]


def score_cut(units: int, noise: float, scales: Scales) -> float:
    """k: scores are cut at so many of their standard deviations.

    By Markov's inequality scores of kurtosis K lose at most 27/256 K/k^3 deviations to a cut at k; with noise of
    k ``noise``/n the sum of both squares is least at k^4 = .182 K n/``noise``. Weights of 1/p and 1/(1-p) make kurtosis
    (p^-3 + (1-p)^-3)/(p^-1 + (1-p)^-1)^2 times that of residuals.
    """
    share = scales.share
    of_weights = (share**-3 + (1 - share) ** -3) / (share**-1 + (1 - share) ** -1) ** 2
    best: float = (CUT_FACTOR * scales.kurtosis * of_weights * units / noise) ** 0.25
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
class ArmLine:
    """Slopes b and weights h, each of shape (d,), and by how much the arms' means of h'xs differ."""

    slopes: FloatArray
    weights: FloatArray
    index: float


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
        controls: what controls have of their own in place of b, h and index; None: these serve both arms.
        differing: by how much lines that serve both arms are seen to be off, since effects differ with covariates.
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
    controls: ArmLine | None = None
    differing: float = 0.0

    @property
    def lines(self) -> tuple[ArmLine, ArmLine]:
        """Of treated and of controls."""
        treated = ArmLine(self.slopes, self.weights, self.index)
        return treated, self.controls or treated

    @property
    def both(self) -> tuple[FloatArray, FloatArray]:
        """Slopes and weights of both arms: each arm's by its part of the way."""
        if self.controls is None:
            return self.slopes, self.weights
        k1, k0 = self.leaning
        treated, control = self.lines
        return k1 * treated.slopes + k0 * control.slopes, k1 * treated.weights + k0 * control.weights

    @property
    def taken_off(self) -> float:
        """By how much slopes move the difference of the arms' means, in units of L."""
        return float(self.both[0] @ self.apart) + self.correction

    def off_by(self, differing: float) -> Adjustment:
        """The same if lines that serve both arms are seen to be off by so much, which slopes by arm are not."""
        if self.controls is not None or not self.adjusted or differing <= self.differing:
            return self
        return replace(self, bias=self.bias + differing - self.differing, differing=differing)

    def spread_over(self, places: IntArray, features: int) -> Adjustment:
        """The same among more features: those at other places have no slopes and no weights."""

        def wide(vector: FloatArray) -> FloatArray:
            found = np.zeros(features)
            found[places] = vector
            return found

        own = self.controls
        controls = None if own is None else replace(own, slopes=wide(own.slopes), weights=wide(own.weights))
        return replace(
            self, slopes=wide(self.slopes), weights=wide(self.weights), apart=wide(self.apart), controls=controls
        )

    def with_constant(self, coefficients: FloatArray) -> Adjustment:
        """The same with a constant as the last feature: others stood less it times their coefficient."""

        def more(vector: FloatArray) -> FloatArray:
            return np.append(vector, -float(coefficients @ vector))

        own = self.controls
        controls = None if own is None else replace(own, slopes=more(own.slopes), weights=more(own.weights))
        apart = np.append(self.apart, 0.0)
        return replace(self, slopes=more(self.slopes), weights=more(self.weights), apart=apart, controls=controls)


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
    return _plain(estimator, scales, estimand, 0, score_cut(units, noise, scales), deviation)


def _plain(
    estimator: RegressionEstimator, scales: Scales, estimand: Estimand, features: int, cut: float, deviation: float
) -> Adjustment:
    """No slopes, no weights, and an allowance. Scores are cut no further out than they can lie."""
    nothing = np.zeros(features)
    cut = min(cut, farthest_score(scales, (0.0, 0.0), [(0.0,) * 4] * 2) / deviation)
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
        return found.with_constant(coefficients), seen
    lean, wide = leaning(estimand, scales.share), score_cut(units, noise, scales)
    fits, own = fits_of(moments, scales.share)
    found = _by_lines(estimator, scales, fits, lean, wide, length)
    if own is not None:
        by_arm = _by_lines(estimator, scales, own, lean, wide, length)
        if not estimator.trial:
            # Where effects differ with covariates, lines that serve both arms are off by so much.
            off = max(abs(_differing(fits[0], own, lean)) - GRAM_BIASES * abs(by_arm.correction), 0.0)
            noisy = found.second_order + by_arm.second_order
            seen_off = math.sqrt(off**2 - noisy) if off > DIFFERING_DEVIATIONS * math.sqrt(noisy) else 0.0
            found = found.off_by(seen_off)
        if expected_width(by_arm, units, noise) <= BY_ARM_WIDTH * expected_width(found, units, noise):
            found, fits = replace(by_arm, differing=found.differing), own
    plain = _plain(estimator, scales, estimand, len(found.slopes), wide, math.sqrt(moments.square / scales.between))
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
        unseen = min(_left(scales, fits, found), plain.bias)
        found = replace(found, bias=found.bias + unseen + share * plain.bias)
    return found, _seen(moments, fits, found, hidden)


def _by_lines(
    estimator: RegressionEstimator, scales: Scales, fits: Fits, lean: tuple[float, float], wide: float, length: float
) -> Adjustment:
    """Slopes and weights of treated and controls in use; ``wide``: scores are cut at no more of their deviations."""
    parts = scales.share, 1 - scales.share
    squares, lines, farthest = 0.0, [], []
    for fitted, other, k, part in zip(fits, reversed(fits), lean, parts, strict=True):
        # An arm that stays where it is needs the other's line, which tells how that one moves.
        slopes, weights = (fitted if k > 0 else other).slopes, fitted.weights
        # H of the noisy weights: what balancing costs in variance.
        cost = fitted.distance + fitted.weight_noise * fitted.trace
        squares += (1 + k**2 * cost) / part * (fitted.residual + fitted.slope_noise * fitted.trace)
        index = fitted.moved - fitted.weight_noise * fitted.trace
        lines.append(ArmLine(slopes, weights, index))
        # Both are in use: of a study the latter, of a protocol the former.
        longest = length * float(np.linalg.norm(weights)), max(abs(fitted.moved), abs(index))
        farthest.append((length * float(np.linalg.norm(slopes)), abs(float(slopes @ fitted.moments.apart)), *longest))
    treated, control = lines
    reached = farthest_score(scales, lean, farthest)
    if fits[0] is not fits[1]:
        differ = treated.slopes - control.slopes
        reached += length * float(np.linalg.norm(differ))
        squares += sum(
            part * float(differ @ fitted.moments.gram @ differ) for part, fitted in zip(parts, fits, strict=True)
        )
    cut = min(wide, reached / math.sqrt(squares))
    drowned = over_arms(lean, map(_drowned, fits))
    return Adjustment(
        slopes=treated.slopes,
        weights=treated.weights,
        apart=fits[0].moments.apart,
        index=treated.index,
        correction=over_arms(lean, (fitted.gram_bias for fitted in fits)),
        leaning=lean,
        reach=cut * math.sqrt(squares),
        cut=cut,
        second_order=noise_variance(fits, scales, lean),
        bias=0.0 if estimator.trial else FLOORED_TIMES * abs(drowned),
        adjusted=True,
        controls=None if fits[0] is fits[1] else control,
    )


def _drowned(fitted: FittedMoments) -> float:
    """What directions that noise hides are seen to confound."""
    moments, spectrum = fitted.moments, fitted.spectrum
    along = spectrum.along(moments.cross) * spectrum.along(moments.apart)
    return float((along / spectrum.values * spectrum.floored).sum())


def _differing(both: FittedMoments, own: Fits, lean: tuple[float, float]) -> float:
    """By how much lines that serve both arms are off if each arm follows its own (section 8)."""
    left = (both.moments.apart - fitted.covariance @ both.weights for fitted in own)
    return over_arms(
        lean, (float((fitted.slopes - both.slopes) @ vector) for fitted, vector in zip(own, left, strict=True))
    )


def _left(scales: Scales, fits: Fits, found: Adjustment) -> float:
    """What lines leave of confounding that they see: of skewed columns, and of an outcome of two values."""
    lines = fits[0].moments.unseen * found.both[0] * found.apart
    unseen = max(float(lines[lines > 0].sum()), -float(lines[lines < 0].sum()))
    if scales.at_ends:
        distance = over_arms(found.leaning, (fitted.distance for fitted in fits))
        unseen += CHANCES_UNSEEN * math.sqrt(distance) * abs(found.taken_off)
    return unseen


def _seen(moments: JointMoments, fits: Fits, found: Adjustment, hidden: int) -> Seen:
    """``hidden``: number of columns whose own variance is not told from 0."""
    lines = list(zip(found.leaning, fits, found.lines, strict=True))
    mean = partial(over_arms, found.leaning)
    worst = max(fits, key=lambda fitted: fitted.spectrum.floor)
    spectrum, noise = worst.spectrum, worst.weight_noise
    covariance = sum((k * fitted.covariance for k, fitted, _ in lines), np.zeros_like(moments.gram))
    own = np.sqrt(np.maximum(np.diagonal(covariance), spectrum.floor * float(spectrum.values.mean())))
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
