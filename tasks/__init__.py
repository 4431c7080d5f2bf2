"""The stages: pure functions on arrays, lazy frames and paths; no Prefect.

- ``data/``: From a source's files to admitted, normalised rows behind one open folder.
- ``estimate/``: Estimators: exact sums over rows, noisy sums read, and answers with intervals.
- ``machine/``: Files, the state folder, and work on partitions over threads or a cluster.
- ``privacy/``: Mechanisms, budget, accountant, keys: the only room that draws noise and spends budget.
- ``report/``: A release as a page for people.
- ``sites/``: Bundles of sites: signing, checking, pooling.
- ``start/``: From a file to a draft of contract, study and source.
- ``warehouse/``: From a warehouse to partitions, block by block.
"""
