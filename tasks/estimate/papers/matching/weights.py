"""Compute weights from scores and arms, and release sums of outcomes in one draw.

With m matched queries the matching estimate is a difference of two weighted sums of outcomes over m,

    tau = (1/m) sum_i (2 t_i - 1) b_i y_i,   b_i = 1{i is a matched query} + K_i/N,

and the weights of either arm add up to m. Weights are public at label level and post-processing at sample level; no
outcome is read for them. Derivations: ``docs/proofs/matching.md``, sections 1 and 4.

The sensitivity is known only once units are matched. So each sum is divided by its own before noise is added: the
declared sensitivity is 1, whatever the matching; plan, ledger and release agree exactly; and the release states the
factor of the noise. Proofs: ``docs/proofs/matching.md``, sections 2 to 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.privacy import Level, Norm, PrivacyCost, Scope
from causalveil.schemas.study import Estimand, Variant
from causalveil.tasks.data.enclave import Enclave
from causalveil.tasks.estimate.models.nearest import (
    ROUNDING,
    adaptive_limit,
    arm_sums,
    integer_caps,
    match_capped,
    most_used,
    sums_exponent,
    variance_pairs,
)
from causalveil.tasks.estimate.papers.matching.scores import IN_TREATED, OUTCOME, SCORES
from causalveil.tasks.estimate.weights import weighted_means
from causalveil.tasks.estimate.weights.features import open_units, save_units
from causalveil.tasks.estimate.weights.weighted_means import Details, PublicWeights, WeightedUnits
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.privacy.mechanisms import Budget, Laplace, Sensitivity, Slot


@dataclass(frozen=True)
class Reuse:
    """Summary of a matching: public at label level, post-processing of releases at sample level.

    Attributes:
        ratio: N.
        treated, controls: units of the two arms (randomised ones at sample level).
        queries: m, queries that found their N neighbours.
        unmatched: other queries, because of the caliper or of an arm with fewer than N units.
        caps: how often a treated unit and a control may serve.
        most: the largest number of times that a unit serves.
        weights: W_i = N b_i, whose total in either arm is N m.
    """

    ratio: int
    treated: int
    controls: int
    queries: int
    unmatched: int
    caps: tuple[int, int]
    most: int
    weights: PublicWeights

    @property
    def details(self) -> Details:
        """Caps, reuse and counts, for a release."""
        return {
            "treated_arm": self.treated,
            "control_arm": self.controls,
            "matched": self.queries,
            "unmatched": self.unmatched,
            "cap_treated": self.caps[0],
            "cap_controls": self.caps[1],
            "largest_reuse": self.most,
        }


def effect_epsilon(study: MatchingStudy) -> float:
    """Return the epsilon of the outcome's noise: all at label level, its share at sample level."""
    if study.privacy.level is Level.label:
        return float(study.privacy.epsilon)
    return float(study.estimator.budget_shares.divide(study.privacy.epsilon)["outcome"])


