"""`causalveil check`: every problem of a study and its contract at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from causalveil.flows.cli import show
from causalveil.flows.cli.options import Json


def check(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="the study.yaml", show_default=False)],
    schema: Annotated[
        bool, typer.Option("--schema", help="print the pandera schema that all columns and rows are held to, and end")
    ] = False,
    json_: Json = False,
) -> None:
    """List every problem of STUDY and of its data's contract, with line and fix. Reads no row, charges nothing."""
    from causalveil.flows.sequence.check import check as problems_of
    from causalveil.flows.sequence.check import schema_of

    if schema:
        contract, held = schema_of(study)
        columns = held.told()
        if json_:
            show.document({"dataset": contract.dataset, "columns": columns, "pandera": str(held.schema)})
        else:
            show.schema(contract.dataset, columns)
        return
    from causalveil.tasks.warehouse.object_storage import shown

    problems = problems_of(study)
    if json_:
        show.document(
            {"problems": [{"file": shown(one.file), "line": one.line, "text": shown(one.text)} for one in problems]}
        )
    else:
        for problem in problems:
            show.line(shown(str(problem)))
        show.line(f"{len(problems)} problem(s)." if problems else f"{study}: nothing is wrong.")
    if problems:
        raise typer.Exit(2)
