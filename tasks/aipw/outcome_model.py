"""The private outcome model: arm means and common slopes, from noisy sufficient statistics.

mu_t(x) = c_t + g(x), g(x) = b'x - middle cut to [-limit, limit], outcomes scaled to u in [-1, 1], x the covariates (no
intercept) cut to the study's radius and stretched to the unit ball. Two releases per fold:

* arms: (sum t u, sum (1-t) u, sqrt(2) sum t, sum u^2), from which the treated share, the arm means and the standard
  deviation of u within an arm;
* slopes: (sum t r x, sum (1-t) r x, w sum t (x, r), w sum (1-t) (x, r), sum x x'/sqrt(2), c sum (2t-1) x x'/sqrt(2),
  e sum (1 - z^2)), w = MEANS_WEIGHT, c = APART_WEIGHT, e and z of ``tasks/aipw/narrow.py``, r the residual of u from
  its arm's mean, cut to a number of deviations and divided by that. The second moments do not raise the sensitivity,
  nor does it to keep the arms' cross moments apart; what sets the arms' second moments apart costs a hundredth, what
  lies within ranges half of one. Second moments get symmetric noise; without delta only their trace is released. The
  arms' means of x and r make the regression one within arms (Frisch and Waugh): without them b would lose what x has in
  common with treatment, which is what confounds. Those of r sharpen the arm means. Where the arms' slopes differ, b
  leans towards those of the smaller arm, (1-p) b_1 + p b_0: that is what a difference of arm means has to be adjusted
  by (Lin 2013; ``tasks/aipw/leaning.py``).

Everything is shrunk by what the public noise level says: arm means towards everybody's, second moments towards a
multiple of the identity, slopes towards none (``docs/proofs/aipw.md``, section 3: no worse than arm means). Sums are
exact: entries lie on a lattice on which sums of products cannot round. Proofs: sections 1 to 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from causalveil.tasks.aipw.narrow import inside, inside_weight
from causalveil.tasks.aipw.recipe import APART_WEIGHT, MEANS_WEIGHT, Recipe
from causalveil.tasks.aipw.shrinkage import LEAST_DEVIATION
from causalveil.tasks.covariates.narrow_ranges import FIT, NarrowRanges
from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.inference.arms import everybody, from_everybody
from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.bounded import bounded
from causalveil.tasks.models.lattice_sums import BITS, exact_sums, on_lattice
from causalveil.tasks.privacy.mechanisms import Budget

# Keeps a row that was cut in floats within the ball.
HAIR = 1 - 2.0**-40
# Arm means are shrunk as if they had this standard deviation around everybody's; shrinkage may move them by as much.
PRIOR_MEAN_DEVIATION = 0.5


@dataclass(frozen=True)
class ArmSummary:
    """What is known of the two arms of a fold's training units. Outcomes are scaled to u in [-1, 1].

    Attributes:
        treated_share: p, the treated units' part of all, clear of 0 and 1 as far as its noise; or the known chance.
        treated_share_variance: of the noise in it.
        means: of u among treated and controls, shrunk to everybody's, in [-1, 1].
        mean_variances: of the noise in them.
        deviation: standard deviation of u within an arm, in [LEAST_DEVIATION, 1].
        observed_share: p as released; anywhere.
        mean_shifts: how far shrinkage may have moved the means.
    """

    treated_share: float
    treated_share_variance: float
    means: tuple[float, float]
    mean_variances: tuple[float, float]
    deviation: float
    observed_share: float = 0.5
    mean_shifts: tuple[float, float] = (0.0, 0.0)

    @property
    def parts(self) -> FloatArray:
        """p and 1 - p, shape (2,)."""
        parts: FloatArray = np.array([self.treated_share, 1 - self.treated_share])
        return parts


@dataclass(frozen=True)
class OutcomeModel:
    """A released outcome model, in scaled outcomes.

    Attributes:
        constants: c_1 and c_0.
        slopes: b, shape (d - 1,), on rows cut to ``radius`` and divided by it.
        limit: g is cut to [-limit, limit]; 0 for a model without slopes.
        radius: of rows, in (0, 1].
        common_factor: shrinkage factor, in [0, 1], of the slopes that both arms have in common.
        variance: mean square that noise and shrinkage of the slopes give the fold's mean score, to first order.
        leaning_factor: factor in [0, 1] applied to the between-arm component of the slopes.
        seen: what leaving the slopes out moves the mean score by at most, at the smallest size that released moments
            show beyond their noise; 0 where none were released.
        hidden: the same at the largest plausible size; infinite where none were released.
        middle: what is taken off b'x before it is cut: its mean over all units, about.
        loose: the part of the adjustment that released moments leave open, in [0, 1]; at 1 they say nothing.
        missing: what the floor below the second moments takes off the adjustment, as released moments tell.
        narrow: numbers whose declared ranges seem too narrow.
        beyond: what slopes leave of confounding by those that are cut, as released moments tell.
        implied_odds: the log odds of treatment that the distance of the arms implies, G^-1 D, shape (d - 1,);
            empty for a model without slopes.
        metric: G, their second moments within arms over the number of units, shape (d - 1, d - 1).
    """

    constants: tuple[float, float]
    slopes: FloatArray
    limit: float
    radius: float
    common_factor: float
    variance: float = 0.0
    leaning_factor: float = 0.0
    seen: float = 0.0
    hidden: float = math.inf
    middle: float = 0.0
    loose: float = 0.0
    missing: float = 0.0
    narrow: NarrowRanges = FIT
    beyond: float = 0.0
    implied_odds: FloatArray = field(default_factory=lambda: np.zeros(0))
    metric: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def adjusts(self) -> bool:
        """Whether it has slopes."""
        return self.limit > 0

    def left_by(self, coefficients: FloatArray | None) -> float:
        """The part of the arms' squared distance that weights by a logistic model of treatment leave, in [0, 1].

        Weights balance as far as their log odds are those that part the arms, in the metric of the covariates.

        Args:
            coefficients: on rows x, shape (d,), the intercept last; None: no model, no balance.
        """
        if coefficients is None or not len(self.implied_odds):
            return 1.0
        left = self.implied_odds - coefficients[:-1] * self.radius
        whole = float(self.implied_odds @ self.metric @ self.implied_odds)
        return min(1.0, float(left @ self.metric @ left) / whole) if whole > 0 else 1.0

    def common(self, x: FloatArray) -> FloatArray:
        """g(x), shape (rows,), of rows of the unit ball with their intercept, shape (rows, d)."""
        if self.limit == 0:
            return np.zeros(len(x))
        g: FloatArray = np.einsum("ij,j->i", cut(x, self.radius), self.slopes) - self.middle
        return g.clip(-self.limit, self.limit)


def cut(x: FloatArray, radius: float) -> FloatArray:
    """Covariates of rows x, shape (rows, d - 1): cut to length ``radius``, divided by it, rounded towards 0.

    Each row depends on itself alone (``einsum``, not BLAS), its length is at most 1, its entries multiples of 2^-BITS.
    """
    covariates = x[:, :-1]
    length = np.sqrt(np.einsum("ij,ij->i", covariates, covariates))
    scaled = covariates * (HAIR / np.maximum(length, radius))[:, None]
    step = 2.0**BITS
    rounded: FloatArray = np.trunc(bounded(scaled) * step) / step
    return rounded


def arm_sums(pieces: Pieces, workers: int = 1) -> FloatArray:
    """(sum t u, sum (1-t) u, sqrt(2) sum t, sum u^2), shape (4,), of exact sums."""

    def of(rows: Rows) -> FloatArray:
        u, t = on_lattice(rows.u), (rows.t != 0).astype(np.float64)
        return np.array([u @ t, u @ (1 - t), t.sum(), u @ u])

    weights: FloatArray = np.array([1.0, 1.0, math.sqrt(2), 1.0])
    return exact_sums(pieces, of, 4, workers) * weights


def slope_sums(pieces: Pieces, summary: ArmSummary, recipe: Recipe, workers: int = 1) -> FloatArray:
    """Cross moments of residuals and covariates and first moments of both by arm, second moments of covariates.

    Shape (recipe.slope_numbers,): d of residuals times treated x, d with control x, d of treated x, d of control x, two
    of r, second moments, APART_WEIGHT times those of the treated less those of controls, what lies within ranges.

    Second moments are the upper triangle row by row, weighted so that its Euclidean norm is that of the whole matrix
    over sqrt(2): diagonal entries over sqrt(2), others as they are. Without ``recipe.gram`` their trace, and no more.
    """
    d = recipe.columns - 1
    limit = residual_limit(summary, recipe)
    upper = np.triu_indices(d)

    def of(rows: Rows) -> FloatArray:
        x, t = cut(rows.x, recipe.radius), (rows.t != 0).astype(np.float64)
        residual = on_lattice((rows.u - np.where(rows.t != 0, *summary.means)) / limit)
        by_arm = np.stack([t, 1 - t])
        if recipe.gram:
            within = on_lattice(inside(rows.x, recipe)).sum(axis=0)
            second = np.concatenate([(x.T @ x)[upper], ((x * (2 * t - 1)[:, None]).T @ x)[upper], within])
        else:
            second = np.einsum("ij,ij->", x, x)[None]
        return np.concatenate([((by_arm * residual) @ x).ravel(), (by_arm @ x).ravel(), by_arm @ residual, second])

    sums = exact_sums(pieces, of, recipe.slope_numbers, workers)
    sums[2 * d : 4 * d + 2] *= MEANS_WEIGHT
    if recipe.gram:
        triangle = np.where(upper[0] == upper[1], math.sqrt(0.5), 1.0)
        weights = np.full(len(recipe.ranges.places), inside_weight(recipe))
        sums[4 * d + 2 :] *= np.concatenate([triangle, APART_WEIGHT * triangle, weights])
    return sums


def summary_from(released: FloatArray, units: int, recipe: Recipe, fold: int, known: float | None = None) -> ArmSummary:
    """What the released sums say of the arms. Denominators are clear of 0, so that an empty arm does no harm; the clip
    of scores does not cut them, or a rarer treatment would bend all moments.

    Args:
        released: :func:`arm_sums` and noise, shape (4,).
        units: in training.
        recipe: of the study.
        fold: which is left out of training.
        known: the chance of treatment, if it is.
    """
    noise = Noise.of(recipe.arm_sums_mechanism(fold), 4).deviation
    treated, controls, count, squares = released.tolist()
    observed = count / math.sqrt(2) / units
    share_variance = (noise / math.sqrt(2) / units) ** 2
    share = clear_of_ends(observed, share_variance, units) if known is None else known
    means, variances, shifts = [], [], []
    middle = everybody((treated + controls) / units, math.sqrt(2) * noise / units)
    for total, seen, part in ((treated, observed, share), (controls, 1 - observed, 1 - share)):
        variance = (noise / (units * part)) ** 2
        away = from_everybody(total / units, seen, part, middle)
        kept = _kept(variance)
        means.append(middle + kept * away)
        variances.append(kept**2 * variance)
        shifts.append((1 - kept) * max(abs(away), PRIOR_MEAN_DEVIATION))
    within = squares / units - share * means[0] ** 2 - (1 - share) * means[1] ** 2
    return ArmSummary(
        treated_share=share,
        treated_share_variance=share_variance,
        means=(means[0], means[1]),
        mean_variances=(variances[0], variances[1]),
        # The noise of the squares is a floor: a deviation cannot be known better.
        deviation=min(1.0, math.sqrt(max(within, noise / units, LEAST_DEVIATION**2))),
        observed_share=observed,
        mean_shifts=(shifts[0], shifts[1]),
    )


def _kept(variance: float) -> float:
    """The part of a mean that is believed beside noise of this variance."""
    return PRIOR_MEAN_DEVIATION**2 / (PRIOR_MEAN_DEVIATION**2 + variance)


def clear_of_ends(observed: float, variance: float, units: int) -> float:
    """A released share, no nearer to 0 and 1 than twice its noise or one unit lets it be told from them."""
    least = min(0.5, max(2 * math.sqrt(variance), 1 / units))
    return min(max(observed, least), 1 - least)


def residual_limit(summary: ArmSummary, recipe: Recipe) -> float:
    """Where residuals are cut while slopes are learnt, in scaled outcomes."""
    return recipe.residuals * summary.deviation


def without_slopes(summary: ArmSummary, recipe: Recipe) -> OutcomeModel:
    """Arm means alone."""
    return OutcomeModel(summary.means, np.zeros(recipe.columns - 1), 0.0, recipe.radius, 0.0)


def release_summary(
    pieces: Pieces, recipe: Recipe, fold: int, known: float | None, budget: Budget, workers: int = 1
) -> ArmSummary:
    """Release the arm sums of a fold's training units."""
    released = recipe.arm_sums_mechanism(fold).release(arm_sums(pieces, workers), recipe.slot("arms", fold), budget)
    return summary_from(released, pieces.units, recipe, fold, known)
