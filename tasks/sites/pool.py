"""Pool tables of sites or blocks into one table.

Fixed and random effects, heterogeneity, leave-one-site-out. Notation: site i of k has estimate theta_i, released
sampling variance v_i, known noise variance s_i^2, V_i = v_i + s_i^2, and an interval of half-width h_i, which allows
for a bias of at most b_i. Proofs with private variances, clamped denominators and noise that is not normal:
``docs/sites.md``.

Each question is pooled over the sites or blocks that answered it: a site where noise hides a subgroup, a measure ends
before its horizon, or a gate withholds the answer is left out. This depends on released counts and balance, not on any
estimate. Simultaneous intervals are pooled from the sites' own, at the same confidence. Post-processing of released
values; costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtrc, ndtri, stdtrit

from causalveil.schemas.answers import Answer, Limits, State, headline_first
from causalveil.schemas.confounding import ConfoundingStatement, over_parts
from causalveil.schemas.errors import BundleError
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.questions import OutcomeRole
from causalveil.schemas.release import EffectRelease, Interval, Variance
from causalveil.schemas.sites.pooled import Heterogeneity, PooledEstimate, WithoutSite
from causalveil.schemas.sites.round import Model
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.estimate.interval import NOISY, Noise
from causalveil.tasks.machine.arrays import FloatArray

# Studies that several sites, or blocks in turn, can answer.
Asked: TypeAlias = EffectStudy | SurvivalStudy


@dataclass(frozen=True)
class Question:
    """The question of a row of answers."""

    outcome: str
    role: OutcomeRole
    group: str
    arm: str
    reference: str

    @classmethod
    def of(cls, row: Answer) -> Question:
        """Return the question of an answer."""
        return cls(row.outcome, row.role, row.group, row.arm, row.reference)


def questions_of(study: Asked) -> list[Question]:
    """Return every question of a study, in the order of a release's answers."""
    names, groups = study.arm_names, study.answered_groups
    return headline_first(
        Question(outcome, role, group, arm, names[0])
        for outcome, (role, _) in outcomes_of(study).items()
        for arm in names[1:]
        for group in groups
    )


def outcomes_of(study: Asked) -> dict[str, tuple[OutcomeRole, float]]:
    """Return the role of each outcome, and the largest absolute effect on it."""
    if isinstance(study, SurvivalStudy):
        return {question.label: (question.role, question.span) for question in study.questions}
    return {outcome.name: (outcome.role, outcome.width) for outcome in study.outcomes}


def widths_of(study: Asked) -> dict[str, float]:
    """Return the largest absolute effect on each outcome."""
    return {name: width for name, (_, width) in outcomes_of(study).items()}


# Squares of weights, which are reciprocals of variances, are ordinary floats from here on.
SMALLEST = 1e-150
RANDOM_COVERS = (*NOISY, limit(Code.heterogeneity))


@dataclass(frozen=True)
class SiteEstimate:
    """The results of a site for pooling, in outcome units."""

    site: str
    estimate: float
    variance: Variance
    interval: Interval


