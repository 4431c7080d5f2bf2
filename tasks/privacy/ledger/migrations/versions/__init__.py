"""One module per version of the ledger's tables, oldest first.

- ``v0001_entries``: The append-only table of entries, and the triggers that keep it so.
"""
