"""The stages: pure functions on arrays, lazy frames and paths; no Prefect.

- ``covariates``: Say which columns encode covariates, and which declared ranges are too narrow.
- ``ranges``: Find ranges of numbers privately, from one noisy histogram of magnitudes on a fixed grid.
- ``reduction``: Make one row of several of a unit when data are admitted.
- ``simulate``: A synthetic study of any size with a known effect.
- ``adjustment/``: Covariate adjustment from five noisy releases, which several estimators share.
- ``admission/``: Admission: the one time that all rows are held to their contract, and its manifest.
- ``aipw/``: AIPW of a trial whose chance of treatment is known, by cross-fitted scores.
- ``aipw_asymptotic/``: AIPW with the asymptotic guarantee of Schröder, Hartenstein & Feuerriegel 2025.
- ``balancing/``: Minimal-noise balancing weights on public covariates and treatments.
- ``direction/``: Causal direction between two variables by additive noise models.
- ``enclave/``: From partitions of records to normalised rows in scratch: validation, encoding, split.
- ``inference/``: Confidence intervals: what they cover, and what they allow for.
- ``ipw/``: Inverse probability weighting with a private propensity model.
- ``machine/``: Files, the state folder, and work on partitions over threads or a cluster.
- ``matching/``: Capped nearest neighbours on a private score.
- ``models/``: Models and exact sums that several estimators share.
- ``object_storage/``: Data folders in object storage: copies of them, their one writer, and releases put there.
- ``privacy/``: Mechanisms, budget, accountant, keys: the only room that draws noise and spends budget.
- ``protocols/``: Protocols: many questions answered together; ``docs/proofs/questions.md``.
- ``report/``: A release as a page for people.
- ``sites/``: Bundles of sites: signing, checking, pooling.
- ``start/``: From a file to a draft of contract, study and source.
- ``survival/``: Time to event: one release of the cells of all people, and curves and tests read off it.
- ``trial/``: Randomised trials: the difference of arm means.
- ``warehouse/``: From a warehouse to partitions, block by block.
- ``weighting/``: Weighting by public covariates and treatments, which several estimators share.
"""
