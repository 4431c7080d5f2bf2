"""Check that a ledger is unchanged: chain, database, and memory of this machine.

The database tells whether it is whole and unchanged, the chain whether its entries follow from each other. In the state
folder this machine remembers the last entry that it has seen, and the sums up to there. That has two purposes. The
*anchor*, the number and hash of the highest entry seen, lies outside the ledger: a ledger that was put back to an older
copy does not hold it, and is refused. The *state* at the anchor, sums and runs under way, saves each writer from adding
up the whole ledger: it verifies the entries that followed. A state is a help and no record: a machine without one, or
one that finds traces of a change behind the anchor, verifies from the first entry on.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from causalveil.schemas.errors import LedgerError, kind_of
from causalveil.schemas.privacy import Level
from causalveil.tasks.machine.files import whole_file
from causalveil.tasks.machine.site import home
from causalveil.tasks.privacy.ledger.accounts import Book, Caps, RunRecord, Use, run_of
from causalveil.tasks.privacy.ledger.entry import NO_HASH, Entry, Grant, broken, canonical
from causalveil.tasks.privacy.ledger.store import Store, entries


def leaves_traces(store: Store) -> bool:
    """Check whether :func:`stamp` can detect a change.

    It cannot for a SQLite file under an address of its own (``file:``).
    """
    return not (store.url.get_backend_name() == "sqlite" and str(store.url.database).startswith("file:"))


def stamp(store: Store, connection: sa.Connection | None) -> str:
    """Return the traces that a change would leave.

    Equal stamps at one head mean that no entry was changed.

    SQLite: the file itself, its size and time of change. Its bytes are not read: closing the file would drop the locks
    that SQLite holds on it in this process. PostgreSQL, for which a connection is needed: the server's count of updated
    and deleted rows, which no entry ever adds to, and the file of the table, which a rewrite replaces.
    """
    if store.url.get_backend_name() == "sqlite":
        if not leaves_traces(store):
            return ""
        status = os.stat(str(store.url.database))
        return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
    if connection is None:
        return ""
    query = (
        "SELECT pg_stat_get_tuples_updated(oid) + pg_stat_get_tuples_deleted(oid), pg_relation_filenode(oid)"
        " FROM pg_class WHERE oid = 'entries'::regclass"
    )
    changed, file = connection.execute(sa.text(query)).one()
    return f"{changed}:{file}"


def check_integrity(store: Store, connection: sa.Connection) -> None:
    """Ask the database whether table and indexes are whole and agree.

    SQLite: ``PRAGMA integrity_check``. PostgreSQL: rows in the heap are counted against rows by the primary key, and
    every index is checked by ``amcheck`` where that extension is installed and permitted. What is read after it in the
    transaction comes from the heap and is sorted: no index decides which entries there are.

    Raises:
        LedgerError: they are not.
    """
    if connection.dialect.name == "sqlite":
        # Indexes by hash are read in no order: with the usual cache of 2 MB each look at a page is a read of the file.
        connection.execute(sa.text("PRAGMA cache_size = -131072"))
        sound = connection.execute(sa.text("PRAGMA integrity_check(1)")).scalar() == "ok"
        # What is read next is read in order.
        connection.execute(sa.text("PRAGMA cache_size = -2000"))
        connection.execute(sa.text("PRAGMA shrink_memory"))
    else:
        sound = _counts_agree(connection) and _indexes_sound(connection)
    if not sound:
        raise LedgerError(f"ledger {store.place} is damaged: its table and indexes disagree; restore it from a backup")


def _counts_agree(connection: sa.Connection) -> bool:
    # Up to one entry, since each statement sees what others have committed by then.
    head = {"head": connection.execute(sa.text("SELECT coalesce(max(seq), 0) FROM entries")).scalar_one()}
    count = sa.text("SELECT count(*) FROM entries WHERE seq <= :head")
    connection.execute(sa.text("SET LOCAL enable_seqscan = off"))
    by_index = connection.execute(count, head).scalar_one()
    connection.execute(sa.text("SET LOCAL enable_seqscan = on"))
    for method in ("indexscan", "indexonlyscan", "bitmapscan"):
        connection.execute(sa.text(f"SET LOCAL enable_{method} = off"))
    return bool(connection.execute(count, head).scalar_one() == by_index)


def _indexes_sound(connection: sa.Connection) -> bool:
    check = "bt_index_check(regclass,boolean)"
    if connection.execute(sa.text("SELECT to_regprocedure(:check)"), {"check": check}).scalar() is None:
        return True
    query = "SELECT bt_index_check(indexrelid, true) FROM pg_index WHERE indrelid = 'entries'::regclass"
    try:
        with connection.begin_nested():
            connection.execute(sa.text(query)).all()
    except SQLAlchemyError as problem:
        return "permission denied" in str(problem).lower()
    return True


@dataclass
class Chain:
    """A verified beginning of a ledger: its last entry, and the book of all entries so far.

    ``only`` names the dataset whose entries the book is to hold; None: those of all. ``after_loss``: the ledger lost
    entries that this machine has seen, which was accepted for the record. ``each`` is called after every entry of the
    book, with the book and the entry's run.
    """

    book: Book
    last: tuple[int, str] | None = None
    only: str | None = None
    after_loss: bool = False
    each: Callable[[Book, Entry, RunRecord | None], None] = lambda _book, _entry, _run: None

    def take(self, entries: Iterable[Entry]) -> None:
        """Take in the entries that follow, which must be all of them and in order.

        Raises:
            LedgerError: names the first that does not follow, or that breaks a rule.
        """
        for entry in entries:
            self._check(entry)
            if self.only is None or entry.dataset == self.only:
                self.each(self.book, entry, self.book.add(entry))
            self.last = (entry.seq, entry.hash)

    @property
    def seq(self) -> int:
        """Number of the last entry."""
        return 0 if self.last is None else self.last[0]

    @property
    def hash(self) -> str:
        """Hash of the last entry.

        Raises:
            LedgerError: there is none.
        """
        if self.last is None:
            raise LedgerError("the ledger is empty; restore it from a backup")
        return self.last[1]

    def _check(self, entry: Entry) -> None:
        if entry.seq != self.seq + 1:
            raise broken(entry, "an entry before it is missing")
        if entry.previous_hash != (NO_HASH if self.last is None else self.last[1]):
            raise broken(entry, "it is not chained to the entry before it")
        if entry.hash != entry.digest():
            raise broken(entry, "its hash is not that of its content")
        if (entry.kind == "genesis") != (self.last is None):
            raise broken(entry, "the first entry, and no other, is the genesis")
        if self.last is None:
            identity = entry.document.get("identity")
            if identity != self.book.identity or not re.fullmatch("[0-9a-f]{32}", str(identity)):
                raise broken(entry, "it is the genesis of another ledger")


FOLDER = "ledgers"
# Raised whenever the shape of a state or the arithmetic behind it changes: an older state is then not used.
STATE = 3
# Of entries that one query names; databases bound how many.
_AT_ONCE = 1000
# Entries of one slice of a first look.
SLICE = 2_000

_CAPS: TypeAdapter[dict[str, Caps]] = TypeAdapter(dict[str, Caps])
_GRANTS: TypeAdapter[dict[str, Grant]] = TypeAdapter(dict[str, Grant])
_ADMISSIONS: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])
_USED: TypeAdapter[list[tuple[str, Level, str, Use]]] = TypeAdapter(list[tuple[str, Level, str, Use]])
_RUNS: TypeAdapter[dict[str, list[tuple[int, str]]]] = TypeAdapter(dict[str, list[tuple[int, str]]])


@dataclass(frozen=True)
class Snapshot:
    """The content of the file: the anchor, the stamp of the database then, and the state."""

    seq: int
    hash: str
    stamp: str
    state: dict[str, Any]


@dataclass(frozen=True)
class Memory:
    """The file of one ledger in this machine's state folder."""

    identity: str

    @property
    def path(self) -> Path:
        """Path of the file."""
        return home() / FOLDER / f"{self.identity}.json"

    def read(self) -> Snapshot | None:
        """Read the snapshot; None if this machine never wrote to the ledger.

        Raises:
            LedgerError: the file is damaged or cannot be read.
        """
        try:
            checksum, text = self.path.read_text(encoding="utf-8").split("\n", 1)
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            checksum, text = "", ""
        if hashlib.sha256(text.encode()).hexdigest() != checksum:
            raise LedgerError(
                f"{self.path}: what this machine knows of its ledger is damaged; hold the newest release against the "
                "ledger (causalveil ledger verify --release FILE), then remove this file"
            )
        return Snapshot(**json.loads(text))

    def keep(self, chain: Chain, traces: str) -> None:
        """Store a verified chain, unless the snapshot has a longer one.

        Args:
            chain: up to an entry that is committed.
            traces: the stamp of the database after that commit.

        Raises:
            LedgerError: the file cannot be written.
        """
        text = canonical({"seq": chain.seq, "hash": chain.hash, "stamp": traces, "state": _state(chain.book)})
        try:
            with self._alone():
                snapshot = None if chain.after_loss else self.read()
                if snapshot is not None and snapshot.seq > chain.seq:
                    return
                with whole_file(self.path, durable=True) as file:
                    file.write(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}".encode())
        except OSError as problem:
            raise LedgerError(
                f"{self.path}: cannot be written ({kind_of(problem)}); the ledger itself holds what was committed"
            ) from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        folder = self.path.parent
        folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def caught_up(store: Store, connection: Connection, identity: str, memory: Memory | None) -> Chain:
    """Return the whole ledger, verified: the snapshot, and the entries that followed.

    It must be called in a write transaction: entries that others committed are then there, and no snapshot is newer.

    Raises:
        LedgerError: the ledger lacks an entry which this machine has seen, or does not verify.
    """
    snapshot = None if memory is None else memory.read()
    refuse_older(store, connection, snapshot, identity)
    after_loss = snapshot is not None and not holds(store, connection, snapshot)
    if after_loss:
        snapshot = None
    refuse_unguarded(store, connection)
    chain = remembered(store, connection, identity, snapshot)
    if chain is not None:
        return chain
    chain = from_the_first(store, connection, identity)
    chain.after_loss = after_loss
    return chain


