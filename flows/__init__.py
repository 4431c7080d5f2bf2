"""The order of the stages; no arithmetic, no file formats.

- ``admit``: The Prefect flow around an admission: the entry of deployments (``flows/admit.py:admit``).
- ``api``: The functions and classes that ``import causalveil`` offers.
- ``extract``: The Prefect flow around an extract: the entry of deployments (``causalveil.flows.extract.extract``).
- ``pool``: The Prefect flow of a coordinator: the entry of deployments (``causalveil.flows.pool.pool``).
- ``series``: The Prefect flow of a series: the entry of deployments (``causalveil.flows.series.series``), after each
  month's run.
- ``start_run``: Run a study, given as a file or in Python beside a data frame, by the engine that was chosen.
- ``study``: The Prefect flow around a study: the entry of deployments, ``causalveil.flows.study.study``, and of
  `causalveil run`.
- ``cli/``: The `causalveil` command: arguments in, documents and tables out. No order of stages, no arithmetic.
- ``engine/``: Engines that run stages: direct calls or Prefect's tasks, with its runners, limits, events and settings.
- ``estimators/``: The order of each estimator's stages, which reads like its paper's algorithm box.
- ``planning/``: Expected findings and costs of a study, from public facts alone: `causalveil plan`.
- ``sequence/``: Declare, reserve, release: the order of a run around its estimator's stages, and of a round of sites.
"""
