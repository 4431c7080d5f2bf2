"""`causalveil audit`: what happened in a run, from the ledger's verified chain and from Prefect's record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from causalveil.flows.cli import show
from causalveil.flows.cli.options import Json


def audit(
    run: Annotated[str, typer.Argument(metavar="RUN", help="the run's id", show_default=False)],
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="also write the page to this file")] = None,
    json_: Json = False,
) -> None:
    """Tell what happened in RUN: charges with their ledger hashes, stages, retries, refusals. Verifies the chain."""
    from causalveil.flows.cli.audit_page import lines, trail_of
    from causalveil.tasks.machine.files import write_whole

    trail = trail_of(run)
    text = "\n".join(lines(trail)) + "\n"
    if page is not None:
        write_whole(page, text)
    if json_:
        show.document(
            {**trail.model_dump(mode="json"), "refusals": max(len(trail.refused), len(trail.prefect.refusals))}
        )
    else:
        show.line(text.rstrip("\n"))
