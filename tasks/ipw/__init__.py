"""Inverse probability weighting with a private propensity model.

- ``interval``: Inverse probability weighting: from released sums to an estimate and its interval.
- ``public_scores``: Hajek weighting where covariates and treatments are public.
- ``weights``: Inverse probability weights, and the sums that an effect is made of.
"""
