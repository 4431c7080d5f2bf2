"""Protocols: what they ask, and what their releases say."""
