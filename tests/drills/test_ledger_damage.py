"""What happens to a ledger outside its program: edits, broken indexes, flipped bits, an older copy brought back.

In every drill the next run is refused and nothing beyond the cap is released. Each begins on a machine that has used
the ledger before, so that the refusal does not depend on a first look.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from causalveil.schemas.errors import BudgetRefused, LedgerError, RunConflict
from causalveil.tasks.privacy.ledger.entry import Entry
from causalveil.tasks.privacy.ledger.ledger import Ledger, open_ledger
from causalveil.tasks.privacy.ledger.soundness import Memory
from causalveil.tasks.privacy.ledger.store import Store
from tests.ledger_help import budget, charge, contract, finished, never, reservation, value

CAP = "0.3"
Tamper = Callable[..., None]


def use(ledger: Ledger, folder: Path, *runs: str) -> None:
    for run in runs:
        finished(ledger, reservation(run, contract=contract(CAP)), contract(CAP), folder)


def refused(ledger: Ledger, match: str, run: str = "one-more") -> None:
    """A new run is refused, and nothing is drawn."""
    owner = contract(CAP)
    with pytest.raises(LedgerError, match=match):
        ledger.reserve(reservation(run, contract=owner), owner)
    with pytest.raises(LedgerError, match=match):
        ledger.release(run, charge(), lambda: never(None))


def test_an_edited_body_stops_the_next_run(ledger: Ledger, tmp_path: Path, tamper: Tamper) -> None:
    """The reservation is made to look small; before, three runs beyond the cap were released."""
    ledger.grant(contract(CAP), "opening")
    use(ledger, tmp_path, "a", "b", "c")
    tamper(
        'UPDATE entries SET body = replace(body, \'"epsilon":"0.1"\', \'"epsilon":"0.01"\') WHERE kind = \'reserve\''
    )
    refused(ledger, "entry 3 does not verify")


def test_a_removed_entry_stops_the_next_run(ledger: Ledger, tmp_path: Path, tamper: Tamper) -> None:
    ledger.grant(contract(CAP), "opening")
    use(ledger, tmp_path, "a", "b", "c")
    tamper("DELETE FROM entries WHERE run_id = 'b'")
    refused(ledger, "does not verify|older copy")


def test_a_moved_void_stops_the_next_run(ledger: Ledger, tmp_path: Path, tamper: Tamper) -> None:
    """Entries of one run are written to another's name, which would free its budget."""
    ledger.grant(contract(CAP), "opening")
    use(ledger, tmp_path, "a", "b")
    ledger.reserve(reservation("c", contract=contract(CAP)), contract(CAP))
    tamper("UPDATE entries SET dataset = 'other' WHERE run_id = 'a'")
    refused(ledger, "does not verify")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.db"


@pytest.fixture
def on_disk(path: Path, tmp_path: Path) -> Ledger:
    ledger = open_ledger(f"sqlite:///{path}")
    ledger.grant(contract(CAP), "opening")
    use(ledger, tmp_path, "a", "b", "c")
    return ledger


def test_rows_that_an_index_hides_stop_the_next_run(on_disk: Ledger, path: Path) -> None:
    """The index by dataset loses its rows while the table keeps them: an account read by it would be empty."""
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA writable_schema = ON")
        (sql,) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'entries_by_dataset'").fetchone()
        database.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'kind)', 'kind) WHERE seq < 2') WHERE sql = ?", (sql,)
        )
    with sqlite3.connect(path) as database:
        database.execute("REINDEX entries_by_dataset")
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'entries_by_dataset'", (sql,))
    with sqlite3.connect(path) as database:
        hidden = database.execute("SELECT count(*) FROM entries INDEXED BY entries_by_dataset WHERE dataset = 'trial'")
        assert hidden.fetchone() == (0,), "the drill damaged the index"
    refused(on_disk, r"indexes disagree|damaged")
    with pytest.raises(LedgerError, match=r"indexes disagree|damaged"):
        on_disk.verify()


