"""Work on partitions on the cluster of one of Prefect's task runners, for the time of a run.

The task runner starts or finds the cluster and ends with the run. The parts of the work are given to the cluster
itself and not recorded by Prefect: how many passes a solver makes depends on the data, and so would the number of task
runs in Prefect's database. Cluster, workers and what they say to each other belong to the enclave.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from causalveil.flows.engine.engine import guarded
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.plan import Execution, Runner
from causalveil.tasks.machine.distribute import Distributor, distributing_by, gathered, worker_part, worker_parts

T = TypeVar("T")
Attempt = tuple[list[T], CausalveilError | None]


def attempt(function: Callable[[int], T], indexes: Sequence[int]) -> Attempt[T]:
    """Compute one part of the work on a worker; return its answer, or else its error.

    An error is returned like any answer: clusters log what is raised, with its arguments.
    """
    try:
        return guarded(worker_part, function, indexes), None
    except CausalveilError as problem:
        return [], problem.with_traceback(None)


def _gather(answers: Sequence[Attempt[T]]) -> list[T]:
    """Return all results in order; raises the first error in order of partitions."""
    for _, problem in answers:
        if problem is not None:
            raise problem
    return gathered([part for part, _ in answers])


def _over_dask(runner: Any, workers: int) -> Distributor:
    """Return a distributor of parts as tasks of the cluster's own scheduler.

    The work of a worker that dies is done again by another.
    """
    client = runner.client

    def distributor(function: Callable[[int], T], count: int) -> list[T]:
        futures = [client.submit(attempt, function, part, pure=False) for part in worker_parts(count, workers)]
        return _gather([future.result() for future in futures])

    return distributor


def _over_ray(workers: int) -> Distributor:
    """Return a distributor of parts as Ray tasks, which Ray repeats if their worker dies."""
    import ray

    remote: Any = ray.remote(attempt)

    def distributor(function: Callable[[int], T], count: int) -> list[T]:
        return _gather(ray.get([remote.remote(function, part) for part in worker_parts(count, workers)]))

    return distributor


@contextmanager
def running_on(execution: Execution) -> Iterator[None]:
    """Start what the operator's ``execution`` names and distribute partitions over it.

    Raises:
        CausalveilError: the extra is not installed, or the cluster cannot be reached.
    """
    if execution.runner is Runner.threads:
        with distributing_by(None):
            yield
        return
    started = False
    try:
        with _runner(execution) as runner:
            dask = execution.runner is Runner.dask
            distributor = _over_dask(runner, execution.workers) if dask else _over_ray(execution.workers)
            started = True
            with distributing_by(distributor):
                yield
    except Exception as problem:
        if started or isinstance(problem, CausalveilError):
            raise
        failure = CausalveilError(
            f"the {execution.runner} cluster{' at ' + execution.address if execution.address else ''} cannot be used "
            f"({type(problem).__name__}); check 'execution.address' in site.toml, "
            "and that its workers have this causalveil"
        )
        failure.__cause__ = None
        raise failure from None


def _security(execution: Execution) -> dict[str, Any]:
    """Return the TLS arguments for a client of the operator's scheduler; empty if none are set."""
    if execution.tls is None:
        return {}
    from distributed import Security

    tls = execution.tls
    return {
        # Dask's class has no annotations.
        "security": Security(  # type: ignore[no-untyped-call]
            require_encryption=True,
            tls_ca_file=str(tls.ca),
            tls_client_cert=str(tls.cert),
            tls_client_key=str(tls.key),
        )
    }


def _runner(execution: Execution) -> Any:
    """Return a task runner, not started."""
    try:
        if execution.runner is Runner.dask:
            from prefect_dask.task_runners import DaskTaskRunner

            if execution.address:
                return DaskTaskRunner(address=execution.address, client_kwargs=_security(execution))
            # TLS with keys of the run's own: whoever reaches a scheduler may run code as its user.
            cluster = {
                "n_workers": execution.workers,
                "threads_per_worker": 1,
                "dashboard_address": None,
                "security": True,
            }
            return DaskTaskRunner(cluster_kwargs=cluster)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        from prefect_ray.task_runners import RayTaskRunner

        if execution.address:
            return RayTaskRunner(address=execution.address)
        return RayTaskRunner(init_kwargs={"num_cpus": execution.workers, "include_dashboard": False})
    except ModuleNotFoundError:
        missing = execution.runner
    raise StudyError(f"runner '{missing}' is not installed: install causalveil[{missing}]")
