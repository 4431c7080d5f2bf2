"""More kinds of entries: refusals, reviews, rounds of sites, admissions, restores.

SQLite cannot change a table's rules, so its table is made again and filled with the same rows. ``seq`` becomes the
table's own key there: reading in its order then reads the table itself and no index beside it.
"""

import sqlalchemy as sa
from alembic import op

from causalveil.schemas.errors import LedgerError
from causalveil.tasks.privacy.ledger.migrations.versions import v0001_entries as before

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

KINDS = (
    "genesis", "grant", "reserve", "release", "void", "refuse", "approve", "reject", "round", "admit", "restore",
)  # fmt: skip
COLUMNS = "seq, kind, dataset, run_id, name, body, previous_hash, hash, written_at"
KNOWN = f"kind IN ({', '.join(repr(kind) for kind in KINDS)})"
TABLE = f"""CREATE TABLE entries (
    seq INTEGER NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    dataset TEXT NOT NULL,
    run_id TEXT NOT NULL,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    previous_hash TEXT NOT NULL UNIQUE,
    hash TEXT NOT NULL UNIQUE,
    written_at TEXT NOT NULL,
    CONSTRAINT entries_kind CHECK ({KNOWN}),
    CONSTRAINT entries_one_genesis CHECK ((kind = 'genesis') = (seq = 1))
)"""
# REPLACE deletes rows in SQLite without firing DELETE triggers, so the insert itself is guarded as well.
APPEND = """CREATE TRIGGER entries_append BEFORE INSERT ON entries
   WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entries)
     OR EXISTS (SELECT 1 FROM entries WHERE hash = NEW.hash OR previous_hash = NEW.previous_hash)
     OR EXISTS (SELECT 1 FROM entries WHERE run_id = NEW.run_id AND kind = NEW.kind
                AND (kind IN ('reserve', 'void') OR (kind = 'release' AND name = NEW.name)))
     OR (NEW.kind IN ('approve', 'reject')
         AND EXISTS (SELECT 1 FROM entries WHERE run_id = NEW.run_id AND kind IN ('approve', 'reject')))
   BEGIN SELECT RAISE(ABORT, 'ledger entries are append-only'); END"""
INDEXES = (
    "CREATE UNIQUE INDEX entries_one_reserve ON entries (run_id) WHERE kind = 'reserve'",
    "CREATE UNIQUE INDEX entries_one_void ON entries (run_id) WHERE kind = 'void'",
    "CREATE UNIQUE INDEX entries_one_release ON entries (run_id, name) WHERE kind = 'release'",
    "CREATE INDEX entries_by_dataset ON entries (dataset, kind)",
    "CREATE INDEX entries_by_run ON entries (run_id)",
)
ONE_REVIEW = "CREATE UNIQUE INDEX entries_one_review ON entries (run_id) WHERE kind IN ('approve', 'reject')"


def upgrade() -> None:
    """Allow the new kinds; no row changes."""
    if op.get_bind().dialect.name == "sqlite":
        _make_again()
    else:
        op.drop_constraint("entries_kind", "entries")
        op.create_check_constraint("entries_kind", "entries", sa.text(KNOWN))
    op.execute(ONE_REVIEW)


def _make_again() -> None:
    for trigger in ("entries_no_update", "entries_no_delete", "entries_append"):
        op.execute(f"DROP TRIGGER {trigger}")
    for index in ("one_reserve", "one_void", "one_release", "by_dataset", "by_run"):
        op.execute(f"DROP INDEX entries_{index}")
    op.execute("ALTER TABLE entries RENAME TO entries_before")
    op.execute(TABLE)
    op.execute(f"INSERT INTO entries ({COLUMNS}) SELECT {COLUMNS} FROM entries_before ORDER BY seq")
    op.execute("DROP TABLE entries_before")
    for statement in (*INDEXES, *before.SQLITE[:2], APPEND):
        op.execute(statement)


def downgrade() -> None:
    """Refuse: ledger rows are never deleted."""
    raise LedgerError("a ledger is never downgraded: its rows would have to be deleted")
