"""What an earlier version wrote is held against the ledger as it lies there, and never taken for tampering.

``tests/kept/`` has a ledger with its releases for each version (``tests/kept/make.py``).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.api import run_study
from causalveil.flows.cli.main import main
from causalveil.flows.run import study as sequence
from causalveil.schemas.documents import own_version
from causalveil.schemas.errors import CausalveilError, LedgerError, RunConflict
from causalveil.schemas.release import Release, release_text
from causalveil.tasks.privacy.ledger import store
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.sites.terms import terms_text
from tests.ledger_help import contract, finished, reservation
from tests.sites_help import some_terms
from tests.studies import write_study

KEPT = sorted(path.parent for path in (Path(__file__).parents[1] / "kept").glob("*/ledger.db.gz"))
EARLIER = "0.0.9"
NAMED = f"written by causalveil {EARLIER}, and this version, {own_version()}, does not read it"


def call(capfd: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    shown = capfd.readouterr()
    return int(str(ended.value.code)), " ".join((shown.out + shown.err).split())


def fewer_keys(document: dict[str, Any]) -> None:
    for key in ("warnings", "approval", "budget", "units_of_measure", "headline", "snapshots"):
        del document[key]


def a_key_of_the_study(document: dict[str, Any]) -> None:
    document["specification"]["estimator"]["basis"] = "auto"


def a_key_of_the_release(document: dict[str, Any]) -> None:
    document["score"] = 1


def another_kind(document: dict[str, Any]) -> None:
    document["kind"] = "estimate"


def earlier(change: Callable[[dict[str, Any]], None]) -> Callable[[Release], str]:
    """Return how an earlier version wrote its releases."""

    def text(release: Release) -> str:
        document = json.loads(release_text(release))
        document["software"]["version"] = EARLIER
        change(document)
        return json.dumps(document, indent=2) + "\n"

    return text


def ran_earlier(change: Callable[[dict[str, Any]], None], folder: Path) -> tuple[Path, Path]:
    """Return a study, and the release that an earlier version made of it."""
    path = write_study(folder / "study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence, "release_text", earlier(change))
        # The run ends with what cannot be read: its release is in the ledger by then.
        with suppress(CausalveilError):
            run_study(path, out=folder / "first", run_id="one", engine="direct")
    text = open_ledger().stored_document("one")
    release = folder / "kept" / "release.json"
    release.parent.mkdir()
    release.write_text(str(text))
    return path, release


@pytest.mark.parametrize("change", [fewer_keys, a_key_of_the_study, a_key_of_the_release, another_kind])
def test_an_untouched_release_agrees_and_a_touched_one_does_not(
    change: Callable[[dict[str, Any]], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, release = ran_earlier(change, tmp_path)
    assert call(capfd, "ledger", "verify", "--release", release.parent)[0] == 0
    # Another program may have written it anew: order and spaces say nothing.
    document = json.loads(release.read_text())
    release.write_text(json.dumps(dict(sorted(document.items()))))
    assert call(capfd, "ledger", "verify", "--release", release)[0] == 0
    for place, key, value in (
        (document["answers"][0], "estimate", 0.5),
        (document["specification"], "name", "x"),
        (document, "a", 1),
    ):
        before = dict(place)
        place[key] = value
        release.write_text(json.dumps(document))
        code, shown = call(capfd, "ledger", "verify", "--release", release)
        assert (code, "another release" in shown) == (5, True)
        place.clear()
        place.update(before)


def test_what_has_fewer_keys_is_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, release = ran_earlier(fewer_keys, tmp_path)
    assert call(capfd, "run", path, "--out", tmp_path / "out", "--run-id", "one")[0] == 0
    assert (tmp_path / "out" / "release.json").read_bytes() == release.read_bytes()
    assert call(capfd, "report", release)[0] == 0


@pytest.mark.parametrize("change", [a_key_of_the_study, a_key_of_the_release, another_kind])
def test_what_is_not_read_is_refused_by_its_version_and_fetched_as_it_is(
    change: Callable[[dict[str, Any]], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, release = ran_earlier(change, tmp_path)
    code, shown = call(capfd, "run", path, "--out", tmp_path / "out", "--run-id", "one")
    assert (code, NAMED in shown) == (2, True), shown
    assert "causalveil ledger release one --out DIR" in shown
    assert call(capfd, "ledger", "release", "one", "--out", tmp_path / "out")[0] == 0
    assert (tmp_path / "out" / "release.json").read_bytes() == release.read_bytes()
    if change is not a_key_of_the_study:
        terms = tmp_path / "round.json"
        terms.write_text(terms_text(some_terms()))
        for words in (("report", release), ("bundle", "make", "one", "--site", "north", "--round", terms)):
            code, shown = call(capfd, *words)
            assert (code, NAMED in shown) == (2, True), shown


def test_an_entry_of_another_version_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, owner = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}"), contract()
    ledger.grant(owner, "opening")
    finished(ledger, reservation("before"), owner, tmp_path)
    asked = {**reservation().model_dump(), "basis": "auto"}
    monkeypatch.setattr(store, "own_version", lambda: EARLIER)
    with ledger.store.write() as connection:
        body = {"reservation": asked, "caps": {"sample": owner.caps["sample"].model_dump()}}  # type: ignore[index]
        ledger.store.append(connection, "reserve", dataset=owner.dataset, run_id="run-1", body=body)
    with pytest.raises(LedgerError, match=f"entry 6 was written by causalveil {EARLIER}.*use the version that") as told:
        ledger.verify()
    assert "backup" not in str(told.value)
    assert ledger.stored_document("before")


def test_a_file_that_is_no_release_of_a_run_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    open_ledger()
    for text in ("", "[]", "{}", '{"run_id": "x", "ledger": []}', "[" * 100_000):
        (tmp_path / "release.json").write_text(text)
        code, shown = call(capfd, "ledger", "verify", "--release", tmp_path)
        assert (code, "is not the release of a run" in shown) == (2, True)


@pytest.mark.parametrize("kept", KEPT, ids=lambda folder: folder.name)
def test_a_kept_ledger_verifies_and_gives_back_its_releases(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The version that wrote it is named where something of it is not read any more, and nothing is called changed."""
    database = tmp_path / "ledger.db"
    database.write_bytes(gzip.decompress((kept / "ledger.db.gz").read_bytes()))
    monkeypatch.setenv("CAUSALVEIL_LEDGER_URL", f"sqlite:///{database}")

    def works(*words: Any) -> None:
        code, shown = call(capfd, *words)
        later = kept.name != own_version() and f"written by causalveil {kept.name}" in shown
        assert code == 0 or later, shown

    works("ledger", "verify")
    for release in kept.glob("*/release.json"):
        run = release.parent.name
        works("ledger", "verify", "--release", release)
        works("ledger", "show", run)
        works("ledger", "release", run, "--out", tmp_path / run)
        assert (tmp_path / run / "release.json").read_bytes() == release.read_bytes()
        works("run", release.with_name("study.yaml"), "--run-id", run, "--out", tmp_path / f"{run}-again")
        works("report", release, "--out", tmp_path / f"{run}.html")
    works("audit", "ipw")


def test_this_version_keeps_a_ledger() -> None:
    assert own_version() in {folder.name for folder in KEPT}, "run: python -m tests.kept.make"
    assert len([*KEPT[-1].glob("*/release.json")]) == 5
    with pytest.raises(RunConflict):
        open_ledger().statement("nobody")
