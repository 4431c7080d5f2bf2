"""Read release 1 as scales of columns, and release 2 as moments of standardised features.

Release 1 has the arms' sizes and a histogram of each column. A noisy histogram is read as an average of smooth shapes,
weighed by their likelihood and by a prior that declared ranges are about seven deviations wide, and of what stands
clearly out of that average. Mean, deviation, skewness and tails of a column follow from it. Moments of release 2 and of
release 4 are taken around the mean and joined by the inverse of their variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from causalveil.tasks.estimate.adjust.features import LINE_CUT, ArmScales, FeatureMap, LineFeature
from causalveil.tasks.estimate.adjust.recipe import least_radius, moments_sd
from causalveil.tasks.estimate.adjust.released import (
    EDGES,
    ColumnKind,
    EncodedColumn,
    Public,
    ReleasedMoments,
    ReleasedScales,
)
from causalveil.tasks.estimate.adjust.terms import ColumnFacts, FoundTerms, terms_of
from causalveil.tasks.machine.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class SeenMoments:
    """Seen moments with the deviation of their noise, infinite where nothing was released.

    Features f are less their mean, y = (u - m_t)/spread, s = 1 for treated and -1 for controls.

    Attributes:
        middle, middle_sd: mean of f, and the deviation of its error.
        apart: difference of the arms' means of f.
        cross, arm_cross: means of f y and of s f y.
        gram, arm_gram: means of f f' and of s f f'.
        told: entries of ``gram`` that release 1 determines.
        lines: number of the features that are lines; the others are curves.
    """

    middle: FloatArray
    middle_sd: FloatArray
    apart: FloatArray
    apart_sd: FloatArray
    cross: FloatArray
    cross_sd: FloatArray
    arm_cross: FloatArray
    arm_cross_sd: FloatArray
    gram: FloatArray
    gram_sd: FloatArray
    arm_gram: FloatArray
    arm_gram_sd: FloatArray
    told: BoolArray
    lines: int

    @property
    def count(self) -> int:
        """Number of features."""
        return len(self.apart)


class _Joined:
    """Readings of the same numbers with independent noise, weighed by inverse variance."""

    def __init__(self, *shape: int) -> None:
        self.precision, self.sum = np.zeros(shape), np.zeros(shape)

    def add(self, value: FloatArray, sd: FloatArray | float) -> None:
        """Add a reading of the first entries; infinite ``sd`` where there is none."""
        part = tuple(slice(0, size) for size in value.shape)
        precision = np.broadcast_to(np.asarray(sd, dtype=np.float64), value.shape) ** -2.0
        self.precision[part] += precision
        self.sum[part] += precision * value

    def at(self, i: int, j: int, value: float, sd: float) -> None:
        """Add a reading of one entry of a symmetric matrix."""
        for place in {(i, j), (j, i)}:
            self.precision[place] += sd**-2
            self.sum[place] += value * sd**-2

    def found(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean and its deviation; 0 and infinite where nothing was read."""
        with np.errstate(divide="ignore"):
            sd = self.precision**-0.5
        return self.sum / np.maximum(self.precision, 1e-300), sd


