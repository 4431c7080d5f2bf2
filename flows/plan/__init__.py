"""Expected findings and costs of a study, from public facts alone: `causalveil plan`.

- ``budget``: The budget of a dataset before a study runs.
- ``curves``: The least epsilon for a width, and curves of expected widths. Reads no private column.
- ``ledger_files``: Files made of a ledger alone.
- ``study_plan``: Plan a study with all that can be said before a row is read.
"""
