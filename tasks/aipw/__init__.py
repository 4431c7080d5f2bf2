"""Augmented inverse probability weighting with cross-fitting, private at this sample size."""
