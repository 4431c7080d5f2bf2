"""Weigh units by public columns: all alike, by inverse chances, or matched.

Weights are functions of public columns. One outcome moves the estimate by at most the largest weight that occurs times
the outcome's width, however large a weight a clip would allow (``docs/proofs/balancing.md``, sections 1 to 4). The
imbalance that weights leave is public too: it is measured and widens the interval (section 4;
``docs/proofs/matching.md``, section 5).

All alike is the difference of arm means: in a randomised trial the effect, elsewhere unadjusted. What is said of any
such difference stands here too; where treatment is private it is ``tasks/estimate/difference.py``.
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
from causalveil.tasks.estimate.models.lattice_sums import CHUNK
from causalveil.tasks.estimate.models.logistic import clipped_scores, fit, fit_scaled
from causalveil.tasks.estimate.models.nearest import traversal
from causalveil.tasks.estimate.papers.ipw.weights import weights
from causalveil.tasks.estimate.papers.matching import weights as matching_weights
from causalveil.tasks.estimate.papers.matching.scores import COEFFICIENT_LATTICE, exact_scores
from causalveil.tasks.estimate.weights.features import Aim, Balancer, Weighing, imbalance
from causalveil.tasks.estimate.weights.weighted_means import WeightedUnits, count_arms, weigh_units
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray
from causalveil.tasks.machine.distribute import map_partitions

# What no interval covers: by inverse chances, and of matched units without and with a trial.
OPEN_BY_CHANCES = (limit(Code.unmeasured), limit(Code.curves_beyond_index))
OPEN_MATCHED = (limit(Code.unmeasured), limit(Code.curves_beyond_cells))
OPEN_IN_TRIAL = (limit(Code.not_randomised), limit(Code.matching))


def confounding(estimator: DifferenceEstimator) -> ConfoundingStatement:
    """Return what was done about confounding: arm means are compared as they are."""
    return RANDOMISED if estimator.trial else AS_THEY_ARE


def not_covered(estimator: DifferenceEstimator) -> tuple[Limit, ...]:
    """Return what no interval covers."""
    return (limit(Code.not_randomised if estimator.trial else Code.beyond_prior),)


def covers(estimator: DifferenceEstimator) -> tuple[Limit, ...]:
    """Return what intervals allow for beside sampling and noise."""
    return () if estimator.bias() == 0 else (limit(Code.confounding_of_prior),)


def weigh_alike(
    study: DifferenceStudy, rows: Enclave, louder: float = 1.0, everybody: Enclave | None = None
) -> tuple[Weighing, WeightedUnits]:
    """Weigh all units alike, who are paired at random within their arm.

    Args:
        study: the study.
        rows: of the arms that are compared.
        louder: how loud the noise is, which changes no weight.
        everybody: units of other arms, whom the average is not over.

    Raises:
        DataError: an arm has no unit; nothing was drawn.
    """
    del louder, everybody
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


def weigh_by_chances(
    study: IpwStudy, rows: Enclave, louder: float = 1.0, everybody: Enclave | None = None
) -> tuple[Weighing, WeightedUnits]:
    """Weigh every unit by its inverse chance (Hajek), and measure the imbalance that is left.

    Args:
        study: the study.
        rows: of the arms that are compared.
        louder: how loud the noise is, which changes no weight.
        everybody: units of other arms, whom scores are not of.

    Raises:
        DataError: an arm has no unit; nothing was drawn.
        ConvergenceError: the propensity model was not found.
    """
    del louder, everybody
    settings, t = study.estimator, rows.gather("t")
    count_arms(t)
    coefficients = fit_scaled(rows.rows, rows.segments, len(t), settings.penalty, study.execution.workers)
    weight, score = _weights_and_scores(study, rows, coefficients)
    for arm in (t == 0, t != 0):
        weight[arm] /= weight[arm].mean()
    balancer, _ = Balancer.of(study, rows, len(t))
    aim = Aim.of(balancer, study.estimand)
    units = weigh_units(weight, t, aim.queries, score)
    found = imbalance(balancer, units, aim)
    # Where treatment is declared to be randomised imbalance is chance, which the sampling variance holds.
    bias = found.bias if settings.bias() > 0 else 0.0
    weighing = Weighing(
        weights=units.summary,
        bias=bias,
        confounding=partly_if_left(settings, AdjustmentMethod.weighting, found.left if bias > 0 else 0.0),
        covers=(covers_imbalance(),) if bias > 0 else (),
        not_covered=open_to(settings, *OPEN_BY_CHANCES, *balancer.features.narrow.limits),
        details=found.details,
    )
    return weighing, units


def _weights_and_scores(study: IpwStudy, enclave: Enclave, coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Every unit's weight and score before it is clipped, shape (n,), segment by segment."""

    def of(segment: int) -> FloatArray:
        rows = enclave.rows(segment)
        windows = [slice(first, first + CHUNK) for first in range(0, len(rows), CHUNK)]
        return np.concatenate([np.empty((2, 0)), *(chunk(Rows(rows.x[w], rows.t[w], rows.u[:0])) for w in windows)], 1)

    def chunk(rows: Rows) -> FloatArray:
        clipped = clipped_scores(rows.x, coefficients, study.estimator.clip)
        return np.stack([weights(study.estimand, clipped, rows.t), clipped_scores(rows.x, coefficients, (0.0, 1.0))])

    both = np.concatenate(map_partitions(of, enclave.segments, study.execution.workers), axis=1)
    return both[0], both[1]


