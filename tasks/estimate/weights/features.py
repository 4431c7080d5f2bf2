"""Make features of public covariates, and measure their imbalance between the arms.

Features are columns, squares, products, cells of coarse covariates, a propensity index and ten bins of it, each centred
and scaled on a sample of rows. The outcome's mean within an arm is modelled as a constant plus sum_j beta_j F_j with
independent beta_j of variance s^2 R_j/q_j, s the outcome's deviation: R_j is the share of a kind of features and q_j
their number, or one over a cell's variance. All of this is a function of public columns, so nothing has to be exact.

Columns and products leave out interactions of three covariates. Where covariates of few values have few combinations,
an indicator of each is a feature, so that any function of them is balanced as far as noise and sampling error pay for
it: the cells of exact matching, without leaving out a unit.

The imbalance of a weighting is sum_j beta_j times the weighted differences of F_j: a bias of known deviation, which the
interval allows for. Derivation: ``docs/proofs/balancing.md``, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import numpy as np

from causalveil.schemas.confounding import ConfoundingPrior, ConfoundingStatement
from causalveil.schemas.limits import Limit
from causalveil.schemas.study import Estimand
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.covariates import Columns, NarrowRanges, Ranged, blocks
from causalveil.tasks.data.enclave import Enclave, Rows
from causalveil.tasks.estimate.interval import part_hidden
from causalveil.tasks.estimate.weights.weighted_means import Details, PublicWeights, WeightedUnits
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, Int32Array, IntArray
from causalveil.tasks.machine.distribute import map_partitions

# A coarse covariate has at most this many values, and in the sample at least this many rows to each.
MOST_VALUES, ROWS_A_VALUE = 16, 10
FIRST = 100
# Cells are not made where they would be more, or of fewer covariates, which products describe in full.
MOST_CELLS, FEWEST_COVARIATES = 128, 3


@dataclass(frozen=True)
class Cells:
    """The map from rows to indicators of cells; there may be no cells.

    Attributes:
        places: the columns of x of each coarse covariate.
        values: the values of each in the sample, each shape (values, columns).
        combinations: numbers of the combinations in the sample, ascending, shape (cells,).
    """

    places: tuple[slice, ...]
    values: tuple[FloatArray, ...]
    combinations: IntArray

    @classmethod
    def of(cls, study: EffectStudy, x: FloatArray) -> Cells:
        """Find the cells of a sample of encoded covariates, shape (rows, d)."""
        places: list[slice] = []
        values: list[FloatArray] = []
        for block in blocks(study):
            place = slice(block.start, block.start + len(block.features))
            most = min(MOST_VALUES, len(x) // ROWS_A_VALUE)
            # The first rows show most covariates that are not coarse, which saves sorting all rows.
            if len(np.unique(x[:FIRST, place], axis=0)) > most:
                continue
            distinct: FloatArray = np.unique(x[:, place], axis=0)
            if 1 < len(distinct) <= most:
                places.append(place)
                values.append(distinct)
        none: IntArray = np.empty(0, dtype=np.int64)
        if len(places) < FEWEST_COVARIATES or math.prod(map(len, values)) > MOST_CELLS:
            return cls((), (), none)
        combinations: IntArray = np.unique(cls(tuple(places), tuple(values), none).numbers(x))
        return cls(tuple(places), tuple(values), combinations)

    @property
    def count(self) -> int:
        """Number of cells."""
        return len(self.combinations)

    def numbers(self, x: FloatArray) -> IntArray:
        """Return the number of each row's combination, shape (rows,).

        A value that the sample lacks counts as the nearest.
        """
        numbers: IntArray = np.zeros(len(x), dtype=np.int64)
        for place, values in zip(self.places, self.values, strict=True):
            numbers *= len(values)
            numbers += np.abs(x[:, None, place] - values).sum(axis=2).argmin(axis=1)
        return numbers

    def __call__(self, x: FloatArray) -> FloatArray:
        """Indicators, shape (rows, cells)."""
        if not self.count:
            return np.empty((len(x), 0))
        indicators: FloatArray = (self.numbers(x)[:, None] == self.combinations).astype(np.float64)
        return indicators


def spread(indicators: FloatArray, index: FloatArray, t: ByteArray) -> float:
    """Return the variance of log odds of treatment between cells beyond an index, at least 0.

    By moments, like the variance between trials of DerSimonian and Laird (1986): with o_c treated units of a cell, e_c
    expected and v_c their variance under the index, E (o_c - e_c)^2 is about v_c + spread v_c^2.

    Args:
        indicators: shape (rows, cells).
        index: log odds of treatment without cells, shape (rows,).
        t: shape (rows,).
    """
    chance = 1 / (1 + np.exp(-np.clip(index, -500, 500)))
    off = (t - chance) @ indicators
    variances = (chance * (1 - chance)) @ indicators
    squares = float(variances @ variances)
    return max(float(off @ off - variances.sum()) / squares, 0.0) if squares > 0 else 0.0


# Shares R of the residual variance: all columns together, all squares and products, cells, the index, its bins.
COLUMNS, CURVES, CELLS, INDEX, BINS = 1.0, 0.3, 0.2, 1.0, 0.35
NUMBER_OF_BINS = 10
# The prior variance of the coefficients of the index over that of the outcome.
INDEX_PRIOR = 1.0
# The index is cut at these quantiles of the sample.
INDEX_CUTS = (0.005, 0.995)
# Least and most rows from which scales, index and cap are learnt; rows times features squared stay below WORK.
SAMPLE = (2_000, 20_000)
WORK = 10**9
# Products enter the index alone where all rows times features squared would exceed this.
FULL_WORK = 4 * 10**9
MOST_CURVES = 300
SMALLEST_DEVIATION = 1e-9
# A number whose skewness exceeds this enters with log(1 + STEEPNESS distance/mean distance) as well.
SKEWED, STEEPNESS = 1.5, 20.0
CONSTANT_PENALTY = 1e-6
# Numbers beyond this part of the span are at an end, up to rounding.
AT_END = 1 - 1e-9
ITERATIONS = 40


@dataclass(frozen=True)
class Standard:
    """Columns minus their mean, over their deviation; columns that do not vary become 0."""

    mean: FloatArray
    factor: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> Standard:
        """Learn means and factors from a sample, shape (rows, columns)."""
        deviation = values.std(axis=0)
        varies = deviation > SMALLEST_DEVIATION
        return cls(values.mean(axis=0), np.where(varies, 1 / np.where(varies, deviation, 1.0), 0.0))

    def __call__(self, values: FloatArray) -> FloatArray:
        """Standardised values, of the same shape."""
        return (values - self.mean) * self.factor


@dataclass(frozen=True)
class SkewedLogs:
    """Skewed columns and their logarithms log(1 + STEEPNESS distance/mean) from the near end.

    Attributes:
        places: among the columns that enter, shape (k,).
        ends: the smallest value of each in the sample, or the largest where ``signs`` is -1, shape (k,).
        signs: 1 where the tail is above, shape (k,).
        means: mean distance from the end, above 0, shape (k,).
    """

    places: IntArray
    ends: FloatArray
    signs: FloatArray
    means: FloatArray

    @classmethod
    def of(cls, x: FloatArray, numbers: IntArray) -> SkewedLogs:
        """Find the skewed of ``numbers``, which are no flags, in a sample of shape (rows, columns)."""
        values = Standard.of(x[:, numbers])(x[:, numbers])
        third = np.mean(values**3, axis=0)
        chosen = np.abs(third) > SKEWED
        places, signs = numbers[chosen], np.sign(third[chosen])
        ends = np.where(signs > 0, x[:, places].min(axis=0), x[:, places].max(axis=0))
        means = np.mean((x[:, places] - ends) * signs, axis=0)
        return cls(places, ends, signs, means)

    def __call__(self, x: FloatArray) -> FloatArray:
        """The columns and the logarithms, shape (rows, columns + k)."""
        distance = np.maximum((x[:, self.places] - self.ends) * self.signs, 0.0) / self.means
        return np.concatenate([x, np.log1p(STEEPNESS * distance)], axis=1)


@dataclass(frozen=True)
class BalancedFeatures:
    """The map from rows to features.

    Attributes:
        places: columns of x that enter.
        logs: logarithms of the skewed columns, which enter after them.
        first, second: places among these whose product is a curve; squares come first.
        cells: of coarse covariates.
        own: places of the features among (1, columns, curves, cells); the others enter the index alone.
        columns, curves, indicators: their scales.
        coefficients: of the propensity index in (1, columns, curves, cells).
        cuts: the least and the largest index.
        index: its scale.
        edges: between bins of it.
        bins: their scales.
        penalties: q_j/R_j of each feature, shape (features,).
        narrow: the numbers whose declared ranges seem too narrow.
        unseen: confounding of each column beyond its range over that within it, shape (places,).
    """

    places: IntArray
    logs: SkewedLogs
    first: IntArray
    second: IntArray
    cells: Cells
    own: IntArray
    columns: Standard
    curves: Standard
    indicators: Standard
    coefficients: FloatArray
    cuts: FloatArray
    index: Standard
    edges: FloatArray
    bins: Standard
    penalties: FloatArray
    narrow: NarrowRanges
    unseen: FloatArray

    @property
    def count(self) -> int:
        """Number of features, the constant among them."""
        return len(self.penalties)

    def __call__(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Features of rows, shape (rows, features), and the index, shape (rows,)."""
        base = self._base(x)
        index = np.clip(base @ self.coefficients, *self.cuts)
        bins = _bins(index, self.edges)
        return np.concatenate([base[:, self.own], self.index(index[:, None]), self.bins(bins)], axis=1), index

    def _base(self, x: FloatArray) -> FloatArray:
        z = self.columns(self.logs(x[:, self.places]))
        curves = self.curves(z[:, self.first] * z[:, self.second])
        return np.concatenate([np.ones((len(z), 1)), z, curves, self.indicators(self.cells(x))], axis=1)


