"""The remaining budget of an account, for people: runs that fit, and when one is refused.

- ``desk``: All datasets of a ledger as their owner sees them.
- ``standing``: Tell what is left of accounts and how it came to that, and when a schedule runs dry.
"""
