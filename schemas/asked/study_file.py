"""study.yaml: what the analyst asks.

Columns are named; the owner's contract declares what they hold. A study may narrow a range or a list of levels, which
is public and applies to all units. A study for several sites may declare both in full, and each site's contract must
then agree in kind. Nothing else about the data, the code or the machine can be named but the folder (``data.path``).

With ``estimator: {name: auto}`` public facts choose the estimator where the number of units is known
(``flows/run/estimators.py``), before anything is declared: no stage and no ledger entry has the name ``auto``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, Union

from pydantic import Discriminator, Field, TypeAdapter, model_validator

from causalveil.schemas.asked.columns import (
    AskedArms,
    AskedCensoring,
    AskedChange,
    AskedClustersOrName,
    AskedCovariates,
    AskedMeasures,
    AskedOutcome,
    AskedOutcomes,
    AskedPair,
    AskedSubgroups,
    AskedTerms,
    AskedTimes,
    AskedTimesOutcome,
    CountedAs,
    ImputedAs,
    OneOutcome,
    changes_in_full,
    refuse_entry,
)
from causalveil.schemas.columns import Finite, Missing, Name
from causalveil.schemas.documents import AnyPath, RuleBroken, read_yaml
from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.balancing import BalancingEstimator
from causalveil.schemas.estimators.difference import DifferenceEstimator
from causalveil.schemas.estimators.direction import DirectionEstimator
from causalveil.schemas.estimators.ipw import IpwEstimator, with_free_penalty
from causalveil.schemas.estimators.regression import RegressionEstimator, of_stated_form
from causalveil.schemas.estimators.survival import MOST_INTERVALS, Measure
from causalveil.schemas.mistakes import line_of, missing_key, validate
from causalveil.schemas.privacy import Frozen, Level
from causalveil.schemas.questions import (
    EXPECTED_OF_NUMBERS,
    EXPECTED_OF_TIMES,
    AskedOf,
    EffectMeasure,
    Expected,
    Gates,
    OutcomeRole,
    RowContrast,
)
from causalveil.schemas.studies import STUDIES, named
from causalveil.schemas.study import Estimand, EstimatorSettings, PrivacyRequest, Select, Slug
from causalveil.schemas.where import AskedWhere

# What a study file says under ``estimator`` and ``privacy``.
Option = tuple[EstimatorSettings, PrivacyRequest]


class AutoEstimator(EstimatorSettings):
    """The estimator of least expected error, by level, size, budget and design.

    ``trial``: treatment was randomised.
    """

    name: Literal["auto"]
    trial: bool = False


def options(auto: AutoEstimator, privacy: PrivacyRequest) -> list[Option]:
    """Return the estimators, with their privacy, that ``auto`` may choose, the most usual first.

    All have one level and design, so that a release identifies its study file. At level `label` no option spends a
    delta: a release of two numbers gains nothing by it.
    """
    trial = auto.trial
    if privacy.level is Level.training_units:
        return [(IpwEstimator(name="ipw", trial=trial), privacy)]
    if privacy.level is Level.label:
        free = privacy.model_copy(update={"delta": Decimal(0)})
        return [(BalancingEstimator(name="balancing", trial=trial), free)]
    if not trial:
        return [(RegressionEstimator(name="regression"), privacy)]
    return [
        (RegressionEstimator(name="regression", trial=True), privacy),
        (DifferenceEstimator(name="difference_in_means", trial=True), privacy),
    ]


if TYPE_CHECKING:
    AskedEstimator: TypeAlias = EstimatorSettings
else:
    # The settings of every estimator of an effect, known by their name.
    _OF_EFFECTS = (known.model_fields["estimator"].annotation for known in STUDIES["effect"].values())
    AskedEstimator = Annotated[Union[(*_OF_EFFECTS, AutoEstimator)], Discriminator("name")]

# The largest rounding error of a sum of shares of subgroups.
SHARES_ROUNDED = 1e-6
STUDY_SCHEMA_FILE = Path(__file__).parents[1] / "study-v1.schema.json"
# Keys that a study file does not have, and where they are declared.
ELSEWHERE = {
    "unit": "the owner's dataset.yaml names the unit",
    "blocks": "the owner's dataset.yaml names the block key",
    "execution": "the operator's site.toml says how and where stages run",
}
# The kind of studies of several questions in earlier versions.
FORMER_KIND = "protocol"
# Keys that only outcomes that are numbers have, and only times.
OF_NUMBERS, OF_TIMES = ("gates", "missing_outcome", "contrasts", "standardise"), ("intervals", "censoring")


class AskedData(Frozen):
    """The folder of the data (relative to the study file, or a URL), and the blocks to read."""

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
        str | None, Field(max_length=500, description="the reason for the study; the ledger keeps it with the run")
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _says_who_decides(cls, document: Any) -> Any:
        if isinstance(document, Mapping):
            data = document.get("data")
            for place, keys in (("", document), ("data.", data if isinstance(data, Mapping) else {})):
                for key in ELSEWHERE.keys() & keys.keys():
                    raise RuleBroken(
                        f"'{place}{key}' has no place in a study: {ELSEWHERE[key]}; remove it", f"{place}{key}"
                    )
        refuse_entry(document)
        return with_free_penalty(document)

    @property
    def of_many(self) -> tuple[str, ...]:
        """The keys by which it asks more than one question of all units."""
        return ()


class EffectStudyFile(StudyFile):
    """Asks for the effects of a treatment: a table of answers, of one question or of many.

    ``outcome`` is short for ``outcomes`` of one. An outcome is a column, or a time to an event: two columns and a
    horizon, by estimator ``survival``. ``missing: indicator`` adds an indicator to every covariate. Effects on
    times are adjusted for ``covariates``; each measure then costs a part of the budget, and the default is the risk
    alone. ``terms`` are functions of covariates to adjust for beside the covariates, by estimator ``regression`` and,
    for times, ``survival``; other curves are then searched for only with ``curves: auto``.
    """

    kind: Literal["effect"]
    estimator: AskedEstimator
    treatment: Name
    arms: AskedArms | None = None
    outcome: OneOutcome | None = None
    outcomes: AskedOutcomes | None = None
    design: Annotated[AskedChange | None, Field(description="changes of 'outcome' from one period to others")] = None
    covariates: Annotated[AskedCovariates, Field(default_factory=dict)]
    terms: AskedTerms = ()
    subgroups: AskedSubgroups = None
    where: AskedWhere = ()
    missing: Missing | None = None
    missing_treatment: CountedAs | None = None
    missing_outcome: ImputedAs | None = None
    estimand: Estimand = Estimand.ATE
    confidence: Annotated[Finite, Field(ge=0.5, lt=1)] = 0.95
    measure: AskedMeasures | None = None
    clusters: Annotated[
        AskedClustersOrName,
        Field(
            description="the contract's column of clusters, and how many were treated where treatment was by cluster"
        ),
    ] = None
    weights: Annotated[Name | None, Field(description="the contract's column of survey weights")] = None
    gates: Gates | None = None
    contrasts: Annotated[
        tuple[RowContrast, ...],
        Field(description="weighted sums of rows, or ratios of two rows; a row is OUTCOME | SUBGROUP | ARM"),
    ] = ()
    standardise: Annotated[
        dict[Name, Annotated[dict[str, Annotated[Finite, Field(gt=0, le=1)]], Field(min_length=2)]] | None,
        Field(max_length=1, description="public shares of the levels of 'subgroups', as weights of a mean over them"),
    ] = None
    intervals: Annotated[int, Field(ge=1, le=MOST_INTERVALS, description="of the grid of times")] | None = None
    censoring: Annotated[
        AskedCensoring,
        Field(description="columns on which censoring may depend, and the least share followed"),
    ] = AskedCensoring()
    expect: Annotated[Expected, Field(description="what `plan` expects of the units; it changes no release")] = (
        Expected()
    )

    @model_validator(mode="before")
    @classmethod
    def _changes(cls, document: Any) -> Any:
        return changes_in_full(document) if isinstance(document, Mapping) else document

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if self.outcome is not None and self.outcomes is not None:
            raise RuleBroken("'outcome' is short for 'outcomes' of one: write one of the two keys", "outcome")
        if self.outcome is None and self.outcomes is None:
            raise RuleBroken(missing_key("outcome"), "outcome")
        return self

    @model_validator(mode="after")
    def _shares_of_subgroups(self) -> Self:
        for name, shares in (self.standardise or {}).items():
            if self.subgroups is None or name != self.subgroups.name:
                raise RuleBroken(f"'standardise' weighs subgroups: write 'subgroups: {name}'", "standardise")
            if self.arms is not None:
                raise RuleBroken("'standardise' is of two arms; of more write 'contrasts'", "standardise")
            if abs(math.fsum(shares.values()) - 1) > SHARES_ROUNDED:
                raise RuleBroken("'standardise' has shares that do not add up to 1", "standardise")
        return self

    @model_validator(mode="after")
    def _of_its_estimator(self) -> Self:
        """Refuse times by estimators but ``survival``, and keys of the other kind of outcome."""
        if self.outcome is None and self.outcomes is None:
            return self
        for outcome in self.questions:
            if isinstance(outcome, AskedTimes) and not self.of_times:
                raise RuleBroken(
                    f"'{self.place}': a time to an event is asked for by 'estimator: {{name: survival}}'; any other "
                    "outcome is one column, as {name: COLUMN}",
                    self.place,
                )
            if self.of_times and not isinstance(outcome, AskedTimes):
                raise RuleBroken(
                    f"'{self.place}': estimator 'survival' asks for a time to an event: {{time: COLUMN, event: COLUMN, "
                    "horizon: N}",
                    self.place,
                )
        kind = "columns of numbers" if self.of_times else "times to an event"
        for key in OF_NUMBERS if self.of_times else OF_TIMES:
            if getattr(self, key) != type(self).model_fields[key].default:
                raise RuleBroken(f"'{key}' is for outcomes that are {kind}; remove it", key)
        for key in EXPECTED_OF_NUMBERS if self.of_times else EXPECTED_OF_TIMES:
            if key in self.expect.model_fields_set:
                raise RuleBroken(f"'expect.{key}' is for outcomes that are {kind}; remove it", f"expect.{key}")
        if self.expect.icc is not None and self.clusters is None:
            raise RuleBroken("'expect.icc' is a correlation within 'clusters', of which there are none", "expect.icc")
        measures = tuple(map(str, Measure if self.of_times else EffectMeasure))
        if not set(self.measure or ()) <= set(measures):
            raise RuleBroken(f"'measure' must be one of {', '.join(map(repr, measures))} of such an outcome", "measure")
        return self

    @property
    def compared(self) -> tuple[RowContrast, ...]:
        """The contrasts, and the mean of each outcome by the public shares of ``standardise``."""
        (shares,) = (self.standardise or {"": {}}).values()
        standardised = [
            RowContrast(
                name=f"{outcome.name}, standardised",
                of={f"{outcome.name} | {level}": share for level, share in shares.items()},
            )
            for outcome in self.questions
            if shares and isinstance(outcome, AskedOutcome)
        ]
        return (*self.contrasts, *standardised)

    @property
    def settings(self) -> EstimatorSettings:
        """The estimator's settings, without a search of curves where terms are declared."""
        return of_stated_form(self.estimator, self.terms)

    @property
    def of_times(self) -> bool:
        """Return whether it asks for times to an event."""
        return self.estimator.name == "survival"

    @property
    def place(self) -> str:
        """The key under which its outcomes stand."""
        return "outcome" if self.outcomes is None else "outcomes"

    @property
    def questions(self) -> tuple[AskedOutcome | AskedTimesOutcome, ...]:
        """The outcomes; a single one has importance 1, and is primary unless it has a role."""
        outcomes = self.outcomes or (() if self.outcome is None else (self.outcome,))
        if len(outcomes) != 1:
            return outcomes
        importance = {"importance": 1.0} if isinstance(outcomes[0], AskedOf) else {}
        role = {} if "role" in outcomes[0].model_fields_set else {"role": OutcomeRole.primary}
        return (outcomes[0].model_copy(update=importance | role),)

    @property
    def measures(self) -> tuple[str, ...]:
        """The comparisons of arms."""
        if self.measure is not None:
            return self.measure
        if not self.of_times:
            return (EffectMeasure.difference,)
        return (Measure.risk,) if self.covariates else (Measure.risk, Measure.rmst)

    @property
    def of_many(self) -> tuple[str, ...]:
        """The keys by which it asks more than one question of all units."""
        first = self.questions[0]
        several = {
            "arms": self.arms is not None,
            "outcomes": len(self.questions) > 1 or first.role is not OutcomeRole.primary,
            "subgroups": self.subgroups is not None,
            "gates": self.gates is not None,
            "contrasts": bool(self.contrasts or self.standardise),
            # A single question of times may have conditions and both measures.
            "where": bool(self.where) and not self.of_times,
            "measure": self.measures != (EffectMeasure.difference,) and not self.of_times,
        }
        return tuple(key for key, is_used in several.items() if is_used)


