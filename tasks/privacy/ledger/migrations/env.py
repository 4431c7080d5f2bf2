"""Run migrations on the connection that the ledger's store hands over.

They run inside its transaction.
"""

from alembic import context

from causalveil.tasks.privacy.ledger.store import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
