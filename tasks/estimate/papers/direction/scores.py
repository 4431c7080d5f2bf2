"""Score the two directions between two variables, with sensitivities.

Residuals of kernel ridge regressions are scored by how strongly they depend on the predictor:

    f minimises (penalty/2) ||w||^2 + (1/n) sum_i (w'phi(x_i) - y_i)^2 over the n training rows,
    r_Y = y' - f(x') on the test rows, and r_X = x' - g(y') with g the regression of x on y (Kusner et al. 2016, (5)).

Both variables lie in [-1, 1] by declared bounds, and so do predictions, which are clipped to it. scikit-learn's
KernelRidge has alpha = n penalty/2, gamma = 1/(2 bandwidth^2).

The kernel is Gaussian with a public bandwidth: k(u) = exp(-u^2 / (2 h^2)), made periodic with a period far beyond the
interval, has the Fourier coefficients of a Gaussian, which are positive and vanish quickly. Cut where they fall below a
float's precision they give a map phi of a few cosines and sines into d dimensions (51 for h = 0.2 on [-1, 1]) with

    ||phi(v)|| = 1 for every v, exactly but for rounding,       |phi(v)'phi(w) - k(v - w)| <= ``PRECISION``.

So a regression is a system of d equations, summed over chunks of rows: O(n d^2) time and O(d^2) memory beyond a chunk,
at any n, and no random feature is drawn. The privacy proofs require ||phi|| <= 1, which holds by construction, and k in
[0, 1], whose error is charged for (``docs/proofs/direction.md``, section 1).

A variable that causes the other leaves residuals that do not depend on it, so the direction with the *smaller* score
wins (Kusner et al. 2016, Algorithm 1). Scores are: |Spearman's rho|, |Kendall's tau|, HSIC (Gretton et
al. 2005, the biased estimate trace(KHLH)/(m - 1)^2), and log IQR(a) + log IQR(b), their own. Ranks are a permutation:
ties are broken by an order that the caller passes, in a run by the keyed hash of the unit, since the sensitivities are
proved for permutations and the order of rows may depend on the data.

Sensitivities are for replace-one; a unit is in one half of the split, so it moves either test rows or the regressions,
never both. ``variant: paper`` is Kusner et al. (2016) as printed. Log IQR is put into bins of a public width, and into
the same bins shifted by half a width (Dwork & Lei 2009): while it stays in a bin it moves by at most the width. The
distance is the fewest units to replace until a bin is left: test units exactly, by windows of the sorted values;
training units by a lower bound, since each moves every residual by at most D (:func:`residual_movement`). The larger
distance of the two bins counts, and the smallest of all vectors. Proofs, and where the printed bounds are wide:
``docs/proofs/direction.md``, of distances in section 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from causalveil.schemas.errors import ConvergenceError, StudyError
from causalveil.schemas.estimators.direction import Score
from causalveil.schemas.study import Variant
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.machine.distribute import distribute, one_thread

# Twice the largest |phi(v)'phi(w) - k(v - w)|: cut coefficients, neighbouring periods, rounding of angles and sums.
PRECISION = 1e-12
# exp(-CUT^2 / 2) = 2.5e-17.
CUT = 8.75
NARROWEST, WIDEST = 0.02, 10.0


@dataclass(frozen=True)
class Kernel:
    """A Gaussian kernel with a public bandwidth, for values in [-radius, radius].

    Args:
        bandwidth: h in [0.02, 10], in units of the values.
        radius: above 0.

    Raises:
        StudyError: a bandwidth outside its range.
    """

    bandwidth: float
    radius: float

    def __post_init__(self) -> None:
        """Refuse a bandwidth for which the map has too many dimensions."""
        if not NARROWEST <= self.bandwidth <= WIDEST:
            raise StudyError(f"a kernel's bandwidth must lie between {NARROWEST:g} and {WIDEST:g}")

    @property
    def dimension(self) -> int:
        """d, the number of features: one constant, and a cosine and a sine for each frequency."""
        return 2 * len(self._frequencies) + 1

    @property
    def lipschitz(self) -> float:
        """Largest slope of k(u): exp(-1/2)/h, rounded up."""
        return math.exp(-0.5) / self.bandwidth * (1 + 1e-12)

    def features(self, values: FloatArray) -> FloatArray:
        """Return phi of each value, shape (n,) to (n, d); values beyond the radius are clipped."""
        angles = np.multiply.outer(np.clip(values, -self.radius, self.radius), self._frequencies)
        result = np.empty((len(values), self.dimension))
        result[:, 0] = self._amplitudes[0]
        np.multiply(np.cos(angles), self._amplitudes[1:], out=result[:, 1 : len(self._frequencies) + 1])
        np.multiply(np.sin(angles), self._amplitudes[1:], out=result[:, len(self._frequencies) + 1 :])
        return result

    @property
    def _half_period(self) -> float:
        """Half the period: values are at most 2 radius apart, so the next period is CUT bandwidths away."""
        return self.radius + CUT * self.bandwidth / 2

    @cached_property
    def _frequencies(self) -> FloatArray:
        count = math.ceil(CUT * self._half_period / (math.pi * self.bandwidth))
        return np.arange(1, count + 1, dtype=np.float64) * np.float64(math.pi / self._half_period)

    @cached_property
    def _amplitudes(self) -> FloatArray:
        """Square roots of the coefficients, scaled to add up to 1: constant first, shape (1 + frequencies,)."""
        squares = np.exp(-((self._frequencies * self.bandwidth) ** 2) / 2)
        coefficients = np.concatenate([[0.5], squares])
        return np.asarray(np.sqrt(coefficients / coefficients.sum()))


Pairs = Callable[[int], FloatArray]
"""``pairs(index)``: the (x, y) of one segment, shape (rows, 2), both in [-1, 1]."""

CHUNK = 8_192
# Largest norm of the computed gradient, with the rounding of its sums, at which a fit is accepted; charged.
TOLERANCE = 1e-10
# Predictions are rounded to this lattice; charged.
STEP = 2.0**-32


@dataclass(frozen=True)
class Regression:
    """A function of one variable: w'phi(v), clipped to [-1, 1]; ``weights`` has shape (d,)."""

    kernel: Kernel
    weights: FloatArray

    def predict(self, values: FloatArray) -> FloatArray:
        """Return predictions in [-1, 1], shape (m,) for values of shape (m,); multiples of ``STEP``.

        Equal values then have equal predictions, for any rounding of products at their places: rows that tie are ranked
        by their keyed order, not by the last bit of a float.
        """
        result = np.empty(len(values))
        with one_thread():
            for first in range(0, len(values), CHUNK):
                result[first : first + CHUNK] = self.kernel.features(values[first : first + CHUNK]) @ self.weights
        return np.clip(np.rint(result / STEP) * STEP, -1.0, 1.0)


