"""From scores and arms to weights, the imbalance left, and the noise on outcomes.

The noise is one draw.

With m matched queries the matching estimate is a difference of two weighted sums of outcomes over m,

    tau = (1/m) sum_i (2 t_i - 1) b_i y_i,   b_i = 1{i is a matched query} + K_i/N,

and the weights of either arm add up to m. Weights are public at label level and post-processing at sample level; no
outcome is read for them. Derivations: ``docs/proofs/matching.md``, sections 1 and 4.

Scores follow a line in the covariates, and caps and ties keep neighbours apart: how far the matched arms still differ
in columns, squares, products, cells and a propensity index is a function of public columns at label level, so it is
measured and allowed for (``docs/proofs/matching.md``, section 5, and ``docs/proofs/balancing.md``, section 4).

What one outcome can move is known only once units are matched. So each sum is divided by that before noise is added:
the declared sensitivity is 1, whatever the matching; plan, ledger and release agree exactly; and the release says by
what the noise was multiplied. Proofs: ``docs/proofs/matching.md``, sections 2 to 4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np

from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.privacy import Level, Norm, PrivacyCost, Scope
from causalveil.schemas.study import Estimand, Variant
from causalveil.tasks.covariates import FIT, NarrowRanges
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, Int32Array, IntArray
from causalveil.tasks.matching.scores import IN_TREATED, OUTCOME, SCORES
from causalveil.tasks.models.nearest import (
    ROUNDING,
    PairArray,
    adaptive_limit,
    arm_sums,
    integer_caps,
    match_capped,
    most_used,
    squared_differences,
    sums_exponent,
    traversal,
    variance_pairs,
)
from causalveil.tasks.privacy.mechanisms import Budget, Laplace, Sensitivity, Slot
from causalveil.tasks.weighting.features import learn_features
from causalveil.tasks.weighting.imbalance import Balancer, imbalance

WEIGHTS, PAIRS = "weights", "pairs-{}"


@dataclass(frozen=True)
class Reuse:
    """Summary of a matching: sizes, weights, and the imbalance that is left.

    It is public at label level, and post-processing of released records at sample level.

    Attributes:
        ratio: N.
        treated, controls: units of the two arms (randomised ones at sample level).
        queries: m, queries that found their N neighbours.
        unmatched: queries that did not, because of the caliper or because an arm has fewer than N units.
        caps: how often a treated unit and a control may serve.
        most: how often a unit does serve, at most.
        largest: N times the largest weight, max_i N b_i.
        squares: N^2 times the sum of squared weights of the treated and of the controls.
        pairs: pairs of near units within the treated, within the controls, and across (``variance_pairs``).
        bias: what the arms' differences that are left may move the estimate by, in standard errors of sampling; known
            at label level alone, as are the following.
        left: the same in deviations of the outcome.
        before, after: the largest difference of the arms' means of a feature, in its deviations.
        narrow: numbers whose declared ranges cut people away, which is part of the bias.
    """

    ratio: int
    treated: int
    controls: int
    queries: int
    unmatched: int
    caps: tuple[int, int]
    most: int
    largest: int
    squares: tuple[int, int]
    pairs: tuple[int, int, int]
    bias: float = 0.0
    left: float = 0.0
    before: float = 0.0
    after: float = 0.0
    narrow: NarrowRanges = FIT

    @property
    def largest_weight(self) -> Fraction:
        """max_i b_i."""
        return Fraction(self.largest, self.ratio)

    @property
    def weight_squares(self) -> tuple[Fraction, Fraction]:
        """Sum of b_i^2 over the treated and over the controls."""
        treated, controls = self.squares
        return Fraction(treated, self.ratio**2), Fraction(controls, self.ratio**2)

    @property
    def measurable(self) -> bool:
        """True if there are pairs of every sort, so that a sampling variance can be measured."""
        return self.queries > 0 and min(self.pairs) > 0


@dataclass(frozen=True)
class Weighted:
    """A matching as the outcome's sums need it: ``weights`` N b_i, shape (n,).

    ``pairs``, each shape (pairs, 2).
    """

    reuse: Reuse
    weights: Int32Array
    pairs: tuple[PairArray, PairArray, PairArray]


def effect_epsilon(study: MatchingStudy) -> float:
    """Return the epsilon of the outcome's noise: all at label level, its share at sample level."""
    if study.privacy.level is Level.label:
        return float(study.privacy.epsilon)
    return float(study.estimator.budget_shares.divide(study.privacy.epsilon)["outcome"])


