"""Capped nearest neighbours on a private score."""
