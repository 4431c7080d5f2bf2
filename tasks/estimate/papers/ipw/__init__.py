"""Inverse probability weighting with a private propensity score (Lee et al. 2019).

- ``interval``: Inverse probability weighting: from released sums to an estimate and its interval.
- ``weights``: Inverse probability weights, and the sums that an effect is made of.
"""
