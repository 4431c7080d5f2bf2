"""Capped nearest-neighbour matching (PrivATE: Yuan et al. 2026).

- ``interval``: Turn the two released numbers of matching into an estimate and its interval.
- ``scores``: Store units in the order of traversal, each with its propensity score and arm.
- ``weights``: Compute weights from scores and arms, and release sums of outcomes in one draw.
"""
