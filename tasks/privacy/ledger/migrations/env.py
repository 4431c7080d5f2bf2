"""Run migrations on the connection, and inside the transaction, that the ledger's store hands over."""

from alembic import context

from causalveil.tasks.privacy.ledger.store import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
