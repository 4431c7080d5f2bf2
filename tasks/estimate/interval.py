"""Compute an estimate and its interval from released sums, for every estimator.

The interval covers sampling error and every draw of noise. An estimator's own module computes an :class:`Estimate` and
calls :func:`assemble`, whose union bound over noise of the estimate and of its variance holds for any dependence of the
two (``docs/proofs/ipw.md``, section 6).

Where a release has independent normal noise on the estimate and on the sampling variance, coverage is computed instead:

    E[2 Phi(z sqrt((noise + max(s + M, 0) + a m)/(noise + s))) - 1],  M ~ N(0, m^2), z the normal quantile,

s the unknown sampling variance. The allowance is the least a >= 0 for which this is at least the confidence for every s
(``docs/proofs/balancing.md``, section 4).

A bias that an interval allows for is c standard errors of sampling, computed from a noisy variance: where that is too
small by noise, so is the bias. With h(v) the critical value of a bias of c sqrt(v) plus N(0, v) and the estimate's
noise,

    E[P(|c sqrt(s) + N(0, s) + noise| <= h(max(s + M, 0) + a m))]

takes the place of the coverage above (``docs/proofs/balancing.md``, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from pydantic import BaseModel
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri, roots_genlaguerre

from causalveil.schemas.answers import (
    Answer,
    BalanceRow,
    Benchmark,
    Calibration,
    ContrastAnswer,
    GateResult,
    GroupCurves,
    Limits,
    State,
    headline_first,
    in_table,
)
from causalveil.schemas.confounding import (
    AdjustmentMethod,
    ConfoundingStatement,
    Shortfall,
    by,
    declares_randomised,
    of_trial,
)
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.questions import ALL_UNITS, OutcomeRole
from causalveil.schemas.release import ClustersStatement, Interval, Variance, interval_from
from causalveil.schemas.table import EffectStudy, TableStudy
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import L2Laplace, Mechanism

NODES = 48
# Sampling variances to check, in deviations m of the noise in their estimate; beyond them coverage only rises.
PLACES = np.concatenate([np.linspace(0.0, 6.0, 49), np.geomspace(6.5, 1e4, 40)])
LARGEST = 4.0


@lru_cache(maxsize=1024)
def laplace_allowance(ratio: float, confidence: float) -> float:
    """Compute the allowance for independent Laplace noises on estimate and variance, in 1e-3.

    The critical value is that of a normal plus a Laplace error, found by quadrature.

    Args:
        ratio: deviation m of the variance's noise over the noise variance of the estimate, > 0.
        confidence: the level, in [0.5, 1).
    """
    nodes, shares = laplace_rule()
    # In units of the estimate's noise variance.
    sampling = np.geomspace(min(ratio, 1.0) * 1e-3, max(ratio * 1e5, 1e5), 600)
    tails = partial(laplace_tails, scale=math.sqrt(0.5))
    table = critical_values(tails, sampling, 1 - confidence, 0.0)
    true = ratio * PLACES[:, None]
    read = ratio * (PLACES[:, None] + nodes[None])

    def covered(a: float) -> float:
        used = np.maximum(read, 0.0) + a * ratio
        half = np.interp(np.log(np.maximum(used, sampling[0])), np.log(sampling), table / np.sqrt(1 + sampling))
        outside = 2 * tails(half * np.sqrt(1 + used), np.sqrt(np.maximum(true, 1e-12 * ratio)))
        return float(((1 - outside) @ shares).min())

    # Far from 0 the coverage is the confidence itself, up to the table's and the rule's error.
    return _least(lambda a: covered(a) >= confidence - 1e-4)


def _least(enough: Callable[[float], bool]) -> float:
    """Return the least allowance that is enough, rounded up to 1e-3."""
    low, high = 0.0, LARGEST
    if enough(0.0):
        return 0.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def laplace_tails(distance: FloatArray, deviation: FloatArray, scale: float) -> FloatArray:
    """Return P(E > distance) elementwise, E a normal plus Laplace noise (Reed 2006).

    ``deviation`` of the normal is above 0, ``scale`` is that of the Laplace noise.
    """
    z, a = distance / deviation, deviation / scale
    above = np.exp(log_ndtr(z - a) + a * a / 2 - a * z)
    below = np.exp(log_ndtr(-z - a) + a * a / 2 + a * z)
    tails: FloatArray = ndtr(-z) + (above - below) / 2
    return tails


@lru_cache(maxsize=1)
def laplace_rule() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of the expectation over a Laplace draw of deviation 1."""
    nodes, shares = np.polynomial.laguerre.laggauss(NODES)
    half = nodes / math.sqrt(2)
    return np.concatenate([-half, half]), np.concatenate([shares, shares]) / 2


