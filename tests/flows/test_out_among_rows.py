"""A protocol's table is never written where it would count as rows: the owner's admission counts Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from causalveil.flows.api import run, run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.declare import load, plan_study
from causalveil.flows.run.study import execute
from causalveil.schemas.errors import StudyError
from causalveil.tasks.machine import object_storage
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.flows.test_protocol_study import study_in
from tests.s3 import BUCKET, s3_server
from tests.studies import refused, write_study

AMONG = r"lies in the data folder .*study, where answers.parquet would count as rows of the dataset; choose an --out "


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
    assert "choose an --out outside of that folder; nothing was reserved" in line
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
