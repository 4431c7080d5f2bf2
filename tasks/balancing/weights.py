"""From public covariates and treatments to every unit's weight."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from causalveil.schemas.confounding import ConfoundingPrior
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.study import Estimand
from causalveil.tasks.balancing.cap import Solution, choose, deviation_of_noise, solutions, weighed
from causalveil.tasks.balancing.dual import Sums, arm_sums_of, solve, weights_of
from causalveil.tasks.balancing.features import BalancedFeatures, learn_features
from causalveil.tasks.covariates.narrow_ranges import FIT, NarrowRanges
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.inference.confounding import part_hidden
from causalveil.tasks.machine.arrays import BoolArray, FloatArray, IntArray
from causalveil.tasks.machine.distribute import map_partitions
from causalveil.tasks.models.weighted.public_weights import PublicWeights, WeightedUnits, check_arms, weigh_units

T = TypeVar("T")
WEIGHTS, PAIRS = "balancing-weights", "balancing-pairs-{}"
CHUNK = 8_192


@dataclass(frozen=True)
class Balance:
    """What may be said of the weights, all of it public.

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
    """What weights leave of the arms' differences: public.

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
        """Sums of the features, shape (2, features), and numbers of units, shape (2,), of controls, then of treated."""

        def of(rows: Rows) -> FloatArray:
            values, _ = self.features(rows.x)
            arms = np.stack([rows.t == 0, rows.t != 0]).astype(np.float64)
            return np.column_stack([arms @ values, arms.sum(axis=1)])

        total = np.sum(self._over_chunks(of), axis=0)
        return total[:, :-1], total[:, -1]

    def alone(self) -> int:
        """Count the units with nobody of the other arm in their cell; 0 without cells."""

        def of(rows: Rows) -> FloatArray:
            inside = self.features.cells(rows.x)
            return np.stack([inside[rows.t == 0].sum(axis=0), inside[rows.t != 0].sum(axis=0)])

        if not self.features.cells.count:
            return 0
        found = np.sum(self._over_chunks(of), axis=0)
        return round(float(found[:, found.min(axis=0) == 0].sum()))

    def arm_sums(self, arm: int, cap: float, multipliers: FloatArray) -> Sums:
        """Return the sums over an arm's rows that the dual needs."""

        def of(rows: Rows) -> Sums:
            values, _ = self.features(rows.x[(rows.t != 0) == (arm == 1)])
            return arm_sums_of(values, multipliers, cap)

        parts = self._over_chunks(of)
        return (
            math.fsum(part[0] for part in parts),
            np.sum([part[1] for part in parts], axis=0),
            np.sum([part[2] for part in parts], axis=0),
        )

    def weigh(self, multipliers: list[FloatArray | None], caps: list[float]) -> tuple[FloatArray, FloatArray]:
        """Every unit's v and index, shape (n,), segment by segment; None: v = 1. Controls first."""

        def of(rows: Rows) -> FloatArray:
            values, index = self.features(rows.x)
            v = np.ones(len(values))
            for arm, own in enumerate(multipliers):
                if own is not None:
                    chosen: BoolArray = (rows.t != 0) == (arm == 1)
                    v[chosen] = weights_of(values[chosen], own, caps[arm])
            return np.stack([v, index])

        both = np.concatenate(self._over_chunks(of), axis=1)
        return both[0], both[1]

    def weighted_means(self, weights: IntArray) -> FloatArray:
        """The features' means under weights of the rows, shape (n,), controls first, shape (2, features)."""
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

    def _over_chunks(self, of: Callable[[Rows], T]) -> list[T]:
        def one(segment: int) -> list[T]:
            rows = self.enclave.rows(segment)
            return [of(rows[first : first + CHUNK]) for first in range(0, len(rows), CHUNK)]

        return [found for part in map_partitions(one, self.enclave.segments, self.workers) for found in part]


