"""Ask for columns by name: covariates, outcomes, times to an event, subgroups and arms.

The owner's contract declares what a column holds; a study may narrow its range or its list of levels.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, model_validator

from causalveil.schemas.clusters import CountedClusters, Treated
from causalveil.schemas.columns import Code, Finite, LevelCode, Levels, Name, NumberScale, distinct_levels, sane_range
from causalveil.schemas.documents import RuleBroken
from causalveil.schemas.estimators.survival import FLOOR, Beyond
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.questions import MOST_PARTS, AskedOf, OutcomeRole
from causalveil.schemas.study import Estimand, MissingOutcome, MissingTreatment
from causalveil.schemas.terms import LONGEST_TERM, MOST_TERMS


class Clipping(Frozen):
    """A narrower range; an end that is left out is the contract's."""

    lower: Finite | None = None
    upper: Finite | None = None

    @model_validator(mode="after")
    def _sane(self) -> Clipping:
        if self.lower is not None and self.upper is not None:
            sane_range(self.lower, self.upper)
        return self


def _by_text(value: Any) -> Any:
    """Return a mapping with its keys as text: codes of subgroups may be numbers."""
    return {str(code): counts for code, counts in value.items()} if isinstance(value, Mapping) else value


class AskedCovariate(Clipping):
    """A covariate: the contract's range or levels, or a narrower range or fewer levels.

    ``scale`` replaces the contract's.
    """

    levels: Levels | None = None
    scale: NumberScale | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> AskedCovariate:
        if self.levels is not None:
            distinct_levels(self.levels)
            if self.lower is not None or self.upper is not None:
                raise ValueError("a covariate has levels, or a range; not both")
            if self.scale is not None:
                raise ValueError("a covariate that has levels has no scale; remove 'scale'")
        return self


class AskedClusters(Frozen):
    """The contract's clusters by their column.

    ``treated``: how many clusters were treated, where treatment was given to whole clusters. ``number``: how many
    clusters have eligible units, in a study with ``where``. ``subgroups``: how many have units of each subgroup;
    "all": each cluster has units of every subgroup. ``constant``: covariates that do not vary within clusters.
    """

    column: Name
    treated: Treated = None
    number: Annotated[int | None, Field(ge=2)] = None
    constant: tuple[Name, ...] = ()
    subgroups: Annotated[
        Literal["all"] | dict[str, CountedClusters] | None, BeforeValidator(_by_text, json_schema_input_type=Any)
    ] = None


class AskedNumber(Clipping):
    """A column that is read as a number, by name."""

    name: Name


class AskedPair(Frozen):
    """The two variables of a direction study."""

    x: Annotated[AskedNumber, BeforeValidator(lambda value: _named(value), json_schema_input_type=Name | AskedNumber)]
    y: Annotated[AskedNumber, BeforeValidator(lambda value: _named(value), json_schema_input_type=Name | AskedNumber)]


# ``clusters: school`` is short for ``clusters: {column: school}``.
AskedClustersOrName = Annotated[
    AskedClusters | None,
    BeforeValidator(
        lambda value: {"column": value} if isinstance(value, str) else value,
        json_schema_input_type=Name | AskedClusters | None,
    ),
]


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _listed(value: Any) -> Any:
    """Return a list of names, or ``x1:`` without a value, as a mapping without narrower ranges."""
    if isinstance(value, list | tuple):
        if not all(isinstance(name, str) for name in value):
            raise ValueError("a list of covariates holds names; give ranges in a mapping")
        twice = sorted({name for name in value if value.count(name) > 1})
        if twice:
            raise ValueError(f"'{twice[0]}' stands twice")
        return {name: {} for name in value}
    if isinstance(value, Mapping):
        return {name: {} if item is None else item for name, item in value.items()}
    return value


def _several(value: Any) -> Any:
    """Return a single name, or a single mapping of names to classes, as a tuple."""
    return (value,) if isinstance(value, str | Mapping) else value


