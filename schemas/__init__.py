"""What goes in and what comes out: frozen models, no arithmetic on rows, no Prefect.

- ``amounts``: Exact decimal amounts of privacy budget, parsed from text and never from binary floats.
- ``columns``: What the columns of a study must hold; ``schemas/admission/cohort.py`` makes checks of it.
- ``confounding``: Facts on how a run adjusted for confounding; the sentences of panel and report are made from these
  alone.
- ``contract``: dataset.yaml: what the data's owner declares and allows. It lies beside the data; without one nothing
  runs.
- ``documents``: Reading the YAML that people write: decimals from text, no surprises, unknown keys met with the nearest
  known one.
- ``errors``: Every way a run can end badly, each with the exit code that scripts may rely on.
- ``execution``: How stages run on one machine: the operator's word, in ``site.toml`` or the environment. No study can
  say it.
- ``ledger``: What a run asks of the ledger, and what the ledger answers about an account.
- ``plan``: What a run declares before a row is read: the layout of the data, and every charge.
- ``privacy``: The vocabulary of the guarantee: who is protected, against what, and what it costs.
- ``ranges``: The question that `causalveil ranges` asks: between which round numbers do a column's values lie?
- ``readings``: How the text of a source becomes values: the owner's word for each column, written into source.yaml.
- ``release``: release.json: everything that may leave the enclave.
- ``studies``: Every kind of study and every estimator by name.
- ``study``: A study in full: what the analyst asks with what the owner declares of the columns
  (``schemas/asked/resolve.py``).
- ``warehouse``: source.yaml: what to take out of a warehouse, by which key, over which declared range; and the manifest
  of a take.
- ``admission/``: What data must be to be admitted, what is wrong with them, and the manifest of those that were.
- ``asked/``: What the analyst asks: the study file, and how the owner's contract completes it to a study.
- ``declared/``: What the owner declares of the rows: each column by itself, and how several rows of a unit become one.
- ``estimators/``: What each estimator's study may ask for: one module an estimator.
- ``hints/``: Help for whoever wrote a document that is not understood.
- ``oversight/``: What owners and auditors read: one run's trail, and the desk of all datasets.
- ``protocols/``: Protocols: what they ask, and what their releases say.
- ``signatures/``: What is signed, and by whom: keys of owners and sites.
- ``sites/``: What travels between sites and a coordinator: terms of a round, bundles, pooled releases.
"""