def fit(pairs: Pairs, segments: int, cause: int, penalty: float, bandwidth: float, workers: int = 1) -> Regression:
    """Return the regression of the other column on column ``cause`` (0: x, 1: y).

    Args:
        pairs: training rows of a segment, shape (rows, 2) in [-1, 1].
        segments: number of segments.
        cause: the column of the predictor.
        penalty: in (0, 1].
        bandwidth: of the Gaussian kernel.
        workers: threads.

    Raises:
        ConvergenceError: there are no training rows, or the equations were not solved to ``TOLERANCE``.
    """
    kernel = Kernel(bandwidth, 1.0)
    parts = distribute(lambda index: _sums(pairs(index), cause, kernel), segments, workers)
    units = sum(rows for rows, _, _ in parts)
    if units == 0:
        raise ConvergenceError("there are no training units to fit a regression to")
    gram = np.sum([square for _, square, _ in parts], axis=0) * (2 / units) + penalty * np.eye(kernel.dimension)
    right = np.sum([vector for _, _, vector in parts], axis=0) * (2 / units)
    with one_thread():
        weights = np.linalg.solve(gram, right)
    gradient = float(np.linalg.norm(gram @ weights - right))
    # ||w|| <= 1/sqrt(2 penalty) for the minimiser; the gradient's rounding error grows with it.
    if not (gradient <= TOLERANCE / 2 and np.linalg.norm(weights) <= 1 / math.sqrt(penalty)):
        raise ConvergenceError("the regression did not reach its declared tolerance; raise 'penalty'")
    return Regression(kernel, weights)


def _sums(pairs: FloatArray, cause: int, kernel: Kernel) -> tuple[int, FloatArray, FloatArray]:
    """Return rows, the sum of phi phi', shape (d, d), and of phi times the other column, shape (d,)."""
    square, vector = np.zeros((kernel.dimension, kernel.dimension)), np.zeros(kernel.dimension)
    for first in range(0, len(pairs), CHUNK):
        chunk = pairs[first : first + CHUNK]
        features = kernel.features(chunk[:, cause])
        square += features.T @ features
        vector += features.T @ chunk[:, 1 - cause]
    return len(pairs), square, vector