def remembered(store: Store, connection: Connection, identity: str, snapshot: Snapshot | None) -> Chain | None:
    """Return the chain of a snapshot, extended by the entries that followed, verified.

    None where verification has to begin at the first entry. ``snapshot`` must have been read before ``connection``
    looked at the ledger, or in a write transaction.

    Raises:
        LedgerError: an entry that followed breaks a rule.
    """
    if snapshot is None or (head := store.head(connection)) is None or not holds(store, connection, snapshot):
        return None
    # A writer of this machine updates the snapshot; a changed stamp without an entry is a change from outside.
    quiet = leaves_traces(store) and (head.seq > snapshot.seq or stamp(store, connection) == snapshot.stamp)
    chain = _restored(store, connection, identity, snapshot) if quiet else None
    if chain is not None:
        chain.take(store.select(connection, entries.c.seq > snapshot.seq, checked=False))
    return chain


def look_once(store: Store, identity: str, memory: Memory) -> None:
    """Verify a ledger that this machine never saw, and remember it, while others may write.

    The first look at a long ledger takes seconds. Later writers find the anchor, and hold the lock only for the entries
    that followed. It is made in slices, since a reader of SQLite blocks commits; traces are taken before the first
    slice, so that a change meanwhile is detected.

    Raises:
        LedgerError: the ledger does not verify.
    """
    if memory.read() is not None:
        return
    with store.read() as connection:
        refuse_unguarded(store, connection)
        traces = stamp(store, connection)
        check_integrity(store, connection)
    chain = Chain(Book(identity))
    while True:
        with store.read() as connection:
            until = entries.c.seq <= chain.seq + SLICE
            following = list(store.select(connection, entries.c.seq > chain.seq, until, checked=False))
        if not following:
            break
        chain.take(following)
    memory.keep(chain, traces)


