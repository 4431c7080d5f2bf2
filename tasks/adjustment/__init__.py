"""Covariate adjustment from five noisy releases, which ``regression``, ``aipw``, ``survival`` and protocols share.

- ``decide``: Slopes, balancing weights, cuts of scores and the law of the error, by draws of the posterior.
- ``features``: Functions of one row alone, for many rows: encoded columns z, lines, curves, and features in the unit
  ball.
- ``five_releases``: The five releases: what each asks for, how it is drawn, and what comes next once it is set.
- ``interval``: The estimate and its intervals: quantiles of one simulation of all that the releases leave possible.
- ``moments``: Moments of standardised features around their mean, joined over releases by the inverse of their
  variance.
- ``posterior``: A posterior that knows its noise: what released moments leave possible of slopes, arms and their second
  moments.
- ``recipe``: Recipe of the five releases: the budget of each, decided from public facts alone, before a row is read.
- ``released``: Results of the five releases: noisy means over all units, and the standard deviation of their noise.
- ``scales``: Scales by release 1: arms, where columns lie, and which lines and tails they have.
- ``screen``: Candidate curves, and which of them are kept: what stands out of the noise in treatment and in the
  outcome.
- ``sums``: Exact sums over rows of the five releases, each with its sensitivity (``docs/proofs/regression.md``).
"""