def allowance(ratio: float, confidence: float) -> float:
    """Return the least a, in deviations of the variance's noise, rounded up to 1e-3.

    Args:
        ratio: deviation m of the variance's noise over the noise variance of the estimate, >= 0.
        confidence: the level, in [0.5, 1).
    """
    if ratio == 0:
        return 0.0
    quantile = -float(ndtri((1 - confidence) / 2))
    return _least(lambda a: least_coverage(a, ratio, quantile) >= confidence)


def least_coverage(a: float, ratio: float, quantile: float) -> float:
    """Return the least coverage over sampling variances, with an allowance ``a``."""
    nodes, weights = normal_rule()
    # In units of m: the estimate's noise variance is 1/ratio.
    noise, true = 1 / ratio, PLACES[:, None]
    used = noise + np.maximum(true + nodes[None], 0.0) + a
    covered = 2 * ndtr(quantile * np.sqrt(used / (noise + true))) - 1
    return float((covered @ weights).min())


@lru_cache(maxsize=1)
def normal_rule() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of a standard normal's expectation."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return nodes, weights / math.sqrt(2 * math.pi)


Tails = Callable[[FloatArray, FloatArray], FloatArray]
POINTS, HALVINGS, STEP = 240, 44, 1e-3


def allowance_beside(ratio: float, confidence: float, bias: float, laplace: bool) -> float:
    """Return the least a, in deviations of the variance's noise, rounded up to 1e-3.

    Args:
        ratio: deviation m of the variance's noise over the noise variance of the estimate, > 0.
        confidence: the level, in [0.5, 1).
        bias: c, the largest bias of the estimate, in standard errors of sampling, >= 0.
        laplace: whether both noises are Laplace; else normal.
    """
    if bias == 0:
        return laplace_allowance(ratio, confidence) if laplace else allowance(ratio, confidence)
    return _allowance(float(f"{ratio:.6g}"), confidence, float(f"{bias:.4g}"), laplace)


@lru_cache(maxsize=1024)
def _allowance(ratio: float, confidence: float, bias: float, laplace: bool) -> float:
    nodes, shares = laplace_rule() if laplace else normal_rule()
    tails: Tails = partial(laplace_tails, scale=math.sqrt(0.5)) if laplace else _normal_tails
    # In units of the estimate's noise variance.
    sampling = np.geomspace(min(ratio, 1.0) * 1e-3, max(ratio * 1e5, 1e5), POINTS)
    size = np.sqrt(1 + (1 + bias**2) * sampling)
    table, places = critical_values(tails, sampling, 1 - confidence, bias) / size, np.log(sampling)
    # Coverage changes slowly from place to place.
    looked = PLACES[::2, None]
    true = np.maximum(ratio * looked, 1e-12 * ratio)
    read = ratio * (looked + nodes[None])
    # Far from 0 the coverage is the confidence itself, up to the table's and the rule's error.
    wanted = confidence - 1e-4

    def spare(a: float) -> float:
        used = np.maximum(read, 0.0) + a * ratio
        half = np.interp(np.log(np.maximum(used, sampling[0])), places, table)
        half *= np.sqrt(1 + (1 + bias**2) * used)
        deviation, off = np.sqrt(true), bias * np.sqrt(true)
        outside = tails(half - off, deviation) + tails(half + off, deviation)
        return float(((1 - outside) @ shares).min()) - wanted

    if spare(0.0) >= 0:
        return 0.0
    return float(brentq(spare, 0.0, LARGEST, xtol=STEP)) + STEP


