"""Declare, reserve, release: the order of a run around its estimator's stages, and of a round of sites.

- ``admit``: From a warehouse or a folder to admitted rows: take blocks, hold rows to the contract, keep the manifest.
- ``check``: Everything that is wrong with a study and its contract, at once, before anything runs. Reads no row.
- ``declare``: The way from a study file to a reservation: load it, hold it to its contract, declare its charges.
- ``estimators``: The registry of estimators, the choice of one by ``estimator: auto``, and rehearsals of their stages.
- ``finished``: A run's release: made of findings and charges, kept in the ledger, and found there again.
- ``pooling``: Pooled answers from many sites, or from the released blocks of a series. No row is read here and no noise
  drawn.
- ``ranges``: Ranges found privately: declare, reserve, count, release once. The owner writes what is found into the
  contract.
- ``start``: From somebody's file to a folder that a study can run on: look, draft, write, and take the rows over.
- ``study``: One study file -> one release: declare, reserve, release. The same on every engine.
"""
