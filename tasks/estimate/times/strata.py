"""Curves with bands and the log-rank test of both arms, in one stratum or within several.

An arm's curve is the mean of its strata's curves by their numbers of people, so that nothing of one stratum is
compared with another's arm: ``docs/proofs/survival.md``, section 11.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtri

from causalveil.schemas.answers import ArmCurve, Curves
from causalveil.schemas.estimators.survival import Measure
from causalveil.tasks.estimate.interval import Noise
from causalveil.tasks.estimate.times import curves
from causalveil.tasks.estimate.times.curves import ARMS
from causalveil.tasks.estimate.times.effects import (
    MOST_RATIO,
    SEEN_DEVIATIONS,
    Bands,
    Compared,
    LogRank,
    TwoArms,
    banded,
)
from causalveil.tasks.machine.arrays import FloatArray


@dataclass(frozen=True)
class TimesShown:
    """Facts about times that figures of curves show.

    They are the horizon, its unit, the origin of times, and each kind of events.
    """

    horizon: float
    unit: str | None
    origin: str
    events: tuple[str, ...]


@dataclass(frozen=True)
class Strata:
    """Both arms of every stratum, and its public number of people."""

    both: tuple[TwoArms, ...]
    units: tuple[int, ...]

    @classmethod
    def of(cls, both: TwoArms) -> Strata:
        """Return the one stratum of a study whose arms are compared as a whole."""
        return cls((both,), (1,))

    @property
    def weights(self) -> FloatArray:
        """The share of the people whom each stratum has, shape (strata,)."""
        return np.array(self.units) / sum(self.units)

    @property
    def one_grid(self) -> bool:
        """Return whether all strata have the same intervals, so that curves can be averaged."""
        first = self.both[0].grid.ends
        return all(np.array_equal(one.grid.ends, first) for one in self.both)

    @property
    def seen(self) -> int:
        """In how many intervals from the first on people of both arms are seen in every stratum."""
        return min(one.seen for one in self.both)

    @property
    def all_seen(self) -> bool:
        """Return whether people of both arms are seen to the horizon in every stratum."""
        return all(one.seen == one.grid.intervals for one in self.both)

    def contrast(self, measure: Measure, confidence: float, allowed: float) -> Compared:
        """Compare the arms by one measure.

        Of a stratum where nobody is seen at the horizon nothing is known but the range of its effect: the interval
        allows for either end of it. Arguments as of ``TwoArms.contrast``.
        """
        found = [one.contrast(measure, confidence, allowed) for one in self.both]
        told = [(weight, one) for weight, one in zip(self.weights, found, strict=True) if not one.whole_range]
        span, seen = self.both[0].span(measure), math.fsum(weight for weight, _ in told)
        estimate = math.fsum(weight * one.estimate for weight, one in told)
        sampling = math.fsum(weight**2 * one.sampling for weight, one in told)
        noise = math.fsum(weight**2 * one.noise for weight, one in told)
        # Biases may all point one way, so they add up.
        bias = math.fsum(weight * one.bias for weight, one in told) + (1 - seen) * span
        half = Noise(math.sqrt(noise)).critical(1 - confidence, bias, sampling) if told else span
        return Compared(
            treated=math.fsum(weight * one.treated for weight, one in told) / seen if told else 0.0,
            control=math.fsum(weight * one.control for weight, one in told) / seen if told else 0.0,
            estimate=estimate,
            lower=max(estimate - half, -span),
            upper=min(estimate + half, span),
            sampling=sampling,
            noise=noise,
            bias=bias,
            whole_range=not told,
        )

    def curves(self, shown: TimesShown, confidence: float, names: tuple[str, str]) -> Curves:
        """Return both arms' mean curves with simultaneous bands, and people at risk.

        All strata must have one grid.
        """
        grid, bands = self.both[0].grid, self.bands(confidence)
        rising = self._mean(partial(curves.incidence, grid=grid))
        people = np.sum([one.at_risk for one in self.both], axis=0)
        errors = np.sqrt(np.sum([one.at_risk_error**2 for one in self.both], axis=0))
        arms = [
            ArmCurve(
                arm=name,
                survival=_figures(bands.survival[arm]),
                lower=_figures(bands.lower[arm]),
                upper=_figures(bands.upper[arm]),
                incidence={
                    label: _figures(np.clip(curves.never_falling(row), 0, 1))
                    for label, row in zip(shown.events, rising[arm], strict=True)
                },
                at_risk=_figures(np.maximum(people[arm], 0.0)),
                at_risk_error=_figures(errors[arm]),
            )
            for arm, name in enumerate(names)
        ]
        return Curves(
            **vars(shown),
            landmark=grid.start,
            times=_figures(grid.ends),
            arms=(arms[0], arms[1]),
            seen_until=float(grid.ends[self.seen - 1]) if self.seen else 0.0,
            log_rank=None,
            grid_bracket=None,
        )

    def bands(self, confidence: float) -> Bands:
        """Return the mean curves of both arms with bands that hold together."""
        parts = [(weight**2, *one.curve_errors()) for weight, one in zip(self.weights, self.both, strict=True)]
        covariance = np.sum([square * one for square, one, _ in parts], axis=0)
        more = np.sum([square * one for square, _, one in parts], axis=0)
        raw = self._mean(partial(curves.survival, grid=self.both[0].grid))
        return banded(raw, covariance, more, self.seen, confidence)

    def _mean(self, curve: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return a curve of both arms, by the strata's numbers of people, arms first."""
        found = [curve(one.cells.counts) for one in self.both]
        return np.asarray(np.tensordot(self.weights, np.array(found), axes=1))

    def log_rank(self, confidence: float) -> LogRank | None:
        """Test within strata whether the events that count come alike in both arms.

        Beside it is Mantel and Haenszel's ratio of hazards within strata.

        None where people are seen in no interval of any stratum.
        """
        told = [one for one in self.both if one.seen > 0]
        if not told:
            return None
        tidy = [np.concatenate(one.tidy) for one in told]
        raw = [one.pieces(one.cells.counts.reshape(-1)) for one in told]
        smooth = [one.pieces(cells) for one, cells in zip(told, tidy, strict=True)]
        spread = math.fsum(one.variance for one in smooth)
        noise = _sum(told, tidy, lambda one: lambda cells: one.pieces(cells).excess)
        statistic = math.fsum(float(one.excess) for one in raw) / math.sqrt(max(spread + noise, curves.LEAST))
        sides, errors, totals = [], [], []
        for arm in range(ARMS):
            sides.append(math.fsum(float(one.sides[arm]) for one in raw))
            errors.append(_sum(told, tidy, partial(_side, arm)))
            totals.append(max(math.fsum(float(one.sides[arm]) for one in smooth), curves.LEAST))
        if any(side <= SEEN_DEVIATIONS * math.sqrt(error) for side, error in zip(sides, errors, strict=True)):
            return LogRank(statistic)

        def log_ratio(one: TwoArms) -> curves.Curve:
            return lambda cells: one.pieces(cells).sides[1] / totals[1] - one.pieces(cells).sides[0] / totals[0]

        noise = _sum(told, tidy, log_ratio)
        half = -float(ndtri((1 - confidence) / 2)) * math.sqrt(spread / (totals[0] * totals[1]) + noise)
        ratio = sides[1] / sides[0]
        if half > math.log(MOST_RATIO):
            return LogRank(statistic)
        return LogRank(statistic, ratio, ratio * math.exp(-half), ratio * math.exp(half))


def _side(arm: int, one: TwoArms) -> curves.Curve:
    """Return an arm's events, weighted by the other's share of those at risk, as a function of a stratum's cells."""
    return lambda cells: one.pieces(cells).sides[arm]


def _sum(told: Sequence[TwoArms], tidy: Sequence[FloatArray], of: Callable[[TwoArms], curves.Curve]) -> float:
    """Return the variance, by noise, of a sum of functions of the strata's cells, whose noises are independent."""
    return math.fsum(one.noise_of(of(one), cells) for one, cells in zip(told, tidy, strict=True))


def _figures(values: FloatArray) -> tuple[float, ...]:
    """Numbers of a figure: what is beyond six decimals is noise in any case."""
    return tuple(np.round(values, 6).tolist())
