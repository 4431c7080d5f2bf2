"""Inverse probability weighting with a private propensity model."""
