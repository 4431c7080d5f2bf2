"""Covariates as columns: which encode them, which of those an estimator uses, whose declared ranges are too narrow."""