def moments_of(scales: FoundScales, releases: list[tuple[FeatureMap, ReleasedMoments]]) -> SeenMoments:
    """Join the moments of releases of the same lines with moments of lines by release 1.

    Later releases have curves too.

    Of a release of rows v in a ball of radius R: mean f = E v, D = E[(t - p) f]/(p (1 - p)), and E[s f] = (2 p - 1) E f
    + 2 p (1 - p) D, which tells D once more.
    """
    p, lines, d = scales.arms.share, len(releases[0][0].lines), releases[-1][0].count
    between, spread = p * (1 - p), scales.arms.limit / scales.arms.spread
    # Slopes are corrected for the cut of residuals.
    spread /= float(kept_by_cut(scales.outcome, np.array([spread]), scales.arms.spread)[0])
    middle = _Joined(d)
    middle.add(np.zeros(lines), scales.centre_sd)
    middle.add(np.zeros(d), np.where(np.arange(d) < lines, np.inf, LEAST_DOUBT))
    for features, moments in releases:
        middle.add(features.radius**2 * moments.gram[0, 1:], features.radius**2 * moments.gram_sd)
    mean, mean_sd = middle.found()
    apart, cross, arm_cross = _Joined(d), _Joined(d), _Joined(d)
    gram, arm_gram = _Joined(d, d), _Joined(d, d)
    for features, moments in releases:
        radius, m, wide = features.radius, mean[: features.count], 1 + (math.sqrt(2) - 1) * np.eye(features.count)
        square, to_apart = radius**2, radius * max(p, 1 - p) / between
        apart.add(to_apart * (moments.apart[1:] - m * moments.apart[0]), to_apart * moments.apart_sd)
        of_arm = square * moments.arm_gram[0, 1:]
        doubt = np.hypot(square * moments.arm_gram_sd, (2 * p - 1) * mean_sd[: features.count])
        apart.add((of_arm - (2 * p - 1) * m) / (2 * between), doubt / (2 * between))
        to_cross = radius * spread
        cross.add(to_cross * moments.cross[1:] - m * spread * moments.cross[0] * radius, to_cross * moments.cross_sd)
        arm_cross.add(
            to_cross * moments.arm_cross[1:] - m * spread * moments.arm_cross[0] * radius,
            to_cross * moments.arm_cross_sd,
        )
        gram.add(square * moments.gram[1:, 1:] - np.outer(m, m), square * moments.gram_sd * wide)
        moved = np.outer(m, of_arm) + np.outer(of_arm, m) - (2 * p - 1) * np.outer(m, m)
        arm_gram.add(square * moments.arm_gram[1:, 1:] - moved, square * moments.arm_gram_sd * wide)
    differ, differ_sd = apart.found()
    known = np.zeros((d, d), dtype=bool)
    for j in range(d):
        gram.at(j, j, *((scales.ratio[j], scales.ratio_sd[j]) if j < lines else (1.0, LEAST_DOUBT)))
    # An indicator is its own square, and levels of one category exclude each other: the arms' shares say the rest.
    at, of_arm, of_arm_sd = scales.centre / scales.deviation, 2 * between * differ, 2 * between * differ_sd
    for j in (place for place, column_margin in enumerate(scales.margins) if column_margin is None):
        steep = 1 / scales.deviation[j] - 2 * at[j]
        value = steep * of_arm[j] + (2 * p - 1) * scales.ratio[j]
        arm_gram.at(j, j, value, math.hypot(steep * of_arm_sd[j], scales.ratio_sd[j]))
    for i, j, value, sd in scales.known:
        gram.at(i, j, value, max(sd, 1e-3))
        known[i, j] = known[j, i] = True
        by_arm = (2 * p - 1) * value - at[i] * of_arm[j] - at[j] * of_arm[i]
        arm_gram.at(i, j, by_arm, math.hypot(at[i] * of_arm_sd[j], at[j] * of_arm_sd[i], sd))
    return SeenMoments(
        mean,
        mean_sd,
        differ,
        differ_sd,
        *cross.found(),
        *arm_cross.found(),
        *gram.found(),
        *arm_gram.found(),
        known,
        lines,
    )


