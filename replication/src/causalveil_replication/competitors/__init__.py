"""Estimators of other authors, and simpler ones, that the papers compare with: for replications, not for studies."""
