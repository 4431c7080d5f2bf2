"""The burn-down of a dataset's accounts as files, from the ledger alone."""

from __future__ import annotations

from pathlib import Path

from causalveil.schemas.errors import StudyError
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.privacy.ledger.ledger import Ledger
from causalveil.tasks.privacy.outlook.standing import burndowns
from causalveil.tasks.report.burndown import burndown_html, burndown_svg

WRITERS = {".html": burndown_html, ".svg": burndown_svg}


def draw(ledger: Ledger, dataset: str, place: Path) -> list[Path]:
    """Write the chart and return its files.

    ``place`` is an .html or .svg file, or a folder for both (DATASET-budget.html and .svg).

    Raises:
        StudyError: unknown dataset, another kind of file, or a file cannot be written.
        LedgerError: the ledger cannot be used.
    """
    if place.suffix and place.suffix not in WRITERS and not place.is_dir():
        raise StudyError(f"{place}: a chart is an .html or .svg file; name one, or a folder for both")
    if not ledger.knows(dataset):
        raise StudyError(f"dataset '{dataset}' is unknown to this ledger: nobody granted or asked anything of it")
    found = burndowns(ledger.history(dataset), ledger.identity, dataset)
    account = ledger.account(dataset)
    paths = [place] if place.suffix in WRITERS else [place / f"{dataset}-budget{suffix}" for suffix in WRITERS]
    return [write_whole(path, WRITERS[path.suffix](account, found)) for path in paths]
