"""dataset.yaml: what the data's owner declares and allows.

It lies beside the data, is about the folder that it lies in, and is required for every run. The owner alone declares
who is protected, what each column holds and what may be asked; a study can only ask (``schemas/asked/``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_validator, model_validator

from causalveil.schemas.clusters import DeclaredClusters, SurveyWeights
from causalveil.schemas.columns import Name, levels_text
from causalveil.schemas.declared import (
    Aggregate,
    Declared,
    DeclaredColumn,
    LevelsColumn,
    NumberColumn,
    RowsPerUnit,
    offered,
)
from causalveil.schemas.documents import MAX_BYTES, Breach, RuleBroken, parse_yaml, read_text
from causalveil.schemas.errors import BudgetRefused, ContractError, StudyError
from causalveil.schemas.hints import option
from causalveil.schemas.mistakes import validate
from causalveil.schemas.privacy import Accounting, Frozen, Guarantee, Half, Level, PrivacyCost, PublicKey
from causalveil.schemas.studies import estimator_names
from causalveil.schemas.study import Slug, Study

CONTRACT_FILE = "dataset.yaml"
CONTRACT_SCHEMA_FILE = Path(__file__).with_name("dataset-v1.schema.json")


class DataClass(StrEnum):
    """The owner's class of the data.

    ``sensitive`` data need an owner's grant and refuse seeded noise.
    """

    public = "public"
    synthetic = "synthetic"
    sensitive = "sensitive"


class Review(StrEnum):
    """The rule for releases: released at once, or held until the owner approves."""

    none = "none"
    required = "required"


class BlockKey(Frozen):
    """The folder key of ledger blocks, and whether a unit may have rows in several blocks."""

    key: Name
    units_span: bool


def _known_estimator(name: str) -> str:
    if name not in estimator_names():
        raise ValueError(f"unknown estimator; one of: {', '.join(estimator_names())}")
    return name


EstimatorName = Annotated[str, AfterValidator(_known_estimator)]


class Contract(Frozen):
    """The owner's declaration of a dataset: columns, who is protected, and what may be asked."""

    dataset: Slug
    data_class: DataClass
    ledger: Annotated[str | None, Field(pattern=r"^[0-9a-f]{32}$")] = None
    unit: Annotated[Name, Field(description="the column that names the protected unit")]
    blocks: BlockKey | None = None
    columns: Annotated[dict[Name, Declared], Field(min_length=1)]
    open_ranges: Annotated[
        dict[Name, DeclaredColumn], Field(description="numbers whose range is still to be decided; no study names them")
    ] = Field(default_factory=dict)
    rows: Annotated[
        RowsPerUnit | None, Field(description="how several rows of a unit become one when data are admitted")
    ] = None
    public: Annotated[tuple[Name, ...], Field(description="columns that are public: no noise need protect them")]
    clusters: Annotated[
        dict[Name, DeclaredClusters],
        Field(description="columns that name clusters of units, such as a school: how many clusters each names"),
    ] = Field(default_factory=dict)
    weights: Annotated[
        SurveyWeights | None,
        Field(
            description="the column of survey weights, and the largest weight that counts in full",
            exclude_if=lambda weights: weights is None,
        ),
    ] = None
    recorded_is_public: Annotated[
        tuple[Name, ...],
        Field(description="columns of which it is public whether they hold a value; rows without one may be left out"),
    ] = ()
    bounds_from_data: Annotated[
        tuple[Name, ...],
        Field(description="columns whose range or levels were drafted from the rows; none of sensitive data"),
    ] = ()
    caps: Annotated[dict[Level, PrivacyCost], Field(min_length=1)]
    accounting: Accounting = Accounting.concentrated
    estimators: Annotated[
        tuple[EstimatorName, ...], Field(min_length=1, default_factory=estimator_names, validate_default=True)
    ]
    guarantees: Annotated[tuple[Guarantee, ...], Field(min_length=1)] = (Guarantee.finite_sample,)
    unbounded_halves: Annotated[
        tuple[Half, ...],
        Field(description="halves of a split that a study may leave without any privacy bound"),
    ] = ()
    review: Review = Review.none
    owner_key: Annotated[
        PublicKey | None, Field(description="the owner's public key; grants of sensitive data are signed")
    ] = None
    # A share of the cap: when less remains, scheduled runs send the event ``causalveil.budget.low``.
    warn_below: Annotated[float | None, Field(gt=0, lt=1, strict=False)] = None

    @field_validator("caps")
    @classmethod
    def _caps_allow_something(cls, caps: dict[Level, PrivacyCost]) -> dict[Level, PrivacyCost]:
        for level, cap in caps.items():
            if cap.epsilon <= 0:
                raise ValueError(f"the cap of level '{level}' allows nothing; leave the level out to forbid it")
            if cap.delta >= 1:
                raise ValueError(f"the cap of level '{level}': delta must be below 1")
        return caps

    def signed_sum(self, name: str) -> bool:
        """Return whether a column is a sum of a unit's rows that may have either sign."""
        column = self.columns[name]
        summed = self.rows is not None and self.rows.aggregate(name) is Aggregate.sum
        return summed and isinstance(column, NumberColumn) and column.lower < 0 < column.upper

    @field_validator("public", "recorded_is_public", "bounds_from_data", "estimators", "guarantees", "unbounded_halves")
    @classmethod
    def _once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        twice = sorted({str(value) for value in values if values.count(value) > 1})
        if twice:
            raise ValueError(f"'{twice[0]}' stands twice; write it once")
        return values

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Contract:
        breaches = [*self._roles_clash(), *self._promises_without_effect()]
        try:
            if self.rows is not None:
                self.rows.check(self.unit, self.columns)
        except RuleBroken as problem:
            breaches += problem.breaches
        else:
            # The columns that a study can name follow from valid ``rows`` only.
            breaches += self._names_without_values()
        if breaches:
            raise RuleBroken("", also=breaches)
        return self

    def _roles_clash(self) -> Iterator[Breach]:
        if self.unit in self.columns:
            yield self._twice("columns")
        if self.unit in self.public:
            yield self._twice("public")
        for name in self.clusters:
            if name in self.columns or name == self.unit:
                text = f"'clusters' names '{name}', which is declared already; a column of clusters has no other role"
                yield Breach("clusters", text, (name,))
        if self.clusters and self.blocks is not None:
            text = "'clusters' do not go with 'blocks', over which a cluster may be spread; leave one of them out"
            yield Breach("clusters", text)
        if self.clusters and self.rows is not None:
            text = "'clusters' do not go with 'rows', which make one row of several; leave one of them out"
            yield Breach("clusters", text)
        if self.weights is not None and self.weights.column in (self.unit, *self.columns, *self.clusters):
            name = self.weights.column
            text = f"'weights' names '{name}', which is declared already; a column of weights has no other role"
            yield Breach("weights", text, (name,))
        if self.weights is not None and self.rows is not None:
            text = "'weights' do not go with 'rows', which make one row of several; leave one of them out"
            yield Breach("weights", text)
        for name in self.open_ranges:
            if name in self.columns or name == self.unit:
                text = f"'open_ranges' names '{name}', which is declared already; take it out there"
                yield Breach("open_ranges", text, (name,))

    def _twice(self, key: str) -> Breach:
        text = f"'unit' is column '{self.unit}', which stands under '{key}' too; take it out there"
        return Breach("unit", text, (self.unit,))

    def _names_without_values(self) -> Iterator[Breach]:
        for name in self.public:
            if name not in self.offered and name != self.unit and name not in self.clusters:
                text = f"'public' names '{name}', which is no key of 'columns'; declare it there"
                yield Breach("public", text, (name,))
        for name in self.bounds_from_data:
            if name not in self.columns:
                text = f"'bounds_from_data' names '{name}', which is no key of 'columns'; take it out"
                yield Breach("bounds_from_data", text, (name,))
        if self.blocks is not None and self.blocks.key in (self.unit, *self.columns, *self.offered):
            text = f"'blocks.key' is '{self.blocks.key}', a folder key; no column may have its name"
            yield Breach("blocks.key", text, (self.blocks.key,))

    def _promises_without_effect(self) -> Iterator[Breach]:
        if Guarantee.asymptotic in self.guarantees and self.data_class is DataClass.sensitive:
            yield Breach(
                "guarantees",
                "'guarantees': asymptotic has no privacy guarantee at any number of units and prints exact numbers "
                "of the data, so it needs 'data_class: public' or 'synthetic'; take it out",
            )
        if self.bounds_from_data and self.data_class is DataClass.sensitive:
            yield Breach(
                "bounds_from_data",
                "'bounds_from_data': a range read off sensitive data reveals the person at its end; declare it from "
                "public knowledge and take the column out, or let `causalveil ranges` find it",
            )
        if self.review is Review.required and self.owner_key is None:
            text = "'review: required' needs 'owner_key': the owner prints it by `causalveil owner key`"
            yield Breach("review", text, ("owner_key",))

    @property
    def units_span_blocks(self) -> bool:
        """True if a unit may have rows in several blocks, as the owner declares."""
        return self.blocks is not None and self.blocks.units_span

    @property
    def offered(self) -> dict[str, Declared]:
        """The columns that a study can name: as declared, or as they are after rows are reduced."""
        return offered(self.rows, self.columns)

    @property
    def named_levels(self) -> dict[str, str]:
        """The levels of each column that names them, in words."""
        return {
            name: levels_text({"levels": column.codes, "names": column.names})
            for name, column in self.columns.items()
            if isinstance(column, LevelsColumn) and column.names is not None
        }

    def unspeakable(self, required: Iterable[str]) -> str | None:
        """Return the first required column whose missing values are private; None: there is none.

        Rows without a value in it would be left out, and n is printed exactly before any grant: of sensitive data it
        may depend on ids alone, and on columns in ``recorded_is_public``.
        """
        if self.data_class is not DataClass.sensitive:
            return None
        public = (self.unit, *self.recorded_is_public)
        return next((name for name in required if name not in public), None)

    @property
    def digest(self) -> str:
        """SHA-256 over all keys but ``ledger`` and ``warn_below``."""
        # Contracts of versions before clusters keep their digests.
        without = {"ledger", "warn_below", *(() if self.clusters else ("clusters",))}
        return hashlib.sha256(self.model_dump_json(exclude=without).encode()).hexdigest()

    @property
    def for_simulation(self) -> Contract:
        """A copy for a temporary ledger: without owner's key, review and ledger."""
        return self.model_copy(update={"ledger": None, "review": Review.none, "owner_key": None})


