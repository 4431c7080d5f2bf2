"""How right answers are: error, coverage and width of every estimator on populations whose effect is known."""
