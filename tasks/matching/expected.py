"""Planning of a matching before a row is read: caps, weights, expected width, units needed.

Everything takes declared values or the stand-in that the reader states. Where the stand-in fixes nothing (how often
the busiest unit would serve) a rule of thumb for scores unrelated to treatment is used, and named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.study import Estimand, Variant
from causalveil.tasks.enclave.split import least_units, sizes_of
from causalveil.tasks.inference.assemble import EffectFindings, Noise
from causalveil.tasks.matching import interval, scores
from causalveil.tasks.matching.interval import findings
from causalveil.tasks.matching.weights import Reuse, effect_epsilon, variance_unit
from causalveil.tasks.models.nearest import NEAREST, adaptive_limit, integer_caps
from causalveil.tasks.weighting.expected import square_within


@dataclass(frozen=True)
class ExpectedMatching:
    """Expected half-width and standard errors of a study, in outcome units.

    ``score_noise``: standard deviation of the noise on each score.
    """

    half_width: float
    noise_standard_error: float
    sampling_standard_error: float
    whole_range: bool
    reuse: Reuse
    score_noise: float
    keep: float
    attenuation: float


def busiest(queries: int, candidates: int, ratio: int) -> float:
    """Return M/N for scores unrelated to treatment, by a rule of thumb.

    It is within a third of what was simulated for N = 1 to 20.
    """
    logarithm = math.log(max(candidates, 2))
    return max(queries / candidates * (1 + math.sqrt(logarithm / ratio) + logarithm / (2 * ratio)), 1.0)


def expected_reuse(study: MatchingStudy, units: int, stand_in: StandIn = StandIn()) -> Reuse:
    """Return the matching that the stand-in population would give.

    Raises:
        DataError: an arm would have fewer than N units.
    """
    keep = _keep(study)
    ratio, estimand = study.estimator.ratio, study.estimand
    share = keep * stand_in.treated + (1 - keep) * (1 - stand_in.treated)
    treated = min(max(round(units * share), 1), units - 1)
    counts = treated, units - treated
    most = max(
        busiest(counts[1 - side], counts[side], ratio)
        for side in (0, 1)
        if estimand is Estimand.ATE or side == (estimand is Estimand.ATT)
    )
    if study.estimator.cap == "adaptive":
        limit = float(adaptive_limit(effect_epsilon(study), study.error_coefficient, max(counts), most))
        limit = min(limit, most) if study.privacy.level is Level.label else limit
    else:
        limit = float(study.estimator.cap)
    caps = integer_caps(Fraction(limit), *counts, ratio, estimand)
    own = (estimand is not Estimand.ATC, estimand is not Estimand.ATT)
    squares, weights = [], []
    for side in (0, 1):
        served = counts[1 - side] / counts[side] if own[1 - side] else 0.0
        served_variance = served**2 / (2 * ratio) + served / ratio
        squares.append(round(counts[side] * ((own[side] + served) ** 2 + served_variance) * ratio**2))
        reuse = min(caps[side] / ratio, busiest(counts[1 - side], counts[side], ratio)) if served else 0.0
        weights.append(own[side] + reuse)
    across = -(-min(counts) * NEAREST[0] // NEAREST[1])
    return Reuse(
        ratio=ratio,
        treated=counts[0],
        controls=counts[1],
        queries={Estimand.ATE: units, Estimand.ATT: counts[0], Estimand.ATC: counts[1]}[estimand],
        unmatched=0,
        caps=caps,
        most=round((max(weights) - 1) * ratio) if estimand is Estimand.ATE else round(max(weights) * ratio),
        largest=max(round(max(weights) * ratio), 1),
        squares=(squares[0], squares[1]),
        pairs=(0, 0, 0) if study.estimator.variant is Variant.paper else (counts[0] // 2, counts[1] // 2, across),
    )


def expected_findings(study: MatchingStudy, sizes: Sizes, stand_in: StandIn = StandIn()) -> EffectFindings:
    """Return the findings of the stand-in population without an effect or drawn noise."""
    reuse = expected_reuse(study, sizes.units, stand_in)
    square = square_within(study, stand_in, 0.0)
    total = 2 * reuse.queries * square
    total += sum(float(squares - reuse.queries) * square for squares in reuse.weight_squares)
    second = total / float(variance_unit(reuse)) if reuse.measurable else 0.0
    return findings(study, sizes, reuse, np.array([0.0, study.estimator.variance_share * second]))


def expected(study: MatchingStudy, sizes: Sizes, stand_in: StandIn = StandIn()) -> ExpectedMatching:
    """Return the expected half-width of the interval, and what it is made of. Reads no data.

    Raises:
        DataError: an arm would have fewer than N units.
    """
    found = expected_findings(study, sizes, stand_in)
    by_score, keep = scores.mechanism(study), _keep(study)
    return ExpectedMatching(
        half_width=(found.interval.upper - found.interval.lower) / 2,
        noise_standard_error=math.sqrt(found.variance.noise),
        sampling_standard_error=math.sqrt(found.variance.sampling),
        whole_range=found.interval.whole_range,
        reuse=expected_reuse(study, sizes.units, stand_in),
        score_noise=0.0 if by_score is None else math.sqrt(2) * by_score.known_scale,
        keep=keep,
        attenuation=interval.attenuation(stand_in.treated, keep),
    )


def sign_wrong(study: MatchingStudy, sizes: Sizes, effect: float, stand_in: StandIn = StandIn()) -> float:
    """Return P(the released estimate has the wrong sign) for an effect of the stated size.

    The probability is over sampling and noise. At sample level the attenuated effect is what the estimate is about.
    """
    found = expected_findings(study, sizes, stand_in)
    noise = Noise(1.0, 1.0)
    factor = math.sqrt(found.variance.noise) / noise.deviation
    left = 1.0 if study.corrects_attenuation else interval.attenuation(stand_in.treated, _keep(study))
    return noise.tail(abs(effect) * left, found.variance.sampling, factor)


def units_needed(study: MatchingStudy, effect: float, stand_in: StandIn = StandIn()) -> int | None:
    """Return the fewest units, to 1 %, whose half-width is below what is seen of ``effect``.

    The result is None where no number of units is found.
    """
    left = 1.0 if study.corrects_attenuation else interval.attenuation(stand_in.treated, _keep(study))

    def enough(units: int) -> bool:
        try:
            return expected(study, sizes_of(study, units), stand_in).half_width < abs(effect) * left
        except CausalveilError:
            return False

    return least_units(enough)


def _keep(study: MatchingStudy) -> float:
    """The probability that a treatment is kept; 1 at label level."""
    release_by = scores.treatment_mechanism(study)
    return 1.0 if release_by is None else release_by.keep_probability
