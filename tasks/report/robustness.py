"""Say how strong an unmeasured confounder would have to be, beside known covariates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from causalveil.schemas.answers import Answer, Benchmark, Possible, Robustness
from causalveil.schemas.errors import StudyError
from causalveil.schemas.hints import option
from causalveil.schemas.release import EffectRelease
from causalveil.schemas.specification import outcomes_of
from causalveil.tasks.estimate.robustness import as_strong, e_value, largest_bias
from causalveil.tasks.report.figures import NARROW, TICK_LETTER, Axis
from causalveil.tasks.report.numbers import confidence_level, figure, percent

NO_ANSWER = "Nothing to say: treatment was randomised as the study declares, or noise or a gate hides the answer."
# No such share is no proof that none is so strong.
NO_PROOF = "This does not show that there is no such confounder."
NOTHING = "The interval includes 0, so no unmeasured confounder is needed to explain an effect."
NOISE_HIDES = "Noise hides how much each covariate explains: only their upper ends count."
# The figure reaches so far beyond the robustness value, and has contours where so much of the estimate is left.
BEYOND, LEFT = 1.3, (2 / 3, 1 / 3, 0.0)
# Pixels of the figure's plane, top and bottom; points of a contour; names of covariates in it at most.
TOP, BOTTOM, POINTS, NAMED = 20, 220, 60, 6
# Half a line of text in the figure, in pixels.
NAME_HEIGHT = 14
# A risk ratio that a difference of so many standard deviations comes to (VanderWeele and Ding 2017).
RATIO_OF_DEVIATION = 0.91
# Shares below it are told as such, and what lies this near the corner of the figure is not drawn.
LEAST_SHOWN, CORNER = 1e-4, 0.025
# A logarithm of a ratio beyond it is none that a person reads.
MOST = 50.0


@dataclass(frozen=True)
class Strength:
    """Parts of the outcome's and of treatment's variance that a confounder explains."""

    outcome: float
    treatment: float
    name: str


@dataclass(frozen=True)
class SensitivityAnalysis:
    """The strength that an unmeasured confounder would need, as numbers and in words.

    Attributes:
        robustness: the numbers; None in a trial, behind noise, or of a withheld answer.
        sentences: the same in words.
        widened: the interval given a confounder of a stated strength; None without one.
    """

    robustness: Robustness | None
    sentences: tuple[str, ...]
    widened: tuple[float, float] | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The analysis as plain values."""
        robustness = None if self.robustness is None else self.robustness.model_dump()
        return {**asdict(self), "robustness": robustness}

    def __str__(self) -> str:
        """Return the sentences."""
        return "\n".join(self.sentences)


def strength_like(release: EffectRelease, column: str, times: float) -> Strength:
    """Return a confounder ``times`` as strong as a covariate, by the upper ends of its shares.

    Raises:
        StudyError: the column has no benchmark, or no confounder can be so strong.
    """
    benchmarks = {benchmark.covariate: benchmark for benchmark in release.benchmarks}
    if not benchmarks:
        as_option = f"{option('like')} is of 'regression' with one question"
        raise StudyError(f"sensitivity: this release has no benchmarks: {as_option}")
    if column not in benchmarks:
        raise StudyError(f"sensitivity: {option('like')} takes one of: {', '.join(benchmarks)}")
    strength = as_strong((benchmarks[column].outcome.high, benchmarks[column].treatment.high), times)
    if strength is None or times <= 0:
        raise StudyError(
            f"sensitivity: {option('times')}: none can be {times:g} times as strong as '{column}'; choose less"
        )
    return Strength(*strength, f"One {times:g} times as strong as {column} may explain")