def refuse_unguarded(store: Store, connection: Connection) -> None:
    """Refuse a ledger whose triggers do not keep it append-only.

    Raises:
        LedgerError: they are gone.
    """
    if not store.guarded(connection):
        raise LedgerError("the triggers that keep the ledger append-only are gone: they were removed")


def refuse_older(store: Store, connection: Connection, snapshot: Snapshot | None, identity: str) -> None:
    """Refuse a ledger that lacks an entry which this machine has seen.

    Raises:
        LedgerError: it is an older copy, and that was not accepted for the record.
    """
    if snapshot is not None and not accounts_for(store, connection, snapshot.seq, snapshot.hash):
        raise LedgerError(
            f"ledger {identity} is an older copy, or entries of it are gone: this machine has seen entry "
            f"{snapshot.seq}, and it is not there; bring back the newest copy, or if that is lost read docs/ledger.md, "
            "'After a restore', and run: causalveil ledger restored --reason TEXT"
        )


def from_the_first(
    store: Store,
    connection: Connection,
    identity: str,
    dataset: str | None = None,
    each: Callable[[Book, Entry, RunRecord | None], None] = lambda _book, _entry, _run: None,
) -> Chain:
    """Verify every entry and the database itself.

    Raises:
        LedgerError: names the first entry that fails, or says that the database is damaged.
    """
    check_integrity(store, connection)
    chain = Chain(Book(identity), only=dataset, each=each)
    chain.take(store.select(connection, checked=False))
    if chain.last is None:
        raise LedgerError("the ledger is empty; restore it from a backup")
    return chain


