"""The imbalance that public weights leave between the arms.

A weighting is kept here as the enclave keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from causalveil.schemas.confounding import ConfoundingPrior, ConfoundingStatement
from causalveil.schemas.limits import Limit
from causalveil.schemas.protocols.study import EffectStudy
from causalveil.schemas.study import Estimand
from causalveil.tasks.enclave.enclave import Enclave, Rows
from causalveil.tasks.inference.assemble import part_hidden
from causalveil.tasks.machine.arrays import FloatArray, Int32Array, IntArray
from causalveil.tasks.machine.distribute import map_partitions
from causalveil.tasks.weighting.features import BalancedFeatures, learn_features
from causalveil.tasks.weighting.weighted_means import Details, PublicWeights, WeightedUnits

T = TypeVar("T")
WEIGHTS, PAIRS = "balancing-weights", "balancing-pairs-{}"
CHUNK = 8_192
DIGITS = 6


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

    @property
    def details(self) -> Details:
        """The largest differences, as a release has them."""
        return {"largest_difference_before": self.before, "largest_difference_after": self.after}


@dataclass(frozen=True)
class Balancer:
    """The rows of a run, their features, and sums over segments of either arm."""

    enclave: Enclave
    features: BalancedFeatures
    workers: int

    @classmethod
    def of(cls, study: EffectStudy, enclave: Enclave, units: int) -> tuple[Balancer, Rows]:
        """Return the rows with the features that a sample of them tells, and that sample."""
        features, sample = learn_features(study, enclave, units)
        return cls(enclave, features, study.execution.workers), sample

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

    def weighted_means(self, weights: IntArray | Int32Array) -> FloatArray:
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


@dataclass(frozen=True)
class Aim:
    """The features' means in either arm, and over those whom the effect is averaged over.

    Attributes:
        means: of controls, then of treated, shape (2, features).
        target: shape (features,).
        queries: number of units that the target is over.
    """

    means: FloatArray
    target: FloatArray
    queries: int

    @classmethod
    def of(cls, balancer: Balancer, estimand: Estimand, everybody: Enclave | None = None) -> Aim:
        """Return the aim of an estimand.

        Args:
            balancer: rows and features.
            estimand: whom the effect is averaged over.
            everybody: the units whom an average over everybody is of, where they are more than these two arms.
        """
        sums, counts = balancer.totals()
        means = sums / counts[:, None]
        if estimand is not Estimand.ATE:
            arm = 1 if estimand is Estimand.ATT else 0
            return cls(means, means[arm], round(float(counts[arm])))
        if everybody is not None:
            sums, counts = replace(balancer, enclave=everybody).totals()
        return cls(means, sums.sum(axis=0) / counts.sum(), round(float(counts.sum())))


def imbalance(balancer: Balancer, units: WeightedUnits, aim: Aim, halfway: bool = False) -> Imbalance:
    """Compute the imbalance that a weighting leaves between the arms, however it was made.

    Args:
        balancer: rows and features.
        units: the weighting.
        aim: what the features' means should be.
        halfway: whether the weights aim at no one's means; the middle of both arms then takes the place of the target.
    """
    weighted = balancer.weighted_means(units.weights)
    off = (weighted - (weighted.mean(axis=0) if halfway else aim.target))[:, 1:]
    precisions = 1 / balancer.features.penalties[1:]
    # Arms whose outcomes depend alike on the features err together; otherwise their errors add up in squares.
    alike = float(np.square(off[1] - off[0]) @ precisions)
    apart = float(np.square(off[1]) @ precisions + np.square(off[0]) @ precisions)
    # Of numbers that their ranges cut away nothing is balanced, of others with people at the ends not all.
    unseen = part_hidden(len(balancer.features.narrow.clipped), len(balancer.features.kept)) * ConfoundingPrior().bias()
    before = aim.means[1, 1:] - aim.means[0, 1:]
    beyond = balancer.features.unseen
    left_beyond = float(np.square(beyond * before[: len(beyond)]) @ precisions[: len(beyond)])
    left = math.sqrt(max(alike, apart) + left_beyond + unseen**2)
    bias = left / math.sqrt(float(sum(units.summary.weight_squares)))
    differences = (float(np.abs(one).max(initial=0.0)) for one in (before, off[1] - off[0]))
    # Sums of floats depend on the order of rows in their last digits; a release does not.
    return Imbalance(*(float(f"{value:.{DIGITS}g}") for value in (bias, left, *differences)))


@dataclass(frozen=True)
class Weighing:
    """Public facts about the weights of a comparison, by whatever method they were made.

    Attributes:
        weights: their sizes.
        bias: what the interval allows for, in standard errors of sampling.
        confounding: what was done about confounding.
        covers: what the interval covers beside sampling and noise.
        not_covered: what it does not cover.
        details: what the release says of them.
        differences: of the arms in each covariate.
    """

    weights: PublicWeights
    bias: float
    confounding: ConfoundingStatement
    covers: tuple[Limit, ...]
    not_covered: tuple[Limit, ...]
    details: Details
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Difference:
    """The difference of the arms in a covariate, before and after weighting.

    It is in the covariate's standard deviations within arms.
    """

    covariate: str
    before: float
    after: float


def save_units(enclave: Enclave, units: WeightedUnits) -> None:
    """Leave a weighting in the enclave."""
    enclave.save(WEIGHTS, units.weights)
    for place, pairs in enumerate(units.pairs):
        enclave.save(PAIRS.format(place), pairs)


def open_units(enclave: Enclave, weights: PublicWeights) -> WeightedUnits:
    """Load the weighting that ``save_units`` saved."""
    first, second, across = (enclave.load(PAIRS.format(place)) for place in range(3))
    return WeightedUnits(weights, enclave.load(WEIGHTS), (first, second, across))
