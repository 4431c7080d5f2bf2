"""Mechanisms, budget, accountant, keys: the only room that draws noise and spends budget.

- ``accountant``: The joint privacy cost of the draws of one run.
- ``budget``: Hold a run's budget: the only way from a stage to the noise.
- ``concentrated``: Zero-concentrated differential privacy (Bun and Steinke 2016).
- ``gaussian``: Account for Gaussian draws exactly, and divide a request among several.
- ``keys``: Keep the secret of a site, derive the keys of runs, and sign as an owner.
- ``lattice``: Exact noise on a public lattice, from random bytes alone.
- ``mechanisms``: Draw by frozen mechanisms: what each draws stands beside what it costs.
- ``noise``: Draw noise, and say how much of it a cost asks for.
- ``ledger/``: The durable, append-only, hash-chained record of grants, reservations, releases and voids.
"""