MIDDLE, WIDTH = (EDGES[1:] + EDGES[:-1]) / 2, np.diff(EDGES)
WITHIN_CELL = MIDDLE**2 + WIDTH**2 / 12
# Declared ranges are 7 deviations wide, times or over 2 (tuning tables; a range beyond all but 1 in 1,000 has 6.6).
USUAL_DEVIATION, USUAL_RATIO = 2 / 7, 2.0
# A shape's shares, mean and mean square are off by half a percent themselves.
SHAPE_OFF = 0.005
# A cell keeps its noisy share where that lies more than this many deviations of noise off the shapes.
CLEAR_CELL = 3.0
# A column of larger skewness has its normal score for a line, where the noise of a cell is below the second number
# (logs and costs have 3, an exponential 2).
SKEWED, SCORED_NOISE = 1.2, 0.02
# Tails that no shape has: relative doubt in an outcome's variance by its histogram.
TAIL_DOUBT = 0.5
# An outcome is skewed, as counts and costs are, whose mean lies nearer to an end than to the middle of its range, and
# within this many of its deviations of that end.
SKEWED_END = 2.0
# Its tail falls off as a power from where the second of these lies beyond, so that the first lies beyond the declared
# end, or less if noise would show that; incomes and wealth have powers from 1.5 on (Gabaix 2009, Annual Review of
# Economics 1:255). Chosen on made counts, costs and claims in trials, judged on others (docs/evidence.md).
BEYOND_END, TAIL_FROM, HEAVIEST = 1e-3, 0.1, 1.5
# Where a standard normal number is looked at.
NORMAL = np.linspace(-5, 5, 201)
# A flag that two units in a thousand have is too rare to adjust for.
LEAST_SHARE = 0.002
# Ranks at which lengths of rows are looked at.
RANKS = 1_000
# Least variances: of outcomes and of columns, in squared half ranges.
LEAST_VARIANCE = 1e-4
# Least relative doubt in a variance and least doubt in a centre, in deviations: of a cell's width. So much are moments
# of curves off in a synthetic table, whose margins are those cells.
LEAST_DOUBT = 0.1


@lru_cache(maxsize=1)
def _shapes() -> tuple[FloatArray, FloatArray]:
    """Return shapes, shares in cells, and their variances.

    Normal ones; exponential and log-normal ones from either end, these also with many at the end itself; two values.
    """
    from scipy.special import ndtr

    normal = [np.diff(ndtr((EDGES - m) / s)) for m in np.linspace(-0.95, 0.95, 39) for s in np.geomspace(0.04, 1, 14)]
    from_end = np.maximum(EDGES + 1, 1e-12)
    one_sided = [np.diff(-np.exp(-from_end / s)) for s in np.geomspace(0.01, 1, 14)]
    scales = [(s, wide) for s in np.geomspace(0.01, 0.5, 20) for wide in (0.5, 0.75, 1.0)]
    costs = [np.diff(ndtr(np.log(from_end / s) / wide)) for s, wide in scales]
    end = np.eye(len(MIDDLE))
    one_sided += costs + [q * end[0] + (1 - q) * cost / cost.sum() for cost in costs[1::6] for q in (0.25, 0.5, 0.75)]
    two_valued = [q * end[0] + (1 - q) * end[-1] for q in np.linspace(0.05, 0.95, 19)]
    shapes = np.array([*normal, *one_sided, *(shape[::-1] for shape in one_sided), *two_valued])
    shapes /= shapes.sum(axis=1, keepdims=True)
    return shapes, shapes @ WITHIN_CELL - (shapes @ MIDDLE) ** 2


# A histogram is compared with shapes in quarters: finer cells would hold little but noise.
_COARSE = (np.floor((MIDDLE[:, None] + 1) / 0.25).astype(int) == np.arange(8)).astype(float)


@dataclass(frozen=True)
class Margin:
    """The distribution of a column or the outcome: shares of its cells, mean and variance.

    ``mean_sd``: the doubt in the mean; ``doubt``: the relative doubt in the variance. ``sure``: shares less the noise
    that cells which stand out of all shapes may have. ``heaps``: cells with clearly more than both cells beside them
    together, as bunched values have.
    """

    shares: FloatArray
    mean: float
    mean_sd: float
    variance: float
    doubt: float
    sure: FloatArray
    heaps: BoolArray

    @property
    def deviation(self) -> float:
        """Square root of the variance."""
        return math.sqrt(self.variance)

    def skewness(self) -> float:
        """Return the third central moment over the deviation's cube.

        A cell that stands out counts by its excess over the least share that does: the other end may hide as many
        units, and noise would else make skewness of one of two equal tails.
        """
        return float(self.sure @ ((MIDDLE - self.mean) / self.deviation) ** 3)


