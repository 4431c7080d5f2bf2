"""Make candidate curves, and decide which of them are kept.

Candidates are made in a synthetic table that releases 1 and 2 describe. Each is regressed on lines in the synthetic
rows and standardised there, so that release 3 pays only for what lines cannot say, and the candidates' correlations are
known without a release. Double selection (Belloni, Chernozhukov and Hansen 2014) from noisy residual cross moments
keeps the candidates that exceed the noise in treatment and in the outcome; the interval allows for the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from causalveil.tasks.estimate.adjust.features import (
    Curve,
    FeatureMap,
    Screen,
    Shape,
    curve_values,
    in_map,
    line_values,
    raw_values,
)
from causalveil.tasks.estimate.adjust.posterior import Learnt
from causalveil.tasks.estimate.adjust.profiles import (
    APART,
    NO_HEAPS,
    SAME,
    CurveGroup,
    Profiles,
    between_heaps,
    curves_along,
    directions,
    products_alone,
)
from causalveil.tasks.estimate.adjust.recipe import MOST_CANDIDATES, MOST_KEPT, may_curve, refit_sd
from causalveil.tasks.estimate.adjust.released import EDGES, ColumnKind, Public, RandomDraws, ReleasedScreen
from causalveil.tasks.estimate.adjust.scales import LEAST_DOUBT, LEAST_SHARE, MIDDLE, FoundScales, Margin, normal_scores
from causalveil.tasks.estimate.adjust.sums import ARM_CROSS, ARM_GRAM
from causalveil.tasks.estimate.adjust.terms import BESIDE
from causalveil.tasks.estimate.models.lattice_sums import BITS
from causalveil.tasks.machine.arrays import FloatArray

# Rows of the synthetic table: the least, units per row, the most. A correlation is off by 1/sqrt(rows), so that
# each of 150 candidates seems to have 1/rows of what is kept. Left alone, that moves the estimate by 150/rows of what
# the kept curves confound: with 1,500 rows by .009 of 300,000 people's effect of 1, with 15,000 by .002.
ROWS, UNITS_PER_ROW, MOST_ROWS = 1_500, 20, 20_000
# Quantiles at which steps are tried.
STEPS = (1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6)
# Skewness from which the normal score of a number is a candidate beside its line, or its line beside the score.
BENT = 0.8
# Ridge of the regression of candidates on lines.
RIDGE = 1e-3


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
    for place, (line, margin) in enumerate(zip(features.lines, scales.margins, strict=False)):
        if margin is None:
            z[:, line.column] = level[:, place] > 1 - scales.centre[place]
        else:
            z[:, line.column] = np.interp(level[:, place], np.concatenate([[0], np.cumsum(margin.shares)]), EDGES)
    return z


def library(public: Public, scales: FoundScales, features: FeatureMap, f: FloatArray) -> list[Curve]:
    """Return the candidates: of each number its square, a bend and steps.

    A number of two values has none of these. There are products of numbers and of flags too.
    """
    kinds = [public.columns[place].kind for place in scales.kept]
    numbers = [place for place, kind in enumerate(kinds) if kind is ColumnKind.number]
    none, nothing = np.zeros(0), np.zeros(len(features.lines))

    def curve(shape: Shape, first: int, second: int, at: FloatArray = none, to: FloatArray = none) -> Curve:
        return Curve(shape, first, second, at, to, 0.0, nothing, 1.0)

    candidates, heaps = [], heaps_of(scales, features)
    for place in numbers:
        if two_valued(scales.margins[place]):
            continue
        candidates.append(curve(Shape.square, place, place))
        steps = np.quantile(f[:, place], STEPS)
        steps = between_heaps(steps, heaps.get(place, np.zeros((0, 2))), np.sort(f[:, place]))
        candidates += [curve(Shape.step, place, place, np.array([step])) for step in steps]
        margin, line = scales.margins[place], features.lines[place]
        if margin is not None and abs(margin.skewness()) > BENT:
            at = np.interp(MIDDLE, line.at, line.to)
            scored = line.at is MIDDLE
            to = (MIDDLE - margin.mean) / margin.deviation if scored else normal_scores(margin.shares)
            candidates.append(curve(Shape.bend, place, place, at, to))
    single = numbers + [place for place, kind in enumerate(kinds) if kind is ColumnKind.flag]
    pairs = itertools.combinations(single, 2)
    candidates += [
        curve(Shape.product, i, j) for i, j in itertools.islice(pairs, max(0, MOST_CANDIDATES - len(candidates)))
    ]
    return candidates[:MOST_CANDIDATES]


def heaps_of(scales: FoundScales, features: FeatureMap) -> dict[int, FloatArray]:
    """Return the ends of heaps along each number's line, shape (heaps, 2), by its place.

    A value at a cell's upper end is in that cell, whatever rounding does, as release 1 counts.
    """
    ends, cells = dict[int, FloatArray](), np.stack([EDGES[:-1] + 2 * BESIDE, EDGES[1:] + BESIDE], axis=1)
    for place, (line, margin) in enumerate(zip(features.lines, scales.margins, strict=False)):
        if margin is not None:
            ends[place] = np.interp(cells[margin.heaps], line.at, line.to)
    return ends


def two_valued(margin: Margin | None) -> bool:
    """Return whether a number has two values, so that its square and steps are its line.

    In other cells than its two fullest lie then too few for a bend or step beside the line, as for a flag.
    """
    return margin is not None and float(np.sort(margin.shares)[:-2].sum()) < LEAST_SHARE


def over_size(slopes: FloatArray, size: float | FloatArray) -> FloatArray:
    """Return intercept and slopes of a curve divided by its size, on the lattice."""
    divided: FloatArray = np.rint(slopes / size * 2.0**BITS) * 2.0**-BITS
    return divided


def beside_lines(found: list[Curve], f: FloatArray) -> tuple[Curve, ...]:
    """Take lines out of candidates in synthetic rows f; return those that vary and differ."""
    raw = np.array([raw_values(curve, f) for curve in found]).reshape(len(found), len(f))
    mean = raw.mean(axis=1)
    square: FloatArray = np.einsum("cn,cn->c", raw, raw) / len(f)
    # A candidate varies as a flag does that is adjusted for.
    sure = np.flatnonzero(square - mean**2 > LEAST_SHARE)
    raw, square, mean = raw[sure], square[sure], mean[sure]
    lines = np.column_stack([np.ones(len(f)), f])
    gram, with_raw = lines.T @ lines / len(f), (raw @ lines / len(f)).T
    slopes = np.asarray(np.linalg.solve(gram + RIDGE * np.eye(len(gram)), with_raw), dtype=np.float64)
    # Residual variance by moments, at least the part APART^2 of the candidate's variance.
    left = square - 2 * (slopes * with_raw).sum(axis=0) + (slopes * (gram @ slopes)).sum(axis=0)
    left -= (mean - gram[0] @ slopes) ** 2
    size = np.sqrt(np.maximum(left, APART**2 * (square - mean**2)))
    slopes = over_size(slopes, size)
    curves = tuple(
        Curve(
            candidate.shape,
            candidate.first,
            candidate.second,
            candidate.at,
            candidate.to,
            float(line[0]),
            line[1:],
            float(wide),
        )
        for candidate, line, wide in zip([found[place] for place in sure], slopes.T, size, strict=True)
    )
    correlation = np.corrcoef(curve_values(curves, f).T).reshape(len(curves), len(curves))
    # Of nearly equal candidates the first is taken: each costs budget and widens the interval.
    distinct: list[int] = []
    for place in range(len(curves)):
        if not distinct or np.abs(correlation[place, distinct]).max() < SAME:
            distinct.append(place)
    return tuple(curves[place] for place in distinct)


# Steps of Newton's method to a logit whose arms lie as far apart as seen.
NEWTON = 8
# Residuals of treatment are cut at this multiple of max(p, 1 - p), which few exceed.
REACH = 1.5
# Least probability that a kept curve drives both outcome and treatment.
LIKELY = 0.1


@dataclass(frozen=True)
class Kept:
    """Features of release 4, and draws of the bias of the curves that it leaves out.

    ``left``: the draws, shape (K,). ``sizes``: deviations of a kept curve's parts in outcome and treatment.
    ``unseen``: by how much curves that noise hides may move the estimate; None in a trial and of a
    model that the study states. ``lines``: these facts if no curve were kept; None where no curve is.
    """

    features: FeatureMap
    left: FloatArray
    sizes: tuple[float, float] = (0.0, 0.0)
    unseen: float | None = None
    lines: Kept | None = None


@dataclass(frozen=True)
class Candidates:
    """Moments of candidates in a synthetic table, by number and by product.

    ``along``: numbers, then products. ``lines``: E x x' of x = (1, f). ``rows``: f of the rows.
    """

    along: tuple[CurveGroup, CurveGroup]
    lines: FloatArray
    rows: FloatArray

    @classmethod
    def of(cls, curves: tuple[Curve, ...], f: FloatArray, heaps: Mapping[int, FloatArray] = NO_HEAPS) -> Candidates:
        """Sum up synthetic rows f, with ``heaps`` along numbers."""
        c, by_number = curve_values(curves, f), dict[int, list[int]]()
        for place, curve in enumerate(curves):
            if curve.shape is not Shape.product:
                by_number.setdefault(curve.first, []).append(place)
        products = [place for place, curve in enumerate(curves) if curve.shape is Shape.product]
        x = np.column_stack([np.ones(len(f)), f])
        along = curves_along(list(by_number), list(by_number.values()), f, c, heaps), products_alone(products, f, c)
        return cls(along, x.T @ x / len(f), f)

    def arms_differ(self, features: FeatureMap, apart: FloatArray, share: float) -> FloatArray:
        """Return G_1 - G_0 of synthetic rows whose treatment has a logit along the features.

        It is an exponential tilt to the released difference of the arms' means: where a number drives treatment, its
        covariance with its square differs between the arms.

        Args:
            features: of releases 2 and 4.
            apart: D of these features.
            share: the treated share.
        """
        x = in_map(features, self.rows)
        target = share * (x.mean(axis=0) + (1 - share) * np.concatenate([[0.0], apart]))
        logit = np.concatenate([[math.log(share / (1 - share))], np.zeros(len(apart))])
        for _ in range(NEWTON):
            chance = expit(x @ logit)
            curved = (x.T * (chance * (1 - chance))) @ x / len(x) + RIDGE * np.eye(len(logit))
            logit -= np.linalg.solve(curved, chance @ x / len(x) - target)
        chance = expit(x @ logit)
        return covariance(x[:, 1:], chance) - covariance(x[:, 1:], 1 - chance)

    def bend(self, place: int, values: FloatArray) -> Curve:
        """Return a function over the cells of a number as a feature beside lines.

        Args:
            place: among the curves along numbers.
            values: by cell.
        """
        numbers = self.along[0]
        share, line = numbers.share[place], int(numbers.lines[place])
        right = np.concatenate([[share @ values], values @ numbers.of_lines[place]])
        slopes = np.linalg.solve(self.lines + RIDGE * np.eye(len(right)), right)
        raw = float(share @ values**2 - right[0] ** 2)
        left = float(share @ values**2 - 2 * slopes @ right + slopes @ self.lines @ slopes)
        size = math.sqrt(max(left, APART**2 * raw))
        sure = share > 0
        at, first = np.unique(numbers.ends[place, sure], return_index=True)
        to = values[sure].repeat(2)[first]
        slopes = over_size(slopes, size)
        return Curve(Shape.bend, line, line, at, to, float(slopes[0]), slopes[1:], size)


def covariance(x: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the covariance of weighted rows."""
    mean = weights @ x / weights.sum()
    covariances: FloatArray = (x.T * weights) @ x / weights.sum() - np.outer(mean, mean)
    return covariances


