"""Ask for columns by name: covariates, outcomes, times to an event, subgroups and arms.

What a column holds is the owner's contract's to say; a study may narrow its range or its list of levels.
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
    """A narrower range; an end that is not given is the contract's."""

    lower: Finite | None = None
    upper: Finite | None = None

    @model_validator(mode="after")
    def _sane(self) -> Clipping:
        if self.lower is not None and self.upper is not None:
            sane_range(self.lower, self.upper)
        return self


def _by_text(value: Any) -> Any:
    """Return a mapping whose keys are codes as one of texts."""
    return {str(key): one for key, one in value.items()} if isinstance(value, Mapping) else value


class AskedCovariate(Clipping):
    """A covariate as the contract declares it, or narrower: a range, or some of its levels.

    It may have a scale of its own.
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

    ``treated``: how many were treated, where they were treated whole. ``number``: of those with eligible units, where
    the study has ``where``. ``subgroups``: how many have units of each; "all": each has some of every one.
    ``constant``: covariates of which all units of a cluster have one value.
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


def _in_column(value: Any) -> Any:
    return {"column": value} if isinstance(value, str) else value


# ``clusters: school`` is short for ``clusters: {column: school}``.
AskedClustersOrName = Annotated[
    AskedClusters | None, BeforeValidator(_in_column, json_schema_input_type=Name | AskedClusters | None)
]


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _listed(value: Any) -> Any:
    """Return a list of names as a mapping without narrower ranges.

    ``x1:`` with nothing behind it is such a name as well.
    """
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
    """Return one name, or one mapping of names to classes, as a list of one."""
    return (value,) if isinstance(value, str | Mapping) else value


AskedCovariates = Annotated[
    dict[Name, AskedCovariate],
    BeforeValidator(_listed, json_schema_input_type=list[Name] | dict[Name, AskedCovariate | None]),
]


AskedTerms = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=LONGEST_TERM)], ...],
    Field(
        max_length=MOST_TERMS,
        description="what is adjusted for beside lines: age^2, log(x), sqrt(x), ns(age, 4), age > 65, sex:age",
    ),
    BeforeValidator(lambda value: _several(value), json_schema_input_type=list[str] | str),
]


CountedAs = Annotated[
    MissingTreatment, Field(description="what units without a treatment count as, where the contract lets it be null")
]


ImputedAs = Annotated[
    MissingOutcome, Field(description="what units without an outcome count with, where the contract lets it be null")
]


AskedMeasure = Literal["difference", "ratio", "odds_ratio", "risk", "rmst"]
AskedMeasures = Annotated[
    tuple[AskedMeasure, ...],
    Field(
        min_length=1,
        description="how arms are compared; outcomes of two values in a trial also by ratios; times by risk and rmst",
    ),
    BeforeValidator(_several, json_schema_input_type=list[AskedMeasure] | AskedMeasure),
]


class AskedGroups(Frozen):
    """The column whose levels are subgroups.

    ``levels``: some of them, the others then count as one.
    """

    name: Name
    levels: Levels | None = None


AskedSubgroups = Annotated[AskedGroups | None, BeforeValidator(_named, json_schema_input_type=Name | AskedGroups)]


def refuse_entry(document: Any, known: tuple[str, ...] = ()) -> Any:
    """Refuse what other tools call the time of entry, and 'entry' where it has no place."""
    if isinstance(document, Mapping):
        for key in ("entry", "start", "start_time", "time2"):
            if key in document and key not in known:
                raise RuleBroken(
                    f"'{key}': when people came under observation is the 'entry' of a time: "
                    "outcome: {time: COLUMN, entry: COLUMN, event: COLUMN, horizon: N}",
                    key,
                )
    return document


class AskedTimes(Frozen):
    """The time to an event, in two columns.

    ``of``: the events that count; all without it. They count until the horizon.

    A study that travels over sites says ``events`` (all that end follow-up), ``origin`` and ``unit_of_measure`` itself,
    as every site's contract declares them.
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
        Field(
            description="when a person came under observation, where not all did at the origin; a time, as 'time' is"
        ),
    ] = None
    landmark: Annotated[Finite, Field(ge=0, description="when curves begin, of those at risk then")] | None = None

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
    """Columns within whose levels, and within the arms, censoring tells nothing.

    ``floor``: the least share still followed.

    A number is named with classes: ``age in four``, equal parts of its declared range, or ``{age: [40, 60]}``, where
    classes begin. ``beyond``: what is answered where fewer are followed to the horizon.
    """

    by: Annotated[
        tuple[Name | Classes, ...],
        BeforeValidator(_several, json_schema_input_type=Name | list[Name | Classes]),
    ] = ()
    floor: Annotated[Finite, Field(ge=0.02, le=0.9)] = FLOOR
    beyond: Beyond = Beyond.refuse

    def columns(self, declared: Collection[str]) -> dict[str, int | tuple[float, ...] | None]:
        """Return each column with its number of classes, or where they begin.

        It is None where the column is used as it is declared.

        Args:
            declared: names of columns, which may hold the word "in" themselves.
        """
        found: dict[str, int | tuple[float, ...] | None] = {}
        for one in self.by:
            if isinstance(one, dict):
                found |= one
                continue
            parts = None if one in declared else _IN_CLASSES.fullmatch(one)
            many = 0 if parts is None else _number_of(parts[2])
            found |= {one: None} if parts is None or not many else {parts[1]: many}
        return found


def _number_of(word: str) -> int:
    """Return how many classes a word says, from two to twelve; 0: it is no such word."""
    many = _NUMBERS.index(word) + 2 if word in _NUMBERS else int(word) if word.isdecimal() and len(word) < 3 else 0
    return many if 2 <= many <= len(_NUMBERS) + 1 else 0


