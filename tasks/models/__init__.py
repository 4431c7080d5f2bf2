"""Models and exact sums that several estimators share.

- ``bounded``: The one place where a contribution that is no number becomes one, before it is rounded to an integer.
- ``lattice_sums``: Sums of rows on a lattice: exact in float64, so that no order of rows and no number of threads
  changes a bit.
- ``logistic``: The private propensity score: ridge-penalised logistic regression, then noise on its coefficients.
- ``nearest``: Capped nearest-neighbour matching on a score (Yuan et al. 2026, Algorithms 2 and 3), in O(n log n + n N).
- ``nearest_numba``: The inner loops of matching, compiled by numba at first use and kept on disk. Import it inside
  functions only.
- ``newton``: Newton's method for a strongly convex function that is a sum over a table, and few passes over that.
- ``pairs``: Pairs of near units, which measure a sampling variance, and exact sums of outcomes over arms and over
  pairs.
- ``triangles``: Symmetric matrices as the upper triangles that are released of them, row by row.
"""
