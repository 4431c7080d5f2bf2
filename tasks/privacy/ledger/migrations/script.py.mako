"""${message}."""

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the tables to this version."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Refused: ledger rows are never deleted."""
    raise NotImplementedError
