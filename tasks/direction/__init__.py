"""Causal direction between two variables by additive noise models."""
