"""Augmented inverse probability weighting of a known chance, with cross-fitting.

- ``stages``: Estimate by AIPW of a known chance, step by step.
"""
