"""Symmetric matrices seen through known noise: entries that are mostly small, drawn given what is seen of them."""

from __future__ import annotations

import numpy as np

from causalveil.tasks.machine.arrays import BoolArray, FloatArray
from causalveil.tasks.regression.released import RandomDraws

# Deviations of the normal mixture that entries come from; counts before any are seen: all alike for correlations,
# mostly small ones for differences of arms (chosen on random tables 0 to 199).
WIDTHS, EVEN, MOSTLY_SMALL = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 0.7]), np.ones(6), np.array([10.0, 1, 1, 1, 1, 1])
# Rounds of expectation and maximisation: shares move by less than a hundredth after that.
ROUNDS = 60


class Mixture:
    """Normal mixture of mean 0 on fixed widths, fitted to noisy numbers (adaptive shrinkage, Stephens 2017)."""

    def __init__(self, seen: FloatArray, noise_sd: FloatArray, before: FloatArray) -> None:
        """Fit the shares of the widths to what is seen; ``before``: how often each width was seen before."""
        density, self.shares = self._densities(seen, noise_sd), before / before.sum()
        for _ in range(ROUNDS if seen.size else 0):
            parts = self.shares[:, None] * density
            self.shares = (parts / parts.sum(axis=0)).sum(axis=1) + before
            self.shares /= self.shares.sum()

    @staticmethod
    def _densities(seen: FloatArray, noise_sd: FloatArray) -> FloatArray:
        """Densities of what is seen, by each width; in single precision, since they only weigh."""
        wide = (WIDTHS**2).reshape(-1, *[1] * seen.ndim)
        precision = (1 / (wide + noise_sd**2)).astype(np.float32)
        density: FloatArray = np.exp(-0.5 * (seen**2).astype(np.float32) * precision) * np.sqrt(precision) + 1e-30
        return density

    def draw(self, random: RandomDraws, seen: FloatArray, noise_sd: FloatArray) -> FloatArray:
        """Draw each number given what is seen of it; any shape."""
        shares = self.shares.astype(np.float32).reshape(-1, *[1] * seen.ndim)
        edges = np.cumsum(shares * self._densities(seen, noise_sd), axis=0)
        chosen = (random.random(seen.shape, np.float32) * edges[-1] > edges[:-1]).sum(axis=0)
        width = WIDTHS[chosen] ** 2
        kept = width / (width + noise_sd**2)
        drawn: FloatArray = kept * seen + np.sqrt(kept) * noise_sd * random.standard_normal(seen.shape)
        return drawn


class Symmetric:
    """A symmetric matrix seen through noise: a shared entry and a mixture; its block along a few directions is wide.

    Entries below the noise may add up along a direction: where the arms or the outcome lie, its block is drawn alone.
    """

    def __init__(self, seen: FloatArray, noise_sd: FloatArray, told: BoolArray, arms: bool) -> None:
        """Fit the mixture.

        Args:
            seen, noise_sd: the matrix and the deviation of its noise, shape (d, d).
            told: entries that are known otherwise, and say nothing about the others.
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
        """Draw it given what is seen of it in each chain, shape (chains, d, d).

        Args:
            random: of Monte Carlo draws.
            seen, noise_sd: shape (chains, d, d).
            along: orthonormal directions, shape (chains, d, directions).
        """
        seen = seen - self.shared
        if not self.arms:
            seen = seen * (1 - np.eye(seen.shape[1]))
        found, across, wide = np.zeros_like(seen), along.swapaxes(1, 2), 1 + np.eye(along.shape[2])
        for mixture, (i, j) in zip(self.entries, self.places, strict=True):
            found[:, i, j] = found[:, j, i] = mixture.draw(random, seen[:, i, j], noise_sd[:, i, j])
        upper, block = (slice(None), *np.triu_indices(len(wide))), np.zeros((len(seen), *wide.shape))
        block_sd = np.sqrt(np.maximum(across**2 @ noise_sd**2 @ along**2 * wide, 1e-12))
        block[upper] = self.block.draw(random, (across @ seen @ along)[upper], block_sd[upper])
        block = np.triu(block) + np.triu(block, 1).swapaxes(1, 2)
        drawn: FloatArray = self.shared + found + along @ (block - across @ found @ along) @ across
        return drawn
