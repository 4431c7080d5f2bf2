"""`init` on everything but a single CSV: a folder of CSV or Parquet files, a DuckDB file, a table of PostgreSQL."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import fill
from causalveil.flows.run.start import Begun, begin
from causalveil.flows.run.survey import survey
from causalveil.schemas.contract import DataClass
from causalveil.schemas.errors import DataError, StudyError
from causalveil.tasks.data.partitions import NO_VALUE
from causalveil.tasks.start.roles import Wishes
from causalveil.tasks.warehouse.sample import URL_VARIABLE
from tests.postgres import WHY_NOT, database
from tests.warehouse import duckdb_file, files, load, visits, workbook, write_source

WISHES = Wishes("visits", DataClass.synthetic, "person", "treated", "score")


def start(where: str, folder: Path) -> Begun:
    return begin(survey(where), WISHES, folder, DirectEngine())


# Files of other programs: codes with labels, a scale with labels at its ends, a declared missing value, dates.
LABELS = {"treated": {0: "no", 1: "yes"}, "ward": {1: "north", 2: "south"}, "scale": {0: "never", 10: "always"}}
ENDINGS = ("sav", "dta", "xpt", "xlsx")


def surveyed(rows: int = 400) -> pl.DataFrame:
    index = pl.int_range(rows, eager=True)
    coded = {"ward": index % 2 + 1, "scale": (index % 11).cast(pl.Float64), "wage": (index % 97 + 1).cast(pl.Float64)}
    return visits(rows).with_columns(pl.col("treated").cast(pl.Int64), **coded)


def written(path: Path, frame: pl.DataFrame, labels: dict[str, dict[int, str]] = LABELS) -> str:
    import pyreadstat

    match path.suffix:
        case ".sav":
            known: Any = {name: {float(code): word for code, word in one.items()} for name, one in labels.items()}
            pyreadstat.write_sav(frame, str(path), variable_value_labels=known, missing_ranges={"wage": [97]})
        case ".dta":
            pyreadstat.write_dta(frame, str(path), variable_value_labels=labels)  # type: ignore[arg-type]
        case ".xpt":
            pyreadstat.write_xport(frame, str(path))
        case _:
            workbook(path, data=[["Visits of 2026"], frame.columns, *map(list, frame.rows()), ["Total", None, 5]])
    return str(path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_of_other_programs_are_read_with_labels_missing_values_and_dates(ending: str, tmp_path: Path) -> None:
    frame = surveyed()
    begun = start(written(tmp_path / f"visits.{ending}", frame), tmp_path / "out")
    assert begun.manifest is not None
    assert begun.manifest.rows == frame.height, "a total is no row"
    rows = pl.read_parquet(tmp_path / "out/rows=all/part-00000.parquet", hive_partitioning=False)
    words = ending in ("sav", "dta")
    wards = frame["ward"].replace_strict(LABELS["ward"], return_dtype=pl.String) if words else frame["ward"]
    assert rows["ward"].to_list() == wards.to_list()
    assert rows["scale"].to_list() == frame["scale"].to_list(), "labels at its ends make no scale a category"
    assert rows["day"].to_list() == frame["day"].to_list()
    assert rows["wage"].null_count() == ((frame["wage"] == 97).sum() if ending == "sav" else 0)
    assert any("scale" in one for one in begun.draft.assumed) == words
    assert {"ward", "scale", "wage", "age"} <= set(begun.draft.taken)
    if ending == "dta":
        answer = run_study(tmp_path / "out/study.yaml", out=tmp_path / "answer", engine="direct")
        assert answer.release.units == frame.height


def test_months_of_such_a_file_are_blocks(tmp_path: Path) -> None:
    path = written(tmp_path / "visits.dta", surveyed())
    source = write_source(tmp_path / "source.yaml", {"kind": "stata", "path": path}, columns={"treated": "text"})
    assert [block.rows for block in fill(source, DirectEngine()).manifest.blocks] == [0, 217, 183, 0]


def cut(path: Path, part: float) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part) // 80 * 80 + 7])


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_of_another_program_that_is_cut_off_is_refused_in_one_sentence(ending: str, tmp_path: Path) -> None:
    written(tmp_path / f"visits.{ending}", surveyed())
    cut(tmp_path / f"visits.{ending}", 0.6)
    with pytest.raises(DataError, match=r"^visits\.\w+: cannot be read as .* Save it again"):
        survey(str(tmp_path / f"visits.{ending}"))


def test_a_sheet_must_be_named_and_a_password_taken_off(tmp_path: Path) -> None:
    path = workbook(tmp_path / "in.xlsx", notes=[["read me"]], data=[["id", "age"], [1, 30], [2, 40]])
    with pytest.raises(StudyError, match="say which sheet: `causalveil init --table NAME`; there are notes, data"):
        survey(str(path))
    with pytest.raises(StudyError, match="no sheet 'date'; there are notes, data"):
        survey(str(path), table="date")
    assert survey(str(path), table="data").sample.frame.to_dict(as_series=False) == {
        "id": ["1", "2"],
        "age": ["30", "40"],
    }
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(3000))
    with pytest.raises(DataError, match="protected by a password"):
        survey(str(path))


@pytest.mark.parametrize(("ending", "library"), [("sav", "pyreadstat"), ("xlsx", "fastexcel")])
def test_without_the_extra_one_line_says_what_to_install(
    ending: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = written(tmp_path / f"visits.{ending}", surveyed(50))
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(StudyError, match=rf"{library}, which is not installed.*install causalveil\[files\]"):
        survey(where)


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_rows_and_their_labels_hold_is_in_no_draft_of_sensitive_data(ending: str, tmp_path: Path) -> None:
    said = {"levels": {"ward": ("north", "south") if ending in ("sav", "dta") else ("1", "2")}}
    wishes = replace(WISHES, data_class=DataClass.sensitive, ranges={"scale": (0.0, 10.0), "age": (0.0, 99.0)}, **said)
    one = surveyed(60)
    other = one.with_columns(
        scale=pl.lit(3.0),
        wage=pl.lit(None, pl.Float64),
        day=pl.lit(None, pl.Date),
        ward=pl.when(pl.col("person") % 3 == 0).then(2).otherwise(pl.col("ward")),
    )
    texts = []
    for frame in (one, other):
        folder = tmp_path / str(len(texts))
        folder.mkdir()
        where = folder / f"in.{ending}"
        if ending == "xlsx":
            workbook(where, data=[frame.columns, *map(list, frame.rows())])
        else:
            written(where, frame)
        begin(survey(str(where)), wishes, folder / "out", DirectEngine())
        texts.append([(folder / "out" / name).read_text() for name in ("dataset.yaml", "study.yaml", "source.yaml")])
    assert texts[0] == texts[1]


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
