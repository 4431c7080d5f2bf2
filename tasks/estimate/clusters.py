"""Estimate the correlation within clusters from one released number.

Scores about their mean have totals S_g by cluster. With sizes n_g, variance v of one score and intraclass correlation
rho, S_g is about N(0, tau_g^2) with tau_g^2 = v n_g (1 + (n_g - 1) rho), so that B = sum |S_g| has mean
sqrt(2/pi) sum tau_g and variance (1 - 2/pi) sum tau_g^2. B with its noise gives rho a posterior on a grid, and so the
variance sum tau_g^2 of the total. An interval is a quantile of the mixture over that posterior, whose tails are as
heavy as few clusters and noise make them. Derivations, prior and cells: ``docs/proofs/clusters.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.clusters import Clusters
from causalveil.schemas.plan import StandIn
from causalveil.schemas.table import TableStudy
from causalveil.tasks.data.cells import CellRows
from causalveil.tasks.data.enclave import ICC, Enclave
from causalveil.tasks.data.split import Pieces
from causalveil.tasks.estimate.models.lattice_sums import on_lattice
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.machine.distribute import distribute

# E|Z| of a standard normal.
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
# Mean of the exponential prior of rho (chosen on cells 1 to 13 of docs/proofs/clusters.md: .1 held .91 in one of them,
# .4 made intervals 5 to 7% wider), its probability of no correlation at all (section 4), and its grid.
PRIOR, UNCORRELATED = 0.2, 0.02
RHO: FloatArray = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 100)])
# Sizes that represent a lognormal distribution; points of a compressed mixture, each of variances within a few per
# cent.
SIZES, POINTS = 40, 60
# The largest probability that the compressed mixture leaves out, and the quantiles of rho that are stated.
NEGLIGIBLE, QUANTILES = 1e-7, (0.05, 0.5, 0.95)
# Noise hides rho where the posterior's 90% interval is longer than this part of the prior's.
HIDES = 0.8
# Correlation that a plan assumes where its reader states none: of outcomes where whole clusters were treated; of scores
# where treatment varies within clusters, whose arms share the cluster effects (cell 4: .009 of .05).
WHOLE, WITHIN = 0.05, 0.01


def assumed_icc(clusters: Clusters | None, stand_in: StandIn) -> float:
    """Return the intraclass correlation of a plan: its reader's, or an assumed one."""
    if stand_in.icc is not None or clusters is None:
        return stand_in.icc or 0.0
    return WITHIN if clusters.treated is None else WHOLE


def design_effect(clusters: Clusters, units: int, icc: float) -> float:
    """Return the variance of a total over that of independent people.

    >>> design_effect(Clusters(column="school", number=50, spread=0), 5_000, 0.05)
    5.95
    """
    known = KnownClusters(float(units), float(units), float(clusters.number), clusters.spread)
    return round(float(known.totals(np.array([icc]))[0][0]) / units, 12)


