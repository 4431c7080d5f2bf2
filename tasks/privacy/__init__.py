"""Mechanisms, budget, accountant, keys: the only room that draws noise and spends budget.

- ``accountant``: The joint privacy cost of the draws of one run.
- ``budget``: Hold a run's budget: the only way from a stage to the noise.
- ``concentrated``: Zero-concentrated differential privacy (Bun and Steinke 2016): rho of draws and caps.
- ``gaussian``: Account for Gaussian draws exactly, and divide a request among several.
- ``keys``: Keep the secret of a site, derive the keys of runs, and sign as an owner.
- ``lattice``: Exact noise on a public lattice, from random bytes alone.
- ``mechanisms``: Mechanisms: the noise that each draws stands beside its privacy cost.
- ``noise``: Draw noise, and compute the scale of noise that a privacy cost needs.
- ``ledger/``: The durable, append-only, hash-chained record of grants, reservations, releases and voids.
"""
