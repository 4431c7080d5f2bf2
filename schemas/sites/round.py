"""Call sites to a round, and bundle what each of them sends.

A coordinator writes sites.yaml before any answer is seen. It names the round, the study that travels, whom to expect,
and each site's key. Who writes it decides whom to believe: exchange keys by a channel that you trust. Signed, these
terms are round.json, which every site gets with the study.

A site sends bundle.json: one release, the terms that it answers to, and the site's signature over both. A bundle holds
nothing that is not in the release, in the terms or in the contract's digest, so a person may read all of it before it
leaves the site. What makes it acceptable to a coordinator: ``docs/sites.md``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, field_validator, model_validator

from causalveil.schemas.documents import RuleBroken, digest_of, read_yaml
from causalveil.schemas.ledger import RunId
from causalveil.schemas.mistakes import validate
from causalveil.schemas.privacy import Amount, Frozen, PublicKey
from causalveil.schemas.study import Slug

BUNDLE_FILE = "bundle.json"
ROUND_FILE = "round.json"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def parse_instant(value: Any) -> datetime:
    """Return the moment that ``value`` names, in UTC.

    Args:
        value: ISO 8601 text with a time zone, or a date alone, which is its first moment in UTC.

    Raises:
        ValueError: anything else.
    """
    if isinstance(value, datetime):
        moment = value
    else:
        if not isinstance(value, str):
            raise ValueError("must be text such as 2026-03-01 or 2026-03-01T12:00:00Z")
        text = value.strip()
        try:
            moment = datetime.fromisoformat(f"{text}T00:00:00+00:00" if _DATE.fullmatch(text) else text)
        except ValueError:
            raise ValueError("is no date or time; write 2026-03-01 or 2026-03-01T12:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("needs a time zone; write 2026-03-01T12:00:00Z")
    return moment.astimezone(UTC)


def instant_text(moment: datetime) -> str:
    """Return a moment as ISO 8601 in UTC."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


