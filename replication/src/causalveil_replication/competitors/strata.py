"""Estimators on declared strata: exact matching with smooth sensitivity, and blocks whose tables are released.

Strata are public: covariates that the study declares are cut at the middle of their declared range, binary ones first,
as many as leave about 100 units a stratum if they were even. ``docs/proofs/competitors.md``, sections 2 and 3.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.columns import NumericCovariate
from causalveil.schemas.privacy import Norm
from causalveil.tasks.data.covariates import blocks
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Budget, GaussianAnalytic, Sensitivity
from causalveil_replication.competitors.competitor import (
    DELTA,
    PROVED,
    REPLACE_ONE,
    SLOT,
    Competitor,
    Fitted,
    Instance,
    cost,
)
from causalveil_replication.competitors.mechanisms import smooth_laplace
from causalveil_replication.competitors.split import public_weights

UNITS_A_STRATUM = 100
# Below so many units, after noise, an arm of a block is taken to be empty.
LEAST = 2.0
Counts = NDArray[np.int64]


def strata(instance: Instance) -> tuple[NDArray[np.int64], int]:
    """The stratum of every unit, shape (n,), and how many strata there are; public but for who is where."""
    found = [(block.start, block.covariate) for block in blocks(instance.study)]
    numeric = [(start, one) for start, one in found if isinstance(one, NumericCovariate)]
    numeric.sort(key=lambda pair: (pair[1].lower, pair[1].upper) != (0, 1))
    cuts = min(max(1, int(math.log2(len(instance.rows) / UNITS_A_STRATUM))), len(numeric))
    places = np.zeros(len(instance.rows), dtype=np.int64)
    for bit, (start, _) in enumerate(numeric[:cuts]):
        places += (instance.rows.x[:, start] > 0).astype(np.int64) << bit
    return places, 1 << cuts


def counts(instance: Instance) -> Counts:
    """Units by stratum and arm, shape (strata, 2), controls first."""
    places, number = strata(instance)
    return np.bincount(2 * places + instance.rows.t, minlength=2 * number).reshape(number, 2)


def exact_weights(instance: Instance) -> FloatArray:
    """Return each outcome's weight in exact matching within strata, shape (n,).

    0 where a stratum lacks an arm.
    """
    places, _ = strata(instance)
    table = counts(instance)
    both = table.min(axis=1) > 0
    matched = int(table[both].sum())
    if matched == 0:
        return np.zeros(len(places))
    weight = np.where(both[:, None], table.sum(axis=1)[:, None] / np.maximum(table, 1), 0.0) / matched
    t = instance.rows.t
    return np.where(t != 0, 1.0, -1.0) * weight[places, t]


def local_sensitivity_within(table: Counts, changes: int) -> float:
    """An upper bound on the local sensitivity of exact matching on every table within so many changes.

    For outcomes in [0, 1] and replace-one neighbours; at most 2, the width of the estimate's range.

    Args:
        table: units by stratum and arm, shape (strata, 2).
        changes: k.
    """
    both = table[table.min(axis=1) > 0]
    matched = float(both.sum()) - _unmatched_by(both, changes) - changes
    if matched <= 0:
        return 2.0
    own, other = table, table[:, ::-1]
    left = own - changes
    heaviest = np.where(left > 1, (own + other) / np.maximum(left, 1), 2.0 * (1 + other + changes)).max()
    return min(2.0, 2 * (float(heaviest) + 2) / matched)


def smooth_sensitivity(table: Counts, beta: float) -> float:
    """max over k of exp(-beta k) times the bound at k changes; for outcomes in [0, 1]."""
    most = 0.0
    for changes in range(int(table.sum()) + 1):
        bound = local_sensitivity_within(table, changes)
        most = max(most, math.exp(-beta * changes) * bound)
        # Later bounds are no larger than this one, nor than 2.
        if bound == 2.0 or 2 * math.exp(-beta * changes) <= most:
            break
    return most * (1 + 1e-9)


def smooth_exact_matching(instance: Instance) -> Fitted:
    """Exact matching within strata, its noise scaled to a smooth sensitivity (Koga, Chaudhuri and Page 2024)."""
    value = float(exact_weights(instance) @ instance.rows.u) / 2
    table = counts(instance)

    def release(epsilon: str, budget: Budget) -> float:
        mechanism = smooth_laplace(cost(epsilon, DELTA))
        unit = smooth_sensitivity(table, mechanism.beta)
        return instance.width * unit * float(mechanism.release(np.array([value / unit]), SLOT, budget)[0])

    return Fitted(instance.width * value, release)


def blocked(instance: Instance) -> Fitted:
    """Counts and sums of every block and arm with Gaussian noise, then the blocks' differences by noisy size.

    A unit leaves one cell and enters another: two counts move by 1 and two sums of u by 1 at most, in L2 by 2.
    """
    places, number = strata(instance)
    cells = 2 * places + instance.rows.t
    sums: FloatArray = np.bincount(cells, weights=instance.rows.u, minlength=2 * number).astype(np.float64)
    numbers = np.bincount(cells, minlength=2 * number).astype(np.float64)
    bound = Sensitivity(value=2.0, norm=Norm.l2, formula="2: two cells' counts and sums of u, each by 1")

    def release(epsilon: str, budget: Budget) -> float | None:
        mechanism = GaussianAnalytic(bound, cost(epsilon, DELTA))
        noisy = mechanism.release(np.concatenate([numbers, sums]), SLOT, budget)
        return _combined(instance, noisy[: 2 * number], noisy[2 * number :])

    return Fitted(_combined(instance, numbers, sums), release)


COMPETITORS = (
    Competitor(
        "smooth_matching", "SmoothDPM, exact matching", "sample", REPLACE_ONE, PROVED, DELTA, smooth_exact_matching
    ),
    Competitor("blocking", "blocks", "sample", REPLACE_ONE, PROVED, DELTA, blocked),
    Competitor(
        "exact_matching_label",
        "exact matching, public weights",
        "label",
        REPLACE_ONE,
        PROVED,
        "0",
        lambda instance: public_weights(instance, exact_weights(instance)),
    ),
)


def _unmatched_by(both: Counts, changes: int) -> float:
    """Bound how many matched units so many changes can unmatch.

    The cheapest strata come first, the last in part.
    """
    price, gain = both.min(axis=1), both.sum(axis=1)
    order = np.argsort(-gain / price, kind="stable")
    spent = np.concatenate([[0], np.cumsum(price[order])])
    gained = np.concatenate([[0], np.cumsum(gain[order])])
    return float(np.interp(changes, spent, gained))


def _combined(instance: Instance, numbers: FloatArray, sums: FloatArray) -> float | None:
    """Differences of the blocks' means by their sizes, outcome units; None where no block has both arms."""
    table, totals = numbers.reshape(-1, 2), sums.reshape(-1, 2)
    both = table.min(axis=1) >= LEAST
    if not both.any():
        return None
    means = np.clip(totals[both] / table[both], -1.0, 1.0)
    sizes = table[both].sum(axis=1)
    return float(np.average(means[:, 1] - means[:, 0], weights=sizes)) * instance.width / 2
