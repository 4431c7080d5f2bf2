"""Store entries in an append-only table of SQLite or PostgreSQL.

Tables are created in a new database and brought up to date in an old one. Writers are serialised (SQLite: ``BEGIN
IMMEDIATE``, before which they wait in line; PostgreSQL: a transaction-level advisory lock), so a writer's reads still
hold when it commits. A connection lives for one transaction: nothing is shared between threads or over a fork, and a
server that was restarted between two stages is not noticed.

PostgreSQL's server is waited for where it goes away. A transaction whose connection is lost before its commit leaves no
trace and is made again; where its commit was not confirmed, its entry is looked for first, so that nothing is charged
twice.

SQLite keeps its rollback journal (``DELETE``) rather than WAL: the ledger is then one file, which a plain copy backs
up, which opens read-only, and which is safe on a network file system that has locks. Its commit is the removal of the
journal, and only ``synchronous=EXTRA`` (all of FULL, and a sync of the folder after that removal) keeps a power cut
from undoing a commit whose noisy value has already been seen.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError

from causalveil.schemas.documents import own_version
from causalveil.schemas.errors import LedgerError, kind_of
from causalveil.tasks.machine.files import fair_lock
from causalveil.tasks.machine.site import actor, host
from causalveil.tasks.privacy.ledger.entry import AUTHOR_FIELDS, BY, NO_HASH, Entry, broken, canonical

_LOG = logging.getLogger("causalveil.flow")
P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)
MIGRATIONS = Path(__file__).with_name("migrations")
VERSION_TABLE = "ledger_version"
# The tables that the migrations make, so that a first run or a simulation need not import alembic (0.3 s).
SQLITE_TABLES = MIGRATIONS / "sqlite.sql"


def bring_up(connection: sa.Connection, version: str) -> None:
    """Create the tables of an empty database, or migrate those of an older version.

    It must be called in a write transaction.

    Raises:
        LedgerError: this installation of causalveil lacks its migrations.
    """
    if connection.dialect.name == "sqlite" and not sa.inspect(connection).get_table_names():
        for statement in _statements(_installed(SQLITE_TABLES).read_text(encoding="utf-8")):
            connection.exec_driver_sql(statement)
        connection.execute(sa.text(f"INSERT INTO {VERSION_TABLE} VALUES (:version)"), {"version": version})
    else:
        migrate(connection)


def migrate(connection: sa.Connection) -> None:
    """Run every migration that the database lacks.

    Raises:
        LedgerError: this installation of causalveil lacks its migrations.
    """
    # Imported only for a new or an old ledger: a run must not pay for it.
    from alembic import command
    from alembic.config import Config

    _installed(MIGRATIONS / "env.py")
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _installed(path: Path) -> Path:
    """The path itself.

    Raises:
        LedgerError: nothing lies there.
    """
    if not path.exists():
        raise LedgerError(
            f"this installation of causalveil lacks the ledger's {path.name}; install it again from a whole wheel"
        )
    return path


def _statements(text: str) -> Iterator[str]:
    """The statements of an SQL text; a trigger has semicolons of its own."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


URL_VARIABLE = "CAUSALVEIL_LEDGER_URL"
VERSION = "0001"
BUSY_SECONDS = 60
# Wait for a server that went away after it had answered this process, as servers do that restart.
AWAY_SECONDS = 60.0
_PAUSE_SECONDS = 0.2
_ANSWERED: set[sa.URL] = set()

# Any constant does: PostgreSQL's advisory locks are per database. These are the ASCII codes of "causalve".
_LOCK = int.from_bytes(b"causalve", "big")

# The key under which a connection keeps the last entry that its transaction appended.
_APPENDED = "causalveil_appended"

entries = sa.table(
    "entries",
    *(sa.column(name) for name in ("seq", "kind", "dataset", "run_id", "name", "body")),
    *(sa.column(name) for name in ("previous_hash", "hash", "written_at")),
)


class ConnectionLost(LedgerError):
    """A connection was lost before its transaction was recorded: it may be repeated."""


