"""The durable, append-only, hash-chained record of grants, reservations, releases and voids.

- ``accounts``: The accounts that follow from the ledger's entries: one derivation, for reserving, for showing and for
  verifying.
- ``entry``: Encode and hash an entry of the ledger, and log it.
- ``grants_and_reviews``: Read what owners sign: grants, and reviews of finished runs.
- ``journal``: The chain as everybody uses it who writes to a ledger: one turn at a time, on entries that were verified.
- ``ledger``: Grant, reserve, release and void privacy budget across runs.
- ``owner_side``: Entries that only the owner of data writes: grants, reviews, and the acceptance of a restored copy.
- ``reader_side``: Read a ledger without writing to it: runs, accounts, stored releases, verification.
- ``rules``: Rules by which the ledger refuses a reservation, a draw or a reason.
- ``soundness``: Check that a ledger is what was written: chain, database, and memory of this machine.
- ``store``: Store entries in an append-only table of SQLite or PostgreSQL.
- ``usage``: Use of an account and the rest of its cap, in the accounting that its owner chose.
- ``migrations/``: Alembic migrations of the ledger's database.
"""
