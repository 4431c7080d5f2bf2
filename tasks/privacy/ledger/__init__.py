"""The durable, append-only, hash-chained record of grants, reservations, releases and voids.

- ``accounts``: Follow the accounts that result from the ledger's entries, and the use of each.
- ``entry``: Encode and log entries of the ledger, and read grants and reviews that owners signed.
- ``ledger``: Grant, reserve, release and void privacy budget across runs.
- ``outlook``: Compute the rest of accounts, the date when a schedule exhausts it, and an owner's desk.
- ``reader_side``: Read a ledger and write to it on verified entries.
- ``rules``: Rules by which the ledger refuses a reservation, a draw or a reason.
- ``soundness``: Check that a ledger is unchanged: chain, database, and memory of this machine.
- ``store``: Store entries in an append-only table of SQLite or PostgreSQL.
- ``migrations/``: Alembic migrations of the ledger's database.
"""
