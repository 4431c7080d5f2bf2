"""What a study can be expected to find and cost, from public facts alone: `causalveil plan`.

- ``aipw``: What `plan` says of AIPW before a row is read.
- ``balancing``: What `plan` says of balancing weights before a row is read.
- ``chart``: The burn-down of a dataset's accounts as files, from the ledger alone.
- ``curves``: How wide an interval will be, turned round: the least epsilon for a width, and curves. Reads no private
  column.
- ``desk``: The owner's desk as a folder of pages, from the ledger alone.
- ``direction``: What `plan` says of a direction study before a row is read, and what it says of every penalty.
- ``expected``: What can be expected of a study before it runs: what `plan` says beside its charges.
- ``export``: What a ledger's owner hands on: tables of runs and charges, and entries for a public registry of
  deployments.
- ``forecast``: How long a dataset's budget lasts if a study runs by a schedule. Reads the ledger and footers, never a
  row.
- ``ipw``: What `plan` says of inverse probability weighting before a row is read.
- ``matching``: What `plan` says of matching before a row is read.
- ``medians``: What several draws of noise say of a study: the median half-width, and how far draws are from each other.
- ``outlook``: What a planned study would take of its dataset's budget, and how many more like it fit. Reads no row.
- ``sentences``: Sentences of `plan` that estimators of an effect share.
- ``study_plan``: A study's plan with all that can be said before a row is read: what ``causalveil.plan`` returns.
"""