Instant = Annotated[
    datetime,
    BeforeValidator(parse_instant),
    PlainSerializer(instant_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256, hexadecimal")]


class Reason(StrEnum):
    """The reason for refusing a bundle; the first word of the message."""

    missing = "missing"
    unreadable = "unreadable"
    tampered = "tampered"
    foreign = "foreign"
    expired = "expired"
    replayed = "replayed"
    stale = "stale"
    early = "early"
    unfit = "unfit"
    contradictory = "contradictory"


class Model(StrEnum):
    """The pooled estimate that is the headline.

    Both are computed, the choice is made beforehand.
    """

    fixed = "fixed"
    random = "random"


class PooledBy(StrEnum):
    """Choose what is pooled of a study of times: effects of sites, or released cells."""

    effects = "effects"
    cells = "cells"


class AgreedPrivacy(Frozen):
    """The budget of a site in place of the study's. Level and relation stay the study's."""

    epsilon: Amount
    delta: Annotated[Amount | None, Field(description="None: the study's")] = None


class Site(Frozen):
    """One expected site."""

    key: PublicKey
    expires: Annotated[Instant, Field(description="from this moment on the key is not believed")]
    privacy: AgreedPrivacy | None = None


class Terms(Frozen):
    """The terms of one round: when, whom, and what the headline is."""

    round: Annotated[Slug, Field(description="a fresh name for every call; each site signs it")]
    opened: Annotated[Instant, Field(description="runs that finished before it are stale")]
    closes: Annotated[Instant | None, Field(description="bundles signed after it are stale")] = None
    units_disjoint: Annotated[bool, Field(description="declared: no person is in the data of two sites")]
    model: Model = Model.random
    pooled_by: Annotated[
        PooledBy, Field(description="cells: of a study of times, arms within sites, each site by its people")
    ] = PooledBy.effects
    equal_contracts: Annotated[
        bool, Field(description="declared: sites that have one contract are different sites")
    ] = False
    sites: Annotated[dict[Slug, Site], Field(min_length=2)]

    @field_validator("units_disjoint")
    @classmethod
    def _disjoint(cls, declared: bool) -> bool:
        if not declared:
            raise ValueError(
                "must be true: a person in two sites is charged twice and makes their errors dependent, which no "
                "pooled interval here covers; leave one of the sites out"
            )
        return declared

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.closes is not None and not self.opened < self.closes:
            raise RuleBroken("'closes' must be after 'opened'", "closes")
        keys = [site.key for site in self.sites.values()]
        if len(set(keys)) != len(keys):
            raise ValueError("two sites have one key; each site signs with its own")
        return self

    def site_of(self, key: str) -> str | None:
        """Return the name of the site with a key, if any."""
        return next((name for name, site in self.sites.items() if site.key == key), None)


class Sites(Terms):
    """The coordinator's file: the terms of a round, and the paths of its other files."""

    kind: Literal["sites"]
    study: str
    bundles: str = "bundles"
    follows: Annotated[
        str | None, Field(description="the signed terms of the round that this one follows, relative to this file")
    ] = None


class AgreedTerms(Terms):
    """The terms that a coordinator signs, with the study that travels and the rounds before.

    Attributes:
        study, asked: name of the study, and digest of its part that is the same at every site.
        epsilon, delta: its privacy, for sites without terms of their own.
        follows: signed terms of the previous round: a site left or joined, or a term changed.
    """

    study: Slug
    asked: Digest
    epsilon: Amount
    delta: Amount
    follows: SignedTerms | None = None

    @property
    def words(self) -> str:
        """The terms in one sentence."""
        closes = "" if self.closes is None else f", closed on {instant_text(self.closes)}"
        cells = ", read off released cells" if self.pooled_by is PooledBy.cells else ""
        return (
            f"Round {self.round} of study {self.study}, opened on {instant_text(self.opened)}{closes}: "
            f"{self.model} effects{cells}, of sites {', '.join(self.sites)}."
        )

    def privacy_of(self, site: str) -> tuple[Amount, Amount]:
        """Return epsilon and delta of a site."""
        agreed = self.sites[site].privacy
        if agreed is None:
            return self.epsilon, self.delta
        return agreed.epsilon, self.delta if agreed.delta is None else agreed.delta


class SignedTerms(Frozen):
    """round.json: the terms of a round under the coordinator's signature."""

    format: Literal["causalveil round 1"] = "causalveil round 1"
    terms: AgreedTerms
    key: PublicKey
    signature: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$", description="Ed25519 over the canonical terms")]

    @property
    def digest(self) -> str:
        """SHA-256 over all of it."""
        return digest_of(self.model_dump(mode="json"))

    @property
    def chain(self) -> tuple[SignedTerms, ...]:
        """These terms, and those of every round before, newest first."""
        before = self.terms.follows
        return (self,) if before is None else (self, *before.chain)

    @property
    def opened(self) -> datetime:
        """The time of opening of the first round in the chain, since which answers are valid."""
        return min(signed.terms.opened for signed in self.chain)


class Statement(Frozen):
    """The statement that a site signs."""

    site: Slug
    terms: Annotated[SignedTerms, Field(description="the coordinator's call that this answers")]
    issued_at: Annotated[Instant, Field(description="when it was signed")]
    finished_at: Annotated[Instant, Field(description="when the run's release entered the site's ledger")]
    run_id: RunId
    study_digest: Digest
    policy_digest: Annotated[Digest, Field(description="of the owner's contract that the run was reserved under")]
    release_digest: Annotated[Digest, Field(description="of the bytes of the site's release.json")]
    release: Annotated[dict[str, Any], Field(description="the site's release.json; names the software that made it")]


class Bundle(Frozen):
    """A signed statement."""

    format: Literal["causalveil bundle 1"] = "causalveil bundle 1"
    statement: Statement
    key: PublicKey
    signature: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$", description="Ed25519 over the canonical statement")]


def load_sites(path: Path) -> Sites:
    """Read and validate a coordinator's file.

    Raises:
        StudyError: missing or wrong.
    """
    return validate(Sites, read_yaml(path), str(path))
