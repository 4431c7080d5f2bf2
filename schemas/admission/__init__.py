"""Rules for admitting data, breaches of them, and the manifest of admitted data.

- ``casts``: The one table of lossless casts.
- ``contract_schema``: The contract as a pandera schema.
- ``manifest``: The manifest of admitted data, and what an owner is told of data that are not admitted.
- ``rules``: Rules that a contract implies for rows of its columns.
"""
