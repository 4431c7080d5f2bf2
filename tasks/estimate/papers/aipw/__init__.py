"""Augmented inverse probability weighting of a known chance, with cross-fitting.

- ``stages``: Estimate by AIPW of a known chance: scores of all units by models of the other folds.
"""
