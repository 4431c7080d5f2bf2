"""What changes at a source between two extracts: taken in and named, or refused by name."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import psycopg
import pytest
import yaml

from causalveil.flows.api import run_study
from causalveil.flows.cli.main import main
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import Extracted, extract_source
from causalveil.flows.run.start import begin
from causalveil.flows.run.survey import survey
from causalveil.schemas.contract import DataClass
from causalveil.schemas.errors import DataError
from causalveil.tasks.start.roles import Wishes
from tests.postgres import WHY_NOT, database
from tests.studies import command, refused
from tests.warehouse import delta_table, duckdb_file, load, read, visits, write_source

BLOCKS = ["month=2025-12", "month=2026-01", "month=2026-02", "month=2026-03"]
WISHES = Wishes("visits", DataClass.synthetic, "person", "treated", "score")


def put(path: Path, frame: pl.DataFrame) -> None:
    """Write a file, later than any that was there."""
    path.parent.mkdir(exist_ok=True)
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)
    put.clock += 1_000_000_000  # type: ignore[attr-defined]
    os.utime(path, ns=(put.clock, put.clock))  # type: ignore[attr-defined]


put.clock = 1_700_000_000_000_000_000  # type: ignore[attr-defined]


def months(folder: Path, kind: str, frame: pl.DataFrame | None = None) -> tuple[Path, pl.DataFrame]:
    """A folder with one file for January and one for February, and the source file that takes it."""
    frame = visits() if frame is None else frame
    for number in (1, 2):
        put(folder / "files" / f"{number}.{kind}", frame.filter(pl.col("day").dt.month() == number))
    return write_source(folder / "source.yaml", {"kind": kind, "path": str(folder / "files")}), frame


def take(path: Path) -> Extracted:
    return extract_source(path, DirectEngine())


def march(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(person=pl.col("person") + 5000, day=pl.date(2026, 3, 5))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_that_come_or_change_are_taken_in_and_named(kind: str, tmp_path: Path) -> None:
    path, frame = months(tmp_path, kind)
    assert (take(path).again, take(path).written, take(path).news) == ((), (), take(path).news)
    january = tmp_path / "data" / "month=2026-01" / "part-00000.parquet"
    before = january.stat().st_mtime_ns
    put(tmp_path / "files" / f"3.{kind}", march(frame)[:100])
    found = take(path)
    assert (found.again, found.written) == ((), (f"3.{kind}",))
    assert [block.rows for block in found.manifest.blocks] == [0, 527, 473, 100]
    assert january.stat().st_mtime_ns == before, "a month that the file says nothing of stays as it is"
    # The same rows again are no other rows.
    put(tmp_path / "files" / f"1.{kind}", frame.filter(pl.col("day").dt.month() == 1))
    found = take(path)
    assert (found.again, found.written, january.stat().st_mtime_ns) == ((), (f"1.{kind}",), before)
    # As many rows, of which one says something else.
    put(tmp_path / "files" / f"1.{kind}", frame.filter(pl.col("day").dt.month() == 1).with_columns(age=pl.lit(50.0)))
    found = take(path)
    assert found.again == ("month=2026-01",)
    assert "other rows than before in month=2026-01 of 'small'" in found.news[0]
    assert read(tmp_path / "data" / "month=2026-01")["age"].unique().to_list() == [50.0]
    # Rows of a month that is there, in a file of their own.
    put(tmp_path / "files" / f"4.{kind}", march(frame)[100:110].with_columns(day=pl.date(2026, 1, 9)))
    found = take(path)
    assert (found.again, [block.rows for block in found.manifest.blocks]) == (("month=2026-01",), [0, 537, 473, 100])
    assert take(path).news == [], "what was told once is known"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_that_is_gone_is_refused_by_name_and_the_advice_is_true(kind: str, tmp_path: Path) -> None:
    path, frame = months(tmp_path, kind)
    take(path)
    (tmp_path / "files" / f"1.{kind}").unlink()
    with pytest.raises(DataError, match=rf"month=2026-01: would have other rows now.* had: 1\.{kind}; bring"):
        take(path)
    assert read(tmp_path / "data" / "month=2026-01").height == 527, "they stay"
    put(tmp_path / "files" / f"1.{kind}", frame.filter(pl.col("day").dt.month() == 1))
    assert take(path).again == ()
    (tmp_path / "files" / f"1.{kind}").unlink()
    for block in (tmp_path / "data" / "month=2026-01").iterdir():
        block.unlink()
    (tmp_path / "data" / "month=2026-01").rmdir()
    assert [block.rows for block in take(path).manifest.blocks] == [0, 0, 473, 0]


def test_without_a_key_all_rows_follow_the_files(tmp_path: Path) -> None:
    """`init` on two months, a third arrives: `extract` left the old 1,000 rows and ended well, and `run` answered."""
    _, frame = months(tmp_path, "csv")
    out = tmp_path / "out"
    begin(survey(str(tmp_path / "files")), WISHES, out, DirectEngine())
    put(tmp_path / "files/3.csv", march(frame)[:200])
    found = take(out / "source.yaml")
    assert (found.manifest.rows, found.again, found.written) == (1200, ("rows=all",), ("3.csv",))
    assert run_study(out / "study.yaml", out=tmp_path / "answer", engine="direct").release.units == 1200


def test_check_says_that_the_source_has_other_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, frame = months(tmp_path, "csv")
    out = tmp_path / "out"
    begin(survey(str(tmp_path / "files")), WISHES, out, DirectEngine())
    with pytest.raises(SystemExit) as ended:
        main(["check", str(out / "study.yaml")])
    assert (ended.value.code, "nothing is wrong" in capfd.readouterr().out) == (0, True)
    put(tmp_path / "files/3.csv", march(frame)[:200].rename({"age": "Age"}))
    code, told, _ = refused(capfd, "extract", str(out / "source.yaml"))
    assert code != 0
    assert "3.csv has no column 'age'" in told
    assert command("check", out / "study.yaml") == 2
    shown = " ".join(capfd.readouterr().out.split())
    assert "nothing is wrong" not in shown
    assert "3.csv" in shown
    assert f"causalveil extract {out / 'source.yaml'}" in shown
    put(tmp_path / "files/3.csv", march(frame)[:200])
    take(out / "source.yaml")
    assert command("check", out / "study.yaml") == 0
    (tmp_path / "files/2.csv").unlink()
    assert command("check", out / "study.yaml") == 2
    assert "2.csv" in capfd.readouterr().out


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_renamed_header_is_named_at_init_as_at_extract(kind: str, tmp_path: Path) -> None:
    path, frame = months(tmp_path, kind)
    put(tmp_path / "files" / f"2.{kind}", frame[500:].rename({"age": "Age"}))
    with pytest.raises(DataError, match=rf"2\.{kind} has no column 'age'"):
        take(path)
    if kind == "csv":
        with pytest.raises(DataError, match=r"2\.csv has no column 'age', which 1\.csv has; .*it has 'Age'"):
            survey(str(tmp_path / "files"))
        assert not (tmp_path / "out").exists()
    else:
        begun = begin(survey(str(tmp_path / "files")), WISHES, tmp_path / "out", DirectEngine())
        assert any("'age': is not in 2.parquet, which has 'Age'" in line for line in begun.draft.left_out)


def test_headers_in_another_order_are_read_by_name(tmp_path: Path) -> None:
    _, frame = months(tmp_path, "csv")
    put(tmp_path / "files/2.csv", frame[500:].select(reversed(frame.columns)))
    sample = survey(str(tmp_path / "files")).sample
    assert sample.frame["age"].cast(pl.Float64).max() <= 90  # type: ignore[operator]


@pytest.mark.parametrize("kind", ["csv", "delta"])
def test_extract_says_what_changed(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    frame = visits()
    if kind == "csv":
        path, _ = months(tmp_path, kind)
    else:
        path = write_source(tmp_path / "source.yaml", delta_table(tmp_path / "files", frame))
    told: Callable[..., Any] = lambda *words: _printed(capfd, "extract", str(path), *words)  # noqa: E731
    told()
    if kind == "csv":
        put(tmp_path / "files/1.csv", frame.filter(pl.col("day").dt.month() == 1)[1:])
    else:
        from deltalake import DeltaTable

        DeltaTable(tmp_path / "files").delete(f"person = {frame['person'][0]}")
    shown = " ".join(told().split())
    assert "Other rows than before in month=2026-01 of 'small': taken anew" in shown
    assert ("New or written again at the source of 'small' since the last extract: 1.csv;" in shown) == (kind == "csv")
    assert "Other rows" not in told()
    document = json.loads(told("--json"))
    assert (document["again"], document["written"]) == ([], [])
    assert "source_files" not in document, "bytes of a file say more of its rows than how many they are"


def _printed(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    capfd.readouterr()
    assert command(*words) == 0
    return capfd.readouterr().out


def test_an_extract_of_an_earlier_version_knows_no_files_and_loses_none(tmp_path: Path) -> None:
    """Its blocks are compared with what lies there now; nothing is said of files that it did not note."""
    path, frame = months(tmp_path, "csv")
    take(path)
    manifest = tmp_path / "data" / "_manifest.json"
    document = json.loads(manifest.read_text())
    del document["source_files"]
    manifest.write_text(json.dumps(document))
    assert (take(path).again, take(path).written) == ((), ())
    manifest.write_text(json.dumps(document))
    put(tmp_path / "files/1.csv", frame.filter(pl.col("day").dt.month() == 1)[1:])
    assert take(path).again == ("month=2026-01",)


@pytest.mark.parametrize("kind", ["duckdb", "adbc", "sqlalchemy"])
def test_a_month_of_a_database_with_another_number_of_rows_is_named(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays as it was taken until its folder is deleted, as the line says. A month that came late is none."""
    frame = visits()
    with contextlib.ExitStack() as held:
        if kind == "duckdb":
            source = duckdb_file(tmp_path / "w.duckdb", frame)
        else:
            url = held.enter_context(database())
            if url is None:
                pytest.skip(WHY_NOT)
            load(url, frame)
            monkeypatch.setenv("WAREHOUSE_URL", url)
            source = {"kind": kind, "url": {"environment": "WAREHOUSE_URL"}, "query": "SELECT * FROM visits"}
        path = write_source(tmp_path / "source.yaml", source, required=["score"])
        change = partial(_execute, source, url if kind != "duckdb" else None)
        change("UPDATE visits SET score = NULL WHERE person = (SELECT min(person) FROM visits)")
        assert take(path).manifest.left_out == {"score": 1}
        assert take(path).outdated == ()
        change("INSERT INTO visits SELECT person + 5000, treated, score, age, \"group\", DATE '2026-03-05' FROM visits")
        assert (take(path).outdated, take(path).manifest.blocks[-1].rows) == ((), 999)
        change("DELETE FROM visits WHERE day = DATE '2026-02-03'")
        found = take(path)
        assert found.outdated == ("month=2026-02",)
        assert "another number of rows at the source in month=2026-02 of 'small': left as they" in " ".join(found.news)
        shutil.rmtree(tmp_path / "data" / "month=2026-02")
        assert take(path).outdated == ()
        assert take(path).news == []


