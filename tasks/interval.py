"""From released sums to an estimate and an interval that covers sampling error and every draw of noise.

Everything here is post-processing of released or public values. ``assemble`` and ``Noise`` serve any estimator;
``findings`` is inverse probability weighting. Derivations: ``docs/proofs/ipw.md``, section 6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from schemas.plan import Design
from schemas.privacy import Level
from schemas.release import Coverage, Interval, Variance
from schemas.study import Estimand, Study, Variant, Weighting
from tasks import perturb, propensity, weigh
from tasks.arrays import FloatArray
from tasks.normalise import dimension, feature_names
from tasks.privacy.mechanisms import L2Laplace, Mechanism

# A noisy sum of weights below this many noise standard deviations does not carry a mean.
FLOOR_DEVIATIONS = 5.0
# The share of 1 - confidence that goes to the noise in the sampling variance.
VARIANCE_SHARE = 0.1
NOT_COVERED = "confounding; clipping, misspecification, shrinkage and noise of the propensity model"


@lru_cache(maxsize=32)
def _gamma_rule(shape: float) -> tuple[FloatArray, FloatArray]:
    """Gauss-Laguerre nodes and shares of a Gamma(shape, 1) expectation."""
    from scipy.special import roots_genlaguerre

    nodes, shares = roots_genlaguerre(96, shape - 1)
    return nodes, shares / shares.sum()


@dataclass(frozen=True)
class Noise:
    """Spherical noise: every direction of unit length has the same distribution.

    ``mixing`` None: normal, standard deviation ``scale``. Otherwise the normal's variance is itself
    Gamma(``mixing``, 2 scale^2): the L2-Laplace density exp(-||b||/scale) in d dimensions with
    ``mixing`` = (d + 1)/2.
    """

    scale: float
    mixing: float | None = None

    @classmethod
    def of(cls, mechanism: Mechanism | None, dimension: int) -> Noise:
        """The noise of one release of ``dimension`` numbers.

        Raises:
            ValueError: the mechanism's scale is not known yet.
        """
        if mechanism is None:
            return cls(0.0)
        if mechanism.noise_scale is None:
            raise ValueError("the noise scale needs the number of units")
        return cls(mechanism.noise_scale, (dimension + 1) / 2 if isinstance(mechanism, L2Laplace) else None)

    @property
    def deviation(self) -> float:
        """Standard deviation along a direction of unit length."""
        return self.scale * (1.0 if self.mixing is None else math.sqrt(2 * self.mixing))

    def tail(self, distance: float, sampling_variance: float = 0.0, factor: float = 1.0) -> float:
        """P(E > distance), E = N(0, sampling_variance) + factor * noise along a unit direction, independent."""
        from scipy.special import ndtr

        if self.mixing is None or self.scale * factor == 0:
            spread = math.hypot(math.sqrt(sampling_variance), self.scale * factor)
            return float(ndtr(-distance / spread)) if spread > 0 else (0.0 if distance >= 0 else 1.0)
        nodes, shares = _gamma_rule(self.mixing)
        spreads = np.sqrt(sampling_variance + 2 * (self.scale * factor) ** 2 * nodes)
        return float(shares @ ndtr(-distance / spreads))

    def quantile(self, tail: float, sampling_variance: float = 0.0, factor: float = 1.0) -> float:
        """The distance that ``E`` of :meth:`tail` exceeds with probability ``tail``, 0 < tail <= 1/2."""
        from scipy.optimize import brentq
        from scipy.special import ndtri

        spread = math.hypot(math.sqrt(sampling_variance), self.deviation * factor)
        if self.mixing is None or spread == 0:
            return -float(ndtri(tail)) * spread
        # In units of the total spread, so that nothing underflows; Chebyshev's inequality brackets the root.
        part, share = Noise(self.scale * (factor / spread), self.mixing), sampling_variance / spread / spread
        root = brentq(lambda q: part.tail(q, share) - tail, 0.0, 1 / math.sqrt(tail), xtol=1e-12)
        return float(root) * spread


@dataclass(frozen=True)
class Findings:
    """What a study found, in outcome units."""

    estimate: float
    interval: Interval
    variance: Variance
    details: Mapping[str, float | int | str | bool]


@dataclass(frozen=True)
class Estimate:
    """A noisy estimate before its interval: all in outcome units.

    ``variance`` is the released sampling variance, possibly below 0; ``noise`` and ``variance_noise`` say by
    how much one unit of :class:`Noise` moves the estimate and the variance. ``drowned``: a denominator was
    clamped, so the numbers say nothing. ``excess`` is added to the noise variance then.
    """

    value: float
    variance: float
    noise: float
    variance_noise: float
    drowned: bool = False
    excess: float = 0.0


def assemble(
    estimate: Estimate, noise: Noise, confidence: float, bounds: tuple[float, float] | None
) -> tuple[float, Interval, Variance, float]:
    """Estimate, interval, variances, and the upper bound on the sampling variance that the interval uses.

    The sampling variance enters by its upper confidence bound at beta = (1 - confidence)/10, the error of the
    estimate at 1 - confidence - beta: by the union bound the interval errs at most 1 - confidence of the
    time, up to the normal approximation of the sampling error, however the two noises depend on each other.

    Args:
        estimate: the noisy estimate.
        noise: the distribution of its noise.
        confidence: the level, in [0.5, 1).
        bounds: the declared range; estimate and interval are cut to it. None: neither is cut.
    """
    alpha = 1 - confidence
    beta = alpha * VARIANCE_SHARE if noise.deviation * estimate.variance_noise > 0 else 0.0
    sampling = max(estimate.variance, 0.0)
    upper = sampling + (noise.quantile(beta, 0.0, estimate.variance_noise) if beta > 0 else 0.0)
    half = noise.quantile((alpha - beta) / 2, upper, estimate.noise)
    value = estimate.value
    low, high = value - half, value + half
    if bounds is not None:
        # The truth lies in the range, so moving the estimate to its nearest point brings it no further away.
        value = min(max(value, bounds[0]), bounds[1])
        low, high = max(value - half, bounds[0]), min(value + half, bounds[1])
        if estimate.drowned:
            low, high = bounds
    private = noise.scale > 0
    interval = Interval(
        lower=low,
        upper=high,
        confidence=confidence,
        covers=("sampling", "effect noise", "variance noise") if private else ("sampling",),
        coverage=Coverage.normal_approximation,
        whole_range=bounds is not None and (low, high) == bounds,
    )
    spread = (noise.deviation * estimate.noise) ** 2 + estimate.excess
    return value, interval, Variance(sampling=sampling, noise=spread), upper


def findings(study: Study, design: Design, statistics: FloatArray) -> Findings:
    """Estimate and interval from released sums.

    Args:
        study: the study.
        design: its sizes.
        statistics: what ``perturb`` released, in the order of ``weigh.statistic_names``.

    Raises:
        ValueError: ``design`` has no sizes yet.
    """
    if design.estimation is None:
        raise ValueError("an interval needs the number of units")
    noise = Noise.of(perturb.mechanism(study, design), len(weigh.private_entries(study)))
    if study.estimator.weighting is Weighting.hajek:
        estimate, details = _hajek(study, statistics, noise)
    else:
        estimate, details = _horvitz_thompson(study, statistics, design.estimation)
    width = study.outcome.width
    bounds = None if study.estimator.variant is Variant.paper else (-width, width)
    value, interval, variance, upper = assemble(estimate, noise, study.confidence, bounds)
    details |= {
        "noise_standard_error": math.sqrt(variance.noise),
        "sampling_standard_error": math.sqrt(variance.sampling),
        "sampling_standard_error_upper": math.sqrt(upper),
        "propensity_noise_standard_error_bound": propensity_noise_bound(study, design),
        "denominator_clamped": estimate.drowned,
        "not_covered": NOT_COVERED,
    }
    return Findings(value, interval, variance, details)


def propensity_noise_bound(study: Study, design: Design) -> float:
    """Upper bound, to first order, on what noise of the propensity model adds to the estimate's standard error.

    From declared values alone, so it is wide; the interval does not cover this source. A weighted mean of u
    in [-1, 1] moves along the coefficients by the weighted covariance of u with d log(weight)/dw = k x, where
    ||x|| <= 1 and a standard deviation of u is at most 1: k = 1 - score and score for the arms of ATE, 1 for
    the arm that is weighted in ATT and ATC. Horvitz-Thompson means are not centred: |y| <= C, weight times k.
    """
    model = propensity.mechanism(study, design)
    if model is None:
        return 0.0
    deviation = Noise.of(model, dimension(study)).deviation
    low, high = study.estimator.clip
    if study.estimator.weighting is Weighting.hajek:
        factor = 1 - low + high if study.estimand is Estimand.ATE else 1.0
        return deviation * factor * study.outcome.width / 2
    odds = max(high / (1 - high), (1 - low) / low)
    return deviation * odds * max(abs(study.outcome.lower), abs(study.outcome.upper))


def _hajek(study: Study, statistics: FloatArray, noise: Noise) -> tuple[Estimate, dict[str, float | int | str | bool]]:
    """Difference of the two weighted arm means, with the delta method per arm.

    mean - mu = (e_numerator - mu e_denominator)/D holds exactly for the noisy denominator D, so the noise of
    one arm's mean has variance (1 + mu^2) sigma^2 / D^2; at label level the denominator has none.
    """
    label = study.privacy.level is Level.label
    means, variance, noise_square, variance_noise_square, clamped = [], 0.0, 0.0, 0.0, 0
    c = weigh.SECOND_MOMENT
    floor = max(0.0 if label else FLOOR_DEVIATIONS * noise.deviation, 1e-9)
    for numerator, total, square, linear, constant in np.asarray(statistics).reshape(2, 5).tolist():
        clamped += total < floor
        total = max(total, floor)
        # The true mean lies in [-1, 1]; the nearest point there is no further from it.
        mean = min(max(numerator / total, -1.0), 1.0)
        means.append(mean)
        variance += (square - 2 * mean * linear + mean**2 * constant) / c / total**2
        noise_square += (1 + (0 if label else mean**2)) / total**2
        variance_noise_square += (1 + 4 * mean**2 + (0 if label else mean**4)) / c**2 / total**4
    half = study.outcome.width / 2
    estimate = Estimate(
        value=(means[0] - means[1]) * half,
        variance=variance * half**2,
        noise=math.sqrt(noise_square) * half,
        variance_noise=math.sqrt(variance_noise_square) * half**2,
        drowned=clamped > 0,
        # A mean that is anywhere in [-1, 1] errs by at most the whole width.
        excess=clamped * study.outcome.width**2,
    )
    return estimate, {
        "normalisation": "weights of each arm",
        "mean_treated": study.outcome.middle + means[0] * half,
        "mean_control": study.outcome.middle + means[1] * half,
    }


def _horvitz_thompson(
    study: Study, statistics: FloatArray, units: int
) -> tuple[Estimate, dict[str, float | int | str | bool]]:
    """Sum of signed weighted outcomes over the number of units; its variance is that of a mean."""
    scale = weigh.horvitz_thompson_scale(study)
    if study.privacy.level is Level.label:
        first, square, constant = statistics.tolist()
        largest = max(weigh.largest_weights(study.estimand, study.estimator.clip))
        unit, c = largest * study.outcome.width / 2, weigh.LABEL_SQUARE
        value = (unit * first + largest * study.outcome.middle * constant) / units
    else:
        first, square = statistics.tolist()
        unit, c = scale.half, 1.0
        value = unit * first / units + scale.middle
    mean = min(max((value - scale.middle) / scale.half, -1.0), 1.0)
    slope = 2 * mean * unit / scale.half
    estimate = Estimate(
        value=value,
        variance=scale.half**2 * (square / c / units - mean**2) / units,
        noise=unit / units,
        variance_noise=scale.half**2 / units**2 * math.hypot(1 / c, slope),
    )
    return estimate, {"normalisation": "number of estimation units"}


def interval_stage(study: Study, design: Design, coefficients: FloatArray, statistics: FloatArray) -> Findings:
    """The last stage: reads nothing but released and public values.

    Args:
        study: the study.
        design: its sizes.
        coefficients: the propensity model, shape (d,). Where it was released with noise it joins the findings;
            at label level it is an exact function of rows that the owner has not published, and stays.
        statistics: what ``perturb`` released.
    """
    found = findings(study, design, statistics)
    if study.privacy.level is Level.label:
        return found
    names = (f"propensity_coefficient[{name}]" for name in feature_names(study))
    return replace(found, details={**found.details, **dict(zip(names, coefficients.tolist(), strict=True))})
