"""Distribute work on partitions, and report its progress.

A stage gives :func:`distribute` a function of a partition's number. By default it runs on threads, as
:func:`map_partitions` runs it. An engine may put a distributor in place for the time of a run, which sends the function
to other processes or machines. They share the file system: scratch, data and study files lie where the flow's process
sees them, and function and result are pickled. The results come in order of partitions wherever they are computed, and
sums over them are taken here; so a release does not depend on where its parts were computed.

Noise is drawn in the flow's process alone. A worker never has a ledger or a noise source; if a function tried to spend
there, ``FlowBudget`` refuses.

Progress is reported as counts of partitions, blocks and runs, which are public. No count depends on a row: the number
of steps is known before, and passes of an optimiser are not reported.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from threadpoolctl import ThreadpoolController

from causalveil.schemas.errors import CausalveilError

T = TypeVar("T")


class Distributor(Protocol):
    """A callable that applies a function to 0, ..., count - 1, here or on other machines.

    The function can be pickled. Results are in order, or the first error is raised.
    """

    def __call__(self, function: Callable[[int], T], count: int) -> list[T]:
        """Return ``[function(0), ..., function(count - 1)]``."""
        ...


_DISTRIBUTOR: ContextVar[Distributor | None] = ContextVar("distributor", default=None)
_ON_WORKER: ContextVar[bool] = ContextVar("on_worker", default=False)


def distribute(function: Callable[[int], T], count: int, workers: int) -> list[T]:
    """Apply ``function`` to 0 .. count-1; results come in order of partitions.

    Args:
        function: reads and writes files of its own partition alone, holds nothing that cannot be pickled (no open
            file, no mapped array), draws no noise, and has the same result when it is run again.
        count: number of partitions.
        workers: threads, where no distributor is in place.
    """
    distributor = _DISTRIBUTOR.get()
    return map_partitions(function, count, workers) if distributor is None else distributor(function, count)


@contextmanager
def distributing_by(distributor: Distributor | None) -> Iterator[None]:
    """Have every :func:`distribute` of the block done by ``distributor``.

    If it is None, threads do it.
    """
    token = _DISTRIBUTOR.set(distributor)
    try:
        yield
    finally:
        _DISTRIBUTOR.reset(token)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread for the block, in every library loaded at its start.

    Threads over partitions are the parallelism, small products wait for each other longer than they compute, and the
    order of a library's own reductions would depend on its thread count.
    """
    with _libraries(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _libraries(_modules: int) -> ThreadpoolController:
    """Return the libraries of this process that have threads.

    The search takes milliseconds, so it is repeated only when modules were imported since: scipy brings a BLAS of its
    own, scikit-learn an OpenMP. An extension is counted after its libraries are loaded, so an import in another thread
    cannot be missed by the count.
    """
    return ThreadpoolController()


def worker_part(function: Callable[[int], T], indexes: Sequence[int]) -> list[T]:
    """Compute a worker's partitions one after the other, BLAS on one thread, no way to spend."""
    token = _ON_WORKER.set(True)
    try:
        with one_thread():
            return [function(index) for index in indexes]
    finally:
        _ON_WORKER.reset(token)


def on_worker() -> bool:
    """Check whether this code runs for :func:`worker_part`, away from the flow's process."""
    return _ON_WORKER.get()


def refuse_on_worker() -> None:
    """Refuse to draw noise on a worker.

    Raises:
        CausalveilError: this code runs on a worker.
    """
    if on_worker():
        raise CausalveilError(
            "a draw of noise must run in the flow's process and was asked for on a worker; report this"
        )


def worker_parts(count: int, workers: int) -> list[Sequence[int]]:
    """Cut 0, ..., count - 1 into at most ``workers`` ranges of sizes as equal as possible."""
    pieces = min(count, workers)
    edges = [index * count // pieces for index in range(pieces + 1)] if pieces else [0]
    return [range(low, high) for low, high in pairwise(edges)]


def gathered(parts: Sequence[list[Any]]) -> list[Any]:
    """Return the results of consecutive parts as one list."""
    return [result for part in parts for result in part]


def map_partitions(function: Callable[[int], T], count: int, workers: int) -> list[T]:
    """Apply ``function`` to 0, ..., count - 1 on ``workers`` threads.

    Results come in the order of partitions.

    BLAS is held to one thread for the time: threads over partitions are the parallelism, and the order of
    BLAS's own reductions would depend on its thread count. The first error in partition order is raised;
    partitions not yet begun are dropped.
    """
    with one_thread():
        # A worker of a cluster is one of many on its machine.
        if workers <= 1 or count <= 1 or on_worker():
            return [function(index) for index in range(count)]
        with ThreadPoolExecutor(max_workers=min(workers, count)) as pool:
            futures = [pool.submit(function, index) for index in range(count)]
            try:
                return [future.result() for future in futures]
            finally:
                for future in futures:
                    future.cancel()


def while_more_come(function: Callable[[T], None], items: Iterable[T], workers: int) -> None:
    """Call ``function`` with each of ``items`` while this thread reads the next items.

    At most ``workers`` items are in memory. An error, of the reader too, ends it; items not yet begun are dropped.
    """
    # A worker of a cluster is one of many on its machine.
    if workers <= 1 or on_worker():
        for item in items:
            function(item)
        return
    with ThreadPoolExecutor(max_workers=workers - 1) as pool:
        begun: deque[Future[None]] = deque()
        try:
            for item in items:
                if len(begun) == workers - 1:
                    begun.popleft().result()
                begun.append(pool.submit(function, item))
            while begun:
                begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()


# Called with the number of steps that are done, and of all.
Steps = Callable[[int, int], None]
_STEPS: ContextVar[Steps | None] = ContextVar("steps", default=None)


def in_steps(items: Iterable[T], count: int) -> Iterator[T]:
    """Yield the items, and report after each the number of those done of ``count``."""
    tell(0, count)
    for done, item in enumerate(items, start=1):
        yield item
        tell(done, count)


def tell(done: int, count: int) -> None:
    """Report progress to :func:`watched_by`; on a worker of a cluster to nothing."""
    steps = _STEPS.get()
    if steps is not None:
        steps(done, count)


@contextmanager
def watched_by(steps: Steps) -> Iterator[None]:
    """Report steps to ``steps`` within the block."""
    token = _STEPS.set(steps)
    try:
        yield
    finally:
        _STEPS.reset(token)
