"""Models and sums that several estimators share.

- ``lattice_sums``: Sum rows exactly on a lattice.
- ``logistic``: Fit the private propensity score: ridge-penalised logistic regression with noise.
- ``nearest``: Match nearest neighbours on a score, and pair near units for sampling variances.
- ``nearest_numba``: The inner loops of matching, compiled by numba at first use and kept on disk.
"""
