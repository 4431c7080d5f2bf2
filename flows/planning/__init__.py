"""Expected findings and costs of a study, from public facts alone: `causalveil plan`.

- ``aipw``: Numbers and sentences that `plan` has on AIPW before a row is read.
- ``balancing``: Numbers and sentences that `plan` has on balancing weights before a row is read.
- ``chart``: The burn-down of a dataset's accounts as files, from the ledger alone.
- ``curves``: The least epsilon for a width, and curves of expected widths. Reads no private column.
- ``desk``: The owner's desk as a folder of pages, from the ledger alone.
- ``direction``: Numbers and sentences that `plan` has on a direction study before a row is read.
- ``expected``: Expectations of a study before it runs: the part of `plan` beside its charges.
- ``export``: Exports of a ledger.
- ``forecast``: Forecast of a dataset's budget if a study runs by a schedule.
- ``ipw``: Numbers and sentences that `plan` has on inverse probability weighting.
- ``matching``: Numbers and sentences that `plan` has on matching before a row is read.
- ``medians``: Summaries over several draws of noise.
- ``outlook``: The share of its dataset's budget that a planned study would take.
- ``sentences``: Sentences of `plan` that estimators of an effect share.
- ``study_plan``: A study's plan with all that can be said before a row is read.
"""
