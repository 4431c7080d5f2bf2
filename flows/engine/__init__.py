"""Engines that run stages: direct calls, or Prefect's tasks with its runners and events.

- ``deployment``: Requirements of a deployed flow on Prefect's server.
- ``engine``: The one small place that binds stages to an engine.
- ``prefect_engine``: Run stages as Prefect's tasks, and tell Prefect's failures from those of code.
- ``runners``: Work on partitions on the cluster of one of Prefect's task runners, for the time of a run.
- ``server``: A Prefect server of the user's own, and which server a command's flow runs on.
- ``settings``: The settings that causalveil relies on, set before Prefect is imported.
- ``shown``: Tags, log lines, artifacts and assets that Prefect shows of a run.
- ``transactions``: Transactions of a Prefect server on SQLite: they wait for their turn to write.
"""