def retried(transaction: Callable[P, R]) -> Callable[P, R]:
    """Return a transaction that is repeated while its connection is lost, up to a minute."""

    @functools.wraps(transaction)
    def repeat(*args: P.args, **kwargs: P.kwargs) -> R:
        until = time.monotonic() + AWAY_SECONDS
        while True:
            try:
                return transaction(*args, **kwargs)
            except ConnectionLost:
                if time.monotonic() > until:
                    raise
            time.sleep(_PAUSE_SECONDS)

    return repeat


def with_retries(ledger: C) -> C:
    """Apply :func:`retried` to every public method of a class.

    Each may write in one transaction at most, and in its last.
    """
    for name, method in inspect.getmembers(ledger, inspect.isfunction):
        if not name.startswith("_"):
            setattr(ledger, name, retried(method))
    return ledger


class Store:
    """A ledger's database, reached anew for each transaction.

    It can be pickled and used from several threads.
    """

    def __init__(self, url: str | sa.URL) -> None:
        """Name the database; nothing is opened yet.

        Raises:
            LedgerError: not a URL of SQLite or PostgreSQL.
        """
        self.url = _parse(url)

    def __getstate__(self) -> dict[str, Any]:
        """The URL alone: an engine belongs to its process."""
        return {"url": self.url}

    def __repr__(self) -> str:
        """Without the password."""
        return f"Store({self.place})"

    @property
    def place(self) -> str:
        """Place of the ledger, for messages: without user name, password or options."""
        if self.url.get_backend_name() == "sqlite":
            return str(self.url.database)
        return f"PostgreSQL database {self.url.database} at {self.url.host or 'the local socket'}"

    @cached_property
    def engine(self) -> sa.Engine:
        """The engine. Parameters are hidden from error texts since they hold noisy values."""
        if self.url.get_backend_name() == "sqlite":
            engine = sa.create_engine(
                self.url, poolclass=sa.NullPool, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS}
            )
            sa.event.listen(engine, "connect", _prepare_sqlite)
            sa.event.listen(engine, "begin", _begin_sqlite)
            return engine
        # A cluster that was made without a locale would else hand out bytes.
        arguments = {"connect_timeout": "10", "application_name": "causalveil", "client_encoding": "utf8"}
        return sa.create_engine(
            self.url,
            poolclass=sa.NullPool,
            hide_parameters=True,
            # Each statement after the lock must see what was committed before it.
            isolation_level="READ COMMITTED",
            connect_args={key: value for key, value in arguments.items() if key not in self.url.query},
        )

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Open a transaction that only reads.

        Raises:
            ConnectionLost: while it was read.
            LedgerError: unreachable or not a ledger.
        """
        with self._errors(), self._connected() as connection, self._open(connection), connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """Open a transaction that no other writer overlaps.

        It is durable when the block has ended, else it leaves no trace.

        Raises:
            ConnectionLost: before the transaction was recorded.
            LedgerError: unreachable, read-only, busy for a minute, or an entry that the tables refuse.
        """
        with self._errors(), self._line(), self._connected() as plain:
            connection = plain.execution_options(causalveil_write=True)
            with connection.begin() as transaction:
                with self._open(connection):
                    self._lock(connection)
                    yield connection
                entry = connection.info.get(_APPENDED)
                try:
                    transaction.commit()
                except DBAPIError as problem:
                    if not problem.connection_invalidated:
                        raise
                    if entry is None or not self._recorded(entry):
                        raise ConnectionLost(self._lost()) from None

    def _connected(self) -> sa.Connection:
        """Open a connection; a server that has answered this process before may be away for a while."""
        until: float | None = None
        while True:
            try:
                connection = self.engine.connect()
            except OperationalError as problem:
                now = time.monotonic()
                if not self._comes_back(problem) or (until is not None and now > until):
                    raise
                if until is None:
                    _LOG.warning(f"ledger {self.place} does not answer; waits for it, at most {AWAY_SECONDS:.0f} s")
                    until = now + AWAY_SECONDS
                time.sleep(_PAUSE_SECONDS)
            else:
                _ANSWERED.add(self.url)
                return connection

    def _comes_back(self, problem: OperationalError) -> bool:
        """Tell whether a server that does not let this process in may do so shortly."""
        if self.url.get_backend_name() == "sqlite":
            return False
        text = str(problem.orig).lower()
        restarts = any(phrase in text for phrase in ("starting up", "shutting down"))
        return restarts or (self.url in _ANSWERED and not any(phrase in text for phrase in _REFUSED))

    @contextmanager
    def _open(self, connection: sa.Connection) -> Iterator[None]:
        """Raise ``ConnectionLost`` where the connection is lost before the commit."""
        try:
            yield
        except DBAPIError as problem:
            if not problem.connection_invalidated or connection.dialect.name == "sqlite":
                raise
            raise ConnectionLost(self._lost()) from None

    def _lost(self) -> str:
        return f"ledger {self.place} ended the connection before anything was recorded; run again"

    def _lock(self, connection: sa.Connection) -> None:
        """Keep other writers out until the transaction ends; SQLite does so as it begins."""
        if connection.dialect.name == "postgresql":
            wait = "SELECT set_config('lock_timeout', :wait, true), set_config('synchronous_commit', 'on', true)"
            connection.execute(sa.text(wait), {"wait": f"{BUSY_SECONDS}s"})
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})

    def _recorded(self, entry: Entry) -> bool:
        """Check whether an entry whose commit was not confirmed is in the ledger."""
        with self._connected() as connection, connection.begin():
            # The server may still be at that transaction: once its lock is free, it has ended either way.
            self._lock(connection)
            stored = connection.execute(sa.select(entries.c.hash).where(entries.c.seq == entry.seq)).scalar()
        return bool(stored == entry.hash)

    def _line(self) -> AbstractContextManager[None]:
        """SQLite's writers wait in line; PostgreSQL's server keeps one of its own.

        The line has a file of its own: to close the ledger's would take away the locks that SQLite has on it here.
        """
        path = self.url.database or ""
        if self.url.get_backend_name() != "sqlite" or path.startswith("file:"):
            return nullcontext()
        return fair_lock(Path(f"{path}-queue"))

    @retried
    def prepare(self) -> str:
        """Create or migrate the tables where needed; return the ledger's identity, 32 hex digits.

        Raises:
            LedgerError: unreachable, or written by a newer version.
        """
        self._create_file()
        with self.read() as connection:
            ready = self._version(connection) == VERSION
        if not ready:
            with self.write() as connection:
                self._bring_up(connection)
                if self.head(connection) is None:
                    self.append(connection, "genesis", body={"identity": secrets.token_hex(16), "format": 1})
        with self.read() as connection:
            first = next(iter(self.select(connection, entries.c.seq == 1)), None)
        if first is None:
            raise LedgerError(f"ledger {self.place} has tables but no first entry; restore it from a backup")
        return str(first.document.get("identity"))

    def adopt(self, chain: Iterable[Entry]) -> None:
        """Fill a new database with another ledger's entries, unchanged: it becomes that ledger.

        Raises:
            LedgerError: there is a ledger already.
        """
        self._create_file()
        with self.write() as connection:
            self._bring_up(connection)
            if self.head(connection) is not None:
                raise LedgerError(f"ledger {self.place} has entries already; name an empty database")
            for entry in chain:
                connection.execute(sa.insert(entries).values(**entry.__dict__))

    def head(self, connection: sa.Connection) -> Entry | None:
        """Return the last entry."""
        query = sa.select(*entries.c).order_by(entries.c.seq.desc()).limit(1)
        row = connection.execute(query).one_or_none()
        return None if row is None else Entry(*row)

    def select(
        self, connection: sa.Connection, *where: sa.ColumnElement[bool], checked: bool = True
    ) -> Iterable[Entry]:
        """Return entries that meet all conditions, oldest first, fetched as they are consumed.

        Args:
            connection: of a transaction.
            where: the conditions.
            checked: hold each entry against its own hash. False where the caller verifies the chain.

        Raises:
            LedgerError: an entry's hash is not that of its content.
        """
        query = sa.select(*entries.c).where(*where).order_by(entries.c.seq)
        for row in connection.execute(query.execution_options(yield_per=1000)):
            entry = Entry(*row)
            if checked and entry.hash != entry.digest():
                raise broken(entry, "its hash is not that of its content")
            yield entry

    def append(
        self,
        connection: sa.Connection,
        kind: str,
        *,
        body: dict[str, Any],
        dataset: str = "",
        run_id: str = "",
        name: str = "",
        purpose: str | None = None,
    ) -> Entry:
        """Chain one entry to the head, inside a write transaction.

        Its body names the author, host, purpose and version.
        """
        head = self.head(connection)
        seq, previous = (1, NO_HASH) if head is None else (head.seq + 1, head.hash)
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        by = dict(zip(AUTHOR_FIELDS, (actor(), host(), purpose, own_version()), strict=True))
        text = canonical({**body, BY: by})
        entry = Entry(seq, kind, dataset, run_id, name, text, previous, "", now)
        entry = replace(entry, hash=entry.digest())
        connection.execute(sa.insert(entries).values(**entry.__dict__))
        connection.info[_APPENDED] = entry
        return entry

    def guarded(self, connection: sa.Connection) -> bool:
        """Check whether the triggers that refuse changes are still there."""
        if connection.dialect.name == "sqlite":
            query = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'entries'"
            return bool(connection.execute(sa.text(query)).scalar_one() >= 3)
        query = (
            "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'entries'::regclass"
            " AND tgname = 'entries_append_only' AND tgenabled <> 'D'"
        )
        return bool(connection.execute(sa.text(query)).scalar_one() == 1)

    def _bring_up(self, connection: sa.Connection) -> None:
        # Asked again inside the write transaction: another process may have been faster.
        if self._version(connection) != VERSION:
            bring_up(connection, VERSION)

    def _version(self, connection: sa.Connection) -> str | None:
        if not sa.inspect(connection).has_table(VERSION_TABLE):
            return None
        version = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
        if version is not None and version > VERSION:
            raise LedgerError(
                f"ledger {self.place} has schema version {version}, newer than this program's {VERSION}; update it"
            )
        return version

    def _create_file(self) -> None:
        """Create a SQLite file with mode 0600 before SQLite would create it with the umask's."""
        path = self.url.database or ""
        if self.url.get_backend_name() != "sqlite" or path.startswith("file:"):
            return
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return
        except OSError as problem:
            raise LedgerError(f"ledger {path} cannot be created ({kind_of(problem)})") from None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as problem:
            raise LedgerError(f"ledger {self.place} {_cause(problem)}") from None


