"""From a file to a draft of contract, study and source.

- ``doubts``: Columns that no study should adjust for by default, and why.
- ``draft``: A draft of dataset.yaml, study.yaml and source.yaml.
- ``expected``: Compute facts of public rows for a plan, and rank covariates by names and types.
- ``options``: Read options of `init`.
- ``recognise``: Recognise what a column holds: codes, a category, numbers, dates, or text without a use.
- ``roles``: The roles of columns in a drafted study: unit, treatment, outcome, covariates.
- ``stated``: Describe columns of sensitive data by options, names and types alone, not by rows.
- ``times``: Find times to an event among a file's columns, and periods among its files' names.
- ``words``: Read words, numbers and dates as people write them, and write words as YAML.
"""
