"""Weighting by public covariates and treatments, which several estimators share.

- ``features``: Features of public covariates that are balanced.
- ``imbalance``: The imbalance that public weights leave between the arms.
- ``weighted_means``: A difference of weighted arm means under public weights.
"""
