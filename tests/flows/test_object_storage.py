"""Sources in object storage, on a real S3 server on loopback; releases are refused there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs
from typer.main import get_command

from causalveil.flows.api import run_study
from causalveil.flows.cli.main import app
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import fill
from causalveil.flows.run.start import begin
from causalveil.flows.run.survey import survey
from causalveil.schemas.contract import DataClass
from causalveil.schemas.errors import CausalveilError, DataError, StudyError
from causalveil.schemas.warehouse import Manifest
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.start.roles import Wishes
from tests.iceberg_tables import catalog_here, iceberg_table
from tests.s3 import before, s3_server
from tests.studies import write_study
from tests.warehouse import COLUMNS, read, visits, write_source

WISHES = Wishes("visits", DataClass.synthetic, "person", "treated", "score")


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, pytest.MonkeyPatch]]:
    with pytest.MonkeyPatch.context() as patch, s3_server(patch) as address:
        yield address, patch


def take(path: Path) -> Manifest:
    return fill(path, DirectEngine()).manifest


def put(path: str) -> str:
    """The visits as two Parquet files below a path of the bucket; returns its URL."""
    (store, _), frame = fs.FileSystem.from_uri("s3://clinic"), visits()
    for name, part in (("a", frame[:600]), ("b", frame[600:])):
        pq.write_table(part.to_arrow(), f"clinic/{path}/{name}.parquet", filesystem=store)
    with store.open_output_stream(f"clinic/{path}/_temporary/half.parquet") as stream:
        stream.write(b"PAR1")
    return f"s3://clinic/{path}"


def source(tmp_path: Path, kind: str, url: str, **changes: Any) -> Path:
    return write_source(tmp_path / "source.yaml", {"kind": kind, "path": url}, **changes)


def test_parquet_is_taken_over_from_a_bucket(tmp_path: Path, server: Any) -> None:
    manifest = take(source(tmp_path, "parquet", put("plain")))
    assert [block.rows for block in manifest.blocks] == [0, 527, 473, 0]
    assert read(tmp_path / "data").equals(visits().sort("person").select(*COLUMNS))
    with pytest.raises(CausalveilError, match=r"no parquet file in s3://clinic/nothing"):
        take(source(tmp_path, "parquet", "s3://clinic/nothing", to="elsewhere"))


def test_objects_that_come_are_taken_in_and_one_that_goes_is_refused_by_name(tmp_path: Path, server: Any) -> None:
    path, (store, _) = source(tmp_path, "parquet", put("changing")), fs.FileSystem.from_uri("s3://clinic")
    take(path)
    more = visits(100).with_columns(person=pl.col("person") + 5000)
    pq.write_table(more.to_arrow(), "clinic/changing/c.parquet", filesystem=store)
    found = fill(path, DirectEngine())
    assert (found.manifest.rows, found.written) == (1100, ("c.parquet",))
    assert found.again == ("month=2026-01", "month=2026-02")
    store.delete_file("clinic/changing/a.parquet")
    with pytest.raises(DataError, match=r"month=2026-01: would have other rows now, .*: a\.parquet; bring them back"):
        take(path)


def test_a_column_in_names_of_folders_is_one_in_a_bucket_too(tmp_path: Path, server: Any) -> None:
    store, frame = fs.FileSystem.from_uri("s3://clinic")[0], visits()
    for ward, part in (("a", frame[:600]), ("b", frame[600:])):
        pq.write_table(part.to_arrow(), f"clinic/hive/ward={ward}/part.parquet", filesystem=store)
    take(source(tmp_path, "parquet", "s3://clinic/hive", columns={"ward": "text"}))
    assert dict(read(tmp_path / "data").group_by("ward").len().iter_rows()) == {"a": 600, "b": 400}


def test_init_reads_parquet_in_a_bucket(tmp_path: Path, server: Any) -> None:
    begun = begin(survey(put("started")), WISHES, tmp_path / "out", DirectEngine())
    assert begun.units == 1000
    assert yaml.safe_load((tmp_path / "out/source.yaml").read_text())["source"]["path"] == "s3://clinic/started"
    assert run_study(tmp_path / "out/study.yaml", out=tmp_path / "answer", engine="direct").release.units == 1000


def test_a_delta_table_in_a_bucket_is_read_by_its_log_and_by_nothing_else(tmp_path: Path, server: Any) -> None:
    url = "s3://clinic/tables/visits"
    write_deltalake(url, visits().to_arrow())
    DeltaTable(url).delete("person < 1100")
    manifest = take(source(tmp_path, "delta", url))
    assert (manifest.rows, manifest.snapshots()[0].version) == (900, 1)
    assert survey(f"delta:{url}").sample.frame.height == 900
    for place in (url, "s3://clinic/tables"):
        with pytest.raises(DataError, match="is a Delta table, whose log says"):
            take(source(tmp_path, "parquet", place, to="elsewhere"))


@pytest.mark.long  # its own client of S3 takes seconds to start
def test_an_iceberg_table_in_a_bucket_is_read(tmp_path: Path, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__STORED__S3__ENDPOINT", server[0])
    catalog = catalog_here(tmp_path / "catalog", monkeypatch, "stored", "s3://clinic/iceberg")
    table = iceberg_table(catalog, visits())
    assert table.location().startswith("s3://")
    document = {"kind": "iceberg", "catalog": "stored", "table": "clinic.visits"}
    assert take(write_source(tmp_path / "source.yaml", document)).rows == 1000


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("parquet", "403"),
        # Arrow asks a busy server again for twenty seconds.
        pytest.param("parquet", "503", marks=pytest.mark.long),
        ("parquet", "cut"),
        ("delta", "403"),
        ("delta", "503"),
        ("delta", "cut"),
    ],
)
def test_a_store_that_refuses_is_busy_or_cuts_is_told_in_one_line(
    kind: str, how: str, tmp_path: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = put("faults")
    if kind == "delta":
        url = "s3://clinic/faulty"
        write_deltalake(url, visits().to_arrow(), mode="overwrite")
    with before(server[0], how) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        words = "refuses the operator's credentials" if (kind, how) == ("parquet", "403") else "cannot be read"
        with pytest.raises(CausalveilError, match=words) as caught:
            take(source(tmp_path, kind, url))
    assert "\n" not in str(caught.value)
    assert "not-in-any-message" not in str(caught.value)
    assert not [path for path in (tmp_path / "data").rglob("*.parquet") if path.parent.name != "month=2025-12"]


def test_an_object_that_is_replaced_while_it_is_read_is_told(tmp_path: Path, server: Any) -> None:
    from causalveil.tasks.machine.object_storage import stored_files

    url = put("changing")
    listed = stored_files(url, "parquet")
    listed[0].refuse_changed()
    with fs.FileSystem.from_uri("s3://clinic")[0].open_output_stream("clinic/changing/a.parquet") as stream:
        stream.write(b"PAR1 of another day")
    with pytest.raises(DataError, match=r"a\.parquet: was changed while it was read"):
        listed[0].refuse_changed()


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:secret@clinic/plain",
        "s3://clinic/plain?endpoint_override=elsewhere",
        "https://clinic/plain",
        "abfs://box:secret@account/x",
    ],
)
def test_credentials_and_other_schemes_have_no_place_in_a_source(url: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"credentials or options in its URL|is a URL where a folder is meant"):
        take(source(tmp_path, "parquet", url))


def test_folders_of_csv_and_releases_are_folders(tmp_path: Path) -> None:
    words = "is a URL where a folder is meant; take rows from object storage as Parquet, Delta or Iceberg"
    with pytest.raises(StudyError, match=words):
        take(source(tmp_path, "csv", "s3://clinic/data"))
    study = write_study(tmp_path / "study", study={"data": {"path": "http://clinic/data"}})
    with pytest.raises(StudyError, match=words):
        run_study(study, out=tmp_path / "answer", engine="direct")
    study = write_study(tmp_path / "study")
    with pytest.raises(StudyError, match=f"^out: {words}"):
        run_study(study, out="https://clinic/releases", engine="direct")


@pytest.mark.parametrize("words", [["desk", "--out"], ["init", "in.csv", "--data-class", "synthetic", "--unit", "person", "--treatment", "treated", "--outcome", "score", "--out"]])  # fmt: skip # noqa: E501
def test_a_url_is_no_folder_of_this_machine(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    visits().write_csv(tmp_path / "in.csv")
    open_ledger()
    with pytest.raises(StudyError, match="is a URL where a file or folder of this machine is meant"):
        get_command(app)([*words, "s3://clinic/there"], standalone_mode=False)
    assert not (tmp_path / "s3:").exists()
