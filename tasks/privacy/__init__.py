"""Mechanisms, budget, accountant and keys: the only room where noise is drawn and budget is spent."""
