"""Rows of a release of effects: answers, balance, and the gates that were declared."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Protocol, TypeVar

from pydantic import Field

from causalveil.schemas.columns import Finite
from causalveil.schemas.confounding import ConfoundingStatement, CovariateBalance
from causalveil.schemas.estimators.survival import Measure
from causalveil.schemas.limits import Limit
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.questions import ALL_UNITS, EffectMeasure, OutcomeRole


class State(StrEnum):
    """The state of an answer, which may not stand.

    ``unresolved``: noise hides the estimate, and the interval is the declared range. ``withheld`` and ``marked``: a
    gate failed.
    """

    answered = "answered"
    unresolved = "unresolved"
    marked = "marked"
    withheld = "withheld"


class Limits(Frozen):
    """Ends of an interval, in outcome units."""

    lower: Finite
    upper: Finite


class ArmCurve(Frozen):
    """Curves of one arm at the ends of intervals, and how many are at risk where these begin.

    All of it is noisy.

    Attributes:
        arm: the treatment's code.
        survival: chance of no event of any kind, never rising.
        lower, upper: a band that holds both arms' curves at once, with the study's confidence.
        incidence: cumulative incidence of each kind of event, never falling.
        at_risk: with noise, 0 or more.
        at_risk_error: the standard deviation of that noise.
    """

    arm: str
    survival: tuple[Finite, ...]
    lower: tuple[Finite, ...]
    upper: tuple[Finite, ...]
    incidence: dict[str, tuple[Finite, ...]]
    at_risk: tuple[Finite, ...]
    at_risk_error: tuple[Finite, ...]


class HazardRatio(Frozen):
    """Mantel and Haenszel's ratio of the treated's hazard to the controls', with its interval."""

    estimate: Annotated[Finite, Field(gt=0)]
    lower: Annotated[Finite, Field(ge=0)]
    upper: Annotated[Finite, Field(gt=0)]


class LogRankTest(Frozen):
    """The log-rank test of the events that count.

    It is a standard normal number where nothing differs.
    """

    statistic: Finite
    p_value: Annotated[Finite, Field(ge=0, le=1)]
    hazard_ratio: Annotated[HazardRatio | None, Field(description="null: noise hides the events of an arm")] = None


class Curves(Frozen):
    """Both arms from the origin to the horizon.

    Attributes:
        horizon, unit, origin: until when, in which unit of the times, from when.
        landmark: when curves begin, of those at risk then; 0: at the origin.
        events: what counts, and what competes with it.
        times: the ends of intervals.
        arms: control, then treated.
        seen_until: the last time at which people of both arms are seen at risk through noise; 0: at none.
        log_rank: null where they are seen at none, and of several outcomes, whose answers have tests of their own.
        grid_bracket: between which values the difference of risks without a grid lies; null where events compete.
    """

    horizon: Finite
    unit: str | None
    origin: str
    landmark: Annotated[Finite, Field(ge=0)] = 0.0
    events: tuple[str, ...]
    times: tuple[Finite, ...]
    arms: tuple[ArmCurve, ArmCurve]
    seen_until: Annotated[Finite, Field(ge=0)]
    log_rank: LogRankTest | None
    grid_bracket: tuple[Finite, Finite] | None


class GroupCurves(Frozen):
    """The curves of an arm and of the reference in one group."""

    group: str
    arm: str
    reference: str
    curves: Curves


# Beyond it squares overflow.
LARGEST_RATIO = 1e100


class MeasureAnswer(Frozen):
    """A ratio of two arms' risks, or of their odds, with its own interval.

    The interval is at the release's confidence.

    ``estimate`` is None where noise leaves nothing to divide by; ``upper`` where no upper end can be told.
    """

    measure: EffectMeasure
    estimate: Finite | None
    lower: Finite
    upper: Finite | None

    @property
    def name(self) -> str:
        """The measure as a person reads it."""
        return {"ratio": "risk ratio", "odds_ratio": "odds ratio"}.get(self.measure, str(self.measure))

    @property
    def words(self) -> str:
        """Measure, estimate and interval as a person reads them."""
        estimate = "cannot be told from none" if self.estimate is None else f"{self.estimate:,.4g}"
        end = f"to {self.upper:,.4g}" if self.upper is not None else "and above: noise leaves no upper end"
        return f"{self.name} {estimate}  {self.lower:,.4g} {end}"


