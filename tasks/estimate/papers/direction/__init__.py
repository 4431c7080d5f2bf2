"""Causal direction by additive noise models (Kusner et al. 2016).

- ``scores``: Score the two directions between two variables, with sensitivities.
- ``stages``: Find the causal direction between two variables: draws, stages, answers.
"""
