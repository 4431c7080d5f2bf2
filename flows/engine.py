"""The one small place that binds stages to an engine. The order of stages is not decided here.

Both engines call the same functions in the same process. A stage that ends in an error of ours passes it on; any
other exception is replaced, since a library's message may quote the data and Prefect stores what it is told.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from schemas.errors import CausalveilError
from schemas.execution import Execution
from tasks.spread import spreading_by

P = ParamSpec("P")
R = TypeVar("R")
Watcher = Callable[[str], None]
ROOT = Path(__file__).resolve().parents[1]


class Engine(Protocol):
    """Runs one stage after the other; shows a public table."""

    def __call__(self, stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run ``stage`` and return what it returns."""
        ...

    def publish(self, key: str, rows: list[dict[str, Any]], description: str) -> None:
        """Show a table of public values wherever the engine shows such things."""
        ...

    def spreading(self, execution: Execution) -> AbstractContextManager[None]:
        """While the block runs, have work on partitions done where ``execution`` says."""
        ...


def stage_name(stage: Callable[..., Any]) -> str:
    """``propensity_stage`` is shown as ``propensity``."""
    return stage.__name__.removesuffix("_stage")


def guarded(stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call ``stage``; let typed errors pass and withhold the text of all others.

    Raises:
        CausalveilError: the stage's own, or one that names the stage, the exception's type and the place in our
            code, never its message.
    """
    failure: CausalveilError
    try:
        return stage(*args, **kwargs)
    except CausalveilError as problem:
        failure = problem.with_traceback(None)
    except Exception as problem:
        failure = CausalveilError(
            f"stage '{stage_name(stage)}' failed with {type(problem).__name__} {place(problem)}; "
            "its message is withheld because it may quote data"
        )
    # Raised outside the except clause, so that no context with data in it hangs on the error.
    failure.__cause__ = failure.__context__ = None
    raise failure


def place(problem: BaseException) -> str:
    """The innermost line of causalveil's own code on the way to ``problem``."""
    ours = [
        frame
        for frame in traceback.extract_tb(problem.__traceback__)
        if Path(frame.filename).resolve().is_relative_to(ROOT) and "site-packages" not in frame.filename
    ]
    if not ours:
        return "outside causalveil's code"
    return f"at {Path(ours[-1].filename).resolve().relative_to(ROOT)}:{ours[-1].lineno}"


class DirectEngine:
    """Plain calls, no Prefect: for notebooks and tests."""

    def __init__(self, watch: Watcher = lambda _: None) -> None:
        """``watch`` is told the name of each stage as it starts."""
        self._watch = watch

    def __call__(self, stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run ``stage`` in this process."""
        self._watch(stage_name(stage))
        return guarded(stage, *args, **kwargs)

    def publish(self, key: str, rows: list[dict[str, Any]], description: str) -> None:
        """Nowhere to show it: the ledger and the release hold the same rows."""

    def spreading(self, execution: Execution) -> AbstractContextManager[None]:
        """On threads of this process, whatever the study says: a notebook has no cluster."""
        del execution
        return spreading_by(None)


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

    def spreading(self, execution: Execution) -> AbstractContextManager[None]:
        """On the task runner that the study names."""
        from flows.runners import running_on

        return running_on(execution)
