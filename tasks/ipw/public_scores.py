"""Hajek weighting where covariates and treatments are public.

Noise of the weights that are used, and of no others.

Scores, and so weights, are functions of public columns: one outcome moves the estimate by at most the largest weight
that occurs times the outcome's width, however large a weight the clip would allow. Proof: ``docs/proofs/balancing.md``,
sections 1 to 4. What imbalance the weights leave is public too and widens the interval.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from causalveil.schemas.confounding import AdjustmentMethod
from causalveil.schemas.estimators.ipw import IpwStudy, Weighting
from causalveil.schemas.limits import Code, limit
from causalveil.schemas.privacy import Level
from causalveil.schemas.study import Estimand
from causalveil.tasks.enclave.enclave import Enclave, Rows
from causalveil.tasks.inference.assemble import (
    EffectFindings,
    covering,
    covers_imbalance,
    open_to,
    partly_if_left,
)
from causalveil.tasks.ipw.weights import weights
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import map_partitions
from causalveil.tasks.models.lattice_sums import CHUNK
from causalveil.tasks.models.logistic import clipped_scores
from causalveil.tasks.weighting.features import learn_features
from causalveil.tasks.weighting.imbalance import Balance, Balancer, save_units, summary
from causalveil.tasks.weighting.weighted_means import count_arms, weigh_units, weighted_findings

NOT_COVERED = (limit(Code.unmeasured), limit(Code.curves_beyond_index))


def has_public_scores(study: IpwStudy) -> bool:
    """Return whether a study's weights are public and add up to 1 in each arm."""
    return study.privacy.level is Level.label and study.estimator.weighting is Weighting.hajek


def allows_imbalance(study: IpwStudy) -> bool:
    """Return whether the interval allows for the imbalance that is left.

    It does unless treatment is declared to be randomised.
    """
    return study.estimator.confounding_prior.outcome_r2 > 0


def public_weights_stage(study: IpwStudy, enclave: Enclave, coefficients: FloatArray) -> Balance:
    """Leave every unit's weight and the pairs of the variance; return what may be said of them.

    Args:
        study: the study.
        enclave: its rows.
        coefficients: of the propensity model, shape (d,).

    Raises:
        DataError: an arm has no unit; nothing was drawn.
    """
    t = enclave.gather("t")
    arms = count_arms(t)
    weight, score = _weights_and_scores(study, enclave, coefficients)
    for arm in (t == 0, t != 0):
        weight[arm] /= weight[arm].mean()
    queries = {Estimand.ATE: len(t), Estimand.ATT: arms[1], Estimand.ATC: arms[0]}[study.estimand]
    units = weigh_units(weight, t, queries, score)
    features, _ = learn_features(study, enclave, len(t))
    balancer = Balancer(enclave, features, study.execution.workers)
    totals, _ = balancer.totals()
    means = totals / np.array(arms)[:, None]
    target = {Estimand.ATE: totals.sum(axis=0) / len(t), Estimand.ATT: means[1], Estimand.ATC: means[0]}
    caps = [float(weight[arm].max()) for arm in (t != 0, t == 0)]
    save_units(enclave, units)
    return summary(balancer, units, means, target[study.estimand], (caps[0], caps[1]))


def _weights_and_scores(study: IpwStudy, enclave: Enclave, coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Every unit's weight and score before it is clipped, shape (n,), segment by segment."""

    def of(segment: int) -> FloatArray:
        rows = enclave.rows(segment)
        windows = [slice(first, first + CHUNK) for first in range(0, len(rows), CHUNK)]
        return np.concatenate([np.empty((2, 0)), *(chunk(Rows(rows.x[w], rows.t[w], rows.u[:0])) for w in windows)], 1)

    def chunk(rows: Rows) -> FloatArray:
        clipped = clipped_scores(rows.x, coefficients, study.estimator.clip)
        return np.stack([weights(study.estimand, clipped, rows.t), clipped_scores(rows.x, coefficients, (0.0, 1.0))])

    both = np.concatenate(map_partitions(of, enclave.segments, study.execution.workers), axis=1)
    return both[0], both[1]


def public_interval_stage(study: IpwStudy, found: Balance, statistics: FloatArray) -> EffectFindings:
    """Estimate and interval from public and released values."""
    bias = found.bias if allows_imbalance(study) else 0.0
    result = weighted_findings(study, found.weights, statistics, bias)
    details = {
        **result.details,
        "normalisation": "weights of each arm",
        "largest_difference_before": found.before,
        "largest_difference_after": found.after,
    }
    interval = covering(result.interval, *((covers_imbalance(),) if bias > 0 else ()))
    done = partly_if_left(study.estimator, AdjustmentMethod.weighting, found.left if bias > 0 else 0.0)
    left = open_to(study.estimator, *NOT_COVERED, *found.narrow.limits)
    return replace(result, interval=interval, details=details, confounding=done, not_covered=left)
