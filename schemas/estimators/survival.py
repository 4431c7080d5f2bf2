"""Ask for times to an event: curves, risks and restricted means, unadjusted or adjusted.

Questions of subgroups, horizons, causes and arms are all answered from one release of cells. A person is in one cell,
so that further questions cost no budget (``docs/proofs/survival.md``, section 10). With covariates the cells make an
outcome of each question, and these are adjusted together (section 12).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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

# Most intervals of a grid: the largest that the proof's search covers (tests/unit/test_survival_pseudo.py).
MOST_INTERVALS = 100
# The least share followed to the horizon: outcomes of adjusted effects then have ranges of at most 1/.1 = 10.
FLOOR = 0.1
# Groups of an arm with censoring curves of their own: of equal sizes each has a twelfth of the people.
MOST_GROUPS = 12
# Without a delta each cell has independent noise, and a curve sums over the cells of its intervals.
MOST_WITHOUT_DELTA = 12


class Measure(StrEnum):
    """The comparison of arms: by risk or restricted mean survival time, until the horizon."""

    risk = "risk"
    rmst = "rmst"


class TimeToEvent(Frozen):
    """The outcome in full: two columns, the events that count, and the horizon.

    Attributes:
        time, event: the two columns.
        of: the events that count, together; all others but censoring compete with them.
        unit_of_measure: the unit of the times, as the contract names it.
        horizon: the end of the curves, in that unit.
        upper, origin, step: the contract's declaration of the times.
        codes: the code of every event and of censoring, by name; None: all codes that the contract does not declare.
        censoring: the name of censoring.
        time_nulls, event_nulls: whether a column may hold nulls; units with a null are censored in the first interval.
        entry: the column of the time of entry, on the scale of the times; None: all enter at the origin.
        entry_nulls: whether it may hold nulls; units with a null are at risk at no time.
        landmark: the start of curves and measures, for units at risk then without an event.
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
        return tuple(code if isinstance(code, str) else int(code) for code in self.codes.values() if code is not None)

    @property
    def column(self) -> Column:
        """The requirements on the column of events."""
        return Column(
            holds=Holds.level,
            levels=self.declared_codes,
            nulls=Nulls.welcome if self.event_nulls is Missing.indicator else Nulls.undeclared,
            admitted=None if None in self.codes.values() else self.declared_codes,
        )

    @property
    def competing(self) -> tuple[str, ...]:
        """The events that do not count and end follow-up."""
        return tuple(name for name in self.codes if name not in (*self.of, self.censoring))

    @property
    def kinds(self) -> tuple[tuple[str, ...], ...]:
        """The events that count, and those that compete with them, if any."""
        return (self.of, self.competing) if self.competing else (self.of,)

    @property
    def labels(self) -> tuple[str, ...]:
        """Name of each kind of events."""
        return tuple(" or ".join(kind) for kind in self.kinds)


class SurvivalEstimator(ConfoundingSettings):
    """Unadjusted curves of the arms; with covariates also adjusted effects.

    ``trial``: treatment was randomised, so that nothing confounds. Otherwise an estimate without covariates is marked
    as unadjusted, and its interval allows for the confounding that ``confounding_prior`` declares. With covariates a
    part ``share`` of the budget (of mu^2; without a delta of epsilon) is for the curves, the rest for the adjustment,
    which expects confounding of the declared size.
    """

    name: Literal["survival"]
    share: Annotated[Amount, Field(ge=Decimal("0.05"), le=Decimal("0.9"))] = Decimal("0.25")

    @model_validator(mode="after")
    def _of_few_digits(self) -> Self:
        if self.share != round(self.share, 4):
            raise RuleBroken("'share' has more than four digits", "share")
        return self


def equal_classes(lower: float, upper: float, number: int) -> tuple[float, ...]:
    """Return the inner edges of classes of equal length."""
    return tuple(lower + (upper - lower) * edge / number for edge in range(1, number))


class Beyond(StrEnum):
    """The answer where too few are followed to the horizon: none, or that of an earlier horizon."""

    refuse = "refuse"
    restrict = "restrict"


