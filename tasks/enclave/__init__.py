"""From partitions of records to normalised rows in scratch: layout, validation, encoding, split, folds.

- ``cells``: Rows of a protocol: several outcomes, of which subgroup and arm each row is, and who is eligible.
- ``contents``: Keyed digests of the files that a run reads: a file that is not what was admitted ends the run.
- ``data_folder``: The folder of a dataset, opened once, from its contract to its last row: the one door to rows.
- ``enclave``: A run's enclave: its rows, and what one stage leaves for the next. Private, all of it; in files or in
  memory.
- ``folds``: Which fold a unit is in: by the rank of its keyed hash, so that folds have exact public sizes.
- ``manifest``: A study's data held against the manifest of the extract that made them, before anything is reserved.
- ``normalise``: From columns to rows of the unit ball: clip to declared bounds, declared scale, map to [-1, 1],
  one-hot, divide.
- ``partitions``: Which Parquet files a run reads, learnt from their paths and footers; and the one way to read their
  rows.
- ``public_columns``: Covariates and treatments of people where these are public: what a plan may read of them, and a
  run's outcomes not.
- ``rows``: Rows of one segment, and where a segment's files lie in a run's scratch folder (``enclave.py`` reads them).
- ``segments``: How an enclave cuts the rows of its partitions into segments that one process can hold.
- ``sizes``: The public sizes of a study: how many units it has, and how many serve each purpose.
- ``split``: Which units train the propensity model: those with the round(f n) smallest keyed hashes, exactly that many.
- ``unit_hash``: A keyed 128-bit hash of unit ids, vectorised: who is in which half, and whether a unit occurs twice.
- ``validate``: The first stage of a run: are the files those that were admitted, as far as sizes and footers tell?
  Reads no row.
"""
