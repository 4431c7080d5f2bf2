"""AIPW of a trial whose chance of treatment is known: cross-fitted scores with slopes from private moments.

- ``recipe``: Doubly robust scores with a known chance of treatment, and the budget of each draw, from public facts
  alone.
- ``stages``: AIPW of a known chance, step by step: models from the other folds, one release of all scores, an interval.
"""
