"""Admission: the one time that all rows are held to their contract, and the manifest that says so."""
