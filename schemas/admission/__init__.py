"""What data must be to be admitted, what is wrong with them, and the manifest of those that were.

- ``casts``: Where what a column is declared as meets the type that files store it in: the one table of lossless casts.
- ``cohort``: What a contract implies of its columns: rules that rows are held to, and words that tell an owner of a
  breach.
- ``contract_schema``: The contract as a pandera schema: it decides which columns and rows are admitted, and nothing
  else does.
- ``manifest``: The manifest of admitted data, and what an owner is told of data that are not admitted.
"""
