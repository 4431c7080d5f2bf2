"""The one draw of noise on the outcomes of a matching, in units that make its sensitivity 1.

What one outcome can move is known only once units are matched. So each sum is divided by that before noise is added:
the declared sensitivity is 1, whatever the matching; plan, ledger and release agree exactly; and the release says by
what the noise was multiplied. Proofs: ``docs/proofs/matching.md``, sections 2 to 4.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np

from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.privacy import Level, Norm, PrivacyCost, Scope
from causalveil.schemas.study import Estimand, Variant
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.matching.scores import IN_TREATED, OUTCOME
from causalveil.tasks.matching.weights import Reuse, Weighted, open_weighted
from causalveil.tasks.models.nearest import ROUNDING, arm_sums, squared_differences, sums_exponent
from causalveil.tasks.privacy.mechanisms import Budget, Laplace, Sensitivity, Slot

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
    """The two numbers to be released, shape (2,); arguments as of :func:`exact_sums`."""
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
