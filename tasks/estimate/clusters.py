"""Estimate the correlation within clusters from one released number.

Scores about their mean have totals S_g by cluster. Of sizes n_g, own variance v of a score and intraclass correlation
rho, S_g is about N(0, tau_g^2) with tau_g^2 = v n_g (1 + (n_g - 1) rho), so that B = sum |S_g| has mean
sqrt(2/pi) sum tau_g and variance (1 - 2/pi) sum tau_g^2. B with its noise gives rho a posterior on a grid, and so the
variance sum tau_g^2 of the total. An interval is a quantile of the mixture over that posterior, whose tails are as
heavy as few clusters and noise make them. Derivations, prior and cells: ``docs/proofs/clusters.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.plan import StandIn
from causalveil.schemas.release import AnswerClustering, ClustersStatement, Correlation
from causalveil.schemas.study import Clusters
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
# .4 made intervals 5 to 7% wider), what it gives to no correlation at all (section 4), and its grid.
PRIOR, UNCORRELATED = 0.2, 0.02
RHO: FloatArray = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 100)])
# Sizes that stand for lognormal ones; points of a compressed mixture, each of variances within a few per cent.
SIZES, POINTS = 40, 60
# Parts of the posterior that nothing depends on, and ends of the correlation that is told.
NOTHING, TOLD = 1e-7, (0.05, 0.5, 0.95)
# The noise hides rho where the posterior leaves more than so much of what the prior left possible.
HIDES = 0.8


# What a plan assumes of the correlation where its reader does not say: of outcomes of whole clusters that were treated;
# of scores where treatment varies within clusters, whose arms share the cluster effects (cell 4: .009 of .05).
WHOLE, WITHIN = 0.05, 0.01


def assumed_icc(clusters: Clusters | None, stand_in: StandIn) -> float:
    """Return the correlation that a plan takes, as told or assumed."""
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
    """Clusters of an arm, or of all, as they are known before their totals are.

    Attributes:
        own: sum over units of the variance of a score.
        units: how many they hold.
        clusters: how many there are.
        spread: deviation of their sizes over the mean size.
        doubt: deviation of the error of the centre that is taken off each score.
        unit: what 1 of the total adds to an answer.
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
        """Sizes that stand for those of the clusters, shape (SIZES,); one where they are equal."""
        mean = max(self.units / self.clusters, 1.0)
        if self.spread == 0:
            return np.array([mean])
        from scipy.special import ndtri

        deviation = math.sqrt(math.log1p(self.spread**2))
        sizes = np.exp(deviation * ndtri((np.arange(SIZES) + 0.5) / SIZES))
        found: FloatArray = np.maximum(mean * sizes / sizes.mean(), 1.0)
        return found

    def squares(self, rho: FloatArray) -> FloatArray:
        """Return tau_g^2, shape (rho, sizes)."""
        sizes = self.sizes
        found: FloatArray = self.own / self.units * sizes * (1 + (sizes - 1) * rho[:, None])
        return found

    def totals(self, rho: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the variance of the total at each rho, and mean and variance of B.

        Each has shape (rho,). Covariates that are constant within clusters follow their totals, and chance differences
        between arms: B sees so much less, and the total varies so much more.
        """
        sizes, squares = self.sizes, self.squares(rho)
        seen = squares * (1 - self.lost / self.clusters) + (sizes * self.doubt) ** 2
        each = self.clusters / len(sizes)
        absolute = MEAN_ABSOLUTE * np.sqrt(seen).sum(axis=1)
        spare = self.clusters / (self.clusters - self.lost + 1)
        return each * spare * squares.sum(axis=1), each * absolute, each * (1 - MEAN_ABSOLUTE**2) * seen.sum(axis=1)


@dataclass(frozen=True)
class ClusteredVariance:
    """The variances of a total that B leaves possible, with their shares.

    Attributes:
        variances, shares: of the mixture, shape (points,).
        own: the variance of independent units.
        units: how many it is of.
        correlation: low, median and high intraclass correlation; 90% of the posterior.
        hidden: whether noise hides it, so that the posterior is about the prior.
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
        """Variance over that of independent people."""
        return self.variance / self.own

    def times(self, square: float) -> ClusteredVariance:
        """Return that of totals in another unit. ``square``: factor of a variance."""
        return replace(self, variances=self.variances * square, own=self.own * square)


def clustered_variance(
    known: Sequence[KnownClusters], released: Sequence[float], noise: Sequence[float]
) -> ClusteredVariance:
    """Return what released totals leave possible.

    Args:
        known: of each arm whose clusters are wholly in it, or one of all clusters.
        released: B of each, with noise.
        noise: its deviation.
    """
    prior = np.gradient(RHO) * np.exp(-RHO / PRIOR)
    prior *= (1 - UNCORRELATED) / prior.sum()
    prior[0] += UNCORRELATED
    shares, variances, correlation = np.ones(1), np.zeros(1), np.zeros(1)
    own = math.fsum(one.own * one.unit**2 for one in known)
    for one, seen, sd in zip(known, released, noise, strict=True):
        variance, mean, spread = one.totals(RHO)
        wide = sd**2 + spread
        logs = np.log(prior) - (seen - mean) ** 2 / (2 * wide) - np.log(wide) / 2
        posterior = np.exp(logs - logs.max())
        posterior /= posterior.sum()
        shares = np.outer(shares, posterior).ravel()
        variances = np.add.outer(variances, variance * one.unit**2).ravel()
        correlation = np.add.outer(correlation, one.own * one.unit**2 / own * RHO).ravel()
    order = np.argsort(correlation)
    low, middle, high = _quantiles(correlation[order], shares[order])
    before = _quantiles(RHO, prior)
    # Two arms' mean is known better than each of them.
    hidden = high - low > HIDES * (before[2] - before[0]) / math.sqrt(len(known))
    units = math.fsum(one.units for one in known)
    return ClusteredVariance(*_compressed(variances, shares), own, units, (low, middle, high), hidden)


def clusters_told(
    clusters: Clusters, clustered: Iterable[tuple[dict[str, str], ClusteredVariance]]
) -> ClustersStatement:
    """Return what a release says of clusters.

    ``clustered``: of each answer that noise does not hide, by the names of its outcome, group and arm.
    """
    return ClustersStatement(
        **clusters.model_dump(),
        answers=tuple(
            AnswerClustering(
                **of,
                correlation=Correlation(**dict(zip(Correlation.model_fields, one.correlation, strict=True))),
                design_effect=one.design_effect,
                effective_people=one.units / one.design_effect,
                hidden=one.hidden,
            )
            for of, one in clustered
        ),
    )


def _quantiles(values: FloatArray, shares: FloatArray) -> tuple[float, float, float]:
    """Return the told quantiles of ascending values."""
    places = np.searchsorted(np.cumsum(shares), TOLD)
    low, middle, high = values[np.minimum(places, len(values) - 1)].tolist()
    return low, middle, high


def _compressed(variances: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a mixture of few points, each the mean of variances that are near each other."""
    some = shares > NOTHING
    logs, own = np.log(variances[some]), shares[some]
    width = max(float(np.ptp(logs)), 1e-9) / POINTS
    bins = np.minimum(((logs - logs.min()) / width).astype(np.intp), POINTS - 1)
    weight = np.bincount(bins, own, minlength=POINTS)
    total = np.bincount(bins, own * variances[some], minlength=POINTS)
    kept = weight > 0
    return total[kept] / weight[kept], weight[kept] / weight.sum()


# Where a table has subgroups, of each squared factor half is for totals in subgroups and half for those over all.
HALF = math.sqrt(0.5)


@dataclass(frozen=True)
class Contributions:
    """Contributions of units to the answers, cut to [-1, 1] and signed by arm.

    All is as earlier releases tell it.

    Attributes:
        units: what 1 adds to the effect in its subgroup, in u, shape (outcomes, groups, arms).
        own: sum of their squares, of the same shape.
        counts: of units, shape (groups, arms).
        errors: of the centres, by source of error, shape (outcomes, groups, arms, sources); sources of two subgroups
            are independent.
        shares: of each subgroup in the answer over all, times the unit of its outcome; 0 of one that noise hides.
            Shape (outcomes, groups).
    """

    units: FloatArray
    own: FloatArray
    counts: FloatArray
    errors: FloatArray
    shares: FloatArray


@dataclass(frozen=True)
class ReleasedTotals:
    """Absolute totals of clusters as they are released, shape (outcomes, blocks, parts).

    Attributes:
        sums: with noise, weights taken off.
        sd: of the noise.
        icc: in a plan, whose people have no clusters, a correlation; ``sums`` lack what is expected at it.
    """

    sums: FloatArray
    sd: FloatArray
    icc: float | None = None


# By outcome, by block, by arm that is not the reference; None where noise hides the answer.
ClusteredVariances = tuple[tuple[tuple[ClusteredVariance | None, ...], ...], ...]


@dataclass(frozen=True)
class ClusterTotals:
    """The absolute totals of clusters that a table releases.

    A block is a subgroup; after several of them there is one of all. A part of a block is an arm where whole clusters
    were treated, since two arms have no cluster in common, else the comparison of an arm with the reference. A total
    of a part adds up what its units add to it, in the largest of their units, so that no unit adds more than 1.

    Attributes:
        weights: of the outcomes, whose squares add up to 1.
        numbers: of clusters, shape (blocks, parts).
        spread: deviation of the clusters' sizes over the mean size.
        groups, arms: how many there are.
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
        """Return those of a study."""
        arms = study.arm_names
        of_groups = [clusters.of_group(label) for label in study.groups]
        blocks = [*of_groups, clusters] if len(of_groups) > 1 else of_groups
        numbers = [one.of_arms(arms) or (one.number,) * (len(arms) - 1) for one in blocks]
        sizes = len(of_groups), len(arms), clusters.whole
        # Slopes are of all arms, each of which has its share of what they take.
        shared = clusters.degrees(getattr(study, "covariates", {})) / (len(arms) if clusters.whole else 1)
        return cls(tuple(weights), np.array(numbers, float), clusters.spread, *sizes, 1 + shared)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Outcomes, blocks and parts."""
        return len(self.weights), *cast(tuple[int, int], self.numbers.shape)

    @property
    def factors(self) -> FloatArray:
        """Factor of each total: no unit moves the vector of all by more than 2."""
        _, blocks, parts = self.shape
        block = 1.0 if blocks == 1 else HALF
        # A unit of the reference is in every comparison, one of an arm in one total of that arm.
        part = 1.0 if self.whole else math.sqrt(1 / parts)
        return np.broadcast_to(np.array(self.weights)[:, None, None] * block * part, self.shape)

    def groups_of(self, block: int) -> list[int]:
        """Return the subgroups of a block."""
        return [block] if block < self.groups else list(range(self.groups))

    def arms_of(self, part: int) -> list[int]:
        """Return the arms of a part."""
        return [part] if self.whole else [0, part + 1]

    def _units(self, found: Contributions, outcome: int, block: int, part: int) -> FloatArray:
        """Return what 1 of each subgroup and arm adds to the answer of a part; 0 of who is not in it."""
        own = np.zeros((self.groups, self.arms))
        own[np.ix_(self.groups_of(block), self.arms_of(part))] = 1.0
        shares = found.shares[outcome][:, None]
        own *= found.units[outcome] * (shares > 0)
        return own * shares if block >= self.groups else own

    def known(self, found: Contributions, outcome: int, block: int, part: int) -> KnownClusters | None:
        """Return what is known of the clusters of a part before their totals are.

        None of a part without units.
        """
        units = self._units(found, outcome, block, part)
        unit = float(units.max())
        if unit == 0:
            return None
        factors, counts = units / unit, found.counts * (units > 0)
        error = np.einsum("ga,gas->gs", factors * counts, found.errors[outcome])
        return KnownClusters(
            own=float((factors**2 * found.own[outcome]).sum()),
            units=float(counts.sum()),
            clusters=float(self.numbers[block, part]),
            spread=self.spread,
            doubt=float(np.linalg.norm(error) / counts.sum()),
            unit=unit,
            lost=self.lost,
        )

    def exact(
        self,
        found: Contributions,
        pieces: Pieces,
        codes: Callable[[int], NDArray[np.uint64]],
        of: Callable[[CellRows], FloatArray],
        workers: int,
    ) -> FloatArray:
        """Return exact sums over clusters of absolute totals.

        Memory is that of each cluster's totals. A total of rows on the lattice is exact in floats in any order, as are
        sums of absolute totals: all are multiples of 2^-18 below the number of rows.

        Args:
            found: what earlier releases say.
            pieces: all units.
            codes: of the clusters of each piece's rows.
            of: from rows to what each adds, cut to [-1, 1], shape (outcomes, rows).
            workers: threads; the sums do not depend on it.
        """
        outcomes, blocks, parts = self.shape
        units = np.array(
            [[[self._units(found, k, b, p) for p in range(parts)] for b in range(blocks)] for k in range(outcomes)]
        )
        factors = units / np.maximum(units.max(axis=(3, 4), keepdims=True), np.finfo(float).tiny)

        def piece(index: int) -> list[ByCluster]:
            rows, named = cast(CellRows, pieces.rows(index)), np.asarray(codes(index))
            added, group = of(rows), rows.g.astype(np.intp)
            return [self._block(factors[:, block], block, rows, added, group, named) for block in range(blocks)]

        totals = [ByCluster(np.zeros(0, np.uint64), np.zeros((outcomes * parts, 0)))] * blocks
        for own in distribute(piece, pieces.count, workers):
            totals = [one.with_more(more) for one, more in zip(totals, own, strict=True)]
        absolute = np.stack([np.abs(one.totals).sum(axis=1) for one in totals])
        return absolute.reshape(blocks, outcomes, parts).swapaxes(0, 1)

    def _block(
        self, factors: FloatArray, block: int, rows: CellRows, added: FloatArray, group: IntArray, named: NDArray[Any]
    ) -> ByCluster:
        """Return totals of some rows in a block.

        Who lies in no subgroup is in none.
        """
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
        """Return totals as they are read.

        ``sums``: with noise; ``noise``: its deviation.
        """
        return ReleasedTotals(sums.reshape(self.shape) / self.factors, noise / self.factors, icc)

    def read(self, found: Contributions, released: ReleasedTotals) -> ClusteredVariances:
        """Return what totals say of the sampling variance of every answer, in u."""
        outcomes, blocks, _ = self.shape
        return tuple(
            tuple(
                tuple(self._answer(found, released, k, block, arm) for arm in range(1, self.arms))
                for block in range(blocks)
            )
            for k in range(outcomes)
        )

    def _answer(
        self, found: Contributions, released: ReleasedTotals, k: int, block: int, arm: int
    ) -> ClusteredVariance | None:
        parts = [0, arm] if self.whole else [arm - 1]
        known = [one for part in parts if (one := self.known(found, k, block, part))]
        if len(known) < len(parts):
            return None
        expected = [0.0 if released.icc is None else float(one.totals(np.array([released.icc]))[1][0]) for one in known]
        sums = (released.sums[k, block, parts] + expected).tolist()
        return clustered_variance(known, sums, released.sd[k, block, parts].tolist())


@dataclass(frozen=True)
class ByCluster:
    """Totals by cluster: codes ascending, and totals of shape (numbers, clusters)."""

    codes: NDArray[np.uint64]
    totals: FloatArray

    def with_more(self, other: ByCluster) -> ByCluster:
        """Return the totals of both."""
        known, place = np.unique(np.concatenate([self.codes, other.codes]), return_inverse=True)
        both = np.concatenate([self.totals, other.totals], axis=1)
        return ByCluster(known, np.stack([np.bincount(place, row, minlength=len(known)) for row in both]))


def codes_of(enclave: Enclave) -> Callable[[int], Any] | float:
    """Return the codes of clusters of each segment's rows.

    In a rehearsal: the intraclass correlation that is assumed.
    """
    if enclave.segments and enclave.holds("c", 0):
        return lambda segment: enclave.load("c", segment)
    return float(enclave.load(ICC)[0])
