"""Ctrl-C and SIGTERM.

A run unwinds, so that its scratch goes, and one line says what it holds and how to go on.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from causalveil.schemas.errors import CausalveilError

INTERRUPTED, TERMINATED = 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM, which then ends a program as Ctrl-C does.

    It is an exception that every ``finally`` sees.
    """


class Stopped(CausalveilError):
    """A signal that ended the command: Ctrl-C or SIGTERM.

    The exit code is the shell's for the signal: 128 and its number.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        """Say what was stopped and how to go on."""
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # here it is the signal's, and no property of the class


def unwind_on_sigterm() -> None:
    """Have SIGTERM raise :class:`Terminated` in the main thread from now on."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)


def code_of(problem: BaseException | None) -> int:
    """Return the exit code of what stopped a command.

    Prefect has a class of its own for SIGTERM during a flow.
    """
    if isinstance(problem, Terminated) or type(problem).__name__ == "TerminationSignal":
        return TERMINATED
    return INTERRUPTED if isinstance(problem, KeyboardInterrupt) else 1


@contextmanager
def saying_what_is_held(study: Path, run_ids: list[str], *, simulated: bool) -> Iterator[None]:
    """Turn a signal that ends the block into one line.

    Args:
        study: the study file, for the command that goes on.
        run_ids: holds the run's id once it is known.
        simulated: whether nothing can be reserved.

    Raises:
        Stopped: the run was stopped; its message is true by the ledger.
    """
    code = 1
    try:
        yield
        return
    except BaseException as problem:
        code = code_of(problem)
        if code == 1:
            raise
    known = run_ids[-1] if run_ids and not simulated else None
    raise Stopped(_line(study, known), code)


def _line(study: Path, run_id: str | None) -> str:
    if run_id is None:
        return "stopped; nothing was reserved or charged"
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    try:
        run: Any = open_ledger().record(run_id)
    except CausalveilError as problem:
        return f"stopped; what run {run_id} holds cannot be said, since its ledger cannot be read ({problem})"
    if run is None:
        return f"stopped before run {run_id} reserved anything; nothing was charged"
    if run.state == "reserved":
        return _reserved(study, run_id, run)
    if run.state == "finished":
        return f"stopped; run {run_id} is finished; its release: causalveil ledger release {run_id} --out DIR"
    return f"stopped; run {run_id} is {run.state}"


def _reserved(study: Path, run_id: str, run: Any) -> str:
    from causalveil.schemas.privacy import amount_text

    cost, drawn, declared = run.reservation.cost, len(run.charges), len(run.reservation.charges)
    return (
        f"stopped; run {run_id} holds its reservation of epsilon {amount_text(cost.epsilon)}, delta "
        f"{amount_text(cost.delta)} on '{run.reservation.dataset}', with {drawn} of {declared} charges in the ledger; "
        f"go on: causalveil run {study} --run-id {run_id}; or free what was not drawn: causalveil ledger void {run_id} "
        "--reason TEXT"
    )
