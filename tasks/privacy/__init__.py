"""Mechanisms, budget, accountant, keys: the only room that draws noise and spends budget.

- ``accountant``: The joint privacy cost of the draws of one run.
- ``budget``: A run's budget: the only way from a stage to the noise.
- ``concentrated``: Zero-concentrated differential privacy (Bun and Steinke 2016).
- ``gaussian``: Account for Gaussian draws exactly, and divide a request among several.
- ``keys``: Keep the secret of a site, derive the keys of runs, and sign as an owner.
- ``lattice``: Exact noise on a public lattice, from random bytes alone.
- ``mechanisms``: Frozen mechanisms: what each draws stands beside what it costs.
- ``noise``: Draw noise, and say how much of it a cost asks for.
- ``rehearsal``: A budget for rehearsals: seeded noise, a list of charges, no ledger.
- ``special_mechanisms``: Draw by mechanisms that few estimators use.
- ``ledger/``: The durable, append-only, hash-chained record of grants, reservations, releases and voids.
- ``outlook/``: The remaining budget of an account, for people: runs that fit, and when one is refused.
"""
