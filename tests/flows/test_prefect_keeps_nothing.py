"""What Prefect keeps of a flow that failed on sensitive rows: nothing of them, in no file and no table of its own."""

from __future__ import annotations

import base64
import pickle
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from causalveil.schemas.admission import Finding, NotAdmitted
from causalveil.schemas.errors import CausalveilError
from causalveil.tasks.privacy.keys import owner_key
from tests.studies import command, people, write_study

# In rows alone: a word, a number in several spellings, and how many rows break a rule.
WORD, NUMBER, COUNT = "Xq7canary", 918273645.25, 2917


def test_findings_do_not_travel() -> None:
    """Whoever pickles the error, as a workflow engine does, has its message and no count."""
    problem = NotAdmitted("the first problem", (Finding(column="age", rule="holds nulls", rows=COUNT),))
    again = pickle.loads(pickle.dumps(problem))
    assert type(again) is NotAdmitted
    assert str(again) == str(problem)
    assert again.findings == ()


def test_the_text_of_a_panic_is_withheld() -> None:
    """Polars' panics are no exceptions to Python's mind, and quote what they choked on."""
    from causalveil.flows.engine.engine import guarded

    def stage() -> None:
        pl.Series([WORD]).map_elements(panic, return_dtype=pl.Int64)

    def panic(value: str) -> int:
        raise pl.exceptions.PanicException(value)

    with pytest.raises(CausalveilError) as caught:
        guarded(stage)
    assert WORD not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.fixture
def storage(prefect_server: str, tmp_path: Path) -> Iterator[Path]:
    """Prefect's local storage of this test; its defaults would persist whatever may be."""
    from prefect.settings import PREFECT_LOCAL_STORAGE_PATH, PREFECT_RESULTS_PERSIST_BY_DEFAULT, temporary_settings

    place = tmp_path / "prefect" / "storage"
    with temporary_settings({PREFECT_LOCAL_STORAGE_PATH: place, PREFECT_RESULTS_PERSIST_BY_DEFAULT: True}):
        yield place


def kept(storage: Path) -> Iterator[tuple[str, bytes]]:
    """Every byte: of files, what is base64 in them decoded as well; of the database, its tables and its files."""
    from prefect.settings import PREFECT_SERVER_DATABASE_CONNECTION_URL

    url = PREFECT_SERVER_DATABASE_CONNECTION_URL.value()
    text = url.get_secret_value() if hasattr(url, "get_secret_value") else str(url)
    database = Path(text.partition(":///")[2].partition("?")[0])
    assert database.exists()
    files = [path for path in storage.parent.rglob("*") if path.is_file()]
    for path in [*files, *database.parent.glob(f"{database.name}*")]:
        content = path.read_bytes()
        yield str(path), content
        for piece in content.split(b'"'):
            if len(piece) > 40:
                try:
                    yield f"{path}, decoded", base64.b64decode(piece, validate=False)
                except ValueError:
                    continue
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        for (table,) in connection.execute("select name from sqlite_master where type = 'table'").fetchall():
            for row in connection.execute(f'select * from "{table}"'):
                yield table, repr(row).encode()


def owned(tmp_path: Path, name: str, frame: pl.DataFrame, **words: Any) -> Path:
    changes = {"data_class": "sensitive", "owner_key": owner_key(create=True).public, "dataset": name, **words}
    path = write_study(tmp_path / name, frame=frame, contract=changes)
    assert command("ledger", "grant", path.with_name("dataset.yaml"), "--reason", "opening") == 0
    return path


def wrong() -> pl.DataFrame:
    """Rows of which ``COUNT`` hold a level and a number that the contract does not declare."""
    first = pl.int_range(4000) < COUNT
    return people(4000).with_columns(
        group=pl.when(first).then(pl.lit(WORD)).otherwise("group"),
        age=pl.when(first).then(pl.lit(NUMBER)).otherwise("age"),
    )


def failing_flows(tmp_path: Path) -> dict[str, Callable[[], object]]:
    """Each flow, called as a deployment calls it, on something that makes it fail."""
    from causalveil.flows.deployed import admit, extract, pool, series, study

    bad = owned(tmp_path, "bad", wrong())
    changed = owned(tmp_path, "changed", people(400))
    command("admit", changed.parent)
    wrong().write_parquet(changed.parent / "part-0.parquet")
    # Data that admit themselves are looked at by the run.
    itself = write_study(tmp_path / "itself", frame=wrong(), contract={"dataset": "itself"})
    source = tmp_path / "extracted" / "source.yaml"
    source.parent.mkdir()
    wrong().write_csv(tmp_path / "rows.csv")
    owned(tmp_path, "extracted", people(1)).with_name("part-0.parquet").unlink()
    (source.parent / "part-1.parquet").unlink()
    source.write_text(
        "name: taken\ndataset: extracted\nsource: {kind: csv, path: ../rows.csv}\n"
        "columns: {person: integer, treated: boolean, score: number, age: number, group: text}\n"
    )
    sites = tmp_path / "sites.yaml"
    sites.write_text(f"round: r\nstudy: study.yaml\nbundles: bundles\nsites: {{a: {WORD}}}\n")
    return {
        "study": lambda: study(str(changed), str(tmp_path / "out"), "changed"),
        "study of data that admit themselves": lambda: study(str(itself), str(tmp_path / "out2"), "itself"),
        "admit": lambda: admit(str(bad.parent)),
        "extract": lambda: extract(str(source)),
        "series": lambda: series(str(changed)),
        "pool": lambda: pool(str(sites)),
    }


def test_prefect_keeps_nothing_of_rows(storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.exceptions import CancelledRun

    monkeypatch.setenv("CAUSALVEIL_OWNER_KEY", str(tmp_path / "owner.key"))
    for name, flow in failing_flows(tmp_path).items():
        # A series of one block is cancelled, and no failure.
        with pytest.raises((CausalveilError, CancelledRun)) as caught:
            flow()
        told = f"{name}: {caught.value}"
        # Paths have hashes, in which the digits of the count may stand by chance, but not by themselves.
        assert WORD not in told, told
        assert not re.search(rf"918273645|\b{COUNT}\b", told), told
    spellings = (
        WORD.encode(),
        b"918273645",
        str(NUMBER).encode(),
        b"findings",
        f" {COUNT} ".encode(),
        f"rows={COUNT}".encode(),
    )
    # Tracebacks of other tests' failures have lines of our source, of which this one has the word.
    found = [
        (where, secret)
        for where, content in kept(storage)
        for secret in spellings
        if secret in content.replace(b"findings = estimator_of(study)", b"")
    ]
    assert found == []
    assert not storage.exists() or not any(path.is_file() for path in storage.rglob("*"))
