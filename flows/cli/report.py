"""`causalveil report`: a release as a page for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from causalveil.flows.cli import show
from causalveil.flows.cli.options import Json


def report(
    release: Annotated[
        Path,
        typer.Argument(metavar="RELEASE", help="a release.json of any kind, or its run's folder", show_default=False),
    ],
    out: Annotated[Path | None, typer.Option(help="the file to write [default: report.html beside it]")] = None,
    contract: Annotated[
        Path | None, typer.Option(help="the owner's dataset.yaml, for the reporting guidelines", show_default=False)
    ] = None,
    json_: Json = False,
) -> None:
    """Write RELEASE as one self-contained HTML page, with TARGET, STROBE and RECORD-PE filled in as far as is known.

    Reads RELEASE and the contract, if it is named, and asks no network.
    """
    from causalveil.flows import api

    path = api.report(release, out=out, contract=contract)
    if json_:
        show.document({"report": str(path)})
    else:
        show.line(f"Wrote {path}")
