"""Combine releases: of several sites, and of blocks of one dataset over time.

A pooled release is computed from the sites' releases alone. That is post-processing and costs no budget: it is in no
ledger, and names the ledger entry of each site.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import Field

from causalveil.schemas.answers import Answer, GateResult, Limits, State
from causalveil.schemas.columns import Finite
from causalveil.schemas.confounding import ConfoundingStatement
from causalveil.schemas.contradictions import contradictions_of_pooled
from causalveil.schemas.documents import as_written, parse_json, read_text
from causalveil.schemas.errors import ReleaseContradicted, StudyError
from causalveil.schemas.ledger import BudgetOutlook
from causalveil.schemas.limits import Limit
from causalveil.schemas.mistakes import validate
from causalveil.schemas.privacy import Amount, Frozen, Guarantee, Level, Neighbours, PublicKey, amount_text
from causalveil.schemas.release import (
    ApprovalStatement,
    EffectTable,
    Interval,
    LedgerStatement,
    Release,
    Software,
    Variance,
    load_release_text,
    release_file,
)
from causalveil.schemas.sites.round import Digest, Instant, Model, PooledBy, SignedTerms
from causalveil.schemas.study import Slug

SCHEMA_FILE = Path(__file__).with_name("pooled-v1.schema.json")
KIND = "pooled"
Share = Annotated[Finite, Field(ge=0, le=1)]


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
    """A site's units, and the ledger entry of its charge."""

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
        ApprovalStatement | None,
        Field(description="who had to allow the site's release; null: the release does not say"),
    ] = None
    budget: Annotated[
        BudgetOutlook | None,
        Field(description="what was left of the site's budget when it answered; null: the release does not say"),
    ] = None


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


class SourcePart(Frozen):
    """The answer of one site or of one block to one question, and its weight.

    ``state``: the reason if it has no numbers and no part in the pooled answer.
    """

    state: State
    estimate: Finite | None
    interval: Limits | None
    sampling_error: Annotated[Finite | None, Field(ge=0)]
    noise_error: Annotated[Finite | None, Field(ge=0)]
    weight_fixed: Share = 0.0
    weight_random: Share = 0.0
    confounding: ConfoundingStatement | None = None

    @property
    def source(self) -> str:
        """The site or the block."""
        raise NotImplementedError

    def weight(self, model: Model) -> float:
        """Return the weight under a model."""
        return self.weight_fixed if model is Model.fixed else self.weight_random


class SitePart(SourcePart):
    """One site's answer to one question."""

    site: Slug

    @property
    def source(self) -> str:
        """The site."""
        return self.site


class CombinedAnswer(Answer):
    """A row of a table over several sites or blocks: the effect by both models.

    ``estimate``, ``interval`` and the errors are those of the declared model. An unresolved row has none: fewer than
    two sites or blocks answered it.
    """

    fixed: PooledEstimate | None
    random: PooledEstimate | None
    stratified: Annotated[
        PooledEstimate | None, Field(description="of times by released cells, within sites; null: by effects")
    ] = None
    heterogeneity: Heterogeneity | None

    @property
    def parts(self) -> tuple[SourcePart, ...]:
        """The answers of sites or of blocks."""
        raise NotImplementedError

    @property
    def silent(self) -> tuple[str, ...]:
        """The sites or blocks without an answer."""
        return tuple(part.source for part in self.parts if part.estimate is None)


class PooledAnswer(CombinedAnswer):
    """A row of a table over several sites.

    By cells, arms of times to an event are compared within sites and each site counts by its people: ``stratified``.
    """

    sites: Annotated[tuple[SitePart, ...], Field(min_length=2)]
    leave_one_out: tuple[WithoutSite, ...]

    @property
    def parts(self) -> tuple[SourcePart, ...]:
        """The answers of the sites."""
        return self.sites