def residuals(train: FloatArray, test: FloatArray, penalty: float, bandwidth: float) -> tuple[FloatArray, FloatArray]:
    """Return (r_Y, r_X) on the test rows, shape (m,) each, in [-2, 2], for rows in memory.

    Args:
        train: (x, y) in [-1, 1], shape (n, 2).
        test: (x', y') in [-1, 1], shape (m, 2).
        penalty: in (0, 1].
        bandwidth: of the Gaussian kernel.

    Raises:
        ConvergenceError: see :func:`fit`.
    """
    f, g = (fit(lambda _: train, 1, cause, penalty, bandwidth) for cause in (0, 1))
    return test[:, 1] - f.predict(test[:, 0]), test[:, 0] - g.predict(test[:, 1])


def ranks(values: FloatArray, ties: IntArray | None = None) -> IntArray:
    """Return ranks 0 .. m - 1, a permutation, shape (m,).

    Args:
        values: shape (m,), finite.
        ties: a permutation, shape (m,), by which equal values are ranked; None: by their order.
    """
    order = np.argsort(values, kind="stable") if ties is None else np.lexsort((ties, values))
    result = np.empty(len(values), dtype=np.int64)
    result[order] = np.arange(len(values))
    return result


def spearman(a: FloatArray, b: FloatArray, ties: tuple[IntArray | None, IntArray | None] = (None, None)) -> float:
    """Return |rho|, the absolute Spearman rank correlation of a and b, in [0, 1].

    |rho| = |1 - 6 sum d_i^2 / (m (m^2 - 1))| of the ranks of a and b, shape (m,) each, m >= 2.
    """
    m = len(a)
    total = sum_of_squares(ranks(a, ties[0]) - ranks(b, ties[1]), m)
    return abs(m * (m * m - 1) - 6 * total) / (m * (m * m - 1))


