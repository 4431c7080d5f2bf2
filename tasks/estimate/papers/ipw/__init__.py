"""Inverse probability weighting with a private propensity score (Lee et al. 2019).

- ``interval``: Turn released sums of inverse probability weighting into an estimate and its interval.
- ``weights``: Compute inverse probability weights, and release the sums that an effect is made of.
"""
