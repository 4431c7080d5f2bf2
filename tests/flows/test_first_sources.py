"""`init` on everything but a single CSV: a folder of CSV or Parquet files, a DuckDB file, a table of PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.sequence.start import Begun, begin, survey
from causalveil.flows.sequence.warehouse import fill
from causalveil.schemas.contract import DataClass
from causalveil.tasks.start.roles import Wishes
from causalveil.tasks.warehouse.sample import URL_VARIABLE
from tests.postgres import WHY_NOT, database
from tests.warehouse import duckdb_file, files, load, visits

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
