"""Weigh units for the difference of arm means where treatment is public: all alike.

What is said of any difference of arm means stands here too. In a randomised trial the difference is the effect;
elsewhere it is unadjusted. One pair of numbers is released, with noise of 1/(smaller arm). Every unit weighs 1 in its
arm's mean; pairs for the sampling variance are of units at random within an arm. Proof: ``docs/proofs/balancing.md``,
sections 1 to 4. Where treatment is private: ``tasks/estimate/difference.py``.
"""

from __future__ import annotations

import math

import numpy as np

from causalveil.schemas.confounding import AS_THEY_ARE, RANDOMISED, ConfoundingStatement
from causalveil.schemas.estimators.difference import DifferenceEstimator, DifferenceStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.tasks.data.enclave import Enclave
from causalveil.tasks.estimate.models.nearest import traversal
from causalveil.tasks.estimate.weights.features import Weighing
from causalveil.tasks.estimate.weights.weighted_means import WeightedUnits, weigh_units


def confounding(estimator: DifferenceEstimator) -> ConfoundingStatement:
    """Return what was done about confounding: arm means are compared as they are."""
    return RANDOMISED if estimator.trial else AS_THEY_ARE


def not_covered(estimator: DifferenceEstimator) -> tuple[Limit, ...]:
    """Return what no interval covers."""
    return (limit(Code.not_randomised if estimator.trial else Code.beyond_prior),)


def covers(estimator: DifferenceEstimator) -> tuple[Limit, ...]:
    """Return what intervals allow for beside sampling and noise."""
    return () if estimator.bias() == 0 else (limit(Code.confounding_of_prior),)


def weigh(
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