def screen_of(public: Public, scales: FoundScales, learnt: Learnt, random: RandomDraws) -> tuple[Screen, Candidates]:
    """Choose the candidates of release 3; return their moments in a synthetic table too."""
    shares = np.array([scales.arms.share, 1 - scales.arms.share])
    apart = learnt.draws.apart.mean(axis=0)
    total = learnt.draws.grams.transpose(0, 2, 3, 1) @ shares
    gram = total.mean(axis=0) + scales.arms.share * (1 - scales.arms.share) * np.outer(apart, apart)
    f = line_values(learnt.features.lines, synthetic(public, scales, learnt.features, gram, random))
    curves = beside_lines(library(public, scales, learnt.features, f), f)
    return screened(public, scales, learnt, curves), Candidates.of(curves, f, heaps_of(scales, learnt.features))


def screened(public: Public, scales: FoundScales, learnt: Learnt, curves: tuple[Curve, ...]) -> Screen:
    """Return the residuals and candidates of which release 3 sums products."""
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


def kept_error(public: Public, scales: FoundScales, learnt: Learnt) -> float:
    """Return the expected error that one more kept curve brings, in deviations.

    Errors in the moments of a curve c move its slopes and weights. With E_t the error of G_t along c and lines, of
    deviation s_t, the curve's part in the error is

    sum_t k_t (q_t - E_t'beta_t)(d - E_t'h_t), with mean sum_t k_t s_t^2 beta_t'h_t,

    q_t and d the noise on its moments with outcome and treatment. E_t has the joint precision of release 4 and
    of covariances in a synthetic table.
    """
    p, k = scales.arms.share, np.array(learnt.lean)
    shares = np.array([p, 1 - p])
    radius = radius_beside(learnt.features, 1)
    sd = refit_sd(public, learnt.features.count + 1) * radius
    by_arm = 0.0 if public.pure else 1.0
    gram = sd * radius / math.sqrt(2) * np.hypot(1, by_arm / ARM_GRAM) / (2 * shares if by_arm else 1.0)
    cross = sd * scales.arms.limit / scales.arms.spread / public.weight
    cross = cross * np.hypot(1, by_arm / ARM_CROSS) / (2 * shares if by_arm else 1.0)
    apart = sd * max(p, 1 - p) / (p * (1 - p))
    square = 1 / (gram**-2.0 + LEAST_DOUBT**-2.0)
    beta, h = ((vectors**2).sum(axis=1) for vectors in (learnt.slopes, learnt.weights))
    both = (learnt.slopes * learnt.weights).sum(axis=1)
    mean, variance = k @ (square * both), k**2 @ ((cross**2 + square * beta) * (apart**2 + square * h))
    return math.sqrt(float(mean) ** 2 + float(variance))


