"""Estimate the difference of arm means where treatment is public.

What is said of any difference of arm means stands here too. In a randomised trial the difference is the effect;
elsewhere it is unadjusted. One pair of numbers is released, with noise of 1/(smaller arm). Every unit weighs 1 in its
arm's mean; pairs for the sampling variance are of units at random within an arm. Proof: ``docs/proofs/balancing.md``,
sections 1 to 4. Where treatment is private: ``tasks/protocols/difference.py``.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from causalveil.schemas.confounding import AS_THEY_ARE, RANDOMISED, ConfoundingStatement
from causalveil.schemas.estimators.difference import DifferenceEstimator, DifferenceStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.release import Interval
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.inference.assemble import (
    EffectFindings,
    covering,
)
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.nearest import traversal
from causalveil.tasks.privacy.mechanisms import Budget
from causalveil.tasks.weighting import weighted_means as weighted
from causalveil.tasks.weighting.weighted_means import SLOT, PublicWeights, weigh_units, weighted_findings


def confounding(estimator: DifferenceEstimator) -> ConfoundingStatement:
    """Return what was done about confounding: arm means are compared as they are."""
    return RANDOMISED if estimator.trial else AS_THEY_ARE


def not_covered(estimator: DifferenceEstimator) -> tuple[Limit, ...]:
    """Return what no interval covers."""
    return (limit(Code.not_randomised if estimator.trial else Code.beyond_prior),)


def covers(estimator: DifferenceEstimator, interval: Interval) -> Interval:
    """Return the interval with what it allows for beside sampling and noise."""
    return interval if estimator.allowed == 0 else covering(interval, limit(Code.confounding_of_prior))


def public_findings(study: DifferenceStudy, weights: PublicWeights, statistics: FloatArray) -> EffectFindings:
    """Estimate and interval from public and released values."""
    estimator = study.estimator
    bias = estimator.allowed / math.sqrt(float(sum(weights.weight_squares)))
    found = weighted_findings(study, weights, statistics, bias)
    return replace(
        found,
        interval=covers(estimator, found.interval),
        confounding=confounding(estimator),
        not_covered=not_covered(estimator),
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
