"""Models and exact sums that several estimators share."""
