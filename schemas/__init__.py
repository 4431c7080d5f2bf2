"""What goes in and what comes out: frozen models, no arithmetic on rows, no Prefect.

- ``columns``: Say what columns must hold, which numbers may be declared, and on which scale they are read.
- ``confounding``: State facts on adjustment for confounding, and what an analyst assumes of it.
- ``contract``: dataset.yaml: what the data's owner declares and allows. It lies beside the data; without one nothing
  runs.
- ``declared``: Declare what columns hold, and how several rows of a unit become one.
- ``documents``: Read the YAML that people write, and help with what is not understood.
- ``errors``: Every way a run can end badly, each with the exit code that scripts may rely on.
- ``execution``: How stages run on one machine: the operator's word, in ``site.toml`` or the environment. No study can
  say it.
- ``ledger``: What a run asks of the ledger, and what the ledger answers about an account.
- ``oversight``: Show owners all datasets, and auditors what happened in one run.
- ``plan``: What a run declares before a row is read: the layout of the data, and every charge.
- ``privacy``: Name the terms of the guarantee: amounts, neighbours, levels and costs.
- ``public_keys``: Name Ed25519 public keys as files do.
- ``ranges``: The question that `causalveil ranges` asks: between which round numbers do a column's values lie?
- ``release``: release.json: everything that may leave the enclave.
- ``sources``: Declare how text of a source becomes values, and name the state of an open table.
- ``studies``: Every kind of study and every estimator by name.
- ``study``: A study in full: what the analyst asks with what the owner declares of the columns
  (``schemas/asked/resolve.py``).
- ``warehouse``: source.yaml: what to take out of a warehouse, by which key, over which declared range; and the manifest
  of a take.
- ``where``: Compare declared columns with public values: whom a study is about.
- ``admission/``: What data must be to be admitted, what is wrong with them, and the manifest of those that were.
- ``asked/``: What the analyst asks: the study file, and how the owner's contract completes it to a study.
- ``estimators/``: What each estimator's study may ask for: one module an estimator.
- ``protocols/``: Protocols: what they ask, and what their releases say.
- ``sites/``: What travels between sites and a coordinator: terms of a round, bundles, pooled releases.
"""
