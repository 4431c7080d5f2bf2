"""Ranges of numbers, found privately: one noisy histogram of magnitudes on a grid that no data move.

- ``histogram``: A histogram of magnitudes on a fixed grid, released with Laplace noise, and the range that its counts
  leave.
- ``stages``: Counting: every unit once, every value in its bin.
"""
