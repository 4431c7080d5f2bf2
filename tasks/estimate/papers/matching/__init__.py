"""Capped nearest-neighbour matching (PrivATE: Yuan et al. 2026).

- ``interval``: Matching: from the two released numbers to an estimate and its interval.
- ``scores``: Units in the order of traversal, each with its propensity score and arm.
- ``weights``: From scores and arms to weights, and the noise on outcomes.
"""
