"""The one small place that binds stages to an engine. The order of stages is not decided here.

Both engines call the same functions in the same process. A stage that ends in an error of ours passes it on; any
other exception is replaced, since a library's message may quote the data and Prefect stores what it is told.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from causalveil.flows.engine.guard import P, R, guarded, stage_name
from causalveil.schemas.execution import Execution
from causalveil.schemas.ledger import Reservation
from causalveil.tasks.machine.distribute import distributing_by

if TYPE_CHECKING:
    from causalveil.schemas.release import Release

Watcher = Callable[[str], None]


class Engine(Protocol):
    """Runs one stage after the other; shows a public table."""

    def __call__(self, stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run ``stage`` and return what it returns."""
        ...

    def publish(self, key: str, rows: list[dict[str, Any]], description: str) -> None:
        """Show a table of public values wherever the engine shows such things."""
        ...

    def announce(self, run: Reservation) -> None:
        """Say whose budget the stages that follow spend."""
        ...

    def deliver(self, release: Release, write: Callable[[], Path]) -> Path:
        """Write a release by ``write``, which returns its file, and show it wherever the engine shows such things."""
        ...

    def distributing(self, execution: Execution) -> AbstractContextManager[None]:
        """While the block runs, have work on partitions done where ``execution`` says."""
        ...


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

    def announce(self, run: Reservation) -> None:
        """Nobody to tell."""

    def deliver(self, release: Release, write: Callable[[], Path]) -> Path:
        """Write it."""
        del release
        return write()

    def distributing(self, execution: Execution) -> AbstractContextManager[None]:
        """On threads of this process, whatever the settings say: a notebook has no cluster."""
        del execution
        return distributing_by(None)
