"""How a writer knows that what it adds up is what was written: chain, database, and this machine's memory.

- ``chain``: The chain of entries, link by link, and what it adds up to so far.
- ``integrity``: What the database itself can say: whether it is whole, and whether somebody changed it since.
- ``memory``: What this machine knows of a ledger, in its state folder: how far it has seen it, and what it added up to
  there.
- ``verify``: What an auditor runs: the chain and the accounts, recomputed; and releases in hand held against them.
"""
