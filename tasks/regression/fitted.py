"""Slopes and weights as release 2 gives them, and what its noise does to them and by them to the estimate.

With W the inverse of the Gram matrix within arms, b = W q are the slopes of the outcome and h = W D those of weights
that balance the arms; both unshrunk. The estimate errs by e_b' G e_h, the product of their errors: noise on q, on D and
on the Gram matrix enters to second order. Post-processing: ``docs/proofs/regression.md``, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

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
        moments: of both arms, or of one; features of mean 0 over both.
        covariance: of the features within arms, or within that arm, its noise in it; shape (d, d).
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

    moments: JointMoments
    covariance: FloatArray
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
        """From moments whose features have mean 0 over both arms.

        Args:
            moments: of both arms, or of one.
            between: by what D D' is multiplied to be the square that means add to the Gram matrix: p (1 - p) for both
                arms, (1 - p)^2 for treated and p^2 for controls alone.
        """
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
            moments=moments,
            covariance=moments.gram - between * np.outer(moments.apart, moments.apart),
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

    @cached_property
    def gram_bias(self) -> float:
        """c_E, by which the Gram matrix's noise moves the estimate on average.

        The mean of b'E W E h, E symmetric with independent entries of variance e^2 kappa, twice that on the diagonal.
        """
        spectrum, d = self.spectrum, len(self.slopes)
        one, other = spectrum.along(self.slopes), spectrum.along(self.weights)
        turned = spectrum.vectors.T @ self.within @ spectrum.vectors
        found = float((one * other) @ (spectrum.kept * (1 + np.eye(d))) @ np.diagonal(turned))
        found += float(one @ (spectrum.kept * turned * (1 - np.eye(d))) @ other)
        return found * self.moments.gram_error**2

    @cached_property
    def product_variance(self) -> float:
        """Of e_b'G e_h, and of c_E, which is known to its own size."""
        spectrum, gram_noise = self.spectrum, self.moments.gram_error**2
        kept = gram_noise * float(spectrum.kept.mean())
        found = self.slope_noise * self.weight_noise
        found += kept * (self.slope_noise * self.weight_size + self.slope_size * self.weight_noise)
        found *= self.trace_square
        sized = _of_size(self.slopes, self.slope_size), _of_size(self.weights, self.weight_size)
        found += kept**2 * gram_variance(*sized, self.within)
        return found + self.gram_bias**2 / 4


Fits = tuple[FittedMoments, FittedMoments]


def fits_of(moments: JointMoments, share: float) -> tuple[Fits, Fits | None]:
    """Of treated and controls: from both arms' moments together, twice the same, and from each arm's own, if released.

    ``share``: p.
    """
    both = FittedMoments.of(moments, share * (1 - share))
    if moments.arms is None:
        return (both, both), None
    parts = share, 1 - share
    treated, control = (FittedMoments.of(own, (1 - part) ** 2) for own, part in zip(moments.arms, parts, strict=True))
    # Squares of residuals are released of both arms together.
    left = moments.square - share * treated.explained - (1 - share) * control.explained
    residual = max(left, LEAST_RESIDUAL * moments.square)
    return (both, both), (replace(treated, residual=residual), replace(control, residual=residual))


def noise_variance(fits: Fits, scales: Scales, lean: tuple[float, float]) -> float:
    """Variance of the estimate by noise in both b and h, in units of L squared.

    What noise does in one arm and in the other is taken to be alike where it may be.

    Args:
        fits: of treated and of controls.
        scales: of release 1.
        lean: (k1, k0).
    """
    parts = scales.share, 1 - scales.share
    found = _added(lean, [fitted.product_variance for fitted in fits])
    treated, control = fits
    if treated is control:
        # Where slopes differ between arms, noise in D moves the estimate by (p k0 - (1-p) k1) (b1 - b0)'e.
        differ = (parts[0] * lean[1] - parts[1] * lean[0]) ** 2 * SLOPES_DIFFER**2
        found += differ * treated.slope_size * treated.weight_noise
    # A shift of the features' means moves the estimate by (b'shift)(h'shift), and with an arm's error e by k h'shift e.
    found += _added(lean, [_by_shifts(fitted) for fitted in fits])
    for fitted, k, part, error in zip(fits, lean, parts, scales.mean_errors, strict=True):
        arm, squares = (k * error / scales.limit) ** 2, fitted.weights**2
        found += arm * float(fitted.moments.shifts**2 @ squares)
        # The arm's mean of the features comes from D: its noise e moves the arm's error by k h'e of it.
        found += arm * (1 - part) ** 2 * fitted.weight_noise * float(squares.sum())
    return found


def over_arms(lean: tuple[float, float], numbers: Iterable[float]) -> float:
    """k1 times what treated have and k0 times what controls have."""
    return sum(k * number for k, number in zip(lean, numbers, strict=True))


def _added(lean: tuple[float, float], variances: list[float]) -> float:
    """Variance of k1 times one error and k0 times the other, which may be the same."""
    return over_arms(lean, map(math.sqrt, variances)) ** 2


def _by_shifts(fitted: FittedMoments) -> float:
    """Of (b'shift)(h'shift)."""
    shifted, slopes, weights = fitted.moments.shifts**2, fitted.slopes, fitted.weights
    return float(shifted @ slopes**2) * float(shifted @ weights**2) + 2 * float(shifted @ (slopes * weights)) ** 2


def _of_size(vector: FloatArray, square: float) -> FloatArray:
    """The vector with this squared length."""
    found: FloatArray = vector * math.sqrt(square / max(float(vector @ vector), TINY))
    return found
