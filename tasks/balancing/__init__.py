"""Minimal-noise balancing weights on public covariates and treatments.

- ``dual``: Balancing weights of one arm, by the dual of a quadratic programme.
- ``stages``: The stages of a balancing study.
"""
