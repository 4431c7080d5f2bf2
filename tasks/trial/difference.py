"""Estimate the difference of arm means, with private or public treatments.

In a randomised trial the difference is the effect; elsewhere it is unadjusted. One release of five sums over all units:
(sum_1 u, sum_0 u, sum t, sum_1 u^2/sqrt(2), sum_0 u^2/sqrt(2)), u in [-1, 1] the scaled outcome: sensitivity 2, what
the two sums of outcomes have alone. Proof: ``docs/proofs/aipw.md``, section 7.

Where treatment is public, one pair of numbers is released, with noise of 1/(smaller arm). Every unit weighs 1 in its
arm's mean; pairs for the sampling variance are of units at random within an arm. Proof: ``docs/proofs/balancing.md``,
sections 1 to 4.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from causalveil.schemas.confounding import AS_THEY_ARE, RANDOMISED, ConfoundingStatement
from causalveil.schemas.estimators.difference import DifferenceEstimator, DifferenceStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.release import Interval
from causalveil.tasks.enclave.enclave import Enclave, Rows
from causalveil.tasks.enclave.split import Folds, Pieces
from causalveil.tasks.inference.assemble import (
    COVERS_DECLARED,
    NOT_COVERED_DECLARED,
    NOT_COVERED_TRIAL,
    EffectFindings,
    Estimate,
    Noise,
    assemble,
)
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.lattice_sums import exact_sums, on_lattice, sums_sensitivity
from causalveil.tasks.models.nearest import traversal
from causalveil.tasks.privacy.mechanisms import Budget, Mechanism, vector_mechanism
from causalveil.tasks.weighting import weighted_means as weighted
from causalveil.tasks.weighting.weighted_means import SLOT, PublicWeights, weigh_units, weighted_findings

SECOND_MOMENT = math.sqrt(0.5)
NUMBERS = 5
# A noisy number of units in an arm below so many noise standard deviations carries no mean.
FLOOR_DEVIATIONS = 5.0


def confounding(estimator: DifferenceEstimator) -> ConfoundingStatement:
    """Return what was done about confounding: arm means are compared as they are."""
    return RANDOMISED if estimator.trial else AS_THEY_ARE


def words(estimator: DifferenceEstimator) -> dict[str, str]:
    """Return what was done about confounding and what no interval covers, in words."""
    open_to = NOT_COVERED_TRIAL if estimator.trial else NOT_COVERED_DECLARED
    return {"adjustment": confounding(estimator).words, "not_covered": open_to}


def covers(estimator: DifferenceEstimator, interval: Interval) -> Interval:
    """Return the interval with what it allows for beside sampling and noise."""
    if estimator.allowed == 0:
        return interval
    return interval.model_copy(update={"covers": (*interval.covers, COVERS_DECLARED)})


def mechanism(study: DifferenceStudy, sizes: Sizes | None) -> Mechanism:
    """Return the mechanism that releases the sums."""
    return vector_mechanism(sums_sensitivity(NUMBERS, None if sizes is None else sizes.units), study.privacy.cost)


def sums(pieces: Pieces, workers: int = 1) -> FloatArray:
    """Return the five sums, exact, shape (5,)."""

    def of(rows: Rows) -> FloatArray:
        u, t = on_lattice(rows.u), (rows.t != 0).astype(np.float64)
        return np.array([u @ t, u @ (1 - t), t.sum(), (u * u) @ t, (u * u) @ (1 - t)])

    weights: FloatArray = np.array([1.0, 1.0, 1.0, SECOND_MOMENT, SECOND_MOMENT])
    return exact_sums(pieces, of, NUMBERS, workers) * weights


def release(study: DifferenceStudy, sizes: Sizes, pieces: Pieces, budget: Budget) -> FloatArray:
    """Return the sums with noise, shape (5,)."""
    return mechanism(study, sizes).release(sums(pieces, study.execution.workers), SLOT, budget)


def findings(study: DifferenceStudy, sizes: Sizes, released: FloatArray) -> EffectFindings:
    """Estimate and interval from released sums.

    mean - mu = (e_sum - mu e_count)/count holds exactly for the noisy count; one count serves both arms, with opposite
    signs, so its part in the difference is (mu_1/n_1 + mu_0/n_0) e. The variance's noise: of the second moments over
    their weight, of the means twice their value.
    """
    noise = Noise.of(mechanism(study, sizes), NUMBERS)
    floor = max(FLOOR_DEVIATIONS * noise.deviation, 1e-9)
    first, second, count, square_first, square_second = released.tolist()
    means, errors = list[float](), list[float]()
    weight, variance, sums_noise, count_noise, variance_noise, clamped = 0.0, 0.0, 0.0, 0.0, 0.0, 0
    for total, square, units in ((first, square_first, count), (second, square_second, sizes.units - count)):
        clamped += units < floor
        size = max(units, floor)
        mean = min(max(total / size, -1.0), 1.0)
        means.append(mean)
        weight += 1 / size
        sampling = (square / SECOND_MOMENT / size - mean**2) / size
        variance += sampling
        errors.append(math.sqrt(max(sampling, 0.0) + (1 + mean**2) * (noise.deviation / size) ** 2))
        sums_noise += 1 / size**2
        count_noise += mean / size
        variance_noise += (1 / SECOND_MOMENT**2 + 4 * mean**2 + 1.0) / size**4
    half, width = study.outcome.width / 2, study.outcome.width
    estimate = Estimate(
        value=(means[0] - means[1]) * half,
        variance=variance * half**2,
        noise=math.sqrt(sums_noise + count_noise**2) * half,
        variance_noise=math.sqrt(variance_noise) * half**2,
        drowned=clamped > 0,
        excess=clamped * width**2,
        # Declared in deviations of the outcome; of sampling's variance both arms have one over their size.
        bias=study.estimator.allowed / math.sqrt(weight),
    )
    value, interval, squared_errors, upper = assemble(estimate, noise, study.confidence, (-width, width))
    return EffectFindings(
        value,
        covers(study.estimator, interval),
        squared_errors,
        {
            "mean_treated": study.outcome.middle + means[0] * half,
            "mean_control": study.outcome.middle + means[1] * half,
            "mean_treated_error": errors[0] * half,
            "mean_control_error": errors[1] * half,
            "noise_standard_error": math.sqrt(squared_errors.noise),
            "sampling_standard_error": math.sqrt(squared_errors.sampling),
            "sampling_standard_error_upper": math.sqrt(upper),
            "denominator_clamped": estimate.drowned,
            **words(study.estimator),
        },
        confounding(study.estimator),
    )


def difference_stage(study: DifferenceStudy, sizes: Sizes, enclave: Enclave, budget: Budget) -> EffectFindings:
    """Release the sums over all units, which ``folds`` left as one fold, and make the interval."""
    everybody = Folds.open(enclave).fold(0)
    return findings(study, sizes, release(study, sizes, everybody, budget))


def public_findings(study: DifferenceStudy, weights: PublicWeights, statistics: FloatArray) -> EffectFindings:
    """Estimate and interval from public and released values."""
    estimator = study.estimator
    bias = estimator.allowed / math.sqrt(float(sum(weights.weight_squares)))
    found = weighted_findings(study, weights, statistics, bias)
    return replace(
        found,
        interval=covers(estimator, found.interval),
        details={**found.details, **words(estimator)},
        confounding=confounding(estimator),
    )


def public_arms_stage(study: DifferenceStudy, enclave: Enclave, budget: Budget) -> EffectFindings:
    """Weigh, release and make the interval.

    Raises:
        DataError: an arm has no unit; nothing was drawn.
    """
    order = traversal(enclave)
    t, u = enclave.gather("t")[order], enclave.gather("u")[order]
    units = weigh_units(np.ones(len(t)), t, len(t))
    exact = weighted.sums(units, t, u, study.privacy.cost)
    return public_findings(study, units.summary, weighted.mechanism(study.privacy.cost).release(exact, SLOT, budget))
