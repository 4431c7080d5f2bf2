"""Capped nearest neighbours on a private score.

- ``attenuation``: What randomised treatments leave of an effect, and the treated share behind them.
- ``expected``: What a planner can say of a matching before a row is read: caps, weights, expected width, units needed.
- ``interval``: Matching: from the two released numbers to an estimate and its interval.
- ``perturb``: The one draw of noise on the outcomes of a matching, in units that make its sensitivity 1.
- ``respond``: Randomised response of the treatment (Warner 1965), and what it leaves of an effect.
- ``scores``: Units in the order of traversal, each with its propensity score; at sample level every score gets noise of
  its own.
- ``weights``: From scores and arms to what each unit weighs in the estimate, and in the estimate of its sampling
  variance.
"""
