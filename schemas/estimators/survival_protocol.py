"""Many questions of times to an event.

Subgroups, horizons, causes and arms, all read off one release of cells.

A person is in one cell, so that none of them costs budget (``docs/proofs/survival.md``, section 10). With covariates
the cells make an outcome of each question, and these are adjusted together (section 12).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import count, pairwise
from typing import Annotated, Self

from pydantic import Field, model_validator

from causalveil.schemas.columns import Column, Holds, Nulls
from causalveil.schemas.documents import RuleBroken
from causalveil.schemas.estimators.regression import RegressionEstimator, RegressionStudy, of_stated_form
from causalveil.schemas.estimators.survival import (
    MOST_INTERVALS,
    MOST_WITHOUT_DELTA,
    Beyond,
    Censoring,
    Curves,
    ExpectedTimes,
    Measure,
    SurvivalEstimator,
    TimeToEvent,
)
from causalveil.schemas.privacy import Frozen, Level
from causalveil.schemas.protocols.study import MOST_OUTCOMES, OutcomeRole, ProtocolOutcome, TableStudy
from causalveil.schemas.study import (
    ZERO_ONE,
    Covariate,
    Estimand,
    Missing,
    MissingTreatment,
    Name,
    covariate_role,
)
from causalveil.schemas.terms import MOST_TERM_COLUMNS, DeclaredTerm, refuse_terms
from causalveil.schemas.where import refuse_roles

# Intervals that hold together come from draws of as many normal numbers as there are questions.
MOST_QUESTIONS = 500
# People's groups are numbers of 8 bits, of which the last is of those who are not eligible.
MOST_STRATA = 255
# What the questions of a mean begin with, which names each answer.
MEAN_TIME = "mean time without event"


class TimesOutcome(TimeToEvent):
    """A time to an event with its role."""

    role: OutcomeRole = OutcomeRole.secondary


def label_of(measure: Measure, outcome: TimeToEvent) -> str:
    """Return a measure of an outcome in a few words."""
    unit = "" if outcome.unit_of_measure is None else f" {outcome.unit_of_measure}"
    until = f"until {outcome.horizon:g}{unit}"
    return f"{MEAN_TIME} {until}" if measure is Measure.rmst else f"risk of {outcome.labels[0]} {until}"


@dataclass(frozen=True)
class TimesQuestion:
    """One measure of one outcome: what a row of answers is about, in every subgroup and arm.

    Attributes:
        measure: which.
        outcome: of which outcome; of a restricted mean, which ends at any event, the first with its horizon.
        role: its role.
    """

    measure: Measure
    outcome: TimesOutcome
    role: OutcomeRole

    @property
    def label(self) -> str:
        """The question in a few words, which names each answer."""
        return label_of(self.measure, self.outcome)

    @property
    def span(self) -> float:
        """The end of the measure's range, from 0."""
        return self.outcome.horizon if self.measure is Measure.rmst else 1.0


