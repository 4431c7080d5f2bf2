"""Read off one released number how alike units of one cluster are.

Scores about their mean have totals S_g by cluster. Of sizes n_g, own variance v of a score and intraclass correlation
rho, S_g is about N(0, tau_g^2) with tau_g^2 = v n_g (1 + (n_g - 1) rho), so that B = sum |S_g| has mean
sqrt(2/pi) sum tau_g and variance (1 - 2/pi) sum tau_g^2. B with its noise gives rho a posterior on a grid, and so the
variance sum tau_g^2 of the total. An interval is a quantile of the mixture over that posterior, whose tails are as
heavy as few clusters and noise make them. Derivations, prior and cells: ``docs/proofs/clusters.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from causalveil.schemas.plan import StandIn
from causalveil.schemas.release import ClustersStatement, Correlation, OutcomeLikeness
from causalveil.schemas.study import Clusters
from causalveil.tasks.machine.arrays import FloatArray

# E|Z| of a standard normal.
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
# Mean of the exponential prior of rho (chosen on cells 1 to 13 of docs/proofs/clusters.md: .1 held .91 in one of them,
# .4 made intervals 5 to 7% wider), and its grid.
PRIOR = 0.2
RHO: FloatArray = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 100)])
# Sizes that stand for lognormal ones; points of a compressed mixture, each of variances within a few per cent.
SIZES, POINTS = 40, 60
# Parts of the posterior that nothing depends on, and ends of the correlation that is told.
NOTHING, TOLD = 1e-7, (0.05, 0.5, 0.95)
# The noise hides rho where the posterior leaves more than so much of what the prior left possible.
HIDES = 0.8


# What a plan assumes of the correlation where its reader does not say: of outcomes of whole clusters that were treated;
# of scores where treatment varies within clusters, whose arms share what is alike (cell 4: .009 of .05).
WHOLE, WITHIN = 0.05, 0.01


def assumed_icc(clusters: Clusters | None, stand_in: StandIn) -> float:
    """Return the correlation that a plan takes, as told or assumed."""
    if stand_in.icc is not None or clusters is None:
        return stand_in.icc or 0.0
    return WITHIN if clusters.treated is None else WHOLE


def design_effect(clusters: Clusters, units: int, icc: float) -> float:
    """Return the variance of a total over that of people who are not alike.

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
    """

    own: float
    units: float
    clusters: float
    spread: float
    doubt: float = 0.0

    @property
    def sizes(self) -> FloatArray:
        """Sizes that stand for those of the clusters, shape (SIZES,); one where they are alike."""
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

        Each has shape (rho,). The centre takes one degree of freedom.
        """
        sizes, squares = self.sizes, self.squares(rho)
        seen = squares * (1 - 1 / self.clusters) + (sizes * self.doubt) ** 2
        each = self.clusters / len(sizes)
        absolute = MEAN_ABSOLUTE * np.sqrt(seen).sum(axis=1)
        return each * squares.sum(axis=1), each * absolute, each * (1 - MEAN_ABSOLUTE**2) * seen.sum(axis=1)


def expected_totals(known: Sequence[KnownClusters], rho: float) -> FloatArray:
    """Return what B is expected to be at a correlation, by arm."""
    return np.array([float(one.totals(np.array([rho]))[1][0]) for one in known])


@dataclass(frozen=True)
class Likeness:
    """The variances of a total that B leaves possible, with their shares.

    Attributes:
        variances, shares: of the mixture, shape (points,).
        own: the variance if nobody were alike.
        correlation: low, median and high intraclass correlation; 90% of the posterior.
        hidden: whether noise hides it, so that the posterior is about the prior.
    """

    variances: FloatArray
    shares: FloatArray
    own: float
    correlation: tuple[float, float, float]
    hidden: bool

    @property
    def variance(self) -> float:
        """The mean of the mixture."""
        return float(self.variances @ self.shares)

    @property
    def design_effect(self) -> float:
        """Variance over that of people who are not alike."""
        return self.variance / self.own

    def times(self, square: float) -> Likeness:
        """Return that of totals in another unit. ``square``: factor of a variance."""
        return replace(self, variances=self.variances * square, own=self.own * square)


def likeness(known: Sequence[KnownClusters], released: FloatArray, noise: float) -> Likeness:
    """Return what released totals leave possible.

    Args:
        known: of each arm whose clusters are wholly in it, or one of all clusters.
        released: B of each, with noise, shape (arms,).
        noise: its deviation.
    """
    prior = np.gradient(RHO) * np.exp(-RHO / PRIOR)
    shares, variances, correlation, own = np.ones(1), np.zeros(1), np.zeros(1), sum(one.own for one in known)
    for one, seen in zip(known, released, strict=True):
        variance, mean, spread = one.totals(RHO)
        wide = noise**2 + spread
        logs = np.log(prior) - (seen - mean) ** 2 / (2 * wide) - np.log(wide) / 2
        posterior = np.exp(logs - logs.max())
        posterior /= posterior.sum()
        shares = np.outer(shares, posterior).ravel()
        variances = np.add.outer(variances, variance).ravel()
        correlation = np.add.outer(correlation, one.own / own * RHO).ravel()
    order = np.argsort(correlation)
    low, middle, high = _quantiles(correlation[order], shares[order])
    before = _quantiles(RHO, prior / prior.sum())
    # Two arms' mean is known better than each of them.
    hidden = high - low > HIDES * (before[2] - before[0]) / math.sqrt(len(known))
    return Likeness(*_compressed(variances, shares), own, (low, middle, high), hidden)


def clusters_told(clusters: Clusters, alike: Mapping[str, Likeness], units: int) -> ClustersStatement:
    """Return what a release says of clusters.

    ``alike``: by outcome, of those that noise does not hide.
    """
    return ClustersStatement(
        **clusters.model_dump(),
        outcomes=tuple(
            OutcomeLikeness(
                outcome=name,
                correlation=Correlation(**dict(zip(Correlation.model_fields, one.correlation, strict=True))),
                design_effect=one.design_effect,
                effective_people=units / one.design_effect,
                hidden=one.hidden,
            )
            for name, one in alike.items()
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
