"""Reporting guidelines, filled in as far as study, contract and release know; the rest is marked for people."""