def weigh_matched(
    study: MatchingStudy, rows: Enclave, louder: float = 1.0, everybody: Enclave | None = None
) -> tuple[Weighing, WeightedUnits]:
    """Match units on a public propensity score, and measure the imbalance that is left.

    Args:
        study: the study.
        rows: of the arms that are compared.
        louder: by how much the noise is larger than that of a draw of its own.
        everybody: units of other arms, which matching does not use.

    Raises:
        DataError: an arm has no unit, or fewer than are asked for, or none near enough; nothing was drawn.
    """
    del everybody
    settings = study.estimator
    scores, in_treated, order = scored(study, rows)
    count_arms(in_treated)
    reuse, units = matching_weights.weigh(_as_loud(study, louder), scores, in_treated)
    units = units.in_rows(order)
    balancer, _ = Balancer.of(study, rows, len(order))
    # Where a caliper leaves units unmatched, the matched arms keep neither the means of all units nor of one arm.
    found = imbalance(balancer, units, Aim.of(balancer, study.estimand), halfway=reuse.unmatched > 0)
    allows = settings.bias() > 0
    not_covered = (*OPEN_MATCHED, *balancer.features.narrow.limits)
    weighing = Weighing(
        weights=units.summary,
        bias=found.bias if allows else 0.0,
        confounding=partly_if_left(settings, AdjustmentMethod.matching, found.left),
        covers=(covers_imbalance(),) if allows else (),
        not_covered=OPEN_IN_TRIAL if declares_randomised(settings.model_dump()) else not_covered,
        details={**found.details, **reuse.details},
    )
    return weighing, units


def _as_loud(study: MatchingStudy, louder: float) -> MatchingStudy:
    """The study with the epsilon whose noise is the outcome's, by which adaptive caps are chosen."""
    epsilon = Decimal(repr(float(study.privacy.epsilon) / louder))
    return study.model_copy(update={"privacy": study.privacy.model_copy(update={"epsilon": epsilon})})


def scored(study: MatchingStudy, rows: Enclave) -> tuple[FloatArray, ByteArray, IntArray]:
    """Return public scores and arms in the order of traversal, and that order."""
    units, penalty, workers = sum(map(len, rows.hashes())), study.estimator.penalty, study.execution.workers
    w = rows.once(("propensity", penalty), lambda: fit(rows.rows, rows.segments, units, penalty, workers))
    # Where the solver stops depends on the order of rows in the eleventh digit, and near ties would show it.
    w = np.rint(w * COEFFICIENT_LATTICE) / COEFFICIENT_LATTICE
    order = traversal(rows)
    scores = np.concatenate([exact_scores(rows.rows(index), w) for index in range(rows.segments)])
    return scores[order], rows.gather("t")[order], order
