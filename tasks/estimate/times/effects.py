"""Compare both arms of a study of times: effects, errors of curves, log-rank terms.

Variances are first-order: with g the gradient by the cells at tidied counts h, ``sum h g^2`` is sampling's (that is
Greenwood's, since curves are homogeneous of degree 0) and ``g' Sigma g`` is noise's. ``docs/proofs/survival.md``,
sections 4 to 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from causalveil.schemas.estimators.survival import Measure
from causalveil.tasks.estimate.interval import Noise
from causalveil.tasks.estimate.times import curves
from causalveil.tasks.estimate.times.curves import ARMS, Grid, NoisyCells
from causalveil.tasks.machine.arrays import FloatArray

# People are seen where their noisy number exceeds this many deviations of its noise, and this many people.
SEEN_DEVIATIONS, SEEN_PEOPLE = 2.0, 5.0
# No ratio of hazards is released whose interval extends by more than this factor to either side.
MOST_RATIO = 1e3
# Draws behind a band's critical value: its error is about .02 of a deviation.
DRAWS, SEED = 4_000, 0


@dataclass(frozen=True)
class Compared:
    """A measure in both arms, their difference, and its interval.

    Attributes:
        treated, control: within the measure's range.
        estimate: the difference of both before they were cut to the range.
        lower, upper: the interval.
        sampling, noise: variances of the difference.
        bias: that the interval allows for.
        whole_range: whether nobody is seen at the horizon in one arm, so that the interval is the whole range.
    """

    treated: float
    control: float
    estimate: float
    lower: float
    upper: float
    sampling: float
    noise: float
    bias: float
    whole_range: bool


@dataclass(frozen=True)
class Bands:
    """Survival curves of both arms with simultaneous bands.

    Attributes:
        survival: never rising, shape (2, J).
        lower, upper: the band, within [0, 1]; all of [0, 1] where too few are seen at risk.
    """

    survival: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True)
class LogRank:
    """The log-rank test of the events that count, and Mantel and Haenszel's ratio of hazards.

    Attributes:
        statistic: observed less expected events of the treated over its standard error, standard normal under equal
            hazards.
        ratio, lower, upper: None where noise hides the events of an arm.
    """

    statistic: float
    ratio: float | None = None
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class TwoArms:
    """Released cells of both arms, tidied for variances, and how far people are seen at risk."""

    cells: NoisyCells

    @property
    def grid(self) -> Grid:
        """The grid."""
        return self.cells.grid

    @cached_property
    def tidy(self) -> tuple[FloatArray, ...]:
        """Tidied cells by arm."""
        return tuple(curves.tidied(self.cells.counts[arm], self.grid) for arm in range(ARMS))

    @cached_property
    def at_risk(self) -> FloatArray:
        """Noisy numbers at risk where intervals begin, shape (2, J)."""
        return curves.at_risk(self.cells.counts, self.grid)

    @cached_property
    def at_risk_error(self) -> FloatArray:
        """Standard deviations of their noise, shape (2, J)."""
        return self._error_of(curves.at_risk)

    def _error_of(self, sums: Callable[[FloatArray, Grid], FloatArray]) -> FloatArray:
        """Return standard deviations of the noise of sums of cells, shape (2, J)."""
        take = sums(np.eye(self.grid.cells), self.grid)
        variances = [np.einsum("cj,cd,dj->j", take, self.cells.part(arm), take) for arm in range(ARMS)]
        return np.asarray(np.sqrt(np.maximum(np.array(variances), 0.0)))

    @cached_property
    def seen(self) -> int:
        """Number of intervals from the first on in which people of both arms are seen.

        Only people followed to an interval's end, or to an event in it, count. Were all others lost within it, the
        estimate would depend on the assumption alone that they were at risk for half of it.
        """
        return self.seen_by(SEEN_DEVIATIONS)

    def seen_by(self, deviations: float) -> int:
        """Return the number of intervals ``seen`` with another number of deviations of noise."""
        least = np.maximum(deviations * self._not_lost_error, SEEN_PEOPLE)
        short = np.flatnonzero((curves.not_lost(self.cells.counts, self.grid) < least).any(axis=0))
        return int(short[0]) if len(short) else self.grid.intervals

    @cached_property
    def _not_lost_error(self) -> FloatArray:
        return self._error_of(curves.not_lost)

    @property
    def fewest_followed(self) -> float:
        """The number of people of an arm who, all followed, are seen in five of six draws of noise.

        They are seen if their noisy number is too small in no interval. It is as often too large, so two of six draws
        are outside a band over all intervals.
        """
        take = curves.not_lost(np.eye(self.grid.cells), self.grid)
        covariance = max(
            (take.T @ self.cells.part(arm) @ take for arm in range(ARMS)), key=lambda matrix: float(matrix[-1, -1])
        )
        errors = np.sqrt(np.maximum(np.diag(covariance), curves.LEAST**2))
        error = float(errors.max())
        return max(SEEN_DEVIATIONS * error, SEEN_PEOPLE) + critical(covariance, errors, 4 / 6) * error

    def followed_to(self, floor: float) -> int:
        """Return the number of intervals in which people of both arms are seen and followed.

        Followed: censoring leaves a share of at least ``floor``.
        """
        left = np.stack([curves.still_followed(tidy, self.grid) for tidy in self.tidy])
        short = np.flatnonzero((left < floor).any(axis=0))
        return min(self.seen, int(short[0]) if len(short) else self.grid.intervals)

    def contrast(self, measure: Measure, confidence: float, allowed: float) -> Compared:
        """Compare the arms by one measure.

        Args:
            measure: the measure.
            confidence: of the interval.
            allowed: the bias that the interval allows for, in standard deviations of the outcome within arms.
        """
        function, span, spread = self._measure(measure)
        slopes = self.slopes(measure)
        sampling = sum(
            float(curves.sampled(slope[None], tidy, self.grid)[0, 0])
            for tidy, slope in zip(self.tidy, slopes, strict=True)
        )
        both = np.concatenate([-slopes[0], slopes[1]])
        noise = max(float(both @ self.cells.noise @ both), 0.0)
        control, treated = (float(function(self.cells.counts[arm])) for arm in range(ARMS))
        estimate = min(max(treated - control, -span), span)
        people = [float(tidy[: self.grid.exits].sum()) for tidy in self.tidy]
        within = sum(spread(tidy) / n for tidy, n in zip(self.tidy, people, strict=True)) / sum(1 / n for n in people)
        bias = allowed * math.sqrt(within)
        whole = self.seen < self.grid.intervals
        half = Noise(math.sqrt(noise)).critical(1 - confidence, bias, sampling)
        return Compared(
            treated=min(max(treated, 0.0), span),
            control=min(max(control, 0.0), span),
            estimate=estimate,
            lower=-span if whole else max(estimate - half, -span),
            upper=span if whole else min(estimate + half, span),
            sampling=sampling,
            noise=noise,
            bias=bias,
            whole_range=whole,
        )

    def _measure(self, measure: Measure) -> tuple[curves.Curve, float, Callable[[FloatArray], float]]:
        """Return a measure of an arm's cells, the end of its range, and a person's outcome's variance."""
        if measure is Measure.rmst:
            mean = partial(curves.restricted_mean, grid=self.grid)
            return mean, self.grid.horizon - self.grid.start, partial(curves.spread_of_times, grid=self.grid)

        def spread(cells: FloatArray) -> float:
            chance = min(max(float(curves.risk(cells, self.grid)), 0.0), 1.0)
            return chance * (1 - chance)

        return partial(curves.risk, grid=self.grid), 1.0, spread

    def span(self, measure: Measure) -> float:
        """Return the end of a measure's range."""
        return self._measure(measure)[1]

    def variances(self, measure: Measure) -> tuple[float, float]:
        """Return the variance of a measure in each arm, of sampling and noise together."""
        by_arm = []
        for arm, (tidy, slope) in enumerate(zip(self.tidy, self.slopes(measure), strict=True)):
            sampling = float(curves.sampled(slope[None], tidy, self.grid)[0, 0])
            by_arm.append(sampling + max(float(slope @ self.cells.part(arm) @ slope), 0.0))
        return by_arm[0], by_arm[1]

    def slopes(self, measure: Measure) -> list[FloatArray]:
        """Return the gradient of a measure by the cells of each arm, at tidied counts."""
        return [curves.gradient(self.function(measure), tidy) for tidy in self.tidy]

    def function(self, measure: Measure) -> curves.Curve:
        """Return the measure as a function of an arm's cells."""
        return self._measure(measure)[0]

    def curve_errors(self) -> tuple[FloatArray, FloatArray]:
        """Return the covariance of both curves at all intervals, and an addition to its variances.

        The addition is for two more events in each arm, of the most at risk so far: a curve without events so far has
        no sampling variance.
        """
        steps, grid = self.grid.intervals, self.grid
        slopes = [curves.gradient(partial(curves.survival, grid=grid), tidy) for tidy in self.tidy]
        covariance = np.zeros((ARMS * steps, ARMS * steps))
        for arm, tidy in enumerate(self.tidy):
            rows = slice(arm * steps, (arm + 1) * steps)
            covariance[rows, rows] += curves.sampled(slopes[arm].T, tidy, grid)
            for other in range(ARMS):
                columns = slice(other * steps, (other + 1) * steps)
                covariance[rows, columns] += slopes[arm].T @ self.cells.part(arm, other) @ slopes[other]
        most = [np.maximum.accumulate(curves.exposed(tidy, grid)) for tidy in self.tidy]
        return covariance, 2 / np.concatenate(most) ** 2

    def noise_of(self, function: curves.Curve, cells: FloatArray) -> float:
        """Return the variance by noise of a function of both arms' cells, linearised at these cells."""
        slope = curves.gradient(function, cells)
        return max(float(slope @ self.cells.noise @ slope), 0.0)

    def pieces(self, cells: FloatArray) -> LogRankTerms:
        """Return the terms of the log-rank test in the intervals where people are seen."""
        arms = cells.reshape(*cells.shape[:-1], ARMS, self.grid.cells)
        return LogRankTerms(
            np.moveaxis(curves.events(arms, self.grid)[..., 0, : self.seen], -2, 0),
            np.moveaxis(np.maximum(curves.exposed(arms, self.grid)[..., : self.seen], curves.LEAST), -2, 0),
        )

    def grid_bracket(self) -> tuple[float, float] | None:
        """Return bounds on the difference of risks by exact times instead of intervals, noise aside.

        All of an interval's censored people are put before its events and those who enter after them, or the other way
        round. None where events compete.
        """
        if self.grid.kinds > 1:
            return None
        ends = []
        for tidy in self.tidy:
            events, lost = curves.events(tidy, self.grid)[0], curves.censored(tidy, self.grid)
            risk = curves.at_risk(tidy, self.grid)
            first = np.prod(1 - events / np.maximum(np.maximum(risk - lost, events), curves.LEAST))
            last = np.prod(1 - events / np.maximum(risk + curves.late(tidy, self.grid), curves.LEAST))
            ends.append((1 - float(last), 1 - float(first)))
        (control_low, control_high), (treated_low, treated_high) = ends
        return treated_low - control_high, treated_high - control_low


