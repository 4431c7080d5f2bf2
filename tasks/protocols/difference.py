"""A protocol by arm means, of a randomised trial or unadjusted.

Every outcome in every subgroup, from one release.

A cell, a subgroup and an arm, has (w_k u_k, w_k u_k^2/sqrt(2)) for each outcome and its count times sqrt(1/2). A row
lies in one cell, and the vector moves by at most 2, whatever the numbers of subgroups, arms and outcomes
(``docs/proofs/questions.md``, section 5).
"""

from __future__ import annotations

import math

import numpy as np

from causalveil.schemas.estimators.protocols import DifferenceProtocol
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Scope
from causalveil.tasks.enclave.cells import CellRows, everybody
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.inference.people import check_cells
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.lattice_sums import on_lattice, sums_sensitivity
from causalveil.tasks.privacy.mechanisms import Budget, Mechanism, Slot, vector_mechanism
from causalveil.tasks.protocols.calibration import calibrate
from causalveil.tasks.protocols.findings import ProtocolFindings, together
from causalveil.tasks.protocols.parts import Part, Risks, table, with_everybody
from causalveil.tasks.protocols.releases import by_block, one_hot
from causalveil.tasks.trial.difference import confounding, words

SLOT = Slot(name="effect", scope=Scope.all)
HALF = math.sqrt(0.5)
# An arm's noisy number of units below so many noise deviations carries no mean.
FLOOR_DEVIATIONS = 8.0
# No mean square about a mean is taken to be smaller, in u.
LEAST_VARIANCE = 1e-6


def numbers(study: DifferenceProtocol) -> int:
    """Return the number of sums that the release has in a subgroup."""
    return len(study.arm_names) * (2 * len(study.outcomes) + 1)


def mechanism(study: DifferenceProtocol, sizes: Sizes | None) -> Mechanism:
    """Return the mechanism that releases the sums.

    Raises:
        StudyError: more cells than the budget can serve.
    """
    units = None if sizes is None else sizes.units
    made = vector_mechanism(sums_sensitivity(len(study.groups) * numbers(study), units), study.privacy.cost)
    if units is not None:
        check_cells(units, len(study.groups), len(study.arm_names), FLOOR_DEVIATIONS * made.known_scale / HALF)
    return made


def weights(study: DifferenceProtocol) -> FloatArray:
    """Return the factors of a subgroup's exact sums, shape (2 outcomes + 1, arms)."""
    w = np.array(study.weights)
    column: FloatArray = np.concatenate([w, w * HALF, [HALF]])
    return np.repeat(column[:, None], len(study.arm_names), axis=1)


def sums(study: DifferenceProtocol, enclave: Enclave) -> FloatArray:
    """Return the sums before their noise, shape (groups * numbers,)."""
    arms = len(study.arm_names)

    def of(rows: CellRows) -> FloatArray:
        u, own = on_lattice(rows.u), one_hot(rows.t, arms)
        return np.concatenate([(u.T @ own).ravel(), ((u * u).T @ own).ravel(), own.sum(axis=0)])

    groups = len(study.groups)
    blocks = by_block(everybody(enclave), [of] * groups, [numbers(study)] * groups, study.execution.workers)
    weighted = weights(study).ravel()
    return np.concatenate([block * weighted for block in blocks])


def findings(study: DifferenceProtocol, sizes: Sizes, released: FloatArray) -> ProtocolFindings:
    """Return the table from released sums.

    The mean of a cell is off by (e_sum - mean e_count)/count for the noisy count, so two arms whose counts share noise
    have errors that depend on each other; a second moment's noise enters the sampling variance, of which a deviation of
    noise is added.
    """
    q, groups, arms = len(study.outcomes), len(study.groups), len(study.arm_names)
    noise = mechanism(study, sizes).known_scale
    blocks = released.reshape(groups, 2 * q + 1, arms) / weights(study)
    counts, in_counts = blocks[:, -1, :], (noise / HALF) ** 2 * np.eye(arms)
    if groups == 1 and not study.where:
        # The arms add up to what is public: what one has too much the others have too little.
        counts = counts + (sizes.units - counts.sum()) / arms
        in_counts -= (noise / HALF) ** 2 / arms
    count_noise = math.sqrt(in_counts[0, 0])
    clear = counts >= FLOOR_DEVIATIONS * count_noise
    safe = np.maximum(counts, 1.0)
    parts, said = [], words(study.estimator)
    for group, label in enumerate(study.groups):
        for outcome, weight in enumerate(study.weights):
            half = study.outcomes[outcome].width / 2
            means = np.clip(blocks[group, outcome] / safe[group], -1, 1)
            squares = blocks[group, q + outcome] / safe[group]
            square_noise = math.hypot(noise / weight / HALF, 2 * noise / weight)
            within = np.maximum(squares - means**2, LEAST_VARIANCE) + square_noise / safe[group]
            variance = np.minimum(within, 1.0) / safe[group]
            errors = (noise / weight) ** 2 * np.eye(arms) + in_counts * np.outer(means, means)
            errors /= np.outer(safe[group], safe[group])
            for arm in range(1, arms):
                both, own = [0, arm], np.ix_([arm, 0], [arm, 0])
                risks = None
                if study.ratios and study.outcomes[outcome].counts_events:
                    shares = study.outcomes[outcome].middle + half * means
                    of_both = (errors[own] + np.diag(variance[[arm, 0]])) * half**2
                    risks = Risks((float(shares[arm]), float(shares[0])), of_both)
                spread = math.sqrt(float(np.minimum(within[both], 1.0).mean())) * half
                parts.append(
                    Part(
                        outcome=outcome,
                        group=label,
                        arm=study.arm_names[arm],
                        answered=bool(clear[group][both].all()),
                        value=float(means[arm] - means[0]) * half,
                        sampling=float(variance[both].sum()) * half**2,
                        noise=float(errors[arm, arm] + errors[0, 0] - 2 * errors[arm, 0]) * half**2,
                        bias=study.estimator.allowed * spread,
                        spread=spread,
                        confounding=confounding(study.estimator),
                        risks=risks,
                    )
                )
    sizes_of = dict.fromkeys(study.arm_names[1:], safe.sum(axis=1).tolist())
    total = float(safe.sum()) if study.where else float(sizes.units)
    parts = with_everybody(study, parts, sizes_of, count_noise * math.sqrt(arms), total)
    answers, calibration = calibrate(study, parts, table(study, parts))
    details: dict[str, float | int | str | bool] = {
        "cells": groups * arms,
        **together(len(answers)),
    }
    for group, label in enumerate(study.groups):
        for arm, name in enumerate(study.arm_names):
            details[f"units[{label}][{name}]"] = float(counts[group, arm])
    return ProtocolFindings(answers, (), (), calibration, said["not_covered"], details)


def difference_stage(
    study: DifferenceProtocol, sizes: Sizes, enclave: Enclave, budget: Budget, times: float = 1.0
) -> ProtocolFindings:
    """Release the sums over all units and make the table.

    In rehearsals a row stands for ``times`` units.
    """
    return findings(study, sizes, mechanism(study, sizes).release(sums(study, enclave) * times, SLOT, budget))