def contract_schema() -> dict[str, Any]:
    """Return the JSON Schema of dataset.yaml, for editors.

    ``schemas/dataset-v1.schema.json`` is its export.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Contract.model_json_schema(mode="validation"),
        "title": "causalveil dataset contract, version 1",
    }


def parse_contract(text: str, where: str) -> Contract:
    """Validate the text of a dataset.yaml; ``where`` names it.

    Raises:
        ContractError: it is wrong.
    """
    return validate(Contract, parse_yaml(text, where, ContractError), where, ContractError)


def load_contract(path: Path) -> Contract:
    """Read and validate a dataset.yaml at a path, to grant or to quote it.

    Code that reads rows has the contract of the folder that it opened: ``tasks.data.data_folder``.

    Raises:
        ContractError: missing, a link, or wrong.
    """
    if path.is_symlink():
        raise ContractError(f"{path}: is a link; the contract must be a file in the folder of its data")
    if not path.exists():
        raise ContractError(f"{path}: no contract; the data's owner must put one beside the data before anything runs")
    return parse_contract(read_text(path, ContractError, MAX_BYTES), str(path))


def check_allowed(contract: Contract, study: Study, *, simulate: bool) -> None:
    """Check a study against its contract, but for amounts, which the ledger checks.

    Args:
        contract: the contract.
        study: the study.
        simulate: whether noise is seeded.

    Raises:
        ContractError: seeded noise on sensitive data, or a forbidden estimator, guarantee or unbounded half.
        BudgetRefused: the level has no cap.
    """
    for refusal in refusals(contract, study, simulate=simulate):
        raise refusal


def refusals(contract: Contract, study: Study, *, simulate: bool) -> Iterator[StudyError | BudgetRefused]:
    """List everything for which :func:`check_allowed` may refuse a study."""
    if simulate and contract.data_class is DataClass.sensitive:
        yield ContractError(
            f"{option('simulate')} is refused for sensitive data: noise that can be made again is no noise; "
            "use `causalveil simulate` for data to try things on"
        )
    if study.estimator.name not in contract.estimators:
        yield ContractError(
            f"the contract of '{contract.dataset}' does not allow estimator '{study.estimator.name}'; it allows "
            f"{', '.join(contract.estimators)}"
        )
    if study.guarantee not in contract.guarantees:
        yield ContractError(f"the contract of '{contract.dataset}' does not allow guarantee '{study.guarantee}'")
    for half in study.unbounded:
        if half not in contract.unbounded_halves:
            yield ContractError(
                f"the contract of '{contract.dataset}' does not allow a study that leaves the {half} half without "
                f"a privacy bound; its owner may write 'unbounded_halves: [{half}]', or the study protect both"
            )
    if study.privacy.level not in contract.caps:
        yield BudgetRefused(
            f"the contract of '{contract.dataset}' names no cap for level '{study.privacy.level}', so it is forbidden; "
            f"levels allowed: {', '.join(sorted(contract.caps))}"
        )