class SurvivalStudy(TableStudy):
    """Many effects on times to an event, of the arms as they are.

    With ``covariates`` they are adjusted for them. ``expect`` is for `plan` and changes nothing else.
    """

    estimator: SurvivalEstimator
    outcomes: Annotated[tuple[TimesOutcome, ...], Field(min_length=1, max_length=MOST_OUTCOMES)]
    measure: Annotated[tuple[Measure, ...], Field(min_length=1, max_length=2)] = (Measure.risk, Measure.rmst)
    intervals: Annotated[int, Field(ge=1, le=MOST_INTERVALS)] | None = None
    covariates: dict[Name, Covariate] = Field(default_factory=dict)
    terms: Annotated[tuple[DeclaredTerm, ...], Field(max_length=MOST_TERM_COLUMNS)] = ()
    missing: Missing = Missing.refuse
    censoring: Censoring = Censoring()
    expect: ExpectedTimes = ExpectedTimes()

    @model_validator(mode="after")
    def _of_one_pair_of_columns(self) -> Self:
        first = self.outcomes[0]
        pairs = {(one.time, one.event) for one in self.outcomes}
        if len(pairs) > 1:
            raise ValueError(
                f"outcomes name {len(pairs)} pairs of columns; all outcomes of a study by 'survival' have one "
                f"'time' and one 'event', as '{first.time}' and '{first.event}': ask about others by themselves"
            )
        asked = [(one.horizon, frozenset(one.of)) for one in self.outcomes]
        if len(set(asked)) < len(asked):
            raise ValueError("two outcomes ask for the same events until the same horizon; write each once")
        horizons = self.horizons
        for one, other in pairwise(horizons):
            if other - one < first.step:
                raise ValueError(
                    f"horizons {one:g} and {other:g} lie closer than one step of the times, which is {first.step:g}; "
                    "ask for one of them"
                )
        if not any(one.role is OutcomeRole.primary for one in self.outcomes):
            raise ValueError("one outcome at least needs 'role: primary'")
        if len(set(self.measure)) < len(self.measure):
            raise RuleBroken("'measure' names one twice; write it once", "measure")
        return self

    @model_validator(mode="after")
    def _one_role_each(self) -> Self:
        self.refuse_two_roles()
        first = self.outcomes[0]
        roles = {self.data.unit: "the unit", self.treatment: "the treatment", self.data.blocks: "the block key"}
        refuse_roles(self.where, roles | {first.time: "the time", first.event: "the event"})
        return self

    @model_validator(mode="after")
    def _provable(self) -> Self:
        if self.privacy.level is not Level.sample:
            raise ValueError("estimator 'survival' protects whole rows: declare level 'sample'")
        if self.estimand is not Estimand.ATE and not self.covariates:
            raise ValueError("without covariates 'survival' compares the arms as they are: use estimand 'ATE'")
        many = len(self.questions) * len(self.answered_groups) * (len(self.arm_names) - 1)
        if many > MOST_QUESTIONS:
            raise ValueError(
                f"outcomes, measures, subgroups and arms make {many:,} questions; at most {MOST_QUESTIONS} are "
                "answered together: ask for fewer levels, outcomes or measures"
            )
        if self.intervals is not None and self.horizons[-1] / self.intervals < self.outcomes[0].step:
            step = self.outcomes[0].step
            raise ValueError(
                f"'intervals' is {self.intervals}, which makes each shorter than one step of the times ({step:g}); at "
                f"most {int(self.horizons[-1] / step)} fit into the horizon"
            )
        if self.intervals is not None and self.privacy.delta == 0 and self.intervals > MOST_WITHOUT_DELTA:
            raise RuleBroken(
                f"'intervals' is {self.intervals}, more than the {MOST_WITHOUT_DELTA} that are served without a delta, "
                "where each adds noise of its own; declare 'privacy.delta', as 1.0e-6, or fewer intervals",
                "intervals",
            )
        return self

    @model_validator(mode="after")
    def _adjustable(self) -> Self:
        """Refuse what the joint releases of an adjustment do not answer."""
        censoring = self.censoring
        censoring.refuse_unused(self.covariates)
        refuse_terms(self.terms, self.covariates)
        if censoring.beyond is Beyond.restrict and self.subgroups is not None:
            raise RuleBroken(
                "'censoring.beyond: restrict' with 'subgroups' would end each at a time of its own; remove it and add "
                "an outcome with an earlier horizon",
                "censoring.beyond",
            )
        if len(self.groups) * censoring.groups > MOST_STRATA:
            raise RuleBroken(
                f"'censoring.by' makes {len(self.groups) * censoring.groups} groups of an arm over all subgroups; at "
                f"most {MOST_STRATA} are served: name fewer columns, or fewer levels",
                "censoring.by",
            )
        if not self.covariates:
            return self
        if len(self.questions) > MOST_OUTCOMES:
            raise ValueError(
                f"outcomes and measures make {len(self.questions)} questions of each subgroup; at most {MOST_OUTCOMES} "
                "are adjusted together: ask for fewer outcomes or measures"
            )
        return self

    @property
    def outcome(self) -> TimesOutcome:
        """The outcome of the headline."""
        return self.questions[self.first].outcome

    @cached_property
    def bounded(self) -> RegressionStudy:
        """The study of bounded outcomes, one of each question, which the adjustment takes."""
        taken, first = set(self.columns), self.outcomes[0]
        names = (name for place in count(1) if (name := f"{first.time} {place}") not in taken)
        outcomes = [
            ProtocolOutcome(name=name, lower=0.0, upper=question.span, role=question.role)
            for question, name in zip(self.questions, names, strict=False)
        ]
        own = self.estimator
        estimator = of_stated_form(
            RegressionEstimator(name="regression", trial=own.trial, confounding_prior=own.confounding_prior), self.terms
        )
        shared = ("name", "data", "privacy", "execution", "treatment", "treatment_codes", "arms", "subgroups", "where")
        also = ("missing_treatment", "estimand", "confidence", "covariates", "terms", "missing")
        return RegressionStudy(
            kind="effect",
            estimator=estimator,
            outcomes=tuple(outcomes),
            **{key: getattr(self, key) for key in (*shared, *also)},
        )

    @property
    def horizons(self) -> tuple[float, ...]:
        """Every horizon, the earliest first."""
        return tuple(sorted({one.horizon for one in self.outcomes}))

    @property
    def kinds(self) -> tuple[tuple[str, ...], ...]:
        """Events in groups that no outcome divides.

        Each outcome's events are some of these groups.

        Those that no outcome counts are the last group, if there are any.
        """
        first = self.outcomes[0]
        found: dict[tuple[bool, ...], list[str]] = {}
        for name in dict.fromkeys((*(name for one in self.outcomes for name in one.of), *first.codes)):
            if name != first.censoring:
                found.setdefault(tuple(name in one.of for one in self.outcomes), []).append(name)
        return tuple(tuple(found[key]) for key in sorted(found, reverse=True))

    @property
    def labels(self) -> tuple[str, ...]:
        """Name of each group of events."""
        return tuple(" or ".join(kind) for kind in self.kinds)

    @cached_property
    def questions(self) -> tuple[TimesQuestion, ...]:
        """The questions of every subgroup and arm.

        Outcomes of one horizon share its restricted mean.
        """
        found: dict[str, TimesQuestion] = {}
        for outcome in self.outcomes:
            for measure in self.measure:
                if measure is Measure.risk:
                    one = TimesQuestion(measure, outcome, outcome.role)
                else:
                    if outcome.role is OutcomeRole.negative_control:
                        continue
                    one = TimesQuestion(measure, outcome, self._role_at(outcome.horizon))
                found.setdefault(one.label, one)
        return tuple(found.values())

    @property
    def first(self) -> int:
        """The first primary question, whose answer stands in the headline."""
        return next(place for place, one in enumerate(self.questions) if one.role is OutcomeRole.primary)

    def _role_at(self, horizon: float) -> OutcomeRole:
        """Return the role of the mean time without any event until a horizon.

        It is that of the first outcomes that end there.
        """
        roles = {one.role for one in self.outcomes if one.horizon == horizon}
        return OutcomeRole.primary if OutcomeRole.primary in roles else OutcomeRole.secondary

    @property
    def roles(self) -> dict[str, Column]:
        """Unit, treatment, time and event; arms are levels, and so are subgroups."""
        first = self.outcomes[0]
        arm = Nulls.never if self.missing_treatment is MissingTreatment.refuse else Nulls.welcome
        time = Nulls.welcome if first.time_nulls is Missing.indicator else Nulls.undeclared
        treatment = (self.treatment_codes or ZERO_ONE).pair
        return {
            self.data.unit: Column(holds=Holds.unit),
            self.treatment: Column(holds=Holds.binary, codes=treatment, nulls=arm),
            first.time: Column(holds=Holds.time, nulls=time),
            first.event: first.column,
            **{name: covariate_role(column, self._nulls_of(column)) for name, column in self._beside.items()},
        } | self.shared_roles

    @property
    def _beside(self) -> dict[str, Covariate]:
        """Covariates, and columns on which censoring may depend."""
        return self.censoring.by | self.covariates

    def _nulls_of(self, column: Covariate) -> Nulls:
        """Return whether such a column may hold nulls."""
        return Nulls.welcome if Missing.indicator in (self.missing, column.nulls) else Nulls.undeclared

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that the study reads.

        They are unit, treatment, time, event, the subgroups' column, covariates, columns of censoring, and what
        eligibility alone reads.
        """
        first = self.outcomes[0]
        groups = () if self.subgroups is None else (self.subgroups.name,)
        named = (self.data.unit, self.treatment, first.time, first.event, *groups, *sorted(self._beside))
        return (*named, *sorted({one.column for one in self.where} - set(named)))

    @property
    def question(self) -> str:
        """The questions and groups, in words."""
        return f"{_listed(one.label for one in self.questions)}{self.compared}"


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    shown = found if len(found) <= 3 else [*found[:2], f"{len(found) - 2} more"]
    return " and ".join([*([", ".join(shown[:-1])] if len(shown) > 1 else []), shown[-1]])


class GroupCurves(Frozen):
    """The curves of an arm and of the reference in one group."""

    group: str
    arm: str
    reference: str
    curves: Curves
