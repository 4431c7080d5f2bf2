"""The stages of a balancing study behind its weights: one draw, and the interval."""

from __future__ import annotations

from dataclasses import replace

from causalveil.schemas.confounding import AdjustmentMethod
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.privacy import Scope
from causalveil.tasks.balancing.weights import Balance, open_units
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.confounding import COVERS_IMBALANCE, UNMEASURED, partly_if_left
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.weighted.interval import weighted_findings
from causalveil.tasks.models.weighted.perturb import mechanism, sums
from causalveil.tasks.privacy.mechanisms import Budget, Slot

SLOT = Slot(name="effect", scope=Scope.all)
NOT_COVERED = (
    f"{UNMEASURED}; non-linear confounding beyond squares, products, joint cells of coarse covariates and the "
    "propensity index"
)


def perturb_stage(study: BalancingStudy, enclave: Enclave, found: Balance, budget: Budget) -> FloatArray:
    """Release what the outcomes add up to under the weights that ``weigh`` left."""
    exact = sums(open_units(enclave, found), enclave.gather("t"), enclave.gather("u"), study.privacy.cost)
    return mechanism(study.privacy.cost).release(exact, SLOT, budget)


def findings(study: BalancingStudy, found: Balance, statistics: FloatArray) -> EffectFindings:
    """Estimate and interval from public and released values."""
    bias = study.estimator.allowance * found.bias
    result = weighted_findings(study, found.weights, statistics, bias)
    interval = result.interval
    if bias > 0:
        interval = interval.model_copy(update={"covers": (*interval.covers, COVERS_IMBALANCE)})
    treated, control = found.caps
    details = {
        **result.details,
        "features": found.features,
        "cells": found.cells,
        "alone_in_cell": found.alone,
        "largest_difference_before": found.before,
        "largest_difference_after": found.after,
        "cap_treated": treated,
        "cap_control": control,
        "not_covered": "; ".join([NOT_COVERED, *found.narrow.words]),
    }
    done = partly_if_left(AdjustmentMethod.balancing, found.left if found.narrow.clipped else 0.0)
    return replace(result, interval=interval, details=details, confounding=done)


def interval_stage(study: BalancingStudy, found: Balance, statistics: FloatArray) -> EffectFindings:
    """The last stage: reads nothing but public and released values."""
    return findings(study, found, statistics)