class Robustness(Frozen):
    """The strength that an unmeasured confounder would need.

    It is read off estimate, interval and variances of an answer. Parts are of the variance that covariates leave.
    """

    scale: Annotated[Finite, Field(gt=0, description="S, from the released sampling variance, in outcome units")]
    upper: Annotated[Finite, Field(gt=0, description="S, from all that the interval allows for beside noise")]
    value: Annotated[
        Finite, Field(ge=0, le=1, description="part of outcome and of treatment that brings the estimate to 0")
    ]
    near_end: Annotated[
        Finite, Field(ge=0, le=1, description="the same for the nearer end of the interval; 0 where it holds 0")
    ]
    extreme: Annotated[
        Finite, Field(ge=0, le=1, description="part of treatment that does, if all of the outcome is explained")
    ]


def squared_ratio(effect: float, scale: float) -> float:
    """Return f^2 = (effect / scale)^2; sizes whose squares overflow are as good as infinite."""
    return float(min(abs(effect) / scale, LARGEST_RATIO) ** 2)


def robustness_value(effect: float, scale: float) -> float:
    """Return the part of both variances by which a confounder moves an effect to 0.

    It solves ``|effect| = scale R/sqrt(1 - R)`` for R = R2_Y = R2_T (Cinelli and Hazlett 2020, equation 19).

    Args:
        effect: in outcome units.
        scale: S, above 0, in outcome units.

    Examples:
        The exposure of the Darfur study of Cinelli and Hazlett: 0.0973 with a standard error of .0232 on 783 degrees.

        >>> round(robustness_value(0.0973, 0.0232 * 783**0.5), 3)
        0.139
    """
    square = squared_ratio(effect, scale)
    return 2 / (1 + math.sqrt(1 + 4 / square)) if square > 0 else 0.0


class Possible(Frozen):
    """A share of variance as noise leaves it possible: between the ends with 90% probability."""

    low: Annotated[Finite, Field(ge=0, le=1)]
    median: Annotated[Finite, Field(ge=0, le=1)]
    high: Annotated[Finite, Field(ge=0, le=1)]


class Benchmark(Frozen):
    """The strength of a covariate, by which one judges confounders that were missed."""

    covariate: str
    outcome: Annotated[Possible, Field(description="of the outcome's variance, given treatment")]
    treatment: Annotated[Possible, Field(description="of treatment's variance")]


class Answer(Frozen):
    """One row of the table: the effect of an arm on an outcome in a subgroup.

    The effect is against the reference arm.

    ``confounding`` states what was done about confounding; of an answer that noise hides ``reason`` may say why.
    ``noise_error`` and ``sampling_error`` are standard errors in outcome units;
    ``bias`` is what the intervals allow for to either side. All simultaneous intervals of the release hold together
    with the declared confidence. ``calibrated`` is the single interval widened and moved by what the negative controls
    show. ``spread`` is the released standard deviation of the outcome within arms, in which systematic error is
    measured. ``values`` are those of the two arms whose difference the estimate is. ``measures``: ratios that the study
    asked for. ``restricted_to``, ``log_rank``: of times to an event. A withheld answer has no numbers.
    """

    outcome: str
    role: OutcomeRole
    group: str
    arm: str
    reference: str
    measure: Annotated[Measure | None, Field(description="of a time to an event; null of all other outcomes")] = None
    state: State
    reason: Annotated[Limit | None, Field(description="why noise hides the answer; null of all others")] = None
    estimate: Finite | None
    interval: Limits | None
    simultaneous: Annotated[Limits | None, Field(description="null where there is one answer")] = None
    calibrated: Limits | None = None
    noise_error: Annotated[Finite | None, Field(ge=0)]
    sampling_error: Annotated[Finite | None, Field(ge=0)]
    bias: Annotated[Finite | None, Field(ge=0)]
    spread: Annotated[Finite | None, Field(ge=0)] = None
    measures: tuple[MeasureAnswer, ...] = ()
    confounding: Annotated[
        ConfoundingStatement | None,
        Field(description="what was done about confounding; null where noise hides the answer, or nothing says it"),
    ] = None
    values: Annotated[
        tuple[Finite, Finite] | None, Field(description="of the reference, and of the arm, where released")
    ] = None
    restricted_to: Annotated[
        Finite | None,
        Field(description="when the measure ends, where too few are followed to the horizon; null: at the horizon"),
    ] = None
    log_rank: Annotated[
        LogRankTest | None,
        Field(description="test of this answer's events until its horizon; null of other answers, and behind noise"),
    ] = None
    robustness: Annotated[
        Robustness | None,
        Field(description="how strong an unmeasured confounder would have to be; null in trials and behind noise"),
    ] = None

    @property
    def stands(self) -> bool:
        """True if it has an estimate that noise does not hide and no gate withholds."""
        return self.state in (State.answered, State.marked)

    @property
    def adjustment(self) -> str:
        """The adjustment for confounding in words, or the reason why noise hides the answer."""
        statement = self.confounding or self.reason
        return "" if statement is None else statement.sentence


