"""Ranges of numbers, found privately: one noisy histogram of magnitudes on a grid that no data move."""