class DirectionStudyFile(StudyFile):
    """Asks which of two variables causes the other."""

    kind: Literal["direction"]
    estimator: DirectionEstimator
    pair: AskedPair


STUDY_FILES: Mapping[str, type[StudyFile]] = {"effect": EffectStudyFile, "direction": DirectionStudyFile}


def model_of(document: Mapping[str, Any], where: str) -> type[StudyFile]:
    """Return the model of a study file, by its kind.

    Raises:
        StudyError: its kind or estimator is unknown.
    """
    if document.get("kind") == FORMER_KIND:
        line = line_of(document, ("kind",))
        place = where if line is None else f"{where}: line {line}"
        raise StudyError(f"{place}: write 'kind: effect' in place of 'kind: {FORMER_KIND}'; the rest stays as it is")
    kind, _ = named({**STUDIES, "effect": (*STUDIES["effect"], "auto")}, document, where)
    return STUDY_FILES[kind]


def parse_study_file(document: Mapping[str, Any], where: str = "study") -> StudyFile:
    """Return a study file from a document.

    Raises:
        StudyError: with every problem in one line.
    """
    return validate(model_of(document, where), document, where)


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
    union: Any = EffectStudyFile | DirectionStudyFile
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **TypeAdapter(union).json_schema(mode="validation"),
        "title": "causalveil study, version 1",
    }