class Censoring(Frozen):
    """The groups within which censoring is independent of events, and the least share followed.

    Attributes:
        by: columns with declared levels, codes or classes, on which censoring may depend beside the arm.
        classes: the inner edges of classes of a number in ``by``, ascending, within its range.
        floor: adjusted effects need a noisy censoring curve above this at the horizon, in each arm.
        beyond: the answer where the curve is lower.
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
                        f"'censoring.by' divides '{name}' at {', '.join(f'{edge:g}' for edge in self.classes[name])}; "
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
        """Return the labels of a column's groups: levels, codes or classes; nulls are "missing"."""
        column = self.by[name]
        if isinstance(column, CategoricalCovariate):
            labels = [column.labels[str(level)] for level in column.slots]
        elif column.codes is not None or name not in self.classes:
            labels = [str(code) for code in (column.codes or ZERO_ONE).pair]
        else:
            edges = [f"{edge:g}" for edge in self.classes[name]]
            labels = [f"below {edges[0]}", *(f"{a} to {b}" for a, b in pairwise(edges)), f"from {edges[-1]}"]
        return (*labels, "missing") if column.nulls is Missing.indicator else tuple(labels)

    def levels(self, name: str) -> int:
        """Return the number of groups of a column."""
        return len(self.names(name))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of groups of each column."""
        return tuple(map(self.levels, self.by))

    @property
    def groups(self) -> int:
        """Number of groups of each arm that may have a censoring curve of their own."""
        return math.prod(self.shape)


# Simultaneous intervals come from draws of as many normal numbers as there are questions.
MOST_QUESTIONS = 500
# Groups are numbers of 8 bits, the last of which stands for units that are not eligible.
MOST_STRATA = 255
# The start of labels of restricted means.
MEAN_TIME = "mean time without event"


class TimesOutcome(TimeToEvent):
    """A time to an event with its role."""

    role: OutcomeRole = OutcomeRole.secondary


def label_of(measure: Measure, outcome: TimeToEvent) -> str:
    """Return the label of a measure of an outcome."""
    unit = "" if outcome.unit_of_measure is None else f" {outcome.unit_of_measure}"
    since = f"from {outcome.landmark:g} " if outcome.landmark else ""
    until = f"{since}until {outcome.horizon:g}{unit}"
    return f"{MEAN_TIME} {until}" if measure is Measure.rmst else f"risk of {outcome.labels[0]} {until}"


@dataclass(frozen=True)
class TimesQuestion:
    """One measure of one outcome, answered in every subgroup and arm.

    Attributes:
        measure: the measure.
        outcome: the outcome; for a restricted mean, which ends at any event, the first with its horizon.
        role: the role of its answers.
    """

    measure: Measure
    outcome: TimesOutcome
    role: OutcomeRole

    @property
    def label(self) -> str:
        """The question in a few words, as the name of its answers."""
        return label_of(self.measure, self.outcome)

    @property
    def span(self) -> float:
        """The end of the measure's range, from 0."""
        return self.outcome.horizon - self.outcome.landmark if self.measure is Measure.rmst else 1.0


