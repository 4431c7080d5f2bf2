"""The one small place that binds stages to an engine.

The order of stages is not decided here.

Both engines make the same calls in the same process. A call that ends in an error of ours passes it on; any other
exception is replaced, since a library's message may quote the data and Prefect stores what it is told.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

from causalveil.schemas.errors import CausalveilError, kind_of
from causalveil.schemas.hints import option
from causalveil.schemas.ledger import Reservation
from causalveil.schemas.plan import Execution, Runner
from causalveil.schemas.privacy import Charge
from causalveil.tasks.machine.distribute import distributing_by

if TYPE_CHECKING:
    from causalveil.schemas.release import Release


P = ParamSpec("P")
R = TypeVar("R")
PACKAGE = Path(__file__).parents[2]


def guarded(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that is no stage.

    Typed errors pass; the text of all others is withheld.

    Raises:
        CausalveilError: see :func:`guarded_as`.
    """
    return guarded_as(function.__name__.removesuffix("_stage"), partial(function, *args, **kwargs))


def guarded_as(name: str, call: Callable[[], R]) -> R:
    """Call a stage of that name; let typed errors pass and withhold the text of all others.

    Raises:
        CausalveilError: the stage's own, or one that names the stage, the exception's type and the place in our
            code, never its message.
    """
    failure: CausalveilError
    try:
        return call()
    except CausalveilError as problem:
        failure = problem.with_traceback(None)
    except BaseException as problem:
        # A panic of polars is no Exception, and quotes values; an interrupt or a signal passes.
        if not isinstance(problem, Exception) and type(problem).__name__ != "PanicException":
            raise
        failure = withheld(f"stage '{name}'", problem)
    # Raised outside the except clause, so that no context with data in it hangs on the error.
    failure.__cause__ = failure.__context__ = None
    raise failure


def withheld(doing: str, problem: BaseException) -> CausalveilError:
    """Return the error that replaces an error of a library or a defect.

    It names type and place, never the message, which may quote data. ``doing``: the work that failed.
    """
    if isinstance(problem, MemoryError):
        return CausalveilError(
            f"{doing} ran out of memory {place(problem)}; have fewer parts worked on at a time "
            "(CAUSALVEIL_WORKERS=1), write smaller Parquet files and admit them anew, or use a larger machine"
        )
    return CausalveilError(
        f"{doing} failed with {named(problem)} {place(problem)}; its message is withheld because it may quote data"
    )


def named(problem: BaseException) -> str:
    """Return the type of an error, and the system's reason where it has one."""
    kind, reason = type(problem).__name__, kind_of(problem)
    return kind if reason == kind else f"{kind} ({reason})"


def place(problem: BaseException) -> str:
    """Return the innermost line of causalveil's own code on the way to ``problem``."""
    ours = [frame for frame in traceback.extract_tb(problem.__traceback__) if is_ours(frame.filename)]
    if not ours:
        return "outside causalveil's code"
    return f"at {Path(ours[-1].filename).relative_to(PACKAGE)}:{ours[-1].lineno}"


def is_ours(file: str) -> bool:
    """Return whether a frame's file belongs to the package, in a checkout or an installed wheel."""
    return Path(file).is_relative_to(PACKAGE)


_LOG = logging.getLogger("causalveil.flow")

Watcher = Callable[[str], None]


@dataclass(frozen=True)
class Task(Generic[R]):
    """One piece of work of a flow, as an engine is handed it.

    Attributes:
        name: of the work, which a terminal shows.
        call: does it, with its arguments bound: no engine sees them.
        part: the block that it is for, where there are several.
        charges: that it declares of the flow's budget.
        reads: titles of the tasks whose results it reads.
    """

    name: str
    call: Callable[[], R]
    part: str = ""
    charges: tuple[Charge, ...] = ()
    reads: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name and part, which together are unique in a flow."""
        return f"{self.name}, {self.part}" if self.part else self.name


class Engine(Protocol):
    """Runs tasks in turn, and shows public tables."""

    def __call__(self, task: Task[R]) -> R:
        """Run ``task`` and return what its call returns."""
        ...

    def publish(self, key: str, rows: list[dict[str, Any]], description: str) -> None:
        """Show a table of public values wherever the engine shows tables."""
        ...

    def announce(self, run: Reservation) -> None:
        """Name the run whose budget the following tasks spend."""
        ...

    def deliver(self, release: Release, write: Callable[[], Path]) -> Path:
        """Write a release by ``write``, which returns its file, and show it."""
        ...

    def distributing(self, execution: Execution) -> AbstractContextManager[None]:
        """Have work on partitions done where ``execution`` says, while the block runs."""
        ...


class DirectEngine:
    """Plain calls, no Prefect: for notebooks and tests."""

    def __init__(self, watch: Watcher = lambda _: None) -> None:
        """``watch`` is told the name of each task as it starts."""
        self._watch = watch

    def __call__(self, task: Task[R]) -> R:
        """Run ``task`` in this process."""
        self._watch(task.name)
        return guarded_as(task.name, task.call)

    def publish(self, key: str, rows: list[dict[str, Any]], description: str) -> None:
        """Do nothing: the ledger and the release hold the same rows."""

    def announce(self, run: Reservation) -> None:
        """Do nothing."""

    def deliver(self, release: Release, write: Callable[[], Path]) -> Path:
        """Write it."""
        del release
        return write()

    def distributing(self, execution: Execution) -> AbstractContextManager[None]:
        """Distribute over threads of this process.

        Where the settings name a cluster it says that it starts none: Prefect's engine does.
        """
        if execution.runner is not Runner.threads:
            _LOG.warning(
                f"engine 'direct' works on threads of this process, and not on the runner '{execution.runner}' of the "
                f"settings: use {option(engine='prefect')} for that"
            )
        return distributing_by(None)
