"""`causalveil replicate evidence`: every experiment of the five papers on one page, printed numbers beside ours.

Reads the tables that the replications wrote, computes nothing. An item that nobody makes yet is listed as missing.
"""

from __future__ import annotations

from pathlib import Path

from causalveil.flows.papers.figures import markdown_table
from causalveil.flows.papers.items import ERRORS, Beside, Item, Paper, read
from causalveil.flows.papers.kusner2016.items import KUSNER
from causalveil.flows.papers.lee2019.items import LEE_SCORES, LEE_WEIGHTING
from causalveil.flows.papers.schroeder2025.items import SCHROEDER
from causalveil.flows.papers.yuan2026.items import YUAN

PAPERS: tuple[Paper, ...] = (LEE_WEIGHTING, LEE_SCORES, YUAN, SCHROEDER, KUSNER)
MISSING = "missing"


def parts(tables: Path) -> list[str]:
    """The page, from the folder of tables."""
    rows = {paper: [_row(item, read(item, tables)) for item in paper.items] for paper in PAPERS}
    everything = [row for of_paper in rows.values() for row in of_paper]
    missing = sum(row["agreement"].startswith(MISSING) for row in everything)
    return [
        "# The papers' experiments beside ours",
        f"{len(everything)} items of five papers; {'1 is' if missing == 1 else f'{missing} are'} missing. "
        "Made by `causalveil replicate evidence --out docs/evidence.md` "
        "from the tables in `docs/figures/`; a test holds this page to them. "
        f"*Agree*: no number is further from the printed one than {ERRORS:g} standard errors of the difference, "
        "counting the runs of both sides. Where numbers differ the reason is given, and where a figure prints no "
        "numbers it says what ours shows. Data that are not shipped are named by each command, with where they come "
        "from; nothing is downloaded.",
        *(
            part
            for paper in PAPERS
            for part in (
                f"## {paper.citation}",
                _link(paper, tables),
                markdown_table(rows[paper]),
            )
        ),
    ]


def _link(paper: Paper, tables: Path) -> str:
    made = (tables / paper.page).is_file()
    return f"Page: [{paper.page}](figures/{paper.page})." if made else "No page yet."


def agreement(item: Item, found: Beside) -> str:
    """What is to be said of an item."""
    if item.proved:
        return item.proved
    if not found.ours:
        return f"{MISSING}: {item.reason}"
    if not found.complete:
        return f"{MISSING} in part: {item.reason or 'the table lacks rows'}"
    if not item.printed:
        return item.reason
    if not found.apart:
        return f"no error to be had: {item.reason}"
    largest = max(map(abs, found.apart))
    if not found.beyond:
        return f"agree; largest distance {largest:.1f} errors" + (f" ({item.reason})" if item.reason else "")
    return f"{found.beyond} of {len(found.apart)} differ: {item.reason}"


def _row(item: Item, found: Beside) -> dict[str, str]:
    return {
        "item": item.name,
        "printed": " ".join(format(number, item.form) for number in item.printed) or "-",
        "ours": " ".join(format(number, item.form) for number in found.ours) or "-",
        "agreement": agreement(item, found),
        "command": f"`{item.command}`" if item.command else "-",
    }
