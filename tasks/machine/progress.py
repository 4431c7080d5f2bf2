"""How far a long piece of work is, for whoever watches: counts of partitions, blocks and runs, which are public.

Nothing here depends on a row: work is told in steps whose number was known before, and never in passes of an optimiser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
# Is told how many steps are done, of how many.
Steps = Callable[[int, int], None]
_STEPS: ContextVar[Steps | None] = ContextVar("steps", default=None)


def in_steps(items: Iterable[T], count: int) -> Iterator[T]:
    """The items, telling after each how many of ``count`` are done."""
    tell(0, count)
    for done, item in enumerate(items, start=1):
        yield item
        tell(done, count)


def tell(done: int, count: int) -> None:
    """Tell whoever watches; on a worker of a cluster nobody does."""
    steps = _STEPS.get()
    if steps is not None:
        steps(done, count)


@contextmanager
def watched_by(steps: Steps) -> Iterator[None]:
    """Within the block ``steps`` is told."""
    token = _STEPS.set(steps)
    try:
        yield
    finally:
        _STEPS.reset(token)
