"""`causalveil ledger forecast` and `ledger chart`: how long a dataset's budget lasts, and how it burned down."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from causalveil.flows.cli import show
from causalveil.flows.cli.options import Json
from causalveil.schemas.errors import StudyError

Dataset = Annotated[str, typer.Argument(help="the dataset's name, as its contract says", show_default=False)]


def forecast(
    dataset: Dataset,
    study: Annotated[
        Path | None, typer.Option(metavar="FILE", help="the study.yaml that runs [default: the last run again]")
    ] = None,
    every: Annotated[
        str, typer.Option(metavar="week|month|CRON", help="when it runs, in UTC: also day, year, or a cron expression")
    ] = "week",
    start: Annotated[str | None, typer.Option(metavar="DATE", help="the schedule's first day [default: today]")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="which epsilon lasts until the end of this day?")
    ] = None,
    json_: Json = False,
) -> None:
    """Say when a schedule runs DATASET's budget dry, and which epsilon lasts. Reads no row, charges nothing."""
    from causalveil.flows.planning.forecast import forecast as foresee
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    begin, end = _day("--start", start), _day("--until", until)
    found = foresee(open_ledger(), dataset, study=study, every=every, start=begin, until=end)
    if json_:
        show.document(found)
    else:
        for sentence in found["sentences"]:
            show.line(sentence)


def chart(
    dataset: Dataset,
    out: Annotated[
        Path | None, typer.Option(help="an .html or .svg file, or a folder for both [default: this folder]")
    ] = None,
    json_: Json = False,
) -> None:
    """Draw how each account of DATASET burned down, with every run. Reads the ledger alone."""
    from causalveil.flows.planning.chart import draw
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    written = draw(open_ledger(), dataset, out or Path())
    if json_:
        show.document({"dataset": dataset, "files": [str(path) for path in written]})
    else:
        for path in written:
            show.line(f"Wrote {path}")


def _day(option: str, text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise StudyError(f"{option} must be a date such as 2027-12-31") from None
