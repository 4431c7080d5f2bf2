"""Weighting by public covariates and treatments, which several estimators share.

- ``features``: Make features of public covariates, and measure their imbalance between the arms.
- ``weighted_means``: Compute a difference of weighted arm means under public weights, and its variance.
"""