def sensitivity_of(release: EffectRelease, strength: Strength | None = None) -> SensitivityAnalysis:
    """Return how strong an unmeasured confounder must be, and the effect of a given strength.

    Args:
        release: the release.
        strength: of a confounder; None: no strength is given.
    """
    robustness, interval = release.answers[0].robustness, release.interval
    if robustness is None or interval is None:
        return SensitivityAnalysis(None, (NO_ANSWER,))
    sentences = robustness_sentences(release)
    if strength is None:
        return SensitivityAnalysis(robustness, sentences)
    moved = largest_bias(robustness.upper, strength.outcome, strength.treatment)
    low, high = interval.lower - moved, interval.upper + moved
    level = confidence_level(interval.confidence)
    beside = (
        f"{strength.name} {percent(strength.outcome)} of the residual variance of the outcome and "
        f"{percent(strength.treatment)} of that of treatment, and may move the estimate by {short(moved)}; "
        f"with it the {level} interval is {figure(low)} to {figure(high)}."
    )
    return SensitivityAnalysis(robustness, (*sentences, beside), (low, high))


def robustness_sentences(release: EffectRelease) -> tuple[str, ...]:
    """Return sentences on the strength of unmeasured confounders; none in a trial."""
    answer = release.answers[0]
    robustness = answer.robustness
    if robustness is None:
        return ()
    if robustness.near_end == 0:
        return (NOTHING, *_conservative(release))
    return (
        "An unmeasured confounder would have to explain "
        f"{percent(robustness.value)} of the residual variance of both treatment and outcome to bring "
        f"the estimate of {figure(release.estimate)} to 0, and {percent(robustness.near_end)} for the interval to "
        "include 0.",
        f"One that explained all residual variance of the outcome would need {percent(robustness.extreme)} of that of "
        "treatment.",
        *_strongest(release, robustness),
        NO_PROOF,
        *_e_values(release, answer),
        *_conservative(release),
    )


def robustness_line(release: EffectRelease) -> str | None:
    """Return the line of a panel; None without robustness, or of several answers."""
    robustness = release.answers[0].robustness
    if robustness is None or robustness.near_end == 0 or len(release.answers) > 1:
        return None
    return (
        f"An unmeasured confounder would have to explain {percent(robustness.near_end)} of the residual variance of "
        "both treatment and outcome for the interval to include 0."
    )


def hidden(benchmark: Benchmark, robustness: Robustness) -> bool:
    """Return whether noise hides the strength of a covariate.

    It does where the bias of a confounder as strong is uncertain by more than half of the estimate.
    """
    least, most = (moved_by(benchmark, robustness.scale, end=end) for end in ("low", "high"))
    return not most - least <= largest_bias(robustness.scale, robustness.value, robustness.value) / 2


def moved_by(benchmark: Benchmark, scale: float, times: float = 1.0, end: str = "median") -> float:
    """Return the largest bias of a confounder ``times`` as strong; infinite if none is."""
    strength = as_strong((getattr(benchmark.outcome, end), getattr(benchmark.treatment, end)), times)
    return math.inf if strength is None else largest_bias(scale, *strength)


def _strongest(release: EffectRelease, robustness: Robustness) -> tuple[str, ...]:
    """Return the strongest covariate that noise does not hide, and the bias of one like it."""
    if not release.benchmarks:
        return ()
    seen = [benchmark for benchmark in release.benchmarks if not hidden(benchmark, robustness)]
    if not seen:
        return (NOISE_HIDES,)
    first = max(seen, key=lambda benchmark: moved_by(benchmark, robustness.scale))
    most, three = moved_by(first, robustness.upper, end="high"), moved_by(first, robustness.scale, 3)
    thrice = f", three times as strong by {short(three)}" if math.isfinite(three) else ""
    return (
        f"Of covariates that noise does not hide {first.covariate} is the strongest: it explains "
        f"{percent(first.treatment.median)} of the residual variance of treatment and "
        f"{percent(first.outcome.median)} of that of the outcome; a "
        f"confounder as strong may move the estimate by {short(moved_by(first, robustness.scale))} "
        f"(at most {short(most)}){thrice}.",
    )


