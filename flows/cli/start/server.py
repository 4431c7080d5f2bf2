"""`causalveil server`: one Prefect server of the user's own, which later runs find by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from causalveil.flows.cli import show
from causalveil.flows.cli.show import Json

if TYPE_CHECKING:
    from causalveil.flows.engine.server import KeptServer

server_app = typer.Typer(no_args_is_help=True, help="Keep a Prefect server of your own, which later runs find.")


@server_app.command()
def start(json_: Json = False) -> None:
    """Start the server and leave it running, until `server stop` or a restart.

    It listens on loopback and asks for a password.
    """
    from causalveil.flows.engine import server

    with show.progress() as watch:
        watch("Prefect's server")
        found, begun = server.start()
    if json_:
        show.document({"started": begun, **_shown(found)})
    else:
        verb = "Started" if begun else "Already running:"
        show.line(f"{verb} Prefect {found.prefect} at {found.url}, process {found.pid}.")
        show.line("Later runs of yours find it by themselves. Stop it: causalveil server stop")


@server_app.command()
def status(json_: Json = False) -> None:
    """Say whether the server runs and answers, and where its pages and its password are."""
    from causalveil.flows.engine import server

    found = server.find()
    answers = found is not None and found.answers()
    if json_:
        show.document({"running": found is not None, "answers": answers, **({} if found is None else _shown(found))})
    elif found is None:
        show.line("No Prefect server of yours is running; each run starts one. To keep one: causalveil server start")
    else:
        does = "answers" if answers else "does not answer; start it anew: causalveil server stop, then start"
        show.line(f"Prefect {found.prefect} at {found.url}, process {found.pid}, {does}.")
        show.line(f"Its pages: {found.url.removesuffix('/api')}; the password is in {_record()}, under credentials.")


@server_app.command()
def stop(json_: Json = False) -> None:
    """Stop the server. What it recorded stays, and is there again after the next start."""
    from causalveil.flows.engine import server

    found = server.stop()
    if json_:
        show.document({"stopped": found is not None, **({} if found is None else {"pid": found.pid})})
    else:
        show.line("No Prefect server of yours was running." if found is None else f"Stopped process {found.pid}.")


def _shown(found: KeptServer) -> dict[str, str | int]:
    """Return what a script may want to know; the password stays in its file."""
    return {"url": found.url, "pid": found.pid, "prefect": found.prefect, "credentials_in": str(_record())}


def _record() -> Path:
    from causalveil.flows.engine.server import RECORD, server_folder

    return server_folder() / RECORD
