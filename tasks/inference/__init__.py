"""Confidence intervals: what they cover, and what they allow for.

- ``allowance``: The allowance of an interval for noise in its own variance.
- ``assemble``: From released sums to an estimate and its interval.
- ``clusters``: Read off one released number how alike units of one cluster are.
- ``covered``: Name the sources of error that the intervals of a table cover.
- ``people``: The planning population.
- ``robustness``: Compute how strong an unmeasured confounder would have to be.
"""
