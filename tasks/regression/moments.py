"""Release 2: cross moments of features with residuals and with treatment, and the Gram matrix, which is free.

Rows xs in the unit ball, rho = (u - m_t)/L cut to [-1, 1], tau = (t - p)/max(p, 1 - p): the vector (sum xs rho,
sum xs tau, sum rho^2, sum xs xs') with the Frobenius norm for the matrix has sensitivity sqrt(8), which is what its
first two parts have at opposite rows alone. With s = 1 for treated and -1 for controls, (sum s xs xs'/2, sum .49 s xs
rho) beside it tell the arms apart and make that 3. So do .352 (sum s zs rho, sum s zs zs', sum s zs vs'), with
zs the lines alone and vs squares and products, each in a unit ball of their own, where products are too noisy to be
told apart (``docs/proofs/regression.md``, section 2).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.models.lattice_sums import exact_sums, on_lattice
from causalveil.tasks.models.triangles import symmetric, triangle_weights
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.lines.joint import JointMoments

# By what the differences of the arms' Gram matrices and cross moments are multiplied, and those of lines in a ball of
# their own with residuals, with themselves and with squares and products.
ARM_GRAM, ARM_CROSS = 0.5, 0.49
LINE_FACTOR = 0.352
# The sensitivities without and with them.
SENSITIVITY, SENSITIVITY_BY_ARM = math.sqrt(8), 3.0
# The mean square of residuals is taken to be at least half its noise and so much.
LEAST_SQUARE = 1e-4
TINY = 1e-12


def moment_numbers(features: int, by_arm: int = 0) -> int:
    """How many numbers release 2 has with d features; ``by_arm``: of so many of them the arms' differences too."""
    across = by_arm * (features - by_arm)
    return features + 1 + sum(count + count * (count + 1) // 2 for count in (features, by_arm)) + across


def arm_factors(features: Features) -> tuple[float, float]:
    """By what the arms' differences are multiplied: of cross moments, and of Gram matrices.

    Of more than two arms each arm's own sums are.
    """
    if len(features.arm_places) == features.count:
        return ARM_CROSS, ARM_GRAM
    return LINE_FACTOR / features.arm_radius, LINE_FACTOR / features.arm_radius**2


def across_factor(features: Features) -> float:
    """By what the arms' differences of lines with squares and products are multiplied, each in a ball of its own."""
    own, count = len(features.arm_places), features.count
    return LINE_FACTOR * count / math.sqrt(own * (count - own)) if 0 < own < count else 0.0


def as_halves(factors: tuple[float, float]) -> tuple[float, float]:
    """Factors of differences of which halves of sum and difference have the noise that an arm's own sums have by these.

    An arm's own sums over a factor f have 1/f of the noise, and halves half of sqrt(1 + 1/f'^2), never less than half.
    """
    cross, gram = (factor / math.sqrt(max(4 - factor**2, TINY)) for factor in factors)
    return cross, gram


def moment_sums(pieces: Pieces, features: Features, workers: int = 1) -> FloatArray:
    """The exact sums of release 2: (q, D, square, matrix), then of the features that have them by arm (q, matrix), and
    the matrix of these by all others, row by row.

    The matrix is its upper triangle row by row; entries off the diagonal are multiplied by sqrt(2), so that the
    Euclidean norm of the triangle is the Frobenius norm of the matrix.
    """
    d, scales, own, rest = features.count, features.scales, features.arm_places, features.other_places
    upper, of_own, whole = np.triu_indices(d), np.triu_indices(len(own)), len(own) == d
    treated = on_lattice(np.array([-scales.share, 1 - scales.share]) / scales.larger)

    def of(rows: Rows) -> FloatArray:
        rho = on_lattice(scales.residuals(rows))
        tau = treated[(rows.t != 0).astype(np.intp)]
        cross, apart, gram = np.zeros(d), np.zeros(d), np.zeros((d, d))
        treated_cross, treated_gram = np.zeros(len(own)), np.zeros((len(own), len(own)))
        treated_across = np.zeros((len(own), len(rest)))
        for first, xs in features.blocks(rows.x):
            part = slice(first, first + xs.shape[1])
            apart += xs @ tau[part]
            cross += xs @ rho[part]
            others = xs
            if len(own):
                in_arm = rows.t[part] != 0
                zs = xs[own][:, in_arm]
                treated_cross += zs @ rho[part][in_arm]
                treated_gram += zs @ zs.T
                if not whole:
                    treated_across += zs @ xs[rest][:, in_arm].T
                # Of all features each row is multiplied in its own arm alone.
                others = xs[:, ~in_arm] if whole else xs
            gram += others @ others.T
        if whole:
            gram += treated_gram
        differ = [2 * treated_cross - cross[own], (2 * treated_gram - gram[np.ix_(own, own)])[of_own]]
        across = (2 * treated_across - gram[np.ix_(own, rest)]).ravel()
        return np.concatenate([cross, apart, [rho @ rho], gram[upper], *differ, across])

    numbers, pooled = moment_numbers(d, len(own)), moment_numbers(d)
    sums, (of_cross, of_gram) = exact_sums(pieces, of, numbers, workers), arm_factors(features)
    sums[2 * d + 1 : pooled] *= triangle_weights(d)
    sums[pooled : pooled + len(own)] *= of_cross
    across = numbers - len(own) * len(rest)
    sums[pooled + len(own) : across] *= of_gram * triangle_weights(len(own))
    sums[across:] *= across_factor(features)
    return sums


def moments_from(released: FloatArray, units: int, noise: float, features: Features) -> JointMoments:
    """What the released sums say.

    Args:
        released: of :func:`moment_sums`, noisy.
        units: n.
        noise: standard deviation of the noise on each number.
        features: whose moments they are.
    """
    d, scales = features.count, features.scales
    means, pooled = released / units, moment_numbers(d)
    # tau is (t - p)/max(p, 1 - p), and the mean of (t - p) xs is p (1 - p) D.
    per_tau = scales.larger / scales.between
    apart = means[d : 2 * d] * per_tau
    found = JointMoments(
        cross=means[:d],
        apart=apart,
        square=max(float(means[2 * d]), noise / units / 2 + LEAST_SQUARE),
        gram=symmetric(means[2 * d + 1 : pooled] / triangle_weights(d), d),
        cross_error=noise / units,
        apart_error=noise / units * per_tau,
        gram_error=noise / units * math.sqrt(0.5),
        shifts=features.shifts,
        unseen=features.unseen(apart),
    )
    own = features.arm_places
    if not len(own):
        return found
    of_cross, of_gram = factors = arm_factors(features)
    cross = means[pooled : pooled + len(own)] / of_cross
    triangle, across = np.split(means[pooled + len(own) :], [len(own) * (len(own) + 1) // 2])
    gram = symmetric(triangle / triangle_weights(len(own)), len(own)) / of_gram
    by_arm = told_apart(found, own, cross, gram, scales.share, factors)
    if not len(across):
        return replace(by_arm, across_error=by_arm.gram_error / of_gram)
    of_across = across_factor(features)
    return by_arm.with_across(across.reshape(len(own), -1) / of_across, scales.share, noise / units / of_across)


def told_apart(
    found: JointMoments,
    places: IntArray,
    cross: FloatArray,
    gram: FloatArray,
    share: float,
    factors: tuple[float, float],
) -> JointMoments:
    """Moments of both arms with each arm's own.

    Args:
        found: of both arms.
        places: of the features that are told apart, shape (k,).
        cross, gram: means of s xs rho and of s xs xs' of these, s = 1 for treated and -1 for controls.
        share: p.
        factors: as of :func:`arm_factors`.
    """
    both = found.of(places)
    treated = of_arm(replace(both, cross=both.cross + cross, gram=both.gram + gram), share, factors)
    control = of_arm(replace(both, cross=both.cross - cross, gram=both.gram - gram), 1 - share, factors)
    return replace(found, arms=(treated, control), arm_places=places)


def of_arm(twice: JointMoments, share: float, factors: tuple[float, float]) -> JointMoments:
    """An arm's moments: from twice its sums over n, with the noise of both sums of which they are the half."""
    of_cross, of_gram = factors
    return replace(
        twice,
        cross=twice.cross / (2 * share),
        gram=twice.gram / (2 * share),
        cross_error=twice.cross_error * math.hypot(1, 1 / of_cross) / (2 * share),
        gram_error=twice.gram_error * math.hypot(1, 1 / of_gram) / (2 * share),
    )
