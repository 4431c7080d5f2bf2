"""AIPW of a trial whose chance of treatment is known: cross-fitted scores with slopes from private moments.

- ``recipe``: Budget of each draw of AIPW with a known propensity: decided from public facts, before a row is read.
- ``scores``: Doubly robust scores with a known chance of treatment, and where every possible one of them lies.
- ``stages``: AIPW of a known chance, step by step: models from the other folds, one release of all scores, an interval.
"""