def margin(seen: FloatArray, sd: float, sums: tuple[float, float, float] | None = None) -> Margin:
    """Read a noisy histogram whose shares have noise of deviation ``sd``.

    ``sums``: mean and mean square where they are seen as well, and the deviation of their noise.
    """
    shapes, variances = _shapes()
    coarse = seen @ _COARSE
    # A heap in an end's quarter is a skewed column or a flag: only fine cells tell.
    heap = max(coarse[0], coarse[-1]) > 0.5 + 2 * sd * math.sqrt(_COARSE[:, 0].sum())
    of, to, noise = (seen, shapes, sd) if heap else (coarse, shapes @ _COARSE, sd * np.sqrt(_COARSE.sum(axis=0)))
    misfit = ((of - to) ** 2 / (2 * np.maximum(noise, SHAPE_OFF) ** 2)).sum(axis=1)
    misfit += 0.5 * (np.log(variances / USUAL_DEVIATION**2) / (2 * math.log(USUAL_RATIO))) ** 2
    if sums is not None:
        mean, square, noise_sd = sums
        of_shapes = (shapes @ MIDDLE - mean) ** 2 / 2 + (shapes @ WITHIN_CELL - square) ** 2
        misfit += of_shapes / (2 * (noise_sd**2 + SHAPE_OFF**2))
    weight = np.exp(misfit.min() - misfit)
    weight /= weight.sum()
    best, beyond = weight @ shapes, seen - weight @ shapes
    shares, sure = (
        np.maximum(best + np.where(np.abs(beyond) > CLEAR_CELL * sd, stands_out, 0), 0)
        for stands_out in (beyond, beyond - np.sign(beyond) * CLEAR_CELL * sd)
    )
    shares /= shares.sum()
    mean = float(shares @ MIDDLE)
    # The average of shapes is wider than each of them, by the doubt in its place.
    place = float(weight @ (shapes @ MIDDLE) ** 2 - (best @ MIDDLE) ** 2)
    within_shape = float(weight @ variances)
    # Shapes are a guess: they hold the variance up as far as noise in the cells could hide it.
    hides = CLEAR_CELL * sd * math.sqrt(float(((MIDDLE - mean) ** 4).sum()))
    least = max(min(within_shape / 2, hides), LEAST_VARIANCE)
    variance = max(float(shares @ WITHIN_CELL) - mean**2 - max(place, 0.0), least)
    doubt = math.sqrt(max(float(weight @ variances**2) / within_shape**2 - 1, 0.0))
    # The places of units within a cell are unknown.
    doubt = min(math.hypot(doubt, LEAST_DOUBT, float(shares @ WIDTH**2) / 4 / variance), 1.0)
    beside = np.convolve(seen, (1, 0, 1), "same")
    heaps = seen - beside > CLEAR_CELL * math.sqrt(3) * max(sd, SHAPE_OFF)
    return Margin(shares, mean, math.sqrt(max(place, 0.0)), variance, doubt, sure / sure.sum(), heaps)


def with_tail(outcome: Margin, sd: float) -> Margin:
    """Return a skewed outcome with the tail that noise may hide.

    ``sd``: its deviation on each share of the histogram.

    The shape that fits its body best says little of its tail: for counts, the loss by a cut came out a tenth of what it
    is. In parts x of the range from the end where most lie, P(x) is at least q (x/start)^-a, P(start) = q.
    """
    to_middle, to_end = abs(outcome.mean), 1 - abs(outcome.mean)
    if to_middle < to_end or to_end > SKEWED_END * outcome.deviation:
        return outcome
    way = 1 if outcome.mean < 0 else -1
    x, beyond = (EDGES + 1) / 2, np.append(np.cumsum(outcome.shares[::way][::-1])[::-1], 0.0)
    start = float(np.interp(-TAIL_FROM, -beyond, x))
    least = min(BEYOND_END, CLEAR_CELL * sd)
    steep = max(math.log(TAIL_FROM / least) / -math.log(start), HEAVIEST) if 0 < start < 1 else math.inf
    tail = TAIL_FROM * (np.maximum(x, start) / start) ** -steep if steep < math.inf else np.zeros(len(x))
    beyond = np.append(np.where(x > start, np.maximum(beyond, tail), beyond)[:-1], 0.0)
    shares = np.maximum(-np.diff(beyond), 0)[::way]
    shares /= shares.sum()
    mean = float(shares @ MIDDLE)
    variance = max(float(shares @ WITHIN_CELL) - mean**2, outcome.variance)
    return replace(outcome, shares=shares, mean=mean, variance=variance)


