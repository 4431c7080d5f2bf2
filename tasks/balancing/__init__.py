"""Minimal-noise balancing weights on public covariates and treatments.

- ``dual``: Balancing weights of one arm, the dual of a quadratic programme, and the largest weight that is allowed.
- ``stages``: The stages of a balancing study, and what a plan expects of them.
"""
