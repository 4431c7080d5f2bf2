"""Minimal-noise balancing weights on public covariates and treatments.

- ``dual``: Balancing weights of one arm, the dual of a quadratic programme, and the largest weight that is allowed.
- ``expected``: Planning of balancing before a row is read: the weights and interval of a planning population.
- ``stages``: The stages of a balancing study: every unit's weight from public columns, one draw, and the interval.
"""
