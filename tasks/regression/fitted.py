"""Slopes and weights as release 2 gives them, and what its noise does to them and by them to the estimate.

With W the inverse of the Gram matrix within arms, b = W q are the slopes of the outcome and h = W D those of weights
that balance the arms; both unshrunk. The estimate errs by e_b' G e_h, the product of their errors: noise on q, on D and
on the Gram matrix enters to second order. Post-processing: ``docs/proofs/regression.md``, section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.tasks.aipw.shrinkage import positive_part
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.regression.moments import JointMoments
from causalveil.tasks.regression.scales import Scales
from causalveil.tasks.regression.spectrum import Spectrum, gram_variance

# 1 - p (1 - p) D'G^-1 D is what treatment leaves of the covariates' variance; it is taken to be at least so much.
LEAST_WITHIN = 0.2
# Covariates are taken to explain at most 1 minus this of the residuals' mean square.
LEAST_RESIDUAL = 0.05
# No squared length is divided by less.
TINY = 1e-300
# Slopes of the two arms are taken to differ by this part of their own length.
SLOPES_DIFFER = 0.5


@dataclass(frozen=True)
class FittedMoments:
    """What the moments say, and the noise in it. Residuals in units of L.

    Attributes:
        spectrum: of the Gram matrix.
        within: W, shape (d, d).
        trace, trace_square: tr W and tr W^2.
        slopes: b, shape (d,).
        weights: h, shape (d,).
        slope_noise, weight_noise: variances of the noise on each entry of q and of D.
        slope_size, weight_size: |b|^2 and |h|^2, their noise taken off; >= 0.
        moved: h'D, its noise in it.
        distance: D'W D, the arms' squared distance in the metric within arms, its noise taken off; >= 0.
        explained: q'W q, likewise.
        residual: mean square that covariates leave, above 0.
    """

    spectrum: Spectrum
    within: FloatArray
    trace: float
    trace_square: float
    slopes: FloatArray
    weights: FloatArray
    slope_noise: float
    weight_noise: float
    slope_size: float
    weight_size: float
    moved: float
    distance: float
    explained: float
    residual: float

    @classmethod
    def of(cls, moments: JointMoments, between: float) -> FittedMoments:
        """From moments whose features have mean 0; ``between``: p (1 - p)."""
        spectrum = Spectrum.of(moments.gram, moments.gram_error)
        inverse = spectrum.inverse
        # Sherman and Morrison: the arms' distance, its noise taken off, leaves the Gram matrix within arms.
        sure = positive_part(moments.apart, moments.apart_error)
        g = inverse @ sure
        within = inverse + between * np.outer(g, g) / max(1 - between * float(sure @ g), LEAST_WITHIN)
        trace, trace_square = float(np.trace(within)), float(np.sum(within**2))
        slopes, weights = within @ moments.cross, within @ moments.apart
        slope_noise, weight_noise = moments.cross_error**2, moments.apart_error**2
        moved = float(weights @ moments.apart)
        explained = max(0.0, float(slopes @ moments.cross) - slope_noise * trace)
        return cls(
            spectrum=spectrum,
            within=within,
            trace=trace,
            trace_square=trace_square,
            slopes=slopes,
            weights=weights,
            slope_noise=slope_noise,
            weight_noise=weight_noise,
            slope_size=max(float(slopes @ slopes) - slope_noise * trace_square, 0.0),
            weight_size=max(float(weights @ weights) - weight_noise * trace_square, 0.0),
            moved=moved,
            distance=max(0.0, moved - weight_noise * trace),
            explained=explained,
            residual=max(moments.square - explained, LEAST_RESIDUAL * moments.square),
        )


def gram_bias(fitted: FittedMoments, moments: JointMoments) -> float:
    """c_E, by which the Gram matrix's noise moves the estimate on average.

    The mean of b'E W E h, E symmetric with independent entries of variance e^2 kappa, twice that on the diagonal.
    """
    spectrum, d = fitted.spectrum, len(fitted.slopes)
    one, other = spectrum.along(fitted.slopes), spectrum.along(fitted.weights)
    turned = spectrum.vectors.T @ fitted.within @ spectrum.vectors
    found = float((one * other) @ (spectrum.kept * (1 + np.eye(d))) @ np.diagonal(turned))
    found += float(one @ (spectrum.kept * turned * (1 - np.eye(d))) @ other)
    return found * moments.gram_error**2


def noise_variance(
    fitted: FittedMoments, moments: JointMoments, scales: Scales, lean: tuple[float, float], bias: float
) -> float:
    """Variance of the estimate by noise in both b and h, in units of L squared.

    Args:
        fitted: both.
        moments: of release 2.
        scales: of release 1.
        lean: (k1, k0).
        bias: of :func:`gram_bias`, which is known to its own size.
    """
    slopes, weights, p = fitted.slopes, fitted.weights, scales.share
    kept = moments.gram_error**2 * float(fitted.spectrum.kept.mean())
    found = fitted.slope_noise * fitted.weight_noise
    found += kept * (fitted.slope_noise * fitted.weight_size + fitted.slope_size * fitted.weight_noise)
    found *= fitted.trace_square
    sized = _of_size(slopes, fitted.slope_size), _of_size(weights, fitted.weight_size)
    found += kept**2 * gram_variance(*sized, fitted.within)
    found += bias**2 / 4
    # Where slopes differ between arms, noise in D moves the estimate by (p k0 - (1-p) k1) (b1 - b0)'e.
    found += (p * lean[1] - (1 - p) * lean[0]) ** 2 * SLOPES_DIFFER**2 * fitted.slope_size * fitted.weight_noise
    # A shift of the features' means moves the estimate by (b'shift)(h'shift), and with an arm's error e by k h'shift e.
    shifted = moments.shifts**2
    of_weights = float(shifted @ weights**2)
    found += float(shifted @ slopes**2) * of_weights + 2 * float(shifted @ (slopes * weights)) ** 2
    arms = sum((k * error / scales.limit) ** 2 for k, error in zip(lean, scales.mean_errors, strict=True))
    found += of_weights * arms
    # The arms' means of the features come from D: its noise e moves an arm's error by k h'e of it.
    parts = zip(lean, (1 - p, p), scales.mean_errors, strict=True)
    arms = sum((k * part * error / scales.limit) ** 2 for k, part, error in parts)
    return found + arms * fitted.weight_noise * float(weights @ weights)


def _of_size(vector: FloatArray, square: float) -> FloatArray:
    """The vector with this squared length."""
    found: FloatArray = vector * math.sqrt(square / max(float(vector @ vector), TINY))
    return found
