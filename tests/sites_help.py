"""Three sites with homes of their own, their bundles, and a coordinator's round, to be tampered with."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.pooling import PooledResult, load_round, pool_sites
from causalveil.schemas.errors import BundleError
from causalveil.schemas.sites.round import AgreedTerms, SignedTerms, Statement
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.sites.bundle import make_bundle, public_key, read_bundle, sign
from causalveil.tasks.sites.terms import sign_terms
from tests.studies import known_noise, people, write_study

NAMES = ("north", "coast", "valley")
ROUND = "spring"


@contextmanager
def at_home(folder: Path) -> Iterator[None]:
    """Be that site: its key, its ledger."""
    before = os.environ.get("CAUSALVEIL_HOME")
    os.environ["CAUSALVEIL_HOME"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["CAUSALVEIL_HOME"]
        else:
            os.environ["CAUSALVEIL_HOME"] = before


def some_terms(**changes: Any) -> SignedTerms:
    """Terms of some coordinator, signed by the key of this home, of a study that nobody asks."""
    site = {"expires": "2099-01-01"}
    keys = {name: f"ed25519:{place:064x}" for place, name in enumerate(("north", "coast"), 1)}
    said = {"round": ROUND, "opened": "2020-01-01", "units_disjoint": True, "study": "some", "asked": "0" * 64}
    sites = {name: {**site, "key": key} for name, key in keys.items()}
    return sign_terms(AgreedTerms.model_validate({**said, "sites": sites, "epsilon": 1, "delta": 0, **changes}))


@dataclass
class Party:
    """A site: its home, its runs, its bundles."""

    name: str
    folder: Path
    seed: int

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def key(self) -> str:
        with at_home(self.home):
            return public_key(create=True)

    def run(self, run_id: str, **changes: Any) -> Path:
        """A finished run in this site's ledger; its release file."""
        path = write_study(
            self.folder / f"data-{run_id}",
            frame=people(4000, self.seed),
            study=changes.pop("study", None),
            contract={"dataset": f"{self.name}-{changes.pop('dataset', 'people')}"},
        )
        return self.ran(path, run_id)

    def ran(self, path: Path, run_id: str) -> Path:
        """Run a study here, with noise that is the site's and the run's own; its release file."""
        with at_home(self.home), known_noise(f"{self.name} {run_id}"):
            return run_study(path, out=self.folder / run_id, run_id=run_id, engine="direct").path

    def bundle(self, run_id: str, terms: SignedTerms, site: str | None = None) -> str:
        """A bundle of its own ledger, whatever the terms expect."""
        with at_home(self.home):
            return make_bundle(open_ledger(), run_id, site or self.name, terms)

    def sign(self, statement: Statement | dict[str, Any]) -> str:
        """Sign anything at all: what a site with a key could do if it ran other code."""
        with at_home(self.home):
            return sign(Statement.model_validate(statement) if isinstance(statement, dict) else statement)


@dataclass
class Call:
    """A coordinator's folder: sites.yaml, study.yaml, bundles/."""

    folder: Path
    parties: dict[str, Party]
    terms: dict[str, Any] = field(default_factory=dict)

    def write(self, **changes: Any) -> None:
        (self.folder / "bundles").mkdir(parents=True, exist_ok=True)
        expires = (datetime.now(UTC) + timedelta(days=30)).isoformat()
        self.terms = {
            "kind": "sites",
            "round": ROUND,
            "study": "study.yaml",
            "opened": (datetime.now(UTC) - timedelta(hours=2)).isoformat(),
            "units_disjoint": True,
            "sites": {name: {"key": party.key(), "expires": expires} for name, party in self.parties.items()},
            **changes,
        }
        self.save()

    def save(self) -> None:
        (self.folder / "sites.yaml").write_text(yaml.safe_dump(self.terms, sort_keys=False))

    def signed(self) -> SignedTerms:
        """The terms of sites.yaml as they are now, signed by this coordinator."""
        with at_home(self.folder / "home"):
            return sign_terms(load_round(self.folder / "sites.yaml")[0])

    def file(self, name: str) -> Path:
        return self.folder / "bundles" / f"{name}.json"

    def put(self, name: str, text: str) -> None:
        self.file(name).write_text(text, encoding="utf-8")

    def statement(self, name: str) -> dict[str, Any]:
        """What a site signed, as plain JSON values to be changed."""
        document: dict[str, Any] = json.loads(read_bundle(self.file(name))[0].statement.model_dump_json())
        return document

    def pool(self) -> PooledResult:
        with at_home(self.folder / "home"):
            return pool_sites(self.folder / "sites.yaml", self.folder / "out", DirectEngine())


def play_edited_terms(call: Call, out: Path) -> None:
    """Edit the terms of a round and strike a site out, which are refused, and pool the honest round after."""
    terms, bundle = dict(call.terms), call.file("valley").read_text()
    for changes, differs in (
        ({"model": "fixed"}, "differing: model"),
        ({"sites": {name: site for name, site in terms["sites"].items() if name != "valley"}}, "sites.valley"),
    ):
        call.terms = {**terms, **changes}
        call.save()
        call.file("valley").unlink()
        if "model" in changes:
            call.put("valley", bundle)
        with pytest.raises(BundleError, match=f"it answered other terms of round 'spring'; {differs}|{differs}"):
            call.pool()
        assert not out.exists()
    call.put("valley", bundle)
    call.terms = terms
    call.save()
    assert call.pool().release.model == "random"