def caps(study: MatchingStudy, scores: FloatArray, in_treated: ByteArray) -> tuple[int, int]:
    """Return how often a treated unit and a control may serve.

    It is as declared, or where noise and bias balance.

    Only the label level holds k below M/N, beyond which a cap does nothing (Yuan et al. 2026, Equation 10).

    Raises:
        DataError: an arm that is searched has fewer than N units.
    """
    settings = study.estimator
    treated = int(np.count_nonzero(in_treated))
    controls = len(in_treated) - treated
    # Refuses arms that are too small before anything is matched.
    integer_caps(Fraction(1), treated, controls, settings.ratio, study.estimand)
    if settings.cap == "adaptive":
        most = Fraction(most_used(scores, in_treated, settings.ratio, study.estimand), settings.ratio)
        epsilon, larger = effect_epsilon(study), max(treated, controls)
        limit = Fraction(adaptive_limit(epsilon, study.error_coefficient, larger, float(most)))
        if study.privacy.level is Level.label:
            limit = min(limit, most)
    else:
        limit = Fraction(settings.cap)
    return integer_caps(limit, treated, controls, settings.ratio, study.estimand)


def weigh(study: MatchingStudy, scores: FloatArray, in_treated: ByteArray) -> Weighted:
    """Match and weigh.

    Args:
        study: the study.
        scores: shape (n,), in the order of traversal.
        in_treated: shape (n,), 1 for units of the treated arm, 0 for controls.

    Raises:
        DataError: at label level, where arms are public: an arm that is searched has fewer than N units, or no query
            has its neighbours within the caliper. At sample level such a matching has no weights at all. At either:
            a query lacks neighbours although the caps make that impossible.
    """
    ratio, estimand = study.estimator.ratio, study.estimand
    label = study.privacy.level is Level.label
    if not label and _too_small(in_treated, estimand, ratio):
        return _nothing(study, in_treated)
    limits = caps(study, scores, in_treated)
    matching = match_capped(scores, in_treated, ratio, limits, estimand, study.estimator.caliper)
    if not matching.matched.any():
        if label:
            raise DataError("no unit finds its neighbours within the caliper; widen 'caliper' or lower 'ratio'")
        return _nothing(study, in_treated)
    weights = matching.uses + np.int32(ratio) * matching.matched
    used = weights > 0
    none = np.empty((0, 2), dtype=np.int32)
    # The paper releases no variance.
    pairs = variance_pairs(scores, in_treated, used) if study.estimator.variant is Variant.ours else (none, none, none)
    squares = [int(np.square(weights[in_treated == arm], dtype=np.int64).sum()) for arm in (1, 0)]
    reuse = Reuse(
        ratio=ratio,
        treated=int(np.count_nonzero(in_treated)),
        controls=int(np.count_nonzero(in_treated == 0)),
        queries=int(np.count_nonzero(matching.matched)),
        unmatched=_queries(in_treated, estimand) - int(np.count_nonzero(matching.matched)),
        caps=limits,
        most=int(matching.uses.max()),
        largest=int(weights.max()),
        squares=(squares[0], squares[1]),
        pairs=(len(pairs[0]), len(pairs[1]), len(pairs[2])),
    )
    return Weighted(reuse, weights.astype(np.int32), pairs)


def match_stage(study: MatchingStudy, enclave: Enclave) -> Reuse:
    """Leave each unit's weight and the pairs of the variance.

    Return what may be said of the matching.

    Raises:
        DataError: as of :func:`weigh`; at label level nothing is drawn before.
    """
    result = weigh(study, enclave.load(SCORES), enclave.load(IN_TREATED))
    enclave.save(WEIGHTS, result.weights)
    for index, pairs in enumerate(result.pairs):
        enclave.save(PAIRS.format(index), pairs)
    return result.reuse


def open_weighted(enclave: Enclave, reuse: Reuse) -> Weighted:
    """Load the matching that ``match_stage`` left."""
    first, second, across = (enclave.load(PAIRS.format(index)) for index in range(3))
    return Weighted(reuse, enclave.load(WEIGHTS), (first, second, across))


def _queries(in_treated: ByteArray, estimand: Estimand) -> int:
    treated = int(np.count_nonzero(in_treated))
    return {Estimand.ATE: len(in_treated), Estimand.ATT: treated, Estimand.ATC: len(in_treated) - treated}[estimand]


def _too_small(in_treated: ByteArray, estimand: Estimand, ratio: int) -> bool:
    """Return whether an arm that is searched has fewer than N units."""
    treated = int(np.count_nonzero(in_treated))
    searched = {Estimand.ATE: min(treated, len(in_treated) - treated), Estimand.ATT: len(in_treated) - treated}
    return searched.get(estimand, treated) < ratio


def _nothing(study: MatchingStudy, in_treated: ByteArray) -> Weighted:
    """No unit weighs anything: randomised arms or scores left nothing to match."""
    treated = int(np.count_nonzero(in_treated))
    none = np.empty((0, 2), dtype=np.int32)
    reuse = Reuse(
        ratio=study.estimator.ratio,
        treated=treated,
        controls=len(in_treated) - treated,
        queries=0,
        unmatched=_queries(in_treated, study.estimand),
        caps=(0, 0),
        most=0,
        largest=0,
        squares=(0, 0),
        pairs=(0, 0, 0),
    )
    return Weighted(reuse, np.zeros(len(in_treated), dtype=np.int32), (none, none, none))


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