def holds(store: Store, connection: Connection, snapshot: Snapshot) -> bool:
    """Check whether a ledger has the last entry that this machine has seen."""
    return _has(store, connection, snapshot.seq, snapshot.hash)


def accounts_for(store: Store, connection: Connection, seq: int, digest: str) -> bool:
    """Check whether a ledger has an entry, or accepts for the record that it lost it."""
    if _has(store, connection, seq, digest):
        return True
    restores = store.select(connection, entries.c.kind == "restore")
    return any(int(entry.document["lost"]["seq"]) >= seq for entry in restores)


def _has(store: Store, connection: Connection, seq: int, digest: str) -> bool:
    return any(entry.hash == digest for entry in store.select(connection, entries.c.seq == seq, checked=False))


def _state(book: Book) -> dict[str, Any]:
    """Return the state that later entries depend on.

    Caps, grants, admissions, sums, and the runs that may still have entries.
    """
    return {
        "version": STATE,
        "caps": _CAPS.dump_python(book.caps),
        "grants": _GRANTS.dump_python(book.grants),
        "admissions": book.admissions,
        "used": [[*key, use._asdict()] for key, use in book.sums()],
        "runs": {run_id: [[entry.seq, entry.hash] for entry in run.entries] for run_id, run in book.runs.items()},
    }


def _restored(store: Store, connection: Connection, identity: str, snapshot: Snapshot) -> Chain | None:
    """The chain up to the anchor.

    It is None if the state is of another version, or a run under way was changed.
    """
    book, state = Book(identity), snapshot.state
    try:
        if state["version"] != STATE:
            return None
        book.caps = _CAPS.validate_python(state["caps"])
        book.grants = _GRANTS.validate_python(state["grants"])
        book.admissions = _ADMISSIONS.validate_python(state["admissions"])
        sums = _USED.validate_python(state["used"])
        book.set_sums({(dataset, level, block): use for dataset, level, block, use in sums})
        runs = _RUNS.validate_python(state["runs"])
        stored = _entries(store, connection, [seq for links in runs.values() for seq, _ in links])
        for run_id, links in runs.items():
            of_run = [stored[seq] for seq, _ in links if seq in stored]
            run = run_of(of_run)
            if run is None or [(entry.seq, entry.hash) for entry in of_run] != links:
                return None
            book.runs[run_id] = run
    except (KeyError, TypeError, ValidationError):
        return None
    return Chain(book, (snapshot.seq, snapshot.hash))


def _entries(store: Store, connection: Connection, numbers: list[int]) -> dict[int, Entry]:
    """Entries by their numbers, each held against its own hash.

    A query for each would be most of a reservation.
    """
    return {
        entry.seq: entry
        for first in range(0, len(numbers), _AT_ONCE)
        for entry in store.select(connection, entries.c.seq.in_(numbers[first : first + _AT_ONCE]), checked=True)
    }