@dataclass(frozen=True)
class FoundScales:
    """Scales that release 1 determines.

    Attributes:
        arms: treated share, means and deviation of the outcome; shrunk, never 0.
        share_sd: noise of the treated share.
        means_sd: by which the arms' means may be off, shape (2,).
        outcome: the histogram of u.
        kept: places of the columns that are lines: all that vary beyond noise.
        margins: of the kept numbers; None for an indicator.
        centre, deviation: of each kept column.
        centre_sd: doubt in the centre of each line, in deviations; terms come after columns here and below.
        ratio, ratio_sd: expected variance of the lines once standardised, and how far it may be off.
        lines: features of the kept columns.
        terms: declared terms that are lines beside them.
        left_out: places of the columns of which noise hides whether they vary, and of terms that are no lines.
        hidden: of each of these the largest variance that it may have, over that of a flag with share 1/2; a single 1
            where there are no columns.
        known: places (i, j) within ``kept`` of two levels of one category, with their correlation and its deviation.
    """

    arms: ArmScales
    share_sd: float
    means_sd: FloatArray
    outcome: Margin
    kept: IntArray
    margins: tuple[Margin | None, ...]
    centre: FloatArray
    centre_sd: FloatArray
    deviation: FloatArray
    ratio: FloatArray
    ratio_sd: FloatArray
    left_out: IntArray
    hidden: FloatArray
    known: tuple[tuple[int, int, float, float], ...]
    cells_sd: FloatArray
    lines: tuple[LineFeature, ...]
    terms: FoundTerms


def kept_by_cut(outcome: Margin, cut: FloatArray, spread: float) -> FloatArray:
    """Return the part of slopes that residuals cut at ``cut`` deviations keep.

    It is E y cut(y)/E y^2.
    """
    y = np.abs(MIDDLE - outcome.mean) / spread
    part: FloatArray = (outcome.shares * y) @ np.minimum(y[:, None], cut) / max(float(outcome.shares @ y**2), 1e-9)
    return part


