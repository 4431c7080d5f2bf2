"""The remaining budget of an account, for people: runs that fit, the date a schedule is refused, its history.

- ``desk``: All datasets of a ledger as their owner sees them. Declared and recorded facts only: no released value, no
  row.
- ``standing``: Tell what is left of accounts and how it came to that, and when a schedule runs dry.
"""
