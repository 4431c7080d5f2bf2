"""Admission: the one time that all rows are held to their contract, and the manifest that says so.

- ``anchor``: Which ledger knows what was charged to the rows of a folder: a file beside them says it, wherever they are
  read.
- ``folders``: Does a file say of a column what the folder says that it lies in? Blocks are folders, and folders are
  accounts.
- ``kept``: Where manifests lie, and whether what lies in a folder today is what was admitted.
- ``rows``: Does a partition keep what the contract declares of its columns? Every problem at once, with counts for the
  owner.
- ``stages``: The stage that looks at all rows of a folder once: against the contract, for units that stand twice, for
  digests.
- ``together``: Rows of small files, gathered until there are enough of them to be worth a look.
- ``unchanged``: Whether the rows that lie in a folder are those that the ledger knows as admitted, without admitting
  them anew.
- ``units``: Has every unit one row? Keyed hashes go to scratch, spread over files by value, and each file is looked at
  once.
- ``whole_files``: Small Parquet files, whose bytes are in memory already: what was digested is what is decoded.
"""
