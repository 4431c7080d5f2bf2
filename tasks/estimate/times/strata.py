"""Compute curves with bands and the log-rank test of both arms, within strata.

An arm's curve is the mean of its strata's curves weighted by their numbers of people, so that arms are compared only
within strata: ``docs/proofs/survival.md``, section 11.
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
    """Facts for figures of curves: horizon, its unit, origin of times, and each kind of events."""

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
        """Return the single stratum of a study without strata."""
        return cls((both,), (1,))

    @property
    def weights(self) -> FloatArray:
        """The share of people in each stratum, shape (strata,)."""
        return np.array(self.units) / sum(self.units)

    @property
    def one_grid(self) -> bool:
        """True if all strata have the same intervals, so that curves can be averaged."""
        first = self.both[0].grid.ends
        return all(np.array_equal(arms.grid.ends, first) for arms in self.both)

    @property
    def seen(self) -> int:
        """Number of intervals from the first on in which every stratum sees people of both arms."""
        return min(arms.seen for arms in self.both)

    @property
    def all_seen(self) -> bool:
        """True if people of both arms are seen to the horizon in every stratum."""
        return all(arms.seen == arms.grid.intervals for arms in self.both)

    def contrast(self, measure: Measure, confidence: float, allowed: float) -> Compared:
        """Compare the arms by one measure.

        In a stratum where nobody is seen at the horizon only the range of the effect is known: the interval allows for
        either end of it. Arguments as of ``TwoArms.contrast``.
        """
        compared = [arms.contrast(measure, confidence, allowed) for arms in self.both]
        resolved = [(w, stratum) for w, stratum in zip(self.weights, compared, strict=True) if not stratum.whole_range]
        span, seen = self.both[0].span(measure), math.fsum(w for w, _ in resolved)
        estimate = math.fsum(w * stratum.estimate for w, stratum in resolved)
        sampling = math.fsum(w**2 * stratum.sampling for w, stratum in resolved)
        noise = math.fsum(w**2 * stratum.noise for w, stratum in resolved)
        # Biases may all have one sign, so they add up.
        bias = math.fsum(w * stratum.bias for w, stratum in resolved) + (1 - seen) * span
        half = Noise(math.sqrt(noise)).critical(1 - confidence, bias, sampling) if resolved else span
        return Compared(
            treated=math.fsum(w * stratum.treated for w, stratum in resolved) / (seen or 1.0),
            control=math.fsum(w * stratum.control for w, stratum in resolved) / (seen or 1.0),
            estimate=estimate,
            lower=max(estimate - half, -span),
            upper=min(estimate + half, span),
            sampling=sampling,
            noise=noise,
            bias=bias,
            whole_range=not resolved,
        )

    def curves(self, times: TimesShown, confidence: float, names: tuple[str, str]) -> Curves:
        """Return both arms' mean curves with simultaneous bands, and people at risk, on one grid."""
        grid, bands = self.both[0].grid, self.bands(confidence)
        rising = self._mean(partial(curves.incidence, grid=grid))
        people = np.sum([arms_of_stratum.at_risk for arms_of_stratum in self.both], axis=0)
        errors = np.sqrt(np.sum([arms_of_stratum.at_risk_error**2 for arms_of_stratum in self.both], axis=0))
        arms = [
            ArmCurve(
                arm=name,
                survival=_figures(bands.survival[arm]),
                lower=_figures(bands.lower[arm]),
                upper=_figures(bands.upper[arm]),
                incidence={
                    label: _figures(np.clip(curves.never_falling(row), 0, 1))
                    for label, row in zip(times.events, rising[arm], strict=True)
                },
                at_risk=_figures(np.maximum(people[arm], 0.0)),
                at_risk_error=_figures(errors[arm]),
            )
            for arm, name in enumerate(names)
        ]
        return Curves(
            **vars(times),
            landmark=grid.start,
            times=_figures(grid.ends),
            arms=(arms[0], arms[1]),
            seen_until=float(grid.ends[self.seen - 1]) if self.seen else 0.0,
            log_rank=None,
            grid_bracket=None,
        )

    def bands(self, confidence: float) -> Bands:
        """Return the mean curves of both arms with simultaneous bands."""
        parts = [(weight**2, *arms.curve_errors()) for weight, arms in zip(self.weights, self.both, strict=True)]
        covariance = np.sum([square * matrix for square, matrix, _ in parts], axis=0)
        more = np.sum([square * matrix for square, _, matrix in parts], axis=0)
        raw = self._mean(partial(curves.survival, grid=self.both[0].grid))
        return banded(raw, covariance, more, self.seen, confidence)

    def _mean(self, curve: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return a curve of both arms, arms first, as the mean over strata."""
        by_stratum = [curve(arms.cells.counts) for arms in self.both]
        return np.asarray(np.tensordot(self.weights, np.array(by_stratum), axes=1))

    def log_rank(self, confidence: float) -> LogRank | None:
        """Test within strata whether events have the same hazards in both arms.

        With it comes Mantel and Haenszel's ratio of hazards within strata. None where people are seen in no interval of
        any stratum.
        """
        visible = [arms for arms in self.both if arms.seen > 0]
        if not visible:
            return None
        tidy = [np.concatenate(arms.tidy) for arms in visible]
        raw = [arms.pieces(arms.cells.counts.reshape(-1)) for arms in visible]
        smooth = [arms.pieces(cells) for arms, cells in zip(visible, tidy, strict=True)]
        spread = math.fsum(terms.variance for terms in smooth)
        noise = _noise_of_sum(visible, tidy, lambda arms, cells: arms.pieces(cells).excess)
        statistic = math.fsum(float(terms.excess) for terms in raw) / math.sqrt(max(spread + noise, curves.LEAST))
        sides, errors, totals = [], [], []
        for arm in range(ARMS):
            sides.append(math.fsum(float(terms.sides[arm]) for terms in raw))
            errors.append(_noise_of_sum(visible, tidy, partial(_side, arm)))
            totals.append(max(math.fsum(float(terms.sides[arm]) for terms in smooth), curves.LEAST))
        if any(side <= SEEN_DEVIATIONS * math.sqrt(error) for side, error in zip(sides, errors, strict=True)):
            return LogRank(statistic)

        def log_ratio(arms: TwoArms, cells: FloatArray) -> FloatArray:
            control, treated = arms.pieces(cells).sides
            return treated / totals[1] - control / totals[0]

        noise = _noise_of_sum(visible, tidy, log_ratio)
        half = -float(ndtri((1 - confidence) / 2)) * math.sqrt(spread / (totals[0] * totals[1]) + noise)
        ratio = sides[1] / sides[0]
        if half > math.log(MOST_RATIO):
            return LogRank(statistic)
        return LogRank(statistic, ratio, ratio * math.exp(-half), ratio * math.exp(half))


def _side(arm: int, arms: TwoArms, cells: FloatArray) -> FloatArray:
    return arms.pieces(cells).sides[arm]


def _noise_of_sum(
    strata: Sequence[TwoArms], tidy: Sequence[FloatArray], function: Callable[[TwoArms, FloatArray], FloatArray]
) -> float:
    """Return the variance by noise of the sum of a function of the strata's cells."""
    return math.fsum(arms.noise_of(partial(function, arms), cells) for arms, cells in zip(strata, tidy, strict=True))


def _figures(values: FloatArray) -> tuple[float, ...]:
    """Round numbers of a figure to six decimals, beyond which they are noise."""
    return tuple(np.round(values, 6).tolist())
