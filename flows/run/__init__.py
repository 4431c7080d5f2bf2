"""Declare, reserve, release: the order of a run around its stages, and of a round of sites.

- ``admit``: From a warehouse or a folder to admitted rows.
- ``check``: Everything that is wrong with a study and its contract, at once, before anything runs.
- ``columns_in_doubt``: Columns that a draft adjusts for only where an option names them, and grouped treatment.
- ``declare``: The way from a study file to a reservation.
- ``estimators``: Register estimators, choose one for ``estimator: auto``, and rehearse their stages.
- ``finished``: A run's release: made of findings and charges, kept in the ledger, and found there again.
- ``pooling``: Pooled answers from many sites, or from the released blocks of a series.
- ``ranges``: Ranges found privately: declare, reserve, count, release once.
- ``start``: From a file to a folder that a study can run on.
- ``study``: One study file -> one release: declare, reserve, release. The same on every engine.
- ``survey``: A sample of a source with its recognised columns, and the rows of it that a draft counts.
"""