def critical_values(tails: Tails, sampling: FloatArray, error: float, bias: float) -> FloatArray:
    """Return h with P(|c sqrt(v) + N(0, v) + noise of variance 1| > h) = ``error`` for each v."""
    deviation, off = np.sqrt(sampling), bias * np.sqrt(sampling)
    low, high = np.zeros(len(sampling)), np.sqrt(1 + sampling) / math.sqrt(error) + off
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        outside = tails(middle - off, deviation) + tails(middle + off, deviation) > error
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    return high


def _normal_tails(distance: FloatArray, deviation: FloatArray) -> FloatArray:
    """Return P(E > distance), E a normal of this deviation plus normal noise of variance 1."""
    tails: FloatArray = ndtr(-distance / np.sqrt(1 + deviation**2))
    return tails


# Key of details with survey weights: the number of units of equal weight with the same variance.
EFFECTIVE = "effective_units"
# Sources of error that the interval of a noisy estimate covers; without noise the first alone, and without noise on a
# released variance the first two.
NOISY = (limit(Code.sampling), limit(Code.noise_of_estimate), limit(Code.noise_of_variance))
# The share of 1 - confidence that goes to the noise in the sampling variance.
VARIANCE_SHARE = 0.1


@lru_cache(maxsize=32)
def _gamma_rule(shape: float) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Laguerre nodes and shares of a Gamma(shape, 1) expectation."""
    nodes, shares = roots_genlaguerre(96, shape - 1)
    return nodes, shares / shares.sum()


def laplace_tail(distance: float, deviation: float, scale: float) -> float:
    """Return P(E > distance), E a normal plus independent Laplace noise of a scale above 0.

    Closed form of the normal-Laplace law (Reed 2006), by logarithms, since its exponentials alone may overflow.
    """
    if distance < 0:
        return 1 - laplace_tail(-distance, deviation, scale)
    if deviation == 0:
        return math.exp(-distance / scale) / 2
    z, a = distance / deviation, deviation / scale
    above = math.exp(log_ndtr(z - a) + a * a / 2 - a * z)
    below = math.exp(log_ndtr(-z - a) + a * a / 2 + a * z)
    return float(ndtr(-z)) + (above - below) / 2


@dataclass(frozen=True)
class Noise:
    """Spherical noise: every direction of unit length has the same distribution.

    ``mixing`` None: normal, standard deviation ``scale``. Otherwise the normal's variance is itself
    Gamma(``mixing``, 2 scale^2): the L2-Laplace density exp(-||b||/scale) in d dimensions with
    ``mixing`` = (d + 1)/2; so with ``mixing`` = 1 it is one number's Laplace noise.
    """

    scale: float
    mixing: float | None = None

    @classmethod
    def of(cls, mechanism: Mechanism | None, dimension: int) -> Noise:
        """Return the noise of one release of ``dimension`` numbers.

        Raises:
            CausalveilError: the number of units is not known yet.
        """
        if mechanism is None:
            return cls(0.0)
        return cls(mechanism.known_scale, (dimension + 1) / 2 if isinstance(mechanism, L2Laplace) else None)

    @property
    def deviation(self) -> float:
        """Standard deviation along a direction of unit length."""
        return self.scale * (1.0 if self.mixing is None else math.sqrt(2 * self.mixing))

    def tail(self, distance: float, sampling_variance: float = 0.0, factor: float = 1.0) -> float:
        """Return P(E > distance), E = N(0, sampling_variance) + independent factor * noise."""
        if self.mixing is None or self.scale * factor == 0:
            deviation = math.hypot(math.sqrt(sampling_variance), self.scale * factor)
            return float(ndtr(-distance / deviation)) if deviation > 0 else (0.0 if distance >= 0 else 1.0)
        if self.mixing == 1.0:
            return laplace_tail(distance, math.sqrt(sampling_variance), self.scale * factor)
        nodes, shares = _gamma_rule(self.mixing)
        deviations = np.sqrt(sampling_variance + 2 * (self.scale * factor) ** 2 * nodes)
        return float(shares @ ndtr(-distance / deviations))

    def quantile(self, tail: float, sampling_variance: float = 0.0, factor: float = 1.0) -> float:
        """Return the distance that E of :meth:`tail` exceeds with probability ``tail`` <= 1/2."""
        deviation = math.hypot(math.sqrt(sampling_variance), self.deviation * factor)
        if self.mixing is None or deviation == 0:
            return -float(ndtri(tail)) * deviation
        # In units of the total deviation, so that nothing underflows; Chebyshev's inequality brackets the root.
        part, sampling = (
            replace(self, scale=self.scale * (factor / deviation)),
            sampling_variance / deviation / deviation,
        )
        return float(brentq(lambda q: part.tail(q, sampling) - tail, 0.0, 1 / math.sqrt(tail), xtol=1e-12)) * deviation

    def critical(self, error: float, bias: float, sampling_variance: float = 0.0, factor: float = 1.0) -> float:
        """Return the least h with P(|b + E| > h) <= ``error`` <= 1/2 for all b in [-bias, bias].

        Armstrong and Kolesár 2018: below ``bias`` plus the two-sided quantile, since one error cannot lie
        on both sides. The worst b is at an end, for E is symmetric and unimodal.
        """
        plain = self.quantile(error / 2, sampling_variance, factor)
        if bias == 0 or plain == 0:
            return plain + bias

        def excess(h: float) -> float:
            return sum(self.tail(h + side, sampling_variance, factor) for side in (-bias, bias)) - error

        # A bias lost in rounding leaves no change of sign to bracket; the further end is safe.
        if excess(plain) <= 0 or excess(plain + bias) >= 0:
            return plain + bias
        return float(brentq(excess, plain, plain + bias, xtol=max(1e-12 * (plain + bias), math.ulp(0.0))))


@dataclass(frozen=True)
class Findings:
    """A table of answers by an estimator, in outcome units.

    Attributes:
        answers: the rows.
        confidence: of their intervals.
        covers: sources of error that every interval covers.
        details: by name.
        not_covered: sources of error that no interval covers.
        balance: of covariates that were adjusted for.
        benchmarks: how much each covariate explains of the headline answer's outcome and of treatment.
        gates: results of the declared gates.
        calibration: by negative controls; None without them.
        curves: of times to an event, by subgroup and arm.
        cells: released numbers of an unadjusted study of times, from which all else follows.
        clusters: the correlation within clusters of each answer; None without clusters.
        contrasts: of the rows.
    """

    answers: tuple[Answer, ...]
    confidence: float
    covers: tuple[Limit, ...]
    details: Mapping[str, float | int | str | bool]
    not_covered: tuple[Limit, ...] = ()
    balance: tuple[BalanceRow, ...] = ()
    benchmarks: tuple[Benchmark, ...] = ()
    gates: tuple[GateResult, ...] = ()
    calibration: Calibration | None = None
    curves: tuple[GroupCurves, ...] = ()
    cells: tuple[float, ...] | None = None
    clusters: ClustersStatement | None = None
    contrasts: tuple[ContrastAnswer, ...] = ()

    @classmethod
    def of_one(
        cls,
        study: EffectStudy,
        value: float,
        interval: Interval,
        variance: Variance,
        details: Mapping[str, float | int | str | bool],
        confounding: ConfoundingStatement,
        not_covered: tuple[Limit, ...] = (),
    ) -> Findings:
        """Return a table of one row, of an estimate and its interval."""
        sides = [details.get(f"mean_{side}") for side in ("control", "treated")]
        answer = Answer(
            outcome=study.outcome.name,
            role=OutcomeRole.primary,
            group=ALL_UNITS,
            arm=study.arm_names[1],
            reference=study.arm_names[0],
            state=State.unresolved if interval.whole_range else State.answered,
            confounding=confounding,
            estimate=value,
            interval=Limits(lower=interval.lower, upper=interval.upper),
            noise_error=math.sqrt(variance.noise),
            sampling_error=math.sqrt(variance.sampling),
            bias=interval.bias,
            values=means_if_consistent(value, [float(mean) for mean in sides if isinstance(mean, float | int)]),
        )
        return cls(
            answers=(answer,),
            confidence=interval.confidence,
            covers=interval.covers,
            details=details,
            not_covered=not_covered,
        )

    @property
    def headline(self) -> Answer:
        """The first answer about a primary outcome, over all units."""
        return headline_first(self.answers)[0]

    @property
    def estimate(self) -> float:
        """The headline's estimate; NaN where a gate withholds it."""
        return math.nan if self.headline.estimate is None else self.headline.estimate

    @property
    def interval(self) -> Interval:
        """The headline's interval, with the sources of error that it covers.

        Raises:
            ValueError: a gate withholds it.
        """
        interval = interval_from(self.headline, self.confidence, self.covers)
        if interval is None:
            raise ValueError("a gate withholds the headline")
        return interval

    @property
    def variance(self) -> Variance:
        """The headline's variances, of sampling and of noise."""
        own = self.headline
        return Variance(sampling=(own.sampling_error or 0.0) ** 2, noise=(own.noise_error or 0.0) ** 2)

    @property
    def confounding(self) -> ConfoundingStatement | None:
        """The confounding statement of the headline."""
        return self.headline.confounding

    def fields(self, study: TableStudy) -> dict[str, Any]:
        """Return the fields that an ``EffectRelease`` has beside those of every release."""
        return {
            **vars(self),
            "estimand": study.estimand,
            "answers": in_table(self.answers, study.asks_one),
            "calibration": self.calibration if self.calibration is not None and self.calibration.controls else None,
            "details": dict(self.details),
        }


