"""Confidence intervals: what they cover, and what they allow for.

- ``allowance``: The allowance of an interval for noise in its own variance.
- ``assemble``: From released sums to an estimate and its interval.
- ``covered``: What the intervals of a table cover, from its study and its answers.
- ``people``: The planning population.
- ``robustness``: How strong an unmeasured confounder would have to be, from what is released already.
"""