@pytest.mark.parametrize("place", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_flipped_bits_never_pass_the_cap(on_disk: Ledger, path: Path, place: float) -> None:
    """One bit in each 64 bytes of a stretch of the file, as a dying disk has it; the size stays.

    A stretch may be free space of the file (the first here is): then nothing is wrong, and the cap refuses.
    """
    content = bytearray(path.read_bytes())
    start = int(len(content) * place)
    for index in range(start, min(start + 8192, len(content)), 64):
        content[index] ^= 4
    path.write_bytes(bytes(content))
    with pytest.raises((LedgerError, BudgetRefused) if place < 0.2 else LedgerError):
        on_disk.reserve(reservation("one-more", contract=contract(CAP)), contract(CAP))


def test_a_single_flipped_bit_in_a_body_is_found(on_disk: Ledger, path: Path) -> None:
    content = path.read_bytes()
    assert content.count(b'"epsilon":"0.1"') > 3
    path.write_bytes(content.replace(b'"epsilon":"0.1"', b'"epsilon":"0.0"'))
    refused(on_disk, "does not verify|damaged|disagree")


def test_an_older_copy_is_refused_until_its_loss_is_accepted(tmp_path: Path, path: Path) -> None:
    """Yesterday's file copied back: before, the cap was spent again and a known run id drew fresh noise."""
    ledger = open_ledger(f"sqlite:///{path}")
    ledger.grant(contract(CAP), "opening")
    use(ledger, tmp_path, "a")
    shutil.copy(path, tmp_path / "yesterday.db")
    use(ledger, tmp_path, "b", "c")
    shutil.copy(tmp_path / "yesterday.db", path)
    refused(ledger, r"older copy.*seen entry 11.*ledger restored")
    refused(open_ledger(f"sqlite:///{path}"), "older copy", run="b")
    entry = ledger.restored("the disk of 3 May is lost")
    assert entry.document["lost"]["seq"] == 11
    use(ledger, tmp_path, "d")
    with pytest.raises(RunConflict, match="nothing to accept"):
        ledger.restored("once more")
    assert ledger.verify().entries == 9


def test_another_machine_goes_on_after_an_accepted_loss(
    tmp_path: Path, path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had seen more than the copy holds, and less than what was accepted as lost."""
    there = home.with_name("another-machine")
    ledger, owner = open_ledger(f"sqlite:///{path}"), contract("1")
    ledger.grant(owner, "opening")
    shutil.copy(path, tmp_path / "yesterday.db")
    monkeypatch.setenv("CAUSALVEIL_HOME", str(there))
    ledger.reserve(reservation("a", contract=owner), owner)
    ledger.reserve(reservation("b", contract=owner), owner)
    monkeypatch.setenv("CAUSALVEIL_HOME", str(home))
    ledger.reserve(reservation("c", contract=owner), owner)
    shutil.copy(tmp_path / "yesterday.db", path)
    ledger.restored("disk lost")
    monkeypatch.setenv("CAUSALVEIL_HOME", str(there))
    ledger.reserve(reservation("d", contract=owner), owner)
    known = Memory(ledger.identity).read()
    assert known is not None
    assert known.seq == 4, "what it has seen begins anew"


def test_an_older_copy_that_has_grown_since_is_refused(tmp_path: Path, path: Path) -> None:
    ledger = open_ledger(f"sqlite:///{path}")
    ledger.grant(contract(CAP), "opening")
    shutil.copy(path, tmp_path / "yesterday.db")
    use(ledger, tmp_path, "a")
    shutil.copy(tmp_path / "yesterday.db", path)
    use(replace(ledger, memory=None), tmp_path / "elsewhere", "b", "c")
    refused(ledger, "older copy")


def test_every_release_names_the_entry_that_an_older_copy_lacks(on_disk: Ledger, tmp_path: Path) -> None:
    use(on_disk, tmp_path)
    statement = on_disk.statement("c")
    assert (statement.sequence, statement.entry_hash) == (10, on_disk.statement("c").entry_hash)


def test_postgresql_brought_back_from_a_dump_is_refused(ledger: Ledger, tmp_path: Path, tamper: Tamper) -> None:
    """As ``pg_restore`` of last night's dump leaves it: a sound chain, shorter."""
    ledger.grant(contract(CAP), "opening")
    use(ledger, tmp_path, "a", "b")
    tamper("DELETE FROM entries WHERE seq > 5")
    replace(ledger, memory=None).verify()
    refused(ledger, r"older copy.*seen entry 8")


def test_a_machine_without_memory_verifies_everything_first(ledger: Ledger, home: Path, tmp_path: Path) -> None:
    ledger.grant(contract(CAP), "opening")
    use(ledger, tmp_path, "a")
    shutil.rmtree(home / "ledgers")
    use(ledger, tmp_path, "b")
    (kept,) = (home / "ledgers").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700


def test_a_damaged_memory_is_refused_with_what_to_do(ledger: Ledger, home: Path, tmp_path: Path) -> None:
    ledger.grant(contract(CAP), "opening")
    (kept,) = (home / "ledgers").iterdir()
    kept.write_text(kept.read_text().replace('"seq":2', '"seq":1'))
    refused(ledger, r"is damaged; hold the newest release.*remove this file")


def test_a_run_under_way_goes_on_from_the_memory(ledger: Ledger, tmp_path: Path) -> None:
    """The state holds runs under way by their entries, and a void frees just what was not drawn."""
    owner = contract("1")
    ledger.grant(owner, "opening")
    charges = (charge("x"), charge("y"))
    for run in ("r", "s"):
        ledger.reserve(reservation(run, charges=charges, contract=owner), owner)
    drawn = budget(ledger, reservation("r", charges=charges, contract=owner), tmp_path)
    drawn.spend(charges[0], value(1.5))
    ledger.void("r", "power cut")
    again = open_ledger(ledger.store.url.render_as_string(hide_password=False))
    again.reserve(reservation("t", charges=(charge(epsilon="0.7"),), contract=owner), owner)
    assert again.account("trial", owner).blocks[0].remaining.epsilon == 0
    with pytest.raises(Exception, match="remaining 0 of 1"):
        again.reserve(reservation("u", contract=owner), owner)
    again.verify()


def test_a_reservation_reads_as_much_in_a_long_ledger_as_in_a_short_one(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What keeps a reservation below 50 ms at 1e5 entries (``replication/benchmarks/ledger.py``), counted in rows.

    Rows are read of what was added since and of runs under way, of which there is none here."""
    read, counts = [0], list[int]()
    select = Store.select

    def counted(*arguments: Any, **named: Any) -> Iterator[Entry]:
        for entry in select(*arguments, **named):
            read[-1] += 1
            yield entry

    monkeypatch.setattr(Store, "select", counted)
    owner = contract("1000")
    ledger.grant(owner, "opening")
    for number in range(40):
        read.append(0)
        ledger.reserve(reservation(f"run-{number}", charges=(charge(epsilon="0.001"),), contract=owner), owner)
        counts.append(read[-1])
        ledger.void(f"run-{number}", "drill")
    assert 0 < counts[39] == counts[5]
