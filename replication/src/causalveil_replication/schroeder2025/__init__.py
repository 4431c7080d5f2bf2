"""Schröder, Hartenstein & Feuerriegel 2025, private confidence intervals: `replicate intervals`."""