class AskedOutcome(AskedNumber, AskedOf):
    """An outcome of a protocol: a column by name, its role and its importance.

    Its range may be narrower than the declared one. ``of``: it is no column but a linear combination of some, each with
    its coefficient, as a change over time is; null where one of these is. ``arm``: the cohort that it is asked of,
    against the reference, where there are several arms.
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

    One later period is a difference-in-differences, several are an event study. Levels of the treatment that are the
    first period under it are ``cohorts``: each has changes from its own last of ``periods`` before, and the reference
    is never treated; means over cohorts by event time, and over all cells, are contrasts by the cohorts' sizes.
    It is short for an outcome of each period, ``COLUMN@PERIOD`` less that of ``before``, columns that ``rows.wide`` of
    the contract makes. Unless the file says otherwise it is about the treated (``estimand: ATT``), and units without
    one of both are left out of that change (``missing_outcome: leave_out``).
    """

    name: Literal["change"]
    before: LevelCode | None = None
    after: Annotated[Periods, Field(description="periods whose change is an effect, the headline first")] = ()
    placebo: Annotated[
        Periods, Field(description="periods before treatment whose change must be none where trends are parallel")
    ] = ()
    periods: Annotated[Periods, Field(description="of several cohorts, in their order")] = ()
    cohorts: Annotated[Periods, Field(description="levels of the treatment: the first period under it")] = ()

    @model_validator(mode="after")
    def _each_period_once(self) -> AskedChange:
        ways = self.before is not None and bool(self.after), bool(self.cohorts and self.periods)
        if ways[0] == ways[1] or bool(self.before or self.after or self.placebo) == bool(self.cohorts or self.periods):
            raise ValueError("a change has 'before' and 'after' (and 'placebo'), or 'cohorts' and 'periods'")
        distinct_levels((self.before, *self.after, *self.placebo) if self.before is not None else self.periods)
        distinct_levels(self.cohorts or ("",))
        for cohort in self.cohorts:
            if cohort not in self.periods[1:]:
                raise ValueError(f"cohort {cohort} is none of 'periods', or has none before it; leave it out")
        return self

    def cells(self) -> list[tuple[LevelCode | None, LevelCode, LevelCode, OutcomeRole]]:
        """Return cohort, base, period and role of each change."""
        of: list[tuple[LevelCode | None, Any, Periods, Periods]] = [(None, self.before, self.after, self.placebo)]
        if self.cohorts:
            first = [self.periods.index(cohort) for cohort in self.cohorts]
            of = [(self.periods[at], self.periods[at - 1], self.periods[at:], self.periods[: at - 1]) for at in first]
        roles = (OutcomeRole.primary, OutcomeRole.placebo)
        return [
            (cohort, base, at, role)
            for place, role in enumerate(roles)
            for cohort, base, *sides in of
            for at in sides[place]
        ]

    def outcomes(self, outcome: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the outcomes that it stands for, of one with its range and importance."""
        name, found = outcome["name"], list[dict[str, Any]]()
        for cohort, base, at, role in self.cells():
            told = f"{name}@{at} - {name}@{base}"
            own = {"name": told} if cohort is None else {"name": f"cohort {cohort}: {told}", "arm": str(cohort)}
            of = {f"{name}@{at}": 1.0, f"{name}@{base}": -1.0}
            found.append({**outcome, **own, "of": of, "role": role})
        return found

    def contrasts(self, outcome: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return means over cohorts: of all cells after treatment, and by event time.

        Time 0 is the first period under treatment.
        """
        times, cells = dict[str, list[str]](), zip(self.cells(), self.outcomes(outcome), strict=True)
        for (cohort, _, at, role), one in cells if self.cohorts else ():
            if role is OutcomeRole.primary:
                times.setdefault("all after treatment", []).append(one["name"])
            since = self.periods.index(at) - self.periods.index(cohort)
            times.setdefault(f"event time {since}", []).append(one["name"])
        return [
            {"name": f"{outcome['name']}, {at}", "by_size": True, "of": dict.fromkeys(names, 1.0)}
            for at, names in times.items()
        ]


def changes_in_full(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a study file with the outcomes that its ``design`` stands for.

    A design that is wrong is left as it is.

    Raises:
        RuleBroken: it has a list of outcomes too, or none.
    """
    outcome = _named(document.get("outcome"))
    if document.get("design") is None:
        return document
    if not isinstance(outcome, Mapping) or "outcomes" in document or not isinstance(outcome.get("name"), str):
        raise RuleBroken("'design' takes one 'outcome', a column that 'rows.wide' of the contract has", "outcome")
    try:
        asked = AskedChange.model_validate(document["design"])
    except ValidationError:
        return document
    own = {key: value for key, value in document.items() if key not in ("design", "outcome")}
    usual = {"estimand": Estimand.ATT, "missing_outcome": MissingOutcome.leave_out}
    means, further = asked.contrasts(outcome), own.get("contrasts") or ()
    compared = {"contrasts": [*means, *further]} if means and isinstance(further, list | tuple) else {}
    return {**usual, **own, "outcomes": asked.outcomes(outcome), **compared}


class AskedArms(Frozen):
    """The level of the treatment that all others are compared with.

    ``levels``: all, where no contract is at hand.
    """

    reference: Code
    levels: Levels | None = None


class AskedTimesOutcome(AskedTimes):
    """A time to an event of a protocol, with its role."""

    role: OutcomeRole = OutcomeRole.secondary


# What names the two columns of a time to an event and how far it is looked at.
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