@dataclass(frozen=True)
class KnownClusters:
    """Facts about the clusters of one arm, or of all, before their totals are released.

    Attributes:
        own: sum over units of the variance of a score.
        units: number of units.
        clusters: number of clusters.
        spread: deviation of their sizes over the mean size.
        doubt: deviation of the error of the centre that is subtracted from each score.
        unit: how much 1 of the total adds to an answer.
        lost: degrees of freedom of the centre, and of covariates that are constant within clusters.
    """

    own: float
    units: float
    clusters: float
    spread: float
    doubt: float = 0.0
    unit: float = 1.0
    lost: float = 1.0

    @property
    def sizes(self) -> FloatArray:
        """Sizes that represent those of the clusters, shape (SIZES,), or (1,) where they are equal."""
        mean = max(self.units / self.clusters, 1.0)
        if self.spread == 0:
            return np.array([mean])
        from scipy.special import ndtri

        deviation = math.sqrt(math.log1p(self.spread**2))
        sizes = np.exp(deviation * ndtri((np.arange(SIZES) + 0.5) / SIZES))
        return cast(FloatArray, np.maximum(mean * sizes / sizes.mean(), 1.0))

    def squares(self, rho: FloatArray) -> FloatArray:
        """Return tau_g^2, shape (rho, sizes)."""
        sizes = self.sizes
        return self.own / self.units * sizes * (1 + (sizes - 1) * rho[:, None])

    def totals(self, rho: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the variance of the total, and mean and variance of B; each of shape (rho,).

        Covariates that are constant within clusters fit the totals in part, by chance too: B is smaller by the degrees
        of freedom lost, and the variance of the total larger.
        """
        sizes, squares = self.sizes, self.squares(rho)
        seen = squares * (1 - self.lost / self.clusters) + (sizes * self.doubt) ** 2
        each = self.clusters / len(sizes)
        absolute = MEAN_ABSOLUTE * np.sqrt(seen).sum(axis=1)
        spare = self.clusters / (self.clusters - self.lost + 1)
        return each * spare * squares.sum(axis=1), each * absolute, each * (1 - MEAN_ABSOLUTE**2) * seen.sum(axis=1)


@dataclass(frozen=True)
class ClusteredVariance:
    """The posterior of a total's variance given B: possible variances with their probabilities.

    Attributes:
        variances, shares: of the mixture, shape (points,).
        own: the variance if units were independent.
        units: number of units in the total.
        correlation: the posterior's QUANTILES of the intraclass correlation.
        hidden: whether noise hides the correlation, so that its posterior is about the prior.
    """

    variances: FloatArray
    shares: FloatArray
    own: float
    units: float
    correlation: tuple[float, float, float]
    hidden: bool

    @property
    def variance(self) -> float:
        """The mean of the mixture."""
        return float(self.variances @ self.shares)

    @property
    def design_effect(self) -> float:
        """Variance over that of independent units."""
        return self.variance / self.own

    def times(self, square: float) -> ClusteredVariance:
        """Return the posterior in another unit. ``square``: factor of a variance."""
        return replace(self, variances=self.variances * square, own=self.own * square)


def clustered_variance(
    known: Sequence[KnownClusters], released: Sequence[float], noise: Sequence[float]
) -> ClusteredVariance:
    """Return the posterior of the variance of an answer, given released totals.

    Args:
        known: of each arm, where its clusters lie wholly in it; else of all clusters.
        released: B of each, with noise.
        noise: deviation of the noise on each.
    """
    prior = np.gradient(RHO) * np.exp(-RHO / PRIOR)
    prior *= (1 - UNCORRELATED) / prior.sum()
    prior[0] += UNCORRELATED
    shares, variances, correlation = np.ones(1), np.zeros(1), np.zeros(1)
    own = math.fsum(arm.own * arm.unit**2 for arm in known)
    for arm, seen, sd in zip(known, released, noise, strict=True):
        variance, mean, spread = arm.totals(RHO)
        wide = sd**2 + spread
        logs = np.log(prior) - (seen - mean) ** 2 / (2 * wide) - np.log(wide) / 2
        posterior = np.exp(logs - logs.max())
        posterior /= posterior.sum()
        shares = np.outer(shares, posterior).ravel()
        variances = np.add.outer(variances, variance * arm.unit**2).ravel()
        correlation = np.add.outer(correlation, arm.own * arm.unit**2 / own * RHO).ravel()
    order = np.argsort(correlation)
    low, middle, high = _quantiles(correlation[order], shares[order])
    before = _quantiles(RHO, prior)
    # Two arms' mean is known better than each of them.
    hidden = high - low > HIDES * (before[2] - before[0]) / math.sqrt(len(known))
    units = math.fsum(arm.units for arm in known)
    return ClusteredVariance(*_compressed(variances, shares), own, units, (low, middle, high), hidden)


def _quantiles(values: FloatArray, shares: FloatArray) -> tuple[float, float, float]:
    """Return the QUANTILES of ascending values."""
    places = np.searchsorted(np.cumsum(shares), QUANTILES)
    low, middle, high = values[np.minimum(places, len(values) - 1)].tolist()
    return low, middle, high


def _compressed(variances: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a mixture of at most POINTS points, each the mean of similar variances."""
    likely = shares > NEGLIGIBLE
    logs, own = np.log(variances[likely]), shares[likely]
    width = max(float(np.ptp(logs)), 1e-9) / POINTS
    bins = np.minimum(((logs - logs.min()) / width).astype(np.intp), POINTS - 1)
    weight = np.bincount(bins, own, minlength=POINTS)
    total = np.bincount(bins, own * variances[likely], minlength=POINTS)
    used = weight > 0
    return total[used] / weight[used], weight[used] / weight.sum()


# Where a table has subgroups, half of each squared factor is for totals in subgroups and half for those over all.
HALF = math.sqrt(0.5)


@dataclass(frozen=True)
class Contributions:
    """Contributions of units to the answers by earlier releases, in [-1, 1] and signed by arm.

    Attributes:
        units: how much a contribution of 1 adds to the effect in its subgroup, in u, shape (outcomes, groups, arms).
        own: sum of squared contributions, of the same shape.
        counts: of units, shape (groups, arms).
        errors: of the centres, by source of error, shape (outcomes, groups, arms, sources); sources of two subgroups
            are independent.
        shares: of each subgroup in the answer over all units, times the unit of its outcome; 0 of one that noise
            hides. Shape (outcomes, groups).
    """

    units: FloatArray
    own: FloatArray
    counts: FloatArray
    errors: FloatArray
    shares: FloatArray


@dataclass(frozen=True)
class ReleasedTotals:
    """Released absolute totals of clusters, shape (outcomes, blocks, parts).

    Attributes:
        sums: with noise, divided by their weights.
        sd: of the noise.
        icc: in a plan, whose people have no clusters, the assumed correlation; ``sums`` then hold noise alone.
    """

    sums: FloatArray
    sd: FloatArray
    icc: float | None = None


# By outcome, block and arm other than the reference; None where noise hides the answer.
ClusteredVariances = tuple[tuple[tuple[ClusteredVariance | None, ...], ...], ...]


@dataclass(frozen=True)
class ClusterTotals:
    """The absolute totals of clusters that a table releases.

    A block is a subgroup; after several subgroups one block holds all units. A part of a block is an arm where whole
    clusters were treated, since two arms then share no cluster; else the comparison of an arm with the reference. A
    total is in the largest unit of a part's contributions, so that no person adds more than 1.

    Attributes:
        weights: of the outcomes, whose squares add up to 1.
        numbers: of clusters, shape (blocks, parts).
        spread: deviation of the clusters' sizes over the mean size.
        groups, arms: their numbers.
        whole: whether whole clusters were treated.
        lost: degrees of freedom that a part loses.
    """

    weights: tuple[float, ...]
    numbers: FloatArray
    spread: float
    groups: int
    arms: int
    whole: bool
    lost: float = 1.0

    @classmethod
    def of(cls, study: TableStudy, clusters: Clusters, weights: Sequence[float]) -> ClusterTotals:
        """Return the totals of a study."""
        arms = study.arm_names
        groups = [clusters.of_group(label) for label in study.groups]
        blocks = [*groups, clusters] if len(groups) > 1 else groups
        numbers = [block.of_arms(arms) or (block.number,) * (len(arms) - 1) for block in blocks]
        sizes = len(groups), len(arms), clusters.whole
        # Arms have common slopes, whose degrees of freedom they share.
        shared = clusters.degrees(getattr(study, "covariates", {})) / (len(arms) if clusters.whole else 1)
        return cls(tuple(weights), np.array(numbers, float), clusters.spread, *sizes, 1 + shared)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of outcomes, blocks and parts."""
        return len(self.weights), *cast(tuple[int, int], self.numbers.shape)

    @property
    def factors(self) -> FloatArray:
        """Factor of each total, by which no person moves the vector of all totals by more than 2."""
        _, blocks, parts = self.shape
        block = 1.0 if blocks == 1 else HALF
        # A person of the reference is in every comparison, any other in that of the own arm alone.
        part = 1.0 if self.whole else math.sqrt(1 / parts)
        return np.broadcast_to(np.array(self.weights)[:, None, None] * block * part, self.shape)

    def groups_of(self, block: int) -> list[int]:
        """Return the subgroups of a block."""
        return [block] if block < self.groups else list(range(self.groups))

    def arms_of(self, part: int) -> list[int]:
        """Return the arms of a part."""
        return [part] if self.whole else [0, part + 1]

    def _units(self, contributions: Contributions, outcome: int, block: int, part: int) -> FloatArray:
        """Return each subgroup's and arm's unit of contributions to a part's answer; 0 outside it."""
        own = np.zeros((self.groups, self.arms))
        own[np.ix_(self.groups_of(block), self.arms_of(part))] = 1.0
        shares = contributions.shares[outcome][:, None]
        own *= contributions.units[outcome] * (shares > 0)
        return own * shares if block >= self.groups else own

    def facts(self, contributions: Contributions, outcome: int, block: int, part: int) -> KnownClusters | None:
        """Return the known facts of the clusters of a part; None of a part without units."""
        units = self._units(contributions, outcome, block, part)
        unit = float(units.max())
        if unit == 0:
            return None
        factors, counts = units / unit, contributions.counts * (units > 0)
        error = np.einsum("ga,gas->gs", factors * counts, contributions.errors[outcome])
        return KnownClusters(
            own=float((factors**2 * contributions.own[outcome]).sum()),
            units=float(counts.sum()),
            clusters=float(self.numbers[block, part]),
            spread=self.spread,
            doubt=float(np.linalg.norm(error) / counts.sum()),
            unit=unit,
            lost=self.lost,
        )

    def exact(
        self,
        contributions: Contributions,
        pieces: Pieces,
        codes: Callable[[int], NDArray[np.uint64]],
        scores_of: Callable[[CellRows], FloatArray],
        workers: int,
    ) -> FloatArray:
        """Return exact sums over clusters of absolute totals, shape (outcomes, blocks, parts).

        Memory is that of each cluster's totals. A total of rows on the lattice is exact in floats in any order, as are
        sums of absolute totals: all are multiples of 2^-18 below the number of rows.

        Args:
            contributions: read off earlier releases.
            pieces: all units.
            codes: of the clusters of each piece's rows.
            scores_of: from rows to the contribution of each, cut to [-1, 1], shape (outcomes, rows).
            workers: threads; the sums do not depend on their number.
        """
        outcomes, blocks, parts = self.shape
        units = np.array(
            [
                [[self._units(contributions, k, b, p) for p in range(parts)] for b in range(blocks)]
                for k in range(outcomes)
            ]
        )
        factors = units / np.maximum(units.max(axis=(3, 4), keepdims=True), np.finfo(float).tiny)

        def piece(index: int) -> list[ByCluster]:
            rows, named = cast(CellRows, pieces.rows(index)), np.asarray(codes(index))
            added, group = scores_of(rows), rows.g.astype(np.intp)
            return [self._block(factors[:, block], block, rows, added, group, named) for block in range(blocks)]

        totals = [ByCluster(np.zeros(0, np.uint64), np.zeros((outcomes * parts, 0)))] * blocks
        for piece_totals in distribute(piece, pieces.count, workers):
            totals = [block.with_more(more) for block, more in zip(totals, piece_totals, strict=True)]
        absolute = np.stack([np.abs(block.totals).sum(axis=1) for block in totals])
        return absolute.reshape(blocks, outcomes, parts).swapaxes(0, 1)

    def _block(
        self, factors: FloatArray, block: int, rows: CellRows, added: FloatArray, group: IntArray, named: NDArray[Any]
    ) -> ByCluster:
        """Return totals of some rows in a block; rows outside every subgroup are left out."""
        here = group == block if block < self.groups else group < self.groups
        codes, place = np.unique(named[here], return_inverse=True)
        group, arm = group[here], rows.t[here].astype(np.intp)
        sums = [
            np.bincount(place, on_lattice(factor[group, arm] * own), minlength=len(codes))
            for by_part, own in zip(factors, added[:, here], strict=True)
            for factor in by_part
        ]
        return ByCluster(codes, np.array(sums))

    def released(self, sums: FloatArray, noise: float, icc: float | None) -> ReleasedTotals:
        """Return released totals. ``sums``: with factors and noise; ``noise``: its deviation."""
        return ReleasedTotals(sums.reshape(self.shape) / self.factors, noise / self.factors, icc)

    def read(self, contributions: Contributions, released: ReleasedTotals) -> ClusteredVariances:
        """Return the posterior of the sampling variance of every answer, in u."""
        outcomes, blocks, _ = self.shape
        return tuple(
            tuple(
                tuple(self._answer(contributions, released, k, block, arm) for arm in range(1, self.arms))
                for block in range(blocks)
            )
            for k in range(outcomes)
        )

    def _answer(
        self, contributions: Contributions, released: ReleasedTotals, k: int, block: int, arm: int
    ) -> ClusteredVariance | None:
        parts = [0, arm] if self.whole else [arm - 1]
        known = [clusters for part in parts if (clusters := self.facts(contributions, k, block, part))]
        if len(known) < len(parts):
            return None
        expected = [
            0.0 if released.icc is None else float(clusters.totals(np.array([released.icc]))[1][0])
            for clusters in known
        ]
        sums = (released.sums[k, block, parts] + expected).tolist()
        return clustered_variance(known, sums, released.sd[k, block, parts].tolist())


@dataclass(frozen=True)
class ByCluster:
    """Totals by cluster: codes ascending, and totals of shape (numbers, clusters)."""

    codes: NDArray[np.uint64]
    totals: FloatArray

    def with_more(self, more: ByCluster) -> ByCluster:
        """Return the totals of both."""
        codes, place = np.unique(np.concatenate([self.codes, more.codes]), return_inverse=True)
        both = np.concatenate([self.totals, more.totals], axis=1)
        return ByCluster(codes, np.stack([np.bincount(place, row, minlength=len(codes)) for row in both]))


def codes_of(enclave: Enclave) -> Callable[[int], Any] | float:
    """Return the cluster codes of each segment's rows; in a rehearsal the assumed correlation."""
    if enclave.segments and enclave.holds("c", 0):
        return lambda segment: enclave.load("c", segment)
    return float(enclave.load(ICC)[0])
