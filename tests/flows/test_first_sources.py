"""`init` on everything but a single CSV: a folder of CSV or Parquet files, a DuckDB file, a table of PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.sequence.admit import fill
from causalveil.flows.sequence.start import Begun, begin, survey
from causalveil.schemas.contract import DataClass
from causalveil.schemas.errors import DataError
from causalveil.tasks.enclave.partitions import NO_VALUE
from causalveil.tasks.start.roles import Wishes
from causalveil.tasks.warehouse.sample import URL_VARIABLE
from tests.postgres import WHY_NOT, database
from tests.warehouse import duckdb_file, files, load, visits, write_source

WISHES = Wishes("visits", DataClass.synthetic, "person", "treated", "score")


def start(where: str, folder: Path) -> Begun:
    return begin(survey(where), WISHES, folder, DirectEngine())


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb"])
def test_files_of_any_kind_give_a_study_that_runs(kind: str, tmp_path: Path) -> None:
    frame = visits()
    where = tmp_path / ("visits.duckdb" if kind == "duckdb" else "visits")
    if kind == "duckdb":
        duckdb_file(where, frame)
    else:
        files(where, frame, kind)
    begun = start(str(where), tmp_path / "out")
    assert begun.manifest is not None
    assert begun.manifest.rows == frame.height
    assert begun.draft.questions == ()
    assert (
        run_study(tmp_path / "out/study.yaml", out=tmp_path / "answer", engine="direct").release.units == frame.height
    )


def test_a_table_of_postgresql_gives_a_study_that_runs_once_its_url_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database() as url:
        if url is None:
            pytest.skip(WHY_NOT)
        load(url, visits())
        begun = start(url, tmp_path / "out")
        assert begun.manifest is None, "rows are taken once the URL is in place"
        assert url not in (tmp_path / "out/source.yaml").read_text(), "a password is written nowhere"
        monkeypatch.setenv(URL_VARIABLE, url)
        fill(tmp_path / "out/source.yaml", DirectEngine())
    assert run_study(tmp_path / "out/study.yaml", out=tmp_path / "answer", engine="direct").release.units == 1000


def hive(folder: Path, *, inside: bool, wrong: bool = False) -> Path:
    """The visits in folders by a column, as Spark's partitionBy leaves them; ``inside``: files have the column too."""
    frame = visits().with_columns(pl.Series("ward", [("a", "b b", None)[index % 3] for index in range(1000)]))
    for (ward,), part in frame.group_by("ward"):
        place = folder / f"ward={quote(str(ward)) if ward is not None else NO_VALUE}"
        place.mkdir(parents=True)
        kept = part if inside else part.drop("ward")
        (kept.with_columns(ward=pl.lit("a")) if wrong else kept).write_parquet(place / "part.parquet")
    return folder


@pytest.mark.parametrize("inside", [True, False])
def test_a_column_in_names_of_folders_is_one(inside: bool, tmp_path: Path) -> None:
    """It was left out without a word, and with it what it confounds."""
    begun = start(str(hive(tmp_path / "visits", inside=inside)), tmp_path / "out")
    assert "ward" in begun.draft.taken
    rows = pl.read_parquet(tmp_path / "out/rows=all/part-00000.parquet", hive_partitioning=False)
    counts = {"a": 334, "b b": 333, None: 333}
    assert dict(rows.group_by("ward").len().iter_rows()) == counts
    assert run_study(tmp_path / "out/study.yaml", out=tmp_path / "answer", engine="direct").release.units == 1000


def test_a_file_that_says_otherwise_than_its_folder_is_refused_before_a_file_is_written(tmp_path: Path) -> None:
    folder = hive(tmp_path / "visits", inside=True, wrong=True)
    with pytest.raises(DataError, match="column 'ward' says otherwise than the folder") as caught:
        start(str(folder), tmp_path / "out")
    assert "b b" not in str(caught.value)
    assert not (tmp_path / "out").exists()
    source = write_source(tmp_path / "source.yaml", {"kind": "parquet", "path": "visits"}, columns={"ward": "text"})
    with pytest.raises(DataError, match="column 'ward' says otherwise than the folder"):
        fill(source, DirectEngine())


def test_a_folder_gives_text_and_no_number_that_was_declared(tmp_path: Path) -> None:
    hive(tmp_path / "visits", inside=False)
    source = write_source(tmp_path / "source.yaml", {"kind": "parquet", "path": "visits"}, columns={"ward": "integer"})
    with pytest.raises(DataError, match="has no column 'ward'"):
        fill(source, DirectEngine())


def test_a_column_that_is_spelt_in_two_ways_is_named(tmp_path: Path) -> None:
    folder, frame = tmp_path / "visits", visits()
    folder.mkdir()
    frame[:500].write_parquet(folder / "1.parquet")
    frame[500:].rename({"age": "Age"}).write_parquet(folder / "2.parquet")
    left_out = start(str(folder), tmp_path / "out").draft.left_out
    assert "'age': is not in 2.parquet, which has 'Age'; write it in one way in all" in left_out