class Screening:
    """The evidence of release 3 on a question's candidates, as long as they are not kept."""

    def __init__(
        self,
        public: Public,
        scales: FoundScales,
        learnt: Learnt,
        screen: Screen,
        candidates: Candidates,
        released: ReleasedScreen | None,
        random: RandomDraws,
    ) -> None:
        """Standardise the released moments.

        Without a release, where public facts say that it would show nothing, the prior alone is used.
        """
        between, m = scales.arms.share * (1 - scales.arms.share), len(screen.curves)
        self.public, self.learnt, self.screen, self.candidates = public, learnt, screen, candidates
        self.blind = released is None or public.trial or not m
        self.kept: list[tuple[int, int, FloatArray]] = []
        self._drawn: FloatArray | None = None
        count = len(learnt.error)
        if released is None or self.blind:
            self.profiles = Profiles(candidates.along, None, (0.0, 0.0), random, count)
            return
        to_outcome = screen.radius * scales.arms.limit / scales.arms.spread
        to_treatment = screen.radius * screen.reach / between
        outcome_sd = released.sd if released.outcome_sd is None else released.outcome_sd
        # Sampling of a moment of standardised numbers beside its noise.
        sds = (
            math.hypot(outcome_sd * to_outcome, 1 / math.sqrt(public.effective_units)),
            math.hypot(released.sd * to_treatment, 1 / math.sqrt(public.effective_units * between)),
        )
        self.least = kept_error(public, scales, learnt)
        seen = np.column_stack([released.outcome * to_outcome, released.treatment * to_treatment])
        self.profiles = Profiles(candidates.along, seen, sds, random, count)

    def biases(self) -> FloatArray:
        """Draw the bias of each curve beyond the kept functions, shape (count, curves).

        The draws are the same until more is kept.
        """
        if self._drawn is not None:
            return self._drawn
        biases = []
        for which, (curves, (g, m)) in enumerate(zip(self.candidates.along, self.profiles.draws(), strict=True)):
            for kind, place, functions in self.kept:
                if kind == which:
                    by = functions * curves.share[place]
                    g[:, place] -= (g[:, place] @ by.T) @ functions
                    m[:, place] -= (m[:, place] @ by.T) @ functions
            biases.append((curves.share * g * m).sum(axis=2))
        self._drawn = np.concatenate(biases, axis=1)
        return self._drawn

    def harm(self) -> FloatArray:
        """Return each curve's expected bias over the error that keeping it would add.

        It is 0 for kept curves, and for those that are unlikely to drive both outcome and treatment.
        """
        free, numbers = self.profiles.confounds() > LIKELY, self.profiles.sizes[0]
        free[[place + kind * numbers for kind, place, _ in self.kept]] = False
        ratio: FloatArray = np.where(free, np.sqrt((self.biases() ** 2).mean(axis=0)), 0) / self.least
        return ratio

    def weighed(self, kind: int, place: int) -> FloatArray:
        """Return the means of g and m of a curve in their deviations, shape (B, 2)."""
        means, share = self.profiles.means(kind, place), self.candidates.along[kind].share[place]
        scaled: FloatArray = means / np.sqrt(np.maximum(share @ means**2, 1e-12))
        return scaled

    def take(self, kind: int, place: int, functions: FloatArray) -> None:
        """Keep functions of a curve; subtract what they explain of other curves' moments."""
        curves, means = self.candidates.along[kind], self.profiles.means(kind, place)
        explained = ((functions * curves.share[place]) @ means).T @ functions @ curves.moments[place]
        places = curves.own[place]
        explained[:, places[places >= 0]] = 0
        self.profiles.take_off(explained.T)
        self.kept.append((kind, place, functions))
        self._drawn = None

    def sizes(self) -> tuple[float, float]:
        """Return deviations of the kept curves' parts in outcome and treatment, by release 3."""
        draws, squares = self.profiles.draws(), list[FloatArray]()
        for kind, place, functions in self.kept:
            by = functions * self.candidates.along[kind].share[place]
            squares += [np.stack([part[:, place] @ f for part in draws[kind]], axis=1) ** 2 for f in by]
        outcome, treatment = np.sqrt(np.concatenate(squares).mean(axis=0)).tolist() if squares else (0.0, 0.0)
        return outcome, treatment

    def left(self) -> FloatArray:
        """Draw the bias of the curves that are left out."""
        # A study that declares its terms has stated its model: nothing is allowed for other curves.
        if self.public.trial or (self.public.stated and self.blind):
            return np.zeros(len(self.learnt.error))
        bias: FloatArray = self.biases().sum(axis=1)
        return bias

    def unseen(self) -> float | None:
        """Return by how much curves that noise hides may move the estimate, in deviations.

        It is the 95% quantile of the bias of curves that were looked for, and the bias of one more that would not be
        seen; at most the expected confounding, which is taken where no curve was looked for. None in a trial, of a
        model that the study states, and where no covariate can curve.
        """
        if self.public.trial or not may_curve(self.public) or (self.public.stated and self.blind):
            return None
        most = self.public.prior.bias
        return most if self.blind else min(float(np.quantile(np.abs(self.left()), 0.95)) + self.profiles.unseen(), most)


