"""Data folders in object storage, on a real S3 server on loopback: extracts, admissions, runs, and what breaks."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from typer.testing import CliRunner

from causalveil.flows.api import run_study
from causalveil.flows.cli.main import app
from causalveil.flows.engine.engine import DirectEngine, Task
from causalveil.flows.run.admit import extract_source
from causalveil.flows.run.check import check
from causalveil.schemas.admission import ADMISSION_FILE
from causalveil.schemas.errors import CausalveilError, ContractError, DataError, StudyError
from causalveil.tasks.machine import object_storage, stored_writes
from causalveil.tasks.machine.object_storage import folder_at, local_copy, publish
from causalveil.tasks.machine.site import clean, scratch_root
from causalveil.tasks.machine.stored_writes import LOCK
from causalveil.tasks.privacy.keys import owner_key
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.warehouse.extract import UNFINISHED_FILE
from tests import crash, postgres
from tests.flows.test_two_machines import Machine
from tests.s3 import BUCKET, before, s3_server
from tests.studies import people, write_study
from tests.warehouse import visits, write_source

STAGE = "after:propensity"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, s3_server(patch) as address:
        yield address


@pytest.fixture(autouse=True)
def _as_a_new_process() -> Iterator[None]:
    yield
    forget()


def forget() -> None:
    """End what a process keeps: a later one copies anew."""
    for copy in object_storage._COPIES.values():
        copy.forget()
    object_storage._COPIES.clear()


def keys(prefix: str) -> set[str]:
    found = boto3.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/").get("Contents", [])
    return {one["Key"].removeprefix(f"{prefix}/") for one in found}


def put(folder: Path, name: str) -> str:
    """Put a folder into the bucket, and take it off this machine; returns its URL."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "study.yaml":
            boto3.client("s3").upload_file(str(path), BUCKET, f"{name}/{path.relative_to(folder).as_posix()}")
            path.unlink()
    return f"s3://{BUCKET}/{name}"


def stored_study(folder: Path, name: str, **contract: Any) -> Path:
    """A study whose data lie in the bucket alone."""
    path = write_study(folder, frame=people(600), contract=contract)
    document = yaml.safe_load(path.read_text()) | {"data": {"path": put(folder, name)}}
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_run_reads_a_folder_in_a_bucket_as_it_reads_one_here(server: str, tmp_path: Path) -> None:
    here = run_study(write_study(tmp_path / "here", frame=people(600)), out=tmp_path / "a", engine="direct")
    path = stored_study(tmp_path / "there", "read-there")
    assert check(path) == []
    there = run_study(path, out=tmp_path / "b", engine="direct")
    assert (there.release.units, there.release.study) == (here.release.units, here.release.study)
    forget()
    again = run_study(path, out=tmp_path / "b", engine="direct")
    assert again.release == there.release, "the same question of the same rows is not asked anew"
    copied = local_copy(f"s3://{BUCKET}/read-there")
    assert copied.is_relative_to(scratch_root())
    assert not copied.stat().st_mode & 0o077
    forget()
    assert not copied.exists()


def source_to(folder: Path, name: str) -> Path:
    folder.mkdir()
    visits().write_parquet(folder / "in.parquet")
    url = f"s3://{BUCKET}/{name}"
    path = write_source(folder / "source.yaml", {"kind": "parquet", "path": "in.parquet"}, to=url)
    columns = {"treated": {"codes": {"control": False, "treated": True}}, "score": {"lower": 0, "upper": 10}}
    columns |= {"group": {"levels": ["a", "b", "c"], "others": "other"}, "age": {"lower": 0, "upper": 100}}
    document = {"dataset": "small", "data_class": "synthetic", "unit": "person", "columns": columns, "public": []}
    document |= {"blocks": {"key": "month", "units_span": False}, "caps": {"sample": {"epsilon": 9, "delta": 1e-4}}}
    boto3.client("s3").put_object(Bucket=BUCKET, Key=f"{name}/dataset.yaml", Body=yaml.safe_dump(document))
    return path


class Killed(Exception):
    pass


class DiesAt(DirectEngine):
    """Ends the process, as far as the store can see, at a block."""

    def __init__(self, part: str) -> None:
        super().__init__()
        self._part = part

    def __call__(self, task: Task[Any]) -> Any:
        if task.part == self._part:
            raise Killed
        return super().__call__(task)


