"""Prefect's engine: each stage is one task run of the flow run that is going on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from causalveil.flows.engine.engine import Watcher
from causalveil.flows.engine.guard import P, R, guarded, stage_name
from causalveil.schemas.execution import Execution

# Who is told of each stage as it starts; a flow has no parameter for what is not to be stored. It stands here and not
# beside the flow, because Prefect sends flows to workers by value and a context variable cannot be sent.
WATCHER: ContextVar[Watcher] = ContextVar("watcher", default=lambda _: None)


class PrefectEngine:
    """Each stage is one Prefect task run of the flow run that is going on."""

    def __init__(self) -> None:
        """Whom to tell of each stage as it starts, ``WATCHER`` says."""
        self._watch = WATCHER.get()

    def __call__(self, stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run ``stage`` as a task.

        The task has no parameters: nothing is hashed, traversed or stored. Retries belong to the flow, whose run
        id is stable; the ledger hands out stored values on the second try.
        """
        from prefect import task
        from prefect.cache_policies import NO_CACHE

        self._watch(stage_name(stage))

        def call() -> R:
            return guarded(stage, *args, **kwargs)

        options = task(
            name=stage_name(stage),
            task_run_name=stage_name(stage),
            cache_policy=NO_CACHE,
            persist_result=False,
            log_prints=False,
            retries=0,
        )
        return options(call)()

    def publish(self, key: str, rows: list[dict[str, Any]], description: str) -> None:
        """Create a table artifact; ``key`` in lower case and dashes."""
        from prefect.artifacts import create_table_artifact

        create_table_artifact(key=key, table=rows, description=description)

    def distributing(self, execution: Execution) -> AbstractContextManager[None]:
        """On the task runner that the operator names."""
        from causalveil.flows.engine.runners import running_on

        return running_on(execution)
