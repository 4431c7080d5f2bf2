"""Protocols at label level: everything but the outcomes is public."""