class Placed(Protocol):
    """The place of a row in a table."""

    @property
    def role(self) -> OutcomeRole:
        """The role of its outcome."""

    @property
    def group(self) -> str:
        """Its subgroup."""


R = TypeVar("R", bound=Placed)


class SetShape(StrEnum):
    """The shape of a set of values that an answer leaves possible.

    ``rays``: all up to ``lower`` and all from ``upper`` on. ``line``: any number.
    """

    interval = "interval"
    rays = "rays"
    line = "line"


class ConfidenceSet(Frozen):
    """The values that an answer leaves possible: an interval, two rays or the whole line."""

    shape: SetShape
    lower: Finite | None = None
    upper: Finite | None = None

    @property
    def words(self) -> str:
        """The set as a person reads it."""
        if self.lower is None or self.upper is None:
            return "any number: the denominator cannot be told from 0"
        if self.shape is SetShape.rays:
            return f"up to {self.lower:,.4g}, or from {self.upper:,.4g} on"
        return f"{self.lower:,.4g} to {self.upper:,.4g}"


class ContrastAnswer(Frozen):
    """A contrast of rows of the table, or a ratio of two.

    ``of``: rows with their coefficients; ``top`` and ``bottom``: of a ratio, whose set is Fieller's. The simultaneous
    sets hold together with those of all answers. ``denominator_z``: a ratio's denominator over its standard error, of
    which noise is a part. A withheld one has no numbers. ``by_size``: a mean, by coefficients times released sizes.
    """

    name: str
    of: dict[str, Finite] | None = None
    by_size: Annotated[bool, Field(exclude_if=lambda by_size: not by_size)] = False
    top: str | None = None
    bottom: str | None = None
    state: State
    estimate: Finite | None = None
    interval: ConfidenceSet | None = None
    simultaneous: ConfidenceSet | None = None
    noise_error: Annotated[Finite | None, Field(ge=0)] = None
    sampling_error: Annotated[Finite | None, Field(ge=0)] = None
    bias: Annotated[Finite | None, Field(ge=0)] = None
    denominator_z: Finite | None = None

    @property
    def made_of(self) -> str:
        """The rows that it is made of, as a person reads them."""
        if self.of is None:
            return f"({self.top}) / ({self.bottom})"
        signed = [f"{'-' if times < 0 else '+'} {abs(times):g} × ({row})" for row, times in self.of.items()]
        made = " ".join(signed).removeprefix("+ ").replace(" 1 × ", " ").removeprefix("1 × ")
        return f"mean by released numbers of treated of {made.replace(' + ', ', ')}" if self.by_size else made


def headline_first(rows: Iterable[R]) -> list[R]:
    """Return rows with the headline first: the first of a primary outcome, over all units."""
    # A stable sort would move every primary row.
    ordered = list(rows)
    primary = ((row.role, row.group) == (OutcomeRole.primary, ALL_UNITS) for row in ordered)
    ordered.insert(0, ordered.pop(next((index for index, is_primary in enumerate(primary) if is_primary), 0)))
    return ordered


def in_table(answers: Iterable[Answer], one_question: bool) -> tuple[Answer, ...]:
    """Return a release's answers, headline first; one question has no simultaneous intervals."""
    update = {"simultaneous": None} if one_question else {}
    return tuple(answer.model_copy(update=update) for answer in headline_first(answers))


class GateVerdict(StrEnum):
    """The verdict of a gate: beyond its bound, within it, or neither at this noise.

    The first two are significant.
    """

    passed = "passed"
    failed = "failed"
    cannot_tell = "cannot_tell"


class GateResult(Frozen):
    """A gate in a subgroup and arm, with the worst value and the standard error of its noise."""

    gate: str
    group: str
    arm: str
    bound: Finite
    value: Finite
    noise_error: Annotated[Finite, Field(ge=0)]
    verdict: GateVerdict


class BalanceRow(CovariateBalance):
    """A row of balance: a covariate in a subgroup and arm, before and after weighting."""

    group: str
    arm: str


class Calibration(Frozen):
    """Calibration by negative controls (Schuemie et al. 2018), in standard deviations in arms.

    ``mean`` and ``deviation`` of systematic error over outcomes, and the standard error of the mean. ``statement``
    says whether intervals were calibrated, and why.
    """

    controls: Annotated[int, Field(ge=0)]
    mean: Finite | None = None
    deviation: Annotated[Finite | None, Field(ge=0)] = None
    mean_error: Annotated[Finite | None, Field(ge=0)] = None
    statement: str
