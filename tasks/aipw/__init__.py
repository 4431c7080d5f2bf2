"""AIPW of a trial whose chance of treatment is known: cross-fitted scores with slopes from private moments."""