def _e_values(release: EffectRelease, answer: Answer) -> tuple[str, ...]:
    """Return E-values of ratios, or of a standardised difference (VanderWeele and Ding 2017)."""
    ratios: list[tuple[str, float | None, float, float | None]] = [
        (ratio.name, ratio.estimate, ratio.lower, ratio.upper) for ratio in answer.measures
    ]
    hazards = answer.log_rank.hazard_ratio if answer.log_rank is not None else None
    if hazards is not None and not release.specification.get("covariates"):
        ratios.append(("hazard ratio", hazards.estimate, hazards.lower, hazards.upper))
    two_valued = outcomes_of(release.specification)[0].get("codes") is not None
    if not ratios and answer.spread and answer.interval is not None and not two_valued and answer.measure is None:
        ends = (answer.estimate or 0.0, answer.interval.lower, answer.interval.upper)
        size = [math.exp(min(max(RATIO_OF_DEVIATION * ratio / answer.spread, -MOST), MOST)) for ratio in ends]
        ratios.append(("risk ratio that this size comes to", size[0], size[1], size[2]))
    return tuple(
        f"The E-value of the {name} is {short(e_value(estimate))} ({short(_near(lower, upper))} for the limit "
        "nearer to 1)."
        for name, estimate, lower, upper in ratios
        if estimate is not None and estimate > 0
    )


def _near(lower: float, upper: float | None) -> float:
    """Return the E-value of a ratio's limit nearer to 1; 1 where the interval includes 1."""
    if lower > 1:
        return e_value(lower)
    return e_value(upper) if upper is not None and 0 < upper < 1 else 1.0


def _conservative(release: EffectRelease) -> tuple[str, ...]:
    """Say that shares are conservative for estimators whose variance includes covariates' part."""
    if release.estimator in ("regression", "aipw", "survival"):
        return ()
    return (
        f"The shares are on the safe side: {release.estimator.replace('_', ' ')} fits no model of the outcome, so "
        "that its variance holds what covariates explain.",
    )


@dataclass(frozen=True)
class Contour:
    """A curve of confounders that leave the same estimate.

    Its path is in a plane of 100 by 100; its label stands ``at`` percent of the width.
    ``kind``: ``level``, ``zero`` or ``near``.
    """

    label: str
    path: str
    at: float
    kind: str


@dataclass(frozen=True)
class Landmark:
    """A confounder as strong as a covariate, in percent of the width and pixels of the height."""

    name: str
    x: float
    y: float
    across: tuple[float, float]
    down: tuple[float, float]
    hidden: bool
    left: bool


@dataclass(frozen=True)
class ContourPlot:
    """The estimate over the strengths of a confounder, with covariates as benchmarks."""

    axis: Axis
    rows: tuple[tuple[float, str], ...]
    contours: tuple[Contour, ...]
    marks: tuple[Landmark, ...]

    @classmethod
    def of(cls, release: EffectRelease) -> ContourPlot | None:
        """Return the plot of the first answer; None in a trial, behind noise, or if 0 is included."""
        robustness, interval, estimate = release.answers[0].robustness, release.interval, release.estimate
        if robustness is None or interval is None or estimate is None or robustness.near_end == 0:
            return None
        top = min(BEYOND * robustness.value, 1.0)
        axis = Axis(0.0, 100 * top)
        contours = [
            Contour(
                figure(float(f"{left * estimate:.3g}")), *_curve(axis, (1 - left) * estimate / robustness.scale), kind
            )
            for left, kind in zip(LEFT, ("level", "level", "zero"), strict=True)
        ]
        near = min(abs(interval.lower), abs(interval.upper))
        contours.append(Contour("", *_curve(axis, near / robustness.upper), "near"))
        rows = tuple((_height(axis, tick), f"{figure(tick)}%") for tick in axis.ticks)
        return cls(axis, rows, tuple(contours), _marks(release.benchmarks, robustness, axis))


def _height(axis: Axis, value: float) -> float:
    """Return the pixels of a share of the outcome, in percent."""
    return round(BOTTOM - (BOTTOM - TOP) * min(max(value / axis.high, 0.0), 1.0), 2)


def _curve(axis: Axis, size: float) -> tuple[str, float]:
    """Return the path of R2_Y = f^2 (1 - R2_T)/R2_T in a 100 by 100 plane, and its x at the top.

    Args:
        axis: of treatment's share in percent, as far as the outcome's goes.
        size: f, the bias over S.
    """
    top, square = axis.high / 100, size * size
    first = square / (top + square)
    shares = [first * (top / first) ** (place / POINTS) for place in range(POINTS + 1)] if first < top else [top]
    points = [(axis.at(100 * x), 100 - 100 * min(square * (1 - x) / x / top, 1.0)) for x in shares]
    return "M" + " L".join(f"{x:.2f},{y:.2f}" for x, y in points), axis.at(100 * first)


