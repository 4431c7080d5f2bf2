"""Two machines with a state folder each work for one site on one ledger: a run that died on one goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from causalveil.flows.api import run, run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.declare import load, plan_study
from causalveil.flows.run.study import execute
from causalveil.schemas.errors import CausalveilError, RunConflict, StudyError
from causalveil.tasks.machine import object_storage
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests import crash, postgres
from tests.flows.test_kill import STUDIES
from tests.flows.test_protocol_study import study_in
from tests.s3 import BUCKET, s3_server
from tests.studies import people, refused, write_study


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


# A protocol's table is never written where it would count as rows: the owner's admission counts Parquet files.
AMONG = r"lies in the data folder .*study, where answers.parquet would count as rows of the dataset; choose (--)?out "


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Write a protocol of two outcomes, and its rows beside it."""
    return study_in(tmp_path / "study", subgroups=..., estimator={"penalty": ..., "name": "difference_in_means"})


def inside(study: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path | None]:
    """Name places in the data folder, as an analyst may: itself, below, relative, by a link, and by default."""
    (study.parent.parent / "link").symlink_to(study.parent)
    yield study.parent
    yield study.parent / "out/deeper"
    yield study.parent.parent / "elsewhere/../study/out"
    yield study.parent.parent / "link/out"
    monkeypatch.chdir(study.parent)
    yield Path("out")
    yield None


def test_a_place_among_rows_is_refused_before_anything_is_charged(
    study: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    files = sorted(study.parent.rglob("*"))
    for out in inside(study, monkeypatch):
        for seed in (None, 1):
            with pytest.raises(StudyError, match=f"{AMONG}outside of that folder; nothing was reserved"):
                run_study(study, out=out, run_id="one", simulate=seed, engine="direct")
        with pytest.raises(StudyError, match=AMONG):
            run(study, out=out, engine="prefect")
        with pytest.raises(StudyError, match=AMONG):
            execute(load(study), out, "one", None, DirectEngine())
    code, line, _ = refused(capfd, "run", str(study), "--out", str(study.parent / "out"))
    assert code == 2
    assert "choose --out outside of that folder; nothing was reserved" in line
    assert open_ledger().record("one") is None
    assert sorted(study.parent.rglob("*")) == files


def test_what_the_refusal_says_is_true_when_followed(study: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Outside, above, and below a name that no listing of rows enters: all of them leave the rows as they were."""
    _, before = plan_study(study)
    places = [study.parent.parent / "out", study.parent.parent, study.parent / "_answers/one"]
    for number, out in enumerate(places):
        found = run_study(study, out=out, run_id=f"run-{number}", engine="direct")
        assert found.path.with_name("answers.parquet").exists()
    assert plan_study(study)[1].sizes == before.sizes
    # The ledger gives a release back by the same rule, and its own tables follow it.
    among = str(study.parent / "again")
    _, line, _ = refused(capfd, "ledger", "release", "run-0", "--out", among)
    assert "this run is in the ledger" in line
    with pytest.raises(StudyError, match=f"{AMONG}outside of that folder; this run is in the ledger"):
        run_study(study, out=among, run_id="run-0", engine="direct")
    _, line, _ = refused(capfd, "ledger", "export", "--format", "parquet", "--out", among)
    assert "where Parquet files count as rows of the dataset" in line
    assert not Path(among).exists()


def test_a_release_without_a_table_may_lie_beside_the_rows(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study")
    _, before = plan_study(path)
    run_study(path, out=path.parent / "out", run_id="one", engine="direct")
    assert plan_study(path)[1].sizes == before.sizes
    assert run_study(path, out=path.parent / "two", run_id="two", engine="direct").path.exists()


def test_a_url_among_stored_rows_is_refused(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with s3_server(monkeypatch):
        client = boto3.client("s3")
        for path in study.parent.glob("[!.]*"):
            client.put_object(Bucket=BUCKET, Key=f"clinic/rows/{path.name}", Body=path.read_bytes())
        asked = tmp_path / "asked.yaml"
        asked.write_text(study.read_text() + f"\ndata: {{path: 's3://{BUCKET}/clinic/rows'}}\n")
        for place in ("clinic/rows", "clinic/rows/out", "clinic/rows/out/"):
            with pytest.raises(StudyError, match=f"lies in the data folder s3://{BUCKET}/clinic/rows, where answers"):
                run_study(asked, out=f"s3://{BUCKET}/{place}", run_id="one", engine="direct")
        assert open_ledger().record("one") is None
        for place in ("clinic/out", "clinic", "clinic/rows/_out"):
            run_study(asked, out=f"s3://{BUCKET}/{place}", run_id=place.replace("/", "-"), engine="direct")
        for copy in object_storage._COPIES.values():
            copy.forget()
        object_storage._COPIES.clear()