AskedCovariates = Annotated[
    dict[Name, AskedCovariate],
    BeforeValidator(_listed, json_schema_input_type=list[Name] | dict[Name, AskedCovariate | None]),
]


AskedTerms = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=LONGEST_TERM)], ...],
    Field(
        max_length=MOST_TERMS,
        description="terms to adjust for beside linear ones: age^2, log(x), sqrt(x), ns(age, 4), age > 65, sex:age",
    ),
    BeforeValidator(_several, json_schema_input_type=list[str] | str),
]
CountedAs = Annotated[
    MissingTreatment, Field(description="how units without a treatment count, where the contract allows nulls")
]
ImputedAs = Annotated[
    MissingOutcome, Field(description="how units without an outcome count, where the contract allows nulls")
]
AskedMeasure = Literal["difference", "ratio", "odds_ratio", "risk", "rmst"]
AskedMeasures = Annotated[
    tuple[AskedMeasure, ...],
    Field(
        min_length=1,
        description="comparisons of arms: difference; for binary outcomes of a trial also ratios; for times risk, rmst",
    ),
    BeforeValidator(_several, json_schema_input_type=list[AskedMeasure] | AskedMeasure),
]


class AskedGroups(Frozen):
    """The column whose levels are subgroups.

    ``levels``: those to distinguish; all others are one subgroup.
    """

    name: Name
    levels: Levels | None = None


AskedSubgroups = Annotated[AskedGroups | None, BeforeValidator(_named, json_schema_input_type=Name | AskedGroups)]


def refuse_entry(document: Any, allowed: tuple[str, ...] = ()) -> Any:
    """Refuse other tools' names of the time of entry, and 'entry' anywhere but in a time."""
    if isinstance(document, Mapping):
        for key in ("entry", "start", "start_time", "time2"):
            if key in document and key not in allowed:
                raise RuleBroken(
                    f"'{key}': when people came under observation is the 'entry' of a time: "
                    "outcome: {time: COLUMN, entry: COLUMN, event: COLUMN, horizon: N}",
                    key,
                )
    return document


class AskedTimes(Frozen):
    """The time to an event, in two columns.

    ``of``: the events that count, until the horizon; by default all.

    A study for several sites declares ``events`` (all that end follow-up), ``origin`` and ``unit_of_measure`` itself,
    as every site's contract does.
    """

    time: Name
    event: Name
    events: Annotated[tuple[Name, ...] | None, BeforeValidator(_several)] = None
    origin: Name | None = None
    unit_of_measure: Name | None = None
    of: Annotated[tuple[Name, ...] | None, BeforeValidator(_several)] = None
    horizon: Annotated[Finite, Field(gt=0)]
    entry: Annotated[
        Name | None,
        Field(description="the column of when a person came under observation, where not all did at the origin"),
    ] = None
    landmark: Annotated[Finite, Field(ge=0, description="when curves begin, for people at risk then")] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_the_origin(cls, value: Any) -> Any:
        return refuse_entry(value, ("entry",))

    @model_validator(mode="after")
    def _entry_at_home(self) -> AskedTimes:
        if self.events is not None and self.entry is not None:
            raise RuleBroken(
                "'entry' has no place in a study of several sites; let each site run the study without 'events'",
                "entry",
            )
        return self


Classes = dict[Name, Annotated[tuple[Finite, ...], Field(min_length=1)]]
_IN_CLASSES = re.compile(r"(.+) in (\w+)")
_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


