"""`causalveil ledger copy`: the same ledger in another database, and no password on the command line or the screen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from causalveil.flows.api import run_study
from causalveil.flows.cli.main import main
from causalveil.schemas.release import release_text
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.postgres import WHY_NOT, database
from tests.studies import write_study


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with database() as url:
        if url is None:
            pytest.skip(WHY_NOT)
        monkeypatch.setenv("CAUSALVEIL_LEDGER_COPY_URL", url)
        yield url


def code(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(str(ended.value.code))


def test_the_copy_is_the_same_ledger(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_study(tmp_path / "study")
    release = run_study(path, out=tmp_path / "out", run_id="before").release
    before = open_ledger()
    assert code("ledger", "copy", "--json") == 0
    shown = capfd.readouterr()
    told = json.loads(shown.out)
    assert told["ledger"] == before.identity
    assert told["entries"] == before.verify().entries
    assert target not in shown.out + shown.err
    monkeypatch.setenv("CAUSALVEIL_LEDGER_URL", target)
    open_ledger().verify_release(release_text(release))
    assert run_study(path, out=tmp_path / "out", run_id="before").resumed, "the run is known there, free of charge"
    run_study(path, out=tmp_path / "next", run_id="after")
    assert open_ledger().account("small").blocks[0].spent.epsilon == 2


def test_a_database_that_has_a_ledger_is_refused(target: str, capfd: pytest.CaptureFixture[str]) -> None:
    open_ledger(target)
    assert code("ledger", "copy") == 5
    assert "name an empty database" in capfd.readouterr().err


def test_no_target_is_named(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("CAUSALVEIL_LEDGER_COPY_URL", raising=False)
    assert code("ledger", "copy") == 2
    assert "CAUSALVEIL_LEDGER_COPY_URL" in capfd.readouterr().err
