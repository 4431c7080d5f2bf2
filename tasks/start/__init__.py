"""From a file to a draft of contract, study and source.

- ``doubts``: Columns that no study should adjust for by default, and why.
- ``draft``: A draft of dataset.yaml, study.yaml and source.yaml.
- ``expected``: Tell what a plan should expect of public rows, and rank covariates by names and types.
- ``options``: Read options of `init`.
- ``recognise``: Recognise what a column holds from all of it.
- ``roles``: The roles of columns in a drafted study: unit, treatment, outcome, covariates.
- ``stated``: Say what columns of sensitive data hold by options, names and types alone, not by rows.
- ``times``: Find times to an event among a file's columns, and periods among its files.
- ``words``: Read words, numbers and dates as people write them, and write words as YAML.
"""
