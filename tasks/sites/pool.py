"""Combining what several sites or blocks released.

Fixed and random effects, heterogeneity, leave-one-site-out.

Post-processing of released values; costs nothing. Notation: site i of k has estimate theta_i, released sampling
variance v_i, known noise variance s_i^2, V_i = v_i + s_i^2, and an interval of half-width h_i, which allows for a bias
of at most b_i. Why each formula holds with private variances, clamped denominators and noise that is not normal:
``docs/sites.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtrc, ndtri, stdtrit

from causalveil.schemas.errors import BundleError
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.privacy import Coverage
from causalveil.schemas.protocols.answers import Answer, State
from causalveil.schemas.release import EffectRelease, Interval, Variance
from causalveil.schemas.sites.pooled import Heterogeneity, PooledEstimate, WithoutSite
from causalveil.tasks.inference.assemble import NOISY, Noise
from causalveil.tasks.machine.arrays import FloatArray

# Squares of weights, which are reciprocals of variances, are ordinary floats from here on.
SMALLEST = 1e-150
RANDOM_COVERS = (*NOISY, limit(Code.heterogeneity))


@dataclass(frozen=True)
class SiteEstimate:
    """The results of a site that pooling needs, in outcome units."""

    site: str
    estimate: float
    variance: Variance
    interval: Interval


@dataclass(frozen=True)
class Pooled:
    """Everything that is computed from one set of sites.

    ``weights_*`` sum to 1, in the order of the sites.
    """

    fixed: PooledEstimate
    random: PooledEstimate
    weights_fixed: FloatArray
    weights_random: FloatArray
    heterogeneity: Heterogeneity
    leave_one_out: tuple[WithoutSite, ...]


def pool(sites: Sequence[SiteEstimate], confidence: float, bounds: tuple[float, float]) -> Pooled:
    """Pool two sites or more.

    Args:
        sites: each with its own epsilon, as far as its noise variance says.
        confidence: the sites' own, in [0.5, 1).
        bounds: the declared range of the effect; estimates and intervals are cut to it.

    Raises:
        BundleError: fewer than two sites, or a site without any variance, whose weight would be infinite.
    """
    if len(sites) < 2:
        raise BundleError("pooling needs two sites at least")
    table = _Table.of(sites, confidence, bounds)
    without = []
    for position, site in enumerate(sites):
        rest = table.drop(position)
        random = rest.random() if rest.size > 1 else None
        without.append(WithoutSite(site=site.site, fixed=rest.fixed(), random=random))
    return Pooled(
        fixed=table.fixed(),
        random=table.random(),
        weights_fixed=table.fixed_weights,
        weights_random=table.random_weights,
        heterogeneity=table.heterogeneity(),
        leave_one_out=tuple(without),
    )


@dataclass(frozen=True)
class _Table:
    """The sites as arrays of shape (k,)."""

    estimates: FloatArray
    sampling: FloatArray
    noise: FloatArray
    half_widths: FloatArray
    biases: FloatArray
    confidence: float
    bounds: tuple[float, float]

    @classmethod
    def of(cls, sites: Sequence[SiteEstimate], confidence: float, bounds: tuple[float, float]) -> _Table:
        """Return the sites' estimates, checked.

        Raises:
            BundleError: a site reports no variance at all, or none that weighs.
        """
        for site in sites:
            if not SMALLEST < site.variance.sampling + site.variance.noise < math.inf:
                raise BundleError(
                    f"site '{site.site}' reports a variance of zero, or one beyond numbers that can be weighed against "
                    "others"
                )
        return cls(
            estimates=np.array([site.estimate for site in sites]),
            sampling=np.array([site.variance.sampling for site in sites]),
            noise=np.array([site.variance.noise for site in sites]),
            # Where the declared range cut one side, the other still has the full width.
            half_widths=np.array(
                [max(site.interval.upper - site.estimate, site.estimate - site.interval.lower) for site in sites]
            ),
            biases=np.array([site.interval.bias for site in sites]),
            confidence=confidence,
            bounds=bounds,
        )

    def drop(self, position: int) -> _Table:
        """Return all sites but one."""
        kept = np.delete(np.arange(self.size), position)
        return replace(
            self,
            estimates=self.estimates[kept],
            sampling=self.sampling[kept],
            noise=self.noise[kept],
            half_widths=self.half_widths[kept],
            biases=self.biases[kept],
        )

    @property
    def size(self) -> int:
        return self.estimates.size

    @cached_property
    def variances(self) -> FloatArray:
        """V_i, shape (sites,): variances of sampling and noise, of which weights and Q are made."""
        return self.sampling + self.noise

    @cached_property
    def effective(self) -> FloatArray:
        """Variance that each site's own interval implies, shape (sites,); at least V_i.

        (h_i/z)^2, or what a bias of b_i leaves.

        More than V_i where the sampling variance is itself noisy (the interval uses its upper bound) or where the
        noise has heavier tails than a normal. A single site then keeps the interval that it released.
        """
        said = [self._deviation(*pair) for pair in zip(self.half_widths, self.biases, strict=True)]
        return np.maximum(self.variances, np.square(said))

    def _deviation(self, half: float, bias: float) -> float:
        """The standard deviation with which a normal error beside this bias asks for this half-width."""
        error, most = 1 - self.confidence, half / float(ndtri((1 + self.confidence) / 2))
        if bias == 0 or half <= bias:
            return most
        return float(brentq(lambda s: Noise(0.0).critical(error, bias, s * s) - half, 0.0, most))

    @cached_property
    def fixed_weights(self) -> FloatArray:
        return _shares(1 / self.variances)

    @cached_property
    def random_weights(self) -> FloatArray:
        return _shares(1 / (self.variances + self.tau2))

    @cached_property
    def q(self) -> float:
        """Cochran's Q = sum (theta_i - fixed mean)^2 / V_i."""
        centre = float(self.fixed_weights @ self.estimates)
        return float(np.sum((self.estimates - centre) ** 2 / self.variances))

    @cached_property
    def tau2(self) -> float:
        """DerSimonian and Laird 1986, equation 8: the moment estimate of the variance between sites.

        The noise is in V_i, so it is not taken for a difference between sites.
        """
        if self.size < 2:
            return 0.0
        weights = 1 / self.variances
        scale = float(weights.sum() - (weights**2).sum() / weights.sum())
        return max(0.0, (self.q - (self.size - 1)) / scale)

    def fixed(self) -> PooledEstimate:
        """Return the weighted mean of these very sites, and its normal interval.

        Biases may all have one sign and add up.
        """
        weights = self.fixed_weights
        error = math.sqrt(float(weights**2 @ self.effective))
        half = Noise(0.0).critical(1 - self.confidence, float(weights @ self.biases), error**2)
        return self._estimate(weights, error, half, NOISY)

    def random(self) -> PooledEstimate:
        """Return the mean of the effects that such sites have, and its Hartung-Knapp interval.

        Hartung and Knapp 2001: the squared error is sum w_i (theta_i - mean)^2 / ((k - 1) sum w_i), with k - 1
        degrees of freedom. It is not allowed below what the sites' own intervals and tau2 ask for (the
        modification of Knapp and Hartung 2003: without it, sites that agree by chance would give an interval narrower
        than the fixed one).
        """
        weights = self.random_weights
        centre = float(weights @ self.estimates)
        between = float(weights @ (self.estimates - centre) ** 2) / (self.size - 1)
        least = float(weights**2 @ (self.effective + self.tau2))
        quantile = float(stdtrit(self.size - 1, (1 + self.confidence) / 2))
        error = math.sqrt(max(between, least))
        return self._estimate(weights, error, quantile * error + float(weights @ self.biases), RANDOM_COVERS)

    def heterogeneity(self) -> Heterogeneity:
        """Return Q, its p-value under equal effects, tau2 and I2 (Higgins and Thompson 2002)."""
        degrees = self.size - 1
        excess = max(0.0, self.q - degrees)
        return Heterogeneity(
            q=self.q,
            degrees=degrees,
            p_value=float(chdtrc(degrees, self.q)),
            tau2=self.tau2,
            i2=excess / self.q if excess > 0 else 0.0,
        )

    def _estimate(self, weights: FloatArray, error: float, half: float, covers: tuple[Limit, ...]) -> PooledEstimate:
        (low, high), bias = self.bounds, float(weights @ self.biases)
        # The truth lies in the declared range, so cutting to it never lowers coverage.
        centre = min(max(float(weights @ self.estimates), low), high)
        lower, upper = max(centre - half, low), min(centre + half, high)
        return PooledEstimate(
            estimate=centre,
            interval=Interval(
                lower=lower,
                upper=upper,
                confidence=self.confidence,
                covers=(*covers, limit(Code.confounding_of_prior)) if bias > 0 else covers,
                coverage=Coverage.normal_approximation,
                whole_range=(lower, upper) == self.bounds,
                bias=bias,
            ),
            variance=Variance(
                sampling=float(weights**2 @ self.sampling),
                noise=float(weights**2 @ self.noise),
            ),
            standard_error=error,
        )


def _shares(weights: FloatArray) -> FloatArray:
    return np.asarray(weights / weights.sum())


def estimate_of(
    name: str, release: EffectRelease, answer: Answer, together: float | None = None
) -> SiteEstimate | None:
    """Return an answer to be pooled, or None.

    There is none where noise hides it, it ends before its horizon, or a gate withholds it.

    Args:
        name: of the site or block.
        release: that the answer stands in.
        answer: a row of its table.
        together: confidence of each interval that holds together with all others; None: the interval by itself.
    """
    interval, variance = release.interval_of(answer), release.variance_of(answer)
    hidden = answer.state is State.unresolved or answer.restricted_to is not None
    if hidden or answer.estimate is None or interval is None or variance is None:
        return None
    if together is not None:
        ends = answer.simultaneous or answer.interval or interval
        interval = interval.model_copy(update={"lower": ends.lower, "upper": ends.upper, "confidence": together})
    return SiteEstimate(site=name, estimate=answer.estimate, variance=variance, interval=interval)