def caps(study: MatchingStudy, scores: FloatArray, in_treated: ByteArray) -> tuple[int, int]:
    """Return how often a treated unit and a control may serve: as declared, or adaptive.

    At label level alone k is at most M/N, beyond which a cap has no effect (Yuan et al. 2026, Equation 10).

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


def weigh(study: MatchingStudy, scores: FloatArray, in_treated: ByteArray) -> tuple[Reuse, WeightedUnits]:
    """Match and weigh.

    Args:
        study: the study.
        scores: shape (n,), in the order of traversal.
        in_treated: shape (n,), 1 for units of the treated arm, 0 for controls.

    Raises:
        DataError: at label level, where arms are public: an arm that is searched has fewer than N units, or no query
            has its neighbours within the caliper; at sample level all weights are then 0. At both levels: a query lacks
            neighbours although the caps make that impossible.
    """
    ratio, estimand = study.estimator.ratio, study.estimand
    label = study.privacy.level is Level.label
    if not label and _too_small(in_treated, estimand, ratio):
        return _unmatched(study, in_treated)
    limits = caps(study, scores, in_treated)
    matching = match_capped(scores, in_treated, ratio, limits, estimand, study.estimator.caliper)
    if not matching.matched.any():
        if label:
            raise DataError("no unit finds its neighbours within the caliper; widen 'caliper' or lower 'ratio'")
        return _unmatched(study, in_treated)
    weights = matching.uses + np.int32(ratio) * matching.matched
    used = weights > 0
    none = np.empty((0, 2), dtype=np.int32)
    # The paper releases no variance.
    pairs = variance_pairs(scores, in_treated, used) if study.estimator.variant is Variant.ours else (none, none, none)
    matched = int(np.count_nonzero(matching.matched))
    units = WeightedUnits.of(
        weights.astype(np.int32), in_treated, matched, pairs, Fraction(study.estimator.variance_share)
    )
    return _reuse(study, units, limits, int(matching.uses.max())), units


def _reuse(study: MatchingStudy, units: WeightedUnits, caps: tuple[int, int], most: int) -> Reuse:
    summary = units.summary
    treated, controls = summary.arms
    matched = summary.queries
    unmatched = sum((controls, treated)[arm] for arm in study.estimand.arms) - matched
    return Reuse(study.estimator.ratio, treated, controls, matched, unmatched, caps, most, summary)


def match_stage(study: MatchingStudy, enclave: Enclave) -> Reuse:
    """Store each unit's weight and the pairs of the variance, and return the matching's summary.

    Raises:
        DataError: as of :func:`weigh`; at label level nothing is drawn before.
    """
    reuse, units = weigh(study, enclave.load(SCORES), enclave.load(IN_TREATED))
    save_units(enclave, units)
    return reuse


def _too_small(in_treated: ByteArray, estimand: Estimand, ratio: int) -> bool:
    """Return True if an arm that is searched has fewer than N units."""
    treated = int(np.count_nonzero(in_treated))
    return min((len(in_treated) - treated, treated)[1 - arm] for arm in estimand.arms) < ratio


def _unmatched(study: MatchingStudy, in_treated: ByteArray) -> tuple[Reuse, WeightedUnits]:
    """Return a matching without matched units, all of weight 0."""
    none = np.empty((0, 2), dtype=np.int32)
    units = WeightedUnits.of(np.zeros(len(in_treated), dtype=np.int32), in_treated, 0, (none, none, none))
    return _reuse(study, units, (0, 0), 0), units


SLOT = Slot(name="effect", scope=Scope.all)


def mechanism(study: MatchingStudy) -> Laplace:
    """Return Laplace noise on the estimate and its variance; by the paper on the arms' sums."""
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


def sums(study: MatchingStudy, reuse: Reuse, units: WeightedUnits, in_treated: ByteArray, u: FloatArray) -> FloatArray:
    """Return the two numbers to be released, shape (2,).

    One outcome moves the sum of their absolute values by at most 1. Outcomes are rounded to a public lattice first;
    everything after is exact, up to the last rounding.

    Args:
        study: the study.
        reuse: summary of the matching.
        units: the matching.
        in_treated: shape (n,), 1 for units of the treated arm, 0 for controls.
        u: outcomes, shape (n,), in [-1, 1].
    """
    if reuse.queries == 0:
        return np.zeros(2)
    if study.estimator.variant is Variant.ours:
        return weighted_means.sums(units, in_treated, u, mechanism(study).cost)
    exponent = sums_exponent(2 * reuse.ratio * len(in_treated), 1)
    per_arm = arm_sums(units.weights, in_treated, u, exponent)
    parts = zip(per_arm, reuse.caps, strict=True)
    return np.array([float(Fraction(total, (cap + reuse.ratio) << (exponent + 1))) for total, cap in parts])


def perturb_stage(study: MatchingStudy, enclave: Enclave, reuse: Reuse, budget: Budget) -> FloatArray:
    """Release the sums of outcomes under the weights that ``match`` stored."""
    units = open_units(enclave, reuse.weights)
    exact = sums(study, reuse, units, enclave.load(IN_TREATED), enclave.load(OUTCOME))
    return mechanism(study).release(exact, SLOT, budget)
