"""Estimators that follow one paper each.

- ``aipw_asymptotic/``: The asymptotic guarantee (Schröder, Hartenstein and Feuerriegel 2025).
- ``direction/``: Causal direction by additive noise models (Kusner et al. 2016).
- ``ipw/``: Inverse probability weighting with a private propensity score (Lee et al. 2019).
- ``matching/``: Capped nearest-neighbour matching (PrivATE: Yuan et al. 2026).
"""