def _execute(source: dict[str, Any], url: str | None, words: str) -> None:
    if url is None:
        with duckdb.connect(source["path"]) as connection:
            connection.execute(words)
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(words.encode())


def folder_of_months(folder: Path) -> pl.DataFrame:
    frame = visits()
    for number in (1, 2):
        put(folder / f"visits-2026-0{number}.csv", frame.filter(pl.col("day").dt.month() == number))
    return frame


def test_the_draft_of_a_folder_of_months_asks_for_the_key(tmp_path: Path) -> None:
    folder_of_months(tmp_path / "files")
    (question,) = begin(survey(str(tmp_path / "files")), WISHES, tmp_path / "out", DirectEngine()).draft.questions
    assert "whether each month is a block" in question
    assert "named 2026-01 to 2026-02" in question
    assert "--key 'day=month'" in question


@pytest.mark.parametrize("data_class", ["synthetic", "sensitive"])
def test_a_drafted_key_gives_months_that_are_asked_one_by_one(
    data_class: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As the question says: each month is a block, and is asked by its name."""
    folder_of_months(tmp_path / "files")
    out = tmp_path / "out"
    words = "--data-class", data_class, "--unit", "person", "--treatment", "treated", "--outcome", "score"
    if data_class == "sensitive":
        ranges = "--range", "score=0:10", "--range", "age=0:110", "--levels", "group=a,b,c"
        words = (*words, *ranges, "--written", "day=2026-01-31")
    shown = _printed(capfd, "init", str(tmp_path / "files"), "--out", str(out), *words, "--key", "day=month")
    assert "In blocks: 2026-01 to" in shown
    assert "Still to be said" not in shown
    key = yaml.safe_load((out / "source.yaml").read_text())["key"]
    assert key == {"name": "month", "column": "day", "step": "month", "first": "2026-01", "last": "previous"}
    assert read(out / "month=2026-01").height == 527
    if data_class == "sensitive":
        return
    study, contract = out / "study.yaml", out / "dataset.yaml"
    contract.write_text(contract.read_text().replace("units_span: true", "units_span: false"))
    assert run_study(study, out=tmp_path / "first", engine="direct").release.units == 473
    study.write_text(study.read_text().replace("{newest: 1}", "{blocks: [2026-01]}"))
    release = run_study(study, out=tmp_path / "second", engine="direct").release
    assert (release.units, release.privacy.blocks.charged) == (527, ("month=2026-01",))


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("day", "COLUMN=day, month or year"),
        ("day=week", "COLUMN=day, month or year"),
        ("nothing=month", "COLUMN=day, month or year"),
        ("day=year", "no file says the first year; say it, as in --key 'day=year:2026'"),
        ("day=month:January", "such as 2026-01"),
        ("age=month", "column 'age' holds no dates"),
    ],
)
def test_a_key_that_is_none_is_refused_before_a_file_is_written(
    key: str, says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder_of_months(tmp_path / "files")
    words = ("--data-class", "public", "--unit", "person", "--treatment", "treated", "--outcome", "score")
    out = tmp_path / "out"
    code, told, _ = refused(capfd, "init", str(tmp_path / "files"), "--out", str(out), *words, "--key", key)
    assert (code, out.exists()) == (2, False)
    assert says in told


def test_a_key_of_a_folder_of_months_is_asked_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from causalveil.flows.cli import init
    from causalveil.flows.cli.main import app

    folder_of_months(tmp_path / "files")
    monkeypatch.setattr(init, "_asks", lambda: True)
    answers = ["public", "person", "treated", "no", "score", "age", "day", "", "", ""]
    words = ["init", str(tmp_path / "files"), "--out", str(tmp_path / "out")]
    found = CliRunner().invoke(app, words, input="\n".join([*answers, ""]))
    assert found.exit_code == 0, found.output
    assert "Is each month a block" in found.output
    assert "column 'age' holds no dates" in found.output
    assert (tmp_path / "out" / "month=2026-02").is_dir()
