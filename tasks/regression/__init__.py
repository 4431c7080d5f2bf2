"""Covariate adjustment from five noisy releases: paid for what is there, read by one posterior that knows its noise."""
