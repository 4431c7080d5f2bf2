"""Models of each estimator's study: one module an estimator.

- ``aipw``: Ask for augmented inverse probability weighting with cross-fitting, as its paper has it.
- ``balancing``: A study by minimal-noise balancing weights.
- ``difference``: The difference of arm means.
- ``direction``: A study of which of two variables causes the other.
- ``ipw``: A study by inverse probability weighting.
- ``matching``: A study by capped nearest-neighbour matching (PrivATE: Yuan et al. 2026).
- ``regression``: A study by covariate adjustment from noisy moments.
- ``survival``: Ask for times to an event: curves, risks and restricted means, unadjusted or adjusted.
"""
