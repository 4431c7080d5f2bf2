"""Alembic migrations of the ledger's database.

- ``env``: Run migrations on the connection that the ledger's store hands over.
- ``versions/``: One module per version of the ledger's tables, oldest first.
"""
