"""Weigh units by public columns: equally, by inverse propensity, or by matching.

Weights are functions of public columns. One outcome moves the estimate by at most the largest weight that occurs times
the outcome's width, however large a weight a clip would allow (``docs/proofs/balancing.md``, sections 1 to 4). The
imbalance that weights leave is public too: it is measured and widens the interval (section 4;
``docs/proofs/matching.md``, section 5).

Equal weights give the difference of arm means: in a randomised trial the effect, elsewhere unadjusted. Its confounding
statements stand here; where treatment is private ``tasks/estimate/difference.py`` computes it.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from causalveil.schemas.confounding import (
    AS_THEY_ARE,
    RANDOMISED,
    AdjustmentMethod,
    ConfoundingStatement,
    declares_randomised,
)
from causalveil.schemas.estimators.difference import DifferenceEstimator, DifferenceStudy
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.tasks.data.enclave import Enclave, Rows
from causalveil.tasks.estimate.interval import covers_imbalance, open_to, partly_if_left
from causalveil.tasks.estimate.models.logistic import clipped_scores, fit_scaled
from causalveil.tasks.estimate.models.nearest import traversal
from causalveil.tasks.estimate.papers.ipw.weights import weights
from causalveil.tasks.estimate.papers.matching import weights as matching_weights
from causalveil.tasks.estimate.papers.matching.scores import exact_scores, fitted, rounded
from causalveil.tasks.estimate.weights.features import Aim, Balancer, Weighing, imbalance
from causalveil.tasks.estimate.weights.weighted_means import WeightedUnits, count_arms, weigh_units
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray

# Sources of error that no interval covers: of inverse propensity weights, and of matching without and with a trial.
OPEN_WEIGHTED = (limit(Code.unmeasured), limit(Code.curves_beyond_index))
OPEN_MATCHED = (limit(Code.unmeasured), limit(Code.curves_beyond_cells))
OPEN_IN_TRIAL = (limit(Code.not_randomised), limit(Code.matching))


def confounding(estimator: DifferenceEstimator) -> ConfoundingStatement:
    """Return the statement on confounding: arm means are compared without adjustment."""
    return RANDOMISED if estimator.trial else AS_THEY_ARE


def not_covered(estimator: DifferenceEstimator) -> tuple[Limit, ...]:
    """Return the sources of error that no interval covers."""
    return (limit(Code.not_randomised if estimator.trial else Code.beyond_prior),)


def covers(estimator: DifferenceEstimator) -> tuple[Limit, ...]:
    """Return the sources of error that intervals cover beside sampling and noise."""
    return () if estimator.bias() == 0 else (limit(Code.confounding_of_prior),)


def weigh_equally(
    study: DifferenceStudy, rows: Enclave, times_noise: float = 1.0, all_arms: Enclave | None = None
) -> tuple[Weighing, WeightedUnits]:
    """Weigh all units equally, and pair them at random within their arm.

    Args:
        study: the study.
        rows: of the arms that are compared.
        times_noise: factor of the noise, which changes no weight.
        all_arms: units of all arms; not used.

    Raises:
        DataError: an arm has no unit; nothing was drawn.
    """
    del times_noise, all_arms
    order = traversal(rows)
    units = weigh_units(np.ones(len(order)), rows.gather("t")[order], len(order)).in_rows(order)
    settings, squares = study.estimator, float(sum(units.summary.weight_squares))
    weighing = Weighing(
        weights=units.summary,
        bias=settings.bias() / math.sqrt(squares),
        confounding=confounding(settings),
        covers=covers(settings),
        not_covered=not_covered(settings),
        details={},
    )
    return weighing, units


def weigh_by_propensity(
    study: IpwStudy, rows: Enclave, times_noise: float = 1.0, all_arms: Enclave | None = None
) -> tuple[Weighing, WeightedUnits]:
    """Weigh units by their inverse propensity (Hajek), and measure the imbalance that is left.

    Args:
        study: the study.
        rows: of the arms that are compared.
        times_noise: factor of the noise, which changes no weight.
        all_arms: units of all arms; not used.

    Raises:
        DataError: an arm has no unit; nothing was drawn.
        ConvergenceError: the propensity model was not found.
    """
    del times_noise, all_arms
    settings, t = study.estimator, rows.gather("t")
    count_arms(t)
    coefficients = fit_scaled(rows.rows, rows.segments, len(t), settings.penalty, study.execution.workers)
    balancer, _ = Balancer.of(study, rows, len(t))
    weight, score = _weights_and_scores(study, balancer, coefficients)
    for arm in (t == 0, t != 0):
        weight[arm] /= weight[arm].mean()
    aim = Aim.of(balancer, study.estimand)
    units = weigh_units(weight, t, aim.queries, score)
    left = imbalance(balancer, units, aim)
    # Where treatment is declared to be randomised imbalance is chance, which the sampling variance holds.
    bias = left.bias if settings.bias() > 0 else 0.0
    weighing = Weighing(
        weights=units.summary,
        bias=bias,
        confounding=partly_if_left(settings, AdjustmentMethod.weighting, left.left if bias > 0 else 0.0),
        covers=(covers_imbalance(),) if bias > 0 else (),
        not_covered=open_to(settings, *OPEN_WEIGHTED, *balancer.features.narrow.limits),
        details=left.details,
    )
    return weighing, units


def _weights_and_scores(study: IpwStudy, balancer: Balancer, coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return all units' weights, and their scores before they are clipped, each shape (n,)."""

    def weights_and_scores(rows: Rows) -> FloatArray:
        clipped = clipped_scores(rows.x, coefficients, study.estimator.clip)
        return np.stack([weights(study.estimand, clipped, rows.t), clipped_scores(rows.x, coefficients, (0.0, 1.0))])

    both = np.concatenate(balancer.over_chunks(weights_and_scores), axis=1)
    return both[0], both[1]