def means_if_consistent(estimate: float, means: Sequence[float]) -> tuple[float, float] | None:
    """Return the means of reference and arm if their difference is the estimate; else None."""
    if len(means) < 2:
        return None
    control, treated = means
    near = 1e-9 * max(1.0, abs(control), abs(treated))
    return (control, treated) if abs(treated - control - estimate) <= near else None


@dataclass(frozen=True)
class Estimate:
    """A noisy estimate before its interval, in outcome units.

    Attributes:
        value: the estimate.
        variance: the released sampling variance, possibly below 0.
        noise, variance_noise: change of estimate and variance by one unit of :class:`Noise`.
        clamped: whether a denominator was clamped, so that the numbers carry no information.
        excess: addition to the noise variance where a denominator was clamped.
        largest_variance: of any population, beyond which no upper bound goes.
        allowance: in deviations of the variance's noise, where computed; it takes the place of the union bound.
        bias: largest bias of the estimate, in standard errors of sampling.
        offset: largest further bias, in outcome units.
    """

    value: float
    variance: float
    noise: float
    variance_noise: float
    clamped: bool = False
    excess: float = 0.0
    largest_variance: float = math.inf
    allowance: float | None = None
    bias: float = 0.0
    offset: float = 0.0


def around(value: float, half: float, confidence: float, bounds: tuple[float, float] | None) -> tuple[float, Interval]:
    """Return the estimate and its interval, both cut to the declared range ``bounds`` if any.

    The truth lies in the range, so moving the estimate to its nearest point does not increase the error.
    """
    low, high = value - half, value + half
    if bounds is not None:
        value = min(max(value, bounds[0]), bounds[1])
        low, high = max(value - half, bounds[0]), min(value + half, bounds[1])
    return value, Interval(
        lower=low,
        upper=high,
        confidence=confidence,
        covers=NOISY,
        whole_range=bounds is not None and (low, high) == bounds,
    )


