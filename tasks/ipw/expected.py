"""Foresee widths, units needed and the bias from noisy scores, before a row is read.

Everything takes declared values or a stand-in that the reader states. Of the bounds of Lee et al. (2019a, 2019b) only
Lemma 3's is here; why the others say nothing of a study that is planned stands in ``docs/proofs/ipw.md``, section 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.ipw import IpwStudy, Weighting
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.study import Estimand
from causalveil.tasks.covariates import dimension
from causalveil.tasks.enclave.split import least_units, sizes_of
from causalveil.tasks.inference.assemble import EffectFindings, Noise
from causalveil.tasks.ipw import public_scores, weights
from causalveil.tasks.ipw.interval import adjustment_share, findings
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models import logistic
from causalveil.tasks.weighting.weighted_means import noise_of


@dataclass(frozen=True)
class ExpectedWeighting:
    """Expected half-width and standard errors of a study, in outcome units.

    ``propensity_noise`` is the standard deviation of the noise on each coefficient, ``adjustment`` the share of the
    covariates' coefficients that the penalty leaves.
    """

    half_width: float
    noise_standard_error: float
    sampling_standard_error: float
    propensity_noise: float
    adjustment: float
    whole_range: bool


@dataclass(frozen=True)
class Drowning:
    """A comparison of the noise with an effect of a stated size."""

    drowned: bool
    sign_wrong: float
    expected: ExpectedWeighting
    units_needed: int | None
    message: str


def expected_statistics(study: IpwStudy, sizes: Sizes, stand_in: StandIn = StandIn()) -> FloatArray:
    """Return the sums that the stand-in population would give without noise.

    They are in the order of ``statistic_names``. Both arms' outcomes are centred in the declared range; everybody's
    score is what the penalty leaves of the treated share, clipped.
    """
    n = sizes.estimation
    share = stand_in.treated
    low, high = study.estimator.clip
    score = np.full(2, min(max(penalised_share(study, share), low), high))
    raw = weights.weights(study.estimand, score, np.array([1, 0], dtype=np.uint8))
    largest = weights.largest_weights(study.estimand, study.estimator.clip)
    counts = np.array([share, 1 - share]) * n
    half = study.outcome.width / 2
    deviation = stand_in.deviation if stand_in.deviation is not None else study.outcome.width / 4
    if study.estimator.weighting is Weighting.hajek:
        a, c = raw / np.array(largest), weights.SECOND_MOMENT
        square = (deviation / half) ** 2
        return np.concatenate(
            [k * np.array([0.0, b, c * b * b * square, 0.0, c * b * b]) for k, b in zip(counts, a, strict=True)]
        )
    scale, middle = weights.horvitz_thompson_scale(study), study.outcome.middle
    mean = float(counts @ (np.array([1.0, -1.0]) * raw)) * middle / n
    second = float(counts @ raw**2) * (middle**2 + deviation**2) / n
    squares = n * (second - 2 * scale.middle * mean + scale.middle**2) / scale.half**2
    if study.privacy.level is Level.label:
        signed = float(counts @ (np.array([1.0, -1.0]) * raw)) / max(largest)
        return np.array([0.0, weights.LABEL_SQUARE * squares, signed])
    return np.array([n * (mean - scale.middle) / scale.half, squares])


def penalised_share(study: IpwStudy, share: float) -> float:
    """Return everybody's score if covariates say nothing of treatment.

    The intercept is penalised as slopes are. Rows have c = 1/sqrt(columns + 1) for it, so its coefficient w satisfies c
    (score - share) + penalty w = 0.
    """
    pull = 1 / ((len(study.covariates) + 1) * study.estimator.penalty)

    def excess(score: float) -> float:
        return math.log(score / (1 - score)) - pull * (share - score)

    low, high = min(share, 0.5), max(share, 0.5)
    return low if low == high else float(brentq(excess, low, high))


def expected_findings(study: IpwStudy, sizes: Sizes, stand_in: StandIn = StandIn()) -> EffectFindings:
    """Return the findings of the stand-in population if no noise happened to be drawn."""
    if public_scores.has_public_scores(study):
        return public_scores.expected(study, sizes, stand_in)[0]
    return findings(study, sizes, expected_statistics(study, sizes, stand_in))


def expected(study: IpwStudy, sizes: Sizes, stand_in: StandIn = StandIn()) -> ExpectedWeighting:
    """Return the expected half-width of the interval, and what it is made of. Reads no data."""
    found = expected_findings(study, sizes, stand_in)
    half_width = (found.interval.upper - found.interval.lower) / 2
    if public_scores.has_public_scores(study):
        half_width = public_scores.expected(study, sizes, stand_in)[1]
    model = logistic.model(study, sizes).mechanism()
    return ExpectedWeighting(
        half_width=half_width,
        noise_standard_error=math.sqrt(found.variance.noise),
        sampling_standard_error=math.sqrt(found.variance.sampling),
        propensity_noise=Noise.of(model, dimension(study)).deviation,
        adjustment=adjustment_share(study, stand_in.treated),
        whole_range=found.interval.whole_range,
    )


def sign_wrong(study: IpwStudy, sizes: Sizes, effect: float, stand_in: StandIn = StandIn()) -> float:
    """Return P(the released estimate has the wrong sign) for an effect of the stated size.

    The probability is over sampling and noise.
    """
    found = expected_findings(study, sizes, stand_in)
    if public_scores.has_public_scores(study):
        noise = noise_of(study.privacy.cost)
    else:
        noise = Noise.of(weights.mechanism(study, sizes), len(weights.private_entries(study)))
    factor = math.sqrt(found.variance.noise) / noise.deviation if noise.deviation > 0 else 0.0
    return noise.tail(abs(effect), found.variance.sampling, factor)


def drowned(study: IpwStudy, sizes: Sizes, effect: float, stand_in: StandIn = StandIn()) -> Drowning:
    """Compare an effect with the expected half-width, and find how many units would do.

    Drowned: the expected half-width is not below the effect's size.
    """
    foreseen = expected(study, sizes, stand_in)
    wrong = sign_wrong(study, sizes, effect, stand_in)
    if foreseen.half_width < abs(effect):
        message = (
            f"an effect of {effect:g} is larger than the expected half-width, {foreseen.half_width:.3g} "
            f"(wrong sign with probability {wrong:.2g})"
        )
        return Drowning(False, wrong, foreseen, sizes.units, message)
    needed = units_needed(study, effect, stand_in)
    cause = "noise" if foreseen.noise_standard_error > foreseen.sampling_standard_error else "sampling error"
    message = (
        f"because of {cause} the expected half-width, {foreseen.half_width:.3g}, is larger than an effect of "
        f"{effect:g} (wrong sign with probability {wrong:.2g}); "
        + (f"about {needed:,} units would be needed" if needed else "no number of units would do")
    )
    return Drowning(True, wrong, foreseen, needed, message)


def units_needed(study: IpwStudy, effect: float, stand_in: StandIn = StandIn()) -> int | None:
    """Return the fewest units, to 1 %, whose expected half-width is below ``effect``'s size.

    None above 1e13.
    """

    def enough(units: int) -> bool:
        try:
            return expected(study, sizes_of(study, units), stand_in).half_width < abs(effect)
        except StudyError:
            return False

    return least_units(enough)


def lemma3_bound(study: IpwStudy, sizes: Sizes, stand_in: StandIn = StandIn()) -> float:
    """Return a bound on the size of g of Lemma 3 (2019a), in outcome units.

    It is infinite where no bound is known.

    It holds on average over people if the fitted scores are the chances of treatment, none is clipped, and weights
    are Horvitz and Thompson's (``docs/proofs/ipw.md``, section 7). |y| <= C, ||x|| <= 1, and the treated have on
    average 1 - share of odds against their treatment per person, the others ``share`` against theirs. For pure
    epsilon the noise is not normal: E exp(z'x) = (1 - s^2 ||x||^2)^(-(d + 1)/2) while s < 1.
    """
    model = logistic.model(study, sizes).mechanism()
    if model is None:
        return 0.0
    noise = Noise.of(model, dimension(study))
    share, largest = stand_in.treated, max(abs(study.outcome.lower), abs(study.outcome.upper))
    odds = {Estimand.ATE: 1.0, Estimand.ATT: share, Estimand.ATC: 1 - share}[study.estimand]
    if noise.mixing is None:
        exponent = noise.scale**2 / 2
    elif noise.scale < 1:
        exponent = -noise.mixing * math.log1p(-(noise.scale**2))
    else:
        return math.inf
    return largest * odds * math.expm1(exponent) if exponent < 700 else math.inf
