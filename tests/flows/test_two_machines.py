"""Two machines with a state folder each work for one site on one ledger: a run that died on one goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from causalveil.flows.api import run_study
from causalveil.schemas.errors import CausalveilError, RunConflict
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests import crash, postgres
from tests.flows.test_crash import STUDIES
from tests.studies import people, write_study


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with postgres.database() as url:
        if url is None:
            pytest.skip(postgres.WHY_NOT)
        monkeypatch.setenv("CAUSALVEIL_LEDGER_URL", url)
        monkeypatch.setenv("CAUSALVEIL_ENGINE", "direct")
        yield url


class Machine:
    """A state folder, and the environment of its account."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, ledger: str, **more: str) -> None:
        self.home, self._patch = home, monkeypatch
        self.around = {"CAUSALVEIL_HOME": str(home), "CAUSALVEIL_LEDGER_URL": ledger, "CAUSALVEIL_ENGINE": "direct"}
        self.around |= {"CAUSALVEIL_ACTOR": f"worker of {home.name}"} | more

    def here(self) -> Machine:
        for name, value in self.around.items():
            self._patch.setenv(name, value)
        return self


def die(on: Machine, place: str, path: Path, out: Path) -> None:
    crash.crash(place, str(path), str(out), "one", on.around)


@pytest.mark.parametrize("how", ["shared folder", "copied key"])
def test_a_run_that_died_on_one_machine_ends_on_the_other(
    how: str, ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = {"CAUSALVEIL_SHARED": str(tmp_path / "shared")} if how == "shared folder" else {}
    a, b = (Machine(tmp_path / name, monkeypatch, ledger, **shared) for name in "ab")
    path = write_study(tmp_path / "study", frame=people(600))
    die(a, "after:propensity", path, tmp_path / "a-out")
    url = ledger.replace("postgresql:", "postgresql+psycopg:", 1)
    before = crash.stored(url, "one")
    assert set(before) == {"propensity"}
    if how == "copied key":
        b.home.mkdir(mode=0o700)
        shutil.copy(a.home / "site.key", b.home)
    there = run_study(path, out=tmp_path / "b-out", run_id="one") if b.here() else None
    assert there is not None
    assert there.resumed
    after = crash.stored(url, "one")
    assert before.items() <= after.items(), "what was drawn on the one machine is what the other goes on with"
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1
    a.here()
    again = run_study(path, out=tmp_path / "a-out", run_id="one")
    assert again.path.read_bytes() == there.path.read_bytes()
    assert [run.state for run in open_ledger().account("small").runs] == ["finished"]


def test_another_key_is_told_who_holds_the_run_and_charges_nothing(
    ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = (Machine(tmp_path / name, monkeypatch, ledger) for name in "ab")
    path = write_study(tmp_path / "study", frame=people(600))
    die(a, "after:propensity", path, tmp_path / "a-out")
    b.here()
    with pytest.raises(RunConflict, match=r"held by worker of a on .* under another site key") as refused:
        run_study(path, out=tmp_path / "b-out", run_id="one")
    assert "new run id" not in str(refused.value)
    assert len(open_ledger().account("small").runs) == 1
    # As the message says: with the key shared it goes on.
    (tmp_path / "shared").mkdir(mode=0o700)
    monkeypatch.setenv("CAUSALVEIL_SHARED", str(tmp_path / "shared"))
    with pytest.raises(CausalveilError, match="run: mv") as missing:
        run_study(path, out=tmp_path / "b-out", run_id="one")
    assert str(b.home / "site.key") in str(missing.value)
    shutil.move(a.home / "site.key", tmp_path / "shared")
    run_study(path, out=tmp_path / "b-out", run_id="one")
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1


def test_values_of_single_records_are_shared_too(ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noisy scores of single units wait in a file for the stages that follow; alone, the other machine says so."""
    shared = str(tmp_path / "shared")
    a = Machine(tmp_path / "a", monkeypatch, ledger, CAUSALVEIL_SHARED=shared)
    b = Machine(tmp_path / "b", monkeypatch, ledger)
    _, write = STUDIES["matching"]
    path = write(tmp_path / "study", {})
    places = crash.places(str(path), str(tmp_path / "whole"), "whole", a.around)
    die(a, places[-3], path, tmp_path / "a-out")
    kept = list(Path(shared).glob("records/one/*"))
    assert kept
    b.here()
    b.home.mkdir(mode=0o700)
    shutil.copy(Path(shared) / "site.key", b.home)
    with pytest.raises(CausalveilError, match="if another machine drew them, go on there"):
        run_study(path, out=tmp_path / "b-out", run_id="one")
    (b.home / "site.key").unlink()
    monkeypatch.setenv("CAUSALVEIL_SHARED", shared)
    run_study(path, out=tmp_path / "b-out", run_id="one")
    assert not any(file.exists() for file in kept), "kept until the run ends, and no longer"
    assert [run.state for run in open_ledger().account("small").runs] == ["finished", "finished"]