def balance(
    study: BalancingStudy, enclave: Enclave, louder: float = 1.0, everybody: Enclave | None = None
) -> tuple[Balance, WeightedUnits]:
    """Weigh every unit.

    Args:
        study: the study.
        enclave: its rows.
        louder: by how much the noise is larger than that of a draw of its own.
        everybody: the units whom an average over everybody is of, where they are more than these two arms.

    Raises:
        DataError: an arm has no unit; nothing was drawn.
    """
    t = enclave.gather("t")
    treated = int(np.count_nonzero(t))
    # Controls first, as the arms are numbered.
    arms = len(t) - treated, treated
    check_arms(treated, arms[0])
    features, sample = learn_features(study, enclave, len(t))
    balancer = Balancer(enclave, features, study.execution.workers)
    sums, _ = balancer.totals()
    means = sums / np.array(arms)[:, None]
    targets = {Estimand.ATE: sums.sum(axis=0) / len(t), Estimand.ATT: means[1], Estimand.ATC: means[0]}
    target, queries = targets[study.estimand], {Estimand.ATE: len(t), Estimand.ATT: arms[1], Estimand.ATC: arms[0]}
    if everybody is not None:
        totals, counts = Balancer(everybody, features, study.execution.workers).totals()
        target, queries[Estimand.ATE] = totals.sum(axis=0) / counts.sum(), round(float(counts.sum()))
    values, _ = features(sample.x)
    active = [arm for arm in (1, 0) if weighed(study.estimand)[1 - arm]]
    least = max([1 / arms[arm] for arm in (0, 1) if arm not in active], default=0.0)
    paths = [_path(values[(sample.t != 0) == (arm == 1)], target, features.penalties, arms[arm]) for arm in active]
    chosen = choose(paths, least, louder * deviation_of_noise(study.privacy.cost))
    multipliers: list[FloatArray | None] = [None, None]
    caps = [1.0, 1.0]
    for arm, one in zip(active, chosen, strict=True):
        delta = features.penalties / arms[arm]
        evaluate = partial(balancer.arm_sums, arm, one.cap)
        multipliers[arm] = solve(evaluate, target, delta, arms[arm], one.multipliers)
        caps[arm] = one.cap
    v, index = balancer.weigh(multipliers, caps)
    for arm in (0, 1):
        _make_whole(v, (t != 0) == (arm == 1))
    units = weigh_units(v, t, queries[study.estimand], index)
    return summary(balancer, units, means, target, (caps[1], caps[0])), units


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


def _path(features: FloatArray, target: FloatArray, penalties: FloatArray, units: int) -> list[Solution]:
    """Solutions of an arm; an arm that the sample missed is weighed alike."""
    if len(features):
        found = solutions(features, target, penalties, units)
        if found:
            return found
    alike = np.zeros(len(target))
    alike[0] = 1.0
    return [Solution(1.0, 1 / units, 1.0, alike)]


def _make_whole(v: FloatArray, chosen: BoolArray) -> None:
    """Weights of mean 1; if all are 0, which no solution should give, all alike."""
    mean = float(v[chosen].mean())
    v[chosen] = v[chosen] / mean if mean > 0 else 1.0


def weigh_stage(study: BalancingStudy, enclave: Enclave) -> Balance:
    """Leave every unit's weight and the pairs of the variance; return what may be said of them.

    Raises:
        DataError: an arm has no unit; nothing was drawn.
    """
    found, units = balance(study, enclave)
    save_units(enclave, units)
    return found


def save_units(enclave: Enclave, units: WeightedUnits) -> None:
    """Leave a weighting in the enclave."""
    enclave.save(WEIGHTS, units.weights)
    for place, pairs in enumerate(units.pairs):
        enclave.save(PAIRS.format(place), pairs)


def open_units(enclave: Enclave, found: Balance) -> WeightedUnits:
    """Load the weighting that ``save_units`` saved."""
    first, second, across = (enclave.load(PAIRS.format(place)) for place in range(3))
    return WeightedUnits(found.weights, enclave.load(WEIGHTS), (first, second, across))
