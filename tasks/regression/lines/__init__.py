"""What lines in the covariates take off: slopes and balancing weights, what noise does to them, whose they are."""
