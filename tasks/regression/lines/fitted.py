"""Slopes and weights as release 2 gives them, and what its noise does to them and by them to the estimate.

With W the inverse of the Gram matrix within arms, b = W q are the slopes of the outcome and h = W D those of weights
that balance the arms; both unshrunk. The estimate errs by e_b' G e_h, the product of their errors: noise on q, on D and
on the Gram matrix enters to second order. Post-processing: ``docs/proofs/regression.md``, section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.regression.lines.joint import JointMoments
from causalveil.tasks.regression.lines.spectrum import Spectrum, gram_variance

# 1 - p (1 - p) D'G^-1 D is what treatment leaves of the covariates' variance; it is taken to be at least so much.
LEAST_WITHIN = 0.2
# Covariates are taken to explain at most 1 minus this of the residuals' mean square.
LEAST_RESIDUAL = 0.05
# No squared length is divided by less.
TINY = 1e-300


def positive_part(vector: FloatArray, noise: float) -> FloatArray:
    """Return a noisy vector, shape (d,), shrunk so that its square loses what noise adds to it on average.

    ``noise`` is the deviation of the noise on each entry.
    """
    square = float(vector @ vector)
    return vector * math.sqrt(max(0.0, 1 - len(vector) * noise**2 / square)) if square > 0 else vector


@dataclass(frozen=True)
class OwnMoments:
    """What release 2 says of an arm alone, as far on the way to it from both arms as is asked for.

    Attributes:
        moments: of the features that arms have moments of their own of.
        between: by what D D' is multiplied there.
        across: covariance of these features with all others, shape (own, others); no columns: there are none.
        blur: standard deviation of the noise that each entry of ``across`` has of its own.
    """

    moments: JointMoments
    between: float
    across: FloatArray
    blur: float


@dataclass(frozen=True)
class FittedMoments:
    """What the moments say, and the noise in it. Residuals in units of L.

    Attributes:
        moments: of both arms, or of one; features of mean 0 over both.
        between: by what D D' is multiplied to be the square that means add to the Gram matrix: p (1 - p) for both arms,
            (1 - p)^2 for treated and p^2 for controls alone.
        covariance: of the features within arms, or within that arm, its noise in it; shape (d, d).
        cross: q, less what is known of it, shape (d,).
        slopes: b, shape (d,).
        weights: h, shape (d,).
        slope_size, weight_size: |b|^2 and |h|^2, their noise taken off; >= 0.
        weight_noise: variance of the noise on each entry of D.
        inverse: W, of the covariance, made positive; shape (d, d).
        trace, trace_square: tr W and tr W^2.
        moved: h'D, its noise in it.
        distance: D'W D, the arms' squared distance in the metric within arms, its noise taken off; >= 0.
        explained: q'W q, likewise.
        slopes_blur: mean of what noise in q adds to b'G b.
        residual: mean square that covariates leave, above 0.
        cross_error, gram_error: of the noise on entries of q and of the Gram matrix off its diagonal; an arm's its own.
        gram_bias: c_E, by which the Gram matrix's noise moves the estimate on average.
        product_variance: of e_b'G e_h, and of c_E, which is known to its own size.
        drowned: what directions that noise hides are seen to confound.
        floored: number of directions that noise hides, the one that sets the arms apart among them if treatment leaves
            too little of it.
        floor: least variance of a direction that is told from 0, over the mean one.
        own_floor: the same among the features that an arm has moments of its own of.
        resolved: ``floor`` as a variance.
        line_trace: tr W of the features that an arm has moments of its own of, by these alone.
    """

    moments: JointMoments
    between: float
    covariance: FloatArray
    cross: FloatArray
    slopes: FloatArray
    weights: FloatArray
    slope_size: float
    weight_size: float
    weight_noise: float
    inverse: FloatArray
    trace: float
    trace_square: float
    moved: float
    distance: float
    explained: float
    slopes_blur: float
    residual: float
    cross_error: float
    gram_error: float
    gram_bias: float
    product_variance: float
    drowned: float
    floored: int
    floor: float
    own_floor: float
    resolved: float
    line_trace: float

    @classmethod
    def of(cls, moments: JointMoments, between: float, known: tuple[FloatArray, FloatArray] | None = None) -> Self:
        """From moments whose features have mean 0 over both arms.

        Args:
            moments: of both arms, or of one.
            between: as the attribute.
            known: what other features account for of q and of D, shape (d,) each.
        """
        spectrum = Spectrum.of(moments.gram, moments.gram_error)
        inverse = spectrum.inverse
        # Sherman and Morrison: the arms' distance, its noise taken off, leaves the Gram matrix within arms.
        sure = positive_part(moments.apart, moments.apart_error)
        g = inverse @ sure
        left = 1 - between * float(sure @ g)
        within = inverse + between * np.outer(g, g) / max(left, LEAST_WITHIN)
        trace, trace_square = float(np.trace(within)), float(np.sum(within**2))
        cross, apart = moments.cross, moments.apart
        if known is not None:
            cross, apart = cross - known[0], apart - known[1]
        slopes, weights = within @ cross, within @ apart
        slope_noise, weight_noise = moments.cross_error**2, moments.apart_error**2
        moved = float(weights @ apart)
        explained = max(0.0, float(slopes @ cross) - slope_noise * trace)
        slope_size = max(float(slopes @ slopes) - slope_noise * trace_square, 0.0)
        weight_size = max(float(weights @ weights) - weight_noise * trace_square, 0.0)
        gram_noise = moments.gram_error**2
        gram_bias = gram_noise * spectrum.noise_bias(slopes, weights, within)
        kept = gram_noise * float(spectrum.kept.mean())
        variance = slope_noise * weight_noise + kept * (slope_noise * weight_size + slope_size * weight_noise)
        variance *= trace_square
        sized = _of_size(slopes, slope_size), _of_size(weights, weight_size)
        variance += kept**2 * gram_variance(*sized, within)
        hidden = spectrum.along(cross) * spectrum.along(apart) / spectrum.values * spectrum.floored
        return cls(
            moments=moments,
            between=between,
            covariance=moments.gram - between * np.outer(moments.apart, moments.apart),
            cross=cross,
            slopes=slopes,
            weights=weights,
            slope_size=slope_size,
            weight_size=weight_size,
            weight_noise=weight_noise,
            inverse=within,
            trace=trace,
            trace_square=trace_square,
            moved=moved,
            distance=max(0.0, moved - weight_noise * trace),
            explained=explained,
            slopes_blur=slope_noise * trace,
            residual=max(moments.square - explained, LEAST_RESIDUAL * moments.square),
            cross_error=moments.cross_error,
            gram_error=moments.gram_error,
            gram_bias=gram_bias,
            product_variance=variance + gram_bias**2 / 4,
            drowned=float(hidden.sum()),
            floored=int(spectrum.floored.sum()) + (left < LEAST_WITHIN),
            floor=spectrum.floor,
            own_floor=spectrum.floor,
            resolved=spectrum.floor * float(spectrum.values.mean()),
            line_trace=trace,
        )

    @property
    def told_across(self) -> bool:
        """Whether each arm's covariances of lines with features that serve both are known, and no direction is hidden.

        Where it hides some, how far those features are out of balance is not told from what hides there.
        """
        return self.moments.across is not None and self.floored == 0

    @property
    def made_good(self) -> float:
        """Deviation of what scores add to make noise in slopes good, as these slopes and weights meet it."""
        error = math.hypot(self.cross_error, self.gram_error * float(np.linalg.norm(self.slopes)))
        return error * float(np.linalg.norm(self.weights))

    def blur_by(self, both: FittedMoments) -> float:
        """Deviation of (b_t - b)'E h and b'E (h_t - h) together, E what noise this arm's Gram matrix has of its own.

        What noise is in the differences themselves is taken off.
        """
        slopes, weights = self.slopes - both.slopes, self.weights - both.weights
        of_gram = max(self.gram_error**2 - both.gram_error**2, 0.0)
        of_cross = max(self.cross_error**2 - both.cross_error**2, 0.0)
        by_slopes = float(slopes @ slopes) - self.trace_square * (of_cross + of_gram * both.slope_size)
        by_weights = float(weights @ weights) - self.trace_square * of_gram * both.weight_size
        square = max(by_slopes, 0.0) * both.weight_size + both.slope_size * max(by_weights, 0.0)
        return math.sqrt(of_gram * square)

    @cached_property
    def beside_others(self) -> FittedMoments:
        """The features that arms have moments of their own of, by both arms', beside what all others account for."""
        places, others = self.moments.arm_places, self.moments.others
        across = self.covariance[np.ix_(places, others)]
        known = across @ self.slopes[others], across @ self.weights[others]
        return FittedMoments.of(self.moments.of(places).without_arms(), self.between, known)

    def in_arm(self, arm: OwnMoments) -> FittedMoments:
        """The same in an arm of which only some features have moments of their own: others serve both arms.

        Slopes and weights of these there are those of what the others leave. What noise does is what it does to both
        arms together, and what it does there in the arm's own moments in place of both arms'.
        """
        places, others = self.moments.arm_places, self.moments.others
        if not len(others):
            return FittedMoments.of(arm.moments, arm.between)
        alike = self.beside_others
        # Noise in their covariances is noise in what others account for.
        moments = replace(
            arm.moments,
            cross_error=math.hypot(arm.moments.cross_error, arm.blur * float(np.linalg.norm(self.slopes[others]))),
            apart_error=math.hypot(arm.moments.apart_error, arm.blur * float(np.linalg.norm(self.weights[others]))),
        )
        known = arm.across @ self.slopes[others], arm.across @ self.weights[others]
        own = FittedMoments.of(moments, arm.between, known)
        slopes, weights, covariance = self.slopes.copy(), self.weights.copy(), self.covariance.copy()
        slopes[places], weights[places], covariance[np.ix_(places, places)] = own.slopes, own.weights, own.covariance

        def exchanged(name: str, least: float = 0.0) -> float:
            mine, theirs, both = (float(getattr(one, name)) for one in (self, own, alike))
            return max(mine + theirs - both, least)

        trace, moved = exchanged("trace"), float(weights @ self.moments.apart)
        return replace(
            self,
            moments=replace(self.moments, gram=_with_block(self.moments.gram, places, arm.moments.gram)),
            covariance=covariance,
            slopes=slopes,
            weights=weights,
            slope_size=exchanged("slope_size"),
            weight_size=exchanged("weight_size"),
            trace=trace,
            trace_square=exchanged("trace_square"),
            moved=moved,
            distance=max(0.0, moved - self.weight_noise * trace),
            explained=exchanged("explained"),
            slopes_blur=exchanged("slopes_blur"),
            cross_error=own.cross_error,
            gram_error=own.gram_error,
            gram_bias=exchanged("gram_bias", -math.inf),
            product_variance=exchanged("product_variance", self.product_variance),
            drowned=exchanged("drowned", -math.inf),
            floored=self.floored + own.floored - alike.floored,
            floor=max(self.floor, own.floor),
            own_floor=own.floor,
            resolved=max(self.resolved, own.resolved),
            line_trace=own.trace,
        )

    def with_slopes(self, slopes: FloatArray, noise: float) -> FittedMoments:
        """The same with these slopes of the features that serve both arms, shape (others,).

        Args:
            slopes: of them.
            noise: standard deviation of the noise on each entry of q that gave them, beside that on q itself.
        """
        found, others = self.slopes.copy(), self.moments.others
        found[others] = slopes
        trace_square = float(np.sum(self.inverse[np.ix_(others, others)] ** 2))
        beside = noise**2 * trace_square * (self.weight_noise + self.gram_error**2 * self.weight_size)
        return replace(self, slopes=found, product_variance=self.product_variance + beside)

    def with_weights(self, weights: FloatArray) -> FittedMoments:
        """The same with these weights of the features that serve both arms, shape (others,)."""
        found = self.weights.copy()
        found[self.moments.others] = weights
        return replace(self, weights=found)

    def noisier(self, mean: float, variance: float) -> FittedMoments:
        """The same if noise moves it by so much more on average, with so much more variance."""
        return replace(self, gram_bias=self.gram_bias + mean, product_variance=self.product_variance + variance)


def _with_block(gram: FloatArray, places: IntArray, block: FloatArray) -> FloatArray:
    """The matrix with other entries between these features."""
    found = gram.copy()
    found[np.ix_(places, places)] = block
    return found


def _of_size(vector: FloatArray, square: float) -> FloatArray:
    """The vector with this squared length."""
    found: FloatArray = vector * math.sqrt(square / max(float(vector @ vector), TINY))
    return found
