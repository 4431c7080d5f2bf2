"""Match on a public propensity score, and measure the imbalance that is left.

Scores follow a line in the covariates, and caps and ties keep neighbours apart: how far the matched arms still differ
in columns, squares, products, cells and a propensity index is a function of public columns, so it is measured and
allowed for (``docs/proofs/matching.md``, section 5, and ``docs/proofs/balancing.md``, section 4).
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from causalveil.schemas.confounding import AdjustmentMethod, declares_randomised
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.limits import Code, limit
from causalveil.tasks.data.enclave import Enclave
from causalveil.tasks.estimate.interval import covers_imbalance, partly_if_left
from causalveil.tasks.estimate.models.logistic import fit
from causalveil.tasks.estimate.models.nearest import traversal
from causalveil.tasks.estimate.papers.matching import weights
from causalveil.tasks.estimate.papers.matching.scores import COEFFICIENT_LATTICE, exact_scores
from causalveil.tasks.estimate.weights.features import Aim, Balancer, Weighing, imbalance
from causalveil.tasks.estimate.weights.weighted_means import WeightedUnits, count_arms
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray

OF_TRIAL = (limit(Code.not_randomised), limit(Code.matching))
NOT_COVERED = (limit(Code.unmeasured), limit(Code.curves_beyond_cells))


def weigh(
    study: MatchingStudy, rows: Enclave, louder: float = 1.0, everybody: Enclave | None = None
) -> tuple[Weighing, WeightedUnits]:
    """Match and weigh every unit.

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
    reuse, units = weights.weigh(_as_loud(study, louder), scores, in_treated)
    units = units.in_rows(order)
    balancer, _ = Balancer.of(study, rows, len(order))
    # Where a caliper leaves units unmatched, the matched arms keep neither the means of all units nor of one arm.
    found = imbalance(balancer, units, Aim.of(balancer, study.estimand), halfway=reuse.unmatched > 0)
    allows = settings.bias() > 0
    weighing = Weighing(
        weights=units.summary,
        bias=found.bias if allows else 0.0,
        confounding=partly_if_left(settings, AdjustmentMethod.matching, found.left),
        covers=(covers_imbalance(),) if allows else (),
        not_covered=(
            OF_TRIAL if declares_randomised(settings.model_dump()) else (*NOT_COVERED, *balancer.features.narrow.limits)
        ),
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
