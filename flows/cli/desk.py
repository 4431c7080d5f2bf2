"""`causalveil desk` and `ledger export`: what the owner sees and hands on."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from causalveil.flows.cli import show
from causalveil.flows.cli.options import Json


class ExportChoice(StrEnum):
    """Tables for people and programs, or entries of a public registry."""

    csv = "csv"
    parquet = "parquet"
    registry = "registry"


def desk(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="where the pages go")] = Path("desk"),
    json_: Json = False,
) -> None:
    """Write the owner's desk: every dataset, what was spent, by whom, when it runs dry, what waits for review.

    Static pages, read from the ledger after its whole chain was verified. With --json the same as one document.
    """
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    ledger = open_ledger()
    if json_:
        from causalveil.tasks.privacy.outlook.desk import desk_of

        show.document(desk_of(ledger).model_dump(mode="json"))
        return
    from causalveil.flows.planning.desk import write_desk

    show.line(f"Wrote {write_desk(ledger, out)[0]}")


def export(
    dataset: Annotated[str | None, typer.Argument(help="the dataset's name [default: all]", show_default=False)] = None,
    form: Annotated[
        ExportChoice, typer.Option("--format", help="tables of runs, charges and refusals, or entries of a registry")
    ] = ExportChoice.csv,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="where the files go")] = Path("export"),
    json_: Json = False,
) -> None:
    """Hand on what the ledger says: as CSV or Parquet, or as entries of OpenDP's registry of deployments.

    A registry's entry comes with the points of NIST SP 800-226. No released value is in any of the files.
    """
    from causalveil.flows.planning.export import ExportFormat
    from causalveil.flows.planning.export import export as write
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    written = write(open_ledger(), out, ExportFormat(form), dataset)
    if json_:
        show.document({"files": [str(path) for path in written]})
        return
    for path in written:
        show.line(f"Wrote {path}")
    if not written:
        show.line("Nothing to write: no run is finished.")
