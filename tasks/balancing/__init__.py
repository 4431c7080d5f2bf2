"""Minimal-noise balancing weights on public covariates and treatments."""
