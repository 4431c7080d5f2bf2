"""Weighting by public covariates and treatments, which ``balancing``, ``ipw``, ``matching`` and trials share.

- ``expected``: Planning of public weights before a row is read: a planning population, and a difference of its means.
- ``features``: Features of public covariates that are balanced, each with the share of the outcome that it may explain.
- ``imbalance``: The imbalance that public weights leave between the arms, and a weighting as the enclave keeps it.
- ``weighted_means``: A difference of weighted arm means under public weights: one draw of noise, and the interval.
"""
