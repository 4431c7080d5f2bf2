"""Weighted means of outcomes whose weights are public: one private pair of numbers, and its interval.

- ``expected``: What can be expected of a difference of weighted means before a row is read.
- ``interval``: From the two released numbers of a difference of weighted means to an estimate and its interval.
- ``perturb``: The one draw of noise on outcomes under public weights: an estimate and its sampling variance, each of
  sensitivity 1.
- ``public_weights``: What a difference of weighted arm means may say of weights that are functions of public columns.
"""
