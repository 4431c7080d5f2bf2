"""The owner's desk as a folder of pages, from the ledger alone."""

from __future__ import annotations

from pathlib import Path

from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.privacy.ledger.ledger import Ledger
from causalveil.tasks.privacy.outlook.desk import desk_of
from causalveil.tasks.privacy.outlook.standing import burndowns
from causalveil.tasks.report.burndown import dataset_html, desk_html


def write_desk(ledger: Ledger, folder: Path) -> list[Path]:
    """Write ``index.html`` and a page for each dataset, ``datasets/DATASET.html``.

    Raises:
        StudyError: a file cannot be written.
        LedgerError: the ledger does not verify or cannot be used.
    """
    desk = desk_of(ledger)
    pages = {"index.html": desk_html(desk)}
    for one in desk.datasets:
        drawn = burndowns(ledger.history(one.dataset), ledger.identity, one.dataset)
        pages[f"datasets/{one.dataset}.html"] = dataset_html(one, drawn, desk.at)
    return [write_whole(folder / name, text) for name, text in pages.items()]
