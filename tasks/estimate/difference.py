"""Estimate differences of arm means where treatment is private, in a trial or unadjusted.

One release answers every outcome in every subgroup and arm. A cell, a subgroup and an arm, has (w_k u_k,
w_k u_k^2/sqrt(2)) for each outcome and its count times sqrt(1/2). A row lies in one cell, and the vector moves by at
most 2, whatever the numbers of subgroups, arms and outcomes (``docs/proofs/questions.md``, section 5).

With survey weights a in [0, 1] a cell has v_k and v_k v_k'/sqrt(2) of v_k = a (CENTRE u_k, AROUND): the same 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from causalveil.schemas.estimators.difference import DifferenceStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import PrivacyCost, Scope
from causalveil.tasks.data.cells import CellRows, all_units
from causalveil.tasks.data.enclave import Enclave
from causalveil.tasks.data.split import Pieces
from causalveil.tasks.estimate.adjust.recipe import CLUSTERS, CLUSTERS_L2, CLUSTERS_SHARE, made
from causalveil.tasks.estimate.adjust.releases import by_block, one_hot
from causalveil.tasks.estimate.answers import (
    Part,
    Risks,
    calibrate,
    clusters_statement,
    covered,
    error_details,
    table,
    with_all_units,
    with_statement,
)
from causalveil.tasks.estimate.clusters import (
    ClusteredVariance,
    ClusterTotals,
    Contributions,
    ReleasedTotals,
    codes_of,
)
from causalveil.tasks.estimate.contrasts import contrast_answers
from causalveil.tasks.estimate.findings import simultaneous
from causalveil.tasks.estimate.interval import EFFECTIVE, NOISY, Findings, Noise, means_if_consistent
from causalveil.tasks.estimate.label.weighings import confounding, covers, not_covered
from causalveil.tasks.estimate.models.lattice_sums import bounded, on_lattice, sums_sensitivity, weighed
from causalveil.tasks.estimate.people import FLOOR_DEVIATIONS, check_cells
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.gaussian import divide
from causalveil.tasks.privacy.mechanisms import Budget, Mechanism, Slot, vector_mechanism

SLOT = Slot(name="effect", scope=Scope.all)
HALF = math.sqrt(0.5)
# With survey weights, factors of outcomes and of weights; their squares add up to 1. Noise in both counts alike where
# an arm's mean lies at sqrt(1/2) of half the range from its middle; nearer, noise in outcomes counts more.
CENTRE, AROUND = math.sqrt(2 / 3), math.sqrt(1 / 3)
# The least variance within a cell, in u.
LEAST_VARIANCE = 1e-6


def numbers(study: DifferenceStudy) -> int:
    """Return the number of released sums of a subgroup."""
    each, shared = (2, 1) if study.weights is None else (3, 2)
    return len(study.arm_names) * (each * len(study.outcomes) + shared)


def mechanism(study: DifferenceStudy, sizes: Sizes | None) -> Mechanism:
    """Return the mechanism that releases the sums.

    Raises:
        StudyError: there are more cells than the budget can serve.
    """
    units = None if sizes is None else sizes.units
    release = vector_mechanism(sums_sensitivity(len(study.groups) * numbers(study), units), costs(study)[SLOT.name])
    if units is not None:
        check_cells(
            study.expected_units(units),
            len(study.groups),
            len(study.arm_names),
            FLOOR_DEVIATIONS * noise_of(study, release).deviation / counting(study),
        )
    return release


def costs(study: DifferenceStudy) -> dict[str, PrivacyCost]:
    """Return the cost of each release: of the sums, and of totals of clusters if there are any."""
    if study.clusters is None:
        return {SLOT.name: study.privacy.cost}
    return divide(study.privacy.cost, {SLOT.name: 1 - CLUSTERS_SHARE, CLUSTERS.name: CLUSTERS_SHARE})


def clusters_mechanism(study: DifferenceStudy, sizes: Sizes | None) -> Mechanism | None:
    """Return the mechanism of absolute totals of clusters; None without clusters."""
    if study.clusters is None:
        return None
    numbers = math.prod(made(totals_of(study)).shape)
    units = None if sizes is None else sizes.units
    return vector_mechanism(sums_sensitivity(numbers, units, CLUSTERS_L2), costs(study)[CLUSTERS.name])


def totals_of(study: DifferenceStudy) -> ClusterTotals | None:
    """Return the totals of clusters that a study releases; None without clusters."""
    return None if study.clusters is None else ClusterTotals.of(study, study.clusters, study.outcome_weights)


def draws(study: DifferenceStudy, sizes: Sizes | None) -> list[tuple[Slot, Mechanism | None]]:
    """Return both releases, the second of a study with clusters."""
    return [(SLOT, mechanism(study, sizes)), (CLUSTERS, clusters_mechanism(study, sizes))]


def noise_of(study: DifferenceStudy, own: Mechanism) -> Noise:
    """Return the noise on each sum."""
    return Noise.of(own, len(study.groups) * numbers(study))


def counting(study: DifferenceStudy) -> float:
    """Return the factor of a number of units."""
    return HALF if study.weights is None else AROUND


def weights(study: DifferenceStudy) -> FloatArray:
    """Return the factors of a subgroup's exact sums, shape (numbers of an arm, arms)."""
    w = np.array(study.outcome_weights)
    column: FloatArray = np.concatenate([w, w * HALF, [HALF]])
    if study.weights is not None:
        # An entry of v v' off the diagonal stands for two.
        pairs = [w * CENTRE * AROUND, w * CENTRE**2 * HALF, [AROUND**2 * HALF]]
        column = np.concatenate([w * CENTRE, *pairs, [AROUND]])
    return np.repeat(column[:, None], len(study.arm_names), axis=1)


