"""Schröder, Hartenstein & Feuerriegel 2025, private confidence intervals: `replicate intervals`.

- ``data``: The data sets of Schröder, Hartenstein and Feuerriegel (2025), for `replicate intervals` and its tests.
- ``fits``: Tables from fits: other columns of Table 1, Table 2 at every level, Figures 4 and 5, the grouped trial.
- ``grouped``: A private difference of means for a trial, by disjoint groups, after Guha and Reiter (2025).
- ``items``: The experiments of Schröder, Hartenstein and Feuerriegel (2025) beside ours.
- ``moments``: Many intervals of one fit: standard, naive and private ones of Schröder et al. (2025), at every level and
  epsilon.
- ``networks``: The network of Table 1 by its step: bias and coverage of the interval without privacy.
- ``page``: The page and the figures of `replicate intervals`.
- ``page_fits``: The page and the figures of what `replicate intervals` fits once and "
- ``runs``: Runs of interval estimators on data whose truth is known, for `replicate intervals`.
- ``tables``: Coverage and width of private intervals: tables 1 to 3 of Schröder, Hartenstein and Feuerriegel (2025),
  and ours.
"""
