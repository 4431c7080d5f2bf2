"""What the database itself can say: whether it is whole, and whether somebody changed it since."""

from __future__ import annotations

import os

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from causalveil.schemas.errors import LedgerError
from causalveil.tasks.privacy.ledger.store import Store


def leaves_traces(store: Store) -> bool:
    """Check whether :func:`stamp` can detect a change.

    It cannot for a SQLite file under an address of its own (``file:``).
    """
    return not (store.url.get_backend_name() == "sqlite" and str(store.url.database).startswith("file:"))


def stamp(store: Store, connection: sa.Connection | None) -> str:
    """The traces that a change would leave: equal stamps at one head mean that nobody changed an entry.

    SQLite: the file itself, its size and time of change. Its bytes are not read: closing the file would drop the locks
    that SQLite holds on it in this process. PostgreSQL, for which a connection is needed: the server's count of updated
    and deleted rows, which no entry ever adds to, and the file of the table, which a rewrite replaces.
    """
    if store.url.get_backend_name() == "sqlite":
        if not leaves_traces(store):
            return ""
        found = os.stat(str(store.url.database))
        return f"{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"
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
