"""Weigh by inverse chances of treatment (Hajek) where covariates and treatments are public.

Scores, and so weights, are functions of public columns: one outcome moves the estimate by at most the largest weight
that occurs times the outcome's width, however large a weight the clip would allow. Proof: ``docs/proofs/balancing.md``,
sections 1 to 4. What imbalance the weights leave is public too and widens the interval.
"""

from __future__ import annotations

import numpy as np

from causalveil.schemas.confounding import AdjustmentMethod
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.limits import Code, limit
from causalveil.tasks.data.enclave import Enclave, Rows
from causalveil.tasks.estimate.interval import covers_imbalance, open_to, partly_if_left
from causalveil.tasks.estimate.models.lattice_sums import CHUNK
from causalveil.tasks.estimate.models.logistic import clipped_scores, fit_scaled
from causalveil.tasks.estimate.papers.ipw.weights import weights
from causalveil.tasks.estimate.weights.features import Aim, Balancer, Weighing, imbalance
from causalveil.tasks.estimate.weights.weighted_means import WeightedUnits, count_arms, weigh_units
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import map_partitions

NOT_COVERED = (limit(Code.unmeasured), limit(Code.curves_beyond_index))


def weigh(
    study: IpwStudy, rows: Enclave, louder: float = 1.0, everybody: Enclave | None = None
) -> tuple[Weighing, WeightedUnits]:
    """Weigh every unit.

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
        not_covered=open_to(settings, *NOT_COVERED, *balancer.features.narrow.limits),
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