def assemble(
    estimate: Estimate, noise: Noise, confidence: float, bounds: tuple[float, float] | None
) -> tuple[float, Interval, Variance, float]:
    """Return estimate, interval, variances, and the interval's bound on the sampling variance.

    The sampling variance enters by its upper confidence bound at beta = (1 - confidence)/10, the error of the
    estimate at 1 - confidence - beta: by the union bound the interval errs with probability at most 1 - confidence, up
    to the normal approximation of the sampling error, for any dependence of the two noises. With independent noises an
    allowance takes its place, which is narrower. A bias is allowed for at the upper bound of the sampling variance
    (:meth:`Noise.critical`).

    Args:
        estimate: the noisy estimate.
        noise: the distribution of its noise.
        confidence: the level, in [0.5, 1).
        bounds: the declared range; estimate and interval are cut to it. None: neither is cut.
    """
    of_variance, alpha = noise.deviation * estimate.variance_noise, 1 - confidence
    beta = alpha * VARIANCE_SHARE if of_variance > 0 and estimate.allowance is None else 0.0
    sampling = min(max(estimate.variance, 0.0), estimate.largest_variance)
    upper = sampling + (estimate.allowance or 0.0) * of_variance
    upper += noise.quantile(beta, 0.0, estimate.variance_noise) if beta > 0 else 0.0
    upper = min(upper, estimate.largest_variance)
    bias = estimate.bias * math.sqrt(upper) + estimate.offset
    half = noise.critical(alpha - beta, bias, upper, estimate.noise)
    if estimate.clamped and bounds is not None:
        half = math.inf
    value, interval = around(estimate.value, half, confidence, bounds)
    covers = NOISY if noise.scale > 0 else NOISY[:1]
    interval = interval.model_copy(update={"bias": bias, "covers": covers})
    noise_variance = (noise.deviation * estimate.noise) ** 2 + estimate.excess
    return value, interval, Variance(sampling=sampling, noise=noise_variance), upper


