"""Confidence intervals: what they cover, and what they allow for.

- ``allowance``: The allowance of an interval for noise in its own variance.
- ``assemble``: From released sums to an estimate and its interval.
- ``people``: The planning population.
"""