def scales_of(public: Public, released: ReleasedScales) -> FoundScales:
    """Read release 1."""
    total, others, _, square = released.arms.tolist()
    sd = float(released.cells_sd[-1])
    outcome = with_tail(margin(released.outcome, sd, (total + others, square, float(released.arms_sd[0]))), sd)
    arms, means_sd = _arms(public, released, outcome)
    places = range(len(public.encoded))
    kept = [place for place in places if _varies(public.columns, released, place)]
    left_out = [place for place in places if place not in kept]
    hidden = {place: min(_hides(released, place) / 0.25, 1.0) for place in left_out}
    facts: list[tuple[float, float, float, float, float]] = []
    margins: list[Margin | None] = []
    for place in kept:
        seen, sd = released.columns[place], float(released.cells_sd[place])
        if public.columns[place].kind is ColumnKind.number:
            # Shares of the units that have the number.
            present = 1 - _missing_share(public.columns, released, place)
            column_margin = margin(seen / present, sd / present)
            margins.append(column_margin)
            facts.append(
                (
                    column_margin.mean,
                    column_margin.mean_sd,
                    column_margin.deviation,
                    present,
                    present * column_margin.doubt,
                )
            )
            continue
        share = min(max(float(seen[0]), 0.0), 1.0)
        variance = share * (1 - share)
        wide = max(variance, min(0.25, sd))
        margins.append(None)
        ratio_sd = math.hypot(0.05, sd * abs(1 - 2 * share) / wide)
        facts.append((share, sd, math.sqrt(wide), max(variance / wide, 0.1), ratio_sd))
    centre, centre_sd, deviation, ratio, doubt = np.array(facts).reshape(-1, 5).T
    # Cells say a mean within a tenth of a deviation at best.
    centre_sd = np.hypot(LEAST_DOUBT, centre_sd / deviation)
    known = []
    for i, level in enumerate(kept):
        for j, other in enumerate(kept[:i]):
            if public.columns[level].covariate == public.columns[other].covariate and margins[i] is margins[j] is None:
                outer, sd = deviation[i] * deviation[j], float(released.cells_sd[level])
                known.append((i, j, -centre[i] * centre[j] / outer, sd * math.hypot(centre[i], centre[j]) / outer))
    lines = _lines(public, released, kept, margins, centre, deviation)
    known_columns = {
        place: ColumnFacts(
            line, None if column_margin is None else column_margin.shares, float(at), float(size), float(off)
        )
        for place, line, column_margin, at, size, off in zip(
            kept, lines, margins, centre, deviation, doubt, strict=True
        )
    }
    terms = terms_of(public.columns, public.terms, known_columns)
    for place in terms.left_out:
        # A term of a hidden column may confound as much as the column; a constant or collinear term does not.
        hidden[place] = max((hidden.get(part.column, 0.0) for part in public.columns[place].parts), default=0.0)
    left_out = list(hidden)
    return FoundScales(
        arms=arms,
        share_sd=float(released.arms_sd[2]),
        means_sd=means_sd,
        outcome=outcome,
        kept=np.array(kept, dtype=np.int64),
        margins=tuple(margins),
        centre=centre,
        centre_sd=np.concatenate([centre_sd, np.hypot(LEAST_DOUBT, terms.centre_sd)]),
        deviation=deviation,
        ratio=np.concatenate([ratio, np.ones(len(terms.lines))]),
        ratio_sd=np.concatenate([doubt, np.hypot(LEAST_DOUBT, terms.ratio_sd)]),
        left_out=np.array(left_out, dtype=np.int64),
        hidden=np.array(list(hidden.values()) if public.columns else [1.0]),
        known=tuple(known),
        cells_sd=released.cells_sd,
        lines=lines,
        terms=terms,
    )


def _arms(public: Public, released: ReleasedScales, outcome: Margin) -> tuple[ArmScales, FloatArray]:
    """Return the scales of the arms, and the deviation of the error of each mean.

    An arm's mean is that of all units, m, plus a difference that is N(0, Var u) before (sum of t (u - m))/p is seen.
    """
    total, others, share, square = released.arms.tolist()
    sd, share_sd = released.arms_sd[:2], float(released.arms_sd[2])
    p = min(max(share, min(2 * share_sd, 0.4)), 1 - min(2 * share_sd, 0.4))
    everybody, noise = total + others, math.hypot(*sd)
    # Mean of all units and the variance around it: from sums and histogram, weighed by their noise.
    of_histogram = outcome.doubt * outcome.deviation
    weight = of_histogram**2 / (of_histogram**2 + noise**2)
    middle = min(max(outcome.mean + weight * (everybody - outcome.mean), -1.0), 1.0)
    square_sd = math.hypot(float(released.arms_sd[3]), 2 * middle * noise * weight)
    around = min(max(_variance(outcome, square - middle**2, square_sd), LEAST_VARIANCE), 1.0)
    parts, differ = np.array([p, 1 - p]), np.array([total - middle * share, others - middle * (1 - share)]) / (p, 1 - p)
    mean_sd = np.hypot(sd, middle * share_sd) / parts
    trust = around / (around + mean_sd**2)
    means = np.clip(middle + trust * differ, -1, 1)
    # Noise sets the arms apart too.
    apart = np.maximum((means - middle) ** 2 - trust * mean_sd**2, 0)
    spread = math.sqrt(max(around - float(parts @ apart), around / 4, LEAST_VARIANCE))
    limit = _limit(public, outcome, spread)
    return ArmScales(p, (float(means[0]), float(means[1])), spread, limit), np.sqrt(trust) * mean_sd