def _parse(text: str | sa.URL) -> sa.URL:
    try:
        url = sa.make_url(text)
    except ArgumentError:
        raise LedgerError(f"{URL_VARIABLE} is not a database URL") from None
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        if "@" in (url.host or ""):
            raise LedgerError(f"{URL_VARIABLE}: write '@' inside a password as %40")
        return url.set(drivername="postgresql+psycopg")
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        if not url.database or ":memory:" in url.database:
            raise LedgerError(f"{URL_VARIABLE}: a ledger must outlive its process; name a file")
        return url
    raise LedgerError(f"{URL_VARIABLE} must begin with sqlite:/// or postgresql://")


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # _begin_sqlite alone begins transactions
    for pragma in ("foreign_keys=ON", "synchronous=EXTRA", "fullfsync=ON", "journal_mode=DELETE"):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("causalveil_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


# Errors for which it is useless to wait, though a server has answered before.
_REFUSED = ("authentication failed", "no password supplied", "permission denied", "does not exist")
_CAUSES = (
    ("append-only", "refuses to change an entry"),
    ("readonly", "is read-only"),
    ("read-only", "is read-only"),
    ("permission denied", "gives this user no permission"),
    ("locked", f"is busy: another process held it for {BUSY_SECONDS} s"),
    ("lock timeout", f"is busy: another process held it for {BUSY_SECONDS} s"),
    ("authentication failed", "refuses the user or password"),
    ("no password supplied", "refuses the user or password"),
    ("refused", "refuses the connection; is the server running?"),
    ("does not exist", "does not exist, or lacks a role or table"),
    ("unable to open", "cannot be opened"),
    ("not a database", "is not a database"),
    ("malformed", "is damaged; restore it from a backup"),
    ("no such table", "lacks its tables"),
    ("disk is full", "has no room left on its disk"),
    ("no space left", "has no room left on its disk"),
    ("unique", "already has such an entry"),
)


def _cause(problem: SQLAlchemyError) -> str:
    """Name the cause of an error without the driver's text, which may quote a password or a value."""
    text = str(getattr(problem, "orig", None) or problem).lower()
    cause = next((cause for key, cause in _CAUSES if key in text), None)
    return cause or f"cannot be reached or used ({kind_of(problem)})"
