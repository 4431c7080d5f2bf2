"""Covariates as columns: which encode them, which of those an estimator uses, whose declared ranges are too narrow.

- ``columns``: Which columns of the encoded covariates enter a weighting, from what the study declares.
- ``encoding``: Which columns of a row x encode which covariate, from what the study declares.
- ``narrow_ranges``: Numbers with many people at the ends of their declared ranges, as if these were too narrow.
"""
