"""From a source's files to admitted, normalised rows behind one open folder.

- ``admit``: Hold all rows of a folder to the contract, once, and each unit to one row.
- ``cells``: Read the rows of a table: outcomes, subgroup, arm, and which rows are eligible.
- ``covariates``: Determine which columns encode covariates, and which declared ranges are too narrow.
- ``data_folder``: Open the folder of a dataset once, and digest the files that a run reads.
- ``enclave``: Keep the rows of a run, and the arrays that one stage leaves for the next.
- ``manifests``: Keep manifests of admitted data, and hold a run's files to them before it reserves.
- ``normalise``: Turn columns into rows of the unit ball.
- ``partitions``: List the partitions of a data folder, and read their rows in segments.
- ``ranges``: Find ranges of numbers privately, from one noisy histogram of magnitudes on a fixed grid.
- ``reduction``: Make one row of several of a unit when data are admitted.
- ``simulate``: A synthetic study of any size with a known effect.
- ``split``: Split units by ranks of keyed hashes: training half, folds, and their public sizes.
"""
