"""The durable, append-only, hash-chained record of grants, reservations, releases and voids.

- ``accounts``: What the ledger's entries add up to: one derivation, for reserving, for showing and for verifying.
- ``copy``: Moving a ledger to another database, say from one machine's SQLite file to a team's PostgreSQL.
- ``entry``: One row of the ledger, its canonical encoding and its hash.
- ``grants``: Grants: what an owner allowed, and how everybody can tell that it was the owner.
- ``journal``: The chain as everybody uses it who writes to a ledger: one turn at a time, on entries that were verified.
- ``ledger``: The durable record of privacy budget across runs: grant, reserve, release, void, account.
- ``log``: The audit trail in the logs: one JSON line per event, after its commit.
- ``owner_side``: What only the owner of data writes into a ledger: grants, reviews, and the acceptance of a restored
  copy.
- ``reader_side``: What a ledger tells without writing to it: runs, accounts, stored releases, and whether it verifies.
- ``review``: The owner's review of a finished run: its release is held in the ledger until the owner lets it go.
- ``rules``: When the ledger says no: to a reservation, to a draw, to a reason.
- ``store``: Where the ledger's entries lie: one append-only, hash-chained table in SQLite or PostgreSQL.
- ``tables``: The ledger's tables: created in a new database, brought up to date in an old one.
- ``trail``: The ledger's part of an audit trail: read from a chain that was verified first.
- ``usage``: What an account has used and what is left of its cap, in the accounting that its owner chose.
- ``migrations/``: Alembic migrations of the ledger's database.
- ``soundness/``: How a writer knows that what it adds up is what was written: chain, database, and this machine's
  memory.
"""
