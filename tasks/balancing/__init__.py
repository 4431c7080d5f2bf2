"""Minimal-noise balancing weights on public covariates and treatments.

- ``dual``: Balancing weights of one arm, by the dual of a quadratic programme.
- ``weights``: Make balancing weights of both arms, and measure the imbalance that they leave.
"""