def _bins(index: FloatArray, edges: FloatArray) -> FloatArray:
    """Return the bin of each index, as columns of 0 and 1."""
    return np.eye(len(edges) + 1)[np.searchsorted(edges, index)]


def sample_size(features: int) -> int:
    """Return the number of rows that scales, index and cap are learnt from."""
    return min(max(WORK // features**2, SAMPLE[0]), SAMPLE[1])


def sample_rows(enclave: Enclave, units: int, size: int) -> Rows:
    """Return every k-th row of all segments, a random sample since rows ascend by keyed hash."""
    step = max(1, units // size)
    parts: list[Rows] = []
    passed = 0
    for segment in range(enclave.segments):
        rows = enclave.rows(segment)
        chosen = slice((-passed) % step, None, step)
        parts.append(Rows(np.array(rows.x[chosen]), np.array(rows.t[chosen]), np.empty(0)))
        passed += len(rows)
    return Rows(np.concatenate([part.x for part in parts]), np.concatenate([part.t for part in parts]), np.empty(0))


def curve_places(columns: Columns) -> tuple[IntArray, IntArray]:
    """Return the places of squares, then of products of different covariates if these are few."""
    pairs = [(place, place) for place in columns.curved]
    if len(pairs) + len(columns.kept) * (len(columns.kept) - 1) // 2 <= MOST_CURVES:
        pairs += columns.pairs
    places: IntArray = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return places[:, 0], places[:, 1]


def features_of(study: EffectStudy) -> int:
    """Return the number of features before cells and logarithms of skewed columns."""
    columns = Columns.of(study)
    first, _ = curve_places(columns)
    return len(columns.kept) + len(first) + 2 + NUMBER_OF_BINS


def learn_features(study: EffectStudy, enclave: Enclave, units: int) -> tuple[BalancedFeatures, Rows]:
    """Return scales and index from a sample of rows, and that sample."""
    return enclave.once(("features", tuple(sorted(study.covariates)), units), lambda: _learn(study, enclave, units))


def _learn(study: EffectStudy, enclave: Enclave, units: int) -> tuple[BalancedFeatures, Rows]:
    columns = Columns.of(study)
    first, second = curve_places(columns)
    entering: IntArray = np.array(columns.kept, dtype=np.int64)
    wide = len(entering) + len(first) + 2 + NUMBER_OF_BINS
    rows = sample_rows(enclave, units, sample_size(wide))
    logs = SkewedLogs.of(rows.x[:, entering], np.array(columns.curved, dtype=np.int64))
    z_scale = Standard.of(logs(rows.x[:, entering]))
    z = z_scale(logs(rows.x[:, entering]))
    products = z[:, first] * z[:, second]
    curve_scale = Standard.of(products)
    cells = Cells.of(study, rows.x)
    indicators = cells(rows.x)
    cell_scale = Standard.of(indicators)
    base = np.concatenate([np.ones((len(z), 1)), z, curve_scale(products), cell_scale(indicators)], axis=1)
    # The effect of a cell is no larger for cells of few units.
    cell_penalties = 1 / np.maximum(indicators.var(axis=0), SMALLEST_DEVIATION)
    of_columns = np.full(z.shape[1], len(entering) / COLUMNS)
    plain = np.concatenate([[CONSTANT_PENALTY], of_columns, np.full(len(first), len(first) / CURVES)])
    coefficients = _index_coefficients(base, rows.t, plain, cell_penalties, indicators)
    index = base @ coefficients
    cuts: FloatArray = np.quantile(index, INDEX_CUTS)
    index = np.clip(index, *cuts)
    edges: FloatArray = np.quantile(index, np.arange(1, NUMBER_OF_BINS) / NUMBER_OF_BINS)
    curves = len(first) if units * wide**2 <= FULL_WORK else len(columns.curved)
    own = np.concatenate([np.arange(1 + z.shape[1] + curves), np.arange(len(plain), base.shape[1])])
    penalties = [[CONSTANT_PENALTY], of_columns, np.full(curves, curves / CURVES), cell_penalties / CELLS]
    index_penalties = [1 / INDEX, *[NUMBER_OF_BINS / BINS] * NUMBER_OF_BINS]
    ranged_places, unseen, treated = list(columns.ranges.places), np.zeros(len(entering)), rows.t != 0
    numbers = rows.x[:, entering[ranged_places]]
    ranged = in_ranges(columns, numbers)
    if 0 < treated.sum() < len(treated):
        difference = numbers[treated].mean(axis=0) - numbers[~treated].mean(axis=0)
        unseen[ranged_places] = ranged.left(difference, float(treated.mean()))
    features = BalancedFeatures(
        places=entering,
        logs=logs,
        first=first,
        second=second,
        cells=cells,
        own=own,
        columns=z_scale,
        curves=curve_scale,
        indicators=cell_scale,
        coefficients=coefficients,
        cuts=cuts,
        index=Standard.of(index[:, None]),
        edges=edges,
        bins=Standard.of(_bins(index, edges)),
        penalties=np.concatenate([*penalties, index_penalties]),
        narrow=NarrowRanges.of(ranged),
        unseen=unseen,
    )
    return features, rows


def in_ranges(columns: Columns, numbers: FloatArray) -> Ranged:
    """Return numbers, shape (rows, k), with their declared ranges."""
    ends = tuple((side * numbers >= columns.span * AT_END).mean(axis=0) for side in (-1, 1))
    return Ranged(columns.ranges, numbers.mean(axis=0), numbers.var(axis=0), columns.span, ends=ends)


def _index_coefficients(
    base: FloatArray, t: ByteArray, plain: FloatArray, cell_penalties: FloatArray, indicators: FloatArray
) -> FloatArray:
    """Fit the coefficients of the index.

    Cells are penalised by how much treatments depend on them beyond columns and products.

    Args:
        base: shape (rows, d), cells last.
        t: shape (rows,).
        plain: penalties of all but the cells.
        scarce: one over each cell's variance.
        indicators: of cells, unscaled.
    """
    coefficients = logistic(base[:, : len(plain)], t, plain / INDEX_PRIOR)
    between = spread(indicators, base[:, : len(plain)] @ coefficients, t)
    if between == 0:
        return np.concatenate([coefficients, np.zeros(len(cell_penalties))])
    return logistic(base, t, np.concatenate([plain / INDEX_PRIOR, cell_penalties / between]))


def logistic(base: FloatArray, t: ByteArray, penalties: FloatArray) -> FloatArray:
    """Fit a penalised logistic regression by Newton's method with halved steps.

    It need not converge, since it is a function of public columns.

    Args:
        base: shape (rows, d), its first column the constant.
        t: shape (rows,).
        penalties: of each coefficient, shape (d,), in rows.
    """
    coefficients = np.zeros(base.shape[1])

    def loss(w: FloatArray) -> float:
        score = base @ w
        return float(np.sum(np.logaddexp(0.0, score) - t * score) + penalties @ w**2 / 2)

    current = loss(coefficients)
    for _ in range(ITERATIONS):
        chance = 1 / (1 + np.exp(-np.clip(base @ coefficients, -500, 500)))
        gradient = base.T @ (chance - t) + penalties * coefficients
        scaled = base * np.sqrt(chance * (1 - chance))[:, None]
        step = np.linalg.solve(scaled.T @ scaled + np.diag(penalties), gradient)
        share = 1.0
        while share > 1e-6 and not loss(coefficients - share * step) < current:
            share /= 2
        if share <= 1e-6:
            break
        coefficients = coefficients - share * step
        before, current = current, loss(coefficients)
        if before - current < 1e-6:
            break
    return coefficients


T = TypeVar("T")
WEIGHTS, PAIRS = "balancing-weights", "balancing-pairs-{}"
CHUNK = 8_192
DIGITS = 6


@dataclass(frozen=True)
class Imbalance:
    """Imbalance that weights leave between the arms, all of it public.

    Attributes:
        bias: the deviation of the estimate's bias, in standard errors of sampling.
        left: the same in deviations of the outcome, under the prior of the features' shares.
        before, after: the largest difference of the arms' weighted means of a feature, in its deviations.
    """

    bias: float
    left: float
    before: float
    after: float

    @property
    def details(self) -> Details:
        """The largest differences, for a release."""
        return {"largest_difference_before": self.before, "largest_difference_after": self.after}


@dataclass(frozen=True)
class Balancer:
    """The rows of a run, their features, and sums over segments of either arm."""

    enclave: Enclave
    features: BalancedFeatures
    workers: int

    @classmethod
    def of(cls, study: EffectStudy, enclave: Enclave, units: int) -> tuple[Balancer, Rows]:
        """Return the rows with features learnt from a sample of them, and that sample."""
        features, sample = learn_features(study, enclave, units)
        return cls(enclave, features, study.execution.workers), sample

    def totals(self) -> tuple[FloatArray, FloatArray]:
        """Return sums of features, shape (2, features), and numbers of units, (2,); controls first."""

        def sums_of_rows(rows: Rows) -> FloatArray:
            values, _ = self.features(rows.x)
            arms = np.stack([rows.t == 0, rows.t != 0]).astype(np.float64)
            return np.column_stack([arms @ values, arms.sum(axis=1)])

        total = np.sum(self.over_chunks(sums_of_rows), axis=0)
        return total[:, :-1], total[:, -1]

    def alone(self) -> int:
        """Count the units without a unit of the other arm in their cell; 0 without cells."""

        def counts_of_rows(rows: Rows) -> FloatArray:
            inside = self.features.cells(rows.x)
            return np.stack([inside[rows.t == 0].sum(axis=0), inside[rows.t != 0].sum(axis=0)])

        if not self.features.cells.count:
            return 0
        counts = np.sum(self.over_chunks(counts_of_rows), axis=0)
        return round(float(counts[:, counts.min(axis=0) == 0].sum()))

    def weighted_means(self, weights: IntArray | Int32Array) -> FloatArray:
        """Return means of features under weights of shape (n,), shape (2, features); controls first."""
        edges = np.cumsum([0, *(len(part) for part in self.enclave.hashes())])

        def sums_of_segment(segment: int) -> FloatArray:
            rows = self.enclave.rows(segment)
            segment_weights = weights[edges[segment] : edges[segment + 1]].astype(np.float64)
            # The arms' weights add up in the last column.
            total = np.zeros((2, self.features.count + 1))
            for first in range(0, len(rows), CHUNK):
                window = slice(first, first + CHUNK)
                values, _ = self.features(rows.x[window])
                arms = np.stack([rows.t[window] == 0, rows.t[window] != 0]) * segment_weights[window]
                total[:, :-1] += arms @ values
                total[:, -1] += arms.sum(axis=1)
            return total

        sums: FloatArray = np.sum(map_partitions(sums_of_segment, self.enclave.segments, self.workers), axis=0)
        return sums[:, :-1] / sums[:, -1:]

    def over_chunks(self, function: Callable[[Rows], T]) -> list[T]:
        """Return a function's results for chunks of rows, in their order."""

        def segment_results(segment: int) -> list[T]:
            rows = self.enclave.rows(segment)
            return [function(rows[first : first + CHUNK]) for first in range(0, len(rows), CHUNK)]

        return list(chain.from_iterable(map_partitions(segment_results, self.enclave.segments, self.workers)))


@dataclass(frozen=True)
class Aim:
    """The features' means in either arm, and over the units of the estimand.

    Attributes:
        means: of controls, then of treated, shape (2, features).
        target: shape (features,).
        queries: number of units that the target is over.
    """

    means: FloatArray
    target: FloatArray
    queries: int

    @classmethod
    def of(cls, balancer: Balancer, estimand: Estimand, all_arms: Enclave | None = None) -> Aim:
        """Return the aim of an estimand.

        Args:
            balancer: rows and features.
            estimand: the units over whom the effect is averaged.
            all_arms: units of all arms, over whom the ATE is averaged, where these are more than two arms.
        """
        sums, counts = balancer.totals()
        means = sums / counts[:, None]
        if estimand is not Estimand.ATE:
            (arm,) = estimand.arms
            return cls(means, means[arm], round(float(counts[arm])))
        if all_arms is not None:
            sums, counts = replace(balancer, enclave=all_arms).totals()
        return cls(means, sums.sum(axis=0) / counts.sum(), round(float(counts.sum())))


def imbalance(balancer: Balancer, units: WeightedUnits, aim: Aim, halfway: bool = False) -> Imbalance:
    """Compute the imbalance that any weighting leaves between the arms.

    Args:
        balancer: rows and features.
        units: the weighting.
        aim: the means that features should have.
        halfway: whether weights have no target; deviations are then measured from the middle of both arms' means.
    """
    weighted = balancer.weighted_means(units.weights)
    off = (weighted - (weighted.mean(axis=0) if halfway else aim.target))[:, 1:]
    precisions = 1 / balancer.features.penalties[1:]
    # Errors of arms with the same slopes partly cancel; with independent slopes they add up in squares.
    common = float(np.square(off[1] - off[0]) @ precisions)
    independent = float(np.square(off[1]) @ precisions + np.square(off[0]) @ precisions)
    # Numbers clipped by their ranges are not balanced at all; others with units at the ends are in part.
    hidden = part_hidden(len(balancer.features.narrow.clipped), len(balancer.features.places))
    unseen = hidden * ConfoundingPrior().bias()
    before = aim.means[1, 1:] - aim.means[0, 1:]
    beyond = balancer.features.unseen
    left_beyond = float(np.square(beyond * before[: len(beyond)]) @ precisions[: len(beyond)])
    left = math.sqrt(max(common, independent) + left_beyond + unseen**2)
    bias = left / math.sqrt(float(sum(units.summary.weight_squares)))
    differences = (float(np.abs(values).max(initial=0.0)) for values in (before, off[1] - off[0]))
    # Sums of floats depend on the order of rows in their last digits; a release does not.
    return Imbalance(*(float(f"{value:.{DIGITS}g}") for value in (bias, left, *differences)))


@dataclass(frozen=True)
class Weighing:
    """Public facts about the weights of a comparison by any method.

    Attributes:
        weights: their summary.
        bias: that the interval allows for, in standard errors of sampling.
        confounding: the statement on confounding.
        covers: sources of error that the interval covers beside sampling and noise.
        not_covered: sources of error that it does not cover.
        details: of the release.
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
    """Store a weighting in the enclave."""
    enclave.save(WEIGHTS, units.weights)
    for place, pairs in enumerate(units.pairs):
        enclave.save(PAIRS.format(place), pairs)


def open_units(enclave: Enclave, weights: PublicWeights) -> WeightedUnits:
    """Load the weighting that ``save_units`` saved."""
    first, second, across = (enclave.load(PAIRS.format(place)) for place in range(3))
    return WeightedUnits(weights, enclave.load(WEIGHTS), (first, second, across))