def _variance(outcome: Margin, seen: float, sd: float) -> float:
    """Return the outcome's variance, given its histogram and a noisy variance.

    It is log-normal around the histogram's variance, and seen with noise of deviation ``sd``.

    The scale is one of factors: noise that is larger than the variance itself must not make it nearly 0, since
    residuals and scores are cut by what it is taken to be. Half a deviation of doubt is added (chosen on three outcomes
    in two subgroups of 5,000, epsilon 1).
    """
    doubt = max(outcome.doubt, TAIL_DOUBT)
    factors = np.exp(math.sqrt(math.log1p(doubt**2)) * NORMAL)
    weight = np.exp(-0.5 * NORMAL**2 - 0.5 * ((outcome.variance * factors - seen) / sd) ** 2)
    total = float(weight.sum())
    if total <= 0:
        return max(seen, outcome.variance)
    mean = float(weight @ factors) / total
    return outcome.variance * (mean + 0.5 * math.sqrt(max(float(weight @ factors**2) / total - mean**2, 0.0)))


def _limit(public: Public, outcome: Margin, spread: float) -> float:
    """Return the cut of residuals in releases 2 to 4, in units of u.

    It balances the noise of slopes against the part of them that the cut removes.

    Slopes of d lines have noise of variance d (limit noise)^2 in all; a cut takes 1 - E[y cut(y)]/E[y^2] off them, of
    an outcome of which covariates explain what the prior says.
    """
    d = len(public.columns)
    noise = moments_sd(public) * least_radius(d) / public.weight
    limits = np.arange(1.5, max(2 / spread, 1.6), 0.25)
    taken = 1 - kept_by_cut(outcome, limits, spread)
    loss = d * (limits * noise) ** 2 + public.prior.outcome_r2 * taken**2
    return min(float(limits[loss.argmin()]) * spread, 2.0)


def _varies(columns: tuple[EncodedColumn, ...], released: ReleasedScales, place: int) -> bool:
    """Return whether noise shows a column to vary.

    A number that lies in one cell is a constant, or its range is far too wide: that it is kept by chance would cost
    what a hidden column may do, so three deviations of noise have to lie out of that cell.
    """
    seen, hidden = released.columns[place], _hides(released, place)
    if columns[place].kind is not ColumnKind.number:
        return bool(hidden < seen[0] < 1 - hidden)
    return bool(seen.max() < 1 - _missing_share(columns, released, place) - min(CLEAR_CELL * hidden, 0.5))


def _hides(released: ReleasedScales, place: int) -> float:
    """Return the share of the units that noise hides in a column."""
    return max(float(released.cells_sd[place]), LEAST_SHARE)


def _missing_share(columns: tuple[EncodedColumn, ...], released: ReleasedScales, place: int) -> float:
    """Return the share of units whose number is missing, at most nine tenths."""
    share = 0.0
    for other, column in enumerate(columns):
        if column.covariate == columns[place].covariate and column.kind is ColumnKind.missing:
            share = min(max(float(released.columns[other][0]), 0.0), 0.9)
    return share


def _lines(
    public: Public,
    released: ReleasedScales,
    kept: list[int],
    margins: list[Margin | None],
    centres: FloatArray,
    deviations: FloatArray,
) -> tuple[LineFeature, ...]:
    """Return the lines of kept columns, cut at six deviations.

    They are standardised columns, or normal scores of skewed ones.
    """
    missing = {
        column.covariate: place for place, column in enumerate(public.columns) if column.kind is ColumnKind.missing
    }
    lines = []
    for place, column_margin, centre, deviation in zip(kept, margins, centres, deviations, strict=True):
        at, to = centre + np.array([-1, 1]) * LINE_CUT * deviation, np.array([-LINE_CUT, LINE_CUT])
        if (
            column_margin is not None
            and released.cells_sd[place] < SCORED_NOISE
            and abs(column_margin.skewness()) > SKEWED
        ):
            at, to = MIDDLE, normal_scores(column_margin.shares)
        indicator = missing.get(public.columns[place].covariate) if column_margin is not None else None
        lines.append(LineFeature(place, at, to, indicator))
    return tuple(lines)