def sums(study: DifferenceStudy, pieces: Pieces) -> FloatArray:
    """Return the sums over all units before their noise, shape (groups * numbers,)."""
    arms = len(study.arm_names)

    def sums_of_rows(rows: CellRows) -> FloatArray:
        u, in_arm = on_lattice(rows.u), one_hot(rows.t, arms)
        if rows.w is not None:
            a, s = on_lattice(rows.w)[:, None], weighed(u.T, rows.w)
            of_arms = [s @ in_arm, s @ (a * in_arm), (s * s) @ in_arm, a.T @ (a * in_arm), a.T @ in_arm]
            return np.concatenate([array.ravel() for array in of_arms])
        return np.concatenate([(u.T @ in_arm).ravel(), ((u * u).T @ in_arm).ravel(), in_arm.sum(axis=0)])

    groups = len(study.groups)
    blocks = by_block(pieces, [sums_of_rows] * groups, [numbers(study)] * groups, study.execution.workers)
    weighted = weights(study).ravel()
    return np.concatenate([block * weighted for block in blocks])


@dataclass(frozen=True)
class ArmMeans:
    """Means of all cells by released sums, in u: by subgroup, outcome and arm.

    Attributes:
        counts: noisy numbers of units, shape (groups, arms); where one subgroup holds all units they add up to n.
        count_noise: deviation of the noise on each count.
        means: shape (groups, outcomes, arms).
        within: variance within a cell, with a deviation of its noise added; at most 1; of the same shape.
        errors: covariance by noise of the means of a subgroup's arms, shape (groups, outcomes, arms, arms).
        mixing: of the noise, as in ``Noise``.
        few: sum a^2/sum a of the survey weights a in each cell, shape (groups, arms); 1 without weights.
    """

    counts: FloatArray
    count_noise: float
    means: FloatArray
    within: FloatArray
    errors: FloatArray
    mixing: float | None
    few: FloatArray

    @classmethod
    def of(cls, study: DifferenceStudy, sizes: Sizes, released: FloatArray) -> ArmMeans:
        """Read released sums.

        The mean of a cell has the error (e_sum - mean e_count)/count for the noisy count, so errors of two arms whose
        counts share noise are correlated; noise in second moments enters the sampling variance.
        """
        q, groups, arms = len(study.outcomes), len(study.groups), len(study.arm_names)
        law = noise_of(study, mechanism(study, sizes))
        blocks, noise = released.reshape(groups, -1, arms) / weights(study), law.deviation
        counts, in_counts = blocks[:, -1, :], (noise / counting(study)) ** 2 * np.eye(arms)
        if groups == 1 and study.known_units:
            # The arms add up to the public number of units, so errors of their counts are negatively correlated.
            counts = counts + (sizes.units - counts.sum()) / arms
            in_counts -= (noise / HALF) ** 2 / arms
        safe, own = np.maximum(counts, 1.0)[:, None, :], noise / np.array(study.outcome_weights)
        own = own if study.weights is None else own / CENTRE
        means, few = np.clip(blocks[:, :q] / safe, -1, 1), np.ones((groups, arms))
        if study.weights is None:
            of_squares = np.hypot(own / HALF, 2 * own)[None, :, None] / safe
            within = np.maximum(blocks[:, q:-1] / safe - means**2, LEAST_VARIANCE) + of_squares
        else:
            # Sum a^2 (u - m)^2 over sum a^2, with a deviation of the numerator's noise.
            parts, squares = np.split(blocks, [q, 2 * q, 3 * q, 3 * q + 1], axis=1), blocks[:, [-2]].clip(1.0, safe)
            loud = own[:, None] / CENTRE / HALF, 2 * means * own[:, None] / AROUND, means**2 * noise / HALF / AROUND**2
            about = parts[2] - 2 * means * parts[1] + means**2 * parts[3]
            within = np.maximum(about / squares, LEAST_VARIANCE) + np.sqrt(sum(sd**2 for sd in loud)) / squares
            few = (squares / safe)[:, 0]
        errors = own[:, None, None] ** 2 * np.eye(arms) + in_counts * means[..., :, None] * means[..., None, :]
        errors /= safe[..., :, None] * safe[..., None, :]
        return cls(counts, math.sqrt(in_counts[0, 0]), means, np.minimum(within, 1.0), errors, law.mixing, few)

    @property
    def safe(self) -> FloatArray:
        """Numbers of units by which sums are divided, shape (groups, arms)."""
        return np.maximum(self.counts, 1.0)

    @property
    def variances(self) -> FloatArray:
        """Variance of each mean by sampling, shape (groups, outcomes, arms)."""
        return self.within * (self.few / self.safe)[:, None, :]

    def part(
        self, study: DifferenceStudy, group: int, outcome: int, arm: int, clustered: ClusteredVariance | None = None
    ) -> Part:
        """Return one answer: an arm's mean less that of the reference.

        ``clustered``: its sampling variance by totals of clusters.
        """
        own, half = [arm, 0], study.outcomes[outcome].width / 2
        means, variance = self.means[group, outcome, own], self.variances[group, outcome, own]
        errors, spread = self.errors[group, outcome][np.ix_(own, own)], self.within[group, outcome, own].mean()
        risks = None
        if study.ratios and study.outcomes[outcome].counts_events:
            first, second = (study.outcomes[outcome].middle + half * means).tolist()
            risks = Risks((first, second), (errors + np.diag(variance)) * half**2)
        return Part(
            outcome=outcome,
            group=study.groups[group],
            arm=study.arm_names[arm],
            answered=bool((self.counts[group, own] >= FLOOR_DEVIATIONS * self.count_noise).all()),
            value=float(means[0] - means[1]) * half,
            sampling=(float(variance.sum()) if clustered is None else clustered.variance) * half**2,
            clustered=None if clustered is None else clustered.times(half**2),
            noise=float(errors[0, 0] + errors[1, 1] - 2 * errors[0, 1]) * half**2,
            bias=study.estimator.bias() * math.sqrt(float(spread)) * half,
            spread=math.sqrt(float(spread)) * half,
            confounding=confounding(study.estimator),
            mixing=self.mixing,
            risks=risks,
        )


