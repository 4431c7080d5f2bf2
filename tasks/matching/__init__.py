"""Capped nearest neighbours on a private score.

- ``interval``: Matching: from the two released numbers to an estimate and its interval.
- ``public``: Match on a public propensity score, and measure the imbalance that is left.
- ``scores``: Units in the order of traversal, each with its propensity score and arm.
- ``weights``: From scores and arms to weights, and the noise on outcomes.
"""
