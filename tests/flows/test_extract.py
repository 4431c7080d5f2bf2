"""From a warehouse to partitions: every kind of source gives the same rows, whole blocks only, and no secret leaks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import psycopg
import pytest
import sqlalchemy as sa
import yaml

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import admit_folder, extract_source
from causalveil.flows.run.ranges import find_ranges
from causalveil.schemas.errors import CausalveilError, DataError, StudyError
from causalveil.schemas.warehouse import Key, Manifest
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.warehouse.blocks import extracting
from causalveil.tasks.warehouse.extract import begin_change, intervals
from causalveil.tasks.warehouse.read_sql import statement
from tests.postgres import WHY_NOT, database
from tests.studies import CONTRACT, command, merge, write_study
from tests.unanswered import losing_an_answer
from tests.warehouse import COLUMNS, KEY, delta_table, duckdb_file, files, load, read, visits, write_source

ROOT = Path(__file__).parents[2]
QUERY = "SELECT * FROM visits"


def run(path: Path) -> Manifest:
    return extract_source(path, DirectEngine()).manifest


@pytest.fixture
def postgres(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with database() as url:
        if url is None:
            pytest.skip(WHY_NOT)
        monkeypatch.setenv("WAREHOUSE_URL", url)
        yield url


def sql(kind: str = "adbc", query: str = QUERY) -> dict[str, Any]:
    return {"kind": kind, "url": {"environment": "WAREHOUSE_URL"}, "query": query}


@pytest.mark.parametrize("kind", ["adbc", "sqlalchemy", "duckdb", "parquet", "csv", "delta"])
def test_every_source_gives_the_same_partitions(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    frame = visits()
    if kind in ("adbc", "sqlalchemy"):
        load(request.getfixturevalue("postgres"), frame)
        # A semicolon, a colon and a percent sign in the owner's query are text and nothing else.
        source = sql(kind, "SELECT *, ':x %s' AS extra FROM visits;")
    elif kind == "delta":
        source = delta_table(tmp_path / "table", frame)
    else:
        source = (
            duckdb_file(tmp_path / "w.duckdb", frame) if kind == "duckdb" else files(tmp_path / "files", frame, kind)
        )
    manifest = run(write_source(tmp_path / "source.yaml", source))
    assert [(block.block, block.rows, len(block.files)) for block in manifest.blocks] == [
        ("month=2025-12", 0, 1),
        ("month=2026-01", 527, 2),
        ("month=2026-02", 473, 2),
        ("month=2026-03", 0, 1),
    ]
    data = tmp_path / "data"
    assert read(data).equals(frame.select(*COLUMNS).sort("person"))
    assert read(data / "month=2026-02").height == 473
    assert DataFolder(data).manifest() == manifest
    assert {oct(path.stat().st_mode & 0o77) for path in data.rglob("*") if path.is_file()} == {"0o0"}
    statistics = pl.scan_parquet(data / "month=2026-01/part-00000.parquet")
    assert statistics.collect_schema().names() == list(COLUMNS)


@pytest.mark.parametrize("end", ["", ";", " -- end", "; -- end; of it", ";\n/* 'the; end */ ; -- ;\n"])
@pytest.mark.parametrize("middle", ["1", "';--'", "'it''s; -- x'", '1 AS "a;--", 2', "$$;--$$", "E'it\\'s; --'"])
def test_a_query_may_end_in_semicolons_and_comments(middle: str, end: str) -> None:
    """Whatever looks like them inside of strings and names is text."""
    connection = duckdb.connect()
    rows = connection.execute(f"SELECT {middle}").fetchall()
    assert (
        connection.execute(statement(None, f"SELECT {middle}{end}", None).replace("1 = 0", "true")).fetchall() == rows
    )


def test_blocks_that_are_there_stay_and_new_months_are_added(tmp_path: Path) -> None:
    frame = visits()
    source = duckdb_file(tmp_path / "w.duckdb", frame)
    path = write_source(tmp_path / "source.yaml", source, key={"last": "2026-01"})
    run(path)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "data").rglob("*.parquet")}
    write_source(path, source, key={"last": "2026-02"}, rows_per_file=1000)
    manifest = run(path)
    assert [block.rows for block in manifest.blocks] == [0, 527, 473]
    assert before.items() <= {p: p.stat().st_mtime_ns for p in (tmp_path / "data").rglob("*.parquet")}.items()
    write_source(path, source, key={"last": "2026-01"})
    with pytest.raises(DataError, match="month=2026-02: lies outside the declared range"):
        run(path)


def test_files_end_where_rows_per_file_says(tmp_path: Path) -> None:
    source = duckdb_file(tmp_path / "w.duckdb", visits())
    manifest = run(write_source(tmp_path / "source.yaml", source, rows_per_file=527))
    assert [[file.rows for file in block.files] for block in manifest.blocks] == [[0], [527], [473], [0]]


def test_previous_is_the_newest_month_that_is_over() -> None:
    key = Key.model_validate(KEY | {"last": "previous"})
    assert [block.value for block in intervals(key, date(2026, 2, 28))] == ["2025-12", "2026-01"]
    assert intervals(key, date(2026, 3, 1))[-1].value == "2026-02"
    with pytest.raises(StudyError, match="is over yet"):
        intervals(key, date(2025, 12, 31))


@pytest.mark.parametrize(
    ("step", "first", "last", "blocks"),
    [
        ("day", "2024-02-28", "2024-03-01", ["2024-02-28", "2024-02-29", "2024-03-01"]),
        ("year", 2023, 2025, ["2023", "2024", "2025"]),
        ("integer", -1, 1, ["-1", "0", "1"]),
    ],
)
def test_steps_of_a_key(step: str, first: Any, last: Any, blocks: list[str]) -> None:
    key = Key.model_validate({"name": "k", "column": "c", "step": step, "first": first, "last": last})
    found = intervals(key, date(2030, 1, 1))
    assert [block.value for block in found] == blocks
    assert all(a.upper == b.lower for a, b in pairwise(found)), "no gap, no overlap"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"source": {"url": "postgresql://u:secret@h/d"}}, "source.url"),
        ({"source": {"url": {"environment": "W", "block": "w"}}}, "one place"),
        ({"key": {"first": "2026-13"}}, "values of a month"),
        ({"key": {"first": "2026-04"}}, "first comes after last"),
        ({"key": {"step": "integer"}}, "values of a integer"),
        ({"columns": {"person": "int"}}, "columns.person"),
        ({"key": {"last": "newest"}}, "values of a month"),
    ],
)
def test_wrong_source_files_are_refused(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError) as caught:
        run(_changed(tmp_path / "source.yaml", change))
    assert says in str(caught.value)
    assert "secret" not in str(caught.value)


def _changed(path: Path, change: dict[str, Any]) -> Path:
    write_source(path, sql())
    path.write_text(yaml.safe_dump(merge(yaml.safe_load(path.read_text()), change)))
    return path


@pytest.mark.parametrize("kind", ["adbc", "sqlalchemy"])
@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("ALTER TABLE visits RENAME COLUMN age TO years", "column 'age' is missing"),
        ("ALTER TABLE visits ALTER COLUMN age TYPE text", "column 'age' is of type"),
        ("ALTER TABLE visits ALTER COLUMN person TYPE text", "column 'person' is of type"),
        ("DROP TABLE visits", "does not exist"),
        ("ALTER TABLE visits DROP COLUMN day", "column (the key's?)"),
    ],
)
def test_drift_in_the_warehouse_stops_the_extract(
    kind: str, statement: str, says: str, tmp_path: Path, postgres: str
) -> None:
    load(postgres, visits(60))
    path = write_source(tmp_path / "source.yaml", sql(kind), key={"last": "2026-01"})
    run(path)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(statement)
    write_source(path, sql(kind), key={"last": "2026-02"})
    before = sorted((tmp_path / "data").rglob("*"))
    with pytest.raises(CausalveilError) as caught:
        run(path)
    assert says in str(caught.value)
    assert caught.value.__context__ is None
    assert sorted((tmp_path / "data").rglob("*")) == before


@pytest.mark.parametrize("kind", ["adbc", "sqlalchemy"])
def test_a_value_that_breaks_the_query_is_not_told(kind: str, tmp_path: Path, postgres: str) -> None:
    load(postgres, visits(60).with_columns(group=pl.lit("Xq7canary")))
    broken = sql(kind, 'SELECT person, treated, score, age, "group", "group"::date AS day FROM visits')
    with pytest.raises(CausalveilError) as caught:
        run(write_source(tmp_path / "source.yaml", broken))
    assert "fails on a value" in str(caught.value)
    assert "canary" not in repr(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("kind", ["adbc", "sqlalchemy"])
def test_the_password_stands_nowhere(
    kind: str,
    tmp_path: Path,
    home: Path,
    postgres: str,
    prefect_server: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A good run and two that fail, under Prefect: the password is in no file, row, log line, message or output."""
    from prefect.settings import get_current_settings

    from causalveil.flows.deployed import extract_with_prefect

    load(postgres, visits(60))
    secret = "pw0canary0secret"
    messages = []
    with caplog.at_level("DEBUG"):
        path = write_source(tmp_path / "source.yaml", sql(kind))
        # The same server over TCP with a wrong password, then with a right query, then with a wrong one.
        wrong = sa.make_url(postgres).set(username="nobody", password=secret, host="127.0.0.1", port=_port(postgres))
        monkeypatch.setenv("WAREHOUSE_URL", wrong.render_as_string(hide_password=False))
        with pytest.raises(CausalveilError) as caught:
            extract_with_prefect(path, lambda _: None)
        messages.append(str(caught.value))
        with _role(postgres, secret) as right:
            monkeypatch.setenv("WAREHOUSE_URL", right)
            extract_with_prefect(path, lambda _: None)
            bad = write_source(tmp_path / "bad.yaml", sql(kind, "SELECT nothing FROM nowhere"), to="elsewhere")
            with pytest.raises(CausalveilError) as caught:
                extract_with_prefect(bad, lambda _: None)
            messages.append(str(caught.value))
    shown = capfd.readouterr()
    seen = [*messages, caplog.text, shown.out, shown.err]
    assert "refuses the user or password" in messages[0]
    assert not [text for text in seen if secret in text]
    store = str(get_current_settings().server.database.connection_url.get_secret_value()).split("///", 1)[1]  # type: ignore[union-attr]
    places = [Path(store), Path(store + "-wal"), *tmp_path.rglob("*"), *home.rglob("*")]
    assert not [p for p in places if p.is_file() and secret.encode() in p.read_bytes()]


