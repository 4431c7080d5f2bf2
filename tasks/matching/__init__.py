"""Capped nearest neighbours on a private score.

- ``expected``: Planning of a matching before a row is read: caps, weights, expected width, units needed.
- ``interval``: Matching: from the two released numbers to an estimate and its interval.
- ``perturb``: The one draw of noise on the outcomes of a matching, in units that make its sensitivity 1.
- ``scores``: Units in the order of traversal, each with its propensity score and arm; at sample level each has noise of
  its own.
- ``weights``: From scores and arms to what each unit weighs in the estimate and in its sampling variance, and the
  imbalance left.
"""
