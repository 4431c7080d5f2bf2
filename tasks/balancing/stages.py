"""The stages of a balancing study.

Every unit's weight comes from public columns; one draw adds noise, and the interval allows for it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from causalveil.schemas.confounding import AdjustmentMethod
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.limits import Code, limit
from causalveil.schemas.study import Estimand
from causalveil.tasks.balancing.dual import (
    Solution,
    Sums,
    arm_sums_of,
    choose,
    deviation_of_noise,
    solutions,
    solve,
    weighed,
    weights_of,
)
from causalveil.tasks.enclave.enclave import Enclave, Rows
from causalveil.tasks.inference.assemble import (
    EffectFindings,
    covering,
    covers_imbalance,
    open_to,
    partly_if_left,
)
from causalveil.tasks.machine.arrays import BoolArray, FloatArray
from causalveil.tasks.weighting.features import learn_features
from causalveil.tasks.weighting.imbalance import Balance, Balancer, save_units, summary
from causalveil.tasks.weighting.weighted_means import (
    WeightedUnits,
    count_arms,
    weigh_units,
    weighted_findings,
)


def balance(
    study: BalancingStudy, enclave: Enclave, louder: float = 1.0, everybody: Enclave | None = None
) -> tuple[Balance, WeightedUnits]:
    """Weigh every unit.

    Args:
        study: the study.
        enclave: its rows.
        louder: by how much the noise is larger than that of a draw of its own.
        everybody: the units whom an average over everybody is of, where they are more than these two arms.

    Raises:
        DataError: an arm has no unit; nothing was drawn.
    """
    t = enclave.gather("t")
    arms = count_arms(t)
    features, sample = learn_features(study, enclave, len(t))
    balancer = Balancer(enclave, features, study.execution.workers)
    sums, _ = balancer.totals()
    means = sums / np.array(arms)[:, None]
    targets = {Estimand.ATE: sums.sum(axis=0) / len(t), Estimand.ATT: means[1], Estimand.ATC: means[0]}
    target, queries = targets[study.estimand], {Estimand.ATE: len(t), Estimand.ATT: arms[1], Estimand.ATC: arms[0]}
    if everybody is not None:
        totals, counts = Balancer(everybody, features, study.execution.workers).totals()
        target, queries[Estimand.ATE] = totals.sum(axis=0) / counts.sum(), round(float(counts.sum()))
    values, _ = features(sample.x)
    active = [arm for arm in (1, 0) if weighed(study.estimand)[1 - arm]]
    least = max([1 / arms[arm] for arm in (0, 1) if arm not in active], default=0.0)
    paths = [_path(values[(sample.t != 0) == (arm == 1)], target, features.penalties, arms[arm]) for arm in active]
    chosen = choose(paths, least, louder * deviation_of_noise(study.privacy.cost))
    multipliers: list[FloatArray | None] = [None, None]
    caps = [1.0, 1.0]
    for arm, one in zip(active, chosen, strict=True):
        delta = features.penalties / arms[arm]
        evaluate = partial(_arm_sums, balancer, arm, one.cap)
        multipliers[arm] = solve(evaluate, target, delta, arms[arm], one.multipliers)
        caps[arm] = one.cap
    v, index = _weigh(balancer, multipliers, caps)
    for arm in (0, 1):
        _make_whole(v, (t != 0) == (arm == 1))
    units = weigh_units(v, t, queries[study.estimand], index)
    return summary(balancer, units, means, target, (caps[1], caps[0])), units


def _arm_sums(balancer: Balancer, arm: int, cap: float, multipliers: FloatArray) -> Sums:
    """Return the sums over an arm's rows that the dual needs."""

    def of(rows: Rows) -> Sums:
        values, _ = balancer.features(rows.x[(rows.t != 0) == (arm == 1)])
        return arm_sums_of(values, multipliers, cap)

    parts = balancer.over_chunks(of)
    return (
        math.fsum(part[0] for part in parts),
        np.sum([part[1] for part in parts], axis=0),
        np.sum([part[2] for part in parts], axis=0),
    )


def _weigh(
    balancer: Balancer, multipliers: list[FloatArray | None], caps: list[float]
) -> tuple[FloatArray, FloatArray]:
    """Every unit's v and index, shape (n,), segment by segment; None: v = 1. Controls first."""

    def of(rows: Rows) -> FloatArray:
        values, index = balancer.features(rows.x)
        v = np.ones(len(values))
        for arm, own in enumerate(multipliers):
            if own is not None:
                chosen: BoolArray = (rows.t != 0) == (arm == 1)
                v[chosen] = weights_of(values[chosen], own, caps[arm])
        return np.stack([v, index])

    both = np.concatenate(balancer.over_chunks(of), axis=1)
    return both[0], both[1]


def _path(features: FloatArray, target: FloatArray, penalties: FloatArray, units: int) -> list[Solution]:
    """Solutions of an arm; an arm that the sample missed is weighed alike."""
    if len(features):
        found = solutions(features, target, penalties, units)
        if found:
            return found
    alike = np.zeros(len(target))
    alike[0] = 1.0
    return [Solution(1.0, 1 / units, 1.0, alike)]


def _make_whole(v: FloatArray, chosen: BoolArray) -> None:
    """Weights of mean 1; if all are 0, which no solution should give, all alike."""
    mean = float(v[chosen].mean())
    v[chosen] = v[chosen] / mean if mean > 0 else 1.0


def weigh_stage(study: BalancingStudy, enclave: Enclave) -> Balance:
    """Leave every unit's weight and the pairs of the variance; return what may be said of them.

    Raises:
        DataError: an arm has no unit; nothing was drawn.
    """
    found, units = balance(study, enclave)
    save_units(enclave, units)
    return found


NOT_COVERED = (limit(Code.unmeasured), limit(Code.curves_beyond_cells))


def findings(study: BalancingStudy, found: Balance, statistics: FloatArray) -> EffectFindings:
    """Estimate and interval from public and released values."""
    bias = study.estimator.allowance * found.bias
    result = weighted_findings(study, found.weights, statistics, bias)
    interval = result.interval
    if bias > 0:
        interval = covering(interval, covers_imbalance(study.estimator.allowance))
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
    }
    done = partly_if_left(study.estimator, AdjustmentMethod.balancing, found.left if found.narrow.clipped else 0.0)
    left = open_to(study.estimator, *NOT_COVERED, *found.narrow.limits)
    return replace(result, interval=interval, details=details, confounding=done, not_covered=left)