class AskedCensoring(Frozen):
    """Columns given which, and the arm, censoring is independent of the event.

    A number is named with classes: ``age in four``, equal parts of its declared range, or ``{age: [40, 60]}``, where
    classes begin. ``floor``: the least share still followed at the horizon. ``beyond``: the answer where fewer are
    followed.
    """

    by: Annotated[
        tuple[Name | Classes, ...],
        BeforeValidator(_several, json_schema_input_type=Name | list[Name | Classes]),
    ] = ()
    floor: Annotated[Finite, Field(ge=0.02, le=0.9)] = FLOOR
    beyond: Beyond = Beyond.refuse

    def columns(self, declared: Collection[str]) -> dict[str, int | tuple[float, ...] | None]:
        """Return each column with its number of classes, or where they begin; None: without classes.

        Args:
            declared: names of columns, which may hold the word "in" themselves.
        """
        columns: dict[str, int | tuple[float, ...] | None] = {}
        for entry in self.by:
            if isinstance(entry, dict):
                columns |= entry
                continue
            parts = None if entry in declared else _IN_CLASSES.fullmatch(entry)
            classes = 0 if parts is None else _number_of(parts[2])
            columns |= {entry: None} if parts is None or not classes else {parts[1]: classes}
        return columns


def _number_of(word: str) -> int:
    """Return the number, from two to twelve, that a word or a numeral says; else 0."""
    number = _NUMBERS.index(word) + 2 if word in _NUMBERS else int(word) if word.isdecimal() and len(word) < 3 else 0
    return number if 2 <= number <= len(_NUMBERS) + 1 else 0


class AskedOutcome(AskedNumber, AskedOf):
    """An outcome: a column by name, its role and its importance.

    Its range may be narrower than the declared one. ``of``: coefficients by column, where the outcome is a linear
    combination, as a change over time is; null where one of the columns is. ``arm``: the cohort that it compares with
    the reference, where there are several arms.
    """

    arm: Name | None = None
    of: Annotated[
        dict[Name, Finite] | None,
        Field(
            min_length=1,
            max_length=MOST_PARTS,
            description="columns by their coefficients, as {wage@1984: 1, wage@1983: -1}",
        ),
    ] = None


Periods = Annotated[
    tuple[LevelCode, ...],
    BeforeValidator(
        lambda value: (value,) if isinstance(value, str | int) else value,
        json_schema_input_type=list[LevelCode] | LevelCode,
    ),
]


