"""From a file to a draft of contract, study and source.

- ``doubts``: Columns that no study should adjust for by default, and why.
- ``draft``: A draft of dataset.yaml, study.yaml and source.yaml.
- ``options``: Read options of `init`.
- ``periods``: Find the days, months or years that files are named by, and draft a key of them.
- ``recognise``: Recognise what a column holds from all of it.
- ``roles``: The roles of columns in a drafted study: unit, treatment, outcome, covariates.
- ``stated``: Say what columns of sensitive data hold by options, names and types alone, not by rows.
- ``times``: Times to an event among the columns of a file.
- ``words``: Read words, numbers and dates as people write them, and write words as YAML.
"""