def _marks(benchmarks: Sequence[Benchmark], robustness: Robustness, axis: Axis) -> tuple[Landmark, ...]:
    """Return the marks, the strongest first; names that would overlap are left out."""
    order = sorted(
        benchmarks, key=lambda benchmark: (hidden(benchmark, robustness), -moved_by(benchmark, robustness.scale))
    )
    marks, taken = list[Landmark](), list[tuple[float, float, float]]()
    for benchmark in order:
        ends = [
            as_strong((getattr(benchmark.outcome, end), getattr(benchmark.treatment, end)), 1.0)
            for end in Possible.model_fields
        ]
        low, middle, high = (end or (1.0, 1.0) for end in ends)
        if 100 * max(middle) < CORNER * axis.high and 100 * max(high) < 4 * CORNER * axis.high:
            continue
        x, y = axis.at(100 * middle[1]), _height(axis, 100 * middle[0])
        wide = 100 * TICK_LETTER * (len(benchmark.covariate) + 1) / NARROW
        left = x + wide > 100
        start = x - wide if left else x
        grey = hidden(benchmark, robustness)
        clear = all(abs(y - at) > NAME_HEIGHT or start > end or start + wide < begin for begin, end, at in taken)
        named = not grey and clear and start >= 0 and len(taken) < NAMED
        if named:
            taken.append((start, start + wide, y))
        across = axis.at(100 * low[1]), axis.at(100 * high[1])
        down = _height(axis, 100 * low[0]), _height(axis, 100 * high[0])
        marks.append(Landmark(benchmark.covariate if named else "", x, y, across, down, grey, left))
    return tuple(marks)


@dataclass(frozen=True)
class BenchmarkRow:
    """A row of the table of benchmarks, in words.

    Shares, and the bias of a confounder as strong; ``moves`` is empty where noise hides it.
    """

    covariate: str
    treatment: str
    outcome: str
    moves: str
    most: str


def benchmark_rows(release: EffectRelease) -> tuple[BenchmarkRow, ...]:
    """Return the strength of each covariate, the strongest first."""
    robustness = release.answers[0].robustness
    if robustness is None or robustness.near_end == 0:
        return ()
    order = sorted(
        release.benchmarks,
        key=lambda benchmark: (hidden(benchmark, robustness), -moved_by(benchmark, robustness.scale)),
    )
    return tuple(
        BenchmarkRow(
            benchmark.covariate,
            _shares(benchmark.treatment),
            _shares(benchmark.outcome),
            "" if hidden(benchmark, robustness) else short(moved_by(benchmark, robustness.scale)),
            short(moved_by(benchmark, robustness.upper, end="high")),
        )
        for benchmark in order
    )


def short(value: float) -> str:
    """Return a number of three digits; "no bound" if it is infinite."""
    return figure(float(f"{value:.3g}")) if math.isfinite(value) else "no bound"


def _shares(share: Possible) -> str:
    """Return a share with its ends in percent, of two digits.

    >>> _shares(Possible(low=0.0112, median=0.0116, high=0.0118)), _shares(Possible(low=0, median=1e-6, high=2e-4))
    ('1.2% (1.1 to 1.2)', '<0.01% (<0.01 to 0.02)')
    """
    low, median, high = (
        f"{100 * part:.2g}" if part >= LEAST_SHOWN else f"<{100 * LEAST_SHOWN:.2g}"
        for part in (share.low, share.median, share.high)
    )
    return f"{median}% ({low} to {high})"


def robustness_context(release: EffectRelease) -> dict[str, Any]:
    """Return the context of a page on unmeasured confounders."""
    return {
        "robustness": robustness_sentences(release),
        "confounders": ContourPlot.of(release),
        "benchmark_rows": benchmark_rows(release),
        "each_robustness": [answer for answer in release.answers if answer.robustness]
        if len(release.answers) > 1
        else [],
    }
