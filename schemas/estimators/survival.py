"""Ask for times to an event: curves and effects, unadjusted or adjusted.

Time to event of two arms.
Survival curves, risks, restricted mean times (``docs/proofs/survival.md``).

Many questions of times to an event.
Subgroups, horizons, causes and arms, all read off one release of cells.

A person is in one cell, so that none of them costs budget (``docs/proofs/survival.md``, section 10). With covariates
the cells make an outcome of each question, and these are adjusted together (section 12).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from itertools import count, pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas.columns import (
    ZERO_ONE,
    CategoricalCovariate,
    Code,
    Column,
    Covariate,
    Finite,
    Holds,
    Missing,
    Name,
    Nulls,
    NumericCovariate,
    covariate_role,
    event_codes,
)
from causalveil.schemas.confounding import ConfoundingSettings
from causalveil.schemas.documents import RuleBroken
from causalveil.schemas.estimators.regression import RegressionEstimator, RegressionStudy, of_stated_form
from causalveil.schemas.privacy import Amount, Frozen, Level
from causalveil.schemas.questions import MOST_OUTCOMES, OutcomeRole, TableOutcome
from causalveil.schemas.study import Estimand, MissingTreatment
from causalveil.schemas.table import TableStudy
from causalveil.schemas.terms import MOST_TERM_COLUMNS, DeclaredTerm, refuse_terms
from causalveil.schemas.where import refuse_roles

# Most intervals of a grid: the proof's search goes so far (tests/unit/test_survival_pseudo.py).
MOST_INTERVALS = 100
# Adjusted effects are answered where so many are followed to the horizon: outcomes then range over ten at most.
FLOOR = 0.1
# Groups of an arm within which censoring may differ; each has a tenth of the people or more, if they are alike.
MOST_GROUPS = 12
# Without a delta each cell has noise of its own, and a curve adds up as many of them as there are intervals.
MOST_WITHOUT_DELTA = 12


class Measure(StrEnum):
    """The comparison between the arms: the risk or the restricted mean survival time.

    The risk is until the horizon.
    """

    risk = "risk"
    rmst = "rmst"


class TimeToEvent(Frozen):
    """The outcome in full: two columns, the events that count, and the horizon.

    Attributes:
        time, event: the two columns.
        of: the events that count, together; all others but censoring compete with them.
        unit_of_measure: of the times, as the contract names it.
        horizon: until when, in that unit.
        upper, origin, step: as the contract declares the times.
        codes: of every event and of censoring, by name; None: of all codes that the contract does not declare.
        censoring: its name.
        time_nulls, event_nulls: whether a column may hold nulls; who has one is censored in the first interval.
        entry: the column of when a person came under observation, on the scale of the times; None: all at the origin.
        entry_nulls: whether it may hold nulls; who has one is at risk at no time.
        landmark: curves and measures begin then, of those who are at risk then without an event.
    """

    time: Name
    event: Name
    unit_of_measure: str | None = None
    of: Annotated[tuple[Name, ...], Field(min_length=1)]
    horizon: Annotated[Finite, Field(gt=0)]
    upper: Annotated[Finite, Field(gt=0, le=1e9)]
    origin: str
    step: Annotated[Finite, Field(ge=1e-9)]
    codes: Annotated[dict[Name, Code | None], Field(min_length=2)]
    censoring: Name
    time_nulls: Missing = Missing.refuse
    event_nulls: Missing = Missing.refuse
    entry: Name | None = None
    entry_nulls: Missing = Missing.refuse
    landmark: Annotated[Finite, Field(ge=0)] = 0.0

    @model_validator(mode="after")
    def _begins_before_it_ends(self) -> Self:
        if self.landmark and self.entry is None:
            raise RuleBroken(
                "'landmark' is for people who enter later than at the origin: name the column of their 'entry', or "
                "remove it",
                "landmark",
            )
        if self.entry is not None and self.horizon - self.landmark < self.step:
            raise RuleBroken(
                f"'landmark' is {self.landmark:g}, and 'horizon' {self.horizon:g}; it must be one step of the times "
                f"({self.step:g}) before it at least",
                "landmark",
            )
        return self

    @model_validator(mode="after")
    def _within_the_contract(self) -> Self:
        event_codes(self.declared_codes)
        if self.codes.get(self.censoring) is None:
            raise RuleBroken(f"'censoring' is '{self.censoring}', which has no code", "censoring")
        if self.horizon > self.upper:
            raise RuleBroken(
                f"'horizon' is {self.horizon:g}, and the contract's times end at {self.upper:g}; ask for an "
                "earlier one",
                "horizon",
            )
        if self.horizon < self.step:
            raise RuleBroken(
                f"'horizon' is {self.horizon:g}, less than one step of the times, which is {self.step:g}", "horizon"
            )
        known = ", ".join(f"'{name}'" for name in self.codes if name != self.censoring)
        for name in self.of:
            if name == self.censoring:
                raise RuleBroken(f"'of' names '{name}', which is censoring and no event; events are {known}", "of")
            if name not in self.codes:
                raise RuleBroken(f"'of' names '{name}', which is no event of '{self.event}'; events are {known}", "of")
        if len(set(self.of)) < len(self.of):
            raise RuleBroken("'of' names an event twice; write it once", "of")
        return self

    @property
    def declared_codes(self) -> tuple[str | int, ...]:
        """The codes that the contract declares; booleans as 0 and 1."""
        return tuple(one if isinstance(one, str) else int(one) for one in self.codes.values() if one is not None)

    @property
    def column(self) -> Column:
        """Return the rule of the column of events."""
        return Column(
            holds=Holds.level,
            levels=self.declared_codes,
            nulls=Nulls.welcome if self.event_nulls is Missing.indicator else Nulls.undeclared,
            admitted=None if None in self.codes.values() else self.declared_codes,
        )

    @property
    def competing(self) -> tuple[str, ...]:
        """The events that do not count, after which none of those that count is looked for."""
        return tuple(name for name in self.codes if name not in (*self.of, self.censoring))

    @property
    def kinds(self) -> tuple[tuple[str, ...], ...]:
        """Kinds of events that curves distinguish.

        They are those that count, and those that compete with them, if any.
        """
        return (self.of, self.competing) if self.competing else (self.of,)

    @property
    def labels(self) -> tuple[str, ...]:
        """Name of each kind of events."""
        return tuple(" or ".join(kind) for kind in self.kinds)


class SurvivalEstimator(ConfoundingSettings):
    """Curves of the arms as they are; with covariates also effects that are adjusted for them.

    ``trial``: treatment was randomised, so that nothing confounds. Otherwise an estimate without covariates says that
    it is unadjusted, and its interval allows for the confounding that ``confounding_prior`` declares. With covariates:
    ``share`` of the budget (of mu^2, without a delta of epsilon) goes to the curves, the rest to the adjustment, which
    expects confounding of that size.
    """

    name: Literal["survival"]
    share: Annotated[Amount, Field(ge=Decimal("0.05"), le=Decimal("0.9"))] = Decimal("0.25")

    @model_validator(mode="after")
    def _of_few_digits(self) -> Self:
        if self.share != round(self.share, 4):
            raise RuleBroken("'share' has more than four digits", "share")
        return self


def equal_classes(lower: float, upper: float, many: int) -> tuple[float, ...]:
    """Return where classes of equal length begin, but for the first."""
    return tuple(lower + (upper - lower) * place / many for place in range(1, many))


class Beyond(StrEnum):
    """The answer where too few are followed to the horizon.

    It is nothing, or that at the last time at which enough are.
    """

    refuse = "refuse"
    restrict = "restrict"


class Censoring(Frozen):
    """The groups within which censoring tells nothing, and the least share followed.

    Attributes:
        by: columns with declared levels, codes or classes: censoring may depend on them beside the arm.
        classes: where the classes of a number among them begin, but for the first; ascending, within its range.
        floor: adjusted effects are answered where in each arm the noisy curve of censoring is above this at the end.
        beyond: what is answered where it is not.
    """

    by: dict[Name, Covariate] = Field(default_factory=dict)
    classes: dict[Name, Annotated[tuple[Finite, ...], Field(min_length=1)]] = Field(default_factory=dict)
    floor: Annotated[Finite, Field(ge=0.02, le=0.9)] = FLOOR
    beyond: Beyond = Beyond.refuse

    @model_validator(mode="after")
    def _few_groups(self) -> Self:
        for name, column in self.by.items():
            number = isinstance(column, NumericCovariate) and column.codes is None
            if number and name not in self.classes:
                raise RuleBroken(
                    f"'censoring.by' names '{name}', a number; name columns with declared levels or codes, or its "
                    f"classes: '{name} in four', or {{{name}: [where classes begin, ..]}}",
                    "censoring.by",
                )
            if not number and name in self.classes:
                raise RuleBroken(
                    f"'censoring.by' divides '{name}', which is no number; name it by itself", "censoring.by"
                )
            if isinstance(column, NumericCovariate) and number:
                edges = (column.lower, *self.classes[name], column.upper)
                if any(a >= b for a, b in pairwise(edges)):
                    raise RuleBroken(
                        f"'censoring.by' divides '{name}' at {', '.join(f'{one:g}' for one in self.classes[name])}; "
                        f"these must ascend between {column.lower:g} and {column.upper:g}, the ends of its range",
                        "censoring.by",
                    )
        if self.groups > MOST_GROUPS:
            raise RuleBroken(
                f"'censoring.by' makes {self.groups} groups of an arm; at most {MOST_GROUPS} are served: name fewer "
                "columns, or fewer levels",
                "censoring.by",
            )
        return self

    def refuse_unused(self, covariates: Mapping[str, Covariate]) -> None:
        """Refuse settings that have no effect where nothing is adjusted for.

        Raises:
            ValueError: names the setting.
        """
        if self.by and not covariates:
            raise RuleBroken("'censoring.by' is for adjusted effects: name covariates, or remove it", "censoring.by")
        if self.floor != FLOOR and not covariates:
            raise RuleBroken(
                "'censoring.floor' is for adjusted effects: name covariates, or remove it", "censoring.floor"
            )

    def names(self, name: str) -> tuple[str, ...]:
        """Return the groups into which a column divides, as people read them.

        These are its levels, codes or classes, and one of nulls where it may hold any.
        """
        column = self.by[name]
        if isinstance(column, CategoricalCovariate):
            own = [column.labels[str(level)] for level in column.slots]
        elif column.codes is not None or name not in self.classes:
            own = [str(code) for code in (column.codes or ZERO_ONE).pair]
        else:
            ends = [f"{one:g}" for one in self.classes[name]]
            own = [f"below {ends[0]}", *(f"{a} to {b}" for a, b in pairwise(ends)), f"from {ends[-1]}"]
        return (*own, "missing") if column.nulls is Missing.indicator else tuple(own)

    def levels(self, name: str) -> int:
        """Return into how many groups a column divides."""
        return len(self.names(name))

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of groups into which the columns divide."""
        return tuple(map(self.levels, self.by))

    @property
    def groups(self) -> int:
        """Number of groups of each arm that may have a censoring curve of their own."""
        return math.prod(self.shape)


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
    since = f"from {outcome.landmark:g} " if outcome.landmark else ""
    until = f"{since}until {outcome.horizon:g}{unit}"
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
        return self.outcome.horizon - self.outcome.landmark if self.measure is Measure.rmst else 1.0


