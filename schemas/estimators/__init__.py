"""What each estimator's study may ask for: one module an estimator."""
