"""bundle.json: what a site sends to a coordinator. One release, and the site's signature over it and its round.

A bundle holds nothing that is not in the release, in the study or in the contract's digest, so a person may read all
of it before it leaves the site. What makes it acceptable to a coordinator: ``docs/sites.md``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from causalveil.schemas.ledger import RunId
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.signatures.public_keys import PublicKey
from causalveil.schemas.study import Slug

BUNDLE_FILE = "bundle.json"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def parse_instant(value: Any) -> datetime:
    """The moment that ``value`` names, in UTC.

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
    """ISO 8601 in UTC."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


Instant = Annotated[
    datetime,
    BeforeValidator(parse_instant),
    PlainSerializer(instant_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256, hexadecimal")]


class Reason(StrEnum):
    """Why a bundle is refused; the first word of the message."""

    missing = "missing"
    unreadable = "unreadable"
    tampered = "tampered"
    foreign = "foreign"
    expired = "expired"
    replayed = "replayed"
    stale = "stale"
    early = "early"
    unfit = "unfit"


class Statement(Frozen):
    """What a site signs."""

    site: Slug
    round: Annotated[Slug, Field(description="the coordinator's call that this answers")]
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
