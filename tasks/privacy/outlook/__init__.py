"""What is left of an account, for people: how many runs fit, when a schedule runs dry, how it burned down.

- ``burndown``: How the accounts of a dataset burned down: their entries, read again in order.
- ``desk``: All datasets of a ledger as their owner sees them. Declared and recorded facts only: no released value, no
  row.
- ``forecast``: When a schedule runs dry, and which epsilon lasts until a date.
- ``schedule``: When a schedule runs: cron expressions in UTC, as Prefect's deployments have them.
- ``standing``: How a run stands to what is left of the accounts that it touches. Amounts only; no draw, no row.
"""
