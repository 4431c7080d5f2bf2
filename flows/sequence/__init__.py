"""Declare, reserve, release: the order of a run around its estimator's stages, and of a round of sites.

- ``admit``: One folder of data -> one manifest: hold all rows to the contract, keep the manifest, record it in the
  ledger.
- ``check``: Everything that is wrong with a study and its contract, at once, before anything runs. Reads no row.
- ``choose``: From ``estimator: auto`` to a study of one estimator, by public facts alone, and why.
- ``estimators``: The registry of estimators: a new one is one entry here, one module in ``schemas/estimators/``, one in
- ``finished``: A run that is finished already: its release is in the ledger and needs no contract, no data and no key
  any more.
- ``publish``: From findings and charges to the release document: declared facts and released values only.
- ``ranges``: Ranges found privately: declare, reserve, count, release once. The owner writes what is found into the
  contract.
- ``refusals``: Refusals that come before a reservation: an owner reads in the ledger who asked for what the contract
  forbids.
- ``rehearse``: A study's own estimate on rows in memory: what coverage studies and replications run, thousands of
  times.
- ``run``: State that a run carries between stages: public facts, the handle of its enclave, and the budget. Never a
  row.
- ``series``: A study file -> the series of its released blocks. Reads the ledger's documents: no rows, no noise, no
  charge.
- ``sites``: Many sites -> one release: verify every bundle, settle the round, pool. No row is read here and no noise
  drawn.
- ``start``: From somebody's file to a folder that a study can run on: look, draft, write, and take the rows over.
- ``study``: One study file -> one release: declare, reserve, release. The same on every engine.
- ``warehouse``: One source file -> one folder of partitions with a manifest: probe, take block after block, write the
  manifest.
"""
