"""Capped nearest neighbours on a private score.

- ``interval``: Matching: from the two released numbers to an estimate and its interval.
- ``scores``: Units in the order of traversal, each with its propensity score and arm.
- ``weights``: From scores and arms to weights, the imbalance left, and the noise on outcomes.
"""
