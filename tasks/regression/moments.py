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
from dataclasses import dataclass, field, replace

import numpy as np

from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.models.lattice_sums import exact_sums, on_lattice
from causalveil.tasks.models.triangles import symmetric, triangle_weights
from causalveil.tasks.regression.features import Features

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


@dataclass(frozen=True)
class JointMoments:
    """What release 2 says, as means over the units, with standard deviations of the noise on each entry.

    Attributes:
        cross: q, mean of xs rho, shape (d,).
        apart: D, mean of xs among treated minus among controls, shape (d,).
        square: mean of rho^2, above 0.
        gram: mean of xs xs', shape (d, d), symmetric.
        cross_error, apart_error: of the noise on each entry of q and of D.
        gram_error: of the noise on each entry of the Gram matrix off its diagonal; sqrt(2) times that on it.
        shifts: of what is left of each feature's mean, shape (d,).
        unseen: what is left of a feature's confounding over what it shows, shape (d,), >= 0.
        arms: of treated and of controls alone, D, square and shifts those of both; None: not released.
        arm_places: places of the features that ``arms`` are of.
        across: of treated and of controls, means of these features by all others, shape (arm places, others); None: not
            released.
        across_error: of the noise on each entry of what treated units add to them over n, less what controls do.
    """

    cross: FloatArray
    apart: FloatArray
    square: float
    gram: FloatArray
    cross_error: float
    apart_error: float
    gram_error: float
    shifts: FloatArray
    unseen: FloatArray
    arms: tuple[JointMoments, JointMoments] | None = None
    arm_places: IntArray = field(default_factory=lambda: np.arange(0))
    across: tuple[FloatArray, FloatArray] | None = None
    across_error: float = 0.0

    @property
    def others(self) -> IntArray:
        """Places of the features that ``arms`` are not of."""
        found: IntArray = np.setdiff1d(np.arange(len(self.cross)), self.arm_places)
        return found

    def of(self, places: IntArray) -> JointMoments:
        """Moments of these features alone."""
        known = self.with_arms_of(places)
        across = known.across
        if across is not None:
            kept = np.isin(known.others, places)
            across = (across[0][:, kept], across[1][:, kept]) if kept.any() else None
        return replace(
            self,
            cross=self.cross[places],
            apart=self.apart[places],
            shifts=self.shifts[places],
            unseen=self.unseen[places],
            gram=self.gram[np.ix_(places, places)],
            arms=known.arms,
            arm_places=np.flatnonzero(np.isin(places, known.arm_places)),
            across=across,
        )

    def centred(self) -> tuple[JointMoments, FloatArray]:
        """Moments of all features but the last, a constant, less their projection on it; and its coefficients.

        A row's constant is 1 over the length that it was divided by, so a feature less its coefficient times the
        constant has about mean 0.
        """
        coefficients = self.gram[:-1, -1] / max(float(self.gram[-1, -1]), self.gram_error)
        return self._less(coefficients), coefficients

    def with_arms_of(self, places: IntArray) -> JointMoments:
        """The arms' own moments of no other features than these."""
        if self.arms is None:
            return self
        kept = np.isin(self.arm_places, places)
        one, other = (arm.of(np.flatnonzero(kept)) for arm in self.arms)
        across = self.across
        if not kept.all():
            # Where all features had moments of each arm's own, their Gram matrices hold these by all others.
            treated, control = (arm.gram[np.ix_(kept, ~kept)] for arm in self.arms)
            across = None if len(self.others) else (treated, control)
        return replace(self, arms=(one, other), arm_places=self.arm_places[kept], across=across)

    def part_way(self, arm: JointMoments, share: float, part: float) -> JointMoments:
        """An arm's moments, moved from both arms' to its own by this part of the way.

        Of noise an arm's sums have that of both arms' together, times 1/(2 share), and that of their difference.
        """
        alike = self.of(self.arm_places).without_arms()

        def error(both: float, own: float) -> float:
            sums = both / (2 * share)
            differences = max(own**2 - sums**2, 0.0)
            return math.sqrt(((1 - part) * both + part * sums) ** 2 + part**2 * differences)

        return replace(
            alike,
            cross=alike.cross + part * (arm.cross - alike.cross),
            gram=alike.gram + part * (arm.gram - alike.gram),
            cross_error=error(self.cross_error, arm.cross_error),
            gram_error=error(self.gram_error, arm.gram_error),
        )

    def with_across(self, apart: FloatArray, share: float, error: float) -> JointMoments:
        """With each arm's own means of lines by all other features.

        Args:
            apart: what treated units add to them over n, less what controls do, shape (arm places, others).
            share: p.
            error: standard deviation of the noise on each entry of it.
        """
        both = self.gram[np.ix_(self.arm_places, self.others)]
        across = (both + apart) / (2 * share), (both - apart) / (2 * (1 - share))
        return replace(self, across=across, across_error=error)

    def without_arms(self) -> JointMoments:
        """Both arms' moments together alone."""
        return replace(self, arms=None, arm_places=np.arange(0), across=None)

    def _less(self, coefficients: FloatArray) -> JointMoments:
        """Moments of all features but the last, each less its coefficient, shape (d - 1,), times the last."""
        across = np.outer(coefficients, self.gram[:-1, -1])
        own = float(self.gram[-1, -1]) * np.outer(coefficients, coefficients)
        arms, of_both = self.arms, self.across
        if arms is not None:
            of_arms, of_others = coefficients[self.arm_places[:-1]], coefficients[self.others]
            if of_both is not None:
                of_both = self._less_across(of_both, arms, of_arms, of_others)
            arms = arms[0]._less(of_arms), arms[1]._less(of_arms)
        return replace(
            self,
            cross=self.cross[:-1] - coefficients * self.cross[-1],
            apart=self.apart[:-1] - coefficients * self.apart[-1],
            shifts=self.shifts[:-1],
            unseen=self.unseen[:-1],
            gram=self.gram[:-1, :-1] - across - across.T + own,
            arms=arms,
            arm_places=self.arm_places[:-1],
            across=of_both,
        )

    @staticmethod
    def _less_across(
        across: tuple[FloatArray, FloatArray],
        arms: tuple[JointMoments, JointMoments],
        lines: FloatArray,
        others: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """The same of lines by all others, which the last of the lines is taken from."""
        one, other = (
            found[:-1] - np.outer(lines, found[-1]) - np.outer(arm.gram[:-1, -1] - lines * arm.gram[-1, -1], others)
            for found, arm in zip(across, arms, strict=True)
        )
        return one, other

    def left_alike(self, lines: IntArray, slopes: FloatArray, weights: FloatArray, between: float, units: int) -> float:
        """How clearly the other features still part the arms as they move the outcome once lines are adjusted for.

        The sum over these features of what is left of q times what is left of D, each in units of its mean square, over
        its standard deviation by noise and sampling where lines leave nothing: about standard normal there.

        Args:
            lines: places of the features that are adjusted for.
            slopes: b of all features, 0 at other places, shape (d,).
            weights: h of all features, likewise.
            between: p (1 - p).
            units: n.
        """
        within = self.gram - between * np.outer(self.apart, self.apart)
        rest = np.setdiff1d(np.arange(len(self.cross)), lines)
        size = np.maximum(np.diagonal(within)[rest], self.gram_error)
        cross, apart = (self.cross - within @ slopes)[rest], (self.apart - within @ weights)[rest]
        of_gram = self.gram_error**2
        cross_square = self.cross_error**2 + of_gram * float(slopes @ slopes) + size * self.square / units
        apart_square = self.apart_error**2 + of_gram * float(weights @ weights) + size / (units * between)
        variance = cross_square * apart_square
        variance += cross_square * np.maximum(apart**2 - apart_square, 0.0)
        variance += apart_square * np.maximum(cross**2 - cross_square, 0.0)
        # The same noise of the Gram matrix is in both.
        alike = cross * apart - of_gram * float(slopes @ weights)
        return float(np.sum(alike / size)) / math.sqrt(float(np.sum(variance / size**2)))


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
    found = JointMoments(
        cross=means[:d],
        apart=means[d : 2 * d] * per_tau,
        square=max(float(means[2 * d]), noise / units / 2 + LEAST_SQUARE),
        gram=symmetric(means[2 * d + 1 : pooled] / triangle_weights(d), d),
        cross_error=noise / units,
        apart_error=noise / units * per_tau,
        gram_error=noise / units * math.sqrt(0.5),
        shifts=features.shifts,
        unseen=features.unseen,
    )
    own = features.arm_places
    if not len(own):
        return found
    of_cross, of_gram = factors = arm_factors(features)
    cross = means[pooled : pooled + len(own)] / of_cross
    triangle, across = np.split(means[pooled + len(own) :], [len(own) * (len(own) + 1) // 2])
    gram = symmetric(triangle / triangle_weights(len(own)), len(own)) / of_gram
    apart = told_apart(found, own, cross, gram, scales.share, factors)
    if not len(across):
        return replace(apart, across_error=apart.gram_error / of_gram)
    of_across = across_factor(features)
    return apart.with_across(across.reshape(len(own), -1) / of_across, scales.share, noise / units / of_across)


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