class SurvivalStudy(TableStudy):
    """Many effects on times to an event, of the arms as they are.

    With ``covariates`` they are adjusted for them. ``expect`` is for `plan` and changes nothing else.
    """

    TAKES_CLUSTERS: ClassVar[bool] = True

    estimator: SurvivalEstimator
    outcomes: Annotated[tuple[TimesOutcome, ...], Field(min_length=1, max_length=MOST_OUTCOMES)]
    measure: Annotated[tuple[Measure, ...], Field(min_length=1, max_length=2)] = (Measure.risk, Measure.rmst)
    intervals: Annotated[int, Field(ge=1, le=MOST_INTERVALS)] | None = None
    covariates: dict[Name, Covariate] = Field(default_factory=dict)
    terms: Annotated[tuple[DeclaredTerm, ...], Field(max_length=MOST_TERM_COLUMNS)] = ()
    missing: Missing = Missing.refuse
    censoring: Censoring = Censoring()

    @model_validator(mode="after")
    def _of_one_pair_of_columns(self) -> Self:
        first = self.outcomes[0]
        if len({(one.entry, one.landmark) for one in self.outcomes}) > 1:
            raise ValueError(
                "all outcomes of a study by 'survival' have one 'entry' and one 'landmark': write them alike"
            )
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
        if len(set(self.measure)) < len(self.measure):
            raise RuleBroken("'measure' names one twice; write it once", "measure")
        return self

    @model_validator(mode="after")
    def _clusters_of_adjusted_times(self) -> Self:
        if self.clusters is not None and not self.covariates:
            raise RuleBroken(
                "'clusters' of times need covariates: unadjusted curves come from counts of cells, which have no score "
                "of each person; name 'covariates', or leave 'clusters' out",
                "clusters",
            )
        return self

    @model_validator(mode="after")
    def _one_role_each(self) -> Self:
        self.refuse_two_roles()
        first = self.outcomes[0]
        roles = {self.data.unit: "the unit", self.treatment: "the treatment", self.data.blocks: "the block key"}
        roles |= {first.time: "the time", first.event: "the event"}
        refuse_roles(self.where, roles if first.entry is None else roles | {first.entry: "the time of entry"})
        return self

    @model_validator(mode="after")
    def _entries_are_not_adjusted(self) -> Self:
        if self.outcomes[0].entry is not None and self.covariates:
            raise RuleBroken(
                "'entry' beside covariates: late entrants are survivors, whose covariate means are not those of all "
                "who might have entered, so adjusted effects would be wrong; remove 'covariates' (for an unadjusted "
                "comparison), or 'entry' where all are followed from the origin",
                "entry",
            )
        return self

    @model_validator(mode="after")
    def _provable(self) -> Self:
        if self.privacy.level is not Level.sample:
            raise ValueError("estimator 'survival' protects whole rows: declare level 'sample'")
        if self.estimand is not Estimand.ATE and not self.covariates:
            raise ValueError("without covariates 'survival' compares the arms unadjusted: use estimand 'ATE'")
        many = len(self.questions) * len(self.answered_groups) * (len(self.arm_names) - 1)
        if many > MOST_QUESTIONS:
            raise ValueError(
                f"outcomes, measures, subgroups and arms make {many:,} questions; at most {MOST_QUESTIONS} are "
                "answered together: ask for fewer levels, outcomes or measures"
            )
        length, step = self.horizons[-1] - self.outcomes[0].landmark, self.outcomes[0].step
        if self.intervals is not None and length / self.intervals < step:
            raise ValueError(
                f"'intervals' is {self.intervals}, which makes each shorter than one step of the times ({step:g}); at "
                f"most {int(length / step)} fit into the horizon"
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
            TableOutcome(name=name, lower=0.0, upper=question.span, role=question.role)
            for question, name in zip(self.questions, names, strict=False)
        ]
        own = self.estimator
        estimator = of_stated_form(
            RegressionEstimator(name="regression", trial=own.trial, confounding_prior=own.confounding_prior), self.terms
        )
        shared = ("name", "data", "privacy", "execution", "treatment", "treatment_codes", "arms", "subgroups", "where")
        also = ("missing_treatment", "estimand", "confidence", "covariates", "terms", "missing", "clusters")
        return RegressionStudy(
            kind="effect",
            estimator=estimator,
            outcomes=tuple(outcomes),
            **{key: getattr(self, key) for key in (*shared, *also)},
        )

    @property
    def counted_by_noise(self) -> bool:
        """Return whether noise alone tells how many units have a cell.

        These are eligible units that are at risk at some time.
        """
        return bool(self.where) or self.outcomes[0].entry is not None

    @property
    def beyond_groups(self) -> int:
        """The group of units that have no cell."""
        return len(self.groups) * self.censoring.groups

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
        time, entry = (
            Nulls.welcome if nulls is Missing.indicator else Nulls.undeclared
            for nulls in (first.time_nulls, first.entry_nulls)
        )
        entries = {} if first.entry is None else {first.entry: Column(holds=Holds.time, nulls=entry)}
        treatment = (self.treatment_codes or ZERO_ONE).pair
        return {
            self.data.unit: Column(holds=Holds.unit),
            self.treatment: Column(holds=Holds.binary, codes=treatment, nulls=arm),
            first.time: Column(holds=Holds.time, nulls=time),
            first.event: first.column,
            **entries,
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

        They are unit, treatment, time, event, that of entry, the subgroups' column, covariates, columns of censoring,
        that of clusters, and what eligibility alone reads.
        """
        first = self.outcomes[0]
        groups = () if self.subgroups is None else (self.subgroups.name,)
        named = (self.data.unit, self.treatment, first.time, first.event, *groups, *sorted(self._beside))
        named += () if self.clusters is None else (self.clusters.column,)
        named += () if first.entry is None else (first.entry,)
        return (*named, *sorted({one.column for one in self.where} - set(named)))

    def specification(self) -> dict[str, Any]:
        """Return the study as plain JSON values, the same at every site.

        Where all enter at the origin it means what it meant before others could.
        """
        document = super().specification()
        for one in document["outcomes"]:
            if one["entry"] is None:
                del one["entry"], one["entry_nulls"], one["landmark"]
        return document

    @property
    def question(self) -> str:
        """The questions and groups, in words."""
        return f"{_listed(one.label for one in self.questions)}{self.compared}"


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    shown = found if len(found) <= 3 else [*found[:2], f"{len(found) - 2} more"]
    return " and ".join([*([", ".join(shown[:-1])] if len(shown) > 1 else []), shown[-1]])
