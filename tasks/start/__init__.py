"""From a file that somebody has to a draft of contract, study and source: what columns hold, and how to write it.

- ``doubts``: Columns that no study should adjust for by default, and why: ids, moments, copies and parts of treatment
  or outcome.
- ``draft``: A draft of dataset.yaml, study.yaml and source.yaml, each with comments that say what was assumed and what
  to ask.
- ``options``: Read options of `init`: conditions, groups and measures, and codes that stand for no value.
- ``recognise``: Recognise what a column holds from all of it: codes, a category, a number, a date, or text that no
  study can use.
- ``roles``: The roles of columns in a drafted study: unit, treatment, outcome, covariates.
- ``times``: Times to an event among the columns of a file: which they are, and what contract and study say of them.
- ``words``: Read words, numbers and dates as people write them, and write words as YAML.
"""
