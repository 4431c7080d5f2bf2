"""Draw slopes, arms' means and second moments from their posterior given releases.

Features f are centred and standardised, p is the treated share, s = 1 for treated and -1 for controls, e_t the arms'
true means less the released ones. G_t are the arms' covariances of f, G = p G_1 + (1 - p) G_0 and Gamma = G_1 - G_0,
beta_t the arms' slopes, D = G eta the difference of the arms' means of f. The released moments are

    gram       E f f'    = G + p (1 - p) D D'
    arm_gram   E s f f'  = (2 p - 1) G + p (1 - p) (1 - 2 p) D D' + 2 p (1 - p) Gamma
    apart                  D
    cross      E f y     = p G_1 beta_1 + (1 - p) G_0 beta_0 + p (1 - p) D (e_1 - e_0)
    arm_cross  E s f y   = p G_1 beta_1 - (1 - p) G_0 beta_0 + p (1 - p) D (e_1 + e_0)

each with Gaussian noise of known deviation: Bayesian inference from released sufficient statistics (Bernstein and
Sheldon 2019). Prior: (beta_1j, beta_0j, eta_j) ~ N(0, Sigma), Sigma inverse Wishart around what is declared. G and
Gamma, whose entries are mostly small, are drawn given the matrices alone (a cut: what cross moments say of them is not
used).

Slopes b_t, balancing weights h_t, cuts of scores and the law of the error follow from the draws. For any slopes and
weights the estimate, whose arms are moved by parts k_t of D (k_1 = 1 - p and k_0 = p for the ATE), has the error

    sum_t k_t (beta_t - b_t)'(D - G_t h_t)

beside second-order terms of noise in means: a product of two errors in each arm (Robins, Rotnitzky and Zhao 1994, with
weights linear in the features). Derivations: ``docs/proofs/regression.md``, section 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.linalg.lapack import dposv

from causalveil.schemas.study import Estimand
from causalveil.tasks.estimate.adjust.features import FeatureMap, Scores
from causalveil.tasks.estimate.adjust.recipe import scores_sd
from causalveil.tasks.estimate.adjust.released import Public, RandomDraws
from causalveil.tasks.estimate.adjust.scales import MIDDLE, FoundScales, SeenMoments
from causalveil.tasks.machine.arrays import BoolArray, FloatArray

# Deviations of the normal mixture that entries come from; counts before any are seen: all alike for correlations,
# mostly small ones for differences of arms (chosen on random tables 0 to 199).
WIDTHS, EVEN, MOSTLY_SMALL = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 0.7]), np.ones(6), np.array([10.0, 1, 1, 1, 1, 1])
# Rounds of expectation and maximisation: shares move by less than a hundredth after that.
ROUNDS = 60


class Mixture:
    """Normal mixture of mean 0 on fixed widths, fitted to noisy numbers.

    The fit is adaptive shrinkage (Stephens 2017).
    """

    def __init__(self, seen: FloatArray, noise_sd: FloatArray, before: FloatArray) -> None:
        """Fit the shares of the widths to noisy numbers.

        ``before``: the prior count of each width.
        """
        density, self.shares = self._densities(seen, noise_sd), before / before.sum()
        for _ in range(ROUNDS if seen.size else 0):
            parts = self.shares[:, None] * density
            self.shares = (parts / parts.sum(axis=0)).sum(axis=1) + before
            self.shares /= self.shares.sum()

    @staticmethod
    def _densities(seen: FloatArray, noise_sd: FloatArray) -> FloatArray:
        """Return densities of noisy numbers by width, in single precision as they are weights."""
        wide = (WIDTHS**2).reshape(-1, *[1] * seen.ndim)
        precision = (1 / (wide + noise_sd**2)).astype(np.float32)
        density: FloatArray = np.exp(-0.5 * (seen**2).astype(np.float32) * precision) * np.sqrt(precision) + 1e-30
        return density

    def draw(self, random: RandomDraws, seen: FloatArray, noise_sd: FloatArray) -> FloatArray:
        """Draw each number given its noisy value; any shape."""
        shares = self.shares.astype(np.float32).reshape(-1, *[1] * seen.ndim)
        edges = np.cumsum(shares * self._densities(seen, noise_sd), axis=0)
        chosen = (random.random(seen.shape, np.float32) * edges[-1] > edges[:-1]).sum(axis=0)
        width = WIDTHS[chosen] ** 2
        kept = width / (width + noise_sd**2)
        numbers: FloatArray = kept * seen + np.sqrt(kept) * noise_sd * random.standard_normal(seen.shape)
        return numbers


class Symmetric:
    """A symmetric matrix seen through noise: a shared entry and a mixture.

    Its block along a few directions is wide.

    Entries below the noise may add up along a direction: where the arms or the outcome lie, its block is drawn alone.
    """

    def __init__(self, seen: FloatArray, noise_sd: FloatArray, told: BoolArray, arms: bool) -> None:
        """Fit the mixture.

        Args:
            seen, noise_sd: the matrix and the deviation of its noise, shape (d, d).
            told: entries that release 1 determines, and that say nothing about the others.
            arms: whether it is a difference of arms, mostly small, with a diagonal; else correlations, of which the
                diagonal stays 0.
        """
        d, block, self.arms = len(seen), MOSTLY_SMALL if arms else EVEN, arms
        # Independent entries of deviation w spread eigenvalues by 2 w sqrt(d) (Wigner): beyond 1 they are of no matrix.
        before = block * np.minimum(1, 1 / (4 * max(d, 1) * WIDTHS**2))
        self.places = [np.triu_indices(d, 1), *([np.diag_indices(d)] if arms else [])]
        free = ~told[self.places[0]]
        entries, sds = seen[self.places[0]][free], noise_sd[self.places[0]][free]
        self.shared = np.zeros((d, d))
        if len(entries) and not arms:
            mean, doubt = float(entries.mean()), float(np.sqrt((sds**2).mean() / len(sds)))
            self.shared[~told & ~np.eye(d, dtype=bool)] = mean**3 / (mean**2 + doubt**2)
        self.entries = [Mixture(entries - (0 if arms else self.shared[self.places[0]][free]), sds, before)]
        if arms:
            self.entries.append(Mixture(np.diagonal(seen), np.diagonal(noise_sd), before))
        self.block = Mixture(np.zeros(0), np.zeros(0), block)

    def draw(self, random: RandomDraws, seen: FloatArray, noise_sd: FloatArray, along: FloatArray) -> FloatArray:
        """Draw the matrix given its noisy entries in each chain, shape (chains, d, d).

        Args:
            random: of Monte Carlo draws.
            seen, noise_sd: shape (chains, d, d).
            along: orthonormal directions, shape (chains, d, directions).
        """
        seen = seen - self.shared
        if not self.arms:
            seen = seen * (1 - np.eye(seen.shape[1]))
        entries, across, wide = np.zeros_like(seen), along.swapaxes(1, 2), 1 + np.eye(along.shape[2])
        for mixture, (i, j) in zip(self.entries, self.places, strict=True):
            entries[:, i, j] = entries[:, j, i] = mixture.draw(random, seen[:, i, j], noise_sd[:, i, j])
        upper, block = (slice(None), *np.triu_indices(len(wide))), np.zeros((len(seen), *wide.shape))
        block_sd = np.sqrt(np.maximum(across**2 @ noise_sd**2 @ along**2 * wide, 1e-12))
        block[upper] = self.block.draw(random, (across @ seen @ along)[upper], block_sd[upper])
        block = np.triu(block) + np.triu(block, 1).swapaxes(1, 2)
        matrix: FloatArray = self.shared + entries + along @ (block - across @ entries @ along) @ across
        return matrix


# Least variance of a feature, least eigenvalue of a drawn correlation matrix, and least part of it that an arm's
# covariances keep, and of their variance that residuals do.
LEAST_VARIANCE, LEAST_EIGENVALUE, LEAST_PART = 1e-4, 0.02, 0.03
# Least variance of slopes before anything is seen, in units of the outcome's variance within arms.
LEAST_SLOPE = 1e-12
# Noise hides a variance that is less than this many deviations of the noise on it.
HIDDEN = 2.0
# The prior of Sigma counts as so many features; its correlation of the arms' slopes, and the grid of that of slopes
# with what drives treatment: mostly one index drives both, and of independent signs many columns would hardly confound
# (sum of beta eta over d columns as 1/sqrt(d)). Chosen on random tables 0 to 199 and populations of levels and flags.
PRIOR_FEATURES, ALIKE, CORRELATIONS = 12.0, 0.9, (-0.95, -0.7, 0.7, 0.95)


@dataclass(frozen=True)
class Sweeps:
    """Sizes of the sampler: chains side by side, and sweeps thrown away and kept.

    ``every``: for how many kept sweeps second moments stay.
    """

    chains: int
    burn: int
    keep: int
    every: int


# Of many features, whose sweeps are dear, there are fewer (120 draws or 60 cover alike on random tables 0 to 199).
SWEEPS, LARGE, SWEEPS_OF_LARGE = Sweeps(30, 3, 4, 1), 80, Sweeps(6, 2, 6, 3)


@dataclass(frozen=True)
class Draws:
    """K draws: slopes (K, 2, d), covariances by arm (K, 2, d, d), D (K, d), e (K, 2)."""

    slopes: FloatArray
    grams: FloatArray
    apart: FloatArray
    errors: FloatArray


def prior_of(public: Public, scales: FoundScales) -> FloatArray:
    """Return centres of Sigma for a line, shape (correlations, 3, 3).

    The declared confounding is divided evenly over the lines. A driver of treatment drives the outcome too, in either
    direction: correlations of slopes and eta are on a grid. Chance alone sets the arms apart by 1/(n p (1 - p)), also
    in a trial.
    """
    p, count = scales.arms.share, max(len(scales.kept) + len(scales.terms.lines) + float(scales.hidden.sum()), 1.0)
    distance = 0.0 if public.trial else public.prior.distance**2 / count
    return centres(public.prior.outcome_r2 / count, distance + 1 / (public.effective_units * p * (1 - p)))


def centres(slope: float, apart: float) -> FloatArray:
    """Return covariances of (beta_1, beta_0, eta), one for each correlation of the grid.

    ``slope`` is the variance of either slope and ``apart`` that of eta.
    """
    covariances = np.array([[[1, ALIKE, c], [ALIKE, 1, c], [c, c, 1]] for c in CORRELATIONS])
    # Slopes that are declared to be 0 are as good as 0: a law of no width has no density.
    size = np.sqrt([max(slope, LEAST_SLOPE), max(slope, LEAST_SLOPE), apart])
    covariances *= np.outer(size, size)
    return covariances


def sigma_precision(prior: FloatArray, seen: FloatArray, random: RandomDraws) -> FloatArray:
    """Draw Sigma^-1 given (beta_1, beta_0, eta) of some features, shape (chains, 3, features).

    Its centre Psi is drawn first, with chances |Psi|^(f/2)/|Psi + S|^((f + k)/2), S the sum of squares of k features
    and f the number of features that the prior counts as. Given Psi, Sigma^-1 is Wishart.
    """
    squares, count = (seen @ seen.swapaxes(1, 2))[:, None], seen.shape[2]
    psi = prior * (PRIOR_FEATURES - 4)
    chance = PRIOR_FEATURES * np.linalg.slogdet(psi)[1] - (PRIOR_FEATURES + count) * np.linalg.slogdet(psi + squares)[1]
    edges = np.exp((chance - chance.max(axis=1, keepdims=True)) / 2).cumsum(axis=1)
    chosen = (random.random((len(seen), 1)) * edges[:, -1:] > edges).sum(axis=1)
    scale = np.linalg.inv(psi[chosen] + squares[:, 0])
    root = np.linalg.cholesky(scale) @ random.standard_normal((len(seen), 3, int(PRIOR_FEATURES) + count))
    precision: FloatArray = root @ root.swapaxes(1, 2)
    return precision


def hidden_bias(public: Public, scales: FoundScales, count: int, random: RandomDraws) -> FloatArray:
    """Draw the bias by columns that are left out, shape (count,).

    It is the sum of beta eta, with both as declared.
    """
    if public.trial or not len(scales.hidden):
        return np.zeros(count)
    precision = sigma_precision(prior_of(public, scales), np.zeros((count, 3, 0)), random)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    beta, _, eta = (root @ random.standard_normal((count, 3, len(scales.hidden)))).swapaxes(0, 1)
    bias: FloatArray = (beta * eta) @ scales.hidden
    return bias


@dataclass(frozen=True)
class CurvePrior:
    """The prior of kept curves before release 4.

    ``differ``: Gamma of all features in a synthetic table; ``sizes``: of a curve's beta and eta by release 3.
    """

    differ: FloatArray
    sizes: tuple[float, float]


class Posterior:
    """Gibbs sampler, chains side by side.

    In each chain features are divided by their deviation within arms.
    """

    def __init__(
        self,
        public: Public,
        scales: FoundScales,
        moments: SeenMoments,
        random: RandomDraws,
        curves: CurvePrior | None = None,
    ) -> None:
        """Fit the mixtures of entries and set the prior."""
        self.moments, self.random, d = moments, random, moments.count
        self.share, self.means_sd = scales.arms.share, scales.means_sd / scales.arms.spread
        curves = curves or CurvePrior(np.zeros((d, d)), (1.0, 1.0))
        self.expected = curves.differ
        self.between = self.share * (1 - self.share)
        self.groups = (np.arange(d) >= moments.lines).astype(np.int64)
        self.prior = np.stack([prior_of(public, scales), centres(curves.sizes[0] ** 2, curves.sizes[1] ** 2)])
        # An indicator that noise hides has few; a number that noise hides may have too wide a range.
        self.numbers = np.zeros(d, dtype=bool)
        self.numbers[: moments.lines] = True
        self.numbers[: len(scales.margins)] = [margin is not None for margin in scales.margins]
        within = moments.gram - self.between * np.outer(moments.apart, moments.apart)
        variance, sd = np.diagonal(within), np.diagonal(moments.gram_sd)
        size = np.sqrt(np.maximum(variance, sd))
        # Of a feature that noise hides no correlation is seen, along whatever direction.
        self.along = np.column_stack([moments.apart, moments.cross])[:, : min(2, d)]
        self.along = self.along * (variance > HIDDEN * sd)[:, None] + 1e-12 * np.eye(d)[:, : min(2, d)]
        outer = np.outer(size, size)
        self.alike = Symmetric(within / outer, moments.gram_sd / outer, moments.told, arms=False)
        self.by_arm = bool(np.isfinite(moments.arm_gram_sd).all())
        if self.by_arm:
            roots = self._roots(within[None], outer[None])
            _, _, seen, noise_sd = self._relative(*roots, outer[None], moments.apart[None])
            self.uneven = Symmetric(seen[0], noise_sd[0], np.zeros((d, d), dtype=bool), arms=True)

    def _roots(self, within: FloatArray, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Draw G's correlation matrix in each chain, as roots of eigenvalues and eigenvectors.

        The roots have the shape (chains, 1, d).
        """
        along = np.broadcast_to(np.linalg.qr(self.along)[0], (len(within), *self.along.shape))
        correlation = self.alike.draw(self.random, within / sizes, self.moments.gram_sd / sizes, along)
        values, vectors = np.linalg.eigh(correlation + np.eye(self.moments.count))
        return np.sqrt(np.maximum(values, LEAST_EIGENVALUE))[:, None, :], vectors

    def _relative(
        self, root: FloatArray, vectors: FloatArray, sizes: FloatArray, apart: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return a root R of G, and M's prior mean, noisy rest and noise, where Gamma = R M R'.

        They are in G's eigenbasis: where features hardly vary there is much noise, and arms are taken to be alike.
        """
        moments, p = self.moments, self.share
        outer, twice = apart[:, :, None] * apart[:, None, :], 2 * self.between * sizes
        alike = _product(root, vectors)
        seen = (moments.arm_gram - (2 * p - 1) * alike * sizes - self.between * (1 - 2 * p) * outer) / twice
        back, wide = (vectors / root).swapaxes(1, 2), 1 + np.eye(moments.count)
        # In single precision: noise need not be exact.
        square, noise = (back**2).astype(np.float32), (moments.arm_gram_sd / twice) ** 2 / wide
        variance = square @ noise.astype(np.float32) @ square.swapaxes(1, 2) * wide
        middle = back @ (self.expected / sizes) @ back.swapaxes(1, 2)
        return vectors * root, middle, back @ seen @ back.swapaxes(1, 2) - middle, np.sqrt(variance)

    def _grams(self, apart: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Draw features' deviations, and correlation matrices: within arms, treated, controls."""
        moments, p = self.moments, self.share
        # Where noise hides D, its draws may exceed the whole variance of a feature.
        total = np.maximum(np.diagonal(moments.gram), np.diagonal(moments.gram_sd))
        limit = np.sqrt(total / self.between)
        apart = np.clip(apart, -limit, limit)
        within = moments.gram - self.between * apart[:, :, None] * apart[:, None, :]
        variance, noise = np.diagonal(within, axis1=1, axis2=2), np.sqrt(np.diagonal(moments.gram_sd**2))
        noisy = variance + noise * self.random.standard_normal(variance.shape)
        # A variance that noise hides has a uniform logarithm, up to the largest value that noise allows.
        most = np.log((np.maximum(variance, 0) + HIDDEN * noise) / LEAST_VARIANCE)
        even = LEAST_VARIANCE * np.exp(most * self.random.random(variance.shape))
        size = np.sqrt(np.maximum(np.where(variance < HIDDEN * noise, even, noisy), LEAST_VARIANCE))
        sizes = size[:, :, None] * size[:, None, :]
        root, vectors = self._roots(within, sizes)
        alike = _product(root, vectors)
        if not self.by_arm:
            return size, alike, alike, alike
        own_root, middle, seen, noise_sd = self._relative(root, vectors, sizes, apart)
        along = np.linalg.qr(np.linalg.solve(own_root, self.along))[0]
        uneven = middle + self.uneven.draw(self.random, seen, noise_sd, along)
        # Each arm's covariances are positive.
        gamma = own_root @ _between(uneven, -(1 - LEAST_PART) / (1 - p), (1 - LEAST_PART) / p) @ own_root.swapaxes(1, 2)
        return size, alike, alike + (1 - p) * gamma, alike - p * gamma

    def _own(self, size: FloatArray) -> FloatArray:
        """Return the prior's unit of slopes of features that are divided by their deviation.

        It is 1 for a number; an indicator keeps the unit that release 1 gives it.
        """
        return np.where(self.numbers, 1.0, size)

    def _slopes(
        self,
        size: FloatArray,
        grams: tuple[FloatArray, FloatArray, FloatArray],
        apart: FloatArray,
        errors: FloatArray,
        precision: FloatArray,
    ) -> FloatArray:
        """Draw (beta_1, beta_0, eta) of features divided by their deviation, shape (chains, 3, d).

        P x = A'W (seen + noise) + N(0, prior precision) has P as the covariance of its right side, so its solution is a
        draw: no root of P is needed.
        """
        moments, p, d, random = self.moments, self.share, self.moments.count, self.random
        chains, places, (alike, treated_gram, control_gram) = len(size), np.arange(self.moments.count), grams
        treated, control, gram = (
            size[:, :, None] * matrix for matrix in (p * treated_gram, (1 - p) * control_gram, alike)
        )
        moved, (e1, e0) = self.between * apart, (errors[:, :1], errors[:, 1:])
        sds = moments.cross_sd, moments.arm_cross_sd, moments.apart_sd
        seen = moments.cross - moved * (e1 - e0), moments.arm_cross - moved * (e1 + e0), moments.apart
        q, r, difference = (
            (x / sd + random.standard_normal((chains, d))) / sd for x, sd in zip(seen, sds, strict=True)
        )
        of_cross, of_arm, of_apart = (sd**-2.0 for sd in sds)
        matrix, back = np.zeros((chains, 3, d, 3, d)), [part.swapaxes(1, 2) for part in (treated, control, gram)]
        matrix[:, 0, :, 0] = back[0] @ ((of_cross + of_arm)[:, None] * treated)
        matrix[:, 0, :, 1] = back[0] @ ((of_cross - of_arm)[:, None] * control)
        matrix[:, 1, :, 0] = matrix[:, 0, :, 1].swapaxes(1, 2)
        matrix[:, 1, :, 1] = back[1] @ ((of_cross + of_arm)[:, None] * control)
        matrix[:, 2, :, 2] = back[2] @ (of_apart[:, None] * gram)
        prior_unit = self._own(size)
        matrix[:, :, places, :, places] += (precision[:, self.groups] / prior_unit[:, :, None, None] ** 2).swapaxes(
            0, 1
        )
        right = np.stack(
            [(m @ v[..., None])[..., 0] for m, v in zip(back, (q + r, q - r, difference), strict=True)], axis=1
        )
        root = np.linalg.cholesky(precision)[:, self.groups] / prior_unit[:, :, None, None]
        right += (root @ random.standard_normal((chains, d, 3, 1)))[..., 0].swapaxes(1, 2)
        return _solved(matrix.reshape(chains, 3 * d, 3 * d), right.reshape(chains, 3 * d)).reshape(right.shape)

    def _precision(self, slopes: FloatArray) -> FloatArray:
        """Draw Sigma^-1 of lines and of curves given (beta_1, beta_0, eta).

        The shape is (chains, 2, 3, 3).
        """
        groups = self.groups[: slopes.shape[2]]
        parts = [sigma_precision(prior, slopes[:, :, groups == g], self.random) for g, prior in enumerate(self.prior)]
        return np.stack(parts, axis=1)

    def draws(self) -> Draws:
        """Return K = chains x kept sweeps draws.

        Second moments are drawn anew as often as ``Sweeps`` says.
        """
        moments, kept, sweeps = self.moments, [], SWEEPS if self.moments.count < LARGE else SWEEPS_OF_LARGE
        precision = self._precision(np.zeros((sweeps.chains, 3, 0)))
        apart = np.repeat(moments.apart[None], sweeps.chains, axis=0)
        size, *grams = self._grams(apart)
        for sweep in range(-sweeps.burn, sweeps.keep):
            if sweep >= 0 and sweep % sweeps.every == 0:
                size, *grams = self._grams(apart)
            errors = self.means_sd * self.random.standard_normal((sweeps.chains, 2))
            slopes = self._slopes(size, (grams[0], grams[1], grams[2]), apart, errors, precision)
            precision = self._precision(slopes / self._own(size)[:, None])
            apart = size * (grams[0] @ slopes[:, 2, :, None])[..., 0]
            if sweep >= 0:
                outer = (size[:, :, None] * size[:, None, :])[:, None]
                kept.append(Draws(slopes[:, :2] / size[:, None], np.stack(grams[1:], axis=1) * outer, apart, errors))
        return Draws(*(np.concatenate([getattr(state, part.name) for state in kept]) for part in fields(Draws)))


def _solved(matrices: FloatArray, right: FloatArray) -> FloatArray:
    """Return x of A x = b for each positive definite A, by its Cholesky decomposition.

    Args:
        matrices: A, shape (n, k, k).
        right: b, shape (n, k).
    """
    solutions = right.copy()
    for place, matrix in enumerate(matrices if right.size else ()):
        _, solutions[place], failed = dposv(matrix.T, right[place])
        if failed:
            # Rounding alone makes a matrix of a sum of squares other than positive.
            solutions[place] = np.linalg.solve(matrix, right[place])
    return solutions


def _between(matrices: FloatArray, low: float, high: float) -> FloatArray:
    """Return symmetric matrices with their eigenvalues clipped to [low, high], shape (n, k, k).

    A - low I and high I - A have Cholesky decompositions where nothing is to be clipped, and no eigenvalue is needed.
    """
    places = np.arange(matrices.shape[1])
    above, below = matrices.copy(), -matrices
    above[:, places, places] -= low
    below[:, places, places] += high
    try:
        np.linalg.cholesky(above)
        np.linalg.cholesky(below)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrices)
        clipped: FloatArray = (vectors * np.clip(values, low, high)[:, None, :]) @ vectors.swapaxes(1, 2)
        return clipped
    return matrices


