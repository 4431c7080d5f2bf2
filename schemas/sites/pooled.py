"""Report what sites found together.

A pooled release is computed from the releases of several sites alone. Nothing here costs budget: it is post-processing
of what the sites released. It stands in no ledger of its own and names the ledger entry of each site instead.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, TypeAdapter

from causalveil.schemas.confounding import ConfoundingStatement
from causalveil.schemas.documents import as_written, parse_json, read_text
from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.survival import Curves, LogRankTest, Measure
from causalveil.schemas.ledger import BudgetOutlook
from causalveil.schemas.limits import Limit
from causalveil.schemas.mistakes import validate
from causalveil.schemas.privacy import Amount, Frozen, Guarantee, Level, Neighbours, PublicKey, amount_text
from causalveil.schemas.protocols.answers import BalanceRow, Calibration, GateResult, GateVerdict, Limits, State
from causalveil.schemas.protocols.study import OutcomeRole
from causalveil.schemas.release import (
    ApprovalStatement,
    Interval,
    LedgerStatement,
    Release,
    Software,
    Variance,
    answer_text,
    load_release_text,
    release_file,
)
from causalveil.schemas.shown import Shown
from causalveil.schemas.sites.round import Digest, Instant, Model, PooledBy, SignedTerms
from causalveil.schemas.study import Estimand, Finite, Slug

SCHEMA_FILE = Path(__file__).with_name("pooled-v1.schema.json")
Share = Annotated[Finite, Field(ge=0, le=1)]
Stated = Annotated[
    ConfoundingStatement | None, Field(description="what was done about confounding; null in older releases")
]


class PooledEstimate(Frozen):
    """One way of pooling.

    ``standard_error`` is the half-width of the interval over its quantile.
    """

    estimate: Finite
    interval: Interval
    variance: Annotated[Variance, Field(description="of the weighted mean for fixed sites: sampling and noise")]
    standard_error: Annotated[Finite, Field(ge=0)]


class Heterogeneity(Frozen):
    """Heterogeneity of the sites beyond their sampling error and their noise."""

    q: Annotated[Finite, Field(ge=0, description="Cochran's Q, each site weighted by sampling plus noise variance")]
    degrees: Annotated[int, Field(ge=1)]
    p_value: Share
    tau2: Annotated[Finite, Field(ge=0, description="variance between sites (DerSimonian-Laird), squared units")]
    i2: Annotated[Share, Field(description="share of Q that sampling error and noise do not explain")]


class WithoutSite(Frozen):
    """The pooled answer of all sites but one; random effects need two of them at least."""

    site: Slug
    fixed: PooledEstimate
    random: PooledEstimate | None


class SiteRecord(Frozen):
    """Whom a site's answer is of, and where its charge stands."""

    site: Slug
    dataset: str
    units: int
    run_id: str
    epsilon: Amount
    delta: Amount
    study_digest: Digest
    policy_digest: Digest
    bundle_digest: Annotated[Digest, Field(description="SHA-256 of the bundle's bytes")]
    key: PublicKey
    issued_at: Instant
    finished_at: Instant
    not_covered: tuple[Limit, ...]
    ledger: LedgerStatement
    version: Annotated[str, Field(description="of causalveil at the site")]
    approval: Annotated[
        ApprovalStatement | None, Field(description="who had to allow the site's release; null in older releases")
    ] = None
    budget: Annotated[
        BudgetOutlook | None,
        Field(description="what was left of the site's budget when it answered; null in older releases"),
    ] = None


class SiteResult(SiteRecord):
    """One site's contribution to one effect."""

    estimate: Finite
    interval: Interval
    variance: Variance
    weight_fixed: Share
    weight_random: Share
    confounding: Stated = None


class PooledPrivacy(Frozen):
    """The guarantee in full.

    Sites are disjoint, so a person spends what their own site spent and no more.
    """

    unit: str
    neighbours: Neighbours
    level: Level
    epsilon: Annotated[Amount, Field(description="the largest of any site")]
    delta: Annotated[Amount, Field(description="the largest of any site")]
    units_disjoint: Annotated[Literal[True], Field(description="declared by the coordinator, not checked")]
    unprotected: tuple[str, ...]


