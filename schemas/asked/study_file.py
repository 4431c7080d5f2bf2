"""study.yaml: what the analyst asks.

Columns by name; what they hold is the owner's contract's to say.

A study may narrow a range or a list of levels, which is public and applies to everybody. One that travels between
sites may declare both in full, and each site's contract must then agree in kind. Nothing else about the data, the code
or the machine can be named here but the folder (``data.path``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, create_model, model_validator

from causalveil.schemas.asked.shorthands import AutoEstimator, as_protocol
from causalveil.schemas.columns import NumberScale, sane_range
from causalveil.schemas.confounding import refuse_renamed
from causalveil.schemas.documents import AnyPath, read_yaml, validate
from causalveil.schemas.estimators.ipw import with_free_penalty
from causalveil.schemas.estimators.survival import FLOOR, MOST_INTERVALS, Beyond, ExpectedTimes, Measure
from causalveil.schemas.estimators.survival_protocol import ARMS_NOT_ADJUSTED, NOT_ADJUSTED
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.protocols.study import AskedOf, EffectMeasure, Gates, OutcomeRole
from causalveil.schemas.studies import STUDIES, model_for
from causalveil.schemas.study import (
    Code,
    Estimand,
    EstimatorSettings,
    Finite,
    Levels,
    Missing,
    MissingOutcome,
    MissingTreatment,
    Name,
    PrivacyRequest,
    Select,
    Slug,
    distinct_levels,
)
from causalveil.schemas.where import AskedWhere

STUDY_SCHEMA_FILE = Path(__file__).parents[1] / "study-v1.schema.json"
# What earlier studies said and who says it now.
MOVED = {
    "unit": "the owner's dataset.yaml names the unit",
    "blocks": "the owner's dataset.yaml names the block key",
    "execution": "the operator's site.toml says how and where stages run",
}


class Clipping(Frozen):
    """A narrower range; an end that is not given is the contract's."""

    lower: Finite | None = None
    upper: Finite | None = None

    @model_validator(mode="after")
    def _sane(self) -> Clipping:
        if self.lower is not None and self.upper is not None:
            sane_range(self.lower, self.upper)
        return self


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


class AskedNumber(Clipping):
    """A column that is read as a number, by name."""

    name: Name


class AskedPair(Frozen):
    """The two variables of a direction study."""

    x: Annotated[AskedNumber, BeforeValidator(lambda value: _named(value), json_schema_input_type=Name | AskedNumber)]
    y: Annotated[AskedNumber, BeforeValidator(lambda value: _named(value), json_schema_input_type=Name | AskedNumber)]


class AskedData(Frozen):
    """Location of the data, and the blocks to read.

    It is relative to the study file or in object storage.
    """

    path: AnyPath = "."
    select: Select | None = None


