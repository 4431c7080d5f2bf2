"""From partitions of records to normalised rows in scratch: layout, validation, encoding, split, folds.

- ``cells``: Rows of a protocol: several outcomes, of which subgroup and arm each row is, and who is eligible.
- ``data_folder``: Open the folder of a dataset once, and digest the files that a run reads.
- ``enclave``: Keep the rows of a run, and what one stage leaves for the next.
- ``normalise``: From columns to rows of the unit ball: clip to declared bounds, declared scale, map to [-1, 1],
  one-hot, divide.
- ``partitions``: List the partitions of a data folder, and read their rows in segments.
- ``public_columns``: Covariates and treatments of people where these are public: what a plan may read of them, and a
  run's outcomes not.
- ``split``: Split units by ranks of keyed hashes: training, folds, and their public sizes.
- ``unit_hash``: A keyed 128-bit hash of unit ids, vectorised: who is in which half, and whether a unit occurs twice.
- ``validate``: Hold files to their manifests and to the contract before anything is reserved.
"""