class OfSites(Shown, Frozen):
    """The common part of pooled releases: which study, which round, on whose declaration."""

    kind: str
    schema_version: Literal[1] = 1
    study: str
    study_digest: Annotated[Digest, Field(description="of the study that travelled")]
    specification: dict[str, Any]
    round: Slug
    units: Annotated[int, Field(ge=1, description="of all sites together")]
    estimand: Estimand
    estimator: str
    guarantee: Guarantee
    model: Annotated[Model, Field(description="declared in sites.yaml: which estimate is the headline")]
    terms: Annotated[
        SignedTerms, Field(description="of the round, as every site answered to them, and of those before")
    ]
    privacy: PooledPrivacy
    not_for_release: Literal[False] = False
    software: Software
    units_of_measure: Annotated[
        dict[str, str], Field(description="of the study's columns, where all sites' contracts name the same")
    ] = Field(default_factory=dict)

    def brief(self) -> str:
        """Return study, question, answer and cost in one line."""
        asked = f"{self.study}: {self.estimand} by {self.estimator}, round {self.round}"
        return f"{asked}, {self.answer()}, epsilon {amount_text(self.privacy.epsilon)}"

    def answer(self) -> str:
        """Return the answer in a few words."""
        return f"{self.units:,} units"


class PooledRelease(OfSites):
    """A treatment effect over several sites."""

    kind: Literal["pooled"] = "pooled"
    estimate: Finite
    interval: Interval
    variance: Variance
    fixed: PooledEstimate
    random: PooledEstimate
    heterogeneity: Heterogeneity
    sites: Annotated[tuple[SiteResult, ...], Field(min_length=2)]
    leave_one_out: tuple[WithoutSite, ...]
    confounding: Stated = None

    def answer(self) -> str:
        """Return the estimate and its interval."""
        return answer_text(self.estimate, self.interval)


class CellState(StrEnum):
    """The state of a question of a protocol: it has a pooled answer or not.

    ``unresolved``: fewer than two sites answered it. ``withheld`` and ``marked``: a gate failed on the pooled balance;
    marked also if a site marked its part.
    """

    answered = "answered"
    unresolved = "unresolved"
    marked = "marked"
    withheld = "withheld"


class SitePart(Frozen):
    """One site's answer to one question, and its weight.

    ``state`` says why it has no numbers.
    """

    site: Slug
    state: State
    estimate: Finite | None
    interval: Limits | None
    weight_fixed: Share = 0.0
    weight_random: Share = 0.0
    confounding: Stated = None

    def weight(self, model: Model) -> float:
        """Return the site's weight under a model."""
        return self.weight_fixed if model is Model.fixed else self.weight_random


class PooledAnswer(Frozen):
    """One row of a pooled protocol: an outcome, a subgroup and an arm.

    It is over all sites that answered.

    ``simultaneous`` and ``calibrated`` are of the declared model: all simultaneous intervals of the release hold
    together, and calibrated ones are moved and widened by what the pooled negative controls show.
    """

    outcome: str
    role: OutcomeRole
    group: str
    arm: str
    reference: str
    state: CellState
    fixed: PooledEstimate | None
    random: PooledEstimate | None
    simultaneous: Limits | None
    calibrated: Limits | None
    heterogeneity: Heterogeneity | None
    sites: Annotated[tuple[SitePart, ...], Field(min_length=2)]
    confounding: Stated = None


class SiteGate(GateResult):
    """A gate as a site found it."""

    site: Slug


class PooledProtocolRelease(OfSites):
    """A protocol's table over several sites: pooled cell by cell.

    ``balance`` is each covariate's difference as the first primary outcome weighs the sites, and ``gates`` are those
    on balance, judged on it; ``site_gates`` are as each site found them.
    """

    kind: Literal["pooled_protocol"] = "pooled_protocol"
    confidence: Finite
    answers: tuple[PooledAnswer, ...]
    balance: tuple[BalanceRow, ...]
    gates: tuple[GateResult, ...]
    site_gates: tuple[SiteGate, ...]
    calibration: Calibration
    not_covered: tuple[Limit, ...]
    sites: Annotated[tuple[SiteRecord, ...], Field(min_length=2)]

    def headline(self, answer: PooledAnswer) -> PooledEstimate | None:
        """Return the estimate of the declared model."""
        return answer.fixed if self.model is Model.fixed else answer.random

    @property
    def gate_failed(self) -> bool:
        """Return whether a declared gate failed on the pooled balance."""
        return any(gate.verdict is GateVerdict.failed for gate in self.gates)

    def answer(self) -> str:
        """Return how many answers there are."""
        return f"{len(self.answers)} answer{'' if len(self.answers) == 1 else 's'}"


# What stands for the estimate of a site that has no part in a measure.
NOT_SEEN = "hidden by noise"
MEASURES = {Measure.risk: "Risk difference", Measure.rmst: "Difference of restricted mean survival times"}


