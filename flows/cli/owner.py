"""`causalveil owner`: the key by which a data owner's word is told from anybody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from causalveil.flows.cli import show
from causalveil.flows.cli.options import Json

owner_app = typer.Typer(help="The data owner's key, which signs grants and reviews.", no_args_is_help=True)


@owner_app.callback()
def owner() -> None:
    """The data owner's key, which signs grants and reviews."""


@owner_app.command()
def key(
    file: Annotated[
        Path | None,
        typer.Option(
            "--key", metavar="FILE", help="the private key [default: CAUSALVEIL_OWNER_KEY, else owner.key in the home]"
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Print the public key, for the contract's `owner_key`; make the private key on first use, for its owner alone."""
    from causalveil.tasks.privacy.owner import owner_key

    public = owner_key(file, create=True).public
    if json_:
        show.document({"owner_key": public})
    else:
        show.line(public)
