"""Fit the private propensity score: ridge-penalised logistic regression with noise.

Newton's method makes few passes over the table. It stops by the gradient of the whole table alone, so that no
approximation by a sample enters the proof.

J(w) = (1/m) sum_i [log(1 + exp(w'x_i)) - t_i w'x_i] + (penalty/2) ||w||^2 over the m training rows is minimised by
Newton's method. Gradient and Hessian are sums over chunks of segments, so rows never sit in one process. The
coefficients are then released once (output perturbation: Chaudhuri, Monteleoni & Sarwate 2011; Lee et al. 2019a,
section 3.1). Why the sensitivity holds, step by step: ``docs/proofs/ipw.md``, section 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.errors import ConvergenceError
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.schemas.study import Variant
from causalveil.tasks.data.covariates import dimension
from causalveil.tasks.data.enclave import Enclave, Rows
from causalveil.tasks.data.split import Halves
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import distribute, one_thread
from causalveil.tasks.privacy.mechanisms import (
    Budget,
    GaussianClassic,
    Laplace,
    Mechanism,
    Sensitivity,
    Slot,
    vector_mechanism,
)

MAX_ITERATIONS = 200
# A step is expected to be the last where the gradient's square is at most this share of the tolerance.
FORESEEN = 0.01
MAX_HALVINGS = 60
# Passes over the table with changes of the Hessian from a sample.
MAX_BY_SAMPLE = 6

# Gradient, shape (d,), and Hessian, shape (d, d), computed if the second argument is true.
Derivatives = tuple[FloatArray, FloatArray]
Evaluate = Callable[[FloatArray, bool], Derivatives]


def newton(evaluate: Evaluate, start: FloatArray, tolerance: float, largest: float) -> FloatArray:
    """Minimise by Newton's method with steps halved until the gradient shrinks enough.

    The Newton step s descends on ||grad J||: its derivative along s is -||grad J||; J is strongly convex, so
    the only stationary point of ||grad J|| is the minimiser. Two thirds of an evaluation are its Hessian, which the
    last one does without: near the minimiser a step squares the gradient, so that the last can be foreseen.

    Args:
        evaluate: gradient and, where asked for, Hessian at a point.
        start: the first point.
        tolerance: of the gradient's norm.
        largest: of the solution's norm.

    Raises:
        ConvergenceError: the tolerance was not reached.
    """
    w = start
    gradient, hessian = evaluate(w, True)
    for _ in range(MAX_ITERATIONS):
        size = float(np.linalg.norm(gradient))
        if _done(w, gradient, tolerance, largest):
            return w
        step = np.linalg.solve(hessian, gradient)
        for halving in range(MAX_HALVINGS):
            share = 0.5**halving
            trial = w - share * step
            last = halving == 0 and size * size <= FORESEEN * tolerance
            gradient, hessian = evaluate(trial, not last)
            if last and not _done(trial, gradient, tolerance, largest):
                gradient, hessian = evaluate(trial, True)
            if float(np.linalg.norm(gradient)) <= max((1 - share / 4) * size, tolerance):
                break
        w = trial
    raise ConvergenceError("the propensity model did not reach its declared tolerance; raise 'penalty'")


def newton_by_sample(
    evaluate: Evaluate,
    sampled: Evaluate,
    start: FloatArray,
    tolerance: float,
    largest: float,
) -> FloatArray | None:
    """Minimise by Newton's method with one Hessian of the whole table, updated by a sample.

    Most of a pass over the table is its Hessian. The sample gives its changes only, which are small, so that each step
    divides the gradient by hundreds or more. The result is None where it does not.

    Args:
        evaluate: gradient and, where asked for, Hessian of the whole table at a point.
        sampled: gradient and Hessian of the sample.
        start: the first point.
        tolerance: of the gradient's norm.
        largest: of the solution's norm.
    """
    gradient, hessian = evaluate(start, True)
    before, curve = sampled(start, True)
    difference, w = hessian - curve, start
    for _ in range(MAX_BY_SAMPLE):
        size = float(np.linalg.norm(gradient))
        try:
            trial = w - np.linalg.solve(curve + difference, gradient)
            slope, curve = sampled(trial, True)
            expected = gradient + slope - before + difference @ (trial - w)
            w = np.asarray(trial - np.linalg.solve(curve + difference, expected), dtype=np.float64)
        except np.linalg.LinAlgError:
            # The sample's change may make the Hessian singular; the whole table's never is.
            break
        gradient, _ = evaluate(w, False)
        if _done(w, gradient, tolerance, largest):
            return w
        # NaN counts as not smaller.
        if not float(np.linalg.norm(gradient)) <= size / 4:
            break
        before, curve = sampled(w, True)
    return None


def _done(w: FloatArray, gradient: FloatArray, tolerance: float, largest: float) -> bool:
    return float(np.linalg.norm(gradient)) <= tolerance and float(np.linalg.norm(w)) <= largest


SLOT = Slot(name="propensity", scope=Scope.train)

# The declared size of a computed gradient at which the fit is accepted; charged into the sensitivity.
TOLERANCE = 1e-10
# Rows per chunk. The rounding error of a chunk's dot products grows with it and is charged.
CHUNK = 8_192
# Gradient at which the fit to a sample stops.
SAMPLE_TOLERANCE = 1e-7
# The least deviation of a column that varies, over its root mean square.
SMALLEST_DEVIATION = 1e-6
UNIT_ROUNDOFF = 2.0**-53
# Rows lie in a ball of radius 1 up to float rounding; this covers radii up to 1 + 2^-42.
BALL_SLACK = 1 + 2.0**-40
# Largest value of s sigmoid(-s), rounded up, and where it is taken: W(1/e) and 1 + W(1/e) of Lambert's W.
PEAK = 0.2784645427610739
PEAK_AT = 1.2784645427610737


def coefficient_bound(penalty: float) -> float:
    """Return R with ||w|| <= R for the exact minimiser on every possible table.

    At the minimiser penalty ||w||^2 = mean_i (t_i - sigmoid(s_i)) s_i with s_i = w'x_i, |s_i| <= ||w||, and each
    term is at most psi(min(||w||, 1.278)), psi(s) = s sigmoid(-s). Tighter than sqrt(2 ln 2 / penalty).
    """
    if penalty * PEAK_AT**2 < PEAK:
        return math.sqrt(PEAK / penalty) * (1 + 1e-12)
    low, high = 0.0, PEAK_AT * (1 + 1e-9)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if penalty * middle < _sigmoid(-middle) else (low, middle)
    return high * (1 + 1e-12)


def gradient_diameter(radius: float) -> float:
    """Return the largest distance of two rows' loss gradients, rounded up.

    Both gradients are at one w with ||w|| <= radius.

    A row's gradient is sigmoid(w'z) z with z = x or -x in the unit ball; the diameter of that set is
    2 max_k sqrt(1 - k^2) sigmoid(radius k), between 1 (radius 0) and 2 (radius to infinity). The logarithm of
    the maximand is concave in k, so its tangent at any point certifies an upper bound.
    """
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _slope(middle, radius) > 0 else (low, middle)
    value = 2 * math.sqrt(1 - low**2) * _sigmoid(radius * low)
    return min(2.0, value * math.exp(abs(_slope(low, radius))) * (1 + 1e-12))


def rounding_bound(columns: int, penalty: float) -> float:
    """Bound the L2 error of a computed gradient, in whatever order BLAS adds.

    Holds at every w that is accepted, that is with ||w|| <= 2 R + 1 (R of :func:`coefficient_bound`).
    """
    size = 2 * coefficient_bound(penalty) + 1
    return 2 * UNIT_ROUNDOFF * (CHUNK + columns * (size / 4 + 2) + 32 + 4 * penalty * size)


@dataclass(frozen=True)
class PropensityModel:
    """A penalised logistic regression for one release.

    Attributes:
        penalty: the weight of ||w||^2 / 2.
        dimension: d, columns of x.
        units: m, the number of training units; None while unknown.
        cost: of the release.
        slot: name of the release, and the units that it is from.
        variant: ours, or the paper's noise.
        exact: covariates and treatments are public (label level), so that no noise is needed.
    """

    penalty: float
    dimension: int
    units: int | None
    cost: PrivacyCost
    slot: Slot
    variant: Variant = Variant.ours
    exact: bool = False

    def sensitivity(self) -> Sensitivity:
        """Bound the L2 distance of computed coefficients of tables that differ in one training unit."""
        diameter = 2.0
        if self.variant is Variant.ours:
            diameter = gradient_diameter(coefficient_bound(self.penalty))
        slack = TOLERANCE + rounding_bound(self.dimension, self.penalty)
        formula = f"{diameter:.4g}/(m {self.penalty:g}) + 2 {slack:.3g}/{self.penalty:g}, m training units"
        if self.units is None:
            return Sensitivity(value=None, norm=Norm.l2, formula=formula)
        value = (diameter * BALL_SLACK / (self.units * self.penalty) + 2 * slack / self.penalty) * (1 + 1e-12)
        return Sensitivity(value=value, norm=Norm.l2, formula=formula)

    def coordinate_sensitivity(self) -> Sensitivity:
        """Return the L1 distance, at most sqrt(d) times the L2 distance.

        Yuan et al. 2026, Appendix A-B: 2 d/(n penalty) for covariates in [0, 1]^d, which is this for rows of the unit
        ball.
        """
        bound = self.sensitivity()
        value = None if bound.value is None else math.sqrt(self.dimension) * bound.value * (1 + 1e-12)
        return Sensitivity(value=value, norm=Norm.l1, formula=f"sqrt({self.dimension}) ({bound.formula})")

    def mechanism(self) -> Mechanism | None:
        """Return the mechanism that releases the coefficients; None where they need no noise."""
        if self.exact:
            return None
        if self.variant is Variant.paper and self.cost.delta > 0:
            return GaussianClassic(sensitivity=self.sensitivity(), cost=self.cost)
        if self.variant is Variant.paper:
            return Laplace(sensitivity=self.coordinate_sensitivity(), cost=self.cost)
        return vector_mechanism(self.sensitivity(), self.cost)

    def release(self, rows: Callable[[int], Rows], segments: int, budget: Budget, workers: int = 1) -> FloatArray:
        """Fit to the training rows and release the coefficients, shape (d,).

        The arguments are those of :func:`fit`.

        Raises:
            ConvergenceError: before anything is drawn.
            ValueError: the number of units is not known yet.
        """
        if self.units is None:
            raise ValueError("the propensity model needs the number of units")
        return self.perturb(fit(rows, segments, self.units, self.penalty, workers), budget)

    def perturb(self, w: FloatArray, budget: Budget) -> FloatArray:
        """Return fitted coefficients, shape (d,), with noise unless they are public."""
        release_by = self.mechanism()
        return w if release_by is None else release_by.release(w, self.slot, budget)


def model(study: IpwStudy, sizes: Sizes | None) -> PropensityModel:
    """Return the propensity model of inverse probability weighting, on the whole budget."""
    return PropensityModel(
        penalty=study.estimator.penalty,
        dimension=dimension(study),
        units=None if sizes is None else sizes.train,
        cost=study.privacy.cost,
        slot=SLOT,
        variant=study.estimator.variant,
    )


def fit(rows: Callable[[int], Rows], segments: int, units: int, penalty: float, workers: int = 1) -> FloatArray:
    """Return coefficients w, shape (d,), where J's computed gradient is within ``TOLERANCE``.

    Args:
        rows: training rows of a segment, x of shape (rows, d) in the unit ball.
        segments: how many there are.
        units: m, the rows of all segments together.
        penalty: the weight of ||w||^2 / 2.
        workers: threads; the result does not depend on it.

    Raises:
        ConvergenceError: the tolerance was not reached.
    """

    def evaluate(w: FloatArray, curved: bool) -> Derivatives:
        parts = distribute(lambda index: _chunk_sums(rows(index), w, curved), segments, workers)
        return _derivatives(parts, w, units, penalty)

    largest = 2 * coefficient_bound(penalty) + 1
    sample = _sample(rows, segments, units)
    size, start = sum(map(len, sample)), np.zeros(sample[0].x.shape[1])
    if size * 4 <= units:

        def sampled(w: FloatArray, curved: bool) -> Derivatives:
            with one_thread():
                return _derivatives([_chunk_sums(part, w, curved) for part in sample], w, size, penalty)

        with suppress(ConvergenceError):
            start = newton(sampled, start, SAMPLE_TOLERANCE, float("inf"))
        w = newton_by_sample(evaluate, sampled, start, TOLERANCE, largest)
        if w is not None:
            return w
    return newton(evaluate, start, TOLERANCE, largest)


def _sample(rows: Callable[[int], Rows], segments: int, units: int) -> list[Rows]:
    """Return the first rows, whose fit is the start of the whole table's, which then takes few passes.

    It costs no privacy, since the sensitivity holds for any w whose gradient is small.
    """
    parts: list[Rows] = []
    left = min(max(units // 50, 4 * CHUNK), 16 * CHUNK)
    for part in map(rows, range(segments)):
        if len(part):
            head = part[:left]
            # Copied, so that no file stays open for a few rows of each of many small segments.
            parts.append(Rows(head.x.copy(), head.t.copy(), head.u.copy()))
            left -= len(head)
        if left == 0:
            break
    if not parts:
        raise ConvergenceError("there are no training units to fit a propensity model to")
    return parts


def _chunk_sums(rows: Rows, w: FloatArray, curved: bool) -> tuple[FloatArray, FloatArray]:
    """Sum the loss gradients over each chunk, shape (chunks, d).

    If ``curved``, also sum the Hessians over all chunks, shape (d, d).
    """
    d = len(w)
    gradients, hessian = np.zeros((-(-len(rows) // CHUNK), d)), np.zeros((d, d))
    # One array for all chunks: allocating it anew would cost more than the computation.
    memory = np.empty((min(len(rows), CHUNK), d))
    for number, first in enumerate(range(0, len(rows), CHUNK)):
        x = rows.x[first : first + CHUNK]
        with np.errstate(over="ignore"):
            score = 1 / (1 + np.exp(-(x @ w)))
        residual = score - rows.t[first : first + CHUNK]
        gradients[number] = residual @ x
        if curved:
            scaled = np.multiply(x, np.sqrt(score * (1 - score))[:, None], out=memory[: len(x)])
            hessian += scaled.T @ scaled
    return gradients, hessian


def _derivatives(
    parts: list[tuple[FloatArray, FloatArray]], w: FloatArray, units: int, penalty: float
) -> tuple[FloatArray, FloatArray]:
    """Return gradient and Hessian of J; gradients of chunks are added exactly (``math.fsum``)."""
    gradients = np.concatenate([gradients for gradients, _ in parts])
    total = np.array([math.fsum(column) for column in gradients.T.tolist()])
    hessian = np.sum([hessian for _, hessian in parts], axis=0)
    return total / units + penalty * w, hessian / units + penalty * np.eye(len(w))


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))


def _slope(k: float, radius: float) -> float:
    """Return the derivative of log(sqrt(1 - k^2) sigmoid(radius k)), which decreases in k on [0, 1)."""
    return radius * _sigmoid(-radius * k) - k / max((1 - k) * (1 + k), 1e-300)


def propensity_stage(study: IpwStudy, sizes: Sizes, enclave: Enclave, budget: Budget) -> FloatArray:
    """Fit on the training units and release the coefficients, shape (d,).

    Raises:
        ConvergenceError: before anything is drawn.
    """
    halves, workers = Halves.open(enclave), study.execution.workers
    return model(study, sizes).release(halves.train, halves.segments, budget, workers)


def fit_scaled(rows: Callable[[int], Rows], segments: int, units: int, penalty: float, workers: int = 1) -> FloatArray:
    """Fit as :func:`fit` to public columns scaled to a variance of one over their number.

    The coefficients w are those of the unscaled x. The penalty then shrinks directions of equal variance alike, for any
    declared ranges: a range that is far too wide costs nothing where columns, and so their deviations, are public.
    """

    def moments(index: int) -> FloatArray:
        x = rows(index).x
        return np.stack([x.sum(axis=0), np.square(x).sum(axis=0)])

    total, square = np.sum(distribute(moments, segments, workers), axis=0) / units
    deviation = np.sqrt(np.maximum(square - total**2, 0.0))
    varies = deviation > SMALLEST_DEVIATION * np.sqrt(square)
    # A column that does not vary is the constant, or 0.
    size = np.where(varies, deviation * math.sqrt(len(deviation)), np.where(total != 0, np.abs(total), 1.0))
    factor = 1 / size

    def scaled(index: int) -> Rows:
        part = rows(index)
        return Rows(part.x * factor, part.t, part.u)

    return fit(scaled, segments, units, penalty, workers) * factor


def clipped_scores(x: FloatArray, coefficients: FloatArray, clip: tuple[float, float]) -> FloatArray:
    """Return clip(sigmoid(x w)), shape (rows,).

    ``einsum`` and not BLAS: a row's score must not depend on where in a chunk the row stands.
    """
    with np.errstate(over="ignore"):
        scores: FloatArray = 1 / (1 + np.exp(-np.einsum("ij,j->i", x, coefficients)))
    return scores.clip(*clip)