class AskedChange(Frozen):
    """Changes of the outcome from one period to others.

    One later period is a difference-in-differences, several are an event study. ``cohorts`` are levels of the
    treatment that name the first treated period: the changes of a cohort are from the last of ``periods`` before it,
    and the reference is never treated; means over cohorts, by event time and over all, are weighted by cohort size.
    A design is short for an outcome of each period, ``COLUMN@PERIOD`` less that of ``before``; ``rows.wide`` of the
    contract makes these columns. By default the estimand is ``ATT``, and units without one of both values are left out
    of that change (``missing_outcome: leave_out``).
    """

    name: Literal["change"]
    before: LevelCode | None = None
    after: Annotated[Periods, Field(description="periods after treatment, that of the headline first")] = ()
    placebo: Annotated[
        Periods, Field(description="periods before treatment, for which parallel trends imply no effect")
    ] = ()
    periods: Annotated[Periods, Field(description="all periods in order, of a study of cohorts")] = ()
    cohorts: Annotated[Periods, Field(description="levels of the treatment that name the first treated period")] = ()

    @model_validator(mode="after")
    def _each_period_once(self) -> AskedChange:
        by_periods, by_cohorts = self.before is not None and bool(self.after), bool(self.cohorts and self.periods)
        mixed = bool(self.before or self.after or self.placebo) == bool(self.cohorts or self.periods)
        if by_periods == by_cohorts or mixed:
            raise ValueError("a change has 'before' and 'after' (and 'placebo'), or 'cohorts' and 'periods'")
        distinct_levels((self.before, *self.after, *self.placebo) if self.before is not None else self.periods)
        distinct_levels(self.cohorts or ("",))
        for cohort in self.cohorts:
            if cohort not in self.periods[1:]:
                raise ValueError(f"cohort {cohort} is none of 'periods', or has none before it; leave it out")
        return self

    def cells(self) -> list[tuple[LevelCode | None, LevelCode, LevelCode, OutcomeRole]]:
        """Return cohort, base, period and role of each change, effects before placebos."""
        changes: list[tuple[LevelCode | None, Any, Periods, Periods]] = [(None, self.before, self.after, self.placebo)]
        if self.cohorts:
            starts = [self.periods.index(cohort) for cohort in self.cohorts]
            changes = [
                (self.periods[start], self.periods[start - 1], self.periods[start:], self.periods[: start - 1])
                for start in starts
            ]
        effects = [(c, base, period, OutcomeRole.primary) for c, base, after, _ in changes for period in after]
        return effects + [(c, base, period, OutcomeRole.placebo) for c, base, _, lead in changes for period in lead]

    def outcomes(self, outcome: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return an outcome of each change, with range and importance of the file's outcome."""
        column, outcomes = outcome["name"], list[dict[str, Any]]()
        for cohort, base, period, role in self.cells():
            change = f"{column}@{period} - {column}@{base}"
            name = {"name": change} if cohort is None else {"name": f"cohort {cohort}: {change}", "arm": str(cohort)}
            coefficients = {f"{column}@{period}": 1.0, f"{column}@{base}": -1.0}
            outcomes.append({**outcome, **name, "of": coefficients, "role": role})
        return outcomes

    def contrasts(self, outcome: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return means over cohorts: of all cells after treatment, and by event time.

        Event time 0 is the first treated period.
        """
        means, cells = dict[str, list[str]](), zip(self.cells(), self.outcomes(outcome), strict=True)
        for (cohort, _, period, role), change in cells if self.cohorts else ():
            if role is OutcomeRole.primary:
                means.setdefault("all after treatment", []).append(change["name"])
            time = self.periods.index(period) - self.periods.index(cohort)
            means.setdefault(f"event time {time}", []).append(change["name"])
        return [
            {"name": f"{outcome['name']}, {mean}", "by_size": True, "of": dict.fromkeys(names, 1.0)}
            for mean, names in means.items()
        ]


def changes_in_full(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a study file with its ``design`` replaced by the outcomes of each change.

    An invalid design is left for the model's own validation.

    Raises:
        RuleBroken: the file has a list of outcomes too, or no outcome.
    """
    outcome = _named(document.get("outcome"))
    if document.get("design") is None:
        return document
    if not isinstance(outcome, Mapping) or "outcomes" in document or not isinstance(outcome.get("name"), str):
        raise RuleBroken("'design' takes one 'outcome', a column that 'rows.wide' of the contract has", "outcome")
    try:
        design = AskedChange.model_validate(document["design"])
    except ValidationError:
        return document
    rest = {key: value for key, value in document.items() if key not in ("design", "outcome")}
    defaults = {"estimand": Estimand.ATT, "missing_outcome": MissingOutcome.leave_out}
    means, contrasts = design.contrasts(outcome), rest.get("contrasts") or ()
    compared = {"contrasts": [*means, *contrasts]} if means and isinstance(contrasts, list | tuple) else {}
    return {**defaults, **rest, "outcomes": design.outcomes(outcome), **compared}


class AskedArms(Frozen):
    """The level of the treatment with which all others are compared.

    ``levels``: all levels, where no contract is at hand.
    """

    reference: Code
    levels: Levels | None = None


class AskedTimesOutcome(AskedTimes):
    """A time to an event, with its role."""

    role: OutcomeRole = OutcomeRole.secondary


# Keys that only a time to an event has.
_OF_TIMES = ("time", "event", "horizon")


def _kind_of_outcome(value: Any) -> str:
    keys = value if isinstance(value, Mapping) else getattr(value, "model_fields", ())
    return "a time" if any(key in keys for key in _OF_TIMES) else "a column"


# An outcome with two columns and a horizon is a time to an event. Tags have a space, which no key has.
OneOutcome = Annotated[
    Annotated[AskedOutcome, BeforeValidator(_named, json_schema_input_type=Name | AskedOutcome), Tag("a column")]
    | Annotated[AskedTimesOutcome, Tag("a time")],
    Discriminator(_kind_of_outcome),
]
AskedOutcomes = Annotated[tuple[OneOutcome, ...], Field(min_length=1)]
