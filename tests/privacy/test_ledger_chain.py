"""What keeps the record honest: triggers, the hash chain, verification, and the ways a database can be wrong."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from causalveil.schemas.errors import LedgerError, StudyError
from causalveil.schemas.release import EffectRelease, release_text
from causalveil.tasks.privacy.ledger.entry import Entry
from causalveil.tasks.privacy.ledger.ledger import Ledger, copy_ledger, open_ledger
from causalveil.tasks.privacy.ledger.soundness import Memory
from tests import postgres
from tests.ledger_help import budget, charge, contract, finished, release_of, reservation, value

Tamper = Callable[..., None]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def release(ledger: Ledger, tmp_path: Path) -> EffectRelease:
    """A finished run; its entries are 3 (reserve), 4 (charge) and 5 (document), after genesis and grant."""
    ledger.grant(contract(), "opening")
    return finished(ledger, reservation(), contract(), tmp_path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = body",
        "UPDATE entries SET name = 'x' WHERE seq = 999",
        "DELETE FROM entries WHERE seq = 5",
        "INSERT INTO entries SELECT seq + 3, kind, dataset, 'x', name, body, 'p', 'h', written_at "
        "FROM entries WHERE seq = 1",
    ],
)
def test_entries_cannot_be_changed(ledger: Ledger, release: EffectRelease, tamper: Tamper, statement: str) -> None:
    before = ledger.verify()
    if ledger.store.url.get_backend_name() == "sqlite" and "999" in statement:
        statement = statement.replace("999", "5")  # SQLite's triggers are per row
    with pytest.raises(LedgerError):
        tamper(statement, leave_triggers=True)
    assert ledger.verify() == before


def test_replace_truncate_and_conflict_updates_are_refused(
    ledger: Ledger, release: EffectRelease, tamper: Tamper
) -> None:
    before = ledger.verify()
    if ledger.store.url.get_backend_name() == "sqlite":
        copy = "SELECT {}, {}, dataset, run_id, name, body, {}, {}, written_at FROM entries WHERE seq = 4"
        statements = [
            "INSERT OR REPLACE INTO entries " + copy.format(*columns)
            for columns in (
                ("seq", "kind", "previous_hash", "hash"),
                ("6", "kind", "'p'", "'h'"),
                ("6", "'grant'", "previous_hash", "'h'"),
                ("6", "'grant'", "'p'", "hash"),
            )
        ]
    else:
        statements = [
            "TRUNCATE entries",
            "INSERT INTO entries SELECT * FROM entries WHERE seq = 4 ON CONFLICT (seq) DO UPDATE SET name = 'x'",
        ]
    for statement in statements:
        with pytest.raises(LedgerError):
            tamper(statement, leave_triggers=True)
    assert ledger.verify() == before


@pytest.mark.parametrize("column", ["kind", "dataset", "run_id", "name", "body", "previous_hash", "hash", "written_at"])
def test_every_column_is_under_the_hash(ledger: Ledger, release: EffectRelease, tamper: Tamper, column: str) -> None:
    new = "'void'" if column == "kind" else f"{column} || ' '"
    tamper(f"UPDATE entries SET {column} = {new} WHERE seq = 4")
    with pytest.raises(LedgerError, match="entry 4"):
        ledger.verify()


def test_the_number_is_under_the_hash(ledger: Ledger) -> None:
    with ledger.store.read() as connection:
        entry = ledger.store.head(connection)
    assert entry is not None
    assert entry.digest() == entry.hash != replace(entry, seq=2).digest()


def test_removed_and_renumbered_entries_are_found(ledger: Ledger, release: EffectRelease, tamper: Tamper) -> None:
    tamper("DELETE FROM entries WHERE seq = 4")
    with pytest.raises(LedgerError, match=r"entry 5.*missing"):
        ledger.verify()
    tamper("UPDATE entries SET seq = 4 WHERE seq = 5")
    with pytest.raises(LedgerError, match=r"entry 4.*not chained"):
        ledger.verify()


def test_removed_triggers_are_found(ledger: Ledger, release: EffectRelease) -> None:
    ledger.verify()
    with ledger.store.write() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("DROP TRIGGER entries_no_update")
        else:
            connection.exec_driver_sql("ALTER TABLE entries DISABLE TRIGGER USER")
    with pytest.raises(LedgerError, match="triggers"):
        ledger.verify()


def forge(ledger: Ledger, tamper: Tamper, seq: int, **changes: str) -> None:
    """Change an entry and rehash the chain from there: what somebody with write access and our code could do."""
    with ledger.store.read() as connection:
        chain = list(ledger.store.select(connection))
    statements = []
    previous = chain[seq - 2].hash
    for entry in chain[seq - 1 :]:
        row = {**entry.__dict__, "previous_hash": previous}
        if entry.seq == seq:
            for column, change in changes.items():
                old, new = change.split(" -> ")
                assert old in row[column]
                row[column] = row[column].replace(old, new)
        previous = Entry(**row).digest()
        body = row["body"].replace("'", "''")
        statements.append(
            f"UPDATE entries SET body = '{body}', previous_hash = '{row['previous_hash']}', hash = '{previous}' "
            f"WHERE seq = {entry.seq}"
        )
    tamper(*statements)


@pytest.mark.parametrize(
    ("seq", "change", "why"),
    [
        (3, '"cost":{"delta":"0","epsilon":"0.1"} -> "cost":{"delta":"0","epsilon":"0.01"}', "exceed its total"),
        (3, '"cost":{"delta":"0","epsilon":"0.1"} -> "cost":{"delta":"0","epsilon":"2"}', "exceeds the cap"),
        (3, '"caps":{"sample":{"delta":"1e-6" -> "caps":{"sample":{"delta":"0.1"', "grant"),
        (4, '"epsilon":"0.1" -> "epsilon":"0.01"', "not declared"),
        (4, '"mechanism":"laplace" -> "mechanism":"other"', "not declared"),
    ],
)
def test_a_rehashed_forgery_that_breaks_a_rule_is_found(
    ledger: Ledger, release: EffectRelease, tamper: Tamper, seq: int, change: str, why: str
) -> None:
    forge(ledger, tamper, seq, body=change)
    with pytest.raises(LedgerError, match=rf"entry {seq}.*{why}"):
        ledger.verify()


def test_a_rehashed_forgery_within_the_rules_is_found_by_the_release(
    ledger: Ledger, release: EffectRelease, tamper: Tamper
) -> None:
    ledger.verify_release(release_text(release))
    forge(ledger, tamper, 2, body="opening -> onening")
    elsewhere = replace(ledger, memory=None)
    elsewhere.verify()
    with pytest.raises(LedgerError, match="rolled back or truncated"):
        elsewhere.verify_release(release_text(release))
    with pytest.raises(LedgerError, match="older copy"):
        ledger.verify()


class TestVerifyRelease:
    def test_truncation(self, ledger: Ledger, release: EffectRelease, tamper: Tamper) -> None:
        elsewhere = replace(ledger, memory=None)
        for last in (5, 4, 3):
            tamper(f"DELETE FROM entries WHERE seq >= {last}")
            elsewhere.verify()  # the chain is whole ...
            with pytest.raises(LedgerError, match=r"run-1.*truncated"):  # ... but the release knows better
                elsewhere.verify_release(release_text(release))
            with pytest.raises(LedgerError, match=r"seen entry 5.*ledger restored"):  # ... and so does this machine
                ledger.verify()

    def test_rollback_to_a_backup(self, tmp_path: Path) -> None:
        path = tmp_path / "ledger.db"
        ledger = open_ledger(f"sqlite:///{path}")
        ledger.grant(contract(), "opening")
        shutil.copy(path, tmp_path / "backup.db")
        release = finished(ledger, reservation(), contract(), tmp_path)
        ledger.verify_release(release_text(release))
        shutil.copy(tmp_path / "backup.db", path)
        with pytest.raises(LedgerError, match="older copy"):
            ledger.verify()
        elsewhere = replace(ledger, memory=None)
        elsewhere.verify()
        with pytest.raises(LedgerError, match="rolled back"):
            elsewhere.verify_release(release_text(release))

    def test_rerun_after_rollback_does_not_pass_for_the_first(self, tmp_path: Path, home: Path) -> None:
        path = tmp_path / "ledger.db"
        ledger = open_ledger(f"sqlite:///{path}")
        ledger.grant(contract(), "opening")
        shutil.copy(path, tmp_path / "backup.db")
        first = finished(ledger, reservation(), contract(), tmp_path)
        shutil.copy(tmp_path / "backup.db", path)
        shutil.rmtree(home / "ledgers")  # a machine that has not seen the first
        second = finished(ledger, reservation(), contract(), tmp_path)
        ledger.verify_release(release_text(second))
        with pytest.raises(LedgerError, match="another hash"):
            ledger.verify_release(release_text(first))

    @pytest.mark.parametrize(
        "path",
        [
            ("answers", 0, "estimate"),
            ("privacy", "epsilon"),
            ("privacy", "charges", 0, "epsilon"),
            ("privacy", "charges", 0, "noise_scale"),
        ],
    )
    def test_a_changed_release_is_found(self, ledger: Ledger, release: EffectRelease, path: tuple[Any, ...]) -> None:
        document = release.model_dump(mode="json")
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = 0.01
        with pytest.raises(LedgerError, match="run-1"):
            ledger.verify_release(json.dumps(document))

    def test_foreign_and_unfinished(self, ledger: Ledger, release: EffectRelease, tmp_path: Path) -> None:
        foreign = release.model_copy(update={"ledger": release.ledger.model_copy(update={"identity": "0" * 32})})
        with pytest.raises(LedgerError, match="names ledger 0000"):
            ledger.verify_release(release_text(foreign))
        request = reservation("run-2")
        ledger.reserve(request, contract())
        budget(ledger, request, tmp_path).spend(charge(), value(1.0))
        with pytest.raises(LedgerError, match="no finished release"):
            ledger.verify_release(release_text(release_of(ledger, request)))


def test_moves_to_another_database(ledger: Ledger, release: EffectRelease, ledger_url: str, tmp_path: Path) -> None:
    there = f"sqlite:///{tmp_path / 'moved.db'}"
    assert copy_ledger(ledger_url, there) == ledger.verify()
    open_ledger(there).verify_release(release_text(release))
    with pytest.raises(LedgerError, match="has entries already"):
        copy_ledger(ledger_url, there)
    url = sa.make_url(ledger_url)
    if url.get_backend_name() == "postgresql":
        postgres.empty(ledger_url)
        assert copy_ledger(there, ledger_url).ledger == ledger.identity
        open_ledger(ledger_url).verify_release(release_text(release))


def test_verify_reports_what_it_covered(ledger: Ledger, release: EffectRelease) -> None:
    report = ledger.verify()
    assert (report.entries, report.runs, report.ledger) == (5, 1, ledger.identity)
    assert ledger.verify("trial").runs == 1
    with pytest.raises(StudyError, match="'other' is unknown to this ledger"):
        ledger.verify("other")


def test_foreign_genesis(ledger: Ledger, release: EffectRelease) -> None:
    with pytest.raises(LedgerError, match=r"entry 1.*another ledger"):
        Ledger(ledger.store, "0" * 32).verify()


class TestDatabase:
    def test_reopens_with_its_identity_and_without_alembic(self, ledger: Ledger, ledger_url: str) -> None:
        program = (
            "import os, sys\nfrom causalveil.tasks.privacy.ledger.ledger import open_ledger\n"
            "print(open_ledger().identity, 'alembic' in sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "CAUSALVEIL_LEDGER_URL": ledger_url, "PYTHONPATH": str(ROOT)},
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == [ledger.identity, "False"]

    def test_newer_version_is_refused(self, ledger: Ledger, ledger_url: str) -> None:
        with ledger.store.write() as connection:
            connection.execute(sa.text("UPDATE ledger_version SET version_num = '0999'"))
        with pytest.raises(LedgerError, match="newer"):
            open_ledger(ledger_url)

    def test_default_is_a_private_file_in_the_state_folder(self, home: Path) -> None:
        ledger = open_ledger()
        assert (home / "ledger.db").is_file()
        assert stat.S_IMODE((home / "ledger.db").stat().st_mode) == 0o600
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert open_ledger().identity == ledger.identity

    def test_sqlite_commits_are_synced(self, tmp_path: Path) -> None:
        ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
        with ledger.store.write() as connection:
            settings = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("synchronous", "journal_mode", "busy_timeout", "foreign_keys")
            }
        assert settings == {
            "synchronous": 3, "journal_mode": "delete", "busy_timeout": 60_000, "foreign_keys": 1
        }  # fmt: skip

    def test_read_only_file(self) -> None:
        folder = Path(tempfile.mkdtemp())
        try:
            path = folder / "ledger.db"
            ledger = open_ledger(f"sqlite:///{path}")
            ledger.grant(contract(), "opening")
            path.chmod(0o444)
            folder.chmod(0o555)

            def look_and_write(answers: Any) -> None:
                if os.geteuid() == 0:
                    os.setuid(65534)  # file modes do not bind root
                os.environ["CAUSALVEIL_HOME"] = tempfile.mkdtemp()
                reader = open_ledger(f"sqlite:///{path}")
                answers.put(reader.verify().entries)
                for act in (
                    lambda: reader.reserve(reservation(), contract()),
                    lambda: open_ledger(f"sqlite:///{folder / 'new.db'}"),
                ):
                    try:
                        act()
                        answers.put("written")
                    except LedgerError as problem:
                        answers.put(str(problem))

            context = multiprocessing.get_context("fork")
            answers: Any = context.Queue()
            process = context.Process(target=look_and_write, args=(answers,))
            process.start()
            found = [answers.get(timeout=60) for _ in range(3)]
            process.join()
            assert found == [
                2, f"ledger {path} is read-only", f"ledger {folder / 'new.db'} cannot be created (Permission denied)"
            ]  # fmt: skip
        finally:
            folder.chmod(0o755)
            shutil.rmtree(folder)

    def test_read_only_database(self, ledger: Ledger) -> None:
        ledger.grant(contract(), "opening")
        url = ledger.store.url
        if url.get_backend_name() == "sqlite":
            read_only = open_ledger(f"sqlite:///file:{url.database}?mode=ro&uri=true")
        else:
            read_only = open_ledger(
                url.update_query_dict({"options": "-c default_transaction_read_only=on"}).render_as_string(
                    hide_password=False
                )
            )
        assert read_only.account("trial").caps
        with pytest.raises(LedgerError, match="is read-only"):
            read_only.reserve(reservation(), contract())

    def test_a_cluster_without_a_locale(self) -> None:
        """Its databases hold bytes; the ledger's hashes are those of the text."""
        with postgres.database("TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'") as url:
            if url is None:
                pytest.skip(postgres.WHY_NOT)
            ledger = open_ledger(url)
            ledger.grant(contract(), "the committee of Zürich")
            assert ledger.account("trial").caps
            open_ledger(url).verify()

    def test_not_a_database(self, tmp_path: Path) -> None:
        path = tmp_path / "ledger.db"
        path.write_text("these are not the bytes of a database" * 100)
        with pytest.raises(LedgerError, match="not a database"):
            open_ledger(f"sqlite:///{path}")

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://me:s3cret@127.0.0.1:1/ledger",
            "postgres://me:s3cret@127.0.0.1:1/ledger?connect_timeout=2",
            "postgresql+psycopg://me:s3cret@no-such-host.invalid/ledger",
            "postgresql://me:pa@s3cret@host/ledger",
            "mysql://me:s3cret@host/ledger",
            "sqlite://",
            "sqlite:///:memory:",
            "sqlite:////no/such/folder/s.db",
            "s3cret",
        ],
    )
    def test_unusable_urls(self, url: str) -> None:
        with pytest.raises(LedgerError) as problem:
            open_ledger(url)
        assert "s3cret" not in str(problem.value)
        assert "\n" not in str(problem.value)
        assert problem.value.__context__ is None or problem.value.__suppress_context__

    def test_wrong_password(self, ledger: Ledger, ledger_url: str) -> None:
        url = sa.make_url(ledger_url)
        if url.get_backend_name() == "sqlite":
            return
        with pytest.raises(LedgerError) as problem:
            open_ledger(url.set(username="nobody", password="s3cret", host="127.0.0.1").render_as_string(False))
        assert "s3cret" not in str(problem.value)
        assert "refuses the user or password" in str(problem.value)