class CombinedTable(EffectTable):
    """A table of effects over several sites or blocks."""

    answers: Annotated[tuple[CombinedAnswer, ...], Field(min_length=1, description="the headline answer first")]

    @property
    def headline_model(self) -> Model:
        """The model of the answers."""
        raise NotImplementedError

    def chosen(self, answer: CombinedAnswer) -> PooledEstimate | None:
        """Return the declared estimate of an answer; None where it has no numbers."""
        return answer.stratified or (answer.fixed if self.headline_model is Model.fixed else answer.random)

    def estimates(self, answer: CombinedAnswer) -> list[tuple[str, PooledEstimate]]:
        """Return every estimate of an answer by name, the declared one last."""
        by_model = {Model.fixed: answer.fixed, Model.random: answer.random}
        estimates = [
            (f"{name.capitalize()} effects", by_model[name]) for name in sorted(Model, key=self.headline_model.__eq__)
        ]
        estimates.append(("Stratified by site", answer.stratified))
        return [(name, estimate) for name, estimate in estimates if estimate is not None]

    def interval_of(self, answer: Answer) -> Interval | None:
        """Return the interval of an answer; None where it has none."""
        estimate = self.chosen(cast(CombinedAnswer, answer))
        return None if estimate is None else estimate.interval

    def variance_of(self, answer: Answer) -> Variance | None:
        """Return an answer's variances; None where it has none."""
        estimate = self.chosen(cast(CombinedAnswer, answer))
        return None if estimate is None else estimate.variance


class SiteGate(GateResult):
    """A site's verdict on a gate."""

    site: Slug


class PooledRelease(CombinedTable):
    """A table of effects over several sites, the headline answer first.

    ``balance`` is each covariate's difference as the first primary outcome weighs the sites, and ``gates`` are those
    on balance, judged on it; ``site_gates`` are as each site found them. By cells ``curves`` are the arms' means over
    sites, where all have one grid.
    """

    kind: Literal["pooled"] = "pooled"
    study_digest: Annotated[Digest, Field(description="of the study that travelled")]
    specification: dict[str, Any]
    round: Slug
    units: Annotated[int, Field(ge=1, description="of all sites together")]
    estimator: str
    guarantee: Guarantee
    model: Annotated[Model, Field(description="declared in sites.yaml: which estimate is the headline")]
    pooled_by: PooledBy
    answers: Annotated[tuple[PooledAnswer, ...], Field(min_length=1, description="the headline answer first")]
    site_gates: tuple[SiteGate, ...]
    sites: Annotated[tuple[SiteRecord, ...], Field(min_length=2)]
    terms: Annotated[
        SignedTerms, Field(description="of the round, as every site answered to them, and of those before")
    ]
    privacy: PooledPrivacy
    not_for_release: Literal[False] = False
    software: Software
    units_of_measure: Annotated[
        dict[str, str], Field(description="of the study's columns, where all sites' contracts name the same")
    ] = Field(default_factory=dict)

    @property
    def headline_model(self) -> Model:
        """The model that the coordinator declared."""
        return self.model

    @property
    def way(self) -> str:
        """Return what the answers are, in a few words."""
        return "stratified by site" if self.pooled_by is PooledBy.cells else f"{self.model} effects"

    def brief(self) -> str:
        """Return study, question, answer and cost in one line."""
        asked = f"{self.study}: {self.estimand} by {self.estimator}, round {self.round}"
        return f"{asked}, {self.answer()}, epsilon {amount_text(self.privacy.epsilon)}"


Published: TypeAlias = Release | PooledRelease
# The question is first, then the answers; keys that most readers skip are last.
FIRST = (
    *("kind", "schema_version", "study", "study_digest", "specification", "round", "units"),
    *("estimand", "estimator", "guarantee", "model", "pooled_by"),
)
LAST = ("terms", "privacy", "not_for_release", "software")