def weigh_matched(
    study: MatchingStudy, rows: Enclave, times_noise: float = 1.0, all_arms: Enclave | None = None
) -> tuple[Weighing, WeightedUnits]:
    """Match units on a public propensity score, and measure the imbalance that is left.

    Args:
        study: the study.
        rows: of the arms that are compared.
        times_noise: factor of the noise over that of a draw of this question alone.
        all_arms: units of all arms; not used.

    Raises:
        DataError: an arm has no unit, or fewer than a match needs, or none near enough; nothing was drawn.
    """
    del all_arms
    settings = study.estimator
    scores, in_treated, order = scored(study, rows)
    count_arms(in_treated)
    reuse, units = matching_weights.weigh(_with_noise_of_draw(study, times_noise), scores, in_treated)
    units = units.in_rows(order)
    balancer, _ = Balancer.of(study, rows, len(order))
    # Where a caliper leaves units unmatched, the matched arms have neither the means of all units nor of one arm.
    left = imbalance(balancer, units, Aim.of(balancer, study.estimand), halfway=reuse.unmatched > 0)
    allows = settings.bias() > 0
    not_covered = (*OPEN_MATCHED, *balancer.features.narrow.limits)
    weighing = Weighing(
        weights=units.summary,
        bias=left.bias if allows else 0.0,
        confounding=partly_if_left(settings, AdjustmentMethod.matching, left.left),
        covers=(covers_imbalance(),) if allows else (),
        not_covered=OPEN_IN_TRIAL if declares_randomised(settings.model_dump()) else not_covered,
        details={**left.details, **reuse.details},
    )
    return weighing, units


def _with_noise_of_draw(study: MatchingStudy, times_noise: float) -> MatchingStudy:
    """Return the study with the epsilon of the outcome's noise, which adaptive caps depend on."""
    epsilon = Decimal(repr(float(study.privacy.epsilon) / times_noise))
    return study.model_copy(update={"privacy": study.privacy.model_copy(update={"epsilon": epsilon})})


def scored(study: MatchingStudy, rows: Enclave) -> tuple[FloatArray, ByteArray, IntArray]:
    """Return public scores and arms in the order of traversal, and that order."""
    w, order = rounded(fitted(study, sum(map(len, rows.hashes())), rows)), traversal(rows)
    scores = np.concatenate([exact_scores(rows.rows(index), w) for index in range(rows.segments)])
    return scores[order], rows.gather("t")[order], order
