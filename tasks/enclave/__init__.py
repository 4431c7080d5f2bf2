"""From partitions of records to normalised rows in scratch: validation, encoding, split.

- ``cells``: Rows of a table.
- ``data_folder``: Open the folder of a dataset once, and digest the files that a run reads.
- ``enclave``: Keep the rows of a run, and what one stage leaves for the next.
- ``normalise``: From columns to rows of the unit ball.
- ``partitions``: List the partitions of a data folder, and read their rows in segments.
- ``public_columns``: Covariates and treatments of people where these are public.
- ``split``: Split units by ranks of keyed hashes: training, folds, and their public sizes.
- ``unit_hash``: A keyed 128-bit hash of unit ids, vectorised.
- ``validate``: Hold files to their manifests and to the contract before anything is reserved.
"""
