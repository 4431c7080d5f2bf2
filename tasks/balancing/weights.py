"""Make balancing weights of both arms, and measure the imbalance that they leave."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from causalveil.schemas.confounding import AdjustmentMethod
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.limits import Code, limit
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
from causalveil.tasks.inference.assemble import covers_imbalance, open_to, partly_if_left
from causalveil.tasks.machine.arrays import BoolArray, FloatArray
from causalveil.tasks.weighting.imbalance import Aim, Balancer, Weighing, imbalance
from causalveil.tasks.weighting.weighted_means import WeightedUnits, count_arms, weigh_units

NOT_COVERED = (limit(Code.unmeasured), limit(Code.curves_beyond_cells))


def weigh(
    study: BalancingStudy, rows: Enclave, louder: float = 1.0, everybody: Enclave | None = None
) -> tuple[Weighing, WeightedUnits]:
    """Weigh every unit.

    Args:
        study: the study.
        rows: of the arms that are compared.
        louder: by how much the noise is larger than that of a draw of its own.
        everybody: the units whom an average over everybody is of, where they are more than these two arms.

    Raises:
        DataError: an arm has no unit; nothing was drawn.
    """
    settings, t = study.estimator, rows.gather("t")
    arms = count_arms(t)
    balancer, sample = Balancer.of(study, rows, len(t))
    features, aim = balancer.features, Aim.of(balancer, study.estimand, everybody)
    values, _ = features(sample.x)
    active = [arm for arm in (1, 0) if weighed(study.estimand)[1 - arm]]
    least = max([1 / arms[arm] for arm in (0, 1) if arm not in active], default=0.0)
    paths = [_path(values[(sample.t != 0) == (arm == 1)], aim.target, features.penalties, arms[arm]) for arm in active]
    chosen = choose(paths, least, louder * deviation_of_noise(study.privacy.cost))
    multipliers: list[FloatArray | None] = [None, None]
    caps = [1.0, 1.0]
    for arm, one in zip(active, chosen, strict=True):
        delta = features.penalties / arms[arm]
        evaluate = partial(_arm_sums, balancer, arm, one.cap)
        multipliers[arm] = solve(evaluate, aim.target, delta, arms[arm], one.multipliers)
        caps[arm] = one.cap
    v, index = _weigh(balancer, multipliers, caps)
    for arm in (0, 1):
        _make_whole(v, (t != 0) == (arm == 1))
    units = weigh_units(v, t, aim.queries, index)
    found = imbalance(balancer, units, aim)
    details = {
        **found.details,
        "features": features.count,
        "cells": features.cells.count,
        "alone_in_cell": balancer.alone(),
        "cap_treated": caps[1],
        "cap_control": caps[0],
    }
    bias = settings.allowance * found.bias
    weighing = Weighing(
        weights=units.summary,
        bias=bias,
        confounding=partly_if_left(
            settings, AdjustmentMethod.balancing, found.left if features.narrow.clipped else 0.0
        ),
        covers=(covers_imbalance(settings.allowance),) if bias > 0 else (),
        not_covered=open_to(settings, *NOT_COVERED, *features.narrow.limits),
        details=details,
    )
    return weighing, units


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
