"""The difference of arm means where who was treated is public: one pair of numbers, noise of 1/(smaller arm).

Every unit weighs 1 in its arm's mean; pairs for the sampling variance are of units at random within an arm. Proof:
``docs/proofs/balancing.md``, sections 1 to 4.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.difference import DifferenceStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.nearest import traversal
from causalveil.tasks.privacy.mechanisms import Budget
from causalveil.tasks.trial.difference import SLOT, confounding, covers, words
from causalveil.tasks.weighting.expected import weighted_expected
from causalveil.tasks.weighting.weighted_means import PublicWeights, mechanism, sums, weigh_units, weighted_findings


def findings(study: DifferenceStudy, weights: PublicWeights, statistics: FloatArray) -> EffectFindings:
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
    exact = sums(units, t, u, study.privacy.cost)
    return findings(study, units.summary, mechanism(study.privacy.cost).release(exact, SLOT, budget))


def expected(study: DifferenceStudy, sizes: Sizes, stand_in: StandIn = StandIn()) -> tuple[EffectFindings, float]:
    """Return findings as if no noise happened to be drawn, and the expected half-width.

    Both are those of the stand-in population.

    Raises:
        DataError: it has no two arms.
    """
    n = sizes.units
    if n < 2:
        raise DataError("one unit has no other to be compared with")
    treated = min(max(round(n * stand_in.treated), 1), n - 1)
    arms = treated, n - treated
    weights = PublicWeights(arms, n, arms, (1, 1), arms, (arms[0] // 2, arms[1] // 2, 0))
    deviation = stand_in.deviation if stand_in.deviation is not None else study.outcome.width / 4
    square = (deviation / (study.outcome.width / 2)) ** 2
    return weighted_expected(weights, square, study.privacy.cost, partial(findings, study, weights))
