"""Confidence intervals: what they cover, and what they allow for."""
