"""Declare, reserve, release: the order of a run around its estimator's stages, and of a round of sites."""
