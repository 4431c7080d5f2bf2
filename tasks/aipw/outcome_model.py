"""The private outcome model: arm means and common slopes, from noisy sufficient statistics.

mu_t(x) = c_t + g(x), g(x) = b'x cut to [-limit, limit], all outcomes scaled to u in [-1, 1] and x the covariates (no
intercept) cut to the study's radius and stretched to the unit ball. Two releases per fold, sensitivities 2 and 2 + w^2:

* arms: (sum t u, sum (1-t) u, sqrt(2) sum t, sum u^2), from which the treated share, the arm means and the spread of u
  within an arm;
* slopes: (sum t r x, sum (1-t) r x, w sum t (x, r), w sum (1-t) (x, r), sum x x'/sqrt(2)), w = MEANS_WEIGHT, r the
  residual of u from its arm's mean, cut to a number of spreads and divided by that; the second moments are free, and so
  is it to keep the arms apart. Symmetric noise; without delta their trace alone. The arms' means of x and r make the
  regression one within arms (Frisch and Waugh): without them what treatment and x share, which is what confounds, would
  be taken off b. Those of r sharpen the arm means. Where the arms' slopes differ, b leans towards those of the smaller
  arm, (1-p) b_1 + p b_0: it is what a difference of arm means has to be adjusted by (Lin 2013).

Everything is shrunk by what the public noise level says: arm means towards 0, second moments towards a multiple of
the identity, slopes towards none (``docs/proofs/aipw.md``, section 3: no worse than arm means). Sums are exact: entries
lie on a lattice on which sums of products cannot round. Proofs: sections 1 to 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from causalveil.tasks.aipw.recipe import MEANS_WEIGHT, Recipe
from causalveil.tasks.aipw.shrinkage import (
    LEAST_DEVIATION,
    moments_part,
    positive_part,
    second_moments,
    shrinkage_factor,
    signal_ratio,
    taken_off,
)
from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.lattice_sums import BITS, exact_sums, on_lattice
from causalveil.tasks.privacy.mechanisms import Budget

# Keeps a row that was cut in floats within the ball.
HAIR = 1 - 2.0**-40
# Arm means are shrunk as if they had this standard deviation around the middle of the declared range.
PRIOR_MEAN_DEVIATION = 0.5
# g is cut to so many of its own standard deviations: the rest would only widen the range of the scores.
LIMIT_DEVIATIONS = 3.0


@dataclass(frozen=True)
class ArmSummary:
    """What is known of the two arms of a fold's training units. Scaled outcomes.

    Attributes:
        share: treated share, within [clip].
        treated_share_variance: of the noise in it.
        means: of treated and controls, shrunk, in [-1, 1].
        mean_variances: of the noise in them.
        spread: standard deviation of u within an arm, never below LEAST_DEVIATION.
    """

    share: float
    treated_share_variance: float
    means: tuple[float, float]
    mean_variances: tuple[float, float]
    spread: float


@dataclass(frozen=True)
class OutcomeModel:
    """A released outcome model. ``slopes``: shape (d - 1,), on rows cut to ``radius``; ``kept``: share of them kept.

    ``constants``: c_1 and c_0. ``leaning``: share kept of what leans them towards the smaller arm. ``variance``: the
    mean square that noise and shrinkage of the slopes give the mean score
    of the fold, to first order.
    """

    constants: tuple[float, float]
    slopes: FloatArray
    limit: float
    radius: float
    kept: float
    variance: float = 0.0
    leaning: float = 0.0

    def common(self, x: FloatArray) -> FloatArray:
        """g(x), shape (rows,), of rows of the unit ball with their intercept."""
        if self.limit == 0:
            return np.zeros(len(x))
        g: FloatArray = np.einsum("ij,j->i", cut(x, self.radius), self.slopes)
        return g.clip(-self.limit, self.limit)


def cut(x: FloatArray, radius: float) -> FloatArray:
    """Covariates of rows x, shape (rows, d - 1): cut to length ``radius``, divided by it, rounded towards 0.

    Each row depends on itself alone (``einsum``, not BLAS), its length is at most 1, its entries multiples of 2^-BITS.
    """
    covariates = x[:, :-1]
    length = np.sqrt(np.einsum("ij,ij->i", covariates, covariates))
    scaled = covariates * (HAIR / np.maximum(length, radius))[:, None]
    step = 2.0**BITS
    rounded: FloatArray = np.trunc(scaled * step) / step
    return rounded


def arm_sums(pieces: Pieces, workers: int = 1) -> FloatArray:
    """(sum t u, sum (1-t) u, sqrt(2) sum t, sum u^2), shape (4,), of exact sums."""

    def of(rows: Rows) -> FloatArray:
        u, t = on_lattice(rows.u), (rows.t != 0).astype(np.float64)
        return np.array([u @ t, u @ (1 - t), t.sum(), u @ u])

    weights: FloatArray = np.array([1.0, 1.0, math.sqrt(2), 1.0])
    return exact_sums(pieces, of, 4, workers) * weights


def slope_sums(pieces: Pieces, arms: ArmSummary, recipe: Recipe, workers: int = 1) -> FloatArray:
    """Cross moments of residuals and covariates and first moments of both by arm, second moments of covariates.

    Shape (recipe.slope_numbers,): d of residuals times treated x, d with control x, d of treated x, d of control x, two
    of r, second moments.

    The second moments are the upper triangle row by row, weighted so that its Euclidean norm is that of the whole
    matrix over sqrt(2): diagonal entries over sqrt(2), others as they are. Without ``recipe.gram`` their trace.
    """
    d = recipe.columns - 1
    limit = residual_limit(arms, recipe)
    upper = np.triu_indices(d)

    def of(rows: Rows) -> FloatArray:
        x, t = cut(rows.x, recipe.radius), (rows.t != 0).astype(np.float64)
        residual = on_lattice((rows.u - np.where(rows.t != 0, *arms.means)) / limit)
        second = (x.T @ x)[upper] if recipe.gram else np.einsum("ij,ij->", x, x)[None]
        by_arm = np.stack([t, 1 - t])
        return np.concatenate([((by_arm * residual) @ x).ravel(), (by_arm @ x).ravel(), by_arm @ residual, second])

    sums = exact_sums(pieces, of, recipe.slope_numbers, workers)
    sums[2 * d : 4 * d + 2] *= MEANS_WEIGHT
    if recipe.gram:
        sums[4 * d + 2 :] *= np.where(upper[0] == upper[1], math.sqrt(0.5), 1.0)
    return sums


def summary_from(released: FloatArray, units: int, recipe: Recipe, fold: int, clip: tuple[float, float]) -> ArmSummary:
    """What the released arm sums say. Denominators are clipped shares, so that an empty arm does no harm."""
    deviation = Noise.of(recipe.arm_sums_mechanism(fold), 4).deviation
    treated, controls, count, squares = released.tolist()
    share = min(max(count / math.sqrt(2) / units, clip[0]), clip[1])
    means, variances = [], []
    for total, part in ((treated, share), (controls, 1 - share)):
        variance = (deviation / (units * part)) ** 2
        keep = PRIOR_MEAN_DEVIATION**2 / (PRIOR_MEAN_DEVIATION**2 + variance)
        means.append(keep * min(max(total / (units * part), -1.0), 1.0))
        variances.append(keep**2 * variance)
    within = squares / units - share * means[0] ** 2 - (1 - share) * means[1] ** 2
    return ArmSummary(
        share=share,
        treated_share_variance=(deviation / math.sqrt(2) / units) ** 2,
        means=(means[0], means[1]),
        mean_variances=(variances[0], variances[1]),
        # The noise of the squares is a floor: a spread cannot be known better.
        spread=min(1.0, math.sqrt(max(within, deviation / units, LEAST_DEVIATION**2))),
    )


def residual_limit(arms: ArmSummary, recipe: Recipe) -> float:
    """Where residuals are cut while slopes are learnt."""
    return recipe.residuals * arms.spread


def without_slopes(arms: ArmSummary, recipe: Recipe) -> OutcomeModel:
    """Arm means alone."""
    return OutcomeModel(arms.means, np.zeros(recipe.columns - 1), 0.0, recipe.radius, 0.0)


def with_slopes(
    arms: ArmSummary, released: FloatArray, units: int, recipe: Recipe, fold: int
) -> tuple[ArmSummary, OutcomeModel]:
    """Ridge regression within arms from the released moments, shrunk by public noise; arms with sharper means."""
    d, limit = recipe.columns - 1, residual_limit(arms, recipe)
    noise = Noise.of(recipe.slopes_mechanism(fold), recipe.slope_numbers).deviation
    parts = np.array([arms.share, 1 - arms.share])
    raw = released[2 * d : 4 * d].reshape(2, d) / MEANS_WEIGHT / (units * parts)[:, None]
    # Noise on each entry of a sum over the units, and so of the mean over both arms and of their difference.
    own = noise / MEANS_WEIGHT / units
    of_centre, of_apart = own * math.sqrt(2), own * math.sqrt(float(np.sum(parts**-2)))
    centre = positive_part(parts @ raw, of_centre)
    apart = positive_part(raw[0] - raw[1], of_apart)
    centres = np.array([centre + parts[1] * apart, centre - parts[0] * apart])
    residuals = released[4 * d : 4 * d + 2] / MEANS_WEIGHT
    values, vectors, second_kept = second_moments(
        released[4 * d + 2 :], d, noise, units, centre, apart * math.sqrt(parts[0] * parts[1])
    )
    within = (released[: 2 * d].reshape(2, d) - residuals[:, None] * centres) @ vectors
    # With b_t = G^-1 within_t/part_t both arms together have G^-1 of the first, and (1-p) b_1 + p b_0 that of the sum.
    lean = (1 - 2 * parts[0]) / parts * np.array([1.0, -1.0])
    together, leaning = within.sum(axis=0), lean @ within
    both, apart_noise = noise * math.sqrt(2), noise * float(np.linalg.norm(lean))
    kept, kept_leaning = shrinkage_factor(together, values, both), shrinkage_factor(leaning, values, apart_noise)
    slopes = limit * (vectors @ ((kept * together + kept_leaning * leaning) / values))
    size = math.sqrt(float(values @ (vectors.T @ slopes) ** 2) / units)
    sharper = _sharper(arms, limit * residuals / (units * parts), (limit * own / parts) ** 2)
    constants = np.array(sharper.means) - centres @ slopes
    # An error e in the slopes moves the mean score by e'(difference of the arms' means of x): the noise of cross and
    # second moments and of the residuals' means, and what shrinkage took off.
    used, along = kept + kept_leaning * lean, (vectors.T @ apart) / values
    reach = max(0.0, float(np.sum(((vectors.T @ (raw[0] - raw[1])) ** 2 - of_apart**2) / values**2)))
    levers = used * (centres @ vectors @ along)
    variance = noise**2 * float(used @ used) * reach + (noise / MEANS_WEIGHT) ** 2 * float(levers @ levers)
    variance += moments_part(slopes @ vectors / limit, along, reach, noise, second_kept)
    for part, cross, own_noise in ((kept, together, both), (kept_leaning, leaning, apart_noise)):
        share = signal_ratio(cross, values, own_noise)
        variance += taken_off(part, share, float(cross @ along), own_noise**2 * reach)
    return sharper, OutcomeModel(
        constants=(float(constants[0]), float(constants[1])),
        slopes=slopes,
        limit=min(2.0, LIMIT_DEVIATIONS * size),
        radius=recipe.radius,
        kept=kept,
        variance=limit**2 * variance,
        leaning=kept_leaning,
    )


def _sharper(arms: ArmSummary, shifts: FloatArray, variances: FloatArray) -> ArmSummary:
    """ArmSummary whose means are moved towards what the residuals' means say, by inverse variances."""
    means, left = [], []
    for mean, old, shift, new in zip(arms.means, arms.mean_variances, shifts.tolist(), variances.tolist(), strict=True):
        weight = old / (old + new) if old > 0 else 0.0
        means.append(min(max(mean + weight * shift, -1.0), 1.0))
        left.append(weight * new)
    return replace(arms, means=(means[0], means[1]), mean_variances=(left[0], left[1]))


def release_summary(
    pieces: Pieces, recipe: Recipe, fold: int, clip: tuple[float, float], budget: Budget, workers: int = 1
) -> ArmSummary:
    """Release the arm sums of a fold's training units."""
    released = recipe.arm_sums_mechanism(fold).release(
        arm_sums(pieces, workers), recipe.slot("arms", "outcome_model", fold), budget
    )
    return summary_from(released, pieces.units, recipe, fold, clip)


def release_model(
    pieces: Pieces, arms: ArmSummary, recipe: Recipe, fold: int, budget: Budget, workers: int = 1
) -> tuple[ArmSummary, OutcomeModel]:
    """Release the slopes of a fold's training units, where they are worth their noise."""
    mechanism = recipe.slopes_mechanism(fold)
    if mechanism is None:
        return arms, without_slopes(arms, recipe)
    sums = slope_sums(pieces, arms, recipe, workers)
    released = mechanism.release(sums, recipe.slot("slopes", "outcome_model", fold), budget)
    return with_slopes(arms, released, pieces.units, recipe, fold)
