"""sites.yaml: a coordinator's call to several sites, written before anybody's answer is seen.

It names the round, the study that travelled, whom to expect, and each site's key. Who writes it decides whom to
believe: exchange keys by a channel that you trust.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from causalveil.schemas.amounts import Amount
from causalveil.schemas.documents import read_yaml, validate
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.signatures.public_keys import PublicKey
from causalveil.schemas.sites.bundle import Instant
from causalveil.schemas.study import Slug


class Model(StrEnum):
    """Which pooled estimate is the headline: both are computed, the choice is made beforehand."""

    fixed = "fixed"
    random = "random"


class AgreedPrivacy(Frozen):
    """What a site may spend instead of what the study says. Level and relation stay the study's."""

    epsilon: Amount
    delta: Annotated[Amount | None, Field(description="None: the study's")] = None


class Site(Frozen):
    """One expected site."""

    key: PublicKey
    expires: Annotated[Instant, Field(description="from this moment on the key is not believed")]
    privacy: AgreedPrivacy | None = None


class Sites(Frozen):
    """The terms of one round."""

    kind: Literal["sites"]
    round: Annotated[Slug, Field(description="a fresh name for every call; each site signs it")]
    study: str
    bundles: str = "bundles"
    opened: Annotated[Instant, Field(description="runs that finished before it are stale")]
    closes: Annotated[Instant | None, Field(description="bundles signed after it are stale")] = None
    units_disjoint: Annotated[bool, Field(description="declared: nobody is in the data of two sites")]
    model: Model = Model.random
    sites: Annotated[dict[Slug, Site], Field(min_length=2)]

    @field_validator("units_disjoint")
    @classmethod
    def _disjoint(cls, declared: bool) -> bool:
        if not declared:
            raise ValueError(
                "must be true: somebody in two sites is charged twice and makes their errors dependent, which no "
                "pooled interval here covers; leave one of the sites out"
            )
        return declared

    @model_validator(mode="after")
    def _makes_sense(self) -> Sites:
        if self.closes is not None and not self.opened < self.closes:
            raise ValueError("'closes' must be after 'opened'")
        keys = [site.key for site in self.sites.values()]
        if len(set(keys)) != len(keys):
            raise ValueError("two sites have one key; each site signs with its own")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 over all terms."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def site_of(self, key: str) -> str | None:
        """The site whose key this is, if any."""
        return next((name for name, site in self.sites.items() if site.key == key), None)


def load_sites(path: Path) -> Sites:
    """Read and validate a coordinator's file.

    Raises:
        StudyError: missing or wrong.
    """
    return validate(Sites, read_yaml(path), str(path))
