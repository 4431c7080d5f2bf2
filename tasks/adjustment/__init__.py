"""Covariate adjustment from five noisy releases, which several estimators share.

- ``decide``: Slopes, balancing weights, cuts of scores and the law of the error.
- ``features``: Functions of one row alone, for many rows.
- ``five_releases``: The five releases.
- ``interval``: The estimate and its intervals.
- ``moments``: Moments of standardised features around their mean.
- ``posterior``: A posterior that knows its noise.
- ``recipe``: Recipe of the five releases.
- ``released``: Results of the five releases.
- ``scales``: Scales by release 1: arms, where columns lie, and which lines and tails they have.
- ``screen``: Candidate curves, and which of them are kept.
- ``sums``: Exact sums over rows of the five releases.
"""
