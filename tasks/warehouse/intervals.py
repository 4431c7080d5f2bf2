"""The partitions that a declared key spans: half-open intervals of the key's column, one a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

from causalveil.schemas.errors import StudyError
from causalveil.schemas.warehouse import PREVIOUS, Key, Step

MOST_BLOCKS = 100_000


@dataclass(frozen=True)
class KeyInterval:
    """Block ``name=value`` holds the rows with lower <= column < upper."""

    block: str
    value: str
    lower: date | int
    upper: date | int


# The one block of a source without a key: all of its rows.
EVERYTHING = KeyInterval("rows=all", "all", 0, 0)
# The rows without a value in the key's column, which no block holds.
KEYLESS = KeyInterval("", "", -1, -1)


def intervals(key: Key | None, today: date) -> tuple[KeyInterval, ...]:
    """Every block of the declared range, in order.

    Args:
        key: the declaration; None: all rows are one block.
        today: what ``last: previous`` is reckoned from: the newest step that is over on that day.

    Raises:
        StudyError: the range is empty, as when ``first`` is not over yet, or has more than 100,000 blocks.
    """
    if key is None:
        return (EVERYTHING,)
    edges = list(_edges(key, today))
    if len(edges) < 2:
        raise StudyError(
            f"key '{key.name}': no {key.step} from {key.first} on is over yet, so there is nothing to take"
        )
    return tuple(
        KeyInterval(f"{key.name}={_written(key.step, lower)}", _written(key.step, lower), lower, upper)
        for lower, upper in pairwise(edges)
    )


def _edges(key: Key, today: date) -> Iterator[date | int]:
    """Lower edges of all blocks, and the upper edge of the last."""
    edge = _start(key.step, key.first)
    # 'previous' ends where the present step begins.
    stop = _begin(key.step, today) if key.last == PREVIOUS else _next(key.step, _start(key.step, key.last))
    for _ in range(MOST_BLOCKS + 1):
        if _number(edge) > _number(stop):
            return
        yield edge
        edge = _next(key.step, edge)
    raise StudyError(f"key '{key.name}': more than {MOST_BLOCKS} blocks; take a longer step")


def _number(edge: date | int) -> int:
    return edge if isinstance(edge, int) else edge.toordinal()


def _start(step: Step, value: str) -> date | int:
    return int(value) if step is Step.integer else date.fromisoformat((value + "-01-01")[:10])


def _begin(step: Step, day: date) -> date:
    """The first day of the step that ``day`` is in."""
    return {Step.day: day, Step.month: day.replace(day=1), Step.year: day.replace(month=1, day=1)}[step]


def _next(step: Step, edge: date | int) -> date | int:
    if isinstance(edge, int):
        return edge + 1
    ahead = {Step.day: 1, Step.month: 32, Step.year: 366}[step]
    return _begin(step, edge + timedelta(days=ahead))


def _written(step: Step, edge: date | int) -> str:
    return str(edge) if isinstance(edge, int) else edge.isoformat()[: {Step.day: 10, Step.month: 7, Step.year: 4}[step]]
