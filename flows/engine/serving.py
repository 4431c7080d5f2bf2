"""Which Prefect server a command's flow runs on, and what to tell its user about that.

The server that Prefect's settings name comes first, wherever they name it: environment, profile or file. Then comes the
user's own (`causalveil server start`), and else Prefect's temporary one, which starts and stops with the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# What this process has to tell once its command is done.
_NOTES: list[str] = []
OFFER = (
    "Prefect started and stopped a temporary server for this run, which takes 10 to 20 seconds each time. "
    "To keep one of your own for later runs: causalveil server start"
)


@contextmanager
def on_a_server() -> Iterator[None]:
    """Have Prefect run a flow on the user's own server while the block runs, unless its settings name one."""
    from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    own = own_server()
    if not own and not PREFECT_API_URL.value():
        _offer()
    # The heartbeat thread costs a second at the end of a flow that lasts a few.
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, **own}):
        yield


def own_server() -> dict[Any, Any]:
    """Return the settings that make Prefect use the user's own server; none if it is told of one, or none is usable."""
    from importlib.metadata import version

    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL

    from causalveil.flows.engine.server import find

    found = None if PREFECT_API_URL.value() else find()
    if found is None:
        return {}
    problem = None
    if found.prefect != version("prefect"):
        problem = f"runs Prefect {found.prefect}, and this is {version('prefect')}"
    elif not found.answers():
        problem = "does not answer"
    if problem:
        _note(
            f"Your Prefect server (process {found.pid}) {problem}, and was not used. "
            "Start it anew: causalveil server stop && causalveil server start"
        )
        return {}
    return {PREFECT_API_URL: found.url, PREFECT_API_AUTH_STRING: found.credentials}


def notes() -> tuple[str, ...]:
    """Return what is to be told once the command is done, each sentence once."""
    told = tuple(_NOTES)
    _NOTES.clear()
    return told


def _offer() -> None:
    """Offer a server of the user's own, once for a state folder: where its folder is, it has been offered."""
    from causalveil.flows.engine.server import FOLDER, server_folder
    from causalveil.tasks.machine.site import home

    if not (home() / FOLDER).exists():
        server_folder()
        _note(OFFER)


def _note(text: str) -> None:
    if text not in _NOTES:
        _NOTES.append(text)