def test_the_url_may_come_from_a_secret_block(
    tmp_path: Path, postgres: str, prefect_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.blocks.system import Secret

    load(postgres, visits(60))
    monkeypatch.delenv("WAREHOUSE_URL")
    source = {"kind": "adbc", "url": {"block": "warehouse-url"}, "query": QUERY}
    path = write_source(tmp_path / "source.yaml", source)
    with pytest.raises(StudyError, match="Prefect Secret block 'warehouse-url' holds no URL"):
        run(path)
    Secret(value=postgres).save("warehouse-url")
    assert run(path).rows == 60


def _port(url: str) -> int:
    with psycopg.connect(url) as connection:
        return int(connection.execute("SHOW port").fetchone()[0])  # type: ignore[index]


class _role:
    """A login role with a password of our choosing, that may read the table."""

    def __init__(self, url: str, secret: str) -> None:
        self.url, self.secret = url, secret
        self.name = f"causalveil_reader_{os.getpid()}"

    def __enter__(self) -> str:
        self._run(f"CREATE ROLE {self.name} LOGIN PASSWORD '{self.secret}'", f"GRANT SELECT ON visits TO {self.name}")
        url = sa.make_url(self.url).set(
            username=self.name, password=self.secret, host="127.0.0.1", port=_port(self.url)
        )
        return url.render_as_string(hide_password=False)

    def __exit__(self, *_: object) -> None:
        self._run(f"REVOKE SELECT ON visits FROM {self.name}", f"DROP ROLE {self.name}")

    def _run(self, *statements: str) -> None:
        from tests.postgres import as_superuser

        as_superuser(self.url, *statements)


def test_an_extract_that_is_killed_leaves_whole_blocks_and_goes_on(tmp_path: Path, postgres: str) -> None:
    """kill -9 in the midst of months, whose queries take two seconds each; then the extract runs to its end."""
    load(postgres, visits(2000))
    # It refers to the row, since PostgreSQL would sleep once for all rows otherwise.
    slow = "SELECT v.* FROM visits v, LATERAL (SELECT pg_sleep(0.002 + v.person * 0)) AS s"
    path = write_source(tmp_path / "source.yaml", sql("adbc", slow))
    data = tmp_path / "data"
    command = [sys.executable, "-m", "causalveil", "extract", str(path)]
    killed: set[Path] = set()
    for month, wait in (("2026-01", 0.1), ("2026-01", 0.05), ("2026-02", 0.0)):
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 240
        while not (begun := set(data.glob(f".month={month}*")) - killed):
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(wait)
        child.kill()
        child.wait()
        assert begun <= set(data.glob(".month=*")), "killed in the middle of a block"
        killed |= begun
        assert not (data / "_manifest.json").exists()
        assert all((block / "_block.json").exists() for block in data.glob("month=*")), "what can be seen is whole"
    manifest = run(path)
    assert manifest.rows == 2000
    assert read(data).equals(visits(2000).select(*COLUMNS).sort("person"))
    assert not list(data.glob(".*partial*"))


def test_one_extract_at_a_time_fills_a_folder(tmp_path: Path) -> None:
    path = write_source(tmp_path / "source.yaml", duckdb_file(tmp_path / "w.duckdb", visits(60)))
    with extracting(tmp_path / "data"), pytest.raises(CausalveilError, match="another extract"):
        run(path)


@pytest.mark.parametrize("how", ["rows", "gone", "query", "garbage"])
def test_blocks_of_others_are_not_taken_for_ours(how: str, tmp_path: Path) -> None:
    source = duckdb_file(tmp_path / "w.duckdb", visits(60))
    path = write_source(tmp_path / "source.yaml", source)
    run(path)
    block = tmp_path / "data" / "month=2026-01"
    if how == "rows":
        frame = pl.read_parquet(block / "part-00000.parquet", hive_partitioning=False)
        frame[1:].write_parquet(block / "part-00000.parquet")
    elif how == "gone":
        (block / "part-00000.parquet").unlink()
    elif how == "garbage":
        (block / "_block.json").write_text("{")
    else:
        write_source(path, source | {"query": "SELECT * FROM visits WHERE age > 30"})
    with pytest.raises(DataError, match="delete this folder to take the block anew"):
        run(path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("row", [{}, {"row_number": "row"}], ids=["as they are", "numbered"])
def test_dates_that_offices_write_cut_a_file_into_blocks(kind: str, row: dict[str, Any], tmp_path: Path) -> None:
    """A draft of `init` reads such dates by their formats; as the key's column they were an error of Arrow."""
    written = visits(200).with_columns(pl.col("day").dt.strftime("%d/%m/%Y") + " 13:05")
    found = []
    for place, (frame, reading) in enumerate(
        [(visits(200), "date"), (written, {"kind": "date", "formats": ["%d/%m/%Y %H:%M"]})]
    ):
        folder = tmp_path / str(place)
        source = files(folder / "files", frame, kind) | row
        columns = COLUMNS | {"day": reading} | ({"row": "integer"} if row else {})
        manifest = run(write_source(folder / "source.yaml", source, columns=columns))
        found.append([(block.block, block.rows) for block in manifest.blocks])
    assert found[0] == found[1]
    assert len(found[0]) > 1
    folder = tmp_path / "unread"
    with pytest.raises(DataError, match="column 'day' of the key is text; declare it under 'columns' with kind: date"):
        run(
            write_source(
                folder / "source.yaml", files(folder / "files", written, kind), columns=COLUMNS | {"day": "text"}
            )
        )


def test_a_csv_file_that_lacks_a_column_is_drift(tmp_path: Path) -> None:
    source = files(tmp_path / "files", visits(60), "csv")
    visits(60).drop("age").write_csv(tmp_path / "files" / "2.csv")
    with pytest.raises(DataError, match=r"2\.csv has no column 'age'"):
        run(write_source(tmp_path / "source.yaml", source))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(("content", "says"), [(b"", "is empty; export"), (b"PAR1\n1,2\n", "cannot be read as")])
def test_a_file_that_cannot_be_read_is_named(kind: str, content: bytes, says: str, tmp_path: Path) -> None:
    source = files(tmp_path / "files", visits(60), kind)
    (tmp_path / "files" / f"2.{kind}").write_bytes(content)
    with pytest.raises(DataError, match=rf"2\.{kind}: {says}"):
        run(write_source(tmp_path / "source.yaml", source))


def test_a_value_that_is_not_of_its_kind_names_its_file(tmp_path: Path) -> None:
    source = files(tmp_path / "files", visits(60), "csv")
    visits(60).with_columns(age=pl.lit("SECRET")).write_csv(tmp_path / "files" / "2.csv")
    with pytest.raises(DataError, match=r"2\.csv: cannot be read as csv: is a quote left open, or a value") as caught:
        run(write_source(tmp_path / "source.yaml", source))
    assert "SECRET" not in str(caught.value)


def test_the_folder_belongs_to_its_contracts_dataset(tmp_path: Path) -> None:
    path = write_source(tmp_path / "source.yaml", duckdb_file(tmp_path / "w.duckdb", visits(60)), dataset="other")
    write_study(tmp_path / "data", partitions=0)
    with pytest.raises(StudyError, match="but the contract there is of 'small'"):
        run(path)


def extracted_study(tmp_path: Path, **study: Any) -> Path:
    """A study over an extracted folder."""
    source = duckdb_file(tmp_path / "w.duckdb", visits())
    run(write_source(tmp_path / "source.yaml", source))
    return write_study(
        tmp_path / "data", partitions=0, study=study, contract={"blocks": {"key": "month", "units_span": False}}
    )


def test_a_study_runs_on_an_extract_with_empty_months(tmp_path: Path) -> None:
    release = run_study(extracted_study(tmp_path), out=tmp_path / "out").release
    assert release.units == 1000
    assert release.privacy.blocks.charged == ("month=2026-01", "month=2026-02"), (
        "months without rows are charged nothing"
    )


def test_a_month_that_comes_late_is_told_not_charged_and_filled(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """March is empty at first: `newest: 1` is February then, and March once the next extract has found its rows."""
    frame = visits()
    source = duckdb_file(tmp_path / "w.duckdb", frame)
    path = write_source(tmp_path / "source.yaml", source)
    blocks = {"blocks": {"key": "month", "units_span": False}}
    newest = {"data": {"select": {"newest": 1}}}
    study = write_study(tmp_path / "data", partitions=0, study=newest, contract=blocks)

    def extract() -> dict[str, Any]:
        assert command("extract", path, "--json") == 0
        return json.loads(capfd.readouterr().out)  # type: ignore[no-any-return]

    assert extract()["late"] == ["month=2026-03"], "December is before the first rows, and not late"
    assert _charged(study, tmp_path / "february") == ("month=2026-02",)
    with duckdb.connect(source["path"]) as connection:
        connection.execute(
            "INSERT INTO visits SELECT * REPLACE (person + 5000 AS person, DATE '2026-03-05' AS day) FROM visits"
        )
    told = extract()
    assert told["late"] == []
    assert [block["rows"] for block in told["blocks"]] == [0, 527, 473, 1000]
    assert _charged(study, tmp_path / "march") == ("month=2026-03",)
    assert {row.block: row.runs for row in open_ledger().account("small").blocks if row.level == "sample"} == {
        "month=2026-02": 1,
        "month=2026-03": 1,
    }


def _charged(study: Path, out: Path) -> tuple[str, ...]:
    return run_study(study, out=out, engine="direct").release.privacy.blocks.charged


def test_an_end_whose_answer_is_lost_is_an_end(tmp_path: Path, prefect_server: str) -> None:
    """A busy server takes the state of the end and its answer is lost: the extract is complete, and is not refused."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from causalveil.flows.deployed import extract_with_prefect

    path = write_source(tmp_path / "source.yaml", duckdb_file(tmp_path / "w.duckdb", visits(60)), name="unanswered")
    with losing_an_answer(prefect_server) as relay, temporary_settings({PREFECT_API_URL: relay.url}):
        extracted = extract_with_prefect(path, lambda _: None)
    assert relay.lost == 1
    assert extracted.manifest.late == ("month=2026-03",)


def test_a_late_month_is_seen_in_prefect(tmp_path: Path, prefect_server: str) -> None:
    """The flow run's state, a line of its log and an event name the month."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

    from causalveil.flows.deployed import extract

    path = write_source(tmp_path / "source.yaml", duckdb_file(tmp_path / "w.duckdb", visits(60)), name="seen")
    state = extract.with_options(flow_run_name="late-month")(str(path), return_state=True)
    assert (state.name, state.is_completed()) == ("BlocksWithoutRows", True)
    assert "month=2026-03" in str(state.message)
    late = {"event": {"name": ["causalveil.extract.late"]}}
    wanted = FlowRunFilter(name=FlowRunFilterName(any_=["late-month"]))
    with get_client(sync_client=True) as client:
        (flow_run,) = client.read_flow_runs(flow_run_filter=wanted)
        for _ in range(240):
            events = client._client.post("/events/filter", json={"filter": late}).json()["events"]
            found = [event["payload"]["blocks"] for event in events if event["payload"]["extract"] == "seen"]
            lines = client._client.post("/logs/filter", json={"logs": {"flow_run_id": {"any_": [str(flow_run.id)]}}})
            said = [line["message"] for line in lines.json() if "month=2026-03" in line["message"]]
            if found and said:
                break
            time.sleep(0.5)
    assert found == [["month=2026-03"]]
    assert said


@pytest.mark.parametrize("how", ["killed", "no manifest", "a block more", "a block less"])
def test_blocks_of_an_extract_that_did_not_end_are_not_data(how: str, tmp_path: Path) -> None:
    """`newest: 1` of the months that were taken so far is another month than of all; nothing is reserved."""
    study = extracted_study(tmp_path, data={"select": {"newest": 1}})
    data = tmp_path / "data"
    if how == "killed":
        begin_change(data)
    elif how == "no manifest":
        (data / "_manifest.json").unlink()
    elif how == "a block more":
        shutil.copytree(data / "month=2026-02", data / "month=2026-04")
    else:
        shutil.rmtree(data / "month=2026-02")
    for refused in (
        lambda: run_study(study, out=tmp_path / "out", engine="direct"),
        lambda: admit_folder(DataFolder(data), DirectEngine()),
        lambda: find_ranges(data, ("age",), "1", None, DirectEngine()),
    ):
        with pytest.raises(DataError, match="has not ended"):
            refused()
    assert command("check", study) != 0
    assert open_ledger().account(CONTRACT["dataset"]).runs == (), "not even reserved"
    if how == "a block more":
        shutil.rmtree(data / "month=2026-04")
    else:
        run(tmp_path / "source.yaml")
    run_study(study, out=tmp_path / "out", engine="direct")


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda data: _manifest(data, {"columns": {"years": "number"}}, "age"), "reads column 'age'"),
        (lambda data: _manifest(data, {"columns": {"age": "text"}}), "column 'age' was extracted as text"),
        (lambda data: _manifest(data, {"columns": {"person": "boolean"}}), "column 'person' was extracted as boolean"),
        (lambda data: (data / "month=2026-01/part-00000.parquet").unlink(), "since the extract"),
        (lambda data: _rewrite(data, lambda frame: frame[1:]), "since the extract"),
        (lambda data: _rewrite(data, lambda frame: frame.with_columns(pl.col("age").cast(pl.Float32))), "'age'"),
        (lambda data: _rewrite(data, lambda frame: frame, "part-00009.parquet"), "since the extract"),
        (lambda data: (data / "_manifest.json").write_text("{}"), "is not a manifest"),
    ],
)
def test_drift_stops_a_study_before_anything_is_charged(break_it: Any, says: str, tmp_path: Path) -> None:
    study = extracted_study(tmp_path)
    break_it(tmp_path / "data")
    with pytest.raises(DataError) as caught:
        run_study(study, out=tmp_path / "out")
    assert says in str(caught.value)
    assert open_ledger().account(CONTRACT["dataset"]).runs == (), "not even reserved"


def _manifest(data: Path, change: dict[str, Any], *without: str) -> None:
    path = data / "_manifest.json"
    document = merge(json.loads(path.read_text()), change)
    for name in without:
        del document["columns"][name]
    path.write_text(json.dumps(document))


def _rewrite(data: Path, change: Any, name: str = "part-00000.parquet") -> None:
    block = data / "month=2026-01"
    frame = pl.read_parquet(block / "part-00000.parquet", hive_partitioning=False)
    change(frame).write_parquet(block / name)
