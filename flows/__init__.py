"""The order of the stages; no arithmetic, no file formats.

- ``api``: The functions and classes that ``import causalveil`` offers.
- ``deployed``: The Prefect flows, which deployments name, as ``causalveil.flows.deployed.study``.
- ``start_run``: Run a study, given as a file or in Python beside a data frame.
- ``cli/``: The `causalveil` command: arguments in, documents out; no order of stages, no arithmetic.
- ``engine/``: Engines that run stages: direct calls, or Prefect's tasks with its runners and events.
- ``estimators/``: The order of each estimator's stages, which reads like its paper's algorithm box.
- ``plan/``: Expected findings and costs of a study, from public facts alone: `causalveil plan`.
- ``run/``: Declare, reserve, release: the order of a run around its stages, and of a round of sites.
"""
