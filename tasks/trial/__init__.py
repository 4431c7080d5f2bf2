"""Randomised trials: the difference of arm means.

- ``difference``: The difference of arm means, privately, with its own interval: of a randomised trial, or unadjusted.
- ``public_arms``: The difference of arm means where who was treated is public: one pair of numbers, noise of 1/(smaller
  arm).
"""
