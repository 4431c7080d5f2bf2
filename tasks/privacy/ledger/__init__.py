"""The durable, append-only, hash-chained record of grants, reservations, releases and voids.

- ``accounts``: The accounts that follow from the ledger's entries.
- ``entry``: Encode and log entries of the ledger, and read grants and reviews that owners signed.
- ``journal``: Write to a ledger on verified entries, one turn at a time, and what only owners write.
- ``ledger``: Grant, reserve, release and void privacy budget across runs.
- ``reader_side``: Read a ledger without writing to it: runs, accounts, stored releases, verification.
- ``rules``: Rules by which the ledger refuses a reservation, a draw or a reason.
- ``soundness``: Check that a ledger is what was written: chain, database, and memory of this machine.
- ``store``: Store entries in an append-only table of SQLite or PostgreSQL.
- ``usage``: Use of an account and the rest of its cap, in the accounting that its owner chose.
- ``migrations/``: Alembic migrations of the ledger's database.
"""
