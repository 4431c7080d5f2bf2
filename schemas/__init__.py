"""Frozen models of all that goes in and comes out: no arithmetic on rows, no Prefect.

- ``columns``: Say what columns must hold, which numbers and names may be declared, and on which scale.
- ``confounding``: State facts on adjustment for confounding, and what an analyst assumes of it.
- ``contract``: dataset.yaml: what the data's owner declares and allows.
- ``declared``: Declare what columns hold, and how several rows of a unit become one.
- ``documents``: Read documents: YAML that people write, JSON, and the paths and URLs in them.
- ``errors``: Every way a run can end badly, each with the exit code that scripts may rely on.
- ``execution``: The operator's settings of stages on one machine, in ``site.toml`` or the environment.
- ``ledger``: Requests of a run to the ledger, and answers of the ledger about an account.
- ``limits``: Limits of an interval as codes with facts, and the one sentence of each.
- ``mistakes``: Validate documents: say what is wrong with a key, and what to write in its place.
- ``oversight``: Show owners all datasets, and auditors what happened in one run.
- ``plan``: Declarations of a run before a row is read: the layout of the data, and every charge.
- ``privacy``: Name the terms of the guarantee: amounts, neighbours, levels, costs and keys.
- ``release``: release.json: everything that may leave the enclave.
- ``shown``: Base of documents that a notebook, ``print`` and a console show, each in its own way.
- ``sources``: Declare how text of a source becomes values, and name the state of an open table.
- ``specification``: Read the specification of a study: a plain document, which may come from another site.
- ``studies``: Find every kind of study by name, and state the question of `causalveil ranges`.
- ``study``: A study in full.
- ``warehouse``: source.yaml: what to take out of a warehouse, by which key, over which declared range.
- ``where``: Compare declared columns with public values: whom a study is about.
- ``admission/``: Rules for admitting data, breaches of them, and the manifest of admitted data.
- ``asked/``: Models of the study file that an analyst writes, which the owner's contract completes.
- ``estimators/``: Models of each estimator's study: one module an estimator.
- ``protocols/``: Protocols: what they ask, and what their releases say.
- ``sites/``: Documents between sites and a coordinator: terms of a round, bundles, pooled releases.
"""
