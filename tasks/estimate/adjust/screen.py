"""Make candidate curves, and decide which of them are kept.

Candidates are made in a synthetic table that releases 1 and 2 describe. Each is regressed on lines in the synthetic
rows and standardised there, so that release 3 pays only for what lines cannot say, and the candidates' correlations are
known without a release. Double selection (Belloni, Chernozhukov and Hansen 2014) from noisy residual cross moments
keeps the candidates that exceed the noise in treatment and in the outcome; the interval allows for the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.tasks.estimate.adjust.features import (
    Curve,
    FeatureMap,
    Screen,
    Shape,
    curve_values,
    line_values,
    raw_values,
)
from causalveil.tasks.estimate.adjust.posterior import Learnt, unit
from causalveil.tasks.estimate.adjust.recipe import MOST_CANDIDATES, MOST_KEPT, RADIUS, radius_of, scores_sd
from causalveil.tasks.estimate.adjust.released import EDGES, ColumnKind, Public, RandomDraws, ReleasedScreen
from causalveil.tasks.estimate.adjust.scales import MIDDLE, FoundScales, Margin, normal_scores
from causalveil.tasks.machine.arrays import BoolArray, FloatArray

# Rows of the synthetic table: the least, one for so many units, the most. A correlation is off by 1/sqrt(rows), so that
# each of 150 candidates seems to have 1/rows of what is kept. Left alone, that moves the estimate by 150/rows of what
# the kept curves confound: with 1,500 rows by .009 of 300,000 people's effect of 1, with 15,000 by .002.
ROWS, UNITS_PER_ROW, MOST_ROWS = 1_500, 20, 20_000
# Quantiles at which steps are tried; of more numbers than the second, every other one.
STEPS, MANY = (1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6), 8
# Skewness from which the normal score of a number is a candidate beside its line, or its line beside the score.
BENT = 0.8
# A candidate varies by so much; at least so much of it is taken to be left beside lines. Ridge of that regression.
VARIES, LEAST_LEFT, RIDGE = 0.05, 0.25, 1e-3
# A number of which fewer lie in other cells than the two fullest has two values: a bend or step beside its line is that
# of so few.
FEW_BETWEEN = 0.01
# Candidates that correlate so much are the same.
SAME = 0.9


def synthetic_rows(public: Public) -> int:
    """Return the number of rows of the synthetic table."""
    return min(max(ROWS, public.units // UNITS_PER_ROW), MOST_ROWS)


def synthetic(
    public: Public, scales: FoundScales, features: FeatureMap, gram: FloatArray, random: RandomDraws
) -> FloatArray:
    """Draw rows z of a synthetic table, shape (rows, columns).

    They have the released margins and a normal copula of the lines' covariances; terms follow from the columns.
    """
    from scipy.special import ndtr

    size = np.sqrt(np.diagonal(gram))
    values, vectors = np.linalg.eigh(gram / np.outer(size, size))
    root = vectors * np.sqrt(np.maximum(values, 0))
    rows = synthetic_rows(public)
    level = ndtr(random.standard_normal((rows, len(size))) @ root.T)
    z = np.zeros((rows, len(public.columns)))
    for place, (line, one) in enumerate(zip(features.lines, scales.margins, strict=False)):
        if one is None:
            z[:, line.column] = level[:, place] > 1 - scales.centre[place]
        else:
            z[:, line.column] = np.interp(level[:, place], np.concatenate([[0], np.cumsum(one.shares)]), EDGES)
    return z


def library(public: Public, scales: FoundScales, features: FeatureMap, f: FloatArray) -> list[Curve]:
    """Return the candidates: of each number its square, a bend and steps.

    A number of two values has none of these. There are products of numbers and of flags too.
    """
    kinds = [public.columns[place].kind for place in scales.kept]
    numbers = [place for place, kind in enumerate(kinds) if kind is ColumnKind.number]
    none, nothing = np.zeros(0), np.zeros(len(features.lines))

    def curve(shape: Shape, one: int, other: int, at: FloatArray = none, to: FloatArray = none) -> Curve:
        return Curve(shape, one, other, at, to, 0.0, nothing, 1.0)

    found = []
    for place in numbers:
        if two_valued(scales.margins[place]):
            continue
        found.append(curve(Shape.square, place, place))
        steps = np.quantile(f[:, place], STEPS if len(numbers) <= MANY else STEPS[1::2])
        found += [curve(Shape.step, place, place, np.array([step])) for step in np.unique(steps)]
        margin, line = scales.margins[place], features.lines[place]
        if margin is not None and abs(margin.skewness()) > BENT:
            at = np.interp(MIDDLE, line.at, line.to)
            scored = line.at is MIDDLE
            to = (MIDDLE - margin.mean) / margin.deviation if scored else normal_scores(margin.shares)
            found.append(curve(Shape.bend, place, place, at, to))
    single = numbers + [place for place, kind in enumerate(kinds) if kind is ColumnKind.flag]
    pairs = itertools.combinations(single, 2)
    found += [curve(Shape.product, i, j) for i, j in itertools.islice(pairs, max(0, MOST_CANDIDATES - len(found)))]
    return found[:MOST_CANDIDATES]


def two_valued(margin: Margin | None) -> bool:
    """Return whether a number has two values, so that its square and steps are its line."""
    return margin is not None and float(np.sort(margin.shares)[:-2].sum()) < FEW_BETWEEN


def beside_lines(found: list[Curve], f: FloatArray) -> tuple[tuple[Curve, ...], FloatArray]:
    """Take lines out of candidates in synthetic rows f.

    Return those that vary and differ, and their correlations.
    """
    raw = np.column_stack([np.zeros((len(f), 0)), *(raw_values(one, f) for one in found)])
    sure = np.flatnonzero(raw.std(axis=0) > VARIES)
    raw, lines = raw[:, sure], np.column_stack([np.ones(len(f)), f])
    ridge = RIDGE * len(f) * np.eye(lines.shape[1])
    slopes = np.linalg.solve(lines.T @ lines + ridge, lines.T @ raw)
    size = np.maximum((raw - lines @ slopes).std(axis=0), LEAST_LEFT * raw.std(axis=0))
    curves = tuple(
        Curve(one.shape, one.first, one.second, one.at, one.to, float(line[0]), line[1:], float(wide))
        for one, line, wide in zip([found[place] for place in sure], slopes.T, size, strict=True)
    )
    correlation = np.corrcoef(curve_values(curves, f).T).reshape(len(curves), len(curves))
    # One of several that are nearly the same: each would be paid and allowed for.
    own: list[int] = []
    for place in range(len(curves)):
        if not own or np.abs(correlation[place, own]).max() < SAME:
            own.append(place)
    return tuple(curves[place] for place in own), correlation[np.ix_(own, own)]


# Residuals of treatment are cut at so many times max(p, 1 - p), which they hardly exceed.
REACH = 1.5
# Deviations of (beta, eta) of a curve that is there, and what was counted before any was seen: 2 m candidates that are
# null, some in one of them, some in both (chosen on random tables 0 to 199).
WIDTHS_BETA, WIDTHS_ETA = np.array([0, 0.05, 0.12, 0.3]), np.array([0, 0.1, 0.25, 0.6])
NULL, ONE_SIDED, BOTH, ROUNDS = 2.0, 3.0, 4.0, 40
# A curve that is kept is as likely to be in both, and harms by so much of the estimate's expected error.
LIKELY, HARM = 0.1, 0.25


@dataclass(frozen=True)
class Kept:
    """Features of release 4, and draws of the bias of the curves that it leaves out.

    ``left``: the draws, shape (K,).
    """

    features: FeatureMap
    left: FloatArray


class CurvePrior:
    """Prior of (beta, eta) of candidates, fitted by expectation and maximisation.

    Each is zero or normal of one of a few widths, whose shares are fitted.
    """

    def __init__(self, seen: tuple[FloatArray, FloatArray], sds: tuple[float, float]) -> None:
        """Fit the shares of the widths; ``seen``: of outcome and treatment."""
        self.sds, prior = sds, np.full((4, 4), BOTH / 9)
        prior[0, 1:] = prior[1:, 0] = ONE_SIDED / 6
        prior[0, 0] = NULL * len(seen[0])
        self.share = prior / prior.sum()
        for _ in range(ROUNDS):
            share = self.parts(seen).sum(axis=0) + prior
            self.share = share / share.sum()

    def parts(self, seen: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Return the probability of each pair of widths, shape (m, 4, 4)."""
        one, other = (
            np.exp(-0.5 * x[:, None] ** 2 / (width**2 + sd**2)) / np.sqrt(width**2 + sd**2) + 1e-300
            for x, width, sd in zip(seen, (WIDTHS_BETA, WIDTHS_ETA), self.sds, strict=True)
        )
        part = self.share * one[:, :, None] * other[:, None, :]
        found: FloatArray = part / part.sum(axis=(1, 2), keepdims=True)
        return found

    def harm(self, seen: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Return the root of E (beta eta)^2 of each candidate."""
        one, other = (
            (kept * x[:, None]) ** 2 + kept * sd**2 for x, kept, sd in zip(seen, self._kept(), self.sds, strict=True)
        )
        found: FloatArray = np.sqrt((self.parts(seen) * one[:, :, None] * other[:, None, :]).sum(axis=(1, 2)))
        return found

    def draw(self, random: RandomDraws, seen: tuple[FloatArray, FloatArray], count: int) -> FloatArray:
        """Draw the sum of beta eta over candidates, shape (count,)."""
        edges = self.parts(seen).reshape(len(seen[0]), self.share.size).cumsum(axis=1)
        pick = np.minimum((random.random((count, len(seen[0]), 1)) > edges).sum(axis=2), edges.shape[1] - 1)
        drawn = [
            kept[place] * x + np.sqrt(kept[place]) * sd * random.standard_normal(pick.shape)
            for x, kept, sd, place in zip(seen, self._kept(), self.sds, (pick // 4, pick % 4), strict=True)
        ]
        found: FloatArray = (drawn[0] * drawn[1]).sum(axis=1)
        return found

    def _kept(self) -> tuple[FloatArray, FloatArray]:
        """Return how much of what is seen each width believes."""
        return (
            WIDTHS_BETA**2 / (WIDTHS_BETA**2 + self.sds[0] ** 2),
            WIDTHS_ETA**2 / (WIDTHS_ETA**2 + self.sds[1] ** 2),
        )


def screen_of(public: Public, scales: FoundScales, learnt: Learnt, random: RandomDraws) -> tuple[Screen, FloatArray]:
    """Decide the candidates of release 3; return their correlations too."""
    shares = np.array([scales.arms.share, 1 - scales.arms.share])
    apart = learnt.draws.apart.mean(axis=0)
    total = learnt.draws.grams.transpose(0, 2, 3, 1) @ shares
    gram = total.mean(axis=0) + scales.arms.share * (1 - scales.arms.share) * np.outer(apart, apart)
    f = line_values(learnt.features.lines, synthetic(public, scales, learnt.features, gram, random))
    curves, correlation = beside_lines(library(public, scales, learnt.features, f), f)
    return screened(public, scales, learnt, curves), correlation


def screened(public: Public, scales: FoundScales, learnt: Learnt, curves: tuple[Curve, ...]) -> Screen:
    """Return what release 3 sums for these candidates."""
    shares = np.array([scales.arms.share, 1 - scales.arms.share])
    both = shares[::-1] @ learnt.weights
    return Screen(
        scales.arms,
        learnt.features.lines,
        curves,
        math.sqrt(max(len(curves), 1)),
        learnt.moments.middle,
        learnt.draws.apart.mean(axis=0),
        learnt.slopes,
        both if public.estimand == "ATE" else learnt.weights[int(learnt.lean[0] == 0)],
        min(REACH * max(scales.arms.share, 1 - scales.arms.share), 1.0),
        learnt.features.radius,
    )


class Screening:
    """The evidence of release 3 on a question's candidates, as long as they are not kept."""

    def __init__(
        self,
        public: Public,
        scales: FoundScales,
        learnt: Learnt,
        screen: Screen,
        correlation: FloatArray,
        released: ReleasedScreen | None,
        random: RandomDraws,
    ) -> None:
        """Standardise what is seen.

        Without a release (public facts say that it would show nothing) nothing is standardised.
        """
        between, m = scales.arms.share * (1 - scales.arms.share), len(screen.curves)
        self.public, self.learnt, self.screen, self.correlation, self.random = (
            public,
            learnt,
            screen,
            correlation,
            random,
        )
        self.blind = released is None or public.trial or not m
        if released is None or self.blind:
            self.seen = (np.zeros(m), np.zeros(m))
            return
        to_outcome = screen.radius * scales.arms.limit / scales.arms.spread
        to_treatment = screen.radius * screen.reach / between
        self.seen = (released.outcome * to_outcome, released.treatment * to_treatment)
        outcome_sd = released.sd if released.outcome_sd is None else released.outcome_sd
        # Sampling of a moment of standardised numbers beside its noise.
        sds = (
            math.hypot(outcome_sd * to_outcome, 1 / math.sqrt(public.units)),
            math.hypot(released.sd * to_treatment, 1 / math.sqrt(public.units * between)),
        )
        noise = scores_sd(public) * 3 * unit(scales, learnt)
        self.least = HARM * math.sqrt(float(learnt.error.var()) + noise**2 + 1 / (public.units * between))
        self.prior = CurvePrior(self.seen, sds)

    def harm(self, free: BoolArray) -> FloatArray:
        """Return expected harm over the least that counts.

        It is 0 for what is not free or not likely in both.
        """
        likely = self.prior.parts(self.seen)[:, 1:, 1:].sum(axis=(1, 2)) > LIKELY
        found: FloatArray = np.where(free & likely, self.prior.harm(self.seen), 0) / self.least
        return found

    def take(self, place: int) -> None:
        """Keep a candidate: what it explains of the others is taken off, matching pursuit."""
        y, t = self.seen
        along = self.correlation[:, place]
        self.seen = (y - along * y[place], t - along * t[place])

    def left(self, free: BoolArray) -> FloatArray:
        """Draw the bias of the candidates that are left."""
        count = len(self.learnt.error)
        # A study that declares its terms has stated its model: nothing is allowed for other curves.
        if self.public.trial or (self.public.stated and self.blind):
            return np.zeros(count)
        if self.blind:
            return CurvePrior(self.seen, (1e3, 1e3)).draw(self.random, self.seen, count)
        return self.prior.draw(self.random, (self.seen[0][free], self.seen[1][free]), count)


def beside(public: Public, features: FeatureMap, curves: tuple[Curve, ...]) -> FeatureMap:
    """Return lines with curves, which have the room of so many features or more.

    Lines are cut as they were: else moments of releases 2 and 4, which are joined, would be of different numbers.
    """
    room = math.hypot(features.radius, RADIUS * math.sqrt(len(curves)))
    radius = max(room, radius_of(public, len(features.lines) + len(curves)))
    return FeatureMap(features.lines, curves, radius, features.radius)


def kept_of(screenings: Sequence[Screening]) -> list[Kept]:
    """Keep the candidates that harm most, one after the other; draw what the others leave.

    Args:
        screenings: of questions that share their features; what harms one of them is kept for all.
    """
    first = screenings[0]
    features, free = first.learnt.features, np.ones(len(first.screen.curves), dtype=bool)
    chosen: list[int] = []
    while not first.blind and len(chosen) < MOST_KEPT:
        harm = np.max([one.harm(free) for one in screenings], axis=0)
        place = int(harm.argmax())
        if harm[place] <= 1:
            break
        chosen.append(place)
        for one in screenings:
            one.take(place)
        free = free & (np.abs(first.correlation[:, place]) < SAME)
    if not first.blind:
        curves: tuple[Curve, ...] = tuple(first.screen.curves[place] for place in chosen)
        features = beside(first.public, features, curves)
    return [Kept(features, one.left(free)) for one in screenings]
