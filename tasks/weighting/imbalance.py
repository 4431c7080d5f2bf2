"""The imbalance that public weights leave between the arms.

A weighting is kept here as the enclave keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from causalveil.schemas.confounding import ConfoundingPrior
from causalveil.schemas.study import EffectStudy
from causalveil.tasks.covariates import FIT, NarrowRanges
from causalveil.tasks.enclave.enclave import Enclave, Rows
from causalveil.tasks.inference.assemble import part_hidden
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.machine.distribute import map_partitions
from causalveil.tasks.privacy.mechanisms import Budget
from causalveil.tasks.weighting.features import BalancedFeatures
from causalveil.tasks.weighting.weighted_means import SLOT, PublicWeights, WeightedUnits, mechanism, sums

T = TypeVar("T")
WEIGHTS, PAIRS = "balancing-weights", "balancing-pairs-{}"
CHUNK = 8_192


@dataclass(frozen=True)
class Balance:
    """Public summary of the weights and of the imbalance that they leave.

    Attributes:
        weights: their sizes.
        bias: what the estimate may be off by, in standard errors of sampling, per declared allowance.
        features: how many are balanced, the constant among them.
        before, after: the largest difference of the arms' weighted means of a feature, in its deviations.
        caps: the largest weight that each arm was allowed, in mean weights; 1 for an arm that is not weighed.
        cells: of coarse covariates, among the features.
        alone: units whose cell has nobody of the other arm; columns and products speak for them.
        left: the bias in deviations of the outcome.
        narrow: numbers whose declared ranges cut people away, which is part of the bias.
    """

    weights: PublicWeights
    bias: float
    features: int
    before: float
    after: float
    caps: tuple[float, float]
    cells: int = 0
    alone: int = 0
    left: float = 0.0
    narrow: NarrowRanges = FIT


@dataclass(frozen=True)
class Imbalance:
    """Imbalance that weights leave between the arms, all of it public.

    Attributes:
        bias: what the estimate may be off by, in standard errors of sampling.
        left: the same in deviations of the outcome, of which covariates may explain what the shares of features say.
        before, after: the largest difference of the arms' weighted means of a feature, in its deviations.
    """

    bias: float
    left: float
    before: float
    after: float


@dataclass(frozen=True)
class Balancer:
    """The rows of a run, their features, and sums over segments of either arm."""

    enclave: Enclave
    features: BalancedFeatures
    workers: int

    def totals(self) -> tuple[FloatArray, FloatArray]:
        """Return sums of the features and numbers of units, of controls, then of treated.

        They are of shape (2, features) and (2,).
        """

        def of(rows: Rows) -> FloatArray:
            values, _ = self.features(rows.x)
            arms = np.stack([rows.t == 0, rows.t != 0]).astype(np.float64)
            return np.column_stack([arms @ values, arms.sum(axis=1)])

        total = np.sum(self.over_chunks(of), axis=0)
        return total[:, :-1], total[:, -1]

    def alone(self) -> int:
        """Count the units with nobody of the other arm in their cell; 0 without cells."""

        def of(rows: Rows) -> FloatArray:
            inside = self.features.cells(rows.x)
            return np.stack([inside[rows.t == 0].sum(axis=0), inside[rows.t != 0].sum(axis=0)])

        if not self.features.cells.count:
            return 0
        found = np.sum(self.over_chunks(of), axis=0)
        return round(float(found[:, found.min(axis=0) == 0].sum()))

    def weighted_means(self, weights: IntArray) -> FloatArray:
        """Return the features' means under weights of the rows, shape (2, features).

        Weights have shape (n,). Controls come first.
        """
        edges = np.cumsum([0, *(len(part) for part in self.enclave.hashes())])

        def of(segment: int) -> FloatArray:
            rows = self.enclave.rows(segment)
            own = weights[edges[segment] : edges[segment + 1]].astype(np.float64)
            # The arms' weights add up in the last column.
            total = np.zeros((2, self.features.count + 1))
            for first in range(0, len(rows), CHUNK):
                window = slice(first, first + CHUNK)
                values, _ = self.features(rows.x[window])
                arms = np.stack([rows.t[window] == 0, rows.t[window] != 0]) * own[window]
                total[:, :-1] += arms @ values
                total[:, -1] += arms.sum(axis=1)
            return total

        sums: FloatArray = np.sum(map_partitions(of, self.enclave.segments, self.workers), axis=0)
        means: FloatArray = sums[:, :-1] / sums[:, -1:]
        return means

    def over_chunks(self, of: Callable[[Rows], T]) -> list[T]:
        """Return what a function says of chunks of rows, in their order."""

        def one(segment: int) -> list[T]:
            rows = self.enclave.rows(segment)
            return [of(rows[first : first + CHUNK]) for first in range(0, len(rows), CHUNK)]

        return [found for part in map_partitions(one, self.enclave.segments, self.workers) for found in part]


def summary(
    balancer: Balancer, units: WeightedUnits, means: FloatArray, target: FloatArray, caps: tuple[float, float]
) -> Balance:
    """Summarise a weighting, however it was made.

    Args:
        balancer: rows and features.
        units: the weighting.
        means: of the features in either arm, controls first, shape (2, features).
        target: over those whom the effect is averaged over, shape (features,).
        caps: what each arm's weights were allowed, treated first.
    """
    left = imbalance(balancer, units.weights, float(sum(units.summary.weight_squares)), means, target)
    return Balance(
        weights=units.summary,
        bias=left.bias,
        features=balancer.features.count,
        before=left.before,
        after=left.after,
        caps=caps,
        cells=balancer.features.cells.count,
        alone=balancer.alone(),
        left=left.left,
        narrow=balancer.features.narrow,
    )


def imbalance(
    balancer: Balancer, weights: IntArray, squares: float, means: FloatArray, target: FloatArray | None
) -> Imbalance:
    """Compute the imbalance that a weighting leaves between the arms, however it was made.

    Args:
        balancer: rows and features.
        weights: of the rows, shape (n,), whatever they add up to.
        squares: the sum of squared weights of both arms, those of either adding up to 1.
        means: of the features in either arm, controls first, shape (2, features).
        target: over those whom the effect is averaged over, shape (features,); None: halfway between the arms.
    """
    weighted = balancer.weighted_means(weights)
    off = (weighted - (weighted.mean(axis=0) if target is None else target))[:, 1:]
    precisions = 1 / balancer.features.penalties[1:]
    # Arms whose outcomes depend alike on the features err together; otherwise their errors add up in squares.
    alike = float(np.square(off[1] - off[0]) @ precisions)
    apart = float(np.square(off[1]) @ precisions + np.square(off[0]) @ precisions)
    # Of numbers that their ranges cut away nothing is balanced, of others with people at the ends not all.
    unseen = part_hidden(len(balancer.features.narrow.clipped), len(balancer.features.kept)) * ConfoundingPrior().bias()
    before = means[1, 1:] - means[0, 1:]
    beyond = balancer.features.unseen
    left_beyond = float(np.square(beyond * before[: len(beyond)]) @ precisions[: len(beyond)])
    left = math.sqrt(max(alike, apart) + left_beyond + unseen**2)
    return Imbalance(
        bias=left / math.sqrt(squares),
        left=left,
        before=float(np.abs(before).max(initial=0.0)),
        after=float(np.abs(off[1] - off[0]).max(initial=0.0)),
    )


def save_units(enclave: Enclave, units: WeightedUnits) -> None:
    """Leave a weighting in the enclave."""
    enclave.save(WEIGHTS, units.weights)
    for place, pairs in enumerate(units.pairs):
        enclave.save(PAIRS.format(place), pairs)


def open_units(enclave: Enclave, found: Balance) -> WeightedUnits:
    """Load the weighting that ``save_units`` saved."""
    first, second, across = (enclave.load(PAIRS.format(place)) for place in range(3))
    return WeightedUnits(found.weights, enclave.load(WEIGHTS), (first, second, across))


def perturb_stage(study: EffectStudy, enclave: Enclave, found: Balance, budget: Budget) -> FloatArray:
    """Release what the outcomes add up to under the weighting that ``save_units`` saved."""
    exact = sums(open_units(enclave, found), enclave.gather("t"), enclave.gather("u"), study.privacy.cost)
    return mechanism(study.privacy.cost).release(exact, SLOT, budget)