# The largest imbalance left by public weights that counts as adjusted, in deviations of the outcome; the usual bound on
# standardised differences of covariates (Austin 2009).
ENOUGH_LEFT = 0.1


def partly_if_left(estimator: BaseModel, method: AdjustmentMethod, left: float) -> ConfoundingStatement:
    """Return the confounding statement of public weights: in part where much imbalance is left.

    Args:
        estimator: settings of the study.
        method: of the weights.
        left: the arms' remaining difference, in standard deviations of the outcome.
    """
    return unless_randomised(estimator, by(method, Shortfall.imbalance if left > ENOUGH_LEFT else None))


def unless_randomised(estimator: BaseModel, done: ConfoundingStatement) -> ConfoundingStatement:
    """Return the statement on confounding, in a declared trial that of a trial by this method."""
    return of_trial(done.method) if declares_randomised(estimator.model_dump()) else done


def open_to(estimator: BaseModel, *otherwise: Limit) -> tuple[Limit, ...]:
    """Return the errors that no interval covers; in a declared trial, a lack of randomisation.

    Args:
        estimator: settings of the study.
        otherwise: errors that are not covered where treatment was not randomised.
    """
    return (limit(Code.not_randomised),) if declares_randomised(estimator.model_dump()) else otherwise


def covers_imbalance(allowance: float = 1.0) -> Limit:
    """Return the bias by imbalance that an interval covers. ``allowance``: its declared factor."""
    return limit(Code.imbalance) if allowance == 1 else limit(Code.imbalance_times, factor=float(allowance))


def covering(interval: Interval, *more: Limit) -> Interval:
    """Return the interval with further sources of error that it covers."""
    return interval.model_copy(update={"covers": (*interval.covers, *more)})


def part_hidden(hidden: int, columns: int) -> float:
    """Return the part, 0 to 1, of the declared confounding that hidden columns may have.

    Noise leaves some columns visible by chance: where most are hidden, all count as hidden.
    """
    return 1.0 if hidden and 2 * hidden >= columns else math.sqrt(hidden / max(columns, 1))


def effect_in_twins(value: float, bias: float, square: float) -> float:
    """Return the least squared effect in differences of twins, for outcomes in [-1, 1].

    Differences of twins contain it besides the variance. A biased estimate overstates it, which would leave the
    variance too small, so the largest bias is subtracted first.

    Args:
        value: the estimate.
        bias: its largest bias, in standard errors of sampling.
        square: the sampling variance before the subtraction.
    """
    return max(min(abs(value), 2.0) - bias * math.sqrt(max(square, 0.0)), 0.0) ** 2
