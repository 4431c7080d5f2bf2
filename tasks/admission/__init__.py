"""Admission: the one time that all rows are held to their contract, and its manifest.

- ``manifests``: Keep manifests of what was admitted, and tell whether a folder still holds just that.
- ``rows``: Hold the rows of partitions to the contract, and each unit to one row.
- ``stages``: The stage that looks at all rows of a folder once.
"""
