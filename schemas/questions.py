"""Parts of a table of questions: outcomes, subgroups, arms, contrasts and gates."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from causalveil.schemas.columns import (
    ZERO_ONE,
    Bounds,
    CategoricalCovariate,
    Code,
    Covariate,
    Finite,
    LevelNames,
    Levels,
    Missing,
    Name,
    NumericCovariate,
    YesOrNo,
    codes_of,
    distinct_levels,
    distinct_names,
)
from causalveil.schemas.documents import RuleBroken
from causalveil.schemas.privacy import Frozen

# What the answers over all subgroups are called; no level can be.
ALL_UNITS = "all units"
# The arm of all cohorts.
TREATED = "treated"
MISSING = "(missing)"
MOST_OUTCOMES, MOST_GROUPS, MOST_ARMS, MOST_CONTRASTS = 50, 100, 20, 50
# Columns that one outcome may combine, and the range of their coefficients.
MOST_PARTS, LEAST_TIMES, MOST_TIMES = 20, 1e-6, 1e6


class OutcomePart(Bounds):
    """A column of an outcome that is a linear combination, and its coefficient.

    Values of the column are clipped to its declared range first.
    """

    name: Name
    times: Finite
    codes: YesOrNo | None = None

    @model_validator(mode="after")
    def _ordinary(self) -> Self:
        if not LEAST_TIMES <= abs(self.times) <= MOST_TIMES:
            raise ValueError(f"'{self.name}' is multiplied by a number of {LEAST_TIMES:g} to {MOST_TIMES:g}, or less 0")
        return self


class OutcomeRole(StrEnum):
    """The role of an outcome in a table.

    A negative control is one that treatment cannot change: any effect found on it is error. A placebo is a change
    before treatment (a lead of an event study): parallel trends imply none; it never calibrates other answers.
    """

    primary = "primary"
    secondary = "secondary"
    negative_control = "negative_control"
    placebo = "placebo"


class EffectMeasure(StrEnum):
    """The comparison of arms: by the difference of means, or by a ratio.

    Ratios are of risks or odds, for an outcome of two values.
    """

    difference = "difference"
    ratio = "ratio"
    odds_ratio = "odds_ratio"


class AskedOf(Frozen):
    """A table's settings of an outcome beside its range: its role and its importance.

    ``importance``: noise is divided by its square root, so that 4 halves it against an outcome of importance 1.
    """

    role: OutcomeRole = OutcomeRole.secondary
    importance: Annotated[Finite, Field(ge=0.01, le=100)] = 1.0


class TableOutcome(Bounds, AskedOf):
    """An outcome with its declared range, its role and its importance.

    With ``codes`` it is a binary column read as 0 and 1. With ``of`` it is a linear combination of columns, missing
    where one of them is; the sum is clipped to its range after the columns are clipped to theirs. ``arm``: in a study
    of cohorts, the cohort that it compares with the reference; units of other cohorts do not have it.
    """

    name: Name
    codes: YesOrNo | None = None
    of: Annotated[tuple[OutcomePart, ...], Field(max_length=MOST_PARTS, exclude_if=lambda parts: not parts)] = ()
    leaves_out: Annotated[
        bool, Field(description="units without it are left out of its answer", exclude_if=lambda leaves: not leaves)
    ] = False
    arm: Annotated[Name | None, Field(exclude_if=lambda arm: arm is None)] = None

    @property
    def two_valued(self) -> bool:
        """Return whether it is declared as 0 or 1, and so may vary by half of its range."""
        return self.codes is not None or ((self.lower, self.upper) == (0, 1) and not self.of)

    @property
    def is_change(self) -> bool:
        """Return whether it is a difference: coefficients of several columns add up to 0."""
        return len(self.of) > 1 and abs(math.fsum(part.times for part in self.of)) < LEAST_TIMES

    @property
    def reads(self) -> dict[str, YesOrNo | None]:
        """The columns that it is read from, with their codes."""
        return {part.name: part.codes for part in self.of} or {self.name: self.codes}

    @property
    def counts_events(self) -> bool:
        """Return whether its mean is a share of units, so that risk and odds ratios have a meaning."""
        return self.two_valued and (self.lower, self.upper) == (0, 1)


class Subgroups(Frozen):
    """The column whose levels are the subgroups: declared levels, or two codes."""

    name: Name
    column: Covariate

    @model_validator(mode="after")
    def _has_levels(self) -> Self:
        if isinstance(self.column, NumericCovariate) and self.column.codes is None:
            raise ValueError("subgroups are levels of a column that the contract declares with levels or codes")
        if len(self.labels) > MOST_GROUPS:
            raise ValueError(f"{len(self.labels)} subgroups are more than {MOST_GROUPS}; name fewer levels")
        if len(set(self.labels)) < len(self.labels) or ALL_UNITS in self.labels:
            raise ValueError(f"no two levels may read the same, and none '{ALL_UNITS}', which stands for all of them")
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        """The subgroups in order: declared levels, and missing values where these are allowed."""
        column = self.column
        levels = column.slots if isinstance(column, CategoricalCovariate) else (column.codes or ZERO_ONE).pair
        return (*map(str, levels), *([MISSING] if self.column.nulls is Missing.indicator else []))


class Arms(Frozen):
    """Several declared treatments, each compared with the reference."""

    levels: Levels
    names: LevelNames = None
    reference: Code

    @model_validator(mode="after")
    def _known(self) -> Self:
        distinct_levels(self.levels)
        distinct_names(self.names, self.levels)
        if self.reference not in self.levels or type(self.reference) is not type(self.levels[0]):
            raise RuleBroken("'reference' is none of the treatment's levels", "reference")
        if len(self.levels) > MOST_ARMS:
            raise ValueError(f"{len(self.levels)} arms are more than {MOST_ARMS}")
        if len({str(level) for level in self.levels}) < len(self.levels):
            raise ValueError("no two arms may read the same")
        return self

    @property
    def of_names(self) -> dict[str, str | int]:
        """The level of each name."""
        return codes_of(self.names, self.levels)

    @property
    def ordered(self) -> tuple[str | int, ...]:
        """The reference, then the others as declared."""
        return (self.reference, *(level for level in self.levels if level != self.reference))


class RowContrast(Frozen):
    """A contrast of rows of the table: a sum with coefficients, or a ratio of two of them.

    A row is named by outcome, subgroup and arm, as ``weeks | afam``; the subgroup may be left out for all units, and
    the arm where there are two. ``top`` and ``bottom`` may name an earlier contrast. ``by_size``: a weighted mean of
    outcomes of cohorts, with weights that are coefficients times the released numbers of treated.
    """

    name: Name
    by_size: Annotated[bool, Field(exclude_if=lambda by_size: not by_size)] = False
    of: Annotated[dict[Name, Finite] | None, Field(min_length=1, max_length=100)] = None
    top: Name | None = None
    bottom: Name | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        ratio = self.top is not None
        if ratio is (self.bottom is None) or ratio is (self.of is not None):
            raise ValueError("a contrast has 'of', rows with coefficients, or 'top' and 'bottom' of a ratio")
        if any(times == 0 or abs(times) > MOST_TIMES for times in (self.of or {}).values()):
            raise ValueError(f"a coefficient is 0, or beyond {MOST_TIMES:g}; leave its row out, or use a smaller one")
        if self.by_size and not all(times > 0 for times in (self.of or {"": 0.0}).values()):
            raise ValueError("'by_size' makes a mean of 'of' with coefficients above 0")
        return self


class FailedGate(StrEnum):
    """The consequence of a failed gate for the answers that it guards."""

    withhold = "withhold"
    mark = "mark"


class Gates(Frozen):
    """The conditions for an answer to stand, declared before a row is read.

    ``balance``: no covariate's arms may differ by more standard deviations than this once weighted. ``overlap``: the
    weights must leave at least this share of each arm's units effective. ``placebo``: no outcome of that role may show
    an effect of more standard deviations within arms. A gate fails only when a released value is significantly beyond
    its bound.
    """

    balance: Annotated[Finite, Field(gt=0, le=10)] | None = None
    overlap: Annotated[Finite, Field(gt=0, lt=1)] | None = None
    placebo: Annotated[Annotated[Finite, Field(gt=0, le=10)] | None, Field(exclude_if=lambda bound: bound is None)] = (
        None
    )
    failed: FailedGate = FailedGate.withhold

    @model_validator(mode="after")
    def _bound(self) -> Self:
        if self.balance is None and self.overlap is None and self.placebo is None:
            raise ValueError("gates need a bound: {balance: 0.1}, {overlap: 0.2} or {placebo: 0.1}, or several")
        return self


class Expected(Frozen):
    """Facts of the units that a plan expects; they change no release.

    Options of `plan` of the same name take precedence. ``risk`` and ``lost`` are for times to an event: the shares of
    all units that have an event, and that are lost, before the horizon. ``init`` writes facts of public and synthetic
    rows.
    """

    treated: Annotated[Finite, Field(ge=0.001, le=0.999)] | None = None
    deviation: Annotated[Finite, Field(ge=0)] | None = None
    mean: Finite | None = None
    explained: Annotated[Finite, Field(ge=0, le=0.99)] | None = None
    correlation: Annotated[Finite, Field(ge=0, le=0.95)] | None = None
    spread: Annotated[Finite, Field(ge=0.001, le=1)] | None = None
    distance: Annotated[Finite, Field(ge=0, le=5)] | None = None
    icc: Annotated[Finite, Field(ge=0, le=1)] | None = None
    risk: Annotated[Finite, Field(gt=0, lt=1)] = 0.5
    lost: Annotated[Finite, Field(ge=0, lt=1)] = 0.3


# Keys of ``Expected`` for times to an event, and for numbers.
EXPECTED_OF_TIMES, EXPECTED_OF_NUMBERS = ("risk", "lost"), ("deviation", "mean")
