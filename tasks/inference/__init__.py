"""Confidence intervals: what they cover, and what they allow for.

- ``allowance``: The allowance of an interval for noise in its own variance that is independent of the estimate's noise.
- ``assemble``: From released sums to an estimate and an interval that covers sampling error and every draw of noise.
- ``people``: The people of whom `plan` speaks: those of the run where they are public, else a population that nobody
  is.
"""