SLOT = Slot(name="effect", scope=Scope.all)


def mechanism(study: MatchingStudy) -> Laplace:
    """Return Laplace noise on the estimate and its sampling variance.

    In the paper's variant it is on the two arms' sums.
    """
    ratio, share = study.estimator.ratio, study.estimator.variance_share
    if study.estimator.variant is Variant.paper:
        formula = f"1 in units of (k_arm + 1) B for the sum of the unit's arm; k_arm at most (n - 1)/{ratio}"
    else:
        whole = study.estimand is Estimand.ATE and study.estimator.caliper is None
        bound = f"(1/n + 1/{ratio}) B" if whole else f"(1 + 1/{ratio}) B"
        formula = f"{1 - share:g} + {share:g} in units of max_i b_i B/m, at most {bound}, and of the variance's"
    epsilon = study.privacy.epsilon
    if study.privacy.level is not Level.label:
        epsilon = study.estimator.budget_shares.divide(epsilon)["outcome"]
    bound_on_sums = Sensitivity(value=1 + ROUNDING, norm=Norm.l1, formula=formula)
    return Laplace(bound_on_sums, PrivacyCost(epsilon=epsilon, delta=Decimal(0)))


def variance_unit(reuse: Reuse) -> Fraction:
    """Bound how far one outcome in [-1, 1] moves the sum of squares of :func:`sums`.

    See section 4.
    """
    treated, controls, across = reuse.pairs
    within = (
        2 * abs(squares - reuse.queries) / pairs
        for squares, pairs in zip(reuse.weight_squares, (treated, controls), strict=True)
    )
    return 4 * Fraction(reuse.queries, across) + max(within)


def sums(study: MatchingStudy, weighted: Weighted, in_treated: ByteArray, outcome: FloatArray) -> FloatArray:
    """Return the two numbers to be released, shape (2,); arguments as of :func:`exact_sums`."""
    first, second = exact_sums(study, weighted, in_treated, outcome)
    return np.array([float(first), float(second)])


def exact_sums(
    study: MatchingStudy, weighted: Weighted, in_treated: ByteArray, outcome: FloatArray
) -> tuple[Fraction, Fraction]:
    """Return the two numbers before rounding.

    One outcome moves the sum of their absolute values by at most 1.

    Outcomes are rounded to a public lattice first and everything after that is exact, up to the last rounding.

    Args:
        study: the study.
        weighted: the matching.
        in_treated: shape (n,), 1 for units of the treated arm, 0 for controls.
        outcome: u, shape (n,), in [-1, 1].
    """
    reuse = weighted.reuse
    if reuse.queries == 0:
        return Fraction(0), Fraction(0)
    exponent = sums_exponent(2 * reuse.ratio * len(in_treated), 1)
    per_arm = arm_sums(weighted.weights, in_treated, outcome, exponent)
    if study.estimator.variant is Variant.paper:
        treated, controls = (
            Fraction(total, (cap + reuse.ratio) << (exponent + 1))
            for total, cap in zip(per_arm, reuse.caps, strict=True)
        )
        return treated, controls
    share = Fraction(study.estimator.variance_share)
    estimate = Fraction(per_arm[0] - per_arm[1], reuse.largest << (exponent + 1))
    variance = Fraction(0)
    if reuse.measurable:
        variance = _sum_of_squares(weighted, outcome) / variance_unit(reuse)
    return (1 - share) * estimate, share * variance


def release(study: MatchingStudy, exact: FloatArray, budget: Budget) -> FloatArray:
    """Return the two numbers with noise, shape (2,)."""
    return mechanism(study).release(exact, SLOT, budget)


def perturb_stage(study: MatchingStudy, enclave: Enclave, reuse: Reuse, budget: Budget) -> FloatArray:
    """Release what the outcomes add up to under the weights that ``match`` left."""
    in_treated, outcome = enclave.load(IN_TREATED), enclave.load(OUTCOME)
    return release(study, sums(study, open_weighted(enclave, reuse), in_treated, outcome), budget)


def _sum_of_squares(weighted: Weighted, outcome: FloatArray) -> Fraction:
    """m/L sum over twins of (u - u')^2 + sum over arms of (A - m)/P sum over pairs of (u - u')^2 / 2, exact."""
    reuse = weighted.reuse
    exponent = sums_exponent(len(outcome), 2)
    treated, controls, across = (squared_differences(pairs, outcome, exponent) for pairs in weighted.pairs)
    total = Fraction(reuse.queries, reuse.pairs[2]) * across
    for squares, pairs, found in zip(reuse.weight_squares, reuse.pairs, (treated, controls), strict=False):
        total += (squares - reuse.queries) / pairs * found / 2
    return total
