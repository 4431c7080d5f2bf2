"""What is balanced: features of public covariates, each with the share of the outcome that it may explain.

Columns, squares, products, a propensity index and ten bins of it, each centred and scaled on a sample of rows. The
outcome's mean within an arm is taken for a constant plus sum_j beta_j F_j with independent beta_j of variance
s^2 R_j/q_j, s the outcome's deviation: R_j is the share of a kind of features and q_j how many there are. All of this
is a function of public columns, so that nothing has to be exact. Derivation: ``docs/proofs/balancing.md``, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from causalveil.schemas.study import EffectStudy
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray
from causalveil.tasks.regression.columns import Columns

# Shares R of the residual variance: all columns together, all squares and products, the index, its bins.
COLUMNS, CURVES, INDEX, BINS = 1.0, 0.3, 1.0, 0.35
NUMBER_OF_BINS = 10
# The prior variance of the coefficients of the index over that of the outcome.
INDEX_PRIOR = 1.0
# The index is cut at these quantiles of the sample.
INDEX_CUTS = (0.005, 0.995)
# Rows that scales, index and cap are learnt from: so many that rows times features squared stay below WORK.
SAMPLE = (2_000, 20_000)
WORK = 10**9
# Products are no features of their own where all rows times features squared would exceed this; the index has them.
FULL_WORK = 4 * 10**9
MOST_CURVES = 300
SMALLEST_DEVIATION = 1e-9
# A number of a third standardised moment beyond this has its logarithm beside it, of 1 and so many mean distances.
SKEWED, STEEPNESS = 1.5, 20.0
CONSTANT_PENALTY = 1e-6
ITERATIONS = 40


@dataclass(frozen=True)
class Standard:
    """Columns minus their mean, over their deviation; columns that do not vary become 0."""

    mean: FloatArray
    factor: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> Standard:
        """Of a sample, shape (rows, columns)."""
        deviation = values.std(axis=0)
        varies = deviation > SMALLEST_DEVIATION
        return cls(values.mean(axis=0), np.where(varies, 1 / np.where(varies, deviation, 1.0), 0.0))

    def __call__(self, values: FloatArray) -> FloatArray:
        """Standardised values, of the same shape."""
        found: FloatArray = (values - self.mean) * self.factor
        return found


@dataclass(frozen=True)
class Bent:
    """Skewed columns, whose logarithms stand beside them: log(1 + STEEPNESS distance/mean) of the near end.

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
    def of(cls, x: FloatArray, numbers: IntArray) -> Bent:
        """Of a sample of the columns that enter, shape (rows, columns); ``numbers`` are no flags."""
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
    """How rows become features.

    Attributes:
        kept: columns of x that enter.
        bent: the skewed among them, whose logarithms enter behind them.
        first, second: places within ``kept`` whose product is a curve; squares come first.
        own: how many curves are features of their own.
        columns, curves: their scales.
        coefficients: of the propensity index in (1, columns, curves).
        cuts: where the index is cut.
        index: its scale.
        edges: between bins of it.
        bins: their scales.
        penalties: q_j/R_j of each feature, shape (features,).
    """

    kept: IntArray
    bent: Bent
    first: IntArray
    second: IntArray
    own: int
    columns: Standard
    curves: Standard
    coefficients: FloatArray
    cuts: FloatArray
    index: Standard
    edges: FloatArray
    bins: Standard
    penalties: FloatArray

    @property
    def count(self) -> int:
        """Features, the constant among them."""
        return len(self.penalties)

    def __call__(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Features of rows, shape (rows, features), and the index, shape (rows,)."""
        base = self._base(x)
        index = np.clip(base @ self.coefficients, *self.cuts)
        own = base[:, : base.shape[1] - len(self.first) + self.own]
        bins = _bins(index, self.edges)
        return np.concatenate([own, self.index(index[:, None]), self.bins(bins)], axis=1), index

    def _base(self, x: FloatArray) -> FloatArray:
        z = self.columns(self.bent(x[:, self.kept]))
        curves = self.curves(z[:, self.first] * z[:, self.second])
        return np.concatenate([np.ones((len(z), 1)), z, curves], axis=1)


def _bins(index: FloatArray, edges: FloatArray) -> FloatArray:
    """Which bin each index is in, as columns of 0 and 1."""
    found: FloatArray = np.eye(len(edges) + 1)[np.searchsorted(edges, index)]
    return found


def sample_size(features: int) -> int:
    """How many rows scales, index and cap are learnt from."""
    return min(max(WORK // features**2, SAMPLE[0]), SAMPLE[1])


def sample_rows(enclave: Enclave, units: int, size: int) -> Rows:
    """Every k-th row of all segments; rows ascend by keyed hash, so these are rows at random."""
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
    """Squares of numbers, then products of columns of different covariates, or squares alone if these are many."""
    pairs = [(place, place) for place in columns.curved]
    if len(pairs) + len(columns.kept) * (len(columns.kept) - 1) // 2 <= MOST_CURVES:
        pairs += columns.pairs
    places: IntArray = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return places[:, 0], places[:, 1]


def learn_features(study: EffectStudy, enclave: Enclave, units: int) -> tuple[BalancedFeatures, Rows]:
    """Scales and index from a sample of rows, and that sample."""
    columns = Columns.of(study)
    first, second = curve_places(columns)
    kept: IntArray = np.array(columns.kept, dtype=np.int64)
    squares = len(columns.curved)
    extra = 2 + NUMBER_OF_BINS
    wide = len(kept) + len(first) + extra
    own = len(first) if units * wide**2 <= FULL_WORK else squares
    rows = sample_rows(enclave, units, sample_size(wide))
    bent = Bent.of(rows.x[:, kept], np.array(columns.curved, dtype=np.int64))
    z_scale = Standard.of(bent(rows.x[:, kept]))
    z = z_scale(bent(rows.x[:, kept]))
    products = z[:, first] * z[:, second]
    curve_scale = Standard.of(products)
    base = np.concatenate([np.ones((len(z), 1)), z, curve_scale(products)], axis=1)
    penalties = np.concatenate(
        [[CONSTANT_PENALTY], np.full(z.shape[1], len(kept) / COLUMNS), np.full(len(first), len(first) / CURVES)]
    )
    coefficients = logistic(base, rows.t, penalties / INDEX_PRIOR)
    index = base @ coefficients
    cuts: FloatArray = np.quantile(index, INDEX_CUTS)
    index = np.clip(index, *cuts)
    edges: FloatArray = np.quantile(index, np.arange(1, NUMBER_OF_BINS) / NUMBER_OF_BINS)
    of_columns = np.full(z.shape[1], len(kept) / COLUMNS)
    of_curves = np.full(own, own / CURVES)
    of_index = np.array([1 / INDEX, *[NUMBER_OF_BINS / BINS] * NUMBER_OF_BINS])
    features = BalancedFeatures(
        kept=kept,
        bent=bent,
        first=first,
        second=second,
        own=own,
        columns=z_scale,
        curves=curve_scale,
        coefficients=coefficients,
        cuts=cuts,
        index=Standard.of(index[:, None]),
        edges=edges,
        bins=Standard.of(_bins(index, edges)),
        penalties=np.concatenate([[CONSTANT_PENALTY], of_columns, of_curves, of_index]),
    )
    return features, rows


def logistic(base: FloatArray, t: ByteArray, penalties: FloatArray) -> FloatArray:
    """Penalised logistic regression by Newton's method with halved steps; it need not converge, since it is public.

    Args:
        base: shape (rows, d), its first column the constant.
        t: shape (rows,).
        penalties: of each coefficient, shape (d,), in rows.
    """
    found = np.zeros(base.shape[1])

    def loss(w: FloatArray) -> float:
        score = base @ w
        return float(np.sum(np.logaddexp(0.0, score) - t * score) + penalties @ w**2 / 2)

    current = loss(found)
    for _ in range(ITERATIONS):
        chance = 1 / (1 + np.exp(-np.clip(base @ found, -500, 500)))
        gradient = base.T @ (chance - t) + penalties * found
        scaled = base * np.sqrt(chance * (1 - chance))[:, None]
        step = np.linalg.solve(scaled.T @ scaled + np.diag(penalties), gradient)
        share = 1.0
        while share > 1e-6 and not loss(found - share * step) < current:
            share /= 2
        if share <= 1e-6:
            break
        found = found - share * step
        before, current = current, loss(found)
        if before - current < 1e-6:
            break
    return found