class PooledMeasure(Frozen):
    """One measure of the time to an event over the sites that answered it.

    A site has no part in it where noise hides whether any unit was followed so long.
    """

    measure: Measure
    state: CellState
    fixed: PooledEstimate | None
    random: PooledEstimate | None
    stratified: Annotated[
        PooledEstimate | None,
        Field(description="arms compared within sites, each site by its people; null: by effects"),
    ]
    heterogeneity: Heterogeneity | None
    sites: Annotated[tuple[SitePart, ...], Field(min_length=2)]
    leave_one_out: tuple[WithoutSite, ...]

    @property
    def words(self) -> str:
        """Return the measure in a few words."""
        return MEASURES[self.measure]


class PooledSurvivalRelease(OfSites):
    """Effects on the time to an event over several sites: every measure, pooled as an effect is.

    By cells the headline is stratified by site, and ``curves`` are the arms' means over sites, where all have one grid.
    """

    kind: Literal["pooled_survival"] = "pooled_survival"
    confidence: Finite
    pooled_by: PooledBy
    horizon: Annotated[Finite, Field(gt=0)]
    unit: Annotated[str | None, Field(description="of the times, as every site's contract names it")]
    origin: str
    events: Annotated[tuple[str, ...], Field(description="what counts, and what competes with it")]
    measures: Annotated[tuple[PooledMeasure, ...], Field(min_length=1)]
    curves: Curves | None
    log_rank: Annotated[
        LogRankTest | None, Field(description="within sites, by cells; null: by effects, or noise hides the people")
    ]
    not_covered: tuple[Limit, ...]
    sites: Annotated[tuple[SiteRecord, ...], Field(min_length=2)]
    confounding: Stated = None

    @property
    def question(self) -> tuple[str, ...]:
        """Say what was asked: event, horizon, origin, and what competes."""
        unit = "" if self.unit is None else f" {self.unit}"
        asked = f"{self.events[0]} until {self.horizon:g}{unit} (origin: {self.origin})"
        return (asked, *(f"competing: {one}" for one in self.events[1:]))

    def unit_of(self, measure: PooledMeasure) -> str:
        """Return the unit of a measure; of a risk there is none."""
        return self.unit or "" if measure.measure is Measure.rmst else ""

    def answer(self) -> str:
        """Return the first measure's estimate and its interval."""
        found = self.headline(self.measures[0])
        return "no answer" if found is None else answer_text(found.estimate, found.interval)

    def headline(self, measure: PooledMeasure) -> PooledEstimate | None:
        """Return the declared estimate: stratified by site, or of the declared model."""
        if self.pooled_by is PooledBy.cells:
            return measure.stratified
        return measure.fixed if self.model is Model.fixed else measure.random

    @property
    def way(self) -> str:
        """Return what the headline is, in a few words."""
        return "stratified by site" if self.pooled_by is PooledBy.cells else f"{self.model} effects"


Pooled: TypeAlias = PooledRelease | PooledProtocolRelease | PooledSurvivalRelease
Published: TypeAlias = Release | Pooled
POOLED: dict[str, type[Pooled]] = {
    "pooled": PooledRelease,
    "pooled_protocol": PooledProtocolRelease,
    "pooled_survival": PooledSurvivalRelease,
}
# What a reader skips first stands last in the file.
LAST = ("terms", "privacy", "not_for_release", "software")


def pooled_schema() -> dict[str, Any]:
    """Return the JSON Schema of a pooled release.

    ``schemas/sites/pooled-v1.schema.json`` is its export.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **TypeAdapter(
            Annotated[Pooled, Discriminator("kind")],
        ).json_schema(mode="serialization"),
        "title": "causalveil pooled release, version 1",
    }


def pooled_text(release: Pooled) -> str:
    """Return the bytes of a pooled release.json.

    They are indented, in the order of the model, but with ``LAST`` at the end.
    """
    document = release.model_dump(mode="json")
    ordered = {key: document[key] for key in document if key not in LAST} | {key: document[key] for key in LAST}
    return json.dumps(ordered, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def load_published(path: Path) -> Published:
    """Read a release of any kind back, of a run or pooled: a file, or that of a run's folder.

    Raises:
        StudyError: missing, not JSON, of an unknown kind, or not of its schema.
    """
    path = release_file(path)
    text = read_text(path)
    try:
        document = parse_json(text)
    except ValueError:
        raise StudyError(f"{path}: is not a JSON document") from None
    kind = document.get("kind") if isinstance(document, dict) else None
    if isinstance(kind, str) and kind in POOLED:
        return validate(POOLED[kind], document, as_written(str(path), document))
    return load_release_text(text, str(path))
