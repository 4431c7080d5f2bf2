"""What owners and auditors read: one run's trail, and the desk of all datasets.

- ``desk``: The owner's desk: what a ledger says of all its datasets, for who must see it at a glance.
- ``trail``: What happened in one run, for an auditor: out of the ledger, and out of Prefect's record while there is
  one.
"""
