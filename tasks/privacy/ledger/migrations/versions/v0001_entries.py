"""The append-only table of entries, and the triggers that keep it so."""

import sqlalchemy as sa
from alembic import op

from causalveil.schemas.errors import LedgerError

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KINDS = (
    "genesis", "grant", "reserve", "release", "void", "refuse", "approve", "reject", "round", "admit", "restore",
)  # fmt: skip
REVIEWED = "kind IN ('approve', 'reject')"
# REPLACE deletes rows in SQLite without firing DELETE triggers, so the insert itself is guarded as well.
SQLITE = (
    """CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries
       BEGIN SELECT RAISE(ABORT, 'ledger entries are append-only'); END""",
    """CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries
       BEGIN SELECT RAISE(ABORT, 'ledger entries are append-only'); END""",
    """CREATE TRIGGER entries_append BEFORE INSERT ON entries
       WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entries)
         OR EXISTS (SELECT 1 FROM entries WHERE hash = NEW.hash OR previous_hash = NEW.previous_hash)
         OR EXISTS (SELECT 1 FROM entries WHERE run_id = NEW.run_id AND kind = NEW.kind
                    AND (kind IN ('reserve', 'void') OR (kind = 'release' AND name = NEW.name)))
         OR (NEW.kind IN ('approve', 'reject')
             AND EXISTS (SELECT 1 FROM entries WHERE run_id = NEW.run_id AND kind IN ('approve', 'reject')))
       BEGIN SELECT RAISE(ABORT, 'ledger entries are append-only'); END""",
)
POSTGRESQL = (
    """CREATE FUNCTION entries_refuse() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN RAISE EXCEPTION 'ledger entries are append-only'; END $$""",
    """CREATE TRIGGER entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
       FOR EACH STATEMENT EXECUTE FUNCTION entries_refuse()""",
)


def upgrade() -> None:
    """Create the table, its uniqueness rules and its triggers."""
    # In SQLite an INTEGER key is the table's own: reading in its order reads the table itself and no index beside it.
    seq = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "entries",
        sa.Column("seq", seq, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("previous_hash", sa.Text, nullable=False, unique=True),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        sa.Column("written_at", sa.Text, nullable=False),
        sa.CheckConstraint(f"kind IN ({', '.join(map(repr, KINDS))})", name="entries_kind"),
        sa.CheckConstraint("(kind = 'genesis') = (seq = 1)", name="entries_one_genesis"),
    )
    once = {"reserve": ["run_id"], "void": ["run_id"], "release": ["run_id", "name"], "review": ["run_id"]}
    for kind, columns in once.items():
        only = sa.text(REVIEWED if kind == "review" else f"kind = '{kind}'")
        op.create_index(
            f"entries_one_{kind}", "entries", columns, unique=True, sqlite_where=only, postgresql_where=only
        )
    op.create_index("entries_by_dataset", "entries", ["dataset", "kind"])
    op.create_index("entries_by_run", "entries", ["run_id"])
    for statement in SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRESQL:
        op.execute(statement)


def downgrade() -> None:
    """Refuse: ledger rows are never deleted."""
    raise LedgerError("a ledger is never downgraded: its rows would have to be deleted")
