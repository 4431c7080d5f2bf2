"""Compute inverse probability weights, and release the sums that an effect is made of.

Sums are over the estimation units. Every unit's contributions lie in [-1, 1] by declared bounds, are rounded to a
public lattice and added as whole numbers. So the sums are exact: they depend neither on the order of rows nor on
partitions nor on workers, and float addition cannot widen the sensitivity. One draw of noise is on all sums jointly.
Proofs: ``docs/proofs/ipw.md``, sections 2 to 5.

Hajek weighting, per arm, with a = weight / (the arm's largest possible weight) and u in [-1, 1] the scaled
outcome: ``(a u, a, c a^2 u^2, c a^2 u, c a^2)``, treated first, 10 numbers; c = ``SECOND_MOMENT``. The second
moments are in the same draw and give the sampling variance. Horvitz-Thompson: with v in [-1, 1] the scaled signed
contribution of a unit: ``(v, v^2)``. At label level ``label/weighings.py`` takes their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.estimators.ipw import IpwStudy, Weighting
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Level, Norm, Scope
from causalveil.schemas.study import Estimand, Variant
from causalveil.tasks.data.enclave import Enclave, Rows
from causalveil.tasks.data.split import Halves, Pieces
from causalveil.tasks.estimate.models import lattice_sums
from causalveil.tasks.estimate.models.lattice_sums import LARGEST_EXPONENT, bounded, lattice_exponent
from causalveil.tasks.estimate.models.logistic import clipped_scores
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.privacy.mechanisms import Budget, GaussianClassic, Mechanism, Sensitivity, Slot, vector_mechanism

SUMS = "sums"
# Weights of the second moments in the joint release: a larger value makes their noise smaller and the means'
# noise larger. Interval widths at 0.35 are within 2% of the best constant's for epsilon 0.5 to 1.
SECOND_MOMENT = 0.35


@dataclass(frozen=True)
class Scale:
    """The map of a Horvitz-Thompson contribution k, in outcome units, to (k - middle)/half."""

    middle: float
    half: float


def largest_weights(estimand: Estimand, clip: tuple[float, float]) -> tuple[float, float]:
    """Return the largest weights of a treated unit and a control, for scores within ``clip``."""
    return estimand.weights(clip[0])[0], estimand.weights(clip[1])[1]


def horvitz_thompson_scale(study: IpwStudy) -> Scale:
    """Return the range of a signed contribution, from declared bounds.

    A contribution is weight * y of a treated unit and -weight * y of a control. The paper's is symmetric, C
    max(weights) with C the largest |y|; the exact range is never wider.
    """
    treated, control = largest_weights(study.estimand, study.estimator.clip)
    low, high = study.outcome.lower, study.outcome.upper
    if study.estimator.variant is Variant.paper:
        return Scale(0.0, max(abs(low), abs(high)) * max(treated, control))
    top = max(treated * high, -control * low)
    bottom = min(treated * low, -control * high)
    return Scale((top + bottom) / 2, (top - bottom) / 2)


def weights(estimand: Estimand, scores: FloatArray, t: ByteArray) -> FloatArray:
    """Return each unit's weight, shape (rows,), positive; ``scores`` in the clip interval."""
    return np.where(t != 0, *estimand.weights(scores))


def contributions(study: IpwStudy, rows: Rows, coefficients: FloatArray) -> FloatArray:
    """Return each unit's contributions to the sums, shape (numbers, rows), in [-1, 1].

    Of the Hajek numbers only the five of the unit's arm are returned.
    """
    weight = weights(study.estimand, clipped_scores(rows.x, coefficients, study.estimator.clip), rows.t)
    treated, control = largest_weights(study.estimand, study.estimator.clip)
    u = np.clip(rows.u, -1.0, 1.0)
    if study.estimator.weighting is Weighting.hajek:
        a = np.minimum(weight / np.where(rows.t != 0, treated, control), 1.0)
        au, aa = a * u, SECOND_MOMENT * (a * a)
        return np.stack([au, a, aa * (u * u), aa * u, aa])
    sign = np.where(rows.t != 0, 1.0, -1.0)
    scale = horvitz_thompson_scale(study)
    y = study.outcome.middle + u * (study.outcome.width / 2)
    v = np.clip((sign * weight * y - scale.middle) / scale.half, -1.0, 1.0)
    return np.stack([v, v * v])