@dataclass(frozen=True)
class Pooled:
    """The results of one set of sites.

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
        sites: each with its own epsilon, as its noise variance.
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
            BundleError: a site reports a variance of 0, or one out of range.
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
            # If the declared range cuts one side, the other still has the full width.
            half_widths=np.array(
                [max(site.interval.upper - site.estimate, site.estimate - site.interval.lower) for site in sites]
            ),
            biases=np.array([site.interval.bias for site in sites]),
            confidence=confidence,
            bounds=bounds,
        )

    def drop(self, position: int) -> _Table:
        """Return all sites but one."""
        rest = np.arange(self.size) != position
        return replace(
            self,
            estimates=self.estimates[rest],
            sampling=self.sampling[rest],
            noise=self.noise[rest],
            half_widths=self.half_widths[rest],
            biases=self.biases[rest],
        )

    @property
    def size(self) -> int:
        return self.estimates.size

    @cached_property
    def variances(self) -> FloatArray:
        """V_i, shape (sites,): variances of sampling and noise, for weights and Q."""
        return self.sampling + self.noise

    @cached_property
    def effective(self) -> FloatArray:
        """Variance that each site's own interval implies, shape (sites,); at least V_i.

        It is (h_i/z)^2 without a bias. It is more than V_i where the sampling variance is itself noisy (the interval
        uses its upper bound) or where the noise has heavier tails than a normal. A single site then keeps the interval
        that it released.
        """
        deviations = [self._deviation(*pair) for pair in zip(self.half_widths, self.biases, strict=True)]
        return np.maximum(self.variances, np.square(deviations))

    def _deviation(self, half: float, bias: float) -> float:
        """The standard deviation of a normal error whose interval with this bias has this half-width."""
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

        The noise is in V_i, so it does not count as a difference between sites.
        """
        if self.size < 2:
            return 0.0
        weights = 1 / self.variances
        scale = float(weights.sum() - (weights**2).sum() / weights.sum())
        return max(0.0, (self.q - (self.size - 1)) / scale)

    def fixed(self) -> PooledEstimate:
        """Return the weighted mean of these sites, and its normal interval.

        Biases may all have the same sign and add up.
        """
        weights = self.fixed_weights
        error = math.sqrt(float(weights**2 @ self.effective))
        half = Noise(0.0).critical(1 - self.confidence, float(weights @ self.biases), error**2)
        return self._estimate(weights, error, half, NOISY)

    def random(self) -> PooledEstimate:
        """Return the mean effect of the population of sites, and its Hartung-Knapp interval.

        Hartung and Knapp 2001: the squared error is sum w_i (theta_i - mean)^2 / ((k - 1) sum w_i), with k - 1
        degrees of freedom. It is at least the variance by the sites' own intervals and tau2 (the modification of Knapp
        and Hartung 2003: without it, sites that agree by chance would have an interval narrower than the fixed one).
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

    It is None if noise hides it, it ends before its horizon, or a gate withholds it.

    Args:
        name: of the site or block.
        release: the answer's.
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


FEWEST = 2


@dataclass(frozen=True)
class SourceAnswer:
    """The answer of one site or block to a question, and its release."""

    source: str
    release: EffectRelease
    row: Answer

    @property
    def state(self) -> State:
        """The state as a part of a pooled answer: unresolved where the measure ends earlier."""
        return self.row.state if self.row.restricted_to is None else State.unresolved

    @property
    def is_answered(self) -> bool:
        """True if there is an answer."""
        return self.state in (State.answered, State.marked) and self.row.estimate is not None


@dataclass(frozen=True)
class CombinedCell:
    """One question: the answers to it, and their pooled result if two sites or blocks answered.

    Attributes:
        width: the largest absolute effect.
        answers: by site or block.
        pooled: of those that answered; None: fewer than two.
        together: the same from simultaneous intervals; None also where the table has one row.
        weights: of those that answered, by both models.
    """

    width: float
    answers: tuple[SourceAnswer, ...]
    pooled: Pooled | None
    together: Pooled | None
    weights: dict[str, tuple[float, float]]

    @property
    def row(self) -> Answer:
        """The first answer, whose question is that of all."""
        return self.answers[0].row

    @property
    def weighed(self) -> tuple[SourceAnswer, ...]:
        """The answers that are pooled."""
        return tuple(answer for answer in self.answers if answer.source in self.weights)

    @property
    def spread(self) -> float:
        """Standard deviation of the outcome within arms, over the sites."""
        squares = (self.weights[answer.source][0] * (answer.row.spread or 0.0) ** 2 for answer in self.weighed)
        return math.sqrt(math.fsum(squares))

    def weight(self, source: str, model: Model) -> float:
        """Return the weight of a site or block under a model, 0 without an answer."""
        return self.weights.get(source, (0.0, 0.0))[0 if model is Model.fixed else 1]

    def of(self, model: Model) -> PooledEstimate | None:
        """Return the estimate under a model."""
        return None if self.pooled is None else by_model(self.pooled, model)

    def simultaneous(self, model: Model) -> Limits | None:
        """Return the interval under a model that holds jointly with those of all other rows."""
        return None if self.together is None else limits_of(by_model(self.together, model).interval)

    def confounding(self, model: Model) -> ConfoundingStatement | None:
        """Return the statement on confounding, over the parts as a model weighs them."""
        stated = [(answer.row.confounding, self.weight(answer.source, model)) for answer in self.weighed]
        parts = [(statement, weight) for statement, weight in stated if statement is not None]
        return over_parts(parts) if parts and len(parts) == len(stated) else None


def by_model(pooled: Pooled, model: Model) -> PooledEstimate:
    """Return the estimate of a model."""
    return pooled.fixed if model is Model.fixed else pooled.random


def cell_of(answers: Sequence[SourceAnswer], confidence: float, width: float) -> CombinedCell:
    """Pool one question of a table.

    Args:
        answers: of sites or blocks to it, each once.
        confidence: of each interval by itself.
        width: the largest absolute effect.

    Raises:
        BundleError: an answer reports a variance of 0, or one out of range.
    """

    def estimates(together: float | None = None) -> list[SiteEstimate]:
        by_source = (estimate_of(answer.source, answer.release, answer.row, together) for answer in answers)
        return [estimate for estimate in by_source if estimate is not None]

    sites, bounds = estimates(), (-width, width)
    if len(sites) < FEWEST:
        return CombinedCell(width, tuple(answers), None, None, {})
    pooled = pool(sites, confidence, bounds)
    weights = {
        site.site: (float(fixed), float(random))
        for site, fixed, random in zip(sites, pooled.weights_fixed, pooled.weights_random, strict=True)
    }
    together = None
    if (rows := len(answers[0].release.answers)) > 1:
        each = together_at(confidence, rows)
        together = pool(estimates(each), each, bounds)
    return CombinedCell(width, tuple(answers), pooled, together, weights)


def together_at(confidence: float, rows: int) -> float:
    """Return the confidence of each interval by which all of a table hold jointly."""
    return 1 - (1 - confidence) / rows


def question_fields(row: Answer) -> dict[str, Any]:
    """Return the fields of a row that identify its question."""
    return {name: getattr(row, name) for name in ("outcome", "role", "group", "arm", "reference", "measure")}


def number_fields(estimate: PooledEstimate | None) -> dict[str, Any]:
    """Return the numbers of a row by the declared estimate; None: it has no numbers."""
    if estimate is None:
        return dict.fromkeys(("estimate", "interval", "sampling_error", "noise_error", "bias"))
    return {
        "estimate": estimate.estimate,
        "interval": limits_of(estimate.interval),
        "sampling_error": math.sqrt(estimate.variance.sampling),
        "noise_error": math.sqrt(estimate.variance.noise),
        "bias": estimate.interval.bias,
    }


def part_fields(cell: CombinedCell, answer: SourceAnswer, *, withheld: bool = False) -> dict[str, Any]:
    """Return the fields of a site's or a block's part in a row.

    ``withheld``: a gate withholds the whole row.
    """
    row, shown = answer.row, answer.is_answered and not withheld
    numbers = ("estimate", "interval", "sampling_error", "noise_error")
    return {
        "state": answer.state,
        **{name: getattr(row, name) if shown else None for name in numbers},
        "weight_fixed": cell.weight(answer.source, Model.fixed),
        "weight_random": cell.weight(answer.source, Model.random),
        "confounding": row.confounding,
    }


def limits_of(interval: Interval) -> Limits:
    """Return an interval's ends alone."""
    return Limits(lower=interval.lower, upper=interval.upper)
