"""Where work on partitions runs: Prefect's task runners, bound to :func:`tasks.spread.spread` for the time of a run.

One Prefect task is one worker's share of one pass over the partitions, so a run makes a few tasks per worker and pass,
whatever the number of partitions. Tasks have no parameters: nothing is hashed or stored of what they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from flows.engine import guarded
from schemas.errors import CausalveilError, StudyError
from schemas.study import Execution, Runner
from tasks.spread import Spreader, gathered, share, shares, spreading_by

T = TypeVar("T")


@dataclass(frozen=True)
class PrefectSpreader:
    """Sends shares of the partitions to a started task runner of Prefect's."""

    runner: Any
    workers: int

    def __call__(self, function: Callable[[int], T], count: int) -> list[T]:
        """Apply ``function`` to 0 .. count-1 on the workers.

        Raises:
            CausalveilError: the function's own; or, with its text withheld, whatever befell the workers.
        """
        from prefect import task
        from prefect.cache_policies import NO_CACHE

        def submit(indexes: Any) -> Any:
            def call() -> list[T]:
                return guarded(share, function, indexes)

            # A worker that dies is the cluster's to replace: the share, which draws nothing, is done again.
            options = task(
                name="share",
                task_run_name="share",
                cache_policy=NO_CACHE,
                persist_result=False,
                log_prints=False,
                retries=0,
            )
            return self.runner.submit(options(call), parameters={}, wait_for=None)

        futures = [submit(indexes) for indexes in shares(count, self.workers)]
        return gathered([future.result() for future in futures])


@contextmanager
def running_on(execution: Execution) -> Iterator[None]:
    """Start what the study's ``execution`` names and have partitions spread over it.

    Raises:
        CausalveilError: the extra is not installed, or the cluster cannot be reached.
    """
    if execution.runner is Runner.threads:
        with spreading_by(None):
            yield
        return
    started = False
    try:
        with _runner(execution) as runner:
            if execution.runner is Runner.dask:
                # Connects, which Prefect would put off to the first task.
                _ = runner.client
            started = True
            spreader: Spreader = PrefectSpreader(runner, execution.workers)
            with spreading_by(spreader):
                yield
    except Exception as problem:
        if started or isinstance(problem, CausalveilError):
            raise
        failure = CausalveilError(
            f"the {execution.runner} cluster{' at ' + execution.address if execution.address else ''} cannot be used "
            f"({type(problem).__name__}); check 'execution.address', and that its workers have this causalveil"
        )
        failure.__cause__ = None
        raise failure from None


def _runner(execution: Execution) -> Any:
    """A task runner, not started."""
    try:
        if execution.runner is Runner.dask:
            from prefect_dask.task_runners import DaskTaskRunner

            if execution.address:
                return DaskTaskRunner(address=execution.address)
            # TLS with keys of the run's own: whoever reaches a scheduler may run code as its user.
            cluster = {
                "n_workers": execution.workers,
                "threads_per_worker": 1,
                "dashboard_address": None,
                "security": True,
            }
            return DaskTaskRunner(cluster_kwargs=cluster)
        import os

        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        from prefect_ray.task_runners import RayTaskRunner

        if execution.address:
            return RayTaskRunner(address=execution.address)
        return RayTaskRunner(init_kwargs={"num_cpus": execution.workers, "include_dashboard": False})
    except ModuleNotFoundError:
        missing = execution.runner
    raise StudyError(f"runner '{missing}' is not installed: install causalveil[{missing}]")