def _product(root: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return V diag(root^2) V'."""
    product: FloatArray = (vectors * root**2) @ vectors.swapaxes(1, 2)
    return product


# Error of slopes that moments do not show, as a part of the residual variance: curves of no candidate, cut
# residuals (0 to .1 held alike on tables 64 to 199).
DISCREPANCY = 0.02
# Cuts of scores that are tried, in deviations; tails fall off as exp(-c/TAIL) beyond what the histogram shows
# (chosen on random tables 0 to 199: normal tails cut too much of costs and rare outcomes).
CUTS, TAIL = np.arange(1.5, 15.1, 0.25), 0.8
# Nodes and weights of a standard normal, by which weights of balance vary.
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(5)


@dataclass(frozen=True)
class Learnt:
    """Estimates by released moments, in deviations of features and of the outcome within arms.

    Attributes:
        features, moments, draws: released moments of features, and draws of their posterior.
        lean: (k_1, k_0).
        counts: 1 for an arm that has scores, else 0, shape (2,).
        slopes, weights, index: b_t and h_t, shape (2, d), and h_t'D, shape (2,).
        residual: the outcome's variance that slopes leave.
        distances: h_t'G h_t, shape (2,).
        tilt: by how much h_t'x is larger where the outcome is larger by a deviation, if that counts; shape (2,).
        error: of the estimate before release 5, by draw, shape (K,).
        adjusts: whether slopes and weights are more than 0.
    """

    features: FeatureMap
    moments: SeenMoments
    draws: Draws
    lean: tuple[float, float]
    counts: FloatArray
    slopes: FloatArray
    weights: FloatArray
    index: FloatArray
    residual: float
    distances: FloatArray
    tilt: FloatArray
    error: FloatArray
    adjusts: bool = True


def leaning(estimand: str, share: float) -> tuple[float, float]:
    """Return (k_1, k_0), the part of the arms' distance by which each is moved for the estimand."""
    if estimand == "ARM":
        return 1 - share, 0.0
    treated = Estimand(estimand).treated(share)
    return 1 - treated, treated


def learn(
    public: Public,
    scales: FoundScales,
    features: FeatureMap,
    moments: SeenMoments,
    draws: Draws,
    random: RandomDraws,
) -> Learnt:
    """Decide slopes and weights from draws."""
    shares, lean = np.array([scales.arms.share, 1 - scales.arms.share]), leaning(public.estimand, scales.arms.share)
    gram, slopes = draws.grams.mean(axis=0), slopes_of(draws)
    # An arm that stands for itself has the other's line: its own would not be moved.
    slopes = slopes[[1, 1]] if lean[0] == 0 else slopes[[0, 0]] if lean[1] == 0 else slopes
    fitted = 2 * (draws.grams @ draws.slopes[..., None]).mean(axis=0)[..., 0] - (gram @ slopes[..., None])[..., 0]
    residual = max(1 - float(shares @ (slopes * fitted).sum(axis=1)), LEAST_PART)
    discrepancy = DISCREPANCY * residual / max(features.count, 1)
    weights = weights_of(draws, slopes, discrepancy)
    index = (weights * draws.apart.mean(axis=0)).sum(axis=1)
    error = errors_of(draws, moments, scales.arms.share, (slopes, weights, index), lean, discrepancy, random)
    distances = np.einsum("td,tde,te->t", weights, gram, weights)
    counts = np.array([1.0, float(public.estimand != "ARM")])
    tilt = tilt_of(draws, gram, slopes, weights) if public.tilted else np.zeros(2)
    return Learnt(features, moments, draws, lean, counts, slopes, weights, index, residual, distances, tilt, error)


def as_they_are(learnt: Learnt, scales: FoundScales, random: RandomDraws) -> Learnt:
    """Return the comparison of the arms as they are, with slopes and weights of 0.

    All confounding is its error.
    """
    nothing, none = np.zeros_like(learnt.slopes), np.zeros(2)
    discrepancy = DISCREPANCY / max(learnt.features.count, 1)
    lines = nothing, nothing, none
    error = errors_of(learnt.draws, learnt.moments, scales.arms.share, lines, learnt.lean, discrepancy, random)
    return replace(
        learnt, slopes=nothing, weights=nothing, index=none, residual=1.0, distances=none, tilt=none, error=error,
        adjusts=False,
    )  # fmt: skip


def tilt_of(draws: Draws, gram: FloatArray, slopes: FloatArray, weights: FloatArray) -> FloatArray:
    """Return b_t'G_t h_t, shrunk by its variance over posterior draws, shape (2,).

    Slopes that are noise would put scores beyond cuts where no events are: twice their variance is taken off, as far as
    there is any (a positive part of James and Stein's, which is 0 in five of six draws of noise alone).
    """
    along = np.einsum("ktd,tde,te->kt", draws.slopes, gram, weights)
    seen = np.einsum("td,tde,te->t", slopes, gram, weights)
    kept: FloatArray = seen * np.maximum(1 - 2 * along.var(axis=0) / np.maximum(seen**2, 1e-12), 0)
    return kept


def slopes_of(draws: Draws) -> FloatArray:
    """Return b_t with the least mean of (beta_t - b_t)'G_t (beta_t - b_t), shape (2, d).

    They are E[G_t]^-1 E[G_t beta_t].
    """
    right = (draws.grams @ draws.slopes[..., None]).mean(axis=0)
    slopes: FloatArray = np.linalg.solve(draws.grams.mean(axis=0), right)[..., 0]
    return slopes


def weights_of(draws: Draws, slopes: FloatArray, discrepancy: float) -> FloatArray:
    """Return h_t with the least mean of ((beta_t + delta - b_t)'(D - G_t h_t))^2.

    Both factors are taken to be independent. The shape is (2, d).

    E[G_t W G_t] h_t = E[G_t W D], W = Cov(beta_t) + discrepancy I: slopes that moments know well are balanced too.
    """
    weights, (count, d) = [], draws.apart.shape
    for arm, b in enumerate(slopes):
        off = draws.slopes[:, arm] - b
        covariance, known = off.T @ off / count, count / (count + d)
        # Few draws do not determine a covariance of many features.
        loss = known * covariance + (1 - known) * np.diag(np.diagonal(covariance)) + discrepancy * np.eye(d)
        weighed = draws.grams[:, arm] @ loss
        right = (weighed @ draws.apart[..., None]).sum(axis=0)
        weights.append(np.linalg.solve(np.tensordot(weighed, draws.grams[:, arm], ([0, 2], [0, 2])), right)[:, 0])
    return np.array(weights)


def errors_of(
    draws: Draws,
    moments: SeenMoments,
    share: float,
    lines: tuple[FloatArray, FloatArray, FloatArray],
    lean: tuple[float, float],
    discrepancy: float,
    random: RandomDraws,
) -> FloatArray:
    """Return the estimate's error in each draw, with slopes beta_t + delta.

    It is, with delta ~ N(0, discrepancy I),

    sum_t k_t (beta_t + delta - b_t)'(D - G_t h_t) + sum_t k_t I_t (P_t - e_t), c the noise in the centres,
    I_t = h_t'c + s_t (h_t'D - index_t), P_t = b_t'c + s_t b_t'(D - D_released), s_1 = 1 - p, s_0 = -p.
    """
    centre = moments.middle_sd * random.standard_normal(draws.apart.shape)
    delta = math.sqrt(discrepancy) * random.standard_normal(draws.apart.shape)
    error, apart = np.zeros(len(delta)), draws.apart
    for t, side in enumerate((1 - share, -share)):
        b, h, index = (by_arm[t] for by_arm in lines)
        error += lean[t] * ((draws.slopes[:, t] + delta - b) * (apart - draws.grams[:, t] @ h)).sum(axis=1)
        meets = centre @ h + side * (apart @ h - index)
        moved = centre @ b + side * (apart - apart.mean(axis=0)) @ b
        error += lean[t] * meets * (moved - draws.errors[:, t])
    return error


def scores_of(public: Public, scales: FoundScales, learnt: Learnt) -> Scores:
    """Return the scores of release 5, whose cut balances noise against the bias of cutting."""
    cuts = CUTS * unit(scales, learnt)
    lost = np.array([np.abs(losses(scales, learnt, float(cut))).sum() for cut in cuts])
    loss = (scores_sd(public) * cuts) ** 2 + lost**2 + (0.5 * TAIL * np.exp(-CUTS / TAIL) * unit(scales, learnt)) ** 2
    return Scores(
        scales.arms,
        learnt.features,
        learnt.lean,
        learnt.moments.middle,
        learnt.draws.apart.mean(axis=0),
        learnt.slopes,
        learnt.weights,
        learnt.index,
        float(cuts[loss.argmin()]),
    )


def unit(scales: FoundScales, learnt: Learnt) -> float:
    """Return the larger deviation of a score in an arm: residual times its weight."""
    arms = (scales.arms.share, 1 - scales.arms.share)
    wide = np.sqrt(1 + np.array(learnt.lean) ** 2 * learnt.distances) / arms
    return math.sqrt(learnt.residual) * float((learnt.counts * wide).max())


def losses(scales: FoundScales, learnt: Learnt, cut: float) -> FloatArray:
    """Return the part of each arm's mean that a cut of scores removes, shape (2,).

    It is computed from the outcome's released histogram. Residuals are taken to have the outcome's shape, and an arm's
    weights to be normal, around 1/p_t or around a line in the outcome: a unit with a rare event lies where events are
    more likely, and there the arm with few units has larger weights.
    """
    away = (MIDDLE - scales.outcome.mean) / scales.outcome.deviation
    y, by_arm = away * math.sqrt(learnt.residual), []
    shares, signs = (scales.arms.share, 1 - scales.arms.share), (-1, 1)
    for part, sign, k, distance, tilt in zip(shares, signs, learnt.lean, learnt.distances, learnt.tilt, strict=True):
        spread = math.sqrt(max(distance - tilt**2, 0.0))
        weight = (1 + k * spread * NODES)[:, None] + sign * k * tilt * away
        score = weight * y / part
        beyond = np.sign(score) * np.maximum(np.abs(score) - cut, 0)
        by_arm.append(part * float(NODE_WEIGHTS @ beyond @ scales.outcome.shares) / float(NODE_WEIGHTS.sum()))
    taken: FloatArray = learnt.counts * np.array(by_arm)
    return taken
