"""Run stages as Prefect's tasks, and tell Prefect's failures from those of code.

Each task is one task run of the flow run that is going on.

A line must not blame Prefect's server where a hook of the caller's own, a full disk or a defect of ours was at fault.
The innermost frame of the traceback that is ours or Prefect's decides. A library that we called, such as pyarrow, lies
below a frame of ours; a connection that broke lies below a frame of Prefect's.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import prefect
from prefect import State, runtime, tags
from prefect import task as prefect_task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.assets import Asset, AssetProperties, materialize
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.exceptions import MissingResult
from prefect.logging.handlers import APILogHandler
from prefect.states import Completed

from causalveil.flows.engine.engine import Task, Watcher, guarded, guarded_as, is_ours, withheld
from causalveil.flows.engine.server import on_a_server
from causalveil.flows.engine.shown import (
    answer_markdown,
    asset_facts,
    budget_markdown,
    data_asset,
    declared_tags,
    release_asset,
    tags_by,
    tags_of,
)
from causalveil.schemas.errors import CausalveilError, EngineLost
from causalveil.schemas.hints import option
from causalveil.schemas.ledger import Reservation
from causalveil.schemas.plan import Execution
from causalveil.schemas.release import Release

_LOG = logging.getLogger("causalveil.flow")
PREFECT = Path(prefect.__file__).parent


def of_prefect(problem: BaseException) -> bool:
    """Return whether Prefect failed, and not code that it called or a block of ours."""
    # Prefect ends a block whose turn is lost by an error of its own, at whatever line the block is.
    if type(problem).__module__.partition(".")[0] == "prefect":
        return True
    files = [frame.filename for frame in traceback.extract_tb(problem.__traceback__)]
    whose = [is_ours(file) for file in files if is_ours(file) or Path(file).is_relative_to(PREFECT)]
    return bool(whose) and not whose[-1]


@contextmanager
def answering(doing: str, run: Reservation | None) -> Iterator[None]:
    """Turn a failure of Prefect itself within the block into one line that says how to go on.

    The line is in the worker's log too. Of any other failure the text is withheld, as :func:`withheld` says.

    Args:
        doing: the work that Prefect is asked for.
        run: the run whose budget is spent, once it is reserved.

    Raises:
        EngineLost: Prefect failed, as it does where its server went away.
        CausalveilError: the block's own, or another failure within the block.
    """
    failure: CausalveilError
    try:
        yield
    except CausalveilError:
        raise
    except Exception as problem:
        failure = _lost(doing, run, problem) if of_prefect(problem) else withheld(doing, problem)
    else:
        return
    # Prefect itself may not be able to record how the run ended: then only this line does.
    _LOG.error(str(failure))
    # No traceback prints the block's own error, which may quote data.
    raise failure from None


def _lost(doing: str, run: Reservation | None, problem: Exception) -> EngineLost:
    go_on = "start it again" if run is None else f"start run id {run.run_id} again: what it drew is charged once"
    return EngineLost(
        f"Prefect's server did not answer for {doing} ({type(problem).__name__}); once it is up again "
        f"(PREFECT_API_URL, causalveil server status), {go_on}"
    )


R = TypeVar("R")

# Is called with the name of each stage as it starts; a parameter of the flow would be stored. It stands here and not
# beside the flow, because Prefect sends flows to workers by value and a context variable cannot be sent.
WATCHER: ContextVar[Watcher] = ContextVar("watcher", default=lambda _: None)


NOTHING_STORED: dict[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False, "log_prints": False}


@dataclass(frozen=True)
class _Ended:
    """The result of a task run for Prefect, without values: later task runs wait for it."""

    title: str


class PrefectEngine:
    """Each task is one Prefect task run of the flow run that is going on."""

    def __init__(self) -> None:
        """Take the watcher of the process from ``WATCHER``."""
        _hand_on_lines()
        self._watch = WATCHER.get()
        self._run: Reservation | None = None
        # Results of task runs of this flow run by their tasks' titles: edges of Prefect's graph begin there.
        self._ended: dict[str, _Ended] = {}

    def __call__(self, task: Task[R]) -> R:
        """Run ``task`` as a task run.

        It has no parameters and returns its title: nothing is hashed, traversed or stored. Retries belong to the flow,
        whose run id is stable; the ledger hands out stored values on the second try.
        """
        self._watch(task.name)
        results: list[R] = []

        def call() -> _Ended:
            results.append(guarded_as(task.name, task.call))
            return _Ended(task.title)

        options = prefect_task(
            name=task.name,
            task_run_name=task.title,
            tags=[] if self._run is None else [*tags_of(self._run), *declared_tags(task.charges, self._run)],
            retries=0,
            **NOTHING_STORED,
        )
        upstream = [self._ended[title] for title in task.reads if title in self._ended]
        with answering(f"task '{task.title}'", self._run):
            self._ended[task.title] = options(call)(wait_for=upstream)
        return results[0]

    def announce(self, run: Reservation) -> None:
        """Tag the flow run and later task runs by study, dataset and run."""
        self._run = run
        add_tags(tags_of(run), run)

    def deliver(self, release: Release, write: Callable[[], Path]) -> Path:
        """Write the release as the materialisation of an asset made of the data, with two artifacts."""
        asset = Asset(
            key=release_asset(release),
            properties=AssetProperties(name=f"{release.study} ({release.dataset})", description="private releases"),
        )

        def call() -> Path:
            path = guarded(write)
            if not release.not_for_release:
                asset.add_metadata(asset_facts(release))
            answer = answer_markdown(release, path)
            create_markdown_artifact(answer, key="answer", description=f"The answer of {release.run_id}")
            budget = budget_markdown(release)
            create_markdown_artifact(budget, key="budget", description=f"What {release.run_id} cost {release.dataset}")
            return path

        if release.not_for_release:
            with answering("the release", None):
                return prefect_task(name="deliver", task_run_name="deliver", **NOTHING_STORED)(call)()
        released = materialize(
            asset,
            by="causalveil",
            tags=tags_of(self._run) if self._run else [],
            asset_deps=[data_asset(release.dataset)],
            name="deliver",
            task_run_name="deliver",
            **NOTHING_STORED,
        )
        with answering("the release", self._run):
            return released(call)()

    def publish(self, key: str, rows: list[dict[str, Any]], description: str) -> None:
        """Create a table artifact; ``key`` in lower case and dashes."""
        with answering("a table", self._run):
            create_table_artifact(key=key, table=rows, description=description)

    def distributing(self, execution: Execution) -> AbstractContextManager[None]:
        """Distribute over the task runner that the operator names."""
        from causalveil.flows.engine.runners import running_on

        return running_on(execution)


# Outcomes of flow runs of this process that end in a named state; None outside of `in_this_process`.
_OUTCOMES: ContextVar[list[Any] | None] = ContextVar("outcomes", default=None)


def ended_as(name: str, message: str, outcome: R) -> State[R]:
    """Return the completed state ``name`` that holds ``outcome``.

    ``outcome`` is also handed to ``in_this_process``.
    """
    outcomes = _OUTCOMES.get()
    if outcomes is not None:
        outcomes.append(outcome)
    return Completed(name=name, message=message, data=outcome)


class _RecordingWatcher:
    """Call a watcher, and record its error, for which Prefect would raise another."""

    def __init__(self, watch: Watcher) -> None:
        self._watch = watch
        self.failed: Exception | None = None

    def __call__(self, name: str) -> None:
        try:
            self._watch(name)
        except Exception as problem:
            self.failed = problem
            raise


def in_this_process(flow: Callable[[], Any], watch: Watcher, go_on: str = "") -> Any:
    """Run a flow in this process and return its outcome, whatever state it ended in.

    Prefect's API is that of PREFECT_API_URL, the user's own server, or Prefect's temporary one. One that is busy may
    take a state and answer too late. Asked again it returns the state as stored, without the outcome, and Prefect then
    reports a missing result of a run that is complete.

    Args:
        flow: calls it.
        watch: is told the name of each task as it starts.
        go_on: ends the line of an error, and says how to start the same again.

    Raises:
        CausalveilError: the stages' own; that Prefect's API cannot be reached; or another failure, which is named. An
            error of ``watch`` is the caller's own and passes unchanged, as with the direct engine.
    """
    outcomes: list[Any] = []
    recording = _RecordingWatcher(watch)
    tokens = WATCHER.set(recording), _OUTCOMES.set(outcomes)
    watch("Prefect")
    try:
        with on_a_server():
            return flow()
    except CausalveilError:
        raise
    except Exception as problem:
        if isinstance(problem, MissingResult) and outcomes:
            return outcomes[-1]
        if recording.failed is not None:
            raise recording.failed from None
        # Prefect fails once more as it records how the run ended; the first failure says more.
        failure = _lost_before(problem) or (
            CausalveilError(
                f"Prefect could not run the flow ({type(problem).__name__}); check PREFECT_API_URL and that its server "
                f"is up, or use {option(engine='direct')}{go_on}"
            )
            if of_prefect(problem)
            else CausalveilError(f"{withheld('the flow', problem)}{go_on}")
        )
    finally:
        WATCHER.reset(tokens[0])
        _OUTCOMES.reset(tokens[1])
    raise failure


def _lost_before(problem: BaseException | None) -> EngineLost | None:
    """Return the earlier error that says how to go on, where Prefect failed again; else None."""
    while problem is not None and not isinstance(problem, EngineLost):
        problem = problem.__context__
    return problem


def rename_flow_run(name: str) -> None:
    """Give the flow run that is going on another name; nothing outside of one."""
    flow_run = runtime.flow_run.id
    if flow_run is not None:
        with answering("the name of the run", None), get_client(sync_client=True) as client:
            client.update_flow_run(flow_run, name=name)


def _hand_on_lines() -> None:
    """Hand our lines to Prefect's API, also where Prefect was imported before our settings."""
    ours = logging.getLogger("causalveil")
    if not any(isinstance(handler, APILogHandler) for handler in ours.handlers):
        ours.addHandler(APILogHandler())


@contextmanager
def tagged(**names: str | None) -> Iterator[None]:
    """Tag the flow run that is going on, and every task run within the block.

    Args:
        names: by kind, as ``study="drug"``; those that are None are not known yet.
    """
    own = tags_by(**names)
    add_tags(own)
    with tags(*own):
        yield


def add_tags(own: list[str], run: Reservation | None = None) -> None:
    """Add tags to the flow run that is going on, if there is one.

    ``run``: the run whose budget is spent already.
    """
    flow_run = runtime.flow_run.id
    if flow_run is None or set(own) <= set(runtime.flow_run.tags):
        return
    with answering("the tags of the run", run), get_client(sync_client=True) as client:
        tags_so_far = client.read_flow_run(flow_run).tags
        client.update_flow_run(flow_run, tags=sorted({*tags_so_far, *own}))
