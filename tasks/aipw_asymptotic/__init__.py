"""The same estimator with the paper's asymptotic guarantee."""