def exact_sums(
    study: IpwStudy,
    rows: Callable[[int], Rows],
    segments: int,
    units: int,
    coefficients: FloatArray,
    workers: int = 1,
) -> FloatArray:
    """Return exact sums over all units of contributions on the lattice, shape (numbers,).

    Args:
        study: with estimand, weighting and bounds.
        rows: estimation rows of a segment.
        segments: number of segments.
        units: number of rows of all segments.
        coefficients: released (or public) coefficients of the propensity model, shape (d,).
        workers: threads; the result does not depend on their number.
    """
    bits = lattice_exponent(units)
    step = 2.0**bits
    per_arm = study.estimator.weighting is Weighting.hajek

    def sums_of_chunk(chunk: Rows) -> FloatArray:
        # Whole numbers whose absolute values add up to at most 2^52: every partial sum is exact.
        whole: FloatArray = np.rint(bounded(contributions(study, chunk, coefficients)) * step)
        if not per_arm:
            return np.asarray(whole.sum(axis=1) / step)
        arm = (chunk.t != 0).astype(np.float64)
        return np.concatenate([whole @ arm, whole @ (1 - arm)]) / step

    pieces, numbers = Pieces(rows, segments, units), len(statistic_names(study))
    return lattice_sums.exact_sums(pieces, sums_of_chunk, numbers, workers, bits)


def statistic_names(study: IpwStudy) -> tuple[str, ...]:
    """Return the names of the entries of the sums, in order."""
    if study.estimator.weighting is Weighting.hajek:
        return tuple(f"{arm}:{name}" for arm in ("treated", "control") for name in ("u", "1", "uu", "au", "aa"))
    return "v", "vv"


def sensitivity(study: IpwStudy, sizes: Sizes | None) -> Sensitivity:
    """Bound the L2 distance of the sums' private entries of two tables that differ in one unit.

    sample, Hajek: sqrt(4 + 6 c^2), attained when the unit changes arm; the same formula for every estimand
    since each arm is scaled by its own largest weight. Horvitz-Thompson: 2. To each is added the largest change of two
    units' contributions by rounding to the lattice.
    """
    if study.estimator.weighting is Weighting.hajek:
        c = SECOND_MOMENT
        formula, value = f"sqrt(4 + 6 {c:g}^2)", math.sqrt(4 + 6 * c * c)
    else:
        formula, value = "2", 2.0
    numbers = len(statistic_names(study))
    formula += f" + sqrt({numbers}) 2^-G, G = min({LARGEST_EXPONENT}, 52 - ceil(log2 n)), n estimation units"
    if sizes is None:
        return Sensitivity(value=None, norm=Norm.l2, formula=formula)
    rounding = math.sqrt(numbers) * 2.0 ** -lattice_exponent(sizes.estimation) * (1 + 2.0**-10)
    return Sensitivity(value=(value + rounding) * (1 + 1e-12), norm=Norm.l2, formula=formula)


def weigh_stage(study: IpwStudy, sizes: Sizes, enclave: Enclave, coefficients: FloatArray) -> None:
    """Store the exact sums over the estimation units in the enclave."""
    halves, workers = Halves.open(enclave), study.execution.workers
    sums = exact_sums(study, halves.estimation, halves.segments, sizes.estimation, coefficients, workers)
    enclave.save(SUMS, sums)


SLOT = Slot(name="effect", scope=Scope.estimation)


def mechanism(study: IpwStudy, sizes: Sizes | None) -> Mechanism | None:
    """Return the mechanism of the sums; None at level training_units, which needs none.

    The paper's noise on its estimate (Lee et al. 2019a, section 3.2: sensitivity (2C/n) max weight) is this
    mechanism at sensitivity 2 in units of C max weight, since the square beside it costs nothing.
    """
    if study.privacy.level is Level.training_units:
        return None
    bound = sensitivity(study, sizes)
    if study.estimator.variant is Variant.paper:
        return GaussianClassic(sensitivity=bound, cost=study.privacy.cost)
    return vector_mechanism(bound, study.privacy.cost)


def release(study: IpwStudy, sizes: Sizes, sums: FloatArray, budget: Budget) -> FloatArray:
    """Return the sums with noise on every entry.

    Args:
        study: the study.
        sizes: numbers of units.
        sums: exact sums, shape (numbers,), in the order of ``statistic_names``.
        budget: of the release.
    """
    release_by = mechanism(study, sizes)
    return sums if release_by is None else release_by.release(sums, SLOT, budget)


def perturb_stage(study: IpwStudy, sizes: Sizes, enclave: Enclave, budget: Budget) -> FloatArray:
    """Release the sums that ``weigh`` stored; shape as of :func:`release`."""
    return release(study, sizes, enclave.load(SUMS), budget)
