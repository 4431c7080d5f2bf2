"""Rules for admitting data, breaches of them, and the manifest of admitted data.

- ``casts``: The one table of lossless casts, from the type that files store to the type that a declaration is read as.
- ``cohort``: Rules that a contract implies for rows of its columns, and words that tell an owner of a breach.
- ``contract_schema``: The contract as a pandera schema: it decides which columns and rows are admitted, and nothing
  else does.
- ``manifest``: The manifest of admitted data, and what an owner is told of data that are not admitted.
"""
