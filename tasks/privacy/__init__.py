"""Mechanisms, budget, accountant and keys: the only room where noise is drawn and budget is spent.

- ``accountant``: What the draws of one run cost together.
- ``budget``: A run's budget: the only way from a stage to the noise.
- ``concentrated``: Zero-concentrated differential privacy (Bun and Steinke 2016): what a draw costs an account, what a
  cap is worth.
- ``division``: Gaussian differential privacy (Dong, Roth and Su 2022): how a request is divided into Gaussian draws,
  exactly.
- ``gaussian``: The Gaussian mechanism exactly: its delta, the least noise for a budget, and the epsilon of many draws.
- ``gross_error``: The noise of Schröder, Hartenstein and Feuerriegel (2025), Theorems 4.3 and 4.5. Its guarantee is
  asymptotic.
- ``keys``: The site secret, and the key that each run derives from it. Neither ever leaves the enclave.
- ``lattice``: Exact noise on a public lattice, from random bytes alone: arrays of a million records, and short vectors.
- ``mechanisms``: Frozen mechanisms: what each draws stands beside what it costs.
- ``noise``: Where noise comes from. A real release draws from the operating system and is safe in floating point.
- ``owner``: The owner's Ed25519 key: it signs grants and reviews, and only its public half is anybody else's business.
- ``propose``: Mechanisms that may answer "no answer": what they release is safe near most data sets, and they test for
  that.
- ``rehearsal``: A budget for rehearsals: seeded noise, a list of charges, no ledger.
- ``scales``: How much noise a cost asks for: each function returns a float that is certainly large enough for its
  theorem.
- ``smooth``: Mechanisms that replications alone use: Laplace noise of a smooth sensitivity, and the exponential
  mechanism.
- ``ledger/``: The durable, append-only, hash-chained record of grants, reservations, releases and voids.
- ``outlook/``: What is left of an account, for people: how many runs fit, when a schedule runs dry, how it burned down.
"""