# In totals of clusters, an outcome of more than two values is cut at this many deviations from its arm's mean.
CUT = 4.0


@dataclass(frozen=True)
class Influence:
    """Contributions of units to arms' means, cut to [-1, 1] and signed by arm.

    A unit of an arm adds s (u - mean) / limit, s = 1 and -1 in the reference.

    Attributes:
        means: shape (groups, outcomes, arms).
        limits: largest distance of u from the mean, beyond which it is cut; of the same shape.
    """

    means: FloatArray
    limits: FloatArray

    @classmethod
    def of(cls, study: DifferenceStudy, means: ArmMeans) -> Influence:
        """Return the contributions' means and limits, read off released sums."""
        two = np.array([[outcome.two_valued] for outcome in study.outcomes])
        # No outcome lies farther from a mean than the farther end of its range.
        far = 1 + np.abs(means.means)
        limits = np.where(two, far, np.minimum(far, CUT * np.sqrt(means.within)))
        return cls(means.means, limits)

    def contributions(self, means: ArmMeans) -> Contributions:
        """Return how much contributions add to the answers."""
        counts, each = means.safe[:, None, :], np.diagonal(means.errors, axis1=2, axis2=3)
        errors = (np.sqrt(each) / self.limits)[..., None] * np.eye(counts.shape[-1])
        visible = means.counts >= FLOOR_DEVIATIONS * means.count_noise
        answered = visible[:, 0] & visible[:, 1:].any(axis=1)
        over = means.safe.sum(axis=1) * answered
        return Contributions(
            units=(self.limits / counts).swapaxes(0, 1),
            own=(counts * means.within / self.limits**2).swapaxes(0, 1),
            counts=means.safe,
            errors=errors.swapaxes(0, 1),
            shares=np.tile(over / max(float(over.sum()), 1.0), (self.means.shape[1], 1)),
        )

    def of_rows(self, rows: CellRows) -> FloatArray:
        """Return contributions of rows, shape (outcomes, rows); 0 outside every subgroup."""
        arm, here = rows.t.astype(np.intp), np.flatnonzero(rows.g < len(self.means))
        group, contributions = rows.g[here].astype(np.intp), np.zeros((rows.u.shape[1], len(rows)))
        added = (np.clip(rows.u[here], -1, 1) - self.means[group, :, arm[here]]) / self.limits[group, :, arm[here]]
        contributions[:, here] = (np.where(arm[here] == 0, -1.0, 1.0)[:, None] * bounded(added)).T
        return contributions