def lines_of(public: Public, scales: FoundScales) -> FeatureMap:
    """Return the lines of release 2: of kept columns, then declared terms."""
    lines = (*scales.lines, *scales.terms.lines)
    return FeatureMap(lines, (), radius_of(public, scales))


def radius_of(public: Public, scales: FoundScales) -> float:
    """Return the radius R of the ball to which rows v of lines and a constant are cut.

    It is the least one, or larger as long as a cut may take more off the second moments, E(|v|^2 - R^2)_+/E|v|^2, than
    noise moves the eigenvalues of their matrix (Wigner). So with more budget both are less.
    """
    count, squares = len(scales.lines) + len(scales.terms.lines), squared_lengths(public, scales)
    beyond = squares[::-1].cumsum()[::-1] - squares * np.arange(len(squares), 0, -1)
    quiet = beyond <= moments_sd(public) * math.sqrt(2 * count) * squares * squares.sum()
    return max(least_radius(count), math.sqrt(float(squares[quiet.argmax()])))


def squared_lengths(public: Public, scales: FoundScales) -> FloatArray:
    """Return |v|^2 at even ranks, the smallest first, as if columns were far out together.

    With the margins of release 1 no other dependence leaves more beyond any length: comonotone sums are the largest in
    convex order (Dhaene et al. 2002, Insurance: Mathematics and Economics 31:3).
    """
    groups: dict[tuple[int, ColumnKind], list[int]] = {}
    for place, column in enumerate(scales.kept.tolist()):
        groups.setdefault((public.columns[column].covariate, public.columns[column].kind), []).append(place)
    total, cells = np.ones(RANKS), dict[int, tuple[FloatArray, FloatArray]]()
    for places in groups.values():
        if (number := scales.margins[places[0]]) is not None:
            z, shares = MIDDLE[None], number.shares
        else:
            # Levels of one covariate exclude each other.
            share = np.clip(scales.centre[places], 0, 1)
            z, shares = np.eye(len(places), len(places) + 1), np.append(share, max(1 - share.sum(), 0.0))
        at = {int(scales.kept[place]): values for place, values in zip(places, z, strict=True)}
        cells |= {column: (values, shares) for column, values in at.items()}
        lines = [line for line in (*scales.lines, *scales.terms.lines) if line.column in at and line.by is None]
        total += _ranked(sum(np.interp(at[line.column], line.at, line.to) ** 2 for line in lines), shares)
    for line in scales.terms.lines:
        if line.by is not None:
            parts = [(feature, *cells[feature.column]) for feature in (line, line.by)]
            squares = [_ranked(np.interp(z, feature.at, feature.to) ** 2, shares) for feature, z, shares in parts]
            total += np.minimum(squares[0] * squares[1], LINE_CUT**2)
    return total


def _ranked(values: FloatArray, shares: FloatArray) -> FloatArray:
    """Return values with these shares at even ranks, the smallest first."""
    order = np.argsort(values)
    ranks = np.searchsorted(shares[order].cumsum() / shares.sum(), (np.arange(RANKS) + 0.5) / RANKS)
    return values[order[np.minimum(ranks, len(order) - 1)]]


def normal_scores(shares: FloatArray) -> FloatArray:
    """Return the standardised normal score of each cell, shape (CELLS,).

    It is the score of the cell's middle rank, as of tied values.
    """
    from scipy.special import ndtri

    score = ndtri(np.clip(np.cumsum(shares) - shares / 2, 0.01, 0.99))
    centre = float(shares @ score)
    standardised: FloatArray = (score - centre) / math.sqrt(max(float(shares @ (score - centre) ** 2), 0.05))
    return standardised
