"""`causalveil replicate`: the tables and figures of the papers, made again with this code on public data.

One function per paper, in a module of its own; each writes tables (CSV), a page (Markdown) and figures (SVG).
"""

from __future__ import annotations

import typer

from flows.replicate_direction import direction

replicate_app = typer.Typer(
    no_args_is_help=True, help="Make the papers' tables and figures again, with seeded noise on public data."
)


@replicate_app.callback()
def replicate() -> None:
    """Make the papers' tables and figures again, with seeded noise on public data."""


replicate_app.command()(direction)
