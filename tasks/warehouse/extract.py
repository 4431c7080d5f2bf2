"""Cut an extract into blocks by intervals of its key, and mark one that is not finished.

Intervals of the key are half-open. The folder of an extract that is under way, or died, holds whole blocks and is not a
study's data yet: the newest three of some months are other months than the newest three of all. Functions that list the
partitions of a folder therefore ask here first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.warehouse import MANIFEST_FILE, PREVIOUS, Key, Step
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.machine.files import sync_folder, whole_file

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
    """Return every block of the declared range, in order.

    Args:
        key: the declaration; None: all rows are one block.
        today: the day on which the step of ``last: previous`` is the newest that is over.

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
    """Yield lower edges of all blocks, and the upper edge of the last."""
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
    """Return the first day of the step that ``day`` is in."""
    return {Step.day: day, Step.month: day.replace(day=1), Step.year: day.replace(month=1, day=1)}[step]


def _next(step: Step, edge: date | int) -> date | int:
    if isinstance(edge, int):
        return edge + 1
    ahead = {Step.day: 1, Step.month: 32, Step.year: 366}[step]
    return _begin(step, edge + timedelta(days=ahead))


def _written(step: Step, edge: date | int) -> str:
    return str(edge) if isinstance(edge, int) else edge.isoformat()[: {Step.day: 10, Step.month: 7, Step.year: 4}[step]]


BLOCK_FILE = "_block.json"
# There from before an extract changes the first block until its manifest is written.
UNFINISHED_FILE = "_unfinished"


def begin_change(folder: Path) -> None:
    """Mark a folder as unfinished, on disk before any of its blocks changes.

    Raises:
        OSError: it cannot be written.
    """
    if not (folder / UNFINISHED_FILE).exists():
        with whole_file(folder / UNFINISHED_FILE, durable=True):
            pass


def end_change(folder: Path) -> None:
    """Take the mark off, once the manifest names every block of the folder.

    Raises:
        OSError: it cannot be removed.
    """
    (folder / UNFINISHED_FILE).unlink(missing_ok=True)
    sync_folder(folder)


def refuse_unfinished(folder: DataFolder) -> None:
    """Refuse a folder that an extract has not filled to its end.

    Raises:
        DataError: an extract is under way, or did not end; or the folder holds a block that its manifest does not
            name, or lacks one that it names.
    """
    made = {name for name in folder.names() if name[0] != "." and folder.holds(f"{name}/{BLOCK_FILE}")}
    marked = folder.holds(UNFINISHED_FILE)
    if not (marked or made or folder.holds(MANIFEST_FILE)):
        return
    manifest = None if marked else folder.manifest()
    named = set() if manifest is None else {block.block for block in manifest.blocks}
    if marked or not made <= named or not all(folder.is_folder(block) for block in named - made):
        raise DataError(
            f"{folder}: an extract fills this folder and has not ended, so its blocks are not data yet; let it end, or "
            "run it again: causalveil extract SOURCE"
        )