def pooled_schema() -> dict[str, Any]:
    """Return the JSON Schema of a pooled release.

    ``schemas/sites/pooled-v1.schema.json`` is its export.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **PooledRelease.model_json_schema(mode="serialization"),
        "title": "causalveil pooled release, version 1",
    }


def pooled_text(release: PooledRelease) -> str:
    """Return the bytes of a pooled release.json.

    They are indented, in the order of the model, but with ``FIRST`` and ``LAST`` at the ends.
    """
    document = release.model_dump(mode="json")
    between = [key for key in document if key not in FIRST + LAST]
    ordered = {key: document[key] for key in (*FIRST, *between, *LAST)}
    return json.dumps(ordered, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def load_pooled(document: object, where: str) -> PooledRelease:
    """Read a pooled document back.

    Raises:
        StudyError: it is not of the schema; names the version that wrote it.
        ReleaseContradicted: its numbers contradict each other, or its study.
    """
    release = validate(PooledRelease, document, as_written(where, document))
    if wrong := list(contradictions_of_pooled(release)):
        raise ReleaseContradicted(f"{where}: contradicts itself: {'; '.join(wrong[:8])}")
    return release


def load_published(path: Path) -> Published:
    """Read a release of any kind back, of a run or pooled: a file, or that of a run's folder.

    Raises:
        StudyError: missing, not JSON, of an unknown kind, or not of its schema.
        ReleaseContradicted: its numbers contradict each other, or its study.
    """
    path = release_file(path)
    text = read_text(path)
    try:
        document = parse_json(text)
    except ValueError:
        raise StudyError(f"{path}: is not a JSON document") from None
    if isinstance(document, dict) and document.get("kind") == KIND:
        return load_pooled(document, str(path))
    return load_release_text(text, str(path))


class SeriesBlock(SourcePart):
    """One release in its place: the blocks that it was charged to, and its answer."""

    blocks: tuple[str, ...]
    run_id: str

    @property
    def source(self) -> str:
        """The blocks, the first and the last of them."""
        return " to ".join(dict.fromkeys((self.blocks[0], self.blocks[-1])))


class Drift(Frozen):
    """The slope of the answers over the blocks' order, by weighted least squares.

    The p-value is two-sided, for no slope.
    """

    per_block: Finite
    standard_error: Annotated[Finite, Field(ge=0)]
    p_value: Annotated[Finite, Field(ge=0, le=1)]


class Newest(Frozen):
    """The distance of the newest block from all others together.

    It says how often chance alone brings it so far.
    """

    blocks: tuple[str, ...]
    difference: Finite
    standard_error: Annotated[Finite, Field(ge=0)]
    p_value: Annotated[Finite, Field(ge=0, le=1)]


class SeriesAnswer(CombinedAnswer):
    """One question over time; all blocks are there, those without an answer too."""

    blocks: Annotated[tuple[SeriesBlock, ...], Field(min_length=2, description="oldest block first")]
    drift: Drift | None
    newest: Annotated[Newest | None, Field(description="of the newest block that answered")]

    @property
    def parts(self) -> tuple[SourcePart, ...]:
        """The answers of the blocks."""
        return self.blocks


class SeriesRun(Frozen):
    """One release of a series: its rows, cost, approval and place in the ledger."""

    run_id: str
    blocks: tuple[str, ...]
    units: int
    epsilon: Amount
    delta: Amount
    approval: ApprovalStatement | None
    budget: Annotated[BudgetOutlook | None, Field(description="what was left of the block's budget after that run")]
    ledger: LedgerStatement


class SeriesPrivacy(Frozen):
    """The guarantee of a series.

    No unit is in two blocks, so a unit spends what its own block spent.
    """

    unit: str
    level: Level
    neighbours: Neighbours
    epsilon: Annotated[Amount, Field(description="the largest of any block")]
    delta: Annotated[Amount, Field(description="the largest of any block")]
    unprotected: tuple[str, ...]


class Series(CombinedTable):
    """A series costs nothing: it is post-processing of releases of disjoint blocks.

    ``left_out``: finished runs of the study that charged a block again; the first release of a block counts.
    ``unreleased``: blocks that hold rows, and that no release of the study read.
    """

    kind: Literal["series"] = "series"
    specification: Annotated[dict[str, Any], Field(description="of the newest block's release")]
    dataset: str
    estimator: str
    answers: Annotated[tuple[SeriesAnswer, ...], Field(min_length=1, description="the headline answer first")]
    runs: Annotated[tuple[SeriesRun, ...], Field(min_length=2, description="oldest block first")]
    privacy: SeriesPrivacy
    units_of_measure: Annotated[dict[str, str], Field(description="of the study's columns, as the contract names them")]
    left_out: tuple[str, ...]
    unreleased: tuple[str, ...] = ()
    statement: str

    @property
    def headline_model(self) -> Model:
        """Blocks are pooled as they are, not as a draw from others like them."""
        return Model.fixed

    def estimates(self, answer: CombinedAnswer) -> list[tuple[str, PooledEstimate]]:
        """Return the estimate of an answer over all blocks, by name."""
        return [] if answer.fixed is None else [("all together", answer.fixed)]

    @property
    def unreleased_words(self) -> str:
        """Sentences on blocks that hold rows and have no release, the first five of them."""
        more = f" and {len(self.unreleased) - 5} more" if len(self.unreleased) > 5 else ""
        named = ", ".join(self.unreleased[:5])
        return f"Rows but no release: {named}{more}. 'data.select.blocks' of a study asks for them."

    def brief(self) -> str:
        """Return study, blocks and cost in one line."""
        asked = f"{self.study}: series of {self.dataset} by {self.estimator}, {len(self.runs)} releases"
        return f"{asked}, {len(self.answers)} question{'' if len(self.answers) == 1 else 's'}, at no cost"

    def text(self) -> str:
        """Return the bytes of series.json."""
        document: dict[str, Any] = self.model_dump(mode="json")
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