class SurvivalStudy(TableStudy):
    """Effects on times to an event, unadjusted, or adjusted for ``covariates``."""

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
        if len({(outcome.entry, outcome.landmark) for outcome in self.outcomes}) > 1:
            raise ValueError(
                "all outcomes of a study by 'survival' have one 'entry' and one 'landmark': write them alike"
            )
        pairs = {(outcome.time, outcome.event) for outcome in self.outcomes}
        if len(pairs) > 1:
            raise ValueError(
                f"outcomes name {len(pairs)} pairs of columns; all outcomes of a study by 'survival' have one "
                f"'time' and one 'event', as '{first.time}' and '{first.event}': ask about others by themselves"
            )
        if len({(outcome.horizon, frozenset(outcome.of)) for outcome in self.outcomes}) < len(self.outcomes):
            raise ValueError("two outcomes ask for the same events until the same horizon; write each once")
        for earlier, later in pairwise(self.horizons):
            if later - earlier < first.step:
                raise ValueError(
                    f"horizons {earlier:g} and {later:g} lie closer than one step of the times, which is "
                    f"{first.step:g}; ask for one of them"
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
        number = len(self.questions) * len(self.answered_groups) * (len(self.arm_names) - 1)
        if number > MOST_QUESTIONS:
            raise ValueError(
                f"outcomes, measures, subgroups and arms make {number:,} questions; at most {MOST_QUESTIONS} are "
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
        """Refuse questions that the joint releases of an adjustment do not answer."""
        censoring = self.censoring
        censoring.refuse_unused(self.covariates)
        refuse_terms(self.terms, self.covariates)
        if censoring.beyond is Beyond.restrict and self.subgroups is not None:
            raise RuleBroken(
                "'censoring.beyond: restrict' with 'subgroups' would end each at a time of its own; remove it and add "
                "an outcome with an earlier horizon",
                "censoring.beyond",
            )
        if self.beyond_groups > MOST_STRATA:
            raise RuleBroken(
                f"'censoring.by' makes {self.beyond_groups} groups of an arm over all subgroups; at "
                f"most {MOST_STRATA} are served: name fewer columns, or fewer levels",
                "censoring.by",
            )
        if self.covariates and len(self.questions) > MOST_OUTCOMES:
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
        """The study of one bounded outcome for each question, which the adjustment takes."""
        columns, first = set(self.columns), self.outcomes[0]
        names = (name for number in count(1) if (name := f"{first.time} {number}") not in columns)
        outcomes = [
            TableOutcome(name=name, lower=0.0, upper=question.span, role=question.role)
            for question, name in zip(self.questions, names, strict=False)
        ]
        trial, prior = self.estimator.trial, self.estimator.confounding_prior
        regression = RegressionEstimator(name="regression", trial=trial, confounding_prior=prior)
        shared = ("name", "data", "privacy", "execution", "treatment", "treatment_codes", "arms", "subgroups", "where")
        keys = (*shared, "missing_treatment", "estimand", "confidence", "covariates", "terms", "missing", "clusters")
        return RegressionStudy(
            kind="effect",
            estimator=of_stated_form(regression, self.terms),
            outcomes=tuple(outcomes),
            **{key: getattr(self, key) for key in keys},
        )

    @property
    def counted_by_noise(self) -> bool:
        """True if the number of units with a cell (eligible, and at risk at some time) is private."""
        return bool(self.where) or self.outcomes[0].entry is not None

    @property
    def beyond_groups(self) -> int:
        """The index of the group of units without a cell: the number of all other groups."""
        return len(self.groups) * self.censoring.groups

    @property
    def horizons(self) -> tuple[float, ...]:
        """The horizons, the earliest first."""
        return tuple(sorted({outcome.horizon for outcome in self.outcomes}))

    @property
    def kinds(self) -> tuple[tuple[str, ...], ...]:
        """The coarsest partition of events such that each outcome counts a union of its groups.

        Events that no outcome counts are the last group, if there are any.
        """
        first = self.outcomes[0]
        groups: dict[tuple[bool, ...], list[str]] = {}
        for name in dict.fromkeys((*(name for outcome in self.outcomes for name in outcome.of), *first.codes)):
            if name != first.censoring:
                groups.setdefault(tuple(name in outcome.of for outcome in self.outcomes), []).append(name)
        return tuple(tuple(groups[key]) for key in sorted(groups, reverse=True))

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each group of events."""
        return tuple(" or ".join(kind) for kind in self.kinds)

    @cached_property
    def questions(self) -> tuple[TimesQuestion, ...]:
        """The questions of every subgroup and arm; each horizon has one restricted mean."""
        questions: dict[str, TimesQuestion] = {}
        for outcome in self.outcomes:
            for measure in self.measure:
                role = outcome.role if measure is Measure.risk else self._role_at(outcome.horizon)
                if measure is Measure.risk or outcome.role is not OutcomeRole.negative_control:
                    question = TimesQuestion(measure, outcome, role)
                    questions.setdefault(question.label, question)
        return tuple(questions.values())

    @property
    def first(self) -> int:
        """The index of the first primary question, whose answer is the headline."""
        return next(index for index, question in enumerate(self.questions) if question.role is OutcomeRole.primary)

    def _role_at(self, horizon: float) -> OutcomeRole:
        """Return the role of the mean time until a horizon: primary if an outcome there is."""
        roles = {outcome.role for outcome in self.outcomes if outcome.horizon == horizon}
        return OutcomeRole.primary if OutcomeRole.primary in roles else OutcomeRole.secondary

    @property
    def roles(self) -> dict[str, Column]:
        """Roles of the columns; arms and subgroups are levels."""

        def allowed(*choices: Missing) -> Nulls:
            return Nulls.welcome if Missing.indicator in choices else Nulls.undeclared

        first = self.outcomes[0]
        nulls = Nulls.never if self.missing_treatment is MissingTreatment.refuse else Nulls.welcome
        roles = {
            self.data.unit: Column(holds=Holds.unit),
            self.treatment: Column(holds=Holds.binary, codes=self.codes.pair, nulls=nulls),
            first.time: Column(holds=Holds.time, nulls=allowed(first.time_nulls)),
            first.event: first.column,
        }
        if first.entry is not None:
            roles[first.entry] = Column(holds=Holds.time, nulls=allowed(first.entry_nulls))
        for name, column in self._conditioned_on.items():
            roles[name] = covariate_role(column, allowed(self.missing, column.nulls))
        return roles | self.shared_roles

    @property
    def _conditioned_on(self) -> dict[str, Covariate]:
        """Covariates, and columns on which censoring may depend."""
        return self.censoring.by | self.covariates

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that the study reads.

        They are unit, treatment, time, event, the subgroups' column, covariates, columns of censoring, clusters, entry,
        and columns that eligibility alone reads.
        """
        first = self.outcomes[0]
        groups = () if self.subgroups is None else (self.subgroups.name,)
        named = (self.data.unit, self.treatment, first.time, first.event, *groups, *sorted(self._conditioned_on))
        named += () if self.clusters is None else (self.clusters.column,)
        named += () if first.entry is None else (first.entry,)
        return (*named, *sorted({condition.column for condition in self.where} - set(named)))

    def specification(self) -> dict[str, Any]:
        """Return the study as plain JSON values; without 'entry' as before it existed."""
        document = super().specification()
        for outcome in document["outcomes"]:
            if outcome["entry"] is None:
                del outcome["entry"], outcome["entry_nulls"], outcome["landmark"]
        return document

    @property
    def question(self) -> str:
        """The questions and groups, in words."""
        labels = [question.label for question in self.questions]
        shown = labels if len(labels) <= 3 else [*labels[:2], f"{len(labels) - 2} more"]
        return f"{' and '.join(filter(None, (', '.join(shown[:-1]), shown[-1])))}{self.compared}"