class StudyFile(Frozen):
    """The keys that every study file may have."""

    kind: str
    name: Slug
    data: AskedData = AskedData()
    estimator: EstimatorSettings
    privacy: PrivacyRequest
    purpose: Annotated[
        str | None, Field(max_length=500, description="why this is asked; the ledger keeps it beside the run")
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _says_who_decides(cls, document: Any) -> Any:
        if isinstance(document, Mapping):
            data = document.get("data")
            for place, keys in (("", document), ("data.", data if isinstance(data, Mapping) else {})):
                for key in MOVED.keys() & keys.keys():
                    raise ValueError(f"'{place}{key}' has no place in a study: {MOVED[key]}; remove it")
        refuse_renamed(document)
        return with_free_penalty(document)


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


# What names the two columns of a time to an event and how far it is looked at.
_OF_TIMES = ("time", "event", "horizon")


def _outcome(value: Any) -> Any:
    """Return an outcome that has a name, and refuse a time to an event.

    A time to an event is another estimator's.
    """
    if isinstance(value, Mapping) and any(key in value for key in _OF_TIMES):
        raise ValueError(
            "a time to an event is asked for by 'estimator: {name: survival}'; any other outcome is one column, as "
            "{name: COLUMN}"
        )
    return _named(value)


def _all_times(value: Any) -> Any:
    """Outcomes that are times to an event, each with two columns and a horizon."""
    return [_two_columns(one) for one in value] if isinstance(value, list) else value


def _two_columns(value: Any) -> Any:
    """Return a time to an event as it is, and refuse anything else.

    It has two columns and a horizon.
    """
    if not isinstance(value, Mapping | AskedTimes):
        raise ValueError("estimator 'survival' asks for a time to an event: {time: COLUMN, event: COLUMN, horizon: N}")
    return value


def _all_named(value: Any) -> Any:
    return tuple(_named(one) for one in value) if isinstance(value, list | tuple) else value


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
AskedTimesMeasures = Annotated[tuple[Measure, ...], Field(min_length=1, max_length=2), BeforeValidator(_several)]
CountedAs = Annotated[
    MissingTreatment, Field(description="what units without a treatment count as, where the contract lets it be null")
]
ImputedAs = Annotated[
    MissingOutcome, Field(description="what units without an outcome count with, where the contract lets it be null")
]


AskedMeasures = Annotated[
    tuple[EffectMeasure, ...],
    Field(min_length=1, description="how arms are compared; of outcomes of two values in a trial also by ratios"),
    BeforeValidator(_several, json_schema_input_type=list[EffectMeasure] | EffectMeasure),
]


class AskedGroups(Frozen):
    """The column whose levels are subgroups.

    ``levels``: some of them, the others then count as one.
    """

    name: Name
    levels: Levels | None = None


AskedSubgroups = Annotated[AskedGroups | None, BeforeValidator(_named, json_schema_input_type=Name | AskedGroups)]


class EffectStudyFile(StudyFile):
    """Asks for the effect of a treatment on an outcome.

    ``missing: indicator`` adds an indicator to every covariate. With ``where`` or ``subgroups`` the study is a protocol
    of this one question.
    """

    kind: Literal["effect"]
    treatment: Name
    outcome: Annotated[AskedNumber, BeforeValidator(_outcome, json_schema_input_type=Name | AskedNumber)]
    covariates: AskedCovariates
    where: AskedWhere = ()
    subgroups: AskedSubgroups = None
    missing: Missing | None = None
    missing_treatment: CountedAs | None = None
    missing_outcome: ImputedAs | None = None
    estimand: Estimand = Estimand.ATE
    confidence: Annotated[Finite, Field(ge=0.5, lt=1)] = 0.95
    measure: AskedMeasures = (EffectMeasure.difference,)


def _refuse_entry(document: Any) -> Any:
    """Refuse what other tools call the time of later entry, wherever in a study of times it stands."""
    if isinstance(document, Mapping):
        for key in ("entry", "start", "start_time", "time2"):
            if key in document:
                raise ValueError(
                    f"'{key}': everybody is followed from the origin; people who entered later cannot be compared"
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

    @model_validator(mode="before")
    @classmethod
    def _from_the_origin(cls, value: Any) -> Any:
        return _refuse_entry(value)


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


class SurvivalStudyFile(StudyFile):
    """Asks for the effect of a treatment on the time to an event.

    With ``covariates`` the effect is adjusted for them.
    """

    kind: Literal["effect"]
    treatment: Name
    outcome: Annotated[AskedTimes, BeforeValidator(_two_columns, json_schema_input_type=AskedTimes)]
    measure: AskedTimesMeasures = (Measure.risk, Measure.rmst)
    intervals: Annotated[int, Field(ge=1, le=MOST_INTERVALS)] | None = None
    covariates: Annotated[AskedCovariates, Field(default_factory=dict)]
    where: AskedWhere = ()
    missing: Missing | None = None
    censoring: Annotated[
        AskedCensoring, Field(description="on what losses may depend, and how many must be followed to the horizon")
    ] = AskedCensoring()
    missing_treatment: CountedAs | None = None
    estimand: Estimand = Estimand.ATE
    confidence: Annotated[Finite, Field(ge=0.5, lt=1)] = 0.95
    expect: Annotated[ExpectedTimes, Field(description="what `plan` expects; it changes no release")] = ExpectedTimes()

    @model_validator(mode="before")
    @classmethod
    def _one_measure_if_adjusted(cls, document: Any) -> Any:
        """Ask for the risk alone where covariates are named and no measure is: each has releases of its own."""
        _refuse_entry(document)
        if isinstance(document, Mapping) and document.get("covariates") and "measure" not in document:
            return {**document, "measure": [Measure.risk]}
        return document


class AskedOutcome(AskedNumber, AskedOf):
    """An outcome of a protocol: a column by name, its role and its importance.

    Its range may be narrower than the declared one.
    """


class AskedArms(Frozen):
    """The level of the treatment that all others are compared with.

    ``levels``: all, where no contract is at hand.
    """

    reference: Code
    levels: Levels | None = None


class ProtocolStudyFile(StudyFile):
    """Asks for the effects of a treatment on several outcomes, in subgroups, of several arms.

    Any of these can be combined.
    """

    kind: Literal["protocol"]
    treatment: Name
    arms: AskedArms | None = None
    outcomes: Annotated[
        tuple[AskedOutcome, ...],
        Field(min_length=1),
        BeforeValidator(_all_named, json_schema_input_type=list[AskedOutcome | Name]),
    ]
    subgroups: AskedSubgroups = None
    where: AskedWhere = ()
    covariates: AskedCovariates
    missing: Missing | None = None
    missing_treatment: CountedAs | None = None
    missing_outcome: ImputedAs | None = None
    estimand: Estimand = Estimand.ATE
    confidence: Annotated[Finite, Field(ge=0.5, lt=1)] = 0.95
    gates: Gates | None = None
    measure: AskedMeasures = (EffectMeasure.difference,)


class AskedTimesOutcome(AskedTimes):
    """A time to an event of a protocol, with its role."""

    role: OutcomeRole = OutcomeRole.secondary


class SurvivalProtocolFile(StudyFile):
    """Asks for effects on times to an event, at several horizons, in subgroups, of several arms.

    Several events can be asked about too.
    """

    kind: Literal["protocol"]
    treatment: Name
    arms: AskedArms | None = None
    outcomes: Annotated[
        tuple[AskedTimesOutcome, ...],
        Field(min_length=1),
        BeforeValidator(_all_times, json_schema_input_type=list[AskedTimesOutcome]),
    ]
    subgroups: AskedSubgroups = None
    where: AskedWhere = ()
    measure: AskedTimesMeasures = (Measure.risk, Measure.rmst)
    intervals: Annotated[int, Field(ge=1, le=MOST_INTERVALS)] | None = None
    missing_treatment: CountedAs | None = None
    estimand: Estimand = Estimand.ATE
    confidence: Annotated[Finite, Field(ge=0.5, lt=1)] = 0.95
    expect: Annotated[ExpectedTimes, Field(description="what `plan` expects; it changes no release")] = ExpectedTimes()

    @model_validator(mode="before")
    @classmethod
    def _as_the_arms_are(cls, document: Any) -> Any:
        _refuse_entry(document)
        if isinstance(document, Mapping):
            if document.get("covariates"):
                raise ValueError(f"'covariates': {ARMS_NOT_ADJUSTED if document.get('arms') else NOT_ADJUSTED}")
            if document.get("censoring"):
                raise ValueError("'censoring' is for adjusted effects, and a protocol compares the arms as they are")
            return {key: value for key, value in document.items() if key not in ("covariates", "censoring")}
        return document


class DirectionStudyFile(StudyFile):
    """Asks which of two variables causes the other."""

    kind: Literal["direction"]
    pair: AskedPair


BASES: dict[str, type[StudyFile]] = {
    "effect": EffectStudyFile,
    "protocol": ProtocolStudyFile,
    "direction": DirectionStudyFile,
}


# Estimators whose studies say more, or less, than others of their kind.
OWN_BASES: dict[tuple[str, str], type[StudyFile]] = {
    ("effect", "survival"): SurvivalStudyFile,
    ("protocol", "survival"): SurvivalProtocolFile,
}


def _model(kind: str, name: str) -> type[StudyFile]:
    """Return the model of a study file that names one estimator."""
    base = OWN_BASES.get((kind, name), BASES[kind])
    estimator: Any = STUDIES[kind][name].model_fields["estimator"].annotation
    fields: dict[str, Any] = {"estimator": (estimator, ...)}
    return create_model(f"{base.__name__}_{name}", __base__=base, __doc__=base.__doc__, **fields)


class AutoStudyFile(EffectStudyFile):
    """Asks for an effect and leaves the estimator to public facts."""

    estimator: AutoEstimator


class AutoProtocolFile(ProtocolStudyFile):
    """Asks many questions and leaves the estimator to public facts."""

    estimator: AutoEstimator


STUDY_FILES: dict[str, dict[str, type[StudyFile]]] = {
    kind: {name: _model(kind, name) for name in names} for kind, names in STUDIES.items()
}
STUDY_FILES["effect"]["auto"] = AutoStudyFile
STUDY_FILES["protocol"]["auto"] = AutoProtocolFile


def parse_study_file(document: Mapping[str, Any], where: str = "study") -> StudyFile:
    """Return a study file from a document.

    Its kind and the name of its estimator choose the model.

    Raises:
        StudyError: with every problem in one line.
    """
    document = as_protocol(document, where)
    return validate(model_for(STUDY_FILES, document, where), document, where)


def load_study_file(path: Path) -> StudyFile:
    """Read and validate a study file.

    Raises:
        StudyError: with every problem in one line.
    """
    return parse_study_file(read_yaml(path), str(path))


def study_schema() -> dict[str, Any]:
    """Return the JSON Schema of study.yaml, for editors.

    ``schemas/study-v1.schema.json`` is its export.
    """
    models: tuple[Any, ...] = tuple(model for names in STUDY_FILES.values() for model in names.values())
    union: Any = models[0]
    for model in models[1:]:
        union = union | model
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **TypeAdapter(union).json_schema(mode="validation"),
        "title": "causalveil study, version 1",
    }