def radius_beside(features: FeatureMap, curves: int) -> float:
    """Return the radius of lines with this many curves, each with the room of a line."""
    lines = 1 + len(features.lines)
    return features.radius * math.sqrt(1 + curves / lines)


def beside(features: FeatureMap, curves: tuple[Curve, ...]) -> FeatureMap:
    """Return lines with curves.

    Lines are cut as they were: else moments of releases 2 and 4, which are joined, would be of different numbers.
    """
    return FeatureMap(features.lines, curves, radius_beside(features, len(curves)), features.radius)


def kept_of(screenings: Sequence[Screening]) -> list[Kept]:
    """Keep the most harmful candidates in turn; draw the bias of those that are left out.

    Args:
        screenings: of questions that share their features; a curve that harms one of them is kept for all.
    """
    first = screenings[0]
    candidates = first.candidates
    lines = [Kept(first.learnt.features, screening.left(), unseen=screening.unseen()) for screening in screenings]
    chosen: list[Curve] = []
    while not first.blind and len(chosen) < MOST_KEPT:
        harms = np.array([screening.harm() for screening in screenings])
        at = int(harms.max(axis=0).argmax())
        if harms[:, at].max() <= 1:
            break
        numbers = first.profiles.sizes[0]
        kind, place = (0, at) if at < numbers else (1, at - numbers)
        means = [
            harm * screening.weighed(kind, place) for harm, screening in zip(harms[:, at], screenings, strict=True)
        ]
        functions = directions(candidates.along[kind], place, means, MOST_KEPT - len(chosen))
        for screening in screenings:
            screening.take(kind, place, functions)
        if kind == 0:
            chosen += [candidates.bend(place, values) for values in functions]
        else:
            chosen.append(first.screen.curves[int(candidates.along[1].own[place, 0])])
    if not chosen:
        return lines
    features = beside(first.learnt.features, tuple(chosen))
    return [
        Kept(features, screening.left(), screening.sizes(), screening.unseen(), alone)
        for screening, alone in zip(screenings, lines, strict=True)
    ]