def test_an_extract_that_died_goes_on_from_the_blocks_in_the_bucket(server: str, tmp_path: Path) -> None:
    source = source_to(tmp_path / "source", "taken")
    with pytest.raises(Killed):
        extract_source(source, DiesAt("block 2026-02"))
    forget()
    left = keys("taken")
    assert UNFINISHED_FILE in left
    assert "month=2026-01/part-00000.parquet" in left
    assert "month=2026-02/part-00000.parquet" not in left
    study = tmp_path / "study.yaml"
    asked = {"kind": "effect", "name": "a", "treatment": "treated", "outcome": "score", "covariates": ["age"]}
    asked |= {"data": {"path": f"s3://{BUCKET}/taken"}, "estimator": {"name": "auto"}}
    study.write_text(yaml.safe_dump(asked | {"privacy": {"epsilon": 1, "delta": 1e-6}}))
    with pytest.raises(DataError, match="has not ended"):
        run_study(study, out=tmp_path / "no", engine="direct")
    forget()
    at = boto3.client("s3").head_object(Bucket=BUCKET, Key="taken/month=2026-01/part-00000.parquet")["LastModified"]
    extracted = extract_source(source, DirectEngine())
    assert extracted.manifest.rows == 1000
    assert extracted.admission is not None
    assert UNFINISHED_FILE not in keys("taken")
    assert {"_manifest.json", ADMISSION_FILE, "_ledger.json"} <= keys("taken")
    now = boto3.client("s3").head_object(Bucket=BUCKET, Key="taken/month=2026-01/part-00000.parquet")["LastModified"]
    assert now == at, "blocks that are there stay"
    forget()
    assert run_study(study, out=tmp_path / "answer", engine="direct").release.units == 1000


def test_owners_grant_and_admit_what_lies_in_a_bucket(server: str, tmp_path: Path) -> None:
    stored_study(tmp_path / "study", "owned", data_class="sensitive", owner_key=owner_key(create=True).public)
    url = f"s3://{BUCKET}/owned"
    granted = CliRunner().invoke(app, ["ledger", "grant", f"{url}/dataset.yaml", "--reason", "test"])
    assert granted.exit_code == 0, granted.output
    assert f"causalveil admit {url} " in granted.output
    admitted = CliRunner().invoke(app, ["admit", url])
    assert admitted.exit_code == 0, admitted.output
    assert {ADMISSION_FILE, "_ledger.json"} <= keys("owned")
    contract = boto3.client("s3").get_object(Bucket=BUCKET, Key="owned/dataset.yaml")["Body"].read().decode()
    assert f"ledger: {open_ledger().identity}" in contract
    release = run_study(tmp_path / "study/study.yaml", out=tmp_path / "answer", engine="direct").release
    # A run reads a copy of the folder, and nothing that it writes there would come back.
    assert (release.units, release.ledger.anchored) == (600, False)
    # Another object in the place of one that was admitted is refused, and nothing is charged.
    spent = open_ledger().head()
    rows = sorted(key for key in keys("owned") if key.endswith(".parquet"))
    client = boto3.client("s3")
    client.copy_object(Bucket=BUCKET, Key=f"owned/{rows[0]}", CopySource=f"{BUCKET}/owned/{rows[-1]}")
    with pytest.raises(DataError) as caught:
        run_study(tmp_path / "study/study.yaml", out=tmp_path / "no", engine="direct")
    assert f"causalveil admit {url}" in str(caught.value)
    assert open_ledger().head() == spent


