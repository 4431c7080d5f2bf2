"""Models of each estimator's study: one module an estimator.

- ``aipw``: Ask for augmented inverse probability weighting with cross-fitting.
- ``balancing``: A study by minimal-noise balancing weights: covariates and treatments public, outcomes private.
- ``difference``: The difference of arm means: of a randomised trial (the comparator of Guha & Reiter 2025), else
  unadjusted.
- ``direction``: A study of which of two variables causes the other.
- ``ipw``: A study by inverse probability weighting.
- ``matching``: A study by capped nearest-neighbour matching (PrivATE: Yuan et al. 2026).
- ``protocols``: The estimators that can answer a protocol of many questions (``schemas/protocols/study.py``).
- ``regression``: A study by covariate adjustment from noisy moments: five releases on all units
  (``docs/proofs/regression.md``).
- ``survival``: Time to event of two arms: survival curves, risks, restricted mean times (``docs/proofs/survival.md``).
- ``survival_protocol``: Many questions of times to an event: subgroups, horizons, causes and arms, all read off one
  release of cells.
"""