@dataclass(frozen=True)
class LogRankTerms:
    """Terms of the log-rank test, arms first: events that count, and people at risk."""

    events: FloatArray
    at_risk: FloatArray

    @property
    def excess(self) -> FloatArray:
        """Observed less expected events of the treated."""
        share = self.at_risk[1] / self.at_risk.sum(axis=0)
        return np.asarray((self.events[1] - self.events.sum(axis=0) * share).sum(axis=-1))

    @property
    def variance(self) -> float:
        """Hypergeometric variance of the excess, corrected for events at the same time."""
        events, total = self.events.sum(axis=0), self.at_risk.sum(axis=0)
        ties = np.clip((total - events) / np.maximum(total - 1, 1.0), 0.0, 1.0)
        return float((events * self.at_risk.prod(axis=0) / total**2 * ties).sum())

    @property
    def sides(self) -> tuple[FloatArray, FloatArray]:
        """Each arm's events, weighted by the other's share of those at risk, the controls' first."""
        total = self.at_risk.sum(axis=0)
        control, treated = ((self.events[a] * self.at_risk[1 - a] / total).sum(axis=-1) for a in range(ARMS))
        return control, treated


def banded(raw: FloatArray, covariance: FloatArray, more: FloatArray, seen: int, confidence: float) -> Bands:
    """Return both arms' curves, which never rise, with simultaneous bands.

    Args:
        raw: shape (2, J).
        covariance: of both curves, controls first, shape (2 J, 2 J).
        more: an addition to its variances, shape (2 J,).
        seen: number of intervals from the first on in which people are seen.
        confidence: of the bands.
    """
    steps = raw.shape[1]
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0) + more)
    use = np.tile(np.arange(steps) < seen, ARMS)
    half = np.ones(ARMS * steps)
    half[use] = critical(covariance[np.ix_(use, use)], errors[use], confidence) * errors[use]
    falling = np.array([1 - np.clip(curves.never_falling(1 - row), 0, 1) for row in raw])
    away = half.reshape(ARMS, steps)
    return Bands(falling, np.clip(falling - away, 0, 1), np.clip(falling + away, 0, 1))


def critical(covariance: FloatArray, errors: FloatArray, confidence: float) -> float:
    """Return the quantile of the largest absolute entry of a normal vector, over its errors."""
    if not len(errors):
        return 0.0
    values, vectors = np.linalg.eigh(covariance)
    random = np.random.default_rng(SEED)
    draws = random.normal(size=(DRAWS, len(errors))) * np.sqrt(np.maximum(values, 0.0)) @ vectors.T / errors
    return float(np.quantile(np.abs(draws).max(axis=1), confidence))