def clusters_released(
    study: DifferenceStudy,
    sizes: Sizes,
    released: FloatArray,
    pieces: Pieces,
    codes: Callable[[int], Any] | float,
    budget: Budget,
) -> ReleasedTotals:
    """Release absolute totals of clusters.

    Args:
        study: the table, with clusters.
        sizes: the number of units.
        released: the sums, with their noise.
        pieces: all units.
        codes: of the clusters of each piece's rows; in rehearsals the assumed intraclass correlation.
        budget: of the stage.
    """
    totals, mechanism = made(totals_of(study)), made(clusters_mechanism(study, sizes))
    means = ArmMeans.of(study, sizes, released)
    influence, exact = Influence.of(study, means), np.zeros(totals.shape)
    if not isinstance(codes, float):
        added, workers = influence.contributions(means), study.execution.workers
        exact = totals.exact(added, pieces, codes, influence.of_rows, workers)
    released_totals = mechanism.release((exact * totals.factors).ravel(), CLUSTERS, budget)
    noise = Noise.of(mechanism, exact.size).deviation
    return totals.released(released_totals, noise, codes if isinstance(codes, float) else None)


def findings(
    study: DifferenceStudy, sizes: Sizes, released: FloatArray, totals: ReleasedTotals | None = None
) -> Findings:
    """Return the table from released sums, and from totals of clusters if there are any."""
    cell_means = ArmMeans.of(study, sizes, released)
    clustered = None
    if totals is not None:
        contributions = Influence.of(study, cell_means).contributions(cell_means)
        clustered = made(totals_of(study)).read(contributions, totals)
    groups, outcomes, arms = cell_means.means.shape
    parts = [
        cell_means.part(study, group, outcome, arm, None if clustered is None else clustered[outcome][group][arm - 1])
        for group in range(groups)
        for outcome in range(outcomes)
        for arm in range(1, arms)
    ]
    sizes_of = dict.fromkeys(study.arm_names[1:], cell_means.safe.sum(axis=1).tolist())
    total = float(cell_means.safe.sum()) if not study.known_units else float(sizes.units)
    parts = with_all_units(study, parts, sizes_of, cell_means.count_noise * math.sqrt(arms), total, clustered)
    answers, calibration = calibrate(study, parts, table(study, parts))
    details: dict[str, float | int | str | bool] = {
        "cells": groups * arms,
        **simultaneous(len(answers) + len(study.contrasts)),
    }
    name = "units" if study.weights is None else EFFECTIVE
    for label, counts in zip(study.groups, (cell_means.counts / cell_means.few).tolist(), strict=True):
        details |= {f"{name}[{label}][{arm}]": count for arm, count in zip(study.arm_names, counts, strict=True)}
    whole = Findings(
        answers=answers,
        confidence=study.confidence,
        covers=covered(study, answers),
        details=details,
        not_covered=not_covered(study.estimator),
        calibration=calibration,
        clusters=clusters_statement(study, parts, [outcome.name for outcome in study.outcomes]),
        contrasts=contrast_answers(study, parts, answers),
    )
    return _of_one_question(study, whole, cell_means) if study.asks_one else whole


def difference_stage(
    study: DifferenceStudy, sizes: Sizes, enclave: Enclave, budget: Budget, times: float = 1.0
) -> Findings:
    """Release the sums over all units and make the table; a rehearsal's row is ``times`` units."""
    pieces = all_units(enclave, study.weights is not None)
    released = mechanism(study, sizes).release(sums(study, pieces) * times, SLOT, budget)
    if study.clusters is None:
        return findings(study, sizes, released)
    totals = clusters_released(study, sizes, released, pieces, codes_of(enclave), budget)
    return findings(study, sizes, released, totals)


def _of_one_question(study: DifferenceStudy, answers: Findings, cell_means: ArmMeans) -> Findings:
    """Return a table of one row with the means of its arms."""
    middle, half = study.outcome.middle, study.outcome.width / 2
    control, treated = (cell_means.means[0, 0] * half + middle).tolist()
    errors = np.sqrt(cell_means.variances[0, 0] + np.diagonal(cell_means.errors[0, 0])) * half
    details = {
        "mean_treated": treated,
        "mean_control": control,
        "mean_treated_error": float(errors[1]),
        "mean_control_error": float(errors[0]),
    }
    values = means_if_consistent(answers.estimate, (control, treated))
    return replace(
        with_statement(answers, confounding(study.estimator), values=values),
        covers=(*NOISY, *covers(study.estimator)),
        details={**details, **error_details(study, answers)},
    )