@pytest.mark.parametrize("data_class", ["synthetic", "sensitive"])
def test_two_machines_that_share_bucket_and_ledger_go_on_with_each_others_runs(
    data_class: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is killed between two releases; the other ends the run, and what was released stays."""
    with postgres.database() as ledger:
        if ledger is None:
            pytest.skip(postgres.WHY_NOT)
        a, b = (Machine(tmp_path / name, monkeypatch, ledger) for name in "ab")
        a.here()
        own = {"owner_key": owner_key(create=True).public} if data_class == "sensitive" else {}
        path = stored_study(tmp_path / "study", f"shared-{data_class}", data_class=data_class, **own)
        if data_class == "sensitive":
            url = f"s3://{BUCKET}/shared-{data_class}"
            for command in (["ledger", "grant", f"{url}/dataset.yaml", "--reason", "test"], ["admit", url]):
                assert CliRunner().invoke(app, command).exit_code == 0
            forget()
        crash.crash(STAGE, str(path), str(tmp_path / "a-out"), "one", a.around)
        assert [one.name for one in scratch_root().iterdir() if one.name.startswith("copy-")], "its copy is left"
        assert clean() >= 1
        assert not list(scratch_root().iterdir())
        place = ledger.replace("postgresql:", "postgresql+psycopg:", 1)
        released = crash.stored(place, "one")
        assert set(released) == {"propensity"}
        b.here()
        b.home.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(a.home / "site.key", b.home)
        run_study(path, out=tmp_path / "b-out", run_id="one", engine="direct")
        assert crash.stored(place, "one")["propensity"] == released["propensity"]


@pytest.mark.parametrize("how", ["403", *(pytest.param(one, marks=pytest.mark.long) for one in ("503", "cut"))])
def test_a_store_that_refuses_is_busy_or_cuts_charges_nothing(
    how: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored_study(tmp_path / "study", f"faulty-{how}")
    with before(server, how) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        for ask in (check, lambda one: run_study(one, out=tmp_path / "no", engine="direct")):
            with pytest.raises(CausalveilError, match=r"s3://clinic/faulty-.*cannot be read") as caught:
                ask(path)
            assert "\n" not in str(caught.value)
            assert "not-in-any-message" not in str(caught.value)
    assert not (tmp_path / "no").exists()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    assert run_study(path, out=tmp_path / "answer", engine="direct").release.units == 600


def test_a_store_that_takes_nothing_is_told_and_the_folder_stays_unfinished(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored_study(tmp_path / "study", "unwritten")
    folder = local_copy(yaml.safe_load(path.read_text())["data"]["path"])
    (folder / "month=1").mkdir()
    (folder / "month=1/part.parquet").write_bytes(b"rows")
    with before(server, "403") as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with pytest.raises(CausalveilError, match="cannot be written: the store refuses"):
            publish(folder)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    publish(folder)
    assert "month=1/part.parquet" in keys("unwritten")
    assert UNFINISHED_FILE not in keys("unwritten")
    (folder / "month=1/part.parquet").unlink()
    publish(folder)
    assert "month=1/part.parquet" not in keys("unwritten")


def test_places_that_are_no_data_folder_are_refused(server: str, tmp_path: Path, monkeypatch: Any) -> None:
    stored_study(tmp_path / "study", "outer")
    url, client = f"s3://{BUCKET}/outer", boto3.client("s3")
    with pytest.raises(StudyError, match="no such data folder"):
        local_copy(f"s3://{BUCKET}/nothing")
    with pytest.raises(StudyError, match="no such data folder"):
        local_copy("s3://nobody-has-this/a")
    client.put_object(Bucket=BUCKET, Key="outer/inner/a.parquet", Body=b"")
    with pytest.raises(ContractError, match="datasets do not nest"):
        local_copy(f"{url}/inner")
    client.put_object(Bucket=BUCKET, Key="outer/table/_delta_log/00000000000000000000.json", Body=b"{}")
    with pytest.raises(DataError, match="Delta table"):
        local_copy(url)
    for wrong in ("s3://key:word@clinic/a", "s3://clinic/a?endpoint=b", "http://clinic/a"):
        with pytest.raises(StudyError), folder_at(wrong):
            pass
    with pytest.raises(DataError, match="no folder can hold"):
        object_storage._parts(url, "a/../../b.parquet")
    client.delete_object(Bucket=BUCKET, Key="outer/table/_delta_log/00000000000000000000.json")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    with pytest.raises(CausalveilError, match="are to be copied"):
        local_copy(url)


@pytest.mark.parametrize("name", ["b//part.parquet", "b/./part.parquet", "/part.parquet", "b", "b/../../part.parquet"])
def test_an_object_that_no_folder_holds_is_never_left_out(name: str, server: str) -> None:
    """Of `b/part.parquet` and `b//part.parquet` one was copied and the other forgotten, with the people in it."""
    folder = f"names-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    for key in ("dataset.yaml", "b/part.parquet", name):
        boto3.client("s3").put_object(Bucket=BUCKET, Key=f"{folder}/{key}", Body=key.encode())
    with pytest.raises(DataError, match="take it out"):
        local_copy(f"s3://{BUCKET}/{folder}")


def test_a_copy_follows_the_store_within_a_process(server: str, tmp_path: Path) -> None:
    stored_study(tmp_path / "study", "moving")
    url, client = f"s3://{BUCKET}/moving", boto3.client("s3")
    client.put_object(Bucket=BUCKET, Key="moving/_temporary/half.parquet", Body=b"PAR1")
    client.put_object(Bucket=BUCKET, Key="moving/.hidden", Body=b"x")
    folder = local_copy(url)
    assert not (folder / "_temporary").exists()
    assert not (folder / ".hidden").exists()
    client.put_object(Bucket=BUCKET, Key="moving/note.txt", Body=b"1")
    assert (local_copy(url) / "note.txt").read_bytes() == b"1"
    client.put_object(Bucket=BUCKET, Key="moving/note.txt", Body=b"22")
    assert (local_copy(url) / "note.txt").read_bytes() == b"22"
    client.delete_object(Bucket=BUCKET, Key="moving/note.txt")
    assert not (local_copy(url) / "note.txt").exists()
    publish(folder)
    assert {"_temporary/half.parquet", ".hidden"} <= keys("moving"), "what was not copied is not taken out"


def other_machine(name: str, content: dict[str, Any]) -> None:
    """Leave the lock that another machine holds."""
    boto3.client("s3").put_object(Bucket=BUCKET, Key=f"{name}/{LOCK}", Body=json.dumps(content).encode())


def test_one_machine_at_a_time_fills_a_folder(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one is refused, whichever machine it runs on; one that died is followed, and takes nothing with it."""
    source, url = source_to(tmp_path / "source", "alone"), f"s3://{BUCKET}/alone"
    other_machine("alone", {"host": "other-machine", "place": ["another", 1, 2], "writer": "x"})
    with pytest.raises(CausalveilError, match="on other-machine writes there; let it end") as caught:
        extract_source(source, DirectEngine())
    assert "\n" not in str(caught.value)
    assert keys("alone") == {"dataset.yaml", LOCK}, "nothing was written"
    with pytest.raises(CausalveilError, match="other-machine"), folder_at(url):
        pass
    monkeypatch.setattr(stored_writes, "ABANDONED", timedelta(seconds=-1))
    assert extract_source(source, DirectEngine()).manifest.rows == 1000
    assert LOCK not in keys("alone"), "it is taken away at the end"


def test_a_process_of_this_machine_that_was_killed_is_followed_at_once(server: str, tmp_path: Path) -> None:
    source = source_to(tmp_path / "source", "killed")
    code = (
        "import os, signal, sys\nfrom causalveil.tasks.machine.stored_writes import alone_at\n"
        "with alone_at(sys.argv[1]):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, f"s3://{BUCKET}/killed"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert LOCK in keys("killed")
    assert extract_source(source, DirectEngine()).manifest.rows == 1000


def test_two_processes_of_one_machine_and_two_of_one_url(server: str, tmp_path: Path) -> None:
    url = f"s3://{BUCKET}/both"
    code = (
        "import sys\nfrom causalveil.tasks.machine import stored_writes\n"
        "with stored_writes.alone_at(sys.argv[1]):\n    pass\n"
    )
    with stored_writes.alone_at(url), stored_writes.alone_at(f"{url}/"):
        second = subprocess.run([sys.executable, "-c", code, url], check=False, capture_output=True, text=True)
        assert "another process of this machine writes there" in second.stderr
        # Whoever sleeps until another machine has taken over writes nothing any more.
        other_machine("both", {"host": "other-machine", "place": [], "writer": "y"})
        with pytest.raises(CausalveilError, match="another extract or admission has begun to write there"):
            stored_writes.refuse_lost(url)
    assert LOCK in keys("both"), "another's lock stays"


@pytest.mark.parametrize("how", ["403", "503"])
def test_a_store_that_lets_nobody_write_is_told(how: str, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_writes, "PATIENCE", {"max_retries": 0})
    with before(server, how) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with (
            pytest.raises(CausalveilError, match="cannot be written: the store") as caught,
            stored_writes.alone_at(f"s3://{BUCKET}/no"),
        ):
            pass
        assert "not-in-any-message" not in str(caught.value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    with (
        pytest.raises(CausalveilError, match="there is no such bucket"),
        stored_writes.alone_at("s3://no-such-bucket/a"),
    ):
        pass


def test_a_release_is_put_in_the_store_and_never_over_another(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study, url = write_study(tmp_path / "study", frame=people(600)), f"s3://{BUCKET}/answers/one"
    spent = open_ledger().head()
    with before(server, "403") as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with pytest.raises(CausalveilError, match=r"the store refuses.*nothing was reserved"):
            run_study(study, out=url, run_id="one", engine="direct")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    assert open_ledger().head() == spent
    run = run_study(study, out=url, run_id="one", engine="direct")
    assert (run.path, run.url) == (Path("releases/one/release.json"), url)
    client = boto3.client("s3")
    stored = client.get_object(Bucket=BUCKET, Key="answers/one/release.json")["Body"].read()
    assert stored == run.path.read_bytes()
    assert keys("answers/one") == {"release.json"}, "what was tried ahead is gone"
    assert run_study(study, out=url, run_id="one", engine="direct").returned is None, "the same again is welcome"
    spent = open_ledger().head()
    with pytest.raises(StudyError, match=r"answers/one/release.json: another release lies there; choose another out"):
        run_study(study, out=url, run_id="two", engine="direct")
    assert open_ledger().head() == spent
    fetched = CliRunner().invoke(app, ["ledger", "release", "one", "--out", f"s3://{BUCKET}/answers/again"])
    assert fetched.exit_code == 0, fetched.output
    assert client.get_object(Bucket=BUCKET, Key="answers/again/release.json")["Body"].read() == stored
