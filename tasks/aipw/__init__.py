"""AIPW of a trial whose chance of treatment is known, by cross-fitted scores.

- ``recipe``: Recipe of AIPW: the budget of each draw, from public facts alone.
- ``stages``: AIPW of a known chance, step by step.
"""
