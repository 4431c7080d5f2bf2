"""Compute how strong an unmeasured confounder would have to be.

It is read off a release: estimate, interval and sampling variance. Nothing is drawn and nothing charged.

A confounder Z that explains a part R2_Y of the outcome's variance that covariates and treatment leave, and a part R2_T
of the variance that covariates leave of treatment (of an estimator's weight), moves an average effect by at most

    |bias| <= S sqrt(R2_Y R2_T/(1 - R2_T)),    S^2 = E(Y - g)^2 E alpha^2,

g the outcome's mean given covariates and arm, alpha the weight of a person (Chernozhukov, Cinelli, Newey, Sharma and
Syrgkanis 2022; for one regression line Cinelli and Hazlett 2020). S^2/n is the sampling variance where residuals and
weights are independent. The variance of an estimator without g includes what covariates explain: S is then too large,
and the answer conservative.

Benchmarks state how much of both a known covariate explains beyond all others. They come from posterior draws, given
released moments, of the arms' covariances G_t, slopes beta_t and distance D: with G = p G_1 + (1 - p) G_0 and
c = p G_1 beta_1 + (1 - p) G_0 beta_0 the outcome keeps 1 - c'G^-1 c of its variance within arms, and treatment
q - q^2 D'(G + q D D')^-1 D of q = p (1 - p). Squares of noisy numbers are too large on average, so the moments
themselves are not used.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from causalveil.schemas.answers import (
    Answer,
    Benchmark,
    Limits,
    Possible,
    Robustness,
    robustness_value,
    squared_ratio,
)
from causalveil.schemas.confounding import declares_randomised
from causalveil.schemas.questions import ALL_UNITS
from causalveil.schemas.table import TableStudy
from causalveil.tasks.estimate.adjust.features import Curve
from causalveil.tasks.estimate.adjust.five_releases import FiveReleases
from causalveil.tasks.estimate.interval import EFFECTIVE, Findings
from causalveil.tasks.machine.arrays import FloatArray, IntArray

# Quantiles of the draws of a share.
QUANTILES = (0.05, 0.5, 0.95)
# The least share of the outcome's variance within arms that covariates leave.
LEAST_LEFT = 0.01


def extreme_value(effect: float, scale: float) -> float:
    """Return the R2_T that a confounder needs which explains all remaining outcome variance."""
    square = squared_ratio(effect, scale)
    return square / (1 + square)


def largest_bias(scale: float, outcome: float, treatment: float) -> float:
    """Return the largest bias by a confounder of a given strength, in outcome units.

    Args:
        scale: S.
        outcome: R2_Y, in [0, 1].
        treatment: R2_T, in [0, 1).
    """
    return scale * math.sqrt(outcome * treatment / (1 - treatment))


def e_value(ratio: float) -> float:
    """Return the E-value of a risk ratio (VanderWeele and Ding 2017).

    It is the risk ratio by which a confounder must be tied to treatment and to outcome to explain the ratio away.

    Args:
        ratio: above 0; below 1 its inverse is taken.

    Examples:
        >>> round(e_value(3.9), 2)
        7.26
    """
    larger = max(ratio, 1 / ratio)
    return larger + math.sqrt(larger * (larger - 1))


def robustness(
    estimate: float, interval: Limits, confidence: float, errors: tuple[float, float], units: float
) -> Robustness | None:
    """Return how strong a confounder of one effect must be; None without sampling variance.

    Args:
        estimate: in outcome units.
        interval: around it.
        confidence: of the interval.
        errors: standard errors of sampling and of noise.
        units: the number of units of that sampling variance; of clustered units the number of independent ones.
    """
    sampling, noise = errors
    if sampling <= 0 or units <= 0:
        return None
    error = (interval.upper - interval.lower) / 2 / float(ndtri((1 + confidence) / 2))
    # The interval's variance beyond its noise, at least the sampling variance.
    upper = math.sqrt(units * max(sampling**2, error**2 - noise**2))
    scale = math.sqrt(units) * sampling
    covers_zero = interval.lower <= 0 <= interval.upper
    near = 0.0 if covers_zero else min(abs(interval.lower), abs(interval.upper))
    return Robustness(
        scale=scale,
        upper=upper,
        value=robustness_value(estimate, scale),
        near_end=robustness_value(near, upper),
        extreme=extreme_value(estimate, scale),
    )


def with_robustness(study: TableStudy, findings: Findings, units: int) -> tuple[Answer, ...]:
    """Return the answers with the strength that a confounder of each would need.

    It is left out in a declared trial, and of answers that noise hides or a gate withholds.
    """
    if declares_randomised(study.specification()["estimator"]):
        return findings.answers
    values = [_of_answer(answer, findings, _units_of(study, findings, answer, units)) for answer in findings.answers]
    pairs = zip(findings.answers, values, strict=True)
    return tuple(answer.model_copy(update={"robustness": value}) for answer, value in pairs)


def _of_answer(answer: Answer, findings: Findings, units: float) -> Robustness | None:
    sampling, noise = answer.sampling_error, answer.noise_error
    if answer.interval is None or answer.estimate is None or not answer.stands or sampling is None or noise is None:
        return None
    return robustness(answer.estimate, answer.interval, findings.confidence, (sampling, noise), units)


def _units_of(study: TableStudy, findings: Findings, answer: Answer, units: int) -> float:
    """Return the number of units behind the sampling variance of an answer.

    Of a subgroup, and where not all are eligible, it is a released noisy number. Units in clusters count as the number
    of independent units with the same variance.
    """
    if findings.clusters is not None:
        people = {(row.outcome, row.group, row.arm): row.effective_people for row in findings.clusters.answers}
        return people.get((answer.outcome, answer.group, answer.arm), 0.0)
    if answer.group == ALL_UNITS and study.known_units:
        return units
    groups = study.groups if answer.group == ALL_UNITS else (answer.group,)
    kind = "units" if getattr(study, "weights", None) is None else EFFECTIVE
    # A subgroup's number is given in total or by arm. Labels may be any text, so names are compared whole.
    keys = [[f"{kind}[{group}]{arm}" for arm in ("", *(f"[{name}]" for name in study.arm_names))] for group in groups]
    return math.fsum(math.fsum(float(findings.details.get(key, 0.0)) for key in own) for own in keys)


def as_strong(benchmark: tuple[float, float], times: float) -> tuple[float, float] | None:
    """Return the parts (R2_Y, R2_T) of a confounder that is some times as strong as a covariate.

    Cinelli and Hazlett 2020, equations 50 to 53 (``ovb_partial_r2_bound`` of sensemakr). None where no confounder can
    be that strong: it would explain all remaining variance of treatment.

    Args:
        benchmark: partial R2 of the covariate, with the outcome and with treatment.
        times: k; above 0.

    Examples:
        Being female in the Darfur study, 1 and 3 times (Cinelli and Hazlett 2020, table 1):

        >>> [tuple(round(part, 3) for part in as_strong((0.1093, 0.0091), k)) for k in (1, 3)]
        [(0.125, 0.009), (0.375, 0.028)]
    """
    outcome, treatment = benchmark
    if times * treatment >= 1 - treatment or times * treatment >= 1 or outcome >= 1:
        return None
    square = times * treatment**2 / ((1 - times * treatment) * (1 - treatment))
    if square >= 1:
        return None
    size = (math.sqrt(times) + math.sqrt(square)) / math.sqrt(1 - square)
    return min(size**2 * outcome / (1 - outcome), 1.0), times * treatment / (1 - treatment)


def benchmarks(question: FiveReleases, names: tuple[str, ...]) -> tuple[Benchmark, ...]:
    """Return how much each covariate explains beyond all others, of outcome and of treatment.

    All columns of a covariate count together, with their curves. A covariate whose columns noise hides is left out.

    Args:
        question: with its releases.
        names: of the covariates, in the order of their columns.
    """
    draws, share = question.second.draws, question.found_scales.arms.share
    within = share * draws.grams[:, 0] + (1 - share) * draws.grams[:, 1]
    arms = (draws.grams @ draws.slopes[..., None])[..., 0]
    cross, between = share * arms[:, 0] + (1 - share) * arms[:, 1], share * (1 - share)
    total = within + between * draws.apart[:, :, None] * draws.apart[:, None, :]
    owner = _owners(question)
    outcome = explained(within, cross, np.ones(len(cross)), owner, len(names))
    treatment = explained(total, between * draws.apart, np.full(len(cross), between), owner, len(names))
    return tuple(
        Benchmark(covariate=name, outcome=_possible(outcome[place]), treatment=_possible(treatment[place]))
        for place, name in enumerate(names)
        if (owner == place).any()
    )


def _owners(question: FiveReleases) -> IntArray:
    """Return the place of each feature's covariate; -1 if it is made of several."""
    features, columns = question.second.features, question.public.columns

    def of_column(place: int) -> int:
        parts = columns[place].parts
        covariates = {columns[part.column].covariate for part in parts} if parts else {columns[place].covariate}
        return covariates.pop() if len(covariates) == 1 else -1

    lines = [of_column(line.column) for line in features.lines]

    def of_curve(curve: Curve) -> int:
        covariates = {lines[curve.first], lines[curve.second]}
        return covariates.pop() if len(covariates) == 1 else -1

    return np.array([*lines, *map(of_curve, features.curves)], dtype=np.int64)


def explained(
    gram: FloatArray, cross: FloatArray, variance: FloatArray, owner: IntArray, covariates: int
) -> FloatArray:
    """Return the partial R2 of each covariate in each draw, shape (covariates, draws).

    With b = gram^-1 cross, leaving out the features A adds b_A'((gram^-1)_AA)^-1 b_A to the residual variance.
    """
    inverse = np.linalg.inv(gram)
    slopes = (inverse @ cross[..., None])[..., 0]
    left = np.maximum(variance - (cross * slopes).sum(axis=1), LEAST_LEFT * variance)
    shares = np.zeros((covariates, len(gram)))
    for place in range(covariates):
        places = np.flatnonzero(owner == place)
        if len(places):
            b = slopes[:, places]
            more = (b * np.linalg.solve(inverse[:, places[:, None], places], b[..., None])[..., 0]).sum(axis=1)
            shares[place] = np.clip(more / (left + more), 0, 1)
    return shares


def _possible(draws: FloatArray) -> Possible:
    low, median, high = (float(quantile) for quantile in np.quantile(draws, QUANTILES))
    return Possible(low=low, median=median, high=high)
