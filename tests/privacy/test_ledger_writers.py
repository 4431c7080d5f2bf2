"""The ledger on PostgreSQL under 32 writers in 4 processes: no cap is passed, no charge is lost, the chain holds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from causalveil.schemas.errors import BudgetRefused, LedgerError
from causalveil.schemas.ledger import Account
from causalveil.tasks.privacy.ledger import store as tables
from causalveil.tasks.privacy.ledger.ledger import Ledger, open_ledger
from causalveil.tasks.privacy.ledger.store import VERSION, Store
from tests.children import CONTEXT, process
from tests.ledger_help import DATASET, budget, charge, contract, finished, reservation, value
from tests.postgres import WHY_NOT, database

PROCESSES, THREADS, TRIES = 4, 8, 6
EPSILON, CAP = "0.1", "10"


@pytest.fixture
def url() -> Iterator[str]:
    with database() as found:
        if found is None:
            pytest.skip(WHY_NOT)
        yield found


def write(url: str, number: int, barrier: Any, answers: Any) -> None:
    """One process: each thread reserves, draws, and now and then voids, run after run."""
    ledger, owner, one = open_ledger(url), contract(CAP), charge(epsilon=EPSILON)

    def writer(thread: int) -> list[tuple[str, float | None]]:
        seen: list[tuple[str, float | None]] = []
        for attempt in range(TRIES):
            run_id = f"run-{number}-{thread}-{attempt}"
            try:
                ledger.reserve(reservation(run_id, charges=(one,), contract=owner), owner)
            except BudgetRefused:
                seen.append(("refused", None))
                continue
            value = float(number * 1000 + thread * 100 + attempt)
            if attempt == 0:
                ledger.void(run_id, "of no use")
                seen.append(("voided", None))
                continue
            for _ in range(2):  # the second draw finds the first
                stored = ledger.release(run_id, one, lambda value=value: {"value": value})  # type: ignore[misc]
                value = stored.payload["value"]
            seen.append((run_id, value))
        return seen

    barrier.wait(60)
    with ThreadPoolExecutor(THREADS) as pool:
        answers.put([answer for answers_ in pool.map(writer, range(THREADS)) for answer in answers_])


def test_32_writers_from_several_processes(url: str) -> None:
    ledger = open_ledger(url)
    ledger.grant(contract(CAP), "opening")
    barrier, answers = CONTEXT.Barrier(PROCESSES), CONTEXT.SimpleQueue()
    children = [process(write, url, number, barrier, answers) for number in range(PROCESSES)]
    for child in children:
        child.start()
    told = [answer for _ in children for answer in answers.get()]
    for child in children:
        child.join(120)
        assert child.exitcode == 0
    kinds = [kind for kind, _ in told]
    assert len(told) == PROCESSES * THREADS * TRIES
    assert kinds.count("voided") == PROCESSES * THREADS
    spent = {run: value for run, value in told if value is not None}
    # 160 wanted 0.1 each of a cap of 10: exactly 100 had it.
    assert len(spent) == 100
    assert kinds.count("refused") == 60
    account = ledger.account("trial")
    assert str(account.blocks[0].spent.epsilon) == "10.0"
    assert account.blocks[0].remaining.epsilon == 0
    verified = ledger.verify()
    assert verified.entries == 2 + 2 * 32 + 2 * 100 + 60, "a refusal is an entry as well"
    for run_id, cost in spent.items():
        record = ledger.record(run_id)
        assert record is not None
        assert record.charges[0][1].document["value"] == cost, "what a writer saw is what the ledger holds"


# A new SQLite ledger is created from one file of SQL; it must be what the migrations leave.
COMMENT = """\
-- The tables of a new SQLite ledger, as the migrations leave them: alembic takes longer to import than a small study.
-- tests/privacy/test_ledger_writers.py compares the two, and writes this file again if it is run as a program.
"""


def migrated(path: Path) -> Path:
    """A database that every migration made."""
    with sa.create_engine(f"sqlite:///{path}").begin() as connection:
        tables.migrate(connection)
    return path


def written(path: Path) -> str:
    """The SQL of a database."""
    with sa.create_engine(f"sqlite:///{path}").connect() as connection:
        found = connection.execute(sa.text("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"))
        statements = [f"{sql};" for sql in found.scalars()]
    lines = "\n\n".join([COMMENT.rstrip(), *statements]).replace("\t", "    ").splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def schema(path: Path) -> tuple[dict[str, str], list[str]]:
    """Every object of a database with its SQL, white space aside, and the version."""
    with sa.create_engine(f"sqlite:///{path}").connect() as connection:
        found = connection.execute(sa.text("SELECT name, sql FROM sqlite_master"))
        objects = {row.name: " ".join((row.sql or "").split()) for row in found}
        return objects, list(connection.execute(sa.text(f"SELECT version_num FROM {tables.VERSION_TABLE}")).scalars())


def test_created_is_migrated(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'created'}")
    with sa.create_engine(store.url).begin() as connection:
        tables.bring_up(connection, VERSION)
    expected = schema(migrated(tmp_path / "migrated"))
    assert schema(tmp_path / "created") == expected
    assert len(expected[0]) > 5
    assert tables.SQLITE_TABLES.read_text() == written(tmp_path / "migrated")


@pytest.mark.parametrize("lost", ["sqlite.sql", "env.py"])
def test_an_installation_without_migrations_says_so(lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MIGRATIONS", tmp_path / "none")
    monkeypatch.setattr(tables, "SQLITE_TABLES", tmp_path / "none" / "sqlite.sql")
    with sa.create_engine(f"sqlite:///{tmp_path / 'ledger'}").begin() as connection:
        with pytest.raises(LedgerError, match=f"lacks the ledger's {lost}"):
            tables.bring_up(connection, VERSION) if lost == "sqlite.sql" else tables.migrate(connection)
        assert sa.inspect(connection).get_table_names() == []


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        tables.SQLITE_TABLES.write_text(written(migrated(Path(folder) / "migrated")))


# An account by the sums that a machine verified before is the account that all entries add up to.
OWNER = contract("100", "1e-2")


def runs_of_every_kind(ledger: Ledger, folder: Path) -> None:
    """Finished, under way with a part drawn, untouched, and voided after a draw; on months and on the whole dataset."""
    ledger.grant(OWNER, reason="a test")
    pair = (charge("first"), charge("second", "0.2", "1e-6"))
    for number, blocks in enumerate([("all",), ("2026-01",), ("2026-01", "2026-02"), ("all",), ("2026-02",)]):
        finished(ledger, reservation(f"done-{number}", pair, contract=OWNER, blocks=blocks), OWNER, folder)
    for name, blocks in (("drawn", ("2026-02",)), ("waiting", ("all",)), ("voided", ("2026-01",))):
        request = reservation(name, pair, contract=OWNER, blocks=blocks)
        ledger.reserve(request, OWNER)
        if name != "waiting":
            budget(ledger, request, folder).spend(pair[0], value(1.5))
    ledger.void("voided", reason="a test")


@pytest.mark.parametrize("most", [0, 1, 3, 8, 100])
def test_sums_give_the_account_that_all_entries_give(ledger: Ledger, tmp_path: Path, most: int) -> None:
    runs_of_every_kind(ledger, tmp_path)
    whole, found = ledger.account(DATASET), ledger.newest(DATASET, most)
    assert found.blocks == whole.blocks
    assert (found.caps, found.accounting) == (whole.caps, whole.accounting)
    assert found.runs == whole.runs[max(len(whole.runs) - most, 0) :]
    assert found.older_runs == max(len(whole.runs) - most, 0)


def test_a_machine_that_never_saw_the_ledger_reads_all_of_it(ledger: Ledger, tmp_path: Path) -> None:
    runs_of_every_kind(ledger, tmp_path)
    assert ledger.memory is not None
    before: Account = ledger.newest(DATASET, 2)
    ledger.memory.path.unlink()
    assert ledger.newest(DATASET, 2) == before


def test_finished_runs_are_not_replayed(ledger: Ledger, tmp_path: Path) -> None:
    """Of 30 finished runs their reservations are read, and releases of those alone that are listed."""
    ledger.grant(OWNER, reason="a test")
    for number in range(30):
        finished(ledger, reservation(f"done-{number}", (charge("first"),), contract=OWNER), OWNER, tmp_path)
    rows: list[str] = []
    event.listen(ledger.store.engine, "before_cursor_execute", lambda *args: rows.append(str(args[2])))
    assert len(ledger.newest(DATASET, 2).runs) == 2
    # As many as for a tenth of the runs: what is asked of the database does not grow with runs that are not listed.
    asked = len(rows)
    rows.clear()
    ledger.newest(DATASET, 1)
    assert len(rows) < asked <= 12
