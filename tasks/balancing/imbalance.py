"""What a matching on public scores leaves of the arms' differences: public, so measured and allowed for.

Scores follow a line in the covariates, and caps and ties keep neighbours apart: how far the matched arms still differ
in columns, squares, products, cells and a propensity index is a function of public columns, whatever made the weights.
Derivation: ``docs/proofs/matching.md``, section 5, and ``docs/proofs/balancing.md``, section 4.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.study import Estimand
from causalveil.tasks.balancing.features import learn_features
from causalveil.tasks.balancing.weights import Balancer, imbalance
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.machine.arrays import Int32Array, IntArray
from causalveil.tasks.matching.weights import WEIGHTS, Reuse
from causalveil.tasks.models.pairs import traversal

DIGITS = 6


def with_imbalance(study: MatchingStudy, enclave: Enclave, reuse: Reuse, weights: Int32Array, order: IntArray) -> Reuse:
    """Add the imbalance that is left to the summary of a matching.

    Args:
        study: the study.
        enclave: its rows.
        reuse: what is known of the matching.
        weights: N b_i in the order of traversal, shape (n,).
        order: that order, shape (n,).
    """
    if not study.allows_imbalance or reuse.queries == 0:
        return reuse
    units = len(order)
    in_rows: IntArray = np.empty(units, dtype=np.int64)
    in_rows[order] = weights
    features, _ = learn_features(study, enclave, units)
    balancer = Balancer(enclave, features, study.execution.workers)
    sums, counts = balancer.totals()
    means = sums / counts[:, None]
    targets = {Estimand.ATE: sums.sum(axis=0) / units, Estimand.ATT: means[1], Estimand.ATC: means[0]}
    # Of whom a caliper leaves over nobody keeps the means.
    target = None if reuse.unmatched else targets[study.estimand]
    squares = float(sum(reuse.weight_squares)) / reuse.queries**2
    found = imbalance(balancer, in_rows, squares, means, target)
    # Sums of floats depend on the order of rows in their last digits; a release does not.
    bias, left, before, after = (
        float(f"{value:.{DIGITS}g}") for value in (found.bias, found.left, found.before, found.after)
    )
    return replace(reuse, bias=bias, left=left, before=before, after=after, narrow=features.narrow)


def imbalance_stage(study: MatchingStudy, enclave: Enclave, reuse: Reuse) -> Reuse:
    """Add the imbalance that is left to the summary of the matching that ``match`` left."""
    return with_imbalance(study, enclave, reuse, enclave.load(WEIGHTS), traversal(enclave))
