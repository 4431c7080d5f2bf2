"""sites.yaml, and what a coordinator remembers of rounds."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from causalveil.schemas.errors import BundleError, StudyError
from causalveil.schemas.sites.round import instant_text, load_sites, parse_instant
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.machine.site import home
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.sites.accept import settle
from tests.studies import merge


def nothing() -> None:
    """Publish nothing."""


KEYS = [f"ed25519:{digit * 64}" for digit in "23456789abcde"]
TERMS: dict[str, Any] = {
    "kind": "sites",
    "round": "spring",
    "study": "study.yaml",
    "opened": "2026-03-01",
    "units_disjoint": True,
    "sites": {
        "north": {"key": KEYS[0], "expires": "2027-01-01"},
        "coast": {"key": KEYS[1], "expires": "2027-01-01T12:00:00+02:00", "privacy": {"epsilon": 0.5}},
    },
}


def write(folder: Path, changes: dict[str, Any]) -> Path:
    path = folder / "sites.yaml"
    path.write_text(yaml.safe_dump(merge(TERMS, changes), sort_keys=False))
    return path


def test_terms_are_read(tmp_path: Path) -> None:
    terms = load_sites(write(tmp_path, {}))
    assert terms.opened == datetime(2026, 3, 1, tzinfo=UTC)
    assert terms.sites["coast"].expires == datetime(2027, 1, 1, 10, tzinfo=UTC)
    assert terms.sites["coast"].privacy is not None
    assert terms.sites["coast"].privacy.delta is None, "what was not agreed is the study's"
    assert (terms.model, terms.bundles, terms.closes) == ("random", "bundles", None)
    assert terms.site_of(KEYS[1]) == "coast"
    assert terms.site_of(KEYS[2]) is None


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"units_disjoint": False}, "must be true"),
    ({"units_disjoint": ...}, "missing key 'units_disjoint'"),
    ({"opened": "2026-03-01T12:00:00"}, "time zone"),
    ({"opened": 20260301}, "must be text"),
    ({"opened": "spring"}, "no date or time"),
    ({"closes": "2026-02-01"}, "after 'opened'"),
    ({"sites": {"coast": {"key": KEYS[0]}}}, "two sites have one key"),
    ({"sites": {"coast": ...}}, "at least 2"),
    ({"sites": {"north": {"key": "ed25519:00"}}}, "sites.north.key"),
    ({"sites": {"north": {"keys": KEYS[3]}}}, "did you mean 'key'"),
    ({"sites": {"../north": {"key": KEYS[3], "expires": "2027-01-01"}}}, "sites"),
    ({"round": "a/b"}, "'round'"),
    ({"model": "bayes"}, "'model'"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_wrong_terms_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError) as refused:
        load_sites(write(tmp_path, changes))
    assert message in str(refused.value)
    assert refused.value.exit_code == 2


def test_instants_have_one_spelling() -> None:
    for text in ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00.250000Z"):
        assert instant_text(parse_instant(text)) == text
    assert instant_text(parse_instant("2026-03-01T12:00:00+02:00")) == "2026-03-01T10:00:00Z"


def test_a_round_is_settled_by_its_first_bundles() -> None:
    settle(open_ledger(), "spring", {"north": "1", "coast": "2"}, nothing)
    settle(open_ledger(), "spring", {"north": "1", "coast": "2"}, nothing)
    settle(open_ledger(), "summer", {"north": "3"}, nothing)
    with pytest.raises(BundleError, match=r"'north'.*'coast'.*new round"):
        settle(open_ledger(), "spring", {"north": "3", "coast": "4"}, nothing)
    with pytest.raises(BundleError, match="'coast'"):
        settle(open_ledger(), "spring", {"north": "1", "coast": "1"}, nothing)
    settle(open_ledger(), "spring", {"north": "1", "valley": "5"}, nothing)
    with pytest.raises(BundleError, match="'coast'"):
        settle(open_ledger(), "spring", {"coast": "3"}, nothing)


def test_of_many_coordinators_at_once_one_settles_the_round() -> None:
    def attempt(number: int) -> bool:
        try:
            settle(open_ledger(), "rush", {"north": str(number)}, nothing)
        except BundleError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(32))) == 1


def test_a_lost_folder_does_not_let_a_site_answer_twice() -> None:
    settle(open_ledger(), "spring", {"north": "1", "coast": "2"}, nothing)
    shutil.rmtree(home() / "rounds", ignore_errors=True)
    with pytest.raises(BundleError, match=r"'north'.*a new answer needs a new round"):
        settle(open_ledger(), "spring", {"north": "3"}, nothing)
    open_ledger().verify()


def test_what_is_published_is_whole_and_replaces_nothing_unasked(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    assert write_whole(path, "a", taken="no").read_text() == "a"
    write_whole(path, "a", taken="no")
    with pytest.raises(StudyError, match=r"file\.json: another lies there"):
        write_whole(path, "b", taken="another lies there")
    assert path.read_text() == "a"
    write_whole(path, "b")
    assert [part.name for part in path.parent.iterdir()] == ["file.json"]
    with pytest.raises(StudyError, match=r"cannot be written.*; mend it"):
        write_whole(path / "below", "c", failed="mend it")
