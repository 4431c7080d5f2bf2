"""Covariate adjustment from five noisy releases: paid for what is there, read by one posterior that knows its noise.

- ``beyond``: Confounding by what declared ranges cut away, as the histograms of release 1 show it.
- ``decide``: What draws of the posterior decide: slopes, balancing weights, where scores are cut, and the law of the
  error.
- ``features``: FeatureMap of a row, and what releases 3 and 5 sum over: decided from released numbers, computed on rows
  elsewhere.
- ``flow``: The order of the five releases: each is asked for once the ones before it are set.
- ``interval``: The estimate and its intervals: quantiles of one simulation of all that the releases leave possible.
- ``library``: Candidate curves of lines, made in a synthetic table that releases 1 and 2 describe.
- ``mixture``: Symmetric matrices seen through known noise: entries that are mostly small, drawn given what is seen of
  them.
- ``moments``: Moments of standardised features around their mean, joined over releases by the inverse of their
  variance.
- ``parts``: How the budget is divided over the five releases: decided from public facts, so that no part depends on a
  release.
- ``posterior``: A posterior that knows its noise: what released moments leave possible of slopes, arms and their second
  moments.
- ``released``: What the five releases hand over: noisy means over all units, and the standard deviation of their noise.
- ``scales``: What release 1 says: arms, where columns lie, and which lines and tails they have.
- ``screen``: Which curves are kept: what stands out of the noise in treatment and in the outcome; the rest is allowed
  for.
- ``releases/``: What of adjustment touches rows or noise: sums over rows, their sensitivities, and who pays for them.
"""