@pytest.mark.usefixtures("release")
def test_a_first_look_is_over_before_others_have_to_wait(ledger: Ledger, home: Path) -> None:
    """A machine that never saw the ledger verifies it before it takes the writers' lock, in slices, and not again."""
    shutil.rmtree(home / "ledgers")
    head, memory, known = ledger.verify().entries, Memory(ledger.identity), []

    def at_begin(connection: sa.Connection) -> None:
        if connection.get_execution_options().get("causalveil_write"):
            known.append(memory.read())

    sa.event.listen(ledger.store.engine, "begin", at_begin)
    try:
        ledger.reserve(reservation("later"), contract())
    finally:
        sa.event.remove(ledger.store.engine, "begin", at_begin)
    assert [found.seq for found in known if found is not None] == [head]
    assert memory.read().seq == head + 1  # type: ignore[union-attr]


def test_a_first_look_finds_what_was_changed(
    ledger: Ledger, release: EffectRelease, tamper: Tamper, home: Path
) -> None:
    shutil.rmtree(home / "ledgers")
    tamper("UPDATE entries SET name = 'another' WHERE seq = 3")
    with pytest.raises(LedgerError, match="entry 3"):
        ledger.reserve(reservation("later"), contract())
    assert not (home / "ledgers").exists() or Memory(ledger.identity).read() is None


def test_what_a_plan_asks_is_answered_from_where_the_machine_has_seen_the_ledger(
    ledger: Ledger, release: EffectRelease, home: Path, tmp_path: Path
) -> None:
    """The same sums and grants as from the first entry on; runs that ended are not read again."""
    dataset = release.dataset
    ledger.reserve(reservation("open"), contract())
    whole = replace(ledger, memory=None).standing(dataset)
    replace(ledger, memory=None).reserve(reservation("elsewhere"), contract())
    found = ledger.standing(dataset)
    assert set(whole.runs) == {"open"}
    assert set(found.runs) == {"open", "elsewhere"}
    whole = replace(ledger, memory=None).standing(dataset)
    assert dict(found.sums()) == dict(whole.sums())
    assert (found.caps, found.grants) == (whole.caps, whole.grants)
    shutil.rmtree(home / "ledgers")
    assert dict(ledger.standing(dataset).sums()) == dict(whole.sums())
