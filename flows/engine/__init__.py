"""Engines that run stages: direct calls or Prefect's tasks, with its runners, limits, events and settings.

- ``authentication``: A deployed run wants a server that asks for a password.
- ``engine``: The one small place that binds stages to an engine. The order of stages is not decided here.
- ``events``: Events for an operator's automation: budget that runs low or refuses, and a month whose rows are late.
- ``guard``: Filter of error messages: typed errors pass, the text of all others is withheld, since it may quote the
  data.
- ``limits``: One run at a time per dataset, whichever deployment it comes from: a strict global concurrency limit of
  Prefect's.
- ``prefect_engine``: Prefect's engine: each task is one task run of the flow run that is going on.
- ``runners``: Work on partitions on the cluster of one of Prefect's task runners, for the time of a run.
- ``secret_blocks``: Credentials that Prefect keeps for a worker, in its Secret blocks.
- ``server``: A Prefect server of the user's own, which `causalveil server start` leaves running for later runs.
- ``serving``: Which Prefect server a command's flow runs on, and what to tell its user about that.
- ``settings``: The settings that causalveil relies on, set before Prefect is imported. A user's own settings win.
- ``shown``: Tags, log lines, artifacts and assets that Prefect shows of a run. Released and declared values alone.
- ``unstored``: Nothing that a flow returns or raises is stored by Prefect: what it keeps is states, whose messages are
  ours.
"""