def sum_of_squares(numbers: IntArray, below: int) -> int:
    """Sum the squares of whole numbers of absolute value less than ``below`` <= 2^31, exactly."""
    # Chunks for whose sums 64 bits suffice: one row could move a wrapped sum by 2^64.
    rows = max(1, min(CHUNK, (1 << 62) // below**2))
    parts = (numbers[first : first + rows] for first in range(0, len(numbers), rows))
    return sum(int(part @ part) for part in parts)


def kendall(a: FloatArray, b: FloatArray, ties: tuple[IntArray | None, IntArray | None] = (None, None)) -> float:
    """Return |tau|, the absolute Kendall rank correlation of a and b, in [0, 1].

    |tau| = |C - D| / (m (m - 1)/2) of the ranks of a and b, shape (m,) each, m >= 2, in O(m log m).
    """
    from scipy.stats import kendalltau

    if len(a) < 3:
        return 1.0  # one pair of rows; scipy's p-value divides by zero there
    # The p-value is not used; its asymptotic form is cheap.
    tau = kendalltau(ranks(a, ties[0]), ranks(b, ties[1]), method="asymptotic").statistic
    return min(abs(float(tau)), 1.0)


def hsic(a: FloatArray, b: FloatArray, kernel_a: Kernel, kernel_b: Kernel) -> float:
    """Return HSIC of a and b, shape (m,) each, m >= 2, in [0, (m/(m - 1))^2/4].

    It is trace(KHLH)/(m - 1)^2. With K = FF' and L = GG' it is ||F'HG||^2/(m - 1)^2, from chunks of rows of two narrow
    matrices.
    """
    m = len(a)
    cross = np.zeros((kernel_a.dimension, kernel_b.dimension))
    total_a, total_b = np.zeros(kernel_a.dimension), np.zeros(kernel_b.dimension)
    # Small products: more threads of BLAS would spend more time waiting than computing.
    with one_thread():
        for first in range(0, m, CHUNK):
            f, g = kernel_a.features(a[first : first + CHUNK]), kernel_b.features(b[first : first + CHUNK])
            cross += f.T @ g
            total_a += f.sum(axis=0)
            total_b += g.sum(axis=0)
    covariance = cross / m - np.multiply.outer(total_a / m, total_b / m)
    return float(np.sum(covariance**2)) * (m / (m - 1)) ** 2


UNIT_ROUNDOFF = 2.0**-53
# Bounds on the rounding errors of a computed HSIC and of a computed rank score.
HSIC_ERROR = 2e-10
RANK_ERROR = 2.0**-40


def score_sensitivity(score: Score, m: int, variant: Variant) -> float:
    """Bound the change of a rank score or HSIC when one of m >= 2 test units is replaced.

    Ours: 6/(m + 1) for |rho| and 4/m for |tau|, both attained; 3 m/(2 (m - 1)^2) for HSIC. The paper's: 30/m,
    4/m, (12 m - 11)/(m - 1)^2 (Theorems 1 and 3 and their appendix).

    Raises:
        ValueError: the interquartile range, which has no such bound.
    """
    if score is Score.spearman:
        bound = 6 / (m + 1) if variant is Variant.ours else 30 / m
    elif score is Score.kendall:
        bound = 4 / m
    elif score is Score.hsic:
        bound = 3 * m / 2 if variant is Variant.ours else 12 * m - 11
        return bound / (m - 1) ** 2 * (1 + RANK_ERROR) + 2 * HSIC_ERROR
    else:
        raise ValueError("the interquartile range has no bounded sensitivity")
    return bound * (1 + RANK_ERROR) + 2 * RANK_ERROR


def weight_movement(n: int, penalty: float, variant: Variant) -> float:
    """Bound the L2 distance of two regressions' weights whose n training units differ in one.

    4 (sqrt(penalty) + 1/sqrt(2)) / (n penalty^1.5); the paper's 8/(n penalty^1.5) for penalty <= 1 (Theorem 5). The
    solver's tolerance and the rounding of sums and features are charged on top.
    """
    constant: float = 4 * (math.sqrt(penalty) + math.sqrt(0.5)) if variant is Variant.ours else 8.0
    rounding = 4 * UNIT_ROUNDOFF * (CHUNK + n / CHUNK + 64) + PRECISION
    gradient = TOLERANCE + rounding * (1 + 1 / math.sqrt(penalty))
    return (constant / (n * math.pow(penalty, 1.5)) + 2 * gradient / penalty) * (1 + RANK_ERROR)


def residual_movement(n: int, penalty: float, variant: Variant) -> float:
    """Return D <= 2, a bound on any residual's change when one of n training units is replaced.

    A prediction is an inner product of the weights with a vector of norm 1, rounded to a lattice, clipped to [-1, 1].
    """
    rounding = 4 * PRECISION / math.sqrt(penalty) + STEP
    return min(2.0, weight_movement(n, penalty, variant) + rounding)


def hsic_training_sensitivity(n: int, m: int, penalty: float, bandwidth: float, variant: Variant) -> float:
    """Bound the change of HSIC on m test units when one of n training units is replaced.

    Ours: (m/(m - 1))^2 min(1/4, L D/2), L the slope of the residuals' kernel. The paper's Theorem 7 as printed:
    32 L sqrt(m) D with D = 8/(n penalty^1.5).
    """
    kernel, movement = Kernel(bandwidth, 2.0), residual_movement(n, penalty, variant)
    if variant is Variant.paper:
        return 32 * kernel.lipschitz * math.sqrt(m) * movement + 2 * HSIC_ERROR
    bound = (m / (m - 1)) ** 2 * min(0.25, kernel.lipschitz * movement / 2)
    return bound * (1 + RANK_ERROR) + 2 * HSIC_ERROR


def default_bin(m: int, threshold: float) -> float:
    """Return the default width of bins of log IQR, at most 1.

    The distance of m evenly spread values is then about 3 times the threshold. k replacements move the logarithm of
    their range by about 2 k/m, and the better of the two bins leaves at least a quarter of its width.
    """
    return min(1.0, 24 * threshold / m)


def order_kept_one_draw(margin: float, scale: float) -> float:
    """Return P(order kept) for one Laplace draw on the margin >= 0: 1 - exp(-margin/scale)/2."""
    return 1 - math.exp(-margin / scale) / 2


def order_kept_two_draws(margin: float, scale: float) -> float:
    """Return P(order kept) for two scores with a draw each (Kusner et al. 2016, Theorem 2)."""
    ratio = margin / scale
    return 1 - (ratio + 2) / 4 * math.exp(-ratio)


def order_kept_four_draws(margin: float, scale: float) -> float:
    """Return P(order kept) for four draws (Kusner et al. 2016, Theorem 4.2).

    Each score is a sum of two logarithms, each with its own draw.
    """
    ratio = margin / scale
    return 1 - (48 + 33 * ratio + 9 * ratio**2 + ratio**3) / 96 * math.exp(-ratio)


# Ranges below this count as 0, in a bin that no test passes; the released logarithm is that of its edge.
SMALLEST = 1e-9
# Covers the rounding of bin edges and of differences of values in [-2, 2].
SLACK = 1e-9


@dataclass(frozen=True)
class QuartileRange:
    """The quartile range of a sorted vector, and the widest and narrowest it can become.

    ``values``: shape (m,), ascending, m >= 2. Replaced values are unbounded, which can only shorten distances.
    """

    values: FloatArray

    @property
    def places(self) -> tuple[int, int]:
        """Indices of the lower and upper quartile: ceil(m/4) - 1 and ceil(3m/4) - 1."""
        m = len(self.values)
        return -(-m // 4) - 1, -(-3 * m // 4) - 1

    @property
    def now(self) -> float:
        """The interquartile range."""
        low, high = self.places
        return float(self.values[high] - self.values[low])

    def widest(self, replaced: int) -> float:
        """Return the widest range after replacements: the widest window longer by as many."""
        low, high = self.places
        if replaced > min(low, len(self.values) - 1 - high):
            return math.inf
        return float(np.max(self.values[high : high + replaced + 1] - self.values[low - replaced : low + 1]))

    def narrowest(self, replaced: int) -> float:
        """Return the narrowest range after replacements: the narrowest window shorter by as many."""
        low, high = self.places
        if replaced >= high - low:
            return 0.0
        return float(np.min(self.values[high - replaced : high + 1] - self.values[low : low + replaced + 1]))


@dataclass(frozen=True)
class Bins:
    """Bins of log IQR: [(k + shift) width, (k + 1 + shift) width) for whole k."""

    width: float
    shift: float

    def of(self, iqr: float) -> int | None:
        """Return the bin of a range; None if it counts as 0."""
        if iqr < SMALLEST:
            return None
        return math.floor(math.log(iqr) / self.width - self.shift) if iqr < math.inf else 10**9

    def room(self, place: int, widest: float, narrowest: float) -> float:
        """Return how far ranges from ``narrowest`` to ``widest`` may move within bin ``place``."""
        low, high = (math.exp(min((place + k + self.shift) * self.width, 700.0)) for k in (0, 1))
        return min(high - widest, narrowest - low) - SLACK


def released_log(iqr: float) -> float:
    """Return the released logarithm of a range, at least that of ``SMALLEST``."""
    return math.log(max(iqr, SMALLEST))


def bin_distances(
    quartile_range: QuartileRange, width: float, cap: int, *, replace: bool, movement: float | None
) -> tuple[int, int]:
    """Return the fewest units to change until log IQR leaves its plain and its shifted bin.

    Args:
        quartile_range: range of the sorted values.
        width: of the bins.
        cap: the largest distance to return, public.
        replace: whether test units may be replaced.
        movement: D, how far one training unit moves each value; None: not at all.
    """
    plain, shifted = (_distance(quartile_range, Bins(width, shift), cap, replace, movement) for shift in (0.0, 0.5))
    return plain, shifted


def _distance(quartile_range: QuartileRange, bins: Bins, cap: int, replace: bool, movement: float | None) -> int:
    place = bins.of(quartile_range.now)
    if place is None:
        return 0
    best = _replacements(quartile_range, bins, place, cap) if replace else cap
    if movement is None:
        return best
    # The worst k replacements of test units, then training units for the remaining room.
    for replaced in range(best if replace else 1):
        room = bins.room(place, quartile_range.widest(replaced), quartile_range.narrowest(replaced))
        best = min(best, replaced + math.ceil(max(room, 0.0) / (2 * movement)))
    return best


def _replacements(quartile_range: QuartileRange, bins: Bins, place: int, cap: int) -> int:
    """Return the fewest replacements that can leave the bin, by bisection, since ranges are monotone."""

    def leaves(replaced: int) -> bool:
        return bins.of(quartile_range.widest(replaced)) != place or bins.of(quartile_range.narrowest(replaced)) != place

    low, high = 0, cap
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if leaves(middle) else (middle, high)
    return high


def order_distance(residuals: FloatArray, movement: float, cap: int) -> int:
    """Return a lower bound, at most ``cap``, on training units that can reorder residuals.

    Two residuals come closer by at most 2 D per unit, so those that are a gap apart keep their order for fewer than
    gap/(2 D) units. (Kusner et al.'s floor of that quotient is one too many where it is whole.)
    """
    gap = float(np.min(np.diff(np.sort(residuals)))) - SLACK
    return min(cap, math.ceil(max(gap, 0.0) / (2 * movement)))


def useful_distance(threshold: float, scale: float) -> int:
    """Return a distance at which a test fails with probability below 1e-12."""
    return math.ceil(threshold + 27 * scale)
