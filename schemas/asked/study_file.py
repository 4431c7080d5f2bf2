"""study.yaml: what the analyst asks.

Columns by name; what they hold is the owner's contract's to say.

A study may narrow a range or a list of levels, which is public and applies to all units. One that travels between
sites may declare both in full, and each site's contract must then agree in kind. Nothing else about the data, the code
or the machine can be named here but the folder (``data.path``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, create_model, model_validator

from causalveil.schemas.asked.columns import (
    AskedArms,
    AskedCensoring,
    AskedCovariates,
    AskedMeasures,
    AskedOutcomes,
    AskedPair,
    AskedPlainOutcome,
    AskedSubgroups,
    AskedTime,
    AskedTimesMeasures,
    AskedTimesOutcomes,
    CountedAs,
    ImputedAs,
    refuse_entry,
)
from causalveil.schemas.asked.shorthands import AutoEstimator, as_protocol
from causalveil.schemas.confounding import refuse_renamed
from causalveil.schemas.documents import AnyPath, read_yaml
from causalveil.schemas.estimators.ipw import with_free_penalty
from causalveil.schemas.estimators.survival import MOST_INTERVALS, ExpectedTimes, Measure
from causalveil.schemas.mistakes import validate
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.protocols.study import EffectMeasure, Gates
from causalveil.schemas.studies import STUDIES, model_for
from causalveil.schemas.study import (
    Estimand,
    EstimatorSettings,
    Finite,
    Missing,
    Name,
    PrivacyRequest,
    Select,
    Slug,
)
from causalveil.schemas.where import AskedWhere

STUDY_SCHEMA_FILE = Path(__file__).parents[1] / "study-v1.schema.json"
# What earlier studies said and who says it now.
MOVED = {
    "unit": "the owner's dataset.yaml names the unit",
    "blocks": "the owner's dataset.yaml names the block key",
    "execution": "the operator's site.toml says how and where stages run",
}


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


class EffectStudyFile(StudyFile):
    """Asks for the effect of a treatment on an outcome.

    ``missing: indicator`` adds an indicator to every covariate. With ``where`` or ``subgroups`` the study is a protocol
    of this one question.
    """

    kind: Literal["effect"]
    treatment: Name
    outcome: AskedPlainOutcome
    covariates: AskedCovariates
    where: AskedWhere = ()
    subgroups: AskedSubgroups = None
    missing: Missing | None = None
    missing_treatment: CountedAs | None = None
    missing_outcome: ImputedAs | None = None
    estimand: Estimand = Estimand.ATE
    confidence: Annotated[Finite, Field(ge=0.5, lt=1)] = 0.95
    measure: AskedMeasures = (EffectMeasure.difference,)


def risk_if_adjusted(document: Any) -> Any:
    """Ask for the risk alone where covariates are named and no measure is.

    Each measure costs a part of the budget.
    """
    refuse_entry(document)
    if isinstance(document, Mapping) and document.get("covariates") and "measure" not in document:
        return {**document, "measure": [Measure.risk]}
    return document


class SurvivalStudyFile(StudyFile):
    """Asks for the effect of a treatment on the time to an event.

    With ``covariates`` the effect is adjusted for them.
    """

    kind: Literal["effect"]
    treatment: Name
    outcome: AskedTime
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
        return risk_if_adjusted(document)


class ProtocolStudyFile(StudyFile):
    """Asks for the effects of a treatment on several outcomes, in subgroups, of several arms.

    Any of these can be combined.
    """

    kind: Literal["protocol"]
    treatment: Name
    arms: AskedArms | None = None
    outcomes: AskedOutcomes
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


class SurvivalProtocolFile(StudyFile):
    """Asks for effects on times to an event, at several horizons, in subgroups, of several arms.

    Several events can be asked about too. With ``covariates`` the effects are adjusted for them.
    """

    kind: Literal["protocol"]
    treatment: Name
    arms: AskedArms | None = None
    outcomes: AskedTimesOutcomes
    subgroups: AskedSubgroups = None
    where: AskedWhere = ()
    measure: AskedTimesMeasures = (Measure.risk, Measure.rmst)
    intervals: Annotated[int, Field(ge=1, le=MOST_INTERVALS)] | None = None
    covariates: Annotated[AskedCovariates, Field(default_factory=dict)]
    missing: Missing | None = None
    censoring: Annotated[
        AskedCensoring, Field(description="of adjusted effects: how many must be followed to the horizon")
    ] = AskedCensoring()
    missing_treatment: CountedAs | None = None
    estimand: Estimand = Estimand.ATE
    confidence: Annotated[Finite, Field(ge=0.5, lt=1)] = 0.95
    expect: Annotated[ExpectedTimes, Field(description="what `plan` expects; it changes no release")] = ExpectedTimes()

    @model_validator(mode="before")
    @classmethod
    def _one_measure_if_adjusted(cls, document: Any) -> Any:
        return risk_if_adjusted(document)


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
