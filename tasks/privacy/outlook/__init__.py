"""What is left of an account, for people: how many runs fit, when a schedule runs dry, how it burned down.

- ``desk``: All datasets of a ledger as their owner sees them. Declared and recorded facts only: no released value, no
  row.
- ``history``: Read the history of accounts and runs from their entries.
- ``standing``: Tell what is left of accounts, and when a schedule runs dry.
"""
