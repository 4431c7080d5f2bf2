"""Replications: a paper's data, runs, tables and page in one room each."""
